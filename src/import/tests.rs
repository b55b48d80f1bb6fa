use super::*;
use proptest::prelude::*;

fn imported(text: &str) -> Imported {
    with(text, &Columns::default())
}

fn with(text: &str, columns: &Columns) -> Imported {
    Imported::of(&read(text, "f", columns).unwrap(), "f", "0".repeat(64))
}

fn refused(text: &str) -> String {
    read(text, "f", &Columns::default()).unwrap_err().to_string()
}

/// A file of the tail-latency study's form: 75 records a load, chains of two calls.
fn study() -> String {
    let records: Vec<String> = (0..75)
        .map(|i| {
            let ttft = 150.0 + f64::from(i * 37 % 75);
            let total = ttft + 500.0;
            format!("{{\"ttft_ms\":{ttft:.1},\"total_ms\":{total:.1},\"prompt_tokens\":9,\"completion_tokens\":64,\"content\":\"x\"}}")
        })
        .collect();
    let records = records.join(",");
    format!(
        "{{\"model\":\"m\",\"timestamp\":\"2026-07-27\",\"baseline_sweep\":{{\
         \"concurrency_20\":{{\"summary\":{{}},\"records\":[{{\"error\":\"boom\",\"ttft_ms\":null,\"total_ms\":null}}]}},\
         \"concurrency_1\":{{\"summary\":{{\"n\":75,\"p50_ms\":187.0,\"p95_ms\":220.3,\"p99_ms\":999.0,\"p99_to_p50_ratio\":1.19}},\"records\":[{records}]}}}},\
         \"chained_session\":{{\"chain_summary\":{{\"n_chains\":2,\"p50\":1500.0}},\"chains\":[\
         {{\"chain_index\":0,\"total_chain_ms\":1000.0,\"calls\":[{{\"ttft_ms\":1.0,\"total_ms\":400.0}},{{\"ttft_ms\":2.0,\"total_ms\":600.0}}]}},\
         {{\"chain_index\":1,\"calls\":[{{\"ttft_ms\":1.0,\"total_ms\":900.0}},{{\"ttft_ms\":2.0,\"total_ms\":1100.0}}]}},\
         {{\"chain_index\":2,\"calls\":[{{\"error\":\"reset\",\"ttft_ms\":null,\"total_ms\":null}}]}}]}}}}"
    )
}

#[test]
fn a_unit_that_nothing_tells_is_said_and_one_in_a_name_wins() {
    let assumed = |found: &Imported| found.notes.iter().any(|note| note.contains("taken as ms"));
    let seconds = Columns { unit_ms: Some(1e3), ..Columns::default() };
    assert!(assumed(&imported("ttft\n0.5\n")) && assumed(&imported("0.5\n0.6\n")));
    assert!(!assumed(&imported("ttft_ms\n5\n")) && !assumed(&with("ttft\n0.5\n", &seconds)));
    let p50 = |text: &str, columns: &Columns| with(text, columns).groups[0].ttft.as_ref().unwrap().percentiles["p50"];
    assert_eq!((p50("ttft\n0.5\n", &seconds), p50("ttft_ms\n5\n", &seconds)), (500.0, 5.0));
    let named = Columns { ttft: Some("first_ms".into()), ..seconds };
    assert_eq!(p50("first_ms\n5\n", &named), 5.0);
}

#[test]
fn an_empty_error_is_none() {
    let found = imported(r#"[{"ttft_ms":1,"error":""},{"ttft_ms":2,"error":"reset"}]"#);
    assert_eq!((found.groups[0].ok, found.groups[0].failed), (1, 1));
}

#[test]
fn a_study_is_analysed_load_by_load_and_held_against_its_own_summary() {
    let found = imported(&study());
    assert_eq!(found.facts["model"], "m");
    let names: Vec<&str> = found.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["concurrency 1", "concurrency 20"], "by number, not by name");
    let one = &found.groups[0];
    let ttft = one.ttft.as_ref().unwrap();
    assert_eq!((ttft.n, ttft.percentiles["p50"], ttft.percentiles["p95"]), (75, 187.0, 220.3));
    // ranks 29 and 47 of 75; 75 values carry p95 as far as their largest, and no p99 at all
    assert_eq!(ttft.ci["p50"], [178.0, 196.0]);
    assert!(ttft.ci.contains_key("p95") && !ttft.ci.contains_key("p99") && !ttft.percentiles.contains_key("p99"));
    assert_eq!(one.tokens_per_s.as_ref().unwrap().mean, 128.0);
    let said: Vec<(&str, Option<bool>)> = one.published.iter().map(|p| (p.figure.as_str(), p.agrees)).collect();
    assert_eq!(said[..4], [("n", Some(true)), ("p50_ms", Some(true)), ("p95_ms", Some(true)), ("p99_ms", Some(false))]);
    assert_eq!(said[4], ("p99_to_p50_ratio", Some(true)));
    assert_eq!((found.groups[1].failed, found.groups[1].ttft.is_none()), (1, true));
    let chains = found.chains.unwrap();
    let total = chains.total.unwrap();
    assert_eq!((total.n, total.percentiles["p50"], total.max, chains.broken), (2, 1500.0, 2000.0, 1));
    assert!(chains.published.iter().all(|p| p.agrees == Some(true)));
    let single = &chains.drawn[0];
    assert_eq!((single.calls, single.p50), (1, 687.0));
    let ten = chains.drawn.iter().find(|d| d.calls == 10).unwrap();
    assert!((ten.p50 / 6870.0 - 1.0).abs() < 0.01, "{}", ten.p50);
}

#[test]
fn a_figure_that_its_records_do_not_bear_out_is_named() {
    let found = imported(
        "{\"concurrency\":8,\"summary\":{\"ttft\":{\"p50_ms\":2.5}},\"records\":[{\"ttft_ms\":1.0},{\"ttft_ms\":2.0},{\"ttft_ms\":3.0}]}",
    );
    let p = &found.groups[0].published[0];
    assert_eq!((p.stored, p.recomputed, p.agrees), (2.5, Some(2.0), Some(false)));
    assert!(crate::report::import::render(&found).contains("DIFFERS: the file says ttft p50_ms 2.5"));
    assert_eq!(found.groups[0].name, "concurrency 8");
}

#[test]
fn the_abandoned_are_no_failures_and_bound_the_total_from_below() {
    let mut text = String::new();
    for i in 0..50 {
        text += &match i {
            7 => "{\"i\":7,\"abandoned_after_ms\":150000}\n".to_owned(),
            9 => "{\"i\":9,\"error\":\"http 500\",\"ttft_ms\":null,\"total_ms\":null}\n".to_owned(),
            i => format!(
                "{{\"i\":{i},\"ttft_ms\":10.5,\"total_ms\":{},\"completion_tokens\":4,\"error\":null}}\n",
                100 + i
            ),
        };
    }
    let found = imported(&text);
    let all = &found.groups[0];
    assert_eq!((all.records, all.ok, all.failed, all.abandoned), (50, 48, 1, 1));
    let (of_completed, bound) = (all.total.as_ref().unwrap().max, &all.total_at_least.as_ref().unwrap());
    assert_eq!(of_completed, 149.0);
    assert!(bound["p95"] > all.total.as_ref().unwrap().percentiles["p95"]);
    assert!(crate::report::import::render(&found).contains("1 abandoned"));
}

#[test]
fn delimited_text_with_names_units_and_groups() {
    let text = "arm,ttft_s,\"e2e (ms)\",error\nasyncio,0.2,700,\nthreads,0.3,800,\n\"asyncio\",,900,\nthreads,0.1,100,\"a, b\"\n";
    let columns = Columns { by: Some("arm".into()), total: Some("e2e (ms)".into()), ..Columns::default() };
    let found = with(text, &columns);
    let names: Vec<&str> = found.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["asyncio", "threads"]);
    let asyncio = &found.groups[0];
    assert_eq!((asyncio.ttft.as_ref().unwrap().max, asyncio.total.as_ref().unwrap().max), (200.0, 900.0));
    assert_eq!((asyncio.without_ttft, found.groups[1].failed), (1, 1));
    let bare = with("# seconds\n1.5\n2.5\n\n", &Columns { unit_ms: Some(1e3), ..Columns::default() });
    assert_eq!(bare.groups[0].total.as_ref().unwrap().percentiles["p50"], 2000.0);
}

#[test]
fn the_seeds_two_windows_have_no_interval_of_p99_at_300() {
    let text: String = (0..300).map(|i| format!("{}\n", 100 + i)).collect();
    let total = imported(&text).groups[0].total.clone().unwrap();
    assert!(total.percentiles.contains_key("p99") && !total.ci.contains_key("p99"));
    assert_eq!(total.ci["p95"], [100.0 + 276.0, 100.0 + 292.0], "ranks 277 and 293");
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    for (text, told) in [
        ("", "is empty"),
        ("{}", "no known form"),
        ("[]", "holds no record"),
        ("[1]", "[0]: is no object"),
        ("[{\"ttft_ms\":-1}]", "[0]: ttft_ms must be a time in ms"),
        ("[{\"ttft_ms\":\"5\"}]", "ttft_ms must be a time in ms of 0 or more, not \"5\""),
        ("[{\"x\":5}]", "has neither ttft_ms"),
        ("{\"baseline_sweep\":{\"concurrency_1\":{}}}", "baseline_sweep.concurrency_1: has no records"),
        ("{\"ttft_ms\":1}\n{\"ttft_ms\":}\n", "f:2: "),
        ("{\"records\":[{\"ttft_ms\":1}", "f:1: "),
        ("a,b\n1,2\n", "no column of times among a, b"),
        ("ttft_ms\n5\nsoon\n", "f:3: \"soon\" is no time"),
        ("ttft_ms,error\n5\n", "f:2: has 1 fields, the first line has 2"),
        ("ttft_ms\n\"5\n", "does not end on its line"),
        ("1\n-2\n", "f:2: \"-2\""),
        ("1\n1e999\n", "f:2: \"1e999\""),
    ] {
        let said = refused(text);
        assert!(said.contains(told), "{text:?}: {said}");
    }
    let asked = Columns { ttft: Some("x".into()), ..Columns::default() };
    assert!(read("a,b\n", "f", &asked).unwrap_err().to_string().contains("no column \"x\"; there are a, b"));
    let directory = tempfile::tempdir().unwrap();
    let said = Imported::from_file(directory.path(), &asked).unwrap_err().to_string();
    assert!(said.contains("is a directory"), "{said}");
    let utf16 = directory.path().join("u");
    std::fs::write(&utf16, [0xff, 0xfe, b'1', 0]).unwrap();
    let said = Imported::from_file(&utf16, &asked).unwrap_err().to_string();
    assert!(said.contains("is not UTF-8 at byte 0"), "{said}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in "\\PC{0,200}") {
        if let Ok(recording) = read(&text, "f", &Columns::default()) {
            crate::report::import::render(&Imported::of(&recording, "f", "0".repeat(64)));
        }
    }

    #[test]
    fn almost_a_study_is_read_or_refused(at in 0_usize..2000, byte in prop::sample::select(vec!["{", "}", "[", "null", "-5", "\"", ",", "1e400"])) {
        let mut text = study();
        let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap();
        text.insert_str(at, byte);
        if let Ok(recording) = read(&text, "f", &Columns::default()) {
            let found = Imported::of(&recording, "f", "0".repeat(64));
            prop_assert!(!serde_json::to_string(&found).unwrap().contains("NaN"));
            crate::report::import::render(&found);
        }
    }
}
