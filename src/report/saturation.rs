//! A search for the highest load that meets the goals: its windows as a table, the named points in words.

use crate::analysis::saturation::growth::Growth;
use crate::analysis::saturation::search::{Answer, End, Purpose};
use crate::cli::saturate::Over;
use crate::lettering::legible;
use crate::reading::printable;
use crate::report::quantity::{count, latency, percent, percentile, rate, stretch};
use crate::rundir::run_json::Distribution;
use crate::rundir::window::SessionKind;
use crate::saturate::document::{Cost, Document, Optimum};
use crate::saturate::settings::Settings;
use crate::saturate::window::{Figures, Percentiles};
use std::fmt::Write;
use std::path::Path;

/// Columns of the table.
pub(super) const COLUMNS: [&str; 11] =
    ["load", "offered", "achieved", "ok/s", "ttft p50", "p95", "p99", "tpot p50", "share", "95 % interval", "answer"];
/// Their widths on a terminal; the last one is as wide as it is.
const WIDTHS: [usize; 10] = [8, 8, 9, 7, 10, 10, 10, 9, 6, 14];
/// Widest line.
const WIDEST: usize = 100;
/// How far lines below one of the table stand in.
const INDENT: usize = 8;

/// What is to be done, before the first window. `sessions` are those of a window, where requests are turns of them.
pub fn announcement(settings: &Settings, sessions: Option<u64>, dir: &Path) -> String {
    format!(
        "saturate  {}: the highest at which {}; windows of {} and {} s at least; at most {} windows and {} s; \
         every file goes to {}",
        raised(settings),
        goals(settings),
        match sessions {
            Some(1) => "1 session".to_owned(),
            Some(n) => format!("{} sessions", count(n)),
            None => format!("{} requests", count(settings.num_prompts)),
        },
        settings.step_duration_s,
        settings.bounds.max_steps,
        settings.budget_s,
        dir.display()
    )
}

/// The goals in words.
pub(super) fn goals(settings: &Settings) -> String {
    let asked = &settings.goals;
    let limits: Vec<String> = asked.request.iter().map(|(m, ms)| format!("{} {}", m.name(), latency(*ms))).collect();
    let request = format!("{} of requests keep to {}", percent(Some(asked.share)), limits.join(", "));
    let request = Some(request).filter(|_| !limits.is_empty());
    let window = asked.window.iter().map(|(figure, limit)| {
        let bound = if figure.is_at_least() { "at least" } else { "at most" };
        format!("{figure} is {bound} {limit}")
    });
    request.into_iter().chain(window).collect::<Vec<_>>().join(", and ")
}

/// The head of the table.
pub fn heading(settings: &Settings) -> String {
    let ttft = match settings.over {
        Over::Rate => "from due",
        Over::Concurrency => "gross",
    };
    let mut above: [String; 11] = std::array::from_fn(|_| String::new());
    (above[4], above[8]) = (format!("ttft {ttft}"), "%".to_owned());
    let mut names = COLUMNS.map(str::to_owned);
    names[4] = "p50".to_owned();
    // the words above may be wider than their column: the empty one before it gives way
    let mut widths = WIDTHS;
    widths[3] -= above[4].len().saturating_sub(WIDTHS[4]).min(WIDTHS[3]);
    widths[4] = WIDTHS[3] + WIDTHS[4] - widths[3];
    format!("{}\n{}", row(&above, &widths).trim_end(), row(&names, &WIDTHS))
}

/// A window as a line of the table; with more lines where there is more to say.
pub fn line(figures: &Figures) -> String {
    let mut text = row(&cells(figures), &WIDTHS);
    let growth = figures.over_saturated.as_ref().map(over_saturated);
    let client = figures.client.iter().map(|words| format!("client: {}", printable(words, None)));
    for words in growth.into_iter().chain(client) {
        text += &format!("\n{}", filled(&" ".repeat(INDENT), &words));
    }
    text
}

fn row(cells: &[String; 11], widths: &[usize; 10]) -> String {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let _ = write!(text, "{cell:>width$}");
    }
    let _ = write!(text, "  {}", cells[10]);
    text
}

/// A window's cells under [`COLUMNS`].
pub(super) fn cells(f: &Figures) -> [String; 11] {
    let at_least = |words: String| match f.over_saturated {
        Some(_) if words.ends_with('s') && words != "-" => format!(">{words}"),
        _ => words,
    };
    let of = |column: &Percentiles, name: &str| {
        let found = Distribution {
            n: column.n,
            p50_ms: column.p50_ms,
            p95_ms: column.p95_ms,
            p99_ms: column.p99_ms,
            ..Distribution::default()
        };
        at_least(percentile((column.n > 0).then_some(&found), name))
    };
    let hundredth = |share: f64| format!("{:.2}", share * 100.0);
    [
        f.load.map_or_else(|| "one".to_owned(), load),
        rate(f.offered_rps),
        rate(f.achieved_rps),
        rate(f.requests_per_s),
        of(&f.ttft, "p50"),
        of(&f.ttft, "p95"),
        of(&f.ttft, "p99"),
        of(&f.tpot, "p50"),
        f.goodput.map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s * 100.0)),
        f.goodput_ci.map_or_else(|| "-".to_owned(), |[low, high]| format!("{}..{}", hundredth(low), hundredth(high))),
        answer(f),
    ]
}

/// A load in as many digits as it has.
fn load(load: f64) -> String {
    format!("{load}")
}

fn answer(f: &Figures) -> String {
    let first = f.purpose == Some(Purpose::OneAtATime);
    match &f.answer {
        // too few requests by design
        Answer::Unclear if first => "start".to_owned(),
        Answer::Meets => "meets".to_owned(),
        Answer::Misses => "misses".to_owned(),
        Answer::OverSaturated => "over".to_owned(),
        Answer::Unclear => "open".to_owned(),
        Answer::Client(_) => "client".to_owned(),
    }
}

/// That a load is more than the server can do, with the figures that say so.
pub fn over_saturated(g: &Growth) -> String {
    format!(
        "over-saturated: from {:.1} to {:.1} s in flight {}, {} a second more (at least {}, p {:.1e}); {} of {} \
         requests/s finished",
        g.from_s,
        g.to_s,
        stretch(count(g.in_flight_from), count(g.in_flight_to)),
        rate(Some(g.slope_per_s)),
        rate(Some(g.slope_lo_per_s)),
        g.p,
        rate(Some(g.finished_per_s)),
        rate(Some(g.offered_per_s)),
    )
}

/// The whole of it for a terminal.
pub fn render(document: &Document) -> String {
    let mut text = whom(document).map_or_else(String::new, |words| words + "\n") + &heading(&document.settings) + "\n";
    for figures in &document.steps {
        text += &(line(figures) + "\n");
    }
    text + &findings(document)
}

/// Whom it asked, and the labels of its runs; None: no window was run.
fn whom(document: &Document) -> Option<String> {
    let server = printable(document.server.as_deref()?, None);
    let model = document.model.as_deref().map_or_else(String::new, |m| format!(", model {}", printable(m, None)));
    let labels: String = document.labels.iter().map(|label| format!(" | {}", printable(label, None))).collect();
    Some(legible(&format!("{server}{model}{labels}")).into_owned())
}

/// What comes after the windows of the search, which were shown as they were run: those at shares of the optimum, and
/// what was found.
pub fn findings(document: &Document) -> String {
    let mut text = String::new();
    for figures in &document.points {
        text += &(line(figures) + "\n");
    }
    text.push('\n');
    if !document.labels.is_empty() {
        text += &wrapped(&format!("labels: {}", printable(&document.labels.join(" | "), None)));
    }
    for sentence in sentences(document) {
        text += &wrapped(&sentence);
    }
    text
}

/// A sentence with its name in front.
fn wrapped(sentence: &str) -> String {
    let (name, words) = sentence.split_once(": ").unwrap_or(("", sentence));
    filled(&format!("{name:<12}"), words) + "\n"
}

/// Words after a first column, at most [`WIDEST`] wide; further lines stand under the first word.
fn filled(first: &str, words: &str) -> String {
    let (mut text, mut at) = (first.to_owned(), first.len());
    for word in words.split(' ') {
        if at > first.len() && at + word.len() + 1 > WIDEST {
            text += &format!("\n{}", " ".repeat(first.len()));
            at = first.len();
        } else if at > first.len() {
            text.push(' ');
            at += 1;
        }
        text += word;
        at += word.len();
    }
    text
}

/// What was found, in sentences that begin with a name.
pub(super) fn sentences(document: &Document) -> Vec<String> {
    let unit = unit(document);
    let mut all = Vec::new();
    all.push(match &document.optimum {
        Some(found) => optimum(document, found, unit),
        None => format!("optimum: none: no load is known to meet the goals ({})", goals(&document.settings)),
    });
    if let Some([meets, misses]) = document.not_monotone {
        all.push(format!(
            "NOT MONOTONE: {} {unit} meet the goals, but {} below it miss them: the optimum is the highest load below the \
             first that misses them, and says little of this server",
            load(meets),
            load(misses)
        ));
    }
    all.push(match &document.saturation {
        Some(found) if found.plateau => format!(
            "saturation: {} ok requests/s, from {} {unit} on; {} give less than 5 % more",
            rate(Some(found.requests_per_s)),
            load(found.load),
            found.further.iter().map(|l| load(*l)).collect::<Vec<_>>().join(" and ")
        ),
        Some(found) => format!(
            "saturation: at least {} ok requests/s, at {} {unit}; no plateau was reached",
            rate(Some(found.requests_per_s)),
            load(found.load)
        ),
        None => "saturation: not known: no window gave a throughput".to_owned(),
    });
    all.push(match &document.knee {
        Some(knee) => {
            let side = |l: Option<f64>, none: &str| l.map_or_else(|| none.to_owned(), load);
            let near = match knee.near.map(load) {
                [low, high] if low == high => format!("{low} alone has"),
                [low, high] => format!("{low} to {high} have"),
            };
            format!(
                "knee: {} {unit}: the largest throughput / mean time ({} requests/s over s) of the loads tried; {near} 95 % of \
                 it, and the next that were tried are {} and {}",
                load(knee.load),
                rate(Some(knee.power)),
                side(knee.between[0], "none below"),
                side(knee.between[1], "none above")
            )
        }
        None => "knee: not known: no load has a throughput and a time".to_owned(),
    });
    all.extend(document.cost.as_ref().map(cost));
    all.extend(document.client_above.as_ref().map(|words| {
        format!("client: it ended above {}, the server did not: {}", highest(document), printable(words, None))
    }));
    all.push(ended(document));
    all
}

fn highest(document: &Document) -> String {
    let fit = document.steps.iter().filter(|f| !matches!(f.answer, Answer::Client(_))).filter_map(|f| f.load);
    load(fit.fold(0.0, f64::max))
}

fn optimum(document: &Document, found: &Optimum, unit: &str) -> String {
    let at = load(found.load);
    let windows = windows(found.windows);
    let met = format!("optimum: {at} {unit} meet the goals in {windows}");
    let open = match &found.open_at[..] {
        [] => String::new(),
        loads => format!("; left open at {}", loads.iter().map(|l| load(*l)).collect::<Vec<_>>().join(", ")),
    };
    let missed = found.missed_at.map_or_else(
        || "; no load is known to miss them, so that it is at least that".to_owned(),
        |bad| format!("; {} miss them", load(bad)),
    );
    let said = if document.conclusive { "" } else { " (INCONCLUSIVE)" };
    let done = found.requests_per_s.map_or_else(String::new, |per_s| {
        let tokens =
            found.output_tokens_per_s.map_or_else(String::new, |t| format!(", {} output tokens/s", rate(Some(t))));
        format!("; {} ok requests/s{tokens} there", rate(Some(per_s)))
    });
    format!("{met}{open}{missed}{said}{done}")
}

fn windows(n: u64) -> String {
    if n == 1 { "1 window".to_owned() } else { format!("{} windows", count(n)) }
}

fn cost(cost: &Cost) -> String {
    let unit = cost.price.unit();
    let of = |per_million: Option<f64>| match per_million {
        Some(amount) => format!("cost {amount:.4}{unit}"),
        None => "have no known cost".to_owned(),
    };
    format!(
        "cost: at the optimum and {} as declared, a million output tokens {}, a million tokens with prompts {}",
        cost.price.words(),
        of(cost.per_million_output_tokens),
        of(cost.per_million_total_tokens),
    )
}

fn ended(document: &Document) -> String {
    let windows = windows(document.steps.len() as u64);
    let why = match &document.ended {
        End::Complete if document.conclusive => "everything that was sought was found".to_owned(),
        End::Complete => {
            "windows near the edge disagree, or leave it open with more requests too; longer ones may tell \
                          (--step-duration, --num-prompts)"
                .to_owned()
        }
        End::NoneMeets => "no load that was tried meets the goals, not even the lowest".to_owned(),
        End::AllMeet => format!("every load up to --to meets the goals; raise it above {}", highest(document)),
        End::Client(words) => {
            format!("the client ends above {}, the server does not: {}", highest(document), printable(words, None))
        }
        End::Steps => "--max-steps was reached".to_owned(),
        End::Budget => "--budget was used up".to_owned(),
        End::Interrupted => "it was interrupted".to_owned(),
        End::Failed(words) => format!("a window could not be run: {}", printable(words, None)),
    };
    format!("ended: after {windows}: {why}")
}

/// The whole of it as Markdown.
pub fn markdown(document: &Document) -> String {
    let mut text = format!(
        "# Saturation{}\n\n{}tarebench {}, started {}. Sought: the highest load ({}) at which {}.\n\n",
        if document.labels.is_empty() { String::new() } else { format!(" ({})", escaped(&document.labels.join(", "))) },
        whom(document).map_or_else(String::new, |words| format!("{}\n\n", escaped(&words))),
        document.tarebench,
        document.started_at,
        raised(&document.settings),
        goals(&document.settings)
    );
    for sentence in sentences(document) {
        let (name, words) = sentence.split_once(": ").unwrap_or(("", &sentence));
        let _ = writeln!(text, "- **{name}**: {}", escaped(words));
    }
    let _ = writeln!(text, "\n## Windows\n\n| {} | directory |", COLUMNS.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(COLUMNS.len() + 1));
    for figures in document.steps.iter().chain(&document.points) {
        let cells = cells(figures).map(|cell| escaped(&cell));
        let _ = writeln!(text, "| {} | {} |", cells.join(" | "), figures.dir);
    }
    let _ = writeln!(text, "\n{}\n", legend(&document.settings));
    let notes = notes(document);
    if !notes.is_empty() {
        let lines: Vec<String> = notes.iter().map(|(dir, words)| format!("- {dir}: {}", escaped(words))).collect();
        let _ = writeln!(text, "{}\n", lines.join("\n"));
    }
    text += "## Rules\n\n";
    for rule in document.definitions.values() {
        let _ = writeln!(text, "- {rule}");
    }
    text
}

/// What the table's words mean.
pub(super) fn legend(settings: &Settings) -> String {
    let ttft = match settings.over {
        Over::Rate => "from due",
        Over::Concurrency => "gross",
    };
    format!(
        "ttft is {ttft}, tpot gross. share: of the kept requests those that met the goals, in %. `one`: one request at a \
         time, to start from. `over` and `>`: the load is over-saturated, and latencies are lower bounds. `open`: the \
         interval straddles the goal. `client`: the client was not fit to measure it.{}",
        match settings.sessions {
            Some(_) => " Requests are turns of sessions and hang together: intervals of the share are too narrow.",
            None => "",
        }
    )
}

/// What there is to say of single windows, by their directory.
pub(super) fn notes(document: &Document) -> Vec<(&str, String)> {
    let of = |f: &'_ Figures| {
        let growth = f.over_saturated.as_ref().map(over_saturated);
        let client = f.client.iter().map(|words| format!("client: {}", printable(words, None)));
        growth.into_iter().chain(client).collect::<Vec<_>>()
    };
    let windows = document.steps.iter().chain(&document.points);
    windows.flat_map(|f| of(f).into_iter().map(|words| (f.dir.as_str(), words))).collect()
}

/// A load with its unit.
pub(super) fn at(document: &Document, at: f64) -> String {
    let unit = unit(document);
    let one = at == 1.0 && document.settings.over == Over::Concurrency;
    format!("{} {}", load(at), if one { unit.trim_end_matches('s') } else { unit })
}

fn unit(document: &Document) -> &'static str {
    match (document.settings.over, document.settings.sessions) {
        (Over::Rate, _) => "requests/s",
        (Over::Concurrency, None) => "in flight",
        (Over::Concurrency, Some(SessionKind::Chat)) => "users",
        (Over::Concurrency, Some(SessionKind::Chain)) => "agents",
    }
}

/// What is raised, and how it is sent.
pub(super) fn raised(settings: &Settings) -> &'static str {
    match (settings.over, settings.sessions) {
        (Over::Rate, _) => "requests/s, open loop",
        (Over::Concurrency, None) => "requests in flight, closed loop",
        (Over::Concurrency, Some(SessionKind::Chat)) => "users, each leading one conversation after another",
        (Over::Concurrency, Some(SessionKind::Chain)) => "agents, each at one task after another",
    }
}

fn escaped(words: &str) -> String {
    words.replace('|', "\\|")
}

#[cfg(test)]
pub(super) mod specimen;

#[cfg(test)]
mod tests {
    use super::specimen::{document, figures};
    use super::*;
    use crate::analysis::saturation::points::{Knee, Saturation};

    fn said(document: &Document, name: &str) -> String {
        let found = sentences(document).into_iter().find(|s| s.starts_with(name));
        found.unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn the_points_in_words() {
        let found = document();
        assert_eq!(
            said(&found, "optimum"),
            "optimum: 76.2 requests/s meet the goals in 2 windows; 79.1 miss them; 76.0 ok requests/s, 1,900 output \
             tokens/s there"
        );
        assert_eq!(
            said(&found, "saturation"),
            "saturation: 80.1 ok requests/s, from 79.1 requests/s on; 128 and 166.4 give less than 5 % more"
        );
        assert!(said(&found, "knee").contains("64 to 76.2 have 95 % of it"), "{}", said(&found, "knee"));
        let knee = Knee { near: [64.0, 64.0], ..found.knee.clone().expect("a knee") };
        let alone = Document { knee: Some(knee), ..document() };
        assert!(said(&alone, "knee").contains("tried; 64 alone has 95 % of it, and"), "{}", said(&alone, "knee"));
        assert_eq!(said(&found, "ended"), "ended: after 1 window: everything that was sought was found");
        assert!(render(&found).lines().all(|line| line.len() <= 100), "{}", render(&found));
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        let open = Document { conclusive: false, ..document() };
        assert!(said(&open, "optimum").contains("(INCONCLUSIVE)"));
        let client = Document { ended: End::Client("busy\u{1b}[2J 0.9".to_owned()), ..open };
        assert_eq!(
            said(&client, "ended"),
            "ended: after 1 window: the client ends above 64, the server does not: busy [2J 0.9"
        );
        let none = Document { optimum: None, saturation: None, knee: None, ended: End::NoneMeets, ..client };
        assert!(
            said(&none, "optimum").starts_with("optimum: none: no load is known to meet the goals (99.0 % of requests")
        );
        assert!(said(&none, "saturation").contains("not known") && said(&none, "knee").contains("not known"));
        let turns = Document { not_monotone: Some([128.0, 64.0]), ..none };
        assert!(said(&turns, "NOT MONOTONE").contains("128 requests/s meet the goals, but 64 below it miss them"));
        let bound = Saturation { requests_per_s: 64.0, load: 64.0, plateau: false, further: Vec::new() };
        let bound = Document { saturation: Some(bound), ..turns };
        assert!(said(&bound, "saturation").starts_with("saturation: at least 64.0 ok requests/s"));
    }

    #[test]
    fn figures_that_are_bounds_or_withheld_are_marked() {
        let growth = Growth {
            from_s: 2.0,
            to_s: 6.0,
            in_flight_from: 40,
            in_flight_to: 160,
            slope_per_s: 30.0,
            slope_lo_per_s: 28.0,
            p: 1.2e-6,
            offered_per_s: 128.0,
            finished_per_s: 80.0,
        };
        let flat = over_saturated(&Growth { in_flight_to: 40, ..growth });
        assert!(flat.contains("in flight 40, 30.0 a second more"), "{flat}");
        let over = Figures { over_saturated: Some(growth), ..figures(128.0, Answer::OverSaturated) };
        let text = line(&over);
        assert!(text.contains(">40.0 ms") && text.contains(">120.0 ms") && text.contains("withheld"), "{text}");
        assert!(text.contains("in flight 40 to 160") && text.contains("80.0 of 128"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDEST), "{text}");
        let void = Figures { client: vec!["busy | 0.9".to_owned()], ..figures(8.0, Answer::Client("busy".to_owned())) };
        assert!(line(&void).ends_with("client: busy | 0.9"));
        let page = markdown(&Document { steps: vec![over, void], ..document() });
        assert!(page.contains("- steps/00-climb-8: client: busy \\| 0.9") && page.contains("| >40.0 ms |"), "{page}");
    }

    #[test]
    fn a_million_tokens_at_the_optimum() {
        let price: crate::price::Price = "3.6 USD/h".parse().expect("a price");
        let at = Cost { price, per_million_output_tokens: Some(1.0), per_million_total_tokens: None };
        assert_eq!(
            cost(&at),
            "cost: at the optimum and 3.6 USD/h as declared, a million output tokens cost 1.0000 USD, a million tokens with \
             prompts have no known cost"
        );
    }
}
