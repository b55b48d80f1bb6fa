//! Keys: sent where they are wanted, and shown nowhere.

use crate::binary::{Done, MockProcess, Place, run_against, tarebench_with};
use crate::foreign_server::{Answer, ForeignServer};
use std::path::Path;

#[test]
fn a_key_is_wanted_and_there_is_none() {
    let mock = MockProcess::start(&["--api-key-env", "MOCK_KEY"], &[("MOCK_KEY", "open-sesame-42")]);
    let place = Place::new();
    let done = run_against(&mock.url, &place, 4, &["--model", "mock"]);
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    assert!(place.rows().iter().all(|r| r.http_status == Some(401)));
    // without a model's name there is nothing to ask for, and the server's refusal is said
    let place = Place::new();
    let done = run_against(&mock.url, &place, 4, &[]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("401") && done.err.contains("--model"), "{}", done.err);
}

/// Every file below `dir`, and what was printed, is without `secret`.
fn assert_nowhere(secret: &str, dir: &Path, done: &Done) {
    assert!(!done.out.contains(secret), "standard output: {}", done.out);
    assert!(!done.err.contains(secret), "standard error: {}", done.err);
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for path in files.map(|f| f.path()) {
        let text = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(at) = text.find(secret) {
            let around: String = text[at.saturating_sub(120)..].chars().take(200).collect();
            panic!("{}: ...{around}...", path.display());
        }
    }
}

#[test]
fn a_key_is_sent_and_is_written_nowhere() {
    let key = "sk-quite-secret-77";
    // a server that shows all it was sent, in every place a client might copy from
    let echo = |status: u16| {
        ForeignServer::start(move |r, _| {
            let said = r.field("authorization").unwrap_or("nothing").to_owned();
            let mut answer = if !r.is_post() && status == 200 {
                Answer::json(
                    200,
                    format!("{{\"version\":\"{said}\",\"data\":[{{\"id\":\"m\",\"owned_by\":\"{said}\"}}]}}"),
                )
            } else if status == 200 {
                let mut stream = Answer::stream(2, 0);
                let event = format!(
                    "data: {{\"model\":\"{said}\",\"timings\":{{\"for\":\"{said}\"}},\"choices\":[{{\"index\":0,\
                     \"delta\":{{\"content\":\"{said}\"}},\"finish_reason\":\"{said}\"}}]}}\n\n"
                );
                stream.pieces.insert(0, (0, Some(event)));
                stream
            } else {
                Answer::json(status, format!("{{\"error\":{{\"message\":\"not with {said}\"}}}}"))
            };
            answer.fields.push(("server", said.clone()));
            answer.fields.push(("retry-after", said));
            Some(answer)
        })
    };
    for status in [200, 401] {
        let (server, place) = (echo(status), Place::new());
        let (url, out) = (server.url(), place.out().to_owned());
        let args = ["run", "--base-url", &url, "--model", "m", "--api-key-env", "TEST_KEY", "--num-prompts", "4"];
        let more = ["--drop", "0", "--windows", "1", "--max-concurrency", "1", "--length-scale", "0.05", "--out", &out];
        let done = tarebench_with(&[&args[..], &more].concat(), &[("TEST_KEY", key)]);
        match status {
            200 => place.assert_carried_out(&done),
            _ => assert_eq!(done.code, Some(3), "{}{}", done.out, done.err),
        }
        assert!(done.err.contains("TEST_KEY"), "that a key is sent is said: {}", done.err);
        let sent = server.received();
        assert!(sent.iter().filter(|r| r.is_post()).all(|r| r.field("authorization").is_some_and(|a| a.contains(key))));
        assert_nowhere(key, &place.dir, &done);
        place.assert_verifies();
        let probe = ["probe", "--base-url", &url, "--model", "m", "--api-key-env", "TEST_KEY"];
        assert_nowhere(key, &place.dir, &tarebench_with(&probe, &[("TEST_KEY", key)]));
        assert_nowhere(key, &place.dir, &tarebench_with(&[&probe[..], &["--json"]].concat(), &[("TEST_KEY", key)]));
    }
    // and where no model is named, the words about that are without it too
    let (server, place) = (echo(401), Place::new());
    let (url, out) = (server.url(), place.out().to_owned());
    let done =
        tarebench_with(&["run", "--base-url", &url, "--api-key-env", "TEST_KEY", "--out", &out], &[("TEST_KEY", key)]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_nowhere(key, &place.dir, &done);
    let done = tarebench_with(&["probe", "--base-url", &url, "--api-key-env", "TEST_KEY"], &[("TEST_KEY", key)]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_nowhere(key, &place.dir, &done);
}

#[test]
fn a_key_in_the_place_of_a_name_is_not_repeated() {
    let (key, place) = ("sk-quite-secret-77", Place::new());
    let config = place.keep.path().join("campaign.toml");
    std::fs::write(&config, format!("api-key-env = '{key}'\n")).expect("written");
    let url = ["--base-url", "http://127.0.0.1:1"];
    for (code, args) in [
        (2, vec!["run", url[0], url[1], "--api-key-env", key]),
        (2, vec!["run", url[0], url[1], "--api-key-file", key]),
        (2, vec!["run", url[0], url[1], "--config", config.to_str().expect("text")]),
        (2, vec!["saturate", url[0], url[1], "--goodput", "ttft:5", "--api-key-env", key]),
        (1, vec!["mock", "--api-key-env", key]),
    ] {
        let done = tarebench_with(&args, &[]);
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.err);
        assert!(done.err.contains("--api-key-") && done.err.contains("not the key itself"), "{args:?}: {}", done.err);
        assert_nowhere(key, &place.dir, &done);
    }
}
