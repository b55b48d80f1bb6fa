//! Exports of a small run with what real servers do now and then: the bytes that the tools' own code accepted (`scripts/check-exports`,
//! `tests/exports/VERDICTS.md`), and the command around them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;
use tarebench::cli::export::ExportFormat;
use tarebench::export::measured::{Campaign, each_window};
use tarebench::export::{Exported, exporter, terms};

use crate::binary::tarebench;

fn exports() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports")
}

fn run() -> PathBuf {
    exports().join("run")
}

/// The files of a format, by name.
fn made(dir: &Path, format: ExportFormat, only: impl Fn(u32, u32) -> bool) -> BTreeMap<String, String> {
    let of = Campaign::of_directory(dir).expect("a run");
    let mut exporter = exporter(format).expect("a format of files");
    let mut files = BTreeMap::new();
    let mut keep = |parts: Vec<Exported>| {
        parts.into_iter().for_each(|part| files.entry(part.name).or_insert_with(String::new).push_str(&part.text));
    };
    each_window(
        dir,
        |bounds| only(bounds.cell, bounds.window),
        |window| {
            keep(exporter.window(&of, &window)?);
            Ok(())
        },
    )
    .expect("windows");
    keep(exporter.finish(&of).expect("an end"));
    files
}

/// Holds the files against those in `tests/exports/NAME`; with TAREBENCH_BLESS set these are written instead, and belong to
/// be shown to the tools again.
fn golden(name: &str, files: &BTreeMap<String, String>) {
    let dir = exports().join(name);
    if std::env::var_os("TAREBENCH_BLESS").is_some() {
        std::fs::create_dir_all(&dir).expect("a directory");
        files.iter().for_each(|(file, text)| std::fs::write(dir.join(file), text).expect("a file"));
    }
    let there = std::fs::read_dir(&dir).expect("goldens").flatten();
    let mut known: Vec<String> = there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    known.sort();
    assert_eq!(known, files.keys().cloned().collect::<Vec<_>>(), "the files of {name}");
    for (file, text) in files {
        let golden = std::fs::read_to_string(dir.join(file)).expect("a golden");
        assert!(
            golden == *text,
            "tests/exports/{name}/{file} is not what is made now: if the change is meant, run with TAREBENCH_BLESS=1, then \
             scripts/check-exports tests/exports/run, and bring tests/exports/VERDICTS.md up to date"
        );
    }
}

#[test]
fn vllm_is_what_vllm_accepted() {
    golden("vllm", &made(&run(), ExportFormat::Vllm, |_, _| true));
}

#[test]
fn the_seeds_json_is_what_it_was() {
    golden("seed", &made(&run(), ExportFormat::Seed, |_, _| true));
}

#[test]
fn csv_is_what_pandas_accepted() {
    golden("csv", &made(&run(), ExportFormat::Csv, |cell, window| (cell, window) == (0, 0)));
}

#[test]
fn the_histogram_log_is_what_hdrhistogram_accepted() {
    golden("hlog", &made(&run(), ExportFormat::Hlog, |_, _| true));
}

#[test]
fn the_prometheus_page_is_what_prometheus_accepted() {
    golden("prometheus", &made(&run(), ExportFormat::Prometheus, |_, window| window == 0));
}

#[test]
fn odd_replies_are_what_vllm_would_have_made_of_them() {
    let files = made(&run(), ExportFormat::Vllm, |cell, window| (cell, window) == (0, 0));
    let of: Value = serde_json::from_str(files.values().next().expect("a file")).expect("JSON");
    // trace ids 2 to 11 without 10, which was never sent: an HTTP error, censored, one token, no usage, two choices, no
    // kernel stamps, no connection, thinking, two events in one read
    assert_eq!(
        (of["num_prompts"].as_u64(), of["completed"].as_u64(), of["failed"].as_u64()),
        (Some(9), Some(6), Some(3))
    );
    let errors = of["errors"].as_array().expect("errors");
    assert!(errors[0].as_str().expect("text").starts_with("http_status: =HYPERLINK"), "{errors:?}");
    assert!(!errors[0].as_str().expect("text").contains(char::is_control));
    assert!(errors[1].as_str().expect("text").starts_with("censored"));
    assert_eq!(errors[2], "");
    assert!(errors[6].as_str().expect("text").starts_with("connect"));
    assert_eq!(of["output_lens"][2], 1, "one token");
    assert_eq!(of["tarebench_output_lens_from_events"], 1);
    assert_eq!(of["output_lens"][3], of["output_lens"][4], "without usage its token events");
    let gaps = |at: usize| of["itls"][at].as_array().expect("gaps").len() as u64;
    // a role-only chunk comes first; with two choices all chunks are in one row of gaps
    assert_eq!((gaps(2), gaps(4)), (1, of["output_lens"][4].as_u64().expect("tokens")));
    assert_eq!(of["itls"][8][2], 0.0, "one read: {}", of["itls"][8]);
    for at in [2, 4, 7, 8] {
        let sum: f64 = of["itls"][at].as_array().expect("gaps").iter().filter_map(Value::as_f64).sum();
        let span = of["latencies"][at].as_f64().expect("s") - of["ttfts"][at].as_f64().expect("s");
        assert!((sum - span).abs() < 1e-9, "request {at}: {sum} {span}");
    }
    assert_eq!(of["tarebench_not_sent"], 1);
    assert!(of["tarebench_marks"].as_str().expect("marks").contains("p99_*_ms: of 6 requests"));
}

#[test]
fn a_window_without_an_answer_is_exported_and_says_so() {
    let files = made(&run(), ExportFormat::Vllm, |cell, window| (cell, window) == (1, 1));
    let of: Value = serde_json::from_str(files.values().next().expect("a file")).expect("JSON");
    assert_eq!(
        (&of["completed"], &of["mean_ttft_ms"], &of["tarebench_valid"]),
        (&0.into(), &0.0.into(), &false.into())
    );
    assert!(of["tarebench_marks"].as_str().expect("marks").contains("failed"));
    let page = made(&run(), ExportFormat::Prometheus, |cell, window| (cell, window) == (1, 1));
    let page = &page["tarebench.prom"];
    let valid = page.lines().find(|line| line.starts_with("tarebench_window_valid{")).expect("a sample");
    assert!(valid.ends_with("} 0"), "{valid}");
    assert!(!page.contains("tarebench_latency_seconds{"), "no percentile of nothing");
    let log = made(&run(), ExportFormat::Hlog, |cell, window| (cell, window) == (1, 1));
    assert!(log["tarebench.hlog"].lines().all(|line| line.starts_with('#')));
}

#[test]
fn texts_from_servers_are_no_formulas_in_csv() {
    let files = made(&run(), ExportFormat::Csv, |cell, window| (cell, window) == (0, 0));
    let mut reader = csv::Reader::from_reader(files["requests.csv"].as_bytes());
    let names = reader.headers().expect("names").clone();
    let column = |name: &str| names.iter().position(|known| known == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 12, "one line a request, whatever stands in it");
    let row = &rows.iter().find(|row| &row[column("trace_id")] == "2").expect("the request");
    assert_eq!(&row[column("error_text")], "'=HYPERLINK(\"http://evil\",\"x\"), <script>alert(1)</script>  [31m");
    assert!(rows.iter().flatten().all(|field| !field.starts_with(['=', '@', '+', '\t'])), "no formula");
    // a signed number stays one
    let gaps = &files["gaps.csv"];
    let tare = csv::Reader::from_reader(gaps.as_bytes()).into_records().flatten().map(|row| row[15].to_owned());
    assert!(tare.filter(|tare| tare.starts_with('-')).all(|tare| tare.parse::<i64>().is_ok()));
}

#[test]
fn a_histogram_log_holds_the_values() {
    let files = made(&run(), ExportFormat::Hlog, |cell, window| (cell, window) == (1, 0));
    let of = Campaign::of_directory(&run()).expect("a run");
    let ttft = of.run.cells[1].windows[0].metrics.ttft.gross.as_ref().expect("ttft");
    let mut found = 0;
    for entry in IntervalLogIterator::new(files["tarebench.hlog"].as_bytes()) {
        let LogEntry::Interval(interval) = entry.expect("a line") else { continue };
        if interval.tag().expect("a tag").as_str().starts_with("cell1-ttft-gross") {
            let bytes = base64(interval.encoded_histogram());
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
            assert_eq!(histogram.len(), ttft.n);
            let max = ttft.max_ms.expect("a maximum");
            assert!((histogram.max() as f64 / 1e6 - max).abs() < max * 2e-3, "{} {max}", histogram.max());
            assert!((interval.max() - max).abs() < max * 2e-3);
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

/// RFC 4648.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    bits.chunks(4)
        .flat_map(|four| {
            let all = four.iter().chain([0; 4].iter()).take(4).fold(0_u32, |all, bits| all << 6 | u32::from(*bits));
            all.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

#[test]
fn the_same_stream_has_other_names_and_figures_elsewhere() {
    let of = Campaign::of_directory(&run()).expect("a run");
    let mut run_json = of.run.clone();
    for window in run_json.cells.iter_mut().flat_map(|cell| &mut cell.windows) {
        window.verdicts.clear();
    }
    let found = terms::of_directory(&run(), &run_json).expect("terms").expect("a window");
    assert_eq!((found.cell, found.window), (1, 0), "the highest load that was answered");
    let term = |tool: &str, name: &str| {
        found
            .terms
            .iter()
            .find(|term| (term.tool, term.name) == (tool, name))
            .unwrap_or_else(|| panic!("{tool} {name}"))
    };
    let (ours, theirs) = (term("tarebench", "gap gross"), term("vLLM bench serve", "itl"));
    assert!(theirs.n > ours.n, "a chunk with the role alone is a gap there: {} {}", theirs.n, ours.n);
    assert!(term("vLLM bench serve", "ttft").mean > term("tarebench", "ttft net").mean);
    assert!(term("seed script", "total_ms").p50.is_some());
    let text = terms::markdown(&run_json, Some(&found));
    assert!(text.contains("| time to first token | tarebench | ttft gross |"), "{text}");
    let width = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| width(line) == 10), "{text}");
    // every window withheld: no figures, and why
    for window in run_json.cells.iter_mut().flat_map(|cell| &mut cell.windows) {
        window.requests.ok = 0;
    }
    assert_eq!(terms::of_directory(&run(), &run_json).expect("terms"), None);
    assert!(terms::markdown(&run_json, None).contains("no request was answered"));
}

#[test]
fn the_command_writes_and_says_what_it_wrote() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("out");
    let (run, out) = (run().display().to_string(), out.display().to_string());
    let arguments = ["export", &run, "--format", "csv,prometheus,vllm", "--out", &out];
    let done = tarebench(&arguments);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mut written: Vec<&str> = done.out.lines().map(|line| line.rsplit('/').next().expect("a name")).collect();
    written.sort_unstable();
    assert_eq!(written.len(), 8, "{written:?}");
    assert_eq!(&written[4..], ["gaps.csv", "requests.csv", "tarebench.prom", "windows.csv"]);
    assert!(done.out.lines().all(|path| Path::new(path).is_file()));
    assert!(done.err.contains("warning: load point/window 1/1: "), "{}", done.err);
    assert!(done.err.lines().all(|line| line.starts_with("warning: ")), "{}", done.err);

    // there already: nothing is touched
    std::fs::write(format!("{out}/windows.csv"), "mine").expect("a file");
    let again = tarebench(&arguments);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("is there already; --force replaces it"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(format!("{out}/windows.csv")).expect("a file"), "mine");
    assert_eq!(std::fs::read_dir(&out).expect("files").count(), 8, "nothing half written is left");
    let forced = tarebench(&[&arguments[..], &["--force"]].concat());
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(std::fs::read_to_string(format!("{out}/windows.csv")).expect("a file").starts_with("run,cell"));
}

#[test]
fn a_choice_that_is_not_there_is_refused_with_what_there_is() {
    let run = run().display().to_string();
    let done = tarebench(&["export", &run, "--format", "csv", "--cell", "0,7"]);
    assert_eq!(
        (done.code, done.err.as_str()),
        (Some(2), "error: --cell 7: this run has no such load point; there are 0, 1\n")
    );
    let done = tarebench(&["export", &run, "--format", "csv", "--cell", "1", "--window", "2"]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.err.contains("--window 2: there is no such window of these load points; there are 0, 1"),
        "{}",
        done.err
    );
    let done = tarebench(&["export", "/nowhere", "--format", "csv"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("/nowhere: no such directory"), "{}", done.err);
}
