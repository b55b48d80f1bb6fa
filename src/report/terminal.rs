//! A campaign on a terminal, at most 100 columns wide.

use crate::lettering::{self, legible};
use crate::report::quantity::{between, count, fraction, latency, percent, percentile, rate};
use crate::report::{
    arrivals, connections, curves, failure, fitness, goals, intervals, lengths, overview, server, sessions, soak,
    steady,
};
use crate::rundir::run_json::{
    Cell, Distribution, Requests, RunJson, ServerActivity, Throughput, Verdict, VerdictKind, Window,
};
use crate::rundir::window::{Load, LoadModel};

/// Widest line.
pub const WIDEST: usize = 100;
/// Narrowest that the table fits in.
pub const NARROWEST: usize = 72;

const SHOWN: [&str; 4] = ["p50", "p90", "p95", "p99"];
const LABEL: usize = 13;
/// Widest name of a load in the overview.
const LOAD: usize = 28;
/// Most curves that are told on a screen.
const CURVES: usize = 6;
/// Most rows of the overview of a report in short.
const ROWS: usize = 40;
/// Most windows that a report in short tells one by one.
const WINDOWS: usize = 24;
/// Most turns in a table by turn, in full and in short.
const TURNS: [usize; 2] = [16, 6];
/// Where there are more, those in which something went wrong are, at most so many.
const WRONG: usize = 8;

/// The report of a whole campaign. `width` is that of the terminal; `color` switches ANSI attributes on.
pub fn render(run: &RunJson, width: usize, color: bool) -> String {
    let mut paper = Paper::new(width, color);
    paper.title(run);
    paper.totals(run);
    paper.overview(run);
    for cell in &run.cells {
        paper.cell(cell);
    }
    paper.over_load(run);
    paper.close(run);
    paper.text
}

/// The same in short: all of the campaign and, of each window, what became of its requests, gross, tare and net of ttft and
/// gap, throughput, and everything that is withheld, flagged or failed. With many windows those in which nothing went
/// wrong stand in the overview only, and what is left out is said.
pub fn summary(run: &RunJson, width: usize, color: bool) -> String {
    let mut paper = Paper::new(width, color);
    let told = Told::of(run);
    paper.title(run);
    paper.totals(run);
    paper.overview_of(run, &told);
    for cell in &run.cells {
        paper.cell_in_short(cell, &told);
    }
    paper.line(Tone::Plain, "");
    paper.paragraph(Tone::Quiet, "", "", &told.left_out());
    paper.over_load(run);
    paper.close(run);
    paper.text
}

/// Which windows a report in short tells of.
struct Told {
    all: usize,
    /// Load point and window of those in which something went wrong.
    wrong: Vec<(u32, u32)>,
}

impl Told {
    fn of(run: &RunJson) -> Told {
        let windows = || run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |window| (cell.cell, window)));
        let went_wrong = |(cell, window): &(u32, &Window)| {
            let of_it =
                |v: &&crate::rundir::run_json::RunVerdict| v.cell == Some(*cell) && v.window == Some(window.window);
            let r = &window.requests;
            window.interrupted || r.failed + r.censored + r.not_sent > 0 || run.verdicts.iter().any(|v| of_it(&v))
        };
        let wrong = windows().filter(went_wrong).map(|(cell, window)| (cell, window.window)).collect();
        Told { all: windows().count(), wrong }
    }

    /// In a block of its own.
    fn has_block(&self, cell: u32, window: u32) -> bool {
        self.all <= WINDOWS || self.wrong.iter().take(WRONG).any(|w| *w == (cell, window))
    }

    /// In the overview, where it is row `at`: those in which something went wrong, and others evenly over the rest.
    fn has_row(&self, at: usize, cell: u32, window: u32) -> bool {
        let others = ROWS.saturating_sub(self.wrong.len().min(ROWS / 2));
        let step = self.all.div_ceil(others.max(1));
        self.all <= ROWS
            || at.is_multiple_of(step)
            || at + 1 == self.all
            || self.wrong.iter().take(ROWS / 2).any(|w| *w == (cell, window))
    }

    /// What stands elsewhere.
    fn left_out(&self) -> String {
        let rest = "each window's tpot, e2e, lengths, workers, server and steadiness: tarebench report --details, or report.md";
        if self.all <= WINDOWS {
            return rest.to_owned();
        }
        let wrong = self.wrong.len();
        let told = match wrong {
            0 => "in none of them did a request fail or a gate close, and none is told one by one".to_owned(),
            n if n <= WRONG => format!("those in which something went wrong ({}) are told above", count(n as u64)),
            n => format!("of the {} in which something went wrong the first {WRONG} are told above", count(n as u64)),
        };
        format!("{} windows: {told}; {rest}", count(self.all as u64))
    }
}

/// In place of a report that is refused: why, and what became of the requests.
pub fn refused(run: &RunJson, refusal: &str, width: usize, color: bool) -> String {
    let mut paper = Paper::new(width, color);
    paper.title(run);
    paper.line(Tone::Plain, "");
    paper.note(refusal);
    for cell in &run.cells {
        paper.line(Tone::Plain, "");
        paper.line(Tone::Strong, &load(&cell.load));
        for window in &cell.windows {
            paper.window_head(window);
        }
    }
    paper.run_verdicts(run);
    paper.text
}

/// Lines as they go to a terminal.
pub(super) struct Paper {
    pub(super) text: String,
    pub(super) width: usize,
    color: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Tone {
    Plain,
    Strong,
    Quiet,
    Alarm,
}

impl Paper {
    pub(super) fn new(width: usize, color: bool) -> Paper {
        Paper { text: String::new(), width: width.clamp(NARROWEST, WIDEST), color }
    }

    fn title(&mut self, run: &RunJson) {
        let name = run.run_id.as_deref().unwrap_or("no run id");
        self.paragraph(Tone::Strong, "tarebench  ", "    ", name);
        if !run.labels.is_empty() {
            self.labels(&run.labels);
        }
        let started = run.started_at.as_deref().unwrap_or("start unknown");
        let state = if run.complete { "complete" } else { "NOT COMPLETE" };
        let plan = run.plan_hash.as_deref().map_or("unknown", |hash| hash.get(..12).unwrap_or(hash));
        self.paragraph(Tone::Quiet, "", "  ", &format!("{started}   {state}   plan {plan}"));
    }

    /// What became of the requests of the whole campaign: failures stand before every figure.
    fn totals(&mut self, run: &RunJson) {
        let mut sum = Requests::default();
        for r in run.cells.iter().flat_map(|cell| &cell.windows).map(|window| &window.requests) {
            sum.add(r);
        }
        if sum.due > 0 {
            let tone = if sum.failed + sum.censored + sum.not_sent > 0 { Tone::Alarm } else { Tone::Plain };
            self.line(Tone::Plain, "");
            self.entry(tone, "requests", &requests(&sum));
            self.failures(&sum);
        }
    }

    /// Loads and windows side by side, before each of them in full.
    fn overview(&mut self, run: &RunJson) {
        let rows = overview::rows(run);
        self.rows(run, &rows);
    }

    /// The same with what of it is told, and in words what is not.
    fn overview_of(&mut self, run: &RunJson, told: &Told) {
        let places = run.cells.iter().flat_map(|cell| cell.windows.iter().map(move |w| (cell.cell, w.window)));
        let all = overview::rows(run).into_iter().zip(places).enumerate();
        let rows: Vec<[String; 10]> = all
            .filter(|(at, (_, (cell, window)))| told.has_row(*at, *cell, *window))
            .map(|(_, (row, _))| row)
            .collect();
        self.rows(run, &rows);
        if rows.len() < told.all {
            let (shown, all, wrong) = (rows.len() as u64, told.all as u64, told.wrong.len() as u64);
            let wrong = match told.wrong.len() {
                0 => "something went wrong in none".to_owned(),
                n if n <= ROWS / 2 => format!("those in which something went wrong ({}) are among them", count(wrong)),
                _ => format!(
                    "of the {} in which something went wrong the first {} are among them",
                    count(wrong),
                    ROWS / 2
                ),
            };
            let folded = format!("{} rows of {}, evenly spaced; {wrong}. All: report.md", count(shown), count(all));
            self.paragraph(Tone::Alarm, "", "", &folded);
        }
    }

    fn rows(&mut self, run: &RunJson, rows: &[[String; 10]]) {
        if rows.is_empty() {
            return;
        }
        // a load may have a long course of its own
        let longest = rows.iter().map(|row| lettering::width(&row[0])).max().unwrap_or(0).min(LOAD);
        let widths = overview::widths(self.width, longest);
        let head = overview::COLUMNS.map(str::to_owned);
        self.line(Tone::Plain, "");
        for (tone, cells) in [(Tone::Quiet, &head)].into_iter().chain(rows.iter().map(|row| (Tone::Plain, row))) {
            let mut line = String::new();
            for (i, (cell, width)) in cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| *width > 0) {
                let cell = legible(cell);
                line.push_str(&match i {
                    0 => lettering::left(&lettering::shortened(&cell, longest.max(10)), width),
                    _ => lettering::right(&cell, width),
                });
            }
            self.line(tone, line.trim_end());
        }
        self.paragraph(Tone::Quiet, "", "", &overview::clock(run));
    }

    fn labels(&mut self, labels: &[String]) {
        let mut line = String::new();
        for label in labels {
            let label = legible(label);
            if !line.is_empty() && lettering::width(&line) + 3 + lettering::width(&label) > self.width {
                self.line(Tone::Alarm, &line);
                line.clear();
            }
            line.push_str(if line.is_empty() { "" } else { " | " });
            line.push_str(&label);
        }
        self.line(Tone::Alarm, &line);
    }

    fn cell(&mut self, cell: &Cell) {
        self.line(Tone::Plain, "");
        self.heading(cell);
        for window in &cell.windows {
            self.window(window, &cell.load);
        }
        self.noise(cell);
    }

    fn heading(&mut self, cell: &Cell) {
        let heading = load(&cell.load);
        match self.width.checked_sub(lettering::width(&legible(&heading)) + 1) {
            Some(rest) => self.line(Tone::Strong, &format!("{heading} {}", "-".repeat(rest))),
            None => self.paragraph(Tone::Strong, "", "    ", &heading),
        }
    }

    fn cell_in_short(&mut self, cell: &Cell, told: &Told) {
        let shown: Vec<&Window> = cell.windows.iter().filter(|w| told.has_block(cell.cell, w.window)).collect();
        if shown.is_empty() {
            return;
        }
        self.line(Tone::Plain, "");
        self.heading(cell);
        shown.into_iter().for_each(|window| self.window_in_short(window, &cell.load));
        self.noise(cell);
    }

    /// What became of it, its percentiles, and all that a reader must know of them.
    fn window_in_short(&mut self, window: &Window, load: &Load) {
        self.window_head(window);
        let cells = SHOWN.map(|p| self.right(p)).concat();
        self.line(Tone::Quiet, &format!("  {:LABEL$}{:6}{cells}", "", ""));
        let m = &window.metrics;
        self.metric("ttft", [m.ttft.gross.as_ref(), m.ttft.tare.as_ref(), m.ttft.net.as_ref()]);
        self.due(m.ttft.due.as_ref(), load);
        let between = gap_name(window);
        self.metric(between, [m.gap.gross.as_ref(), m.gap.tare.as_ref(), m.gap.net.as_ref()]);
        if load.model != LoadModel::Closed {
            self.single("lateness", m.lateness.as_ref());
        }
        self.without_interval(&["ttft", between], window, load);
        self.calibrated(window);
        self.sessions(window, TURNS[1]);
        fitness::withheld(window, load.model != LoadModel::Closed, fitness::ON_SCREEN)
            .iter()
            .for_each(|t| self.note(t));
        let t = &window.throughput;
        let whole = if t.from_s.is_none() { "   (no time at full concurrency)" } else { "" };
        let [output, total] = [t.output_tokens_per_s, t.total_tokens_per_s].map(rate);
        let requests = rate(t.requests_per_s);
        self.entry(
            Tone::Strong,
            "throughput",
            &format!("{output} output tokens/s   {total} total   {requests} requests/s{whole}"),
        );
        if let Some(amount) = arrivals::facts(window).first().filter(|facts| !facts.is_empty()) {
            self.entry(Tone::Plain, "arrivals", &amount.join("   "));
        }
        self.rates(window);
        self.goals(window);
        self.failure(window);
        let worst = window.client.workers.iter().filter_map(|w| w.worst_5s).reduce(f64::max);
        let worst =
            worst.map_or_else(String::new, |share| format!("   busiest worker, worst 5 s {}", fraction(Some(share))));
        let cpu = fraction(window.client.cpu_per_wall);
        self.entry(Tone::Plain, "client", &format!("CPU {cpu} per wall{worst}   gates {}", fitness::counts(window)));
        // somebody else's requests, or a server that began anew
        let odd = |s: &ServerActivity| s.requests_beyond_ours.is_some_and(|n| n > 0) || !s.resets.is_empty();
        if let Some(words) = window.server.as_ref().filter(|s| odd(s)).map(server::words).filter(|w| !w.is_empty()) {
            self.entry(Tone::Alarm, "server", &words);
        }
        if steady::is_remarkable(window) {
            self.entry(Tone::Alarm, "steady", &steady::line(window));
        }
        self.soak(window);
        lengths::remarks(window).into_iter().chain(connections::words(window)).for_each(|text| self.note(&text));
        self.verdicts(window);
    }

    /// Of a window that is long enough.
    fn soak(&mut self, window: &Window) {
        let tone = if soak::is_remarkable(window) { Tone::Alarm } else { Tone::Plain };
        if let Some(line) = soak::line(window) {
            self.entry(tone, "SOAK", &line);
        }
    }

    /// Length and counts, what failed in front.
    fn window_head(&mut self, window: &Window) {
        let cut = if window.interrupted { "   INTERRUPTED" } else { "" };
        self.line(Tone::Plain, "");
        self.line(Tone::Strong, &format!("window {}   {:.2} s{cut}", window.window, window.duration_s));
        let tone = if window.requests.failed + window.requests.censored > 0 { Tone::Alarm } else { Tone::Plain };
        self.entry(tone, "requests", &requests(&window.requests));
        self.failures(&window.requests);
    }

    fn window(&mut self, window: &Window, load: &Load) {
        self.window_head(window);
        self.table(window, load);
        self.throughput(&window.throughput, window);
        self.rates(window);
        self.sessions(window, TURNS[0]);
        self.arrivals(window);
        self.lengths(window);
        self.goals(window);
        self.failure(window);
        self.server(window);
        self.client(window);
        self.entry(Tone::Plain, "steady", &steady::line(window));
        self.soak(window);
        self.first_requests(window);
        self.verdicts(window);
    }

    fn failures(&mut self, requests: &Requests) {
        let list = |counts: &std::collections::BTreeMap<String, u64>| {
            counts.iter().map(|(class, n)| format!("{class} {}", count(*n))).collect::<Vec<_>>().join(", ")
        };
        if !requests.by_error.is_empty() {
            self.entry(Tone::Alarm, "failed", &list(&requests.by_error));
        }
        if !requests.not_sent_reasons.is_empty() {
            self.entry(Tone::Alarm, "not sent", &list(&requests.not_sent_reasons));
        }
    }

    fn table(&mut self, window: &Window, load: &Load) {
        self.line(Tone::Plain, "");
        let cells = SHOWN.map(|p| self.right(p)).concat();
        self.line(Tone::Quiet, &format!("  {:LABEL$}{:6}{cells}", "", ""));
        let m = &window.metrics;
        let between = gap_name(window);
        self.metric("ttft", [m.ttft.gross.as_ref(), m.ttft.tare.as_ref(), m.ttft.net.as_ref()]);
        self.due(m.ttft.due.as_ref(), load);
        self.metric(between, [m.gap.gross.as_ref(), m.gap.tare.as_ref(), m.gap.net.as_ref()]);
        self.metric("tpot", [m.tpot.gross.as_ref(), m.tpot.tare.as_ref(), m.tpot.net.as_ref()]);
        self.metric("e2e", [m.e2e.gross.as_ref(), m.e2e.tare.as_ref(), m.e2e.net.as_ref()]);
        self.due(m.e2e.due.as_ref(), load);
        self.single("lateness", m.lateness.as_ref());
        self.without_interval(&["ttft", between, "tpot", "e2e", "lateness"], window, load);
        self.calibrated(window);
        self.line(Tone::Plain, "");
        let withheld = fitness::withheld(window, load.model != LoadModel::Closed, fitness::ON_SCREEN);
        withheld.iter().for_each(|text| self.note(text));
        if !withheld.is_empty() {
            self.line(Tone::Plain, "");
        }
    }

    /// What a calibration of this host adds: the tare at this event rate, and bounds where net was not measured.
    fn calibrated(&mut self, window: &Window) {
        if let Some(text) = fitness::calibrated_tare(window) {
            self.paragraph(Tone::Quiet, "  ", "    ", &text);
        }
        let bounded = fitness::calibrated_net(window);
        if !bounded.is_empty() {
            self.line(Tone::Strong, "  net (calibrated bounds), upload included");
        }
        for (metric, net) in bounded {
            let mut parts: Vec<String> = fitness::corrected_mean(net).into_iter().collect();
            let percentiles = fitness::bounded(net).into_iter();
            parts.extend(percentiles.filter_map(|(name, ends)| Some(format!("{name} {}", between(ends?)))));
            self.entry(Tone::Strong, metric, &parts.join("   "));
        }
    }

    fn metric(&mut self, name: &str, columns: [Option<&Distribution>; 3]) {
        if columns.iter().all(Option::is_none) {
            self.row(Tone::Quiet, name, "gross", None);
            return;
        }
        let names = [(name, "gross", Tone::Plain), ("", "tare", Tone::Quiet), ("", "net", Tone::Strong)];
        for ((metric, column, tone), values) in names.into_iter().zip(columns) {
            self.row(tone, metric, column, values);
            // tare is of these very requests: it claims nothing of others
            if column != "tare" {
                self.intervals(values);
            }
        }
    }

    /// The 95 % intervals under their percentiles; in a narrow terminal, in a line of their own.
    fn intervals(&mut self, values: Option<&Distribution>) {
        let texts = SHOWN.map(|p| intervals::interval(values, p));
        if texts.iter().all(Option::is_none) {
            return;
        }
        let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() < self.cell_width());
        if texts.iter().all(fits) {
            let cells = texts.map(|text| self.right(text.as_deref().unwrap_or_default())).concat();
            return self.line(Tone::Quiet, &format!("  {:LABEL$}{:6}{cells}", "", "95 %"));
        }
        let named = SHOWN.iter().zip(texts).filter_map(|(p, text)| Some(format!("{p} {}", text?)));
        self.entry(Tone::Quiet, "", &format!("95 %   {}", named.collect::<Vec<_>>().join("   ")));
    }

    /// Which percentiles of the table have no interval; it shows `metrics`.
    fn without_interval(&mut self, metrics: &[&str], window: &Window, load: &Load) {
        let m = &window.metrics;
        let mut table = Vec::new();
        for (name, columns) in [("ttft", &m.ttft), ("e2e", &m.e2e)] {
            let due = columns.due.as_ref().filter(|_| load.model != LoadModel::Closed);
            table.extend([columns.gross.as_ref(), columns.net.as_ref(), due].map(|column| (name, column)));
        }
        for (name, columns) in [(gap_name(window), &m.gap), ("tpot", &m.tpot)] {
            table.extend([columns.gross.as_ref(), columns.net.as_ref()].map(|column| (name, column)));
        }
        table.push(("lateness", m.lateness.as_ref()));
        table.retain(|(name, _)| metrics.contains(name));
        if let Some(text) = intervals::lacking(&table, &SHOWN) {
            self.paragraph(Tone::Quiet, "  ", "    ", &text);
        }
    }

    /// From due, where that differs from gross in meaning.
    fn due(&mut self, values: Option<&Distribution>, load: &Load) {
        if load.model != LoadModel::Closed {
            self.row(Tone::Plain, "", "due", values);
            self.intervals(values);
        }
    }

    fn single(&mut self, name: &str, values: Option<&Distribution>) {
        self.row(Tone::Quiet, name, "", values);
    }

    fn row(&mut self, tone: Tone, metric: &str, column: &str, values: Option<&Distribution>) {
        let cells = SHOWN.map(|p| self.right(&percentile(values, p))).concat();
        self.line(tone, &format!("  {metric:LABEL$}{column:6}{cells}"));
    }

    /// Throughput is never printed without latency beside it.
    fn throughput(&mut self, t: &Throughput, window: &Window) {
        let p = |name| percentile(window.metrics.ttft.gross.as_ref(), name);
        let gap = percentile(window.metrics.gap.gross.as_ref(), "p99");
        let beside = format!("at ttft p50 {}, p99 {}, gap p99 {gap}", p("p50"), p("p99"));
        let output = rate(t.output_tokens_per_s);
        self.entry(
            Tone::Strong,
            "tokens/s",
            &format!("{output} output   {} total   {beside}", rate(t.total_tokens_per_s)),
        );
        let bounds = match (t.from_s, t.to_s) {
            (Some(from), Some(to)) => format!("both over {from:.2}..{to:.2} s"),
            _ => "no time at full concurrency".into(),
        };
        let whole = rate(t.whole.output_tokens_per_s);
        self.entry(
            Tone::Plain,
            "requests/s",
            &format!("{}   {bounds}   whole window {whole} tokens/s", rate(t.requests_per_s)),
        );
    }

    fn rates(&mut self, window: &Window) {
        let f = &window.in_flight;
        let p95 = f.p95.map_or_else(|| "-".into(), count);
        let full = sessions::full(window);
        let gap = if full.is_empty() { "" } else { "   " };
        self.entry(
            Tone::Plain,
            "in flight",
            &format!("mean {}   p95 {p95}   max {}{gap}{full}", rate(f.mean), count(f.max)),
        );
    }

    /// Conversations or chains: how many, how long, and turn by turn.
    fn sessions(&mut self, window: &Window, most: usize) {
        let Some(found) = &window.sessions else { return };
        self.line(Tone::Plain, "");
        let tone = if sessions::any_lost(found) { Tone::Alarm } else { Tone::Plain };
        self.entry(tone, &sessions::noun(found.kind).to_uppercase(), &sessions::counts(found));
        sessions::lost(found).into_iter().for_each(|text| self.entry(Tone::Alarm, "", &text));
        sessions::reasoning(&found.counts.left_out).into_iter().for_each(|text| self.entry(Tone::Plain, "", &text));
        self.entry(Tone::Plain, "at once", &sessions::at_once(found));
        let cells = SHOWN.map(|p| self.right(p)).concat();
        self.line(Tone::Quiet, &format!("  {:LABEL$}{:6}{cells}", "", ""));
        let mut last = "";
        for (name, column, values) in sessions::times(found) {
            let tone = match column {
                "net" => Tone::Strong,
                "tare" => Tone::Quiet,
                _ => Tone::Plain,
            };
            self.row(tone, if name == last { "" } else { name }, column, values);
            if column != "tare" && name != "turnaround" {
                self.intervals(values);
            }
            last = name;
        }
        sessions::lacking(found).into_iter().for_each(|text| self.paragraph(Tone::Quiet, "  ", "    ", &text));
        self.paragraph(Tone::Quiet, "  ", "    ", sessions::reading(found.kind));
        self.by_turn(found, most);
        self.line(Tone::Plain, "");
    }

    fn by_turn(&mut self, found: &crate::rundir::sessions::Sessions, most: usize) {
        let (rows, left_out) = sessions::told(found, most);
        let mut widths = [5, 9, 9, 9, 11, 11, 11, 11, 10, 11];
        for out in [7, 5, 8, 9] {
            if widths.iter().sum::<usize>() + 2 > self.width {
                widths[out] = 0;
            }
        }
        let head = sessions::by_turn(found.kind).map(str::to_owned);
        let line = |cells: &[String; 10]| {
            let shown = cells.iter().zip(widths).filter(|(_, width)| *width > 0);
            format!("  {}", shown.map(|(cell, width)| lettering::right(cell, width)).collect::<String>())
        };
        self.line(Tone::Quiet, &line(&head));
        for turn in &rows {
            self.line(Tone::Plain, &line(&sessions::row(turn)));
        }
        sessions::mark(&rows).into_iter().for_each(|text| self.paragraph(Tone::Quiet, "  ", "    ", text));
        if left_out > 0 {
            let turns = sessions::parts(found.kind, left_out as u64);
            let text = format!("{} {turns} between them: report.md", count(left_out as u64));
            self.paragraph(Tone::Alarm, "  ", "    ", &text);
        }
    }

    /// What was asked of the schedule, offered and sent, and how well it was timed.
    fn arrivals(&mut self, window: &Window) {
        for (i, facts) in arrivals::facts(window).into_iter().enumerate().filter(|(_, facts)| !facts.is_empty()) {
            self.entry(Tone::Plain, if i == 0 { "arrivals" } else { "" }, &facts.join("   "));
        }
    }

    /// Realised beside those asked for, class by class.
    fn lengths(&mut self, window: &Window) {
        for (i, facts) in lengths::facts(window).into_iter().enumerate() {
            self.entry(Tone::Plain, if i == 0 { "lengths" } else { "" }, &facts.join("   "));
        }
        lengths::remarks(window).into_iter().chain(connections::words(window)).for_each(|text| self.note(&text));
    }

    /// What was fixed before the run, against what came of it.
    fn goals(&mut self, window: &Window) {
        for (sentence, passed) in window.goals.iter().flat_map(goals::sentences) {
            let tone = if passed { Tone::Plain } else { Tone::Alarm };
            self.entry(tone, "goal", &sentence);
        }
    }

    /// What was done on purpose, and what it did.
    fn failure(&mut self, window: &Window) {
        for (i, sentence) in window.failure.iter().flat_map(failure::sentences).enumerate() {
            let tone = if sentence.alarm { Tone::Alarm } else { Tone::Plain };
            self.entry(tone, if i == 0 { "FAILURE" } else { "" }, &sentence.text);
        }
    }

    /// Its own counters, where it serves them.
    fn server(&mut self, window: &Window) {
        let words = window.server.as_ref().map(server::words).unwrap_or_default();
        if !words.is_empty() {
            self.entry(Tone::Plain, "server", &words);
        }
    }

    fn client(&mut self, window: &Window) {
        let client = &window.client;
        self.entry(Tone::Plain, "client CPU", &format!("process {} per wall", fraction(client.cpu_per_wall)));
        for w in &client.workers {
            let core = w.core.map_or_else(|| "unpinned".into(), |core| format!("core {core}"));
            let load = format!("{}   worst 5 s {}", fraction(w.cpu_per_wall), fraction(w.worst_5s));
            let waits = format!("busy {}   run queue {}", fraction(w.busy), percent(w.run_delay_share));
            self.entry(Tone::Plain, "", &format!("worker {} ({core}) {load}   {waits}", w.worker));
            let bursts = w.bursts.map(|b| {
                let (p999, longest) = (latency(b.drain_p999_ms), latency(b.drain_max_ms));
                format!("burst drain p99.9 {p999}   longest {longest}   busiest {} events", count(b.busiest))
            });
            let read = w.read_delay_p99_ms.map(|ms| format!("read p99 {} late", latency(ms)));
            let steal = w.steal.filter(|s| *s > 0.0).map(|s| format!("steal {}", percent(Some(s))));
            let more: Vec<String> = read.into_iter().chain(bursts).chain(steal).collect();
            if !more.is_empty() {
                self.entry(Tone::Plain, "", &more.join("   "));
            }
        }
        self.entry(Tone::Plain, "gates", &fitness::counts(window));
    }

    /// Slow first calls are shown, not removed.
    fn first_requests(&mut self, window: &Window) {
        let known = window.first_requests.iter().filter_map(|r| Some((r.trace_id, r.ttft_gross_ms?)));
        let known: Vec<(u64, f64)> = known.collect();
        let slowest = known.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        if let (Some((id, first)), Some((slow_id, slowest))) = (known.first(), slowest) {
            let first =
                format!("id {id} {}   slowest of {}: id {slow_id} {}", latency(*first), known.len(), latency(*slowest));
            self.entry(Tone::Plain, "first ttft", &first);
        }
    }

    /// What the table cannot show: intervals stand in its cells already.
    fn verdicts(&mut self, window: &Window) {
        fitness::flagged(window, fitness::ON_SCREEN).into_iter().for_each(|text| self.note(&text));
        let others = window.verdicts.iter().filter(|v| !fitness::is_of_gate(window, v));
        let (bounds, rest): (Vec<&Verdict>, Vec<&Verdict>) =
            others.partition(|v| v.kind == VerdictKind::Flag && v.percentile.is_some());
        // a percentile that is withheld for its width stands as such in its cell
        let of_whole = |v: &&&Verdict| v.percentile.is_none() && !v.metric.contains(['/', '@']);
        for v in rest.iter().filter(of_whole) {
            let about = [v.metric.as_str(), v.column.as_str()].map(|p| if p == "*" { "" } else { p });
            let about = about.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join(" ");
            self.note(&if about.is_empty() { v.text.clone() } else { format!("{about}: {}", v.text) });
        }
        fitness::too_wide(window).into_iter().for_each(|text| self.note(&text));
        let m = &window.metrics;
        let columns = [
            ("ttft", "gross", &m.ttft.gross, "ttft"),
            ("ttft", "due", &m.ttft.due, "ttft from due"),
            ("e2e", "gross", &m.e2e.gross, "e2e"),
            ("e2e", "due", &m.e2e.due, "e2e from due"),
        ];
        for (metric, column, printed, name) in columns {
            // a bound below the figure in the table says nothing
            let higher = |v: &&&Verdict| {
                let printed = printed.as_ref().and_then(|d| d.percentile(v.percentile.as_deref()?));
                v.metric == metric && v.column == column && v.figure > printed
            };
            let bound = |v: &&Verdict| Some(format!("{} {}", v.percentile.as_deref()?, latency(v.figure?)));
            let list: Vec<String> = bounds.iter().filter(higher).filter_map(bound).collect();
            if !list.is_empty() {
                let bounds = list.join(", ");
                self.note(&format!("{name}, with those counted as long as they were waited for: at least {bounds}"));
            }
        }
    }

    fn noise(&mut self, cell: &Cell) {
        if cell.windows.len() < 2 {
            return;
        }
        self.line(Tone::Plain, "");
        let mut list = Vec::new();
        let of = |metric: &str, column: &str| cell.noise.get(metric)?.get(column).filter(|gaps| gaps.p50.is_some());
        // where gross is withheld in all windows but one, net says how far apart they are
        let column = if of("ttft", "gross").is_none() && of("ttft", "net").is_some() { "net" } else { "gross" };
        for metric in ["ttft", "gap", "tpot", "e2e"] {
            let found = of(metric, column);
            if let Some(gaps) = found {
                let p99 = gaps.p99.map_or_else(String::new, |gap| format!(" p99 {}", percent(Some(gap))));
                list.push(format!("{metric} p50 {}{p99}", percent(gaps.p50)));
            }
        }
        if list.is_empty() {
            self.entry(Tone::Plain, "noise", "not known: fewer than two windows have figures");
            return;
        }
        self.entry(Tone::Plain, "noise", &list.join("   "));
        let how = format!("largest gap between two windows, {column}: what is smaller is no finding");
        self.entry(Tone::Quiet, "", &how);
    }

    /// Percentiles that turn back as the load grows, the first few; or that none does. Those that turn within their
    /// intervals are a number.
    fn over_load(&mut self, run: &RunJson) {
        let headline = curves::headline(run);
        let (within, turning): (Vec<_>, Vec<_>) =
            curves::turning(&headline).into_iter().partition(|curve| curve.intervals_overlap == Some(true));
        if headline.is_empty() {
            return;
        }
        self.line(Tone::Plain, "");
        if let Some(text) = curves::none_turns(&headline) {
            self.entry(Tone::Plain, "over load", &text);
        }
        turning.iter().take(CURVES).for_each(|curve| self.note(&curve.text));
        if let Some(more) = turning.len().checked_sub(CURVES).filter(|more| *more > 0) {
            self.note(&format!("{more} more percentiles over load are not monotone, see report.md"));
        }
        if !within.is_empty() {
            let text = match within.len() {
                1 => "1 percentile turns back within its 95 % intervals (a monotone curve fits too): report.md has it"
                    .into(),
                n => format!(
                    "{n} percentiles turn back within their 95 % intervals (a monotone curve fits too): report.md has them"
                ),
            };
            self.entry(Tone::Quiet, "over load", &text);
        }
    }

    fn close(&mut self, run: &RunJson) {
        self.line(Tone::Plain, "");
        let before = self.text.len();
        self.run_verdicts(run);
        if run.cells.is_empty() {
            self.note("no window was closed: there is nothing to report");
            return;
        }
        if self.text.len() > before {
            self.line(Tone::Plain, "");
        }
        self.reading(run);
    }

    fn run_verdicts(&mut self, run: &RunJson) {
        // what concerns one window was said there
        for v in run
            .verdicts
            .iter()
            .filter(|v| !["failed", "interrupted"].contains(&v.kind.as_str()) && !fitness::is_of_calibration(&v.kind))
        {
            let place = match (v.cell, v.window) {
                (Some(cell), Some(window)) => format!("cell {cell}, window {window}: "),
                _ => String::new(),
            };
            self.note(&format!("{place}{}", v.text));
        }
    }

    /// How to read the table.
    fn reading(&mut self, run: &RunJson) {
        let (calibration, as_it_should_be) = fitness::calibration(run);
        self.paragraph(if as_it_should_be { Tone::Quiet } else { Tone::Alarm }, "", "", &calibration);
        let gap = "gross is what the client saw, tare the harness's own share of it, net the server and the network. They \
                   add up request by request (with upload), so percentiles of the columns do not add up.";
        self.paragraph(Tone::Quiet, "", "", gap);
        let signed = "For gap and tpot tare is signed: a late read lengthens one gap and shortens the next.";
        self.paragraph(Tone::Quiet, "", "", signed);
        let windows = || run.cells.iter().flat_map(|cell| &cell.windows);
        let known = |column: Option<&Distribution>| column.is_some_and(|d| !d.ci_ms.is_empty());
        if windows().any(|w| w.metrics.columns().into_iter().any(|(_, _, column)| known(column))) {
            let interval = "95 % is where the percentile lies, as far as so many values tell: by exact ranks; for gap, \
                            where those of one request hang together, by drawing requests again.";
            self.paragraph(Tone::Quiet, "", "", interval);
        }
        if windows().any(|w| !w.lengths.is_empty()) {
            let lengths = "Lengths are tokens: the median, and smallest..largest where they differ.";
            self.paragraph(Tone::Quiet, "", "", lengths);
        }
        if windows().filter_map(|w| w.arrivals.as_ref()).any(|a| a.anderson_darling.is_some()) {
            let law = "Anderson-Darling: p planned tests what was drawn and is below .01 in 1 of 100 schedules by chance; p \
                       sent tests what the client made of it.";
            self.paragraph(Tone::Quiet, "", "", law);
        }
        if windows().flat_map(|w| &w.verdicts).any(|v| v.kind == VerdictKind::Both) {
            let both = "a..b is a net figure that the kernel's stamps only bound: it lies between the two.";
            self.paragraph(Tone::Quiet, "", "", both);
        }
    }

    fn note(&mut self, text: &str) {
        self.paragraph(Tone::Alarm, "  ! ", "    ", text);
    }

    fn entry(&mut self, tone: Tone, name: &str, text: &str) {
        let lead = format!("  {name:LABEL$}");
        let rest = " ".repeat(lead.len());
        self.paragraph(tone, &lead, &rest, text);
    }

    fn right(&self, text: &str) -> String {
        format!("{text:>cell$}", cell = self.cell_width())
    }

    fn cell_width(&self) -> usize {
        (self.width - 2 - LABEL - 6) / SHOWN.len()
    }

    /// Breaks between facts (three spaces) where there are some, else between words, and a word that no line holds
    /// anywhere.
    pub(super) fn paragraph(&mut self, tone: Tone, first: &str, rest: &str, text: &str) {
        let text = legible(text);
        let between = if text.contains("   ") { "   " } else { " " };
        let mut line = first.to_string();
        let mut bare = true;
        let room = self.width.saturating_sub(lettering::width(rest)).max(1);
        for part in text.split(between) {
            // a fact that is wider than a line is broken as words are
            let whole = lettering::width(part) <= room;
            let words: Vec<String> = match whole {
                true => vec![part.to_owned()],
                false => part.split(' ').flat_map(|word| lettering::pieces(word, room)).collect(),
            };
            for (place, word) in words.into_iter().enumerate() {
                let gap = if place == 0 { between } else { " " };
                let taken = lettering::width(&line) + if bare { 0 } else { gap.len() };
                let fits = taken + lettering::width(&word) <= self.width;
                let holds_nothing = line.trim().is_empty() || (bare && line == rest);
                if !fits && !holds_nothing {
                    self.line(tone, &line);
                    line = rest.to_string();
                } else if !bare {
                    line.push_str(gap);
                }
                line.push_str(&word);
                bare = false;
            }
        }
        self.line(tone, &line);
    }

    /// One line; what of it does not fit goes on below.
    pub(super) fn line(&mut self, tone: Tone, text: &str) {
        // what a file says must not steer the terminal
        let text = legible(text.trim_end());
        if lettering::width(&text) <= self.width {
            return self.fitting(tone, &text);
        }
        lettering::pieces(&text, self.width).iter().for_each(|piece| self.fitting(tone, piece));
    }

    fn fitting(&mut self, tone: Tone, text: &str) {
        let code = match tone {
            Tone::Plain => "",
            Tone::Strong => "\x1b[1m",
            Tone::Quiet => "\x1b[2m",
            Tone::Alarm => "\x1b[33m",
        };
        if self.color && !code.is_empty() && !text.is_empty() {
            self.text.push_str(&format!("{code}{text}\x1b[0m\n"));
        } else {
            self.text.push_str(text);
            self.text.push('\n');
        }
    }
}

/// What a gap is between.
fn gap_name(window: &Window) -> &'static str {
    if window.one_token_per_event == Some(false) { "gap (chunks)" } else { "gap" }
}

/// A load in words: `closed loop, 8 at once`, `open loop, 10.5 requests/s (ramp: 1 to 20 requests/s in 60 s)`.
pub fn load(load: &Load) -> String {
    if let Some(of_sessions) = sessions::of_load(load) {
        let model = if load.model == LoadModel::Closed { "closed" } else { "open" };
        return format!("{model} loop, {of_sessions}");
    }
    let cap = load.concurrency.map_or_else(String::new, |c| format!(", at most {} at once", count(u64::from(c))));
    let course = load.arrivals.as_ref().map_or_else(String::new, |words| format!(" ({words})"));
    match (load.model, load.rate) {
        (LoadModel::Closed, _) => {
            format!("closed loop, {} at once", load.concurrency.map_or_else(|| "?".into(), |c| count(u64::from(c))))
        }
        (LoadModel::Open, Some(per_s)) => format!("open loop, {} requests/s{course}{cap}", rate(Some(per_s))),
        (LoadModel::Open, None) => format!("open loop, all at once{course}{cap}"),
        (LoadModel::Trace, None) => format!("captured trace{course}{cap}"),
        (LoadModel::Trace, per_s) => format!("captured trace, mean {} requests/s{course}{cap}", rate(per_s)),
    }
}

/// Counts in one line, what went wrong in front.
pub fn requests(r: &Requests) -> String {
    let mut parts = Vec::new();
    let bad = [(r.failed, "FAILED"), (r.censored, "CENSORED"), (r.not_sent, "NOT SENT")];
    parts.extend(bad.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{} {name}", count(*n))));
    let dropped = format!("{} warm-up", count(r.dropped));
    parts.extend([
        format!("{} due", count(r.due)),
        dropped,
        format!("{} kept", count(r.kept)),
        format!("{} ok", count(r.ok)),
    ]);
    let none = bad[..2].iter().filter(|(n, _)| *n == 0).map(|(_, name)| format!("0 {}", name.to_lowercase()));
    parts.extend(none);
    parts.join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::{MS, Specimen, calibration};
    use crate::rundir::row::Stamp;

    fn text(width: usize, color: bool) -> String {
        shown(Specimen::two_windows(), width, color)
    }

    fn shown(mut specimen: Specimen, width: usize, color: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        render(&crate::analysis::summary::summarise(dir.path()).unwrap(), width, color)
    }

    #[test]
    fn a_campaign_looks_as_it_did() {
        let text = shown(Specimen::campaign(), 100, false);
        assert!(text == include_str!("snapshots/campaign.txt"), "now:\n{text}");
    }

    #[test]
    fn what_gates_withhold_is_told_in_one_line() {
        let mut specimen = Specimen::calm(12);
        specimen.use_up("worker-0", (4, 5), 73 * MS, |row| row.run_delay_ns.as_mut());
        specimen.use_up("worker-0", (0, 5), 760 * MS, |row| Some(&mut row.cpu_ns));
        let text = shown(specimen, 100, false);
        let lines = [
            "  ttft         gross            withheld           withheld           withheld           withheld",
            "  ! gross withheld: worker 0 waited for its core 7.3 % of its worst second (0 involuntary switches;",
            "    void above 5.0 %)",
            "  gates        9 ok   1 flagged   1 VOID",
            "  ! flagged: worker 0 used 76 % of its core (flagged above 70 %)",
        ];
        for line in lines {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
        assert!(text.contains("net               5.00 ms"), "net stays:\n{text}");
        assert!(
            text.contains("5.00 ms*") && text.contains("; * net, from the wire (< at most)"),
            "and stands in:\n{text}"
        );
        assert_eq!(text.matches("waited for its core").count(), 1, "once:\n{text}");
    }

    #[test]
    fn widths_that_withhold_are_told_in_one_line() {
        let mut specimen = Specimen::calm(12);
        for row in &mut specimen.windows[0].1 {
            row.first_token = row.first_token.map(|s| Stamp { arrived_lo: s.arrived.map(|t| t - 2 * MS), ..s });
        }
        let text = shown(specimen, 100, false);
        let told = "  ! net withheld where the stamps bound it too widely: ttft p50 p90 p95 p99";
        assert_eq!(text.lines().filter(|l| l.contains("too widely")).collect::<Vec<_>>(), [told]);
    }

    #[test]
    fn the_calibration_stands_beside_what_was_measured() {
        // 25 events/s in each
        let with = |rate: f64, placement: &str, base_url: &str| {
            let mut specimen = Specimen::calm(12);
            specimen.plan["base_url"] = base_url.into();
            specimen.plan["calibration"] = calibration();
            specimen.plan["calibration"]["tare"][0]["events_per_s"] = rate.into();
            specimen.plan["calibration"]["placement"] = placement.into();
            shown(specimen, 100, false).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (here, there) = ("http://127.0.0.1:1", "http://10.0.0.2:1");
        let text = with(25.0, "loopback", here);
        let tare = "calibrated tare: mean 20.0 us, p50 20.0 us, p99 20.0 us at 25.0 events/s, calibrated over loopback";
        assert!(text.contains(tare) && !text.contains("NIC"), "{text}");
        assert!(text.contains(" calibration c1 of 2026-01-01, calibrated over loopback gross"), "{text}");
        let text = with(10.0, "loopback", there);
        assert!(text.contains("mean 20.0..100 us") && text.contains("events/s (this window: 25.0)"), "{text}");
        assert!(text.contains("2026-01-01, calibrated over loopback: NIC and driver are not in it"), "{text}");
        let text = with(30.0, there, there);
        assert!(text.contains("the lowest calibrated: this window, at 25.0, is below it"), "{text}");
        assert_eq!(text.matches("calibrated against the mock at http://10.0.0.2:1").count(), 2, "{text}");

        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = calibration();
        specimen.plan["calibration"]["unreadable"] = serde_json::json!(["x/calibration.json: it is no file"]);
        let text = shown(specimen, 100, false);
        assert!(text.contains("some cannot be read: x/calibration.json"), "{text}");
        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = calibration();
        specimen.plan["calibration"]["tare"][0]["mean_us"] = 1e300.into();
        let text = shown(specimen, 100, false);
        assert_eq!(text.matches("cannot be right and was not used").count(), 1, "{text}");

        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = calibration();
        specimen.plan["calibration"]["matches"] = false.into();
        specimen.plan["calibration"]["differences"] = serde_json::json!(["kernel: calibrated 6.17, here 6.18"]);
        let text = shown(specimen, 100, false);
        let line =
            "calibration c1 of 2026-01-01 is not of this configuration and was not used: kernel: calibrated 6.17,";
        assert!(text.contains(line) && !text.contains("calibrated tare"), "{text}");

        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = serde_json::json!({"none": "run tarebench calibrate"});
        let text = shown(specimen, 100, false);
        assert!(text.contains("\nno calibration: run tarebench calibrate\n"), "{text}");
    }

    /// However much else is flagged.
    #[test]
    fn beyond_the_calibrated_limit_stands_first() {
        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = calibration();
        specimen.plan["calibration"]["limits"]["requests_per_s"]["value"] = 1.into();
        specimen.use_up("worker-0", (0, 12), 760 * MS, |row| Some(&mut row.cpu_ns));
        specimen.use_up("process", (0, 12), 860 * MS, |row| Some(&mut row.cpu_ns));
        specimen.use_up("worker-0", (4, 5), 20 * MS, |row| row.run_delay_ns.as_mut());
        let text = shown(specimen, 100, false);
        assert!(text.contains("  ! flagged: requests/s are at "), "{text}");
        assert!(text.contains("and 2 more, see"), "{text}");
    }

    #[test]
    fn without_stamps_net_has_bounds() {
        let mut specimen = Specimen::calm(12);
        specimen.plan["calibration"] = calibration();
        specimen.plan["calibration"]["tare"][0]["events_per_s"] = 25.0.into();
        for row in &mut specimen.windows[0].1 {
            (row.stamps, row.wire_out) = (crate::rundir::row::StampSource::User, None);
            row.chunks.iter_mut().for_each(|c| (c.1, c.2) = (None, None));
        }
        let text = shown(specimen, 100, false);
        let lines = [
            "  net (calibrated bounds), upload included",
            "  ttft         mean 5.01 ms +/- 0.00 us   p50 5.01..5.01 ms   p90 5.01..5.01 ms   p95 5.01..5.01 ms",
        ];
        for line in lines {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
        assert!(text.contains("not known (burst_drain, read_delay, net_width, stamps_missing)"), "{text}");
    }

    #[test]
    fn it_fits_the_terminal() {
        for width in [40, 72, 80, 100, 200] {
            let widest = text(width, false).lines().map(|l| l.chars().count()).max();
            assert!(widest <= Some(width.clamp(NARROWEST, WIDEST)), "{width}: {widest:?}");
        }
    }

    #[test]
    fn colour_changes_no_character() {
        let plain = text(100, false);
        let mut colored = text(100, true);
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m"] {
            colored = colored.replace(code, "");
        }
        assert!(!plain.contains('\x1b'));
        assert_eq!(colored, plain);
    }

    #[test]
    fn failures_stand_in_front() {
        let text = text(100, false);
        let line = text.lines().find(|l| l.contains("requests ")).unwrap();
        assert!(line.starts_with("  requests     2 FAILED"), "those of the campaign: {line}");
        assert!(text.contains("transport 1"));
        assert!(text.contains("do not add up"));
    }
}
