//! Recorded streams with their own times, one JSON object a line.
//!
//! `{"id", "raw", "writes": [[ms, bytes], ..]}`; each character U+0000 to U+00FF of `bytes` is one byte; `ms` counts
//! from the moment the whole request is there. Other keys are ignored.

use super::MockError;
use bench_engine::units::Nanos;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The head in front of a case that is not raw.
pub(super) const SCRIPT_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One recorded reply, as it goes to the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Raw: no head of ours, and the socket closes after the last write.
    pub raw: bool,
    /// Time from the request's arrival, and the bytes (chunk framing included when not raw).
    pub writes: Vec<(Nanos, Vec<u8>)>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    #[serde(default)]
    raw: bool,
    writes: Vec<(f64, String)>,
}

/// Reads a script.
///
/// # Errors
/// Names the file and, for a malformed line, its number.
pub(super) fn load(path: &Path, time_scale: f64) -> Result<HashMap<String, Arc<Case>>, MockError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| MockError::ScriptUnreadable { path: path.to_owned(), source })?;
    parse(&text, time_scale).map_err(|(line, reason)| MockError::ScriptLine { path: path.to_owned(), line, reason })
}

fn parse(text: &str, time_scale: f64) -> Result<HashMap<String, Arc<Case>>, (usize, String)> {
    let mut cases = HashMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (id, case) = parse_line(line, time_scale).map_err(|reason| (at + 1, reason))?;
        if cases.insert(id.clone(), Arc::new(case)).is_some() {
            return Err((at + 1, format!("the id {id:?} stands twice")));
        }
    }
    Ok(cases)
}

fn parse_line(line: &str, time_scale: f64) -> Result<(String, Case), String> {
    let line: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let mut writes = Vec::with_capacity(line.writes.len());
    let mut last_ms = 0.0;
    for (ms, text) in &line.writes {
        if !ms.is_finite() || *ms < last_ms {
            return Err(format!("write times must not be negative or go back: {ms} after {last_ms}"));
        }
        last_ms = *ms;
        let after = Nanos::from_secs_f64(ms * time_scale / 1e3).ok_or("a write time is too large")?;
        let bytes: Vec<u8> = text
            .chars()
            .map(|c| u8::try_from(u32::from(c)).map_err(|_| format!("{c:?} is not one byte (U+0000 to U+00FF)")))
            .collect::<Result<_, _>>()?;
        let bytes = if line.raw || bytes.is_empty() { bytes } else { http_chunk(&bytes) };
        writes.push((after, bytes));
    }
    if !line.raw {
        // the last chunk comes at once after the last write, in a write of its own
        let after = writes.last().map_or(Nanos::ZERO, |(after, _)| *after);
        writes.push((after, b"0\r\n\r\n".to_vec()));
    }
    Ok((line.id, Case { raw: line.raw, writes }))
}

/// One HTTP chunk (RFC 9112 section 7.1), size in lower-case hex.
pub(super) fn http_chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_framed_and_scaled() {
        let text = "{\"id\":\"a\",\"raw\":false,\"writes\":[[5,\"x\\u00e9\"],[7.5,\"\"]],\"expect\":{}}\n\n\
                    {\"id\":\"b\",\"raw\":true,\"writes\":[[1,\"HTTP\"]]}\n";
        let cases = parse(text, 2.0).unwrap();
        let ms = |n| Nanos::from_millis(n);
        let a = vec![(ms(10), b"2\r\nx\xe9\r\n".to_vec()), (ms(15), Vec::new()), (ms(15), b"0\r\n\r\n".to_vec())];
        assert_eq!(*cases["a"], Case { raw: false, writes: a });
        assert_eq!(*cases["b"], Case { raw: true, writes: vec![(ms(2), b"HTTP".to_vec())] });
        assert!(parse(text, 0.0).unwrap()["a"].writes.iter().all(|(after, _)| *after == Nanos::ZERO));
    }

    #[test]
    fn a_malformed_line_is_named() {
        let good = "{\"id\":\"a\",\"writes\":[]}\n";
        for bad in [
            "{",
            "{\"id\":\"c\"}",
            "{\"id\":\"c\",\"writes\":[[1]]}",
            "{\"id\":\"c\",\"writes\":[[-1,\"x\"]]}",
            "{\"id\":\"c\",\"writes\":[[2,\"x\"],[1,\"x\"]]}",
            "{\"id\":\"c\",\"writes\":[[1,\"\\u0100\"]]}",
            "{\"id\":\"c\",\"writes\":[[1e300,\"x\"]]}",
            "{\"id\":\"a\",\"writes\":[]}",
        ] {
            assert_eq!(parse(&format!("{good}{bad}\n"), 1.0).unwrap_err().0, 2, "{bad}");
        }
        let missing = load(Path::new("/no/such/script"), 1.0).unwrap_err().to_string();
        assert!(missing.contains("/no/such/script"), "{missing}");
    }
}
