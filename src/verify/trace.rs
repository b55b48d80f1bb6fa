//! The rows of a replay against `trace.jsonl`: when each was due, what it asked for, and the hashes that windows have of
//! both. The file is read along with the rows, once a window; only requests that are not over yet are held.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Difference;
use super::raw::number;
use crate::rundir::row::Row;
use crate::rundir::rows::Place;

/// Only replays have it.
const FILE: &str = "trace.jsonl";

/// What a line of the file asks for.
#[derive(Debug)]
struct Asked {
    due: u64,
    class: String,
    prompt_tokens: u64,
    output_tokens: u64,
}

/// The window whose rows come in.
struct Window {
    key: (u64, u64),
    place: usize,
    time_scale: f64,
    reader: BufReader<File>,
    /// Lines read.
    read: u64,
    /// Where several hosts share the trace, the remainder of the ids that this one sends, and of how many.
    shard: Option<(u64, u64)>,
    /// By trace id: read, sent from here, and without a row so far.
    pending: BTreeMap<u64, Asked>,
    dues: Sha256,
    shapes: Sha256,
}

/// All windows, one after the other.
pub(super) struct Replayed<'a> {
    path: PathBuf,
    plan: &'a Value,
    windows: &'a [Value],
    window: Option<Window>,
}

impl<'a> Replayed<'a> {
    /// None where nothing was replayed.
    pub(super) fn new(dir: &Path, plan: &'a Value, windows: &'a [Value]) -> Option<Self> {
        let is_replay = |cell: &Value| cell["model"] == "trace";
        let cells = plan["cells"].as_array()?;
        cells.iter().any(is_replay).then(|| Replayed { path: dir.join(FILE), plan, windows, window: None })
    }

    /// A row, and where it stands.
    pub(super) fn take(&mut self, row: &Row, at: &Place) -> Result<(), Difference> {
        let key = (u64::from(row.cell), u64::from(row.window));
        if self.window.as_ref().is_none_or(|window| window.key != key) {
            self.finish()?;
            self.window = self.begin(key)?;
        }
        let Some(window) = &mut self.window else { return Ok(()) };
        let opened = number(&self.windows[window.place], "opened");
        let broken = |text| Difference::Broken { file: at.file.clone(), line: at.line as usize, text };
        if !window.is_mine(row.trace_id) {
            return Err(broken(format!("trace id {} belongs to another shard", row.trace_id)));
        }
        let asked = window.of(row.trace_id)?.ok_or_else(|| {
            broken(format!("{FILE} has no line for trace id {}, or the id has a row already", row.trace_id))
        })?;
        let numbers = [
            ("due", row.due, opened.saturating_add(asked.due)),
            ("asked_prompt_tokens", row.asked_prompt_tokens, asked.prompt_tokens),
            ("asked_output_tokens", row.asked_output_tokens, asked.output_tokens),
        ];
        let differs = |field: &str, stored: String, recomputed: String| Difference::Value {
            file: at.file.clone(),
            line: at.line as usize,
            field: field.into(),
            stored,
            recomputed,
        };
        if let Some((field, stored, recomputed)) = numbers.into_iter().find(|(_, stored, again)| stored != again) {
            return Err(differs(field, stored.to_string(), recomputed.to_string()));
        }
        match row.class == asked.class {
            true => Ok(()),
            false => Err(differs("class", row.class.clone(), asked.class)),
        }
    }

    fn begin(&self, key: (u64, u64)) -> Result<Option<Window>, Difference> {
        let Some(place) = self.windows.iter().position(|w| (number(w, "cell"), number(w, "window")) == key) else {
            return Ok(None);
        };
        let cell = &self.plan["cells"][key.0 as usize];
        let time_scale = cell["time_scale"].as_f64().filter(|scale| *scale > 0.0).unwrap_or(1.0);
        let reader = BufReader::with_capacity(1 << 18, File::open(&self.path).map_err(|e| unreadable(&e))?);
        let shard = &self.plan["shard"];
        let shard = shard["index"].as_u64().zip(shard["of"].as_u64());
        let shard = shard.map(|(index, of)| (index.saturating_sub(1), of.max(1)));
        let pending = BTreeMap::new();
        let (dues, shapes) = (Sha256::new(), Sha256::new());
        Ok(Some(Window { key, place, time_scale, reader, read: 0, shard, pending, dues, shapes }))
    }

    /// No more rows of the window: what is left of the file, and its hashes.
    pub(super) fn finish(&mut self) -> Result<(), Difference> {
        let Some(mut window) = self.window.take() else { return Ok(()) };
        let line = &self.windows[window.place];
        let cut_short = line["interrupted"] == true;
        let mut last_missing = window.pending.keys().next().copied();
        while let Some((id, _)) = window.next()? {
            last_missing = last_missing.or(Some(id).filter(|id| window.is_mine(*id)));
        }
        let place = window.place + 1;
        let differs = |field: &str, stored: &str, recomputed: &str| Difference::Value {
            file: "windows.jsonl".into(),
            line: place,
            field: field.into(),
            stored: stored.into(),
            recomputed: recomputed.into(),
        };
        for (field, hash) in [("schedule_hash", window.dues), ("trace_hash", window.shapes)] {
            let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
            let stored = line[field].as_str().unwrap_or("nothing");
            if stored != hash {
                return Err(differs(field, stored, &hash));
            }
        }
        match last_missing {
            Some(id) if !cut_short => Err(Difference::Broken {
                file: "requests.jsonl".into(),
                line: number(line, "rows") as usize,
                text: format!("window {place} of windows.jsonl was not cut short, but trace id {id} has no row"),
            }),
            _ => Ok(()),
        }
    }
}

impl Window {
    fn is_mine(&self, id: u64) -> bool {
        self.shard.is_none_or(|(rest, of)| id % of == rest)
    }

    /// What request `id` was to be, once.
    fn of(&mut self, id: u64) -> Result<Option<Asked>, Difference> {
        while self.read <= id {
            let Some((at, asked)) = self.next()? else { return Ok(None) };
            if self.is_mine(at) {
                self.pending.insert(at, asked);
            }
        }
        Ok(self.pending.remove(&id))
    }

    /// The next line and its trace id.
    fn next(&mut self) -> Result<Option<(u64, Asked)>, Difference> {
        let mut text = String::new();
        if self.reader.read_line(&mut text).map_err(|e| unreadable(&e))? == 0 {
            return Ok(None);
        }
        let id = self.read;
        self.read += 1;
        let broken = |text: String| Difference::Broken { file: FILE.into(), line: id as usize + 1, text };
        let line: Value = serde_json::from_str(&text).map_err(|e| broken(e.to_string()))?;
        let whole = |key: &str| line[key].as_u64().ok_or_else(|| broken(format!("{key} is no whole number")));
        let (at, prompt_tokens, output_tokens) = (whole("at_ns")?, whole("prompt_tokens")?, whole("output_tokens")?);
        let class = line["class"].as_str().ok_or_else(|| broken("class is no text".into()))?.to_owned();
        let due = match self.time_scale {
            1.0 => at,
            scale => (at as f64 / scale).round() as u64,
        };
        self.dues.update(format!("{due}\n"));
        let mut shape = format!("{class} {prompt_tokens} {output_tokens}");
        if let Some(ids) = line["hash_ids"].as_array() {
            shape.push(' ');
            for (i, block) in ids.iter().enumerate() {
                shape.push_str(if i > 0 { "," } else { "" });
                shape.push_str(&block.to_string());
            }
        }
        if let Some(content) = line["content_sha256"].as_str() {
            shape.push(' ');
            shape.push_str(content);
        }
        self.shapes.update(shape + "\n");
        Ok(Some((id, Asked { due, class, prompt_tokens, output_tokens })))
    }
}

fn unreadable(error: &std::io::Error) -> Difference {
    Difference::Unreadable { file: FILE.into(), text: error.to_string() }
}
