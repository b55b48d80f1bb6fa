(function () {
  'use strict';
  var doc = document, root = doc.documentElement;
  function all(what, within) { return Array.prototype.slice.call((within || doc).querySelectorAll(what)); }
  var tools = doc.getElementById('tools');
  if (tools) tools.hidden = false;
  root.classList.add('js');

  var theme = doc.getElementById('theme');
  if (theme) theme.addEventListener('click', function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });
  all('#tools input').forEach(function (box) {
    function set() { root.classList.toggle('no-' + box.value, !box.checked); }
    box.addEventListener('change', set);
    set();
  });

  // a figure is read by pointer or arrow keys: the row of its table that lies nearest is said
  all('figure').forEach(function (figure) {
    var plot = figure.querySelector('.plot'), svg = plot && plot.querySelector('svg'), read = figure.querySelector('.read');
    var rows = all('tr[data-x]', figure), heads = all('thead th', figure), along = plot && plot.hasAttribute('data-y');
    if (!svg || !read || !rows.length) return;
    rows = rows.map(function (row) { return { row: row, at: +row.dataset.x }; }).sort(function (a, b) { return a.at - b.at; });
    var cross = doc.createElementNS(svg.namespaceURI, 'path'), box = svg.viewBox.baseVal, now = -1;
    cross.setAttribute('class', 'cross');
    plot.tabIndex = 0;
    plot.setAttribute('role', 'group');
    plot.setAttribute('aria-label', 'Picture; arrow keys read its figures');
    function leave() {
      if (now >= 0) rows[now].row.classList.remove('on');
      now = -1;
      read.textContent = '';
      cross.remove();
    }
    function show(i) {
      i = Math.max(0, Math.min(rows.length - 1, i));
      if (i === now) return;
      leave();
      now = i;
      var cells = all('th,td', rows[i].row);
      rows[i].row.classList.add('on');
      read.textContent = cells.map(function (cell, k) {
        var head = heads[k] ? heads[k].textContent.trim() : '';
        return getComputedStyle(cell).display === 'none' ? '' : (head ? head + ' ' : '') + cell.textContent.trim();
      }).filter(Boolean).join('   |   ');
      cross.setAttribute('d', along ? 'M0 ' + rows[i].at + 'H' + box.width : 'M' + rows[i].at + ' 24V' + box.height);
      svg.appendChild(cross);
    }
    svg.addEventListener('pointermove', function (event) {
      var r = svg.getBoundingClientRect();
      var at = along ? (event.clientY - r.top) / r.height * box.height : (event.clientX - r.left) / r.width * box.width;
      var best = 0;
      rows.forEach(function (row, i) { if (Math.abs(row.at - at) < Math.abs(rows[best].at - at)) best = i; });
      show(best);
    });
    svg.addEventListener('pointerleave', leave);
    plot.addEventListener('blur', leave);
    plot.addEventListener('keydown', function (event) {
      var step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === 'Escape') leave();
      if (!step) return;
      event.preventDefault();
      show(now < 0 ? (step === 1e9 ? 1e9 : 0) : now + step);
    });
  });

  // latencies sort by time, whatever their unit; what is no figure comes last
  function value(cell) {
    var text = cell ? cell.textContent.trim().replace(/,/g, '') : '';
    var found = /^<?(-?[\d.]+)(?:\.\.[\d.]+)?\*?(?: ?(us|ms|s|%))?/.exec(text);
    if (!found || /^n</.test(text)) return null;
    return parseFloat(found[1]) * ({ us: 1e-3, s: 1e3 }[found[2]] || 1);
  }
  all('table.sort').forEach(function (table) {
    var body = table.tBodies[0];
    all('thead th', table).forEach(function (head, k) {
      head.dataset.sort = '';
      head.tabIndex = 0;
      function sort() {
        var down = head.getAttribute('aria-sort') === 'ascending';
        all('thead th', table).forEach(function (h) { h.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        Array.prototype.slice.call(body.rows).map(function (row) { return { row: row, v: value(row.cells[k]), t: row.cells[k].textContent }; })
          .sort(function (a, b) {
            if (a.v === null || b.v === null) return a.v === b.v ? a.t.localeCompare(b.t) * (down ? -1 : 1) : a.v === null ? 1 : -1;
            return (a.v - b.v) * (down ? -1 : 1);
          }).forEach(function (r) { body.appendChild(r.row); });
      }
      head.addEventListener('click', sort);
      head.addEventListener('keydown', function (event) {
        if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); sort(); }
      });
    });
  });

  // browsers that cannot show closed details on paper by style alone
  var opened = [];
  addEventListener('beforeprint', function () {
    opened = all('details:not([open])');
    opened.forEach(function (d) { d.open = true; });
  });
  addEventListener('afterprint', function () { opened.forEach(function (d) { d.open = false; }); });
})();
