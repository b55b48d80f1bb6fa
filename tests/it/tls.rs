//! The binary over TLS, with names, addresses and keys as people give them.

use crate::authority::{Authority, Demands, Shown, self_signed, server};
use crate::binary::{Done, Place, tarebench, tarebench_command};
use crate::live::RunningMock;
use crate::tls_front::Front;
use calibration::mock::MockConfig;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tarebench::rundir::row::Outcome;
use tempfile::TempDir;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A mock behind TLS, and the files that lead to it.
struct Secured {
    front: Front,
    _mock: RunningMock,
    authority: Authority,
    files: TempDir,
    ca: PathBuf,
}

impl Secured {
    fn with(demands: impl FnOnce(&Authority) -> Demands<'_>) -> Secured {
        let mock = RunningMock::start(MockConfig { tokens: Some(3), ..MockConfig::default() });
        let authority = Authority::new("test CA");
        let config = server(&authority.local(), &demands(&authority));
        let front = Front::start(config, mock.address, LOCAL, 0);
        let files = tempfile::tempdir().expect("a directory");
        let ca = write(files.path(), "ca.pem", &authority.pem);
        Secured { front, _mock: mock, authority, files, ca }
    }

    fn new() -> Secured {
        Secured::with(|_| Demands { alpn: &["http/1.1"], ..Demands::default() })
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.front.address.port())
    }
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A short campaign against `url`.
fn run(url: &str, place: &Place, more: &[&str]) -> Done {
    let fixed = [
        "run",
        "--base-url",
        url,
        "--out",
        place.out(),
        "--max-concurrency",
        "2",
        "--num-prompts",
        "20",
        "--drop",
        "2",
        "--windows",
        "1",
        "--workload",
        "random",
        "--random-input-len",
        "8",
        "--random-output-len",
        "3",
        "--workers",
        "1",
    ];
    tarebench(&[&fixed[..], more].concat())
}

#[test]
fn a_campaign_over_tls_says_how_it_was_secured() {
    let secured = Secured::new();
    for arm in [&[][..], &["--arm", "epoll"]] {
        let place = Place::new();
        let done = run(&secured.url(), &place, &[&["--ca-file", text(&secured.ca), "--connection", "3"], arm].concat());
        place.assert_carried_out(&done);
        assert!(
            done.err.contains("tls      TLS 1.3, TLS_") && done.err.contains("verified by --ca-file"),
            "{}",
            done.err
        );
        let plan = place.json("plan.json");
        assert_eq!(plan["tls"]["roots"], "file");
        let shown = &plan["environment"]["tls"];
        assert_eq!((&shown["version"], &shown["alpn"]), (&"TLS 1.3".into(), &"http/1.1".into()));
        assert_eq!(shown["certificate"]["subject"], "CN=a server");
        assert_eq!(shown["certificate"]["sha256"].as_str().map(str::len), Some(64));
        assert_eq!(shown["certificate"]["not_after"], "2120-01-01T00:00:00Z");
        assert!(shown["handshake_us"].as_f64().is_some_and(|us| us > 0.0), "{shown}");
        let rows = place.rows();
        assert!(rows.iter().all(|r| r.outcome == Outcome::Ok), "{rows:?}");
        assert!(rows.iter().all(|r| r.tls.is_some() == r.connect.is_some() && r.address.is_none()));
        assert!(rows.iter().all(|r| r.tls.is_none_or(|ns| ns > 0) && r.bytes_out > 100 && r.bytes_in > 100));
        assert!(rows.iter().any(|r| r.tls.is_some()) && rows.iter().any(|r| r.conn_reused));
        assert!(rows.iter().all(|r| !r.flags.contains(&"reopened".to_owned())), "it was closed from here");
        let run = place.json("run.json");
        assert!(run["cells"][0]["windows"][0]["metrics"]["connect"]["tls"]["n"].as_u64().is_some_and(|n| n > 0));
        let location = box_14(&place);
        assert!(location.contains("TLS 1.3 to CN=a server, verified by a CA given with --ca-file"), "{location}");
        place.assert_verifies();
    }
    assert!(!secured.front.heard().contains("Authorization"), "no key, no header");
}

fn box_14(place: &Place) -> String {
    let boxes = place.json("boxes.json");
    let found = boxes["boxes"].as_array().expect("boxes").iter().find(|b| b["box"] == 14).cloned();
    found.and_then(|b| Some(b["sentence"].as_str()?.to_owned())).expect("box 14")
}

#[test]
fn a_server_that_is_not_known_is_an_error_that_names_it() {
    let secured = Secured::new();
    let place = Place::new();
    let unknown = run(&secured.url(), &place, &[]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("tls: 127.0.0.1:") && unknown.err.contains("--ca-file"), "{}", unknown.err);
    assert!(unknown.err.contains("certificate is of an unknown CA"), "{}", unknown.err);
    assert!(!place.dir.join("requests.jsonl").exists());
    let elsewhere = format!("https://gw.example:{}", secured.front.address.port());
    let wrong = run(&elsewhere, &place, &["--address", "127.0.0.1", "--ca-file", text(&secured.ca)]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("certificate is for another host") && wrong.err.contains("gw.example"), "{}", wrong.err);
}

#[test]
fn a_certificate_that_signed_itself_is_given_as_its_own_ca() {
    let mock = RunningMock::start(MockConfig { tokens: Some(3), ..MockConfig::default() });
    let own = self_signed(&["127.0.0.1"], (2020, 2120));
    let front = Front::start(server(&own, &Demands::default()), mock.address, LOCAL, 0);
    let files = tempfile::tempdir().expect("a directory");
    let file = write(files.path(), "server.pem", &own.chain);
    let place = Place::new();
    let done = run(&format!("https://{}", front.address), &place, &["--ca-file", text(&file)]);
    place.assert_carried_out(&done);
    assert!(place.rows().iter().all(|r| r.outcome == Outcome::Ok));
}

#[test]
fn nobody_vouching_stands_in_every_title() {
    let secured = Secured::new();
    let place = Place::new();
    let done = run(&secured.url(), &place, &["--insecure"]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("NOT VERIFIED (--insecure)"), "{}", done.err);
    assert!(done.out.contains("SERVER NOT VERIFIED"), "{}", done.out);
    for file in ["report.md", "report.html"] {
        let report = std::fs::read_to_string(place.dir.join(file)).expect("written");
        assert!(report.contains("SERVER NOT VERIFIED"), "{file}");
    }
    assert!(box_14(&place).contains("BUT NOBODY VERIFIED THE SERVER (--insecure)"), "{}", box_14(&place));
    place.assert_verifies();
}

#[test]
fn a_client_certificate_is_shown_and_its_lack_is_named() {
    let secured = Secured::with(|ca| Demands { client_of: Some(ca), ..Demands::default() });
    let ca = text(&secured.ca).to_owned();
    let files = |name: &str, shown: &Shown| {
        let dir = secured.files.path();
        let key = write(dir, &format!("{name}.key"), &shown.key);
        (text(&write(dir, &format!("{name}.pem"), &shown.chain)).to_owned(), text(&key).to_owned())
    };
    let with = |place: &Place, pair: Option<&(String, String)>| match pair {
        Some((chain, key)) => {
            run(&secured.url(), place, &["--ca-file", &ca, "--client-cert", chain, "--client-key", key])
        }
        None => run(&secured.url(), place, &["--ca-file", &ca]),
    };
    let place = Place::new();
    let lacking = with(&place, None);
    assert!(lacking.code == Some(1) && lacking.err.contains("wants a client certificate"), "{}", lacking.err);
    let refused = with(&place, Some(&files("other", &Authority::new("another CA").local())));
    assert!(refused.code == Some(1) && refused.err.contains("refused the client certificate"), "{}", refused.err);
    let good = files("good", &secured.authority.local());
    let place = Place::new();
    let done = with(&place, Some(&good));
    place.assert_carried_out(&done);
    assert!(place.rows().iter().all(|r| r.outcome == Outcome::Ok));
    let key = std::fs::read_to_string(&good.1).expect("the key");
    assert_nowhere(&place, &done, key.lines().nth(1).expect("a line of it"));
}

/// `planted` is in no file of the run directory, and in nothing that was said.
fn assert_nowhere(place: &Place, done: &Done, planted: &str) {
    assert!(!done.out.contains(planted) && !done.err.contains(planted), "{}{}", done.out, done.err);
    let mut files = 0;
    for entry in std::fs::read_dir(&place.dir).expect("a directory").map_while(Result::ok) {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(planted.len()).any(|window| window == planted.as_bytes());
        assert!(!found, "{:?} has it", entry.path());
        files += 1;
    }
    assert!(files > 5, "the run directory is where this test looks");
}

#[test]
fn a_key_from_a_file_goes_to_the_server_and_nowhere_else() {
    let secured = Secured::new();
    let (key, header) = ("sk-planted-0123456789", "hv-planted-9876543210");
    let file = write(secured.files.path(), "key", &format!("{key}\n"));
    let place = Place::new();
    let more = ["--ca-file", text(&secured.ca), "--api-key-file", text(&file), "--header"];
    let own = format!("X-Team={header}");
    let done = run(&secured.url(), &place, &[&more[..], &[&own]].concat());
    place.assert_carried_out(&done);
    assert!(done.err.contains("Authorization: Bearer is sent, from /"), "{}", done.err);
    let heard = secured.front.heard();
    assert!(heard.contains(&format!("Authorization: Bearer {key}\r\n")) && heard.contains(header));
    assert_nowhere(&place, &done, key);
    assert_nowhere(&place, &done, header);
    let place = Place::new();
    let more =
        ["--ca-file", text(&secured.ca), "--header", &own, "--header", "Authorization=Basic bm8=", "--api-key-file"];
    let done = run(&secured.url(), &place, &[&more[..], &[text(&file), "--remove-header", "user-agent"]].concat());
    place.assert_carried_out(&done);
    let heard = secured.front.heard();
    let last = &heard[heard.rfind("POST ").expect("a request")..];
    let last = &last[..last.find("\r\n\r\n").expect("a head")];
    assert!(last.contains("Authorization: Basic bm8=") && !last.contains("Bearer"), "what is asked for stands: {last}");
    assert!(!last.contains("User-Agent") && last.contains("Accept: "), "{last}");
}

#[test]
fn connections_take_addresses_in_turn_and_each_is_counted() {
    let mock = RunningMock::start(MockConfig { tokens: Some(3), ..MockConfig::default() });
    let authority = Authority::new("test CA");
    let config = server(&authority.certify(&["gw.example"], (2020, 2120)), &Demands::default());
    let first = Front::start(config.clone(), mock.address, LOCAL, 0);
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let second = Front::start(config, mock.address, other, first.address.port());
    let files = tempfile::tempdir().expect("a directory");
    let ca = write(files.path(), "ca.pem", &authority.pem);
    let url = format!("https://gw.example:{}", first.address.port());
    let place = Place::new();
    let more = ["--address", "127.0.0.1,127.0.0.2", "--ca-file", text(&ca), "--connection", "per-request"];
    let done = run(&url, &place, &more);
    place.assert_carried_out(&done);
    let counts = |window: &Value| -> Vec<(String, u64, u64)> {
        let one = |of: &Value| {
            let number = |key: &str| of[key].as_u64().expect("a count");
            (of["address"].as_str().expect("an address").to_owned(), number("requests"), number("connections"))
        };
        window["addresses"].as_array().expect("counts").iter().map(one).collect()
    };
    assert!([&first, &second].iter().all(|front| front.secured.load(Ordering::Relaxed) >= 11));
    let run = place.json("run.json");
    let found = counts(&run["cells"][0]["windows"][0]);
    let at = [first.address.to_string(), second.address.to_string()];
    // two slots that open connections in turns: half of them each
    assert_eq!(found, [(at[0].clone(), 11, 11), (at[1].clone(), 11, 11)]);
    assert_eq!(place.json("plan.json")["environment"]["addresses"], serde_json::json!(at));
    let report = std::fs::read_to_string(place.dir.join("report.md")).expect("written");
    assert!(report.contains(&format!("by address: {} 11 requests (50.0 %", at[0])), "{report}");
    assert!(box_14(&place).contains("and 1 other address in turn"), "{}", box_14(&place));
    place.assert_verifies();
}

#[test]
fn localhost_is_wherever_the_server_listens() {
    let mock = RunningMock::start(MockConfig { tokens: Some(3), ..MockConfig::default() });
    let place = Place::new();
    let done = run(&format!("http://localhost:{}", mock.address.port()), &place, &[]);
    place.assert_carried_out(&done);
    let environment = &place.json("plan.json")["environment"];
    assert_eq!(environment["address"], mock.address.to_string());
    assert_eq!(environment["addresses"], serde_json::json!([mock.address.to_string()]));
    assert!(place.rows().iter().all(|r| r.dns.is_none() && r.tls.is_none()), "resolved once, before the run");
}

#[test]
fn probe_speaks_tls_as_well() {
    let secured = Secured::new();
    let said = |more: &[&str]| {
        let url = secured.url();
        let args = [&["probe", "--base-url", &url], more].concat();
        let output = tarebench_command(&args).output().expect("the binary runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, shown) = said(&["--ca-file", text(&secured.ca)]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("tls      TLS 1.3") && shown.contains("outcome  Ok"), "{shown}");
    let (code, refused) = said(&[]);
    assert!(code == Some(1) && refused.contains("unknown CA"), "{refused}");
}
