//! The fifteen boxes as `run`, `report`, `disclose` and `verify` show them.

use crate::binary::{MockProcess, Place, Running, run_against, tarebench, wait_until};
use crate::foreign_server::{Answer, ForeignServer};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

fn boxes(place: &Place) -> Vec<Value> {
    let document = place.json("boxes.json");
    assert_eq!(document["schema"], "tarebench.boxes/1");
    let boxes = document["boxes"].as_array().expect("boxes").clone();
    assert_eq!(boxes.iter().map(|b| b["box"].as_u64()).collect::<Vec<_>>(), (1..=15).map(Some).collect::<Vec<_>>());
    boxes
}

fn sentence(boxes: &[Value], number: usize) -> String {
    boxes[number - 1]["sentence"].as_str().expect("a sentence").to_owned()
}

#[test]
fn a_run_fills_its_boxes() {
    let mock = MockProcess::start(&["--prefix-cache", "4096"], &[]);
    let place = Place::new();
    let declared = ["--declare", "region=nyc2", "--declare", "price=3", "--max-concurrency", "1,2,4"];
    let done = run_against(&mock.url, &place, 12, &declared);
    place.assert_carried_out(&done);
    place.assert_verifies();
    let found = boxes(&place);
    assert!(sentence(&found, 2).starts_with("36 due, 36 sent, 0 dropped"), "{}", sentence(&found, 2));
    assert!(sentence(&found, 4).starts_with("nothing was dropped"), "{}", sentence(&found, 4));
    assert!(sentence(&found, 5).starts_with("each of 36 prompts begins with a nonce that"), "{}", sentence(&found, 5));
    assert!(sentence(&found, 8).starts_with("3 loads side by side: 1 at once ("), "{}", sentence(&found, 8));
    assert!(sentence(&found, 14).contains("declared, not measured: region nyc2"), "{}", sentence(&found, 14));
    // every output has the labels in its title, and the card at its end
    let labels = place.json("run.json")["labels"].as_array().expect("labels").clone();
    for label in ["LOOPBACK", "SHORT"] {
        assert!(labels.iter().any(|l| l == label), "{labels:?}");
    }
    let title = |text: &str| text.lines().take(2).collect::<Vec<_>>().join("\n");
    let report = fs::read_to_string(place.dir.join("report.md")).expect("report.md");
    let again = tarebench(&["report", place.out(), "--format", "markdown"]);
    assert_eq!((again.code, &again.out), (Some(0), &report));
    let shown = tarebench(&["report", place.out()]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(done.out.starts_with(&shown.out), "the same report, before the directory's name:\n{}", shown.out);
    let page = tarebench(&["disclose", place.out()]);
    assert_eq!(page.code, Some(0), "{}", page.err);
    for text in [&report, &shown.out, &page.out] {
        assert!(title(text).contains("LOOPBACK") && title(text).contains("SHORT"), "{}", title(text));
        assert!(text.contains("region nyc2"), "{text}");
    }
    assert_eq!(page.out.matches("\n- [").count(), 15, "{}", page.out);
    assert!(page.out.contains("- price: 3\n"), "{}", page.out);
    assert!(shown.out.lines().all(|l| l.chars().count() <= 100), "{}", shown.out);
    let json = tarebench(&["disclose", place.out(), "--json"]);
    assert_eq!(json.out, fs::read_to_string(place.dir.join("boxes.json")).expect("boxes.json"));

    let path = place.dir.join("boxes.json");
    fs::write(&path, json.out.replacen("36 due", "37 due", 1)).expect("written");
    let changed = place.verify();
    let first = changed.out.lines().next().unwrap_or_default();
    assert_eq!(changed.code, Some(1));
    assert!(first.starts_with("boxes.json:") && first.contains(": boxes[1].sentence: stored \"37 due"), "{first}");
}

#[test]
fn a_cache_that_helped_stands_in_the_title() {
    let server = ForeignServer::start(|request, _| {
        request.is_post().then(|| {
            let usage =
                r#""usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":64}}"#;
            let chunk = r#"{"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
            let tail = format!(r#"{{"model":"m","choices":[],{usage}}}"#);
            let body = format!("data: {chunk}\n\ndata: {tail}\n\ndata: [DONE]\n\n");
            Answer { pieces: vec![(0, Some(body))], ..Answer::stream(1, 0) }
        })
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    let found = boxes(&place);
    let words = "cached_tokens told on 20 of 20 replies: 1,280 of 2,000 prompt tokens (64 %)";
    assert!(sentence(&found, 5).contains(words), "{}\n{}", sentence(&found, 5), done.err);
    let labels = place.json("run.json")["labels"].clone();
    assert!(labels.as_array().expect("labels").iter().any(|l| l == "CACHE HELPED"), "{labels}");
    place.assert_verifies();
}

#[test]
fn where_nothing_was_answered_there_is_no_report() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::json(500, "{\"error\":\"no\"}")));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 20, &[]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let found = boxes(&place);
    assert_eq!(found[0]["status"], "empty");
    let refusal = "no report: box 1 (First token or full answer, by which clock?) is empty";
    for text in [done.out, fs::read_to_string(place.dir.join("report.md")).expect("report.md")] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(refusal), "{text}");
        assert!(text.contains("20 FAILED") && text.contains("http_status 20"), "what became of them:\n{text}");
        assert!(!text.contains("| ttft | gross |") && !text.contains("  ttft   "), "no table:\n{text}");
    }
    let refused = tarebench(&["report", place.out()]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    assert!(refused.err.contains(refusal), "{}", refused.err);
    assert_eq!(tarebench(&["disclose", place.out()]).code, Some(0), "the boxes can be read all the same");
    place.assert_verifies();

    let none = tarebench(&["report", place.out().strip_suffix("/run").expect("above it")]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("is where run directories lie") && none.err.contains(place.out()), "{}", none.err);
}

#[test]
fn an_interrupted_run_has_boxes() {
    let place = Place::new();
    let flags = ["run", "--max-concurrency", "2", "--num-prompts", "20", "--drop", "0", "--windows", "1"];
    let run = Running::start(&[&flags[..], &["--min-duration", "50", "--out", place.out()]].concat());
    let rows = || fs::read_to_string(place.dir.join("requests.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("some rows", || rows() >= 20);
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().code, Some(130));
    assert!(sentence(&boxes(&place), 9).contains(", 1 of them cut short"), "{}", sentence(&boxes(&place), 9));
    let labels = place.json("run.json")["labels"].clone();
    assert!(labels.as_array().expect("labels").iter().any(|l| l == "NOT COMPLETE"), "{labels}");
    place.assert_verifies();
}
