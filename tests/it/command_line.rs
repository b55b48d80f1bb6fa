//! Words in: what is refused, and what is asked for without a campaign.

use crate::binary::{BINARY, PATIENCE, Place, done, run_against, tarebench};
use crate::foreign_server::ForeignServer;
use assert_cmd::Command;
use serde_json::Value;

#[test]
fn wrong_words_are_wrong_usage() {
    let place = Place::new();
    let config = place.keep.path().join("campaign.toml");
    std::fs::write(&config, "max-concurency = 4\n").expect("written");
    let config = config.to_str().expect("text");
    for (args, said) in [
        (vec!["run", "--max-concurrency", "0", "--out", place.out()], "--max-concurrency"),
        (vec!["run", "--max-concurrency", "1,x", "--out", place.out()], "--max-concurrency"),
        (vec!["run", "--max-concurency", "1", "--out", place.out()], "--max-concurency"),
        (vec!["run", "--config", config, "--out", place.out()], "max-concurency"),
        (vec!["run", "--config", "/no/such/file.toml", "--out", place.out()], "/no/such/file.toml"),
        (vec!["run", "--num-prompts", "0", "--out", place.out()], "--num-prompts"),
        (vec!["run", "--api-key-env", "NO_SUCH_VARIABLE", "--out", place.out()], "--api-key-env"),
        (vec!["run", "--request-rate", "-1", "--out", place.out()], "--request-rate must be a list of rates"),
        (vec!["run", "--extra-body", "[1]", "--out", place.out()], "--extra-body"),
        (vec!["walk"], "walk"),
        (vec![], "Usage"),
    ] {
        let done = tarebench(&args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.err);
        assert!(done.err.contains(said), "{args:?}: {}", done.err);
        assert!(!place.dir.exists(), "{args:?}: nothing was begun");
    }
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = ForeignServer::start(|_, _| None);
    let place = Place::new();
    let done = run_against(&server.url(), &place, 5, &["--dry-run"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(serde_json::from_str::<Value>(&done.out).expect("the plan")["num_prompts"] == 5);
    assert_eq!(server.received().len(), 0);
    assert!(!place.dir.exists());
}

#[test]
fn a_dry_run_refuses_what_can_be_refused_before_the_first_connection() {
    let (server, place) = (ForeignServer::start(|_, _| None), Place::new());
    let (url, secure) = (server.url(), format!("https://{}", server.address));
    std::fs::create_dir(&place.dir).expect("made");
    std::fs::write(place.dir.join("mine"), "").expect("written");
    let (inside, below) = (place.dir.join("new"), place.dir.join("mine/new"));
    let [inside, below] = [&inside, &below].map(|path| path.to_str().expect("text"));
    for (code, base_url, flags, words) in [
        (2, &url, &["--address", "nonsense"][..], "--address \"nonsense\" is no IP address"),
        (2, &url, &["--address", "127.0.0.1:80"], "a port stands in --base-url"),
        (
            2,
            &url,
            &["--address", "::1"],
            "--address ::1 is an IPv6 address, and the host of --base-url, 127.0.0.1, an IPv4",
        ),
        (2, &server.address.to_string(), &[], "is no URL"),
        (2, &url, &["--metrics-url", "gpu-7"], "--metrics-url \"gpu-7\" is no URL"),
        (2, &url, &["--interleave", "gpu-7"], "--interleave \"gpu-7\" is no URL"),
        (2, &secure, &["--ca-file", "/nowhere/ca.pem"], "--ca-file /nowhere/ca.pem"),
        (1, &url, &["--cores", "9999"], "--cores 9999: this process may not use that core"),
        (1, &url, &["--out", place.out()], "is not empty"),
        (1, &url, &["--out", below], "cannot be used"),
        (0, &url, &["--out", inside, "--address", "127.0.0.1"], "nothing was sent"),
        (0, &url, &["--out", place.out(), "--force"], "nothing was sent"),
    ] {
        let done = tarebench(&[&["run", "--dry-run", "--base-url", base_url], flags].concat());
        assert_eq!(done.code, Some(code), "{flags:?}: {}", done.err);
        assert!(done.err.contains(words), "{flags:?}: {}", done.err);
    }
    assert_eq!((server.connections(), place.dir.join("new").exists()), (0, false));
}

#[test]
fn decode_reads_what_it_can_and_names_the_rest() {
    let good = r#"{"id":"a","raw":false,"writes":[[1,"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\ndata: [DONE]\n\n"]]}"#;
    let input = format!("{good}\nnot json\n\n{}\n", good.replace("\"a\"", "\"b\""));
    let decode = |input: String| {
        let mut command = Command::new(BINARY);
        done(&command.args(["decode", "-"]).write_stdin(input).timeout(PATIENCE).output().expect("the binary runs"))
    };
    let mixed = decode(input);
    assert_eq!(mixed.code, Some(2), "{}", mixed.err);
    assert!(mixed.err.contains(":2:"), "its number: {}", mixed.err);
    let ids: Vec<Value> =
        mixed.out.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON")["id"].clone()).collect();
    assert_eq!(ids, ["a", "b"], "the rest is decoded");
    let fine = decode(format!("{good}\n"));
    assert_eq!(fine.code, Some(0), "{}", fine.err);
    let wide = decode(good.replace('A', "\u{2014}"));
    assert_eq!(wide.code, Some(2), "{}", wide.err);
    let missing = tarebench(&["decode", "/no/such/file.jsonl"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("/no/such/file.jsonl"), "{}", missing.err);
}

#[test]
fn verify_of_no_run_directory_says_so() {
    let empty = tempfile::tempdir().expect("a directory");
    let done = tarebench(&["verify", empty.path().to_str().expect("text")]);
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(done.out.contains("is empty; what is wanted is a run directory"), "{}", done.out);
    let missing = tarebench(&["verify", "/no/such/run", "--json"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.out.contains("/no/such/run: no such directory"), "{}", missing.out);
}
