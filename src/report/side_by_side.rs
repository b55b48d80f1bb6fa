//! Several campaigns side by side: what each was, in what their plans differ, and for each load their figures in columns.
//! It says nothing about what a difference is worth: that is for `compare`.

use std::path::Path;

use crate::analysis::comparison::arm::RunDocuments;
use crate::analysis::comparison::differences;
use crate::disclosure::boxes::Boxes;
use crate::lettering::{self, legible};
use crate::report::intervals;
use crate::report::markdown::cell_text;
use crate::report::quantity::{count, fraction, percentile, rate};
use crate::report::terminal::{self, Paper, Tone};
use crate::rundir::run_json::{Cell, Distribution, RunJson, Window};
use crate::rundir::window::{Load, LoadModel};
use serde_json::Value;

/// Fewest and most campaigns that stand side by side.
pub const CAMPAIGNS: std::ops::RangeInclusive<usize> = 2..=8;
/// Columns of the names of rows on a terminal.
const LABEL: usize = 22;
/// Campaigns in one block on a terminal: a percentile fits beside its interval.
const BLOCK: usize = 3;
const METRICS: [(&str, &[&str]); 3] =
    [("ttft", &["p50", "p95", "p99"]), ("gap", &["p50", "p99"]), ("e2e", &["p50", "p99"])];

/// One of them.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Its directory, as people named it.
    pub dir: String,
    /// Its figures, from its raw files.
    pub run: RunJson,
    /// Its plan.
    pub plan: Value,
    /// Its boxes: where one of the first three is empty, there are no figures.
    pub boxes: Boxes,
}

/// Whether they can stand side by side at all.
///
/// # Errors
/// In words: too few or too many, or one of them twice.
pub fn check(dirs: &[std::path::PathBuf]) -> Result<(), String> {
    if !CAMPAIGNS.contains(&dirs.len()) {
        let most = CAMPAIGNS.end();
        return Err(format!("{} directories: at most {most} campaigns stand side by side", dirs.len()));
    }
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    for (at, dir) in dirs.iter().enumerate() {
        if let Some(first) = dirs[..at].iter().find(|other| real(other) == real(dir)) {
            let (first, dir) = (first.display(), dir.display());
            return Err(format!("{first} and {dir} are the same directory: side by side they tell nothing"));
        }
    }
    Ok(())
}

/// The same of their runs, which may have been copied.
///
/// # Errors
/// In words: two are the same run.
pub fn check_runs(campaigns: &[Campaign]) -> Result<(), String> {
    for (at, this) in campaigns.iter().enumerate() {
        let same = |other: &&Campaign| this.run.run_id.is_some() && other.run.run_id == this.run.run_id;
        if let Some(first) = campaigns[..at].iter().find(same) {
            let id = this.run.run_id.as_deref().unwrap_or_default();
            return Err(format!("{} and {} are the same run ({id})", first.dir, this.dir));
        }
    }
    Ok(())
}

/// `A`, `B`, ..
pub fn name(place: usize) -> char {
    (b'A'..=b'Z').nth(place).map_or('?', char::from)
}

/// On a terminal, at most 100 columns wide.
pub fn terminal(campaigns: &[Campaign], width: usize, color: bool) -> String {
    let mut paper = Paper::new(width, color);
    let sheet = Sheet::of(campaigns);
    paper.line(Tone::Strong, &format!("{} campaigns side by side", campaigns.len()));
    for (place, campaign) in campaigns.iter().enumerate() {
        paper.line(Tone::Plain, "");
        paper.paragraph(Tone::Strong, &format!("{}  ", name(place)), "   ", &campaign.dir);
        for (tone, text) in head(campaign) {
            paper.paragraph(tone, "   ", "     ", &text);
        }
    }
    paper.line(Tone::Plain, "");
    paper.line(Tone::Strong, sheet.differ());
    for difference in &sheet.differences {
        paper.paragraph(Tone::Plain, &format!("  {:14}", difference.0), &" ".repeat(16), &difference.1.join("   "));
    }
    for load in &sheet.loads {
        paper.line(Tone::Plain, "");
        let heading = format!("{}{}", terminal::load(&load.load), load.only(campaigns.len()));
        paper.paragraph(Tone::Strong, "", "    ", &heading);
        for block in load.of.chunks(BLOCK) {
            let cell = (paper.width - LABEL) / block.len().max(2);
            let head: String =
                block.iter().map(|(place, _)| lettering::right(&name(*place).to_string(), cell)).collect();
            paper.line(Tone::Plain, "");
            paper.line(Tone::Quiet, &format!("{:LABEL$}{head}", ""));
            for row in rows(block) {
                let cells: String = row.cells.iter().map(|text| lettering::right(&legible(text), cell)).collect();
                paper.line(row.tone, &format!("{}{cells}", lettering::left(&row.name, LABEL)));
            }
        }
    }
    paper.line(Tone::Plain, "");
    paper.paragraph(Tone::Quiet, "", "", READING);
    paper.paragraph(Tone::Strong, "", "", &no_comparison(campaigns));
    paper.text
}

/// As Markdown.
pub fn markdown(campaigns: &[Campaign]) -> String {
    let sheet = Sheet::of(campaigns);
    let mut md = format!("# {} campaigns side by side\n\n", campaigns.len());
    for (place, campaign) in campaigns.iter().enumerate() {
        let facts: Vec<String> = head(campaign).iter().map(|(_, text)| cell_text(&text.replace("   ", ", "))).collect();
        md.push_str(&format!("- **{}**: {}: {}\n", name(place), cell_text(&campaign.dir), facts.join("; ")));
    }
    md.push_str(&format!("\n{}\n\n", sheet.differ()));
    if !sheet.differences.is_empty() {
        table_head(&mut md, "differs in", (0..campaigns.len()).map(name), "---|");
        for (what, values) in &sheet.differences {
            let bare = values.iter().map(|v| cell_text(v.get(3..).unwrap_or_default()));
            md.push_str(&format!("| {what} | {} |\n", bare.collect::<Vec<_>>().join(" | ")));
        }
        md.push('\n');
    }
    for load in &sheet.loads {
        let only = load.only(campaigns.len());
        md.push_str(&format!("## {}{only}\n\n", cell_text(&terminal::load(&load.load))));
        table_head(&mut md, "", load.of.iter().map(|(place, _)| name(*place)), "--:|");
        for row in rows(&load.of) {
            let cells: Vec<String> = row.cells.iter().map(|text| cell_text(text)).collect();
            md.push_str(&format!("| {} | {} |\n", row.name.trim(), cells.join(" | ")));
        }
        md.push('\n');
    }
    md.push_str(&format!("{READING}\n\n**{}**\n", cell_text(&no_comparison(campaigns))));
    md
}

fn table_head(md: &mut String, first: &str, names: impl Iterator<Item = char>, rule: &str) {
    let names: Vec<String> = names.map(String::from).collect();
    md.push_str(&format!("| {first} | {} |\n|---|{}\n", names.join(" | "), rule.repeat(names.len())));
}

const READING: &str = "In brackets stands the 95 % interval of a percentile; one without carries no claim. gross is what the \
                       client saw, net the server and the network. Windows are not put together: each has its rows.";

fn no_comparison(campaigns: &[Campaign]) -> String {
    let dirs: Vec<&str> = campaigns.iter().take(2).map(|c| c.dir.as_str()).collect();
    format!(
        "Figures side by side are no comparison: what of it is a claim, and what is noise, says tarebench compare {}",
        dirs.join(" ")
    )
}

/// What a campaign was, the worst first.
fn head(campaign: &Campaign) -> Vec<(Tone, String)> {
    let (run, plan) = (&campaign.run, &campaign.plan);
    let mut lines = Vec::new();
    match (campaign.boxes.refusal(), why_not_valid(run)) {
        (Some(refusal), _) => lines.push((Tone::Alarm, format!("NO FIGURES: {refusal}"))),
        (None, Some(why)) => lines.push((Tone::Alarm, format!("NOT VALID: {why}"))),
        (None, None) => lines.push((Tone::Quiet, "complete and valid".to_owned())),
    }
    if !run.labels.is_empty() {
        lines.push((Tone::Alarm, run.labels.join(" | ")));
    }
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let started = run.started_at.as_deref().unwrap_or("start unknown");
    let version = run.tarebench.as_deref().unwrap_or("of an unknown version");
    let facts = [
        run.run_id.as_deref().unwrap_or("no run id").to_owned(),
        format!("{} at {}", text(&plan["model"]), text(&plan["base_url"])),
        started.to_owned(),
        format!("tarebench {version}"),
    ];
    lines.push((Tone::Quiet, facts.map(|fact| fact.replace("   ", " ")).join("   ")));
    lines
}

fn why_not_valid(run: &RunJson) -> Option<String> {
    let grave = ["failed", "invalid", "interrupted"];
    let found: Vec<&str> =
        run.verdicts.iter().filter(|v| grave.contains(&v.kind.as_str())).map(|v| v.text.as_str()).collect();
    match (found.first(), found.len()) {
        (Some(first), 1) => Some((*first).to_owned()),
        (Some(first), n) => Some(format!("{first}; and {} more", count(n as u64 - 1))),
        (None, _) => (!run.complete).then(|| "it is not complete".to_owned()),
    }
}

/// What is laid out, before it is drawn.
struct Sheet<'a> {
    /// What differs, and `A: ..`, `B: ..` of it.
    differences: Vec<(&'static str, Vec<String>)>,
    loads: Vec<AtLoad<'a>>,
}

/// One load, with those campaigns that were measured at it.
struct AtLoad<'a> {
    load: Load,
    of: Vec<(usize, &'a Cell)>,
}

impl AtLoad<'_> {
    fn only(&self, campaigns: usize) -> String {
        match self.of.len() == campaigns {
            true => String::new(),
            false => format!(
                " (only in {})",
                self.of.iter().map(|(p, _)| name(*p).to_string()).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

impl<'a> Sheet<'a> {
    fn of(campaigns: &'a [Campaign]) -> Sheet<'a> {
        let mut loads: Vec<AtLoad<'a>> = Vec::new();
        for (place, campaign) in campaigns.iter().enumerate().filter(|(_, c)| c.boxes.refusal().is_none()) {
            for cell in &campaign.run.cells {
                match loads
                    .iter_mut()
                    .find(|known| known.load == cell.load && known.of.iter().all(|(p, _)| *p != place))
                {
                    Some(known) => known.of.push((place, cell)),
                    None => loads.push(AtLoad { load: cell.load.clone(), of: vec![(place, cell)] }),
                }
            }
        }
        Sheet { differences: differing(campaigns), loads }
    }

    fn differ(&self) -> &'static str {
        match self.differences.is_empty() {
            true => "Their plans and servers are the same, as far as they are known.",
            false => "They differ in what may move figures:",
        }
    }
}

/// What of plans and servers differs from the first campaign in any of the others.
fn differing(campaigns: &[Campaign]) -> Vec<(&'static str, Vec<String>)> {
    let documents: Vec<RunDocuments> =
        campaigns.iter().map(|c| RunDocuments { dir: c.dir.clone(), plan: c.plan.clone(), run: Value::Null }).collect();
    let Some((first, others)) = documents.split_first() else { return Vec::new() };
    let found: Vec<_> = others.iter().map(|other| differences::of_plans(first, other)).collect();
    let mut rows = Vec::new();
    for known in differences::names() {
        let of = |at: usize| found[at].iter().find(|d| d.name == known);
        let Some(any) = (0..found.len()).find_map(of) else { continue };
        // what only differs is told of an object, so that the first may read otherwise beside each of the others
        let told = |at: usize| of(at).map_or_else(|| "as A".to_owned(), |d| d.b.clone());
        let mut values = vec![format!("A: {}", any.a)];
        values.extend((0..found.len()).map(|at| format!("{}: {}", name(at + 1), told(at))));
        rows.push((known, values.iter().map(|v| v.replace("   ", " ")).collect()));
    }
    rows
}

struct Line {
    tone: Tone,
    name: String,
    cells: Vec<String>,
}

/// The rows of one load, window by window.
fn rows(of: &[(usize, &Cell)]) -> Vec<Line> {
    let most = of.iter().map(|(_, cell)| cell.windows.len()).max().unwrap_or(0);
    (0..most).flat_map(|at| of_window(of, at)).collect()
}

fn of_window(of: &[(usize, &Cell)], at: usize) -> Vec<Line> {
    let open = of.iter().any(|(_, cell)| cell.load.model != LoadModel::Closed);
    let each = |figure: &dyn Fn(&Window) -> String| -> Vec<String> {
        of.iter().map(|(_, cell)| cell.windows.get(at).map_or_else(|| "-".into(), figure)).collect()
    };
    let line = |tone, name: &str, cells| Line { tone, name: name.to_owned(), cells };
    let mut lines = vec![line(Tone::Quiet, &format!("window {at}"), vec![String::new(); of.len()])];
    let bad = |w: &Window| w.requests.failed + w.requests.censored + w.requests.not_sent;
    let any_bad = of.iter().filter_map(|(_, cell)| cell.windows.get(at)).any(|w| bad(w) > 0);
    let lost = each(&|w| count(bad(w)));
    lines.push(line(if any_bad { Tone::Alarm } else { Tone::Plain }, "  failed or not sent", lost));
    lines.push(line(
        Tone::Plain,
        "  ok of kept",
        each(&|w| format!("{} of {}", count(w.requests.ok), count(w.requests.kept))),
    ));
    for (metric, percentiles) in METRICS {
        let clocks = if open && metric != "gap" { ["due", "net"] } else { ["gross", "net"] };
        for (column, tone) in clocks.into_iter().zip([Tone::Plain, Tone::Strong]) {
            for p in percentiles {
                let cells = each(&|w| with_interval(distribution(w, metric, column), p));
                lines.push(line(tone, &format!("  {metric} {column} {p}"), cells));
            }
        }
    }
    if of.iter().any(|(_, cell)| cell.load.sessions.is_some()) {
        let clock = if open { "due" } else { "gross" };
        for (name, column, tone) in
            [("session", "", Tone::Plain), ("waited", clock, Tone::Plain), ("waited", "net", Tone::Strong)]
        {
            for p in ["p50", "p95"] {
                let cells = each(&|w| with_interval(of_sessions(w, name, column), p));
                let column = if column.is_empty() { String::new() } else { format!(" {column}") };
                lines.push(line(tone, &format!("  {name}{column} {p}"), cells));
            }
        }
    }
    lines.push(line(Tone::Plain, "  requests/s", each(&|w| rate(w.throughput.requests_per_s))));
    lines.push(line(Tone::Plain, "  output tokens/s", each(&|w| rate(w.throughput.output_tokens_per_s))));
    lines.push(line(Tone::Plain, "  client CPU/wall", each(&|w| fraction(w.client.cpu_per_wall))));
    lines
}

fn with_interval(values: Option<&Distribution>, p: &str) -> String {
    let interval = intervals::interval(values, p).map_or_else(String::new, |ends| format!(" ({ends})"));
    format!("{}{interval}", percentile(values, p))
}

/// Their time (of chains too: the task's), or what was waited of it.
fn of_sessions<'a>(window: &'a Window, name: &str, column: &str) -> Option<&'a Distribution> {
    let found = window.sessions.as_ref()?;
    match (name, column) {
        ("session", _) => found.duration.as_ref(),
        (_, "due") => found.waited.due.as_ref(),
        (_, "net") => found.waited.net.as_ref(),
        _ => found.waited.gross.as_ref(),
    }
}

fn distribution<'a>(window: &'a Window, metric: &str, column: &str) -> Option<&'a Distribution> {
    window
        .metrics
        .columns()
        .into_iter()
        .find(|(m, c, _)| *m == metric && *c == column)
        .and_then(|(_, _, values)| values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::specimen::Specimen;
    use crate::disclosure::directory::Disclosed;

    fn campaign(name: &str, change: impl FnOnce(&mut Specimen)) -> Campaign {
        let mut specimen = Specimen::campaign();
        specimen.plan["run_id"] = name.into();
        specimen.plan["model"] = "m".into();
        specimen.plan["base_url"] = "http://127.0.0.1:1".into();
        change(&mut specimen);
        let dir = tempfile::tempdir().unwrap();
        specimen.write(dir.path());
        let (run, disclosed) = Disclosed::of_directory(dir.path()).unwrap();
        Campaign { dir: format!("runs/{name}"), run, plan: disclosed.plan, boxes: disclosed.boxes }
    }

    fn loads(specimen: &mut Specimen, concurrency: u32) {
        specimen.windows.iter_mut().for_each(|(bounds, _)| bounds.load.concurrency = Some(concurrency));
    }

    #[test]
    fn two_look_as_they_did() {
        let other = campaign("r2", |s| {
            s.plan["base_url"] = "http://127.0.0.1:2".into();
            s.plan["temperature"] = 0.5.into();
        });
        let text = terminal(&[campaign("r1", |_| {}), other], 100, false);
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/snapshots/side_by_side.txt");
        assert!(text == std::fs::read_to_string(kept).unwrap(), "now:\n{text}");
    }

    #[test]
    fn loads_of_one_stand_alone_and_refused_ones_have_no_figures() {
        let empty = campaign("r3", |s| s.windows.iter_mut().for_each(|(_, rows)| rows.clear()));
        let all = [campaign("r1", |_| {}), campaign("r2", |s| loads(s, 4)), empty];
        let (screen, md) = (terminal(&all, 100, false), markdown(&all));
        for text in [&screen, &md] {
            assert!(text.contains("closed loop, 8 at once (only in A)"), "{text}");
            assert!(text.contains("closed loop, 4 at once (only in B)"), "{text}");
            assert!(text.contains("NO FIGURES: ") && text.contains("are no comparison"), "{text}");
        }
        assert!(!screen.contains("withheld"), "a refused run has no column:\n{screen}");
    }

    #[test]
    fn eight_fit_and_names_stay_text() {
        let hostile = "\u{202e}evil | <script> 日本語".repeat(9);
        let all: Vec<Campaign> =
            (0..8).map(|i| campaign(&format!("r{i}"), |s| s.plan["model"] = format!("{hostile}{i}").into())).collect();
        let screen = terminal(&all, 100, false);
        let widest = screen.lines().map(lettering::width).max();
        assert!(widest <= Some(100), "{widest:?}");
        let md = markdown(&all);
        for text in [&screen, &md] {
            assert!(
                !text.contains(|c| lettering::steers(c) && c != '\n')
                    && text.contains("<U+202E>") | text.contains("&lt;U+202E>")
            );
        }
        assert!(!md.contains("<script>"), "{md}");
    }

    #[test]
    fn one_directory_stands_beside_no_other_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let same = [dir.path().to_owned(), dir.path().join(".")];
        assert!(check(&same).unwrap_err().contains("the same directory"));
        let many: Vec<_> = (0..9).map(|i| dir.path().join(i.to_string())).collect();
        assert!(check(&many).unwrap_err().contains("at most 8"));
        assert!(check(&many[..8]).is_ok());
        let copied = [campaign("r1", |_| {}), campaign("r1", |_| {})];
        assert!(check_runs(&copied).unwrap_err().contains("the same run (r1)"));
    }
}
