//! The rules of the house, read off the sources. Each rule is a function over one file's text that is also
//! tried on text that breaks it; each message says what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A source file: its path from the root of the repository, and its text.
struct Source {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, out);
        } else {
            out.push(path);
        }
    }
}

/// Every Rust file of the four crates and their tests.
fn sources() -> Vec<Source> {
    let root = root();
    let mut paths = vec![root.join("build.rs")];
    for dir in ["src", "tests", "bench-engine", "calibration", "statistics"] {
        files_below(&root.join(dir), &mut paths);
    }
    let mut sources: Vec<Source> = paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .map(|p| Source {
            path: p.strip_prefix(&root).expect("below the root").display().to_string(),
            text: std::fs::read_to_string(p).unwrap_or_else(|e| panic!("{}: {e}", p.display())),
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 60, "the sources are where this test looks for them");
    sources
}

/// Code only: comments and the insides of literals become spaces.
fn bare(text: &str) -> String {
    let b = text.as_bytes();
    let mut out = String::with_capacity(b.len());
    let mut i = 0;
    let starts = |i: usize, what: &[u8]| b[i..].starts_with(what);
    while i < b.len() {
        if starts(i, b"//") {
            while i < b.len() && b[i] != b'\n' {
                i += 1;
            }
        } else if starts(i, b"/*") {
            while i < b.len() && !starts(i, b"*/") {
                i += 1;
            }
            i += 2;
        } else if b[i] == b'r' && (starts(i, b"r\"") || starts(i, b"r#\"") || starts(i, b"r##\"")) {
            let hashes = b[i + 1..].iter().take_while(|c| **c == b'#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            i += 2 + hashes;
            while i < b.len() && !starts(i, end.as_bytes()) {
                i += 1;
            }
            i += end.len();
            out.push_str("\"\"");
        } else if b[i] == b'"' {
            i += 1;
            while i < b.len() && b[i] != b'"' {
                i += if b[i] == b'\\' { 2 } else { 1 };
            }
            i += 1;
            out.push_str("\"\"");
        } else if b[i] == b'\'' && (starts(i + 1, b"\\") || b.get(i + 2) == Some(&b'\'')) {
            i += 2;
            while i < b.len() && b[i] != b'\'' {
                i += 1;
            }
            i += 1;
            out.push_str("' '");
        } else {
            out.push(char::from(b[i]));
            i += 1;
        }
    }
    out
}

/// Code without the unit tests at its end.
fn product(text: &str) -> String {
    let code = bare(text);
    match code.find("#[cfg(test)]\nmod tests {") {
        Some(at) => code[..at].to_owned(),
        None => code,
    }
}

/// Every path named in `code`: in `use` trees, spelt out, and in line.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + 4..];
        if before.is_none_or(|c| c.is_whitespace() || c == ')') {
            let end = rest.find(';').unwrap_or(rest.len());
            spell_out("", &rest[..end], &mut found);
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for path in code.split(|c| !is_word(c)).filter(|p| p.contains("::") && !p.ends_with(':')) {
        found.insert(path.trim_start_matches(':').to_owned());
    }
    found
}

fn spell_out(prefix: &str, tree: &str, found: &mut BTreeSet<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or(tree).trim();
        let path = if name == "self" { prefix.trim_end_matches("::").to_owned() } else { format!("{prefix}{name}") };
        if !path.is_empty() {
            found.insert(path);
        }
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0, 0);
    for (i, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..i].trim().is_empty() {
                    spell_out(&prefix, &inner[start..i], found);
                }
                start = i + 1;
            }
            _ => {}
        }
    }
}

/// Whether `path` is `of` or lies below it; a trailing `*` of `of` takes any ending.
fn lies_in(path: &str, of: &str) -> bool {
    match of.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == of || path.starts_with(&format!("{of}::")),
    }
}

fn named<'a>(text: &str, forbidden: &[&'a str]) -> Vec<(String, &'a str)> {
    let found = paths(&product(text));
    let hit = |p: &String| forbidden.iter().find(|f| lies_in(p, f)).map(|f| (p.clone(), *f));
    found.iter().filter_map(hit).collect()
}

/// Applies a rule and fails with all it found.
fn hold(rule: impl Fn(&Source) -> Vec<String>) {
    let broken: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

fn is_pure(path: &str) -> bool {
    let engine = ["wire/", "exchange.rs", "conn.rs", "timers.rs", "record/", "schedule/", "units.rs", "sim.rs"];
    engine.iter().any(|m| path.strip_prefix("bench-engine/src/").is_some_and(|p| p.starts_with(m)))
        || path.starts_with("statistics/src")
        || path.starts_with("src/analysis")
        || path.starts_with("src/reading")
        || path.starts_with("src/workload")
        || path.starts_with("src/disclosure/boxes")
        || is_pure_view(path)
        || ["src/decode.rs", "src/campaign/conduct.rs"].contains(&path)
        || ["src/report/axis.rs", "src/report/picture.rs"].contains(&path)
        || ["closure.rs", "model.rs", "spread.rs", "verdict.rs"]
            .iter()
            .any(|m| path.strip_prefix("calibration/src/") == Some(m))
}

/// All of the live view but for the thread that draws and what starts it.
fn is_pure_view(path: &str) -> bool {
    let parts = ["board", "course", "fitness", "line", "seen"];
    path.strip_prefix("src/live/").is_some_and(|file| parts.iter().any(|part| file.starts_with(part)))
}

/// The readers of workload files, and what hands their faults on.
fn reads_datasets(path: &str) -> bool {
    let readers = ["mod.rs", "remarks.rs", "sessions.rs", "dataset.rs", "lines.rs", "sharegpt.rs"];
    path.strip_prefix("src/workload/").is_some_and(|file| readers.contains(&file))
}

fn pure_modules_ask_nobody(s: &Source) -> Vec<String> {
    // the reader of raw files, what makes them for tests, and what hands on the faults of files that sessions come from
    let reads_files = ["src/analysis/summary/raw_files.rs", "src/analysis/specimen.rs", "src/campaign/conduct.rs"]
        .contains(&s.path.as_str())
        || reads_datasets(&s.path);
    if !is_pure(&s.path) || s.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let mut forbidden = vec![
        "std::time",
        "std::thread",
        "std::sync",
        "std::process",
        "std::env",
        "std::net::Tcp*",
        "std::net::Udp*",
        "std::os",
        "core_affinity",
        "crossbeam_queue",
        "io_uring",
        "nix::sys",
        "nix::time",
        "nix::unistd",
        "tokio",
        "bench_engine::clock::SystemClock",
        "bench_engine::io",
        "bench_engine::engine",
        "bench_engine::worker",
        "bench_engine::cpu",
        "crate::clock::SystemClock",
        "crate::engine",
        "crate::cpu",
        "calibration",
        "tarebench",
        "crate::campaign",
        "crate::cli",
        "crate::plan",
        "crate::probe",
        "crate::target",
        "crate::report",
        "crate::verify",
    ];
    if s.path.starts_with("src/disclosure/boxes") || is_pure_view(&s.path) {
        // sentences print quantities as reports do
        forbidden.retain(|f| *f != "crate::report");
        forbidden.extend(["crate::report::card", "crate::report::markdown", "crate::report::terminal"]);
    }
    if !reads_files {
        forbidden.extend(["std::fs", "std::io"]);
    }
    if s.path == "src/workload/dataset.rs" {
        // an open file is read at any place, and the plans that share it are sent between threads
        forbidden.retain(|f| !["std::sync", "std::os"].contains(f));
        forbidden.extend(["std::sync::Mutex", "std::sync::RwLock", "std::sync::atomic", "std::sync::mpsc"]);
    }
    if s.path.starts_with("bench-engine/src/wire/tls/") {
        // rustls shares what it is set up with, and takes bytes as readers and writers do
        forbidden.retain(|f| !["std::sync", "std::io"].contains(f));
        forbidden.extend(["std::sync::Mutex", "std::sync::RwLock", "std::sync::atomic", "std::sync::mpsc"]);
    }
    if s.path != "bench-engine/src/sim.rs" {
        // the simulated driver is a driver
        forbidden.extend(["crate::io", "crate::worker"]);
    }
    let words = |(path, _): (String, &str)| {
        format!(
            "{}: names {path}, but is a pure module: take times, bytes and stamps as parameters, and leave clocks, \
             sockets, threads and the crates above to the caller",
            s.path
        )
    };
    named(&s.text, &forbidden).into_iter().map(words).collect()
}

#[test]
fn pure_modules() {
    hold(pure_modules_ask_nobody);
    for (bad, seen) in [
        ("use std::time::Instant;", true),
        ("use std::{fmt, thread};", true),
        ("fn f() { let t = std::time::Instant::now(); }", true),
        ("use crate::clock::{Clock, SystemClock};", true),
        ("use std::net::{SocketAddr, TcpStream};", true),
        ("use crate::io::Driver;", true),
        ("use nix::sys::socket::recv;", true),
        ("use std::net::SocketAddr;\nuse crate::clock::ClockMap; // not std::time\n", false),
        ("fn f() -> &'static str { \"std::time::Instant\" }", false),
        ("fn f() {}\n#[cfg(test)]\nmod tests {\n use std::time::Instant;\n}\n", false),
    ] {
        let found = pure_modules_ask_nobody(&source("bench-engine/src/conn.rs", bad));
        assert_eq!(!found.is_empty(), seen, "{bad}: {found:?}");
    }
    assert_eq!(pure_modules_ask_nobody(&source("src/analysis/noise.rs", "use crate::report::markdown;")).len(), 1);
    assert_eq!(pure_modules_ask_nobody(&source("src/campaign/mod.rs", "use std::time::Duration;")).len(), 0);
}

fn crates_point_down(s: &Source) -> Vec<String> {
    let crate_of = |p: &str| p.split('/').next().unwrap_or("").to_owned();
    let above: &[&str] = match crate_of(&s.path).as_str() {
        "bench-engine" => &["calibration", "tarebench"],
        "calibration" => &["tarebench"],
        "statistics" => &["bench_engine", "calibration", "tarebench"],
        _ => &[],
    };
    // the tests of statistics try them on the engine's schedules
    let text = if s.path.starts_with("statistics") { product(&s.text) } else { s.text.clone() };
    let words = |(path, _)| format!("{}: names {path}, a crate above: move what is needed down, or pass it in", s.path);
    named(&text, above).into_iter().map(words).collect()
}

#[test]
fn crates_in_one_direction() {
    hold(crates_point_down);
    assert_eq!(crates_point_down(&source("bench-engine/src/x.rs", "use calibration::mock::Mock;")).len(), 1);
    assert_eq!(crates_point_down(&source("calibration/src/x.rs", "fn f() { tarebench::cli::g() }")).len(), 1);
    assert_eq!(crates_point_down(&source("statistics/src/x.rs", "use bench_engine::units::Nanos;")).len(), 1);
    assert_eq!(crates_point_down(&source("src/x.rs", "use calibration::mock::Mock;")).len(), 0);
    for (manifest, names) in
        [("bench-engine/Cargo.toml", vec!["calibration", "tarebench"]), ("calibration/Cargo.toml", vec!["tarebench"])]
    {
        let text = std::fs::read_to_string(root().join(manifest)).expect("a manifest");
        let lines =
            |name: &str| text.lines().any(|l| l.starts_with(&format!("{name} ")) || l.starts_with(&format!("{name}.")));
        assert!(!names.iter().any(|n| lines(n)), "{manifest}: depends on a crate above; remove it");
    }
}

/// What rustls offers changes from version to version, and tokens of it elsewhere would hide where plain bytes begin.
fn tls_has_one_home(s: &Source) -> Vec<String> {
    if s.path.starts_with("bench-engine/src/wire/tls/") || s.path.contains("tests/") {
        return Vec::new();
    }
    let words = |(path, _)| format!("{}: names {path}: ask bench_engine::wire::tls", s.path);
    named(&s.text, &["rustls", "webpki_roots", "ring"]).into_iter().map(words).collect()
}

#[test]
fn tls() {
    hold(tls_has_one_home);
    assert_eq!(tls_has_one_home(&source("bench-engine/src/worker/mod.rs", "use rustls::ClientConnection;")).len(), 1);
}

/// Tokenising takes milliseconds: it is done ahead of a request's turn, by one module, and never where time is measured.
fn tokenising_has_one_home(s: &Source) -> Vec<String> {
    if s.path == "src/tokenizer.rs" {
        return Vec::new();
    }
    let words = |(path, _)| format!("{}: names {path}: ask crate::tokenizer, and never from the load path", s.path);
    named(&s.text, &["tokenizers"]).into_iter().map(words).collect()
}

#[test]
fn tokenising() {
    hold(tokenising_has_one_home);
    let found = |path, text| tokenising_has_one_home(&source(path, text)).len();
    assert_eq!(found("bench-engine/src/worker/mod.rs", "use tokenizers::Tokenizer;"), 1);
    assert_eq!(found("src/tokenizer.rs", "use tokenizers::Tokenizer;"), 0);
    assert_eq!(found("src/campaign/feeder.rs", "use crate::tokenizer::Tokenizer;"), 0);
    for manifest in ["bench-engine/Cargo.toml", "calibration/Cargo.toml"] {
        let text = std::fs::read_to_string(root().join(manifest)).expect("a manifest");
        assert!(!text.contains("tokenizers"), "{manifest}: a tokenizer is in reach of the load path; remove it");
    }
}

fn the_engine_is_silent(s: &Source) -> Vec<String> {
    if !s.path.starts_with("bench-engine/src/") {
        return Vec::new();
    }
    let code = product(&s.text);
    let macros = ["println!", "eprintln!", "print!", "eprint!", "dbg!", "log::", "tracing::"];
    let said = macros.iter().find(|m| {
        code.match_indices(*m).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    let ends = ["process::exit", "process::abort"].iter().find(|m| code.contains(*m));
    let words = |what: &&str| {
        format!("{}: {what}: the engine never prints, logs or exits; return it, or put it into a record", s.path)
    };
    said.into_iter().chain(ends).map(words).collect()
}

#[test]
fn a_silent_engine() {
    hold(the_engine_is_silent);
    for bad in ["println!(\"x\")", "fn f() { std::process::exit(1) }", "dbg!(x);", "eprint!(\"a\")"] {
        assert_eq!(the_engine_is_silent(&source("bench-engine/src/x.rs", bad)).len(), 1, "{bad}");
    }
    assert_eq!(
        the_engine_is_silent(&source("bench-engine/src/x.rs", "// println!\nfn f() { write!(s, \"\") }")).len(),
        0
    );
}

/// The modules of `calibration` that judge the client by what the mock logged, and may use its code to do so. All
/// others are the mock.
const JUDGES: [&str; 6] = ["clock_cost", "closure", "model", "parser_cost", "spread", "verdict"];

fn the_mock_shares_only_units_and_clock(s: &Source) -> Vec<String> {
    let Some(module) = s.path.strip_prefix("calibration/src/") else { return Vec::new() };
    if JUDGES.iter().any(|judge| module.strip_suffix(".rs") == Some(judge)) {
        return Vec::new();
    }
    let found = paths(&bare(&s.text));
    // neither the client's code, nor by way of those that use it
    let is_a_judge = |p: &&String| {
        let from_here = p.split("::").find(|part| !["crate", "calibration", "super"].contains(part));
        p.contains("::") && from_here.is_some_and(|part| JUDGES.contains(&part))
    };
    let by_way = found.iter().filter(is_a_judge).filter(|_| module != "lib.rs").cloned();
    let allowed = ["bench_engine::units", "bench_engine::clock"];
    let shared = found.iter().filter(|p| lies_in(p, "bench_engine"));
    shared
        .filter(|p| !allowed.iter().any(|a| lies_in(p, a)))
        .cloned()
        .chain(by_way)
        .map(|p| {
            format!(
                "{}: names {p}: the mock shares only units and clock with the client it judges; write its own",
                s.path
            )
        })
        .collect()
}

#[test]
fn a_mock_of_its_own() {
    hold(the_mock_shares_only_units_and_clock);
    let found = |text| the_mock_shares_only_units_and_clock(&source("calibration/src/mock/x.rs", text)).len();
    assert_eq!(found("use bench_engine::{units::Nanos, wire::head::HeadReader};"), 1);
    assert_eq!(found("use bench_engine::wire::sse::Sse;"), 1);
    assert_eq!(found("use bench_engine::clock::{Clock, SystemClock};\nuse bench_engine::units::Nanos;"), 0);
    assert_eq!(found("use crate::{truth::TruthRow, parser_cost};"), 1);
    assert_eq!(found("use super::super::closure::Joiner;"), 1);
    let shared = "use bench_engine::wire::sse::Sse;";
    for (file, broken) in [("truth.rs", 1), ("lib.rs", 1), ("mock/closure.rs", 1), ("closure.rs", 0), ("model.rs", 0)] {
        let source = source(&format!("calibration/src/{file}"), shared);
        assert_eq!(the_mock_shares_only_units_and_clock(&source).len(), broken, "{file}");
    }
}

fn the_verifier_stands_alone(s: &Source) -> Vec<String> {
    let is_verifier = s.path == "src/verify.rs" || s.path.starts_with("src/verify/");
    if !is_verifier || s.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let allowed = [
        "crate::analysis::definitions",
        "crate::analysis::percentiles",
        "crate::analysis::statistics",
        "crate::rundir::row",
        "crate::rundir::mark",
        "crate::rundir::chain",
        // the files that rows lie in, and what a window without a line was like
        "crate::rundir::rows",
        "crate::rundir::opening",
        // the reports are rendered again and compared
        "crate::report::markdown",
        "crate::report::html",
        // so are the boxes, from the recomputed run
        "crate::disclosure::directory",
        // the form of the goals in plan.json
        "crate::goals",
    ];
    paths(&product(&s.text))
        .into_iter()
        .filter(|p| lies_in(p, "crate") && !allowed.iter().any(|a| lies_in(p, a)))
        .map(|p| {
            format!(
                "{}: names {p}: the verifier shares with the writer only definitions, percentiles, pure statistics, the \
                 row and the chain; compute it here a second time",
                s.path
            )
        })
        .collect()
}

#[test]
fn a_verifier_that_shares_only_definitions() {
    hold(the_verifier_stands_alone);
    let found = |text| the_verifier_stands_alone(&source("src/verify/x.rs", text)).len();
    assert_eq!(found("use crate::analysis::{percentiles, summary::summarise};"), 1);
    assert_eq!(found("use crate::rundir::window::WindowRow;"), 1);
    assert_eq!(found("use crate::analysis::definitions::{rules, share};"), 0);
}

fn unsafe_has_one_home(s: &Source) -> Vec<String> {
    // an allocator that counts cannot be written without it
    let homes = ["bench-engine/src/io/uring/", "tests/it/allocations.rs"];
    if homes.iter().any(|home| s.path.starts_with(home)) {
        return Vec::new();
    }
    let code = bare(&s.text);
    let words: Vec<&str> = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    if !words.contains(&"unsafe") {
        return Vec::new();
    }
    vec![format!(
        "{}: unsafe: only bench-engine/src/io/uring may use it; find a safe call in nix, or move the block there with \
         its reason",
        s.path
    )]
}

#[test]
fn unsafe_code_in_one_place() {
    hold(unsafe_has_one_home);
    assert_eq!(unsafe_has_one_home(&source("src/x.rs", "fn f() { unsafe { g() } }")).len(), 1);
    assert_eq!(unsafe_has_one_home(&source("src/x.rs", "#![forbid(unsafe_code)] // unsafe")).len(), 0);
    for (file, attribute) in [
        ("src/lib.rs", "#![forbid(unsafe_code)]"),
        ("src/main.rs", "#![forbid(unsafe_code)]"),
        ("calibration/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("statistics/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("bench-engine/src/lib.rs", "#![deny(unsafe_code)]"),
    ] {
        let text = std::fs::read_to_string(root().join(file)).expect("a crate root");
        assert!(text.contains(attribute), "{file}: put {attribute} at its top");
    }
}

fn one_clock(s: &Source) -> Vec<String> {
    if s.path == "bench-engine/src/clock.rs" {
        return Vec::new();
    }
    let code = bare(&s.text);
    let asks = ["Instant::now", "SystemTime", "clock_gettime", "gettimeofday", ".elapsed()", "UNIX_EPOCH"];
    let found = asks.iter().filter(|a| code.contains(*a));
    found
        .map(|a| format!("{}: {a}: only bench-engine/src/clock.rs asks the system for time; use its Clock", s.path))
        .collect()
}

#[test]
fn one_place_that_asks_for_the_time() {
    hold(one_clock);
    assert_eq!(one_clock(&source("src/x.rs", "let t = std::time::Instant::now();")).len(), 1);
    assert_eq!(one_clock(&source("tests/it/x.rs", "start.elapsed();")).len(), 1);
    assert_eq!(one_clock(&source("src/x.rs", "let t = SystemClock.now();")).len(), 0);
}

fn files_are_nouns(s: &Source) -> Vec<String> {
    let no_nouns = ["util", "utils", "helper", "helpers", "common", "manager", "managers", "misc", "shared"];
    let parts = s.path.trim_end_matches(".rs").split('/');
    parts
        .filter(|part| part.split(['_', '-']).any(|word| no_nouns.contains(&word)))
        .map(|part| format!("{}: {part} says nothing: name the file for the thing of the domain that is in it", s.path))
        .collect()
}

#[test]
fn files_named_for_the_domain() {
    hold(files_are_nouns);
    assert_eq!(files_are_nouns(&source("src/utils.rs", "")).len(), 1);
    assert_eq!(files_are_nouns(&source("src/window_manager.rs", "")).len(), 1);
    assert_eq!(files_are_nouns(&source("src/common/x.rs", "")).len(), 1);
    assert_eq!(files_are_nouns(&source("src/window.rs", "")).len(), 0);
}

/// Names of tests that are ignored, with what calls none of them.
fn ignored_tests(s: &Source, run_by: &str) -> Vec<String> {
    let code = bare(&s.text);
    let ignored = code.split("#[ignore").skip(1).filter_map(|after| {
        let name = after.split("fn ").nth(1)?;
        Some(name.split(['(', '<']).next().unwrap_or(name).trim().to_owned())
    });
    ignored
        .filter(|name| !run_by.contains(name.as_str()))
        .map(|name| {
            format!("{}: {name} is ignored, and nothing runs it: add a line to scripts/ or .ci/, or delete it", s.path)
        })
        .collect()
}

#[test]
fn no_test_that_nobody_runs() {
    let mut scripts = Vec::new();
    for dir in ["scripts", ".ci", ".github"] {
        files_below(&root().join(dir), &mut scripts);
    }
    let run_by: String = scripts.iter().filter_map(|p| std::fs::read_to_string(p).ok()).collect();
    hold(|s| ignored_tests(s, &run_by));
    let long = source("src/x.rs", "#[test]\n#[ignore = \"long\"]\nfn a_long_one() {}");
    assert_eq!(ignored_tests(&long, "cargo test another_one -- --ignored").len(), 1);
    assert_eq!(ignored_tests(&long, "cargo test a_long_one -- --ignored").len(), 0);
}

fn tests_do_not_time(s: &Source) -> Vec<String> {
    let is_test = s.path.starts_with("tests/") || s.path.contains("/tests/") || s.path.ends_with("tests.rs");
    let code = bare(&s.text);
    let naps = code.matches("thread::sleep").count();
    // waiting for another process or thread to have done something, in a loop that is bounded
    let bounded = code.matches("fn wait_until").count();
    if !is_test || naps <= bounded {
        return Vec::new();
    }
    vec![format!(
        "{}: sleeps {naps} time(s): a test does not sleep to make time pass; use the simulated clock, or wait_until with \
         a condition",
        s.path
    )]
}

#[test]
fn tests_without_naps() {
    hold(tests_do_not_time);
    let nap = "fn f() { std::thread::sleep(Duration::from_secs(1)); }";
    assert_eq!(tests_do_not_time(&source("tests/it/x.rs", nap)).len(), 1);
    assert_eq!(tests_do_not_time(&source("src/x.rs", nap)).len(), 0);
}

#[test]
fn the_reading_of_paths() {
    let code =
        bare("use a::{self, b::{C, d as e}, f};\npub use g::h; // i::j\nfn k() { l::m(); \"n::o\"; '\"'; p::Q }");
    let found: Vec<String> = paths(&code).into_iter().collect();
    for path in ["a", "a::b::C", "a::b::d", "a::f", "g::h", "l::m", "p::Q"] {
        assert!(found.contains(&path.to_owned()), "{path} in {found:?}");
    }
    assert!(!found.iter().any(|p| p.starts_with('i') || p.starts_with('n')), "{found:?}");
}
