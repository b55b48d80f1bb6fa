// node look.mjs PICTURES PAGE.html...: see scripts/check-pages.
import { chromium } from 'playwright-core';
import { pathToFileURL } from 'node:url';
import { basename, dirname, join } from 'node:path';

const SMALLEST_TEXT_PX = 9;
const LEAST_CONTRAST = 4.5;
const LOOKS = [
  { name: '1280-light', width: 1280, scheme: 'light', script: true },
  { name: '1280-dark', width: 1280, scheme: 'dark', script: true },
  { name: '1280-no-script', width: 1280, scheme: 'light', script: false },
  { name: '400-light', width: 400, scheme: 'light', script: true },
  { name: '400-dark', width: 400, scheme: 'dark', script: false },
];

const [pictures, ...pages] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
let faults = 0;
const fault = (where, what) => {
  faults += 1;
  console.log(`FAULT ${where}: ${what}`);
};

// What can be told of a page from inside: runs in the browser.
const inspect = ([smallest, contrast]) => {
  const rgb = (css) => {
    const numbers = css.match(/[\d.]+/g);
    return numbers ? numbers.map(Number) : [0, 0, 0, 0];
  };
  const luminance = ([r, g, b]) => {
    const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const over = (top, bottom) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * a + bottom[i] * (1 - a));
  };
  const canvas = getComputedStyle(document.documentElement).colorScheme.includes('dark')
    && matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.unshift(rgb(getComputedStyle(e).backgroundColor));
    return layers.reduce((below, layer) => over(layer, below), canvas);
  };
  for (const d of document.querySelectorAll('details')) d.open = true;
  const found = { small: [], faint: [], wide: [] };
  const words = (e) => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join(' ').trim();
  for (const e of document.querySelectorAll('body *')) {
    const text = words(e);
    if (!text || e.closest('script,style,title,desc,[hidden]')) continue;
    const box = e.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue; // hidden, or for screen readers only
    const style = getComputedStyle(e);
    if (style.visibility === 'hidden' || style.opacity === '0') continue;
    const svg = e instanceof SVGElement;
    const scale = svg && e.ownerSVGElement ? Math.abs(e.getScreenCTM()?.a || 1) : 1;
    const turned = svg && e.getScreenCTM()?.b;
    const size = parseFloat(style.fontSize) * (turned ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : scale);
    if (size < smallest) found.small.push(`${size.toFixed(1)} px: ${text.slice(0, 40)}`);
    const ink = rgb(svg ? style.fill : style.color);
    const paper = ground(svg ? e.ownerSVGElement : e);
    if (style.fill === 'none' && svg) continue;
    const [a, b] = [luminance(over(ink, paper)), luminance(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < contrast) found.faint.push(`${ratio.toFixed(1)}: ${text.slice(0, 40)}`);
  }
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) {
    const right = root.clientWidth + 1;
    const inside = (e) => { for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== 'visible') return true; return false; };
    const guilty = [...document.querySelectorAll('body *')].find((e) => e.getBoundingClientRect().right > right && !inside(e));
    found.wide.push(`${root.scrollWidth} px of ${root.clientWidth}${guilty ? `, by <${guilty.tagName.toLowerCase()} class="${guilty.getAttribute('class') || ''}">` : ''}`);
  }
  const unnamed = (svg) => svg.getAttribute('aria-hidden') !== 'true' && !svg.querySelector('title') && !svg.getAttribute('aria-label');
  return {
    ...found,
    words: document.body.innerText.split(/\s+/).filter(Boolean).length,
    headings: [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1])),
    figures: document.querySelectorAll('figure').length,
    unnamed: [...document.querySelectorAll('svg')].filter(unnamed).length,
  };
};

for (const page of pages) {
  const of = `${basename(dirname(page))}-${basename(page, '.html')}`;
  const words = {};
  for (const look of LOOKS) {
    const where = `${of} ${look.name}`;
    const context = await browser.newContext({ viewport: { width: look.width, height: 900 }, colorScheme: look.scheme, javaScriptEnabled: look.script });
    const tab = await context.newPage();
    const url = pathToFileURL(page).href;
    tab.on('request', (r) => { if (r.url() !== url && !r.url().startsWith('data:')) fault(where, `asks for ${r.url()}`); });
    tab.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warning') fault(where, `logs: ${m.text()}`); });
    tab.on('pageerror', (e) => fault(where, `script fails: ${e.message}`));
    tab.on('dialog', (d) => { fault(where, `opens a dialog: ${d.message()}`); d.dismiss(); });
    await tab.goto(url);
    await tab.screenshot({ path: join(pictures, `${of}-${look.name}.png`), fullPage: true });
    const found = await tab.evaluate(inspect, [SMALLEST_TEXT_PX, LEAST_CONTRAST]);
    words[look.script] = found.words;
    const told = (kind, list) => list.length && fault(where, `${kind} (${list.length}): ${[...new Set(list)].slice(0, 4).join('; ')}`);
    told('text too small', found.small);
    told('text too faint', found.faint);
    told('scrolls sideways', found.wide);
    if (found.unnamed) fault(where, `${found.unnamed} pictures without a text alternative`);
    const skip = found.headings.findIndex((level, i) => i > 0 && level > found.headings[i - 1] + 1);
    if (skip > 0) fault(where, `heading ${skip + 1} skips a level`);
    console.log(`${where}: ${found.words} words, ${found.figures} figures`);
    await context.close();
  }
  if (words.false < words.true * 0.98) fault(of, `without JavaScript ${words.false} words are readable, with it ${words.true}`);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const tab = await context.newPage();
  await tab.goto(pathToFileURL(page).href);
  await tab.pdf({ path: join(pictures, `${of}.pdf`), format: 'A4', printBackground: false });
  await context.close();
}
await browser.close();
console.log(faults ? `${faults} faults` : 'no faults');
process.exit(faults ? 1 : 0);
