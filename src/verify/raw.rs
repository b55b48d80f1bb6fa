//! The raw files, read line by line and checked against each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use super::trace::Replayed;
use super::turns::Turns;
use super::{Difference, client, laws, server, window};
use crate::rundir::chain::Chain;
use crate::rundir::mark;
use crate::rundir::opening;
use crate::rundir::row::Row;
use crate::rundir::rows::{self, FileName, PartFault, Place, REQUESTS};

/// Not every run has it.
const SCRAPES: &str = "server-metrics.jsonl";

/// What the raw files hold, each window already turned into its figures.
pub(super) struct Raw {
    pub(super) plan: Value,
    pub(super) windows: Vec<Value>,
    /// By place in `windows`.
    pub(super) figures: BTreeMap<usize, Value>,
    pub(super) rows: u64,
    /// Rows of windows without a line, by cell and window.
    pub(super) orphans: BTreeMap<(u64, u64), u64>,
    /// Half-written last lines.
    pub(super) tails: Vec<(FileName, usize)>,
    /// The last window has no line: the run ended in the middle of it.
    pub(super) cut_off: bool,
    /// The first window that is not as planned, or row of a session that does not fit those before it.
    pub(super) contradiction: Option<Difference>,
}

/// The rows of one window as they come in.
#[derive(Default)]
struct Pile {
    rows: Vec<Row>,
    counted: u64,
    last_h: Option<String>,
}

impl Raw {
    pub(super) fn read(dir: &Path) -> Result<Raw, Difference> {
        let plan = serde_json::from_str(&text(dir, "plan.json")?).map_err(|e| Difference::Broken {
            file: "plan.json".into(),
            line: e.line(),
            text: e.to_string(),
        })?;
        let mut tails = Vec::new();
        let mut windows = objects(dir, "windows.jsonl", &mut tails)?;
        let has_line = |cell: u32, window: u32| {
            windows.iter().any(|w| number(w, "cell") == u64::from(cell) && number(w, "window") == u64::from(window))
        };
        let cut_off = opening::cut_off(dir, has_line)?;
        windows.extend(cut_off.iter().map(|window| json!(window)));
        let cut_off = cut_off.is_some();
        let mut piles = BTreeMap::new();
        let (mut figures, mut rows) = (BTreeMap::new(), 0);
        let mut request_tails = Vec::new();
        let mut health_tails = Vec::new();
        let health = client::Samples::new(&objects(dir, "health.jsonl", &mut health_tails)?);
        let mut scrapes_tails = Vec::new();
        let scrapes = match dir.join(SCRAPES).try_exists() {
            Ok(false) => Vec::new(),
            _ => objects(dir, SCRAPES, &mut scrapes_tails)?,
        };
        let mut marks_tails = Vec::new();
        let marks = match dir.join(mark::FILE).try_exists() {
            Ok(false) => Vec::new(),
            _ => objects(dir, mark::FILE, &mut marks_tails)?,
        };
        let mut sent = vec![0; windows.len()];
        let mut replayed = Replayed::new(dir, &plan, &windows);
        let mut turns = Turns::new(&windows);
        let mut contradiction = laws::hold(&plan, &windows, cut_off).err();
        each_row(dir, &mut request_tails, &mut |at, row, h| {
            rows += 1;
            let key = (u64::from(row.cell), u64::from(row.window));
            let pile: &mut Pile = piles.entry(key).or_default();
            pile.counted += 1;
            pile.last_h = Some(h);
            let Some(index) = windows.iter().position(|w| (number(w, "cell"), number(w, "window")) == key) else {
                return Ok(());
            };
            if let Some(replayed) = &mut replayed {
                replayed.take(&row, at)?;
            }
            if contradiction.is_none() {
                contradiction = turns.take(&row, at).err();
            }
            pile.rows.push(slim(row));
            // the rows of a finished window are not needed any more
            if pile.counted == number(&windows[index], "rows") {
                let done = std::mem::take(&mut pile.rows);
                sent[index] = server::attempts(&done);
                figures.insert(index, window::figures(&windows[index], &done, &health, &marks, &plan));
            }
            Ok(())
        })?;
        for (index, line) in windows.iter().enumerate() {
            let pile = piles.remove(&(number(line, "cell"), number(line, "window"))).unwrap_or_default();
            check(dir, line, index + 1, &pile, request_tails.first())?;
            figures.entry(index).or_insert_with(|| window::figures(line, &[], &health, &marks, &plan));
        }
        if let Some(mut replayed) = replayed {
            replayed.finish()?;
        }
        let mut of_windows: Vec<&mut Value> = figures.values_mut().collect();
        server::complete(&windows, &sent, &scrapes, &plan, &mut of_windows);
        tails.extend(request_tails.into_iter().chain(health_tails).chain(scrapes_tails).chain(marks_tails));
        let orphans = piles.into_iter().map(|(key, pile)| (key, pile.counted)).collect();
        Ok(Raw { plan, windows, figures, rows, orphans, tails, cut_off, contradiction })
    }
}

/// A row without what no figure is made of, so that the rows of a long window fit into memory.
fn slim(mut row: Row) -> Row {
    (row.run, row.prompt_sha256, row.server_timings) = (String::new(), String::new(), None);
    row.chunks.shrink_to_fit();
    row
}

/// A window's own line against the rows that are there.
fn check(
    dir: &Path,
    line: &Value,
    place: usize,
    pile: &Pile,
    tail: Option<&(FileName, usize)>,
) -> Result<(), Difference> {
    let promised = number(line, "rows");
    if let Some((file, last)) = tail.filter(|_| promised > pile.counted) {
        let text =
            format!("half-written line: windows.jsonl:{place} promises {promised} rows, {} are whole", pile.counted);
        return Err(Difference::Broken { file: file.clone(), line: *last, text });
    }
    let zeros = "0".repeat(64);
    let last_h = pile.last_h.as_ref().unwrap_or(&zeros);
    let differs = |field: &str, stored: String, recomputed: String| Difference::Value {
        file: "windows.jsonl".into(),
        line: place,
        field: field.into(),
        stored,
        recomputed,
    };
    let part = line["part"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    let last = rows::part(REQUESTS, part);
    if promised > pile.counted && !dir.join(&*last).is_file() {
        let text = format!("it is missing: windows.jsonl:{place} says that rows of its window stand in it");
        return Err(Difference::Unreadable { file: last, text });
    }
    if promised != pile.counted {
        return Err(differs("rows", promised.to_string(), pile.counted.to_string()));
    }
    match line["last_h"].as_str() {
        Some(h) if h == last_h => Ok(()),
        other => Err(differs("last_h", other.unwrap_or("nothing").into(), last_h.clone())),
    }
}

pub(super) fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_default()
}

pub(super) fn text(dir: &Path, file: &'static str) -> Result<String, Difference> {
    std::fs::read_to_string(dir.join(file))
        .map_err(|e| Difference::Unreadable { file: file.into(), text: e.to_string() })
}

fn objects(dir: &Path, file: &'static str, tails: &mut Vec<(FileName, usize)>) -> Result<Vec<Value>, Difference> {
    let mut found = Vec::new();
    lines(dir, file, tails, &mut |line, text| {
        let value: Value = serde_json::from_str(text).map_err(|e| Difference::Broken {
            file: file.into(),
            line,
            text: e.to_string(),
        })?;
        found.push(value);
        Ok(())
    })?;
    Ok(found)
}

impl From<PartFault> for Difference {
    fn from(fault: PartFault) -> Self {
        match fault {
            PartFault::Unreadable { file, source, .. } => Difference::Unreadable { file, text: source.to_string() },
            PartFault::NotText { place, text } => broken(&place, text),
            PartFault::Missing { file, later } => {
                Difference::Unreadable { file, text: format!("it is missing, and {later} is there") }
            }
            PartFault::Torn { file, line, later } => {
                let text = format!("half-written, and {later} follows");
                Difference::Broken { file, line: line as usize, text }
            }
        }
    }
}

fn broken(at: &Place, text: String) -> Difference {
    Difference::Broken { file: at.file.clone(), line: at.line as usize, text }
}

fn each_row(
    dir: &Path,
    tails: &mut Vec<(FileName, usize)>,
    take: &mut dyn FnMut(&Place, Row, String) -> Result<(), Difference>,
) -> Result<(), Difference> {
    let mut chain = Chain::default();
    let tail = rows::each_line(dir, REQUESTS, &mut |at, sealed| {
        let before = chain.clone();
        let plain = chain.open(sealed).ok_or_else(|| changed_line(before, at, sealed))?;
        let row = serde_json::from_str(&plain).map_err(|e| broken(at, e.to_string()))?;
        take(at, row, chain.last_hex().to_string())
    })?;
    tails.extend(tail.map(|at| (at.file, at.line as usize)));
    Ok(())
}

fn changed_line(mut before: Chain, at: &Place, sealed: &str) -> Difference {
    let Some((body, h)) = sealed.strip_suffix("\"}").and_then(|s| s.rsplit_once(",\"h\":\"")) else {
        return broken(at, "the line does not end in its h".into());
    };
    before.seal(&mut format!("{body}}}"));
    let (stored, recomputed) = (h.into(), before.last_hex().into());
    Difference::Value { file: at.file.clone(), line: at.line as usize, field: "h".into(), stored, recomputed }
}

fn lines(
    dir: &Path,
    file: &'static str,
    tails: &mut Vec<(FileName, usize)>,
    take: &mut dyn FnMut(usize, &str) -> Result<(), Difference>,
) -> Result<(), Difference> {
    let unreadable = |e: std::io::Error| Difference::Unreadable { file: file.into(), text: e.to_string() };
    let mut reader = BufReader::with_capacity(1 << 20, File::open(dir.join(file)).map_err(unreadable)?);
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        if reader.read_line(&mut text).map_err(unreadable)? == 0 {
            break;
        }
        match text.strip_suffix('\n') {
            Some(line) => take(number, line)?,
            None => tails.push((file.into(), number)),
        }
    }
    Ok(())
}
