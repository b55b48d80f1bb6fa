//! Asked lengths against what a server counts: the probe before the first window, and a tokenizer of our own.

use crate::binary::{Place, Running, run_against, tarebench};
use crate::foreign_server::{Answer, ForeignServer, Received};
use crate::live::RunningMock;
use calibration::mock::{MockConfig, UsageMode};
use serde_json::Value;
use std::path::Path;
use tarebench::tokenizer::Tokenizer;

/// Answers a request of the probe so that it tells nothing.
type Failing = Box<dyn Fn() -> Answer + Send + Sync>;

const TOKENIZER: &str = "tests/data/tokenizer.json";

fn mock(tokens_per_word: f64, template_tokens: u32) -> RunningMock {
    RunningMock::start(MockConfig { tokens_per_word, template_tokens, ..MockConfig::default() })
}

fn url(mock: &RunningMock) -> String {
    format!("http://{}", mock.address)
}

/// What the server counted less what was asked, of each row.
fn off(place: &Place) -> Vec<i64> {
    let of =
        |row: &tarebench::rundir::row::Row| row.prompt_tokens.expect("usage") as i64 - row.asked_prompt_tokens as i64;
    place.rows().iter().map(of).collect()
}

/// Counts as `count` says in the text of the prompt, after a template of 7 tokens.
fn counting(count: impl Fn(&str) -> u64 + Send + Sync + 'static) -> ForeignServer {
    ForeignServer::start(move |request: &Received, _| {
        request.is_post().then(|| {
            let body: Value = serde_json::from_str(&request.body).expect("JSON");
            let text = body["messages"][0]["content"].as_str().expect("text");
            with_prompt_tokens(count(text) + 7)
        })
    })
}

fn with_prompt_tokens(n: u64) -> Answer {
    let mut answer = Answer::stream(2, 0);
    for (_, piece) in &mut answer.pieces {
        *piece = piece.take().map(|text| text.replace("\"prompt_tokens\":3", &format!("\"prompt_tokens\":{n}")));
    }
    answer
}

#[test]
fn a_server_that_counts_otherwise_is_told_before_the_load_and_its_count_is_met() {
    let (mock, place) = (mock(1.13, 9), Place::new());
    let done = run_against(&url(&mock), &place, 30, &["--length-probe", "on"]);
    place.assert_carried_out(&done);
    let at = |words: &str| done.err.find(words).unwrap_or_else(|| panic!("{words:?} is not in {}", done.err));
    assert!(at("(ratio 1.13)") < at("window   "), "{}", done.err);
    at("the server counts 1.13 tokens a word and 9 more for its template (5 requests");
    assert!(off(&place).iter().all(|off| off.abs() <= 1), "a word is 1.13 tokens: {:?}", off(&place));
    let gauge = &place.json("plan.json")["gauge"];
    assert_eq!((&gauge["probe"], &gauge["requests"]), (&Value::from("learnt"), &Value::from(5)), "{gauge}");
    assert_eq!(place.rows().len(), 30, "the probe is in no count");
    place.assert_verifies();
    let boxes = place.json("boxes.json").to_string();
    assert!(boxes.contains("before it 5 short requests had shown how this server counts tokens"), "{boxes}");
}

#[test]
fn against_the_mock_every_asked_length_is_met_without_asking() {
    let (mock, place) = (mock(1.0, 0), Place::new());
    let done = run_against(&url(&mock), &place, 30, &[]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("a word is taken for a token (the mock counts words)"), "{}", done.err);
    assert!(off(&place).iter().all(|off| *off == 0), "{:?}", off(&place));
    assert_eq!(place.json("plan.json")["gauge"]["probe"], "not_asked");
}

#[test]
fn a_foreign_server_is_asked_unless_told_not_to() {
    let server = counting(|text| text.split(' ').count() as u64);
    let place = Place::new();
    let done = run_against(&server.url(), &place, 10, &[]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("1.00 tokens a word and 7 more for its template"), "{}", done.err);
    assert!(off(&place).iter().all(|off| *off == 0), "{:?}", off(&place));
    let posts = |server: &ForeignServer| server.received().iter().filter(|r| r.is_post()).count();
    assert_eq!(posts(&server), 15);
    let one_token = |r: &Received| serde_json::from_str::<Value>(&r.body).is_ok_and(|body| body["max_tokens"] == 1);
    assert!(server.received().iter().filter(|r| r.is_post()).take(5).all(one_token));
    let (quiet, place) = (counting(|_| 0), Place::new());
    let done = run_against(&quiet.url(), &place, 10, &["--length-probe", "off"]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("a word is taken for a token (--length-probe off)"), "{}", done.err);
    assert_eq!(posts(&quiet), 10);
}

#[test]
fn a_probe_that_fails_says_why_and_the_run_goes_on() {
    // refusals, silence about usage, one number for all, a broken connection
    let no_usage = || {
        let mut answer = with_prompt_tokens(5);
        answer.pieces.iter_mut().for_each(|(_, piece)| {
            *piece = piece.take().map(|text| text.replace("usage", "used"));
        });
        answer
    };
    let broken = || Answer { pieces: vec![(0, Some("data: ".to_owned())), (0, None)], ..Answer::stream(1, 0) };
    let cases: [(Failing, &str); 4] = [
        (
            Box::new(|| Answer::json(422, "{\"error\":{\"message\":\"max_tokens too small\"}}")),
            "HTTP 422 max_tokens too small",
        ),
        (Box::new(no_usage), "the reply has no usage.prompt_tokens"),
        (Box::new(|| with_prompt_tokens(3)), "a word has 0.00 tokens"),
        (Box::new(broken), "closed before its reply was complete"),
    ];
    for (answer, words) in cases {
        let server = ForeignServer::start(move |r, posts| {
            let of_probe = r.is_post().then(|| posts < 5 && r.body.contains("\"max_tokens\":1,"));
            of_probe.map(|of_probe| if of_probe { answer() } else { Answer::stream(2, 0) })
        });
        let place = Place::new();
        let done = run_against(&server.url(), &place, 4, &[]);
        place.assert_carried_out(&done);
        let told = done.err.lines().find(|line| line.contains("the length probe told nothing")).unwrap_or_default();
        assert!(told.contains(words) && told.contains("a word is taken for a token"), "{words}: {}", done.err);
        let gauge = &place.json("plan.json")["gauge"];
        assert_eq!((&gauge["probe"], &gauge["per_word"]), (&Value::from("nothing_learnt"), &Value::from(1.0)));
        place.assert_verifies();
    }
}

#[test]
fn a_server_that_does_not_answer_the_probe_is_asked_once() {
    let server = ForeignServer::start(|r, posts| {
        r.is_post().then(|| if posts == 0 { Answer::stream(1, 600_000) } else { Answer::stream(2, 0) })
    });
    let place = Place::new();
    let done = run_against(&server.url(), &place, 4, &["--timeout", "0.4"]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("told nothing (a prompt of"), "{}", done.err);
    assert!(done.err.contains("no whole reply within"), "{}", done.err);
    assert_eq!(server.received().iter().filter(|r| r.is_post()).count(), 5, "one of the probe, four of the load");
}

#[test]
fn an_interrupt_ends_the_probe() {
    let server = ForeignServer::start(|r, _| r.is_post().then(|| Answer::stream(1, 600_000)));
    let place = Place::new();
    let run = Running::start(&["run", "--base-url", &server.url(), "--num-prompts", "2", "--out", place.out()]);
    crate::binary::wait_until("the probe is sent", || server.received().iter().any(Received::is_post));
    run.signal(nix::sys::signal::Signal::SIGINT);
    let done = run.end();
    assert_eq!(done.code, Some(130), "{}", done.err);
    assert_eq!(server.received().iter().filter(|r| r.is_post()).count(), 1, "no load was sent");
}

#[test]
fn not_streamed_the_probe_is_a_document() {
    let place = Place::new();
    let mock = mock(2.0, 3);
    let done = run_against(&url(&mock), &place, 6, &["--length-probe", "on", "--no-stream"]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("2.00 tokens a word and 3 more for its template"), "{}", done.err);
    let silent = RunningMock::start(MockConfig { usage: UsageMode::None, ..MockConfig::default() });
    let place = Place::new();
    let done = run_against(&url(&silent), &place, 6, &["--length-probe", "on"]);
    assert!(done.err.contains("the reply has no usage.prompt_tokens"), "{}", done.err);
}

#[test]
fn with_the_servers_own_tokenizer_every_asked_length_is_met() {
    let tokenizer = Tokenizer::open(Path::new(TOKENIZER)).expect("a tokenizer");
    let facts = serde_json::to_value(tokenizer.facts()).expect("facts");
    let server = counting(move |text| tokenizer.count(text));
    let place = Place::new();
    // 50 to 150 tokens: the nonce has eight, the template seven
    let lengths = ["--workload", "random", "--random-input-len", "2000", "--random-range-ratio", "0.5"];
    let done = run_against(&server.url(), &place, 40, &[&lengths[..], &["--tokenizer", TOKENIZER]].concat());
    place.assert_carried_out(&done);
    assert!(off(&place).iter().all(|off| *off == 0), "{:?}", off(&place));
    assert!(done.err.contains("1.00 tokens for each of its tokens and 7 more for its template"), "{}", done.err);
    assert!(!done.err.contains("another tokenizer"), "{}", done.err);
    let plan = place.json("plan.json");
    assert_eq!((&plan["tokenizer"], &plan["gauge"]["tokenizer"]), (&facts, &facts));
    place.assert_verifies();
    // by words alone the lengths are near, and not met
    let place = Place::new();
    let done = run_against(&server.url(), &place, 40, &lengths);
    place.assert_carried_out(&done);
    assert!(off(&place).iter().any(|off| *off != 0), "{:?}", off(&place));
}

#[test]
fn another_tokenizer_than_the_servers_is_noticed() {
    let server = counting(|text| text.split(' ').count() as u64);
    let place = Place::new();
    let done = run_against(&server.url(), &place, 10, &["--tokenizer", TOKENIZER]);
    place.assert_carried_out(&done);
    let warning = done.err.lines().find(|line| line.contains("it has another tokenizer")).expect("a warning");
    assert!(warning.contains("ratio 0."), "{warning}");
}

#[test]
fn a_prompt_shorter_than_the_template_is_never_empty() {
    let (mock, place) = (mock(1.0, 50), Place::new());
    let flags = ["--length-probe", "on", "--workload", "random", "--random-input-len", "20", "--tokenizer", TOKENIZER];
    let done = run_against(&url(&mock), &place, 5, &[&flags[..], &["--random-output-len", "40"]].concat());
    place.assert_carried_out(&done);
    assert!(place.rows().iter().all(|row| row.prompt_tokens == Some(51)), "the nonce alone");
    assert!(done.err.contains("WARNING: 5 prompts do not have the asked length"), "{}", done.err);
}

#[test]
fn a_wrong_tokenizer_file_ends_the_run_before_any_request() {
    let server = ForeignServer::start(|_, _| None);
    let place = Place::new();
    for (file, words) in [
        ("/", "directory"),
        ("/nowhere/tokenizer.json", "No such file"),
        ("Cargo.toml", "it is not JSON"),
        ("/dev/zero", "it has more than"),
    ] {
        let done = run_against(&server.url(), &place, 5, &["--tokenizer", file]);
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains(&format!("--tokenizer {file}: ")) && done.err.contains(words), "{}", done.err);
    }
    assert!(server.received().is_empty() && !place.dir.exists());
}

#[test]
fn two_arms_that_count_differently_are_told_and_each_count_is_met() {
    let (a, b) = (mock(1.0, 0), mock(1.5, 4));
    let place = Place::new();
    let done = tarebench(&[
        "run",
        "--base-url",
        &url(&a),
        "--interleave",
        &url(&b),
        "--length-probe",
        "on",
        "--length-scale",
        "0.05",
        "--max-concurrency",
        "2",
        "--num-prompts",
        "10",
        "--drop",
        "0",
        "--windows",
        "1",
        "--out",
        place.out(),
    ]);
    assert!(done.err.contains("the two servers count differently"), "{}", done.err);
    for (arm, per_word) in [("a", 1.0), ("b", 1.5)] {
        let gauge = &place.json(&format!("{arm}/plan.json"))["gauge"];
        assert!((gauge["per_word"].as_f64().expect("learnt") - per_word).abs() < 0.02, "{arm}: {gauge}");
    }
}
