//! What the server says of itself, and the way to it: against the mock, and against servers that misbehave.

use crate::binary::{Place, run_against, tarebench};
use crate::foreign_server::{Answer, ForeignServer};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use tarebench::rundir::scrape::{Moment, ScrapeRow};

fn scrapes(place: &Place) -> Vec<ScrapeRow> {
    let text = std::fs::read_to_string(place.dir.join("server-metrics.jsonl")).expect("scrapes");
    text.lines().map(|line| serde_json::from_str(line).expect("a scrape")).collect()
}

fn window(place: &Place, index: usize) -> Value {
    place.json("run.json")["cells"][0]["windows"][index].clone()
}

fn texts(window: &Value, metric: &str) -> Vec<String> {
    let verdicts = window["verdicts"].as_array().expect("verdicts").iter();
    verdicts.filter(|v| v["metric"] == metric).map(|v| v["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A text of /metrics in which so many requests have been finished.
fn finished(n: usize) -> Answer {
    plain(format!("vllm:request_success_total{{finished_reason=\"stop\"}} {n}.0\nvllm:num_requests_running 1\n"))
}

fn plain(text: impl Into<String>) -> Answer {
    Answer { fields: vec![("content-type", "text/plain; version=0.0.4".to_owned())], ..Answer::json(200, text) }
}

/// Completions, and `metrics` for each scrape, by its number and that of the POSTs before it.
fn server(metrics: impl Fn(usize, usize) -> Option<Answer> + Send + Sync + 'static) -> ForeignServer {
    let asked = AtomicUsize::new(0);
    ForeignServer::start(move |request, posts| match request.line.as_str() {
        "GET /metrics" => metrics(asked.fetch_add(1, Ordering::Relaxed), posts),
        line if line.starts_with("POST") => Some(Answer::stream(3, 0)),
        _ => None,
    })
}

#[test]
fn the_counters_of_the_mock_are_those_of_the_load() {
    let place = Place::new();
    let args =
        "run --num-prompts 20 --drop 3 --windows 2 --max-concurrency 1,3 --length-scale 0.05 --min-duration 0 --out";
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.push(place.out());
    let done = tarebench(&args);
    place.assert_carried_out(&done);
    place.assert_verifies();
    let run = place.json("run.json");
    let rows = place.rows();
    for cell in run["cells"].as_array().expect("cells") {
        for window in cell["windows"].as_array().expect("windows") {
            let of_window = |r: &&tarebench::rundir::row::Row| {
                Some(u64::from(r.cell)) == cell["cell"].as_u64()
                    && Some(u64::from(r.window)) == window["window"].as_u64()
            };
            let sum = |of: fn(&tarebench::rundir::row::Row) -> Option<u64>| {
                rows.iter().filter(of_window).filter_map(of).sum::<u64>()
            };
            let server = &window["server"];
            assert_eq!(server["no_counters"], Value::Null, "{server}");
            assert_eq!((&server["requests_sent"], &server["requests_finished"]), (&json!(23), &json!(23)));
            assert_eq!(server["requests_beyond_ours"], 0);
            assert_eq!(server["generation_tokens"], sum(|r| r.completion_tokens));
            assert_eq!(server["prompt_tokens"], sum(|r| r.prompt_tokens));
            assert!(server["ttft_mean_ms"].is_f64() && server["queue_mean_ms"].is_f64(), "{server}");
            // the mock looks nothing up, and a share of nothing is no share
            assert_eq!(server["prefix_cache_hit_share"], Value::Null);
            assert_eq!(window["model_echoes"].as_object().map(|echoes| echoes.len()), Some(1));
            assert!(texts(window, "server").is_empty() && texts(window, "model").is_empty(), "{window}");
        }
    }
    let scrapes = scrapes(&place);
    let moments: Vec<Moment> = scrapes.iter().map(|s| s.moment).filter(|m| *m != Moment::During).collect();
    assert_eq!((moments.first(), moments.len()), (Some(&Moment::Before), 6));
    assert!(scrapes.iter().all(|s| s.error.is_none()) && scrapes.is_sorted_by_key(|s| s.at));
    let plan = place.json("plan.json");
    let network = &plan["environment"]["network"];
    assert!(network["co_located"] == true && network["min_rtt_us"].is_u64(), "{network}");
    assert_eq!(plan["environment"]["metrics"]["engine"], "vllm");
    assert_eq!(plan["environment"]["server"]["facts"]["engine"]["value"], "tarebench-mock");
    let report = std::fs::read_to_string(place.dir.join("report.md")).expect("a report");
    assert!(report.contains("| server-metrics.jsonl |") && report.contains("Server, by its own counters"), "{report}");
    let told = tarebench(&["report", place.out(), "--details"]).out;
    assert!(told.contains("23 requests finished, 23 sent"), "{told}");
    assert!(!done.out.contains("requests finished"), "in short only what is odd is told: {}", done.out);
    assert!(done.err.contains("metrics  http://127.0.0.1:"), "{}", done.err);
}

#[test]
fn a_server_without_counters_is_measured_all_the_same() {
    let long = "a 1\n".repeat(9 << 18);
    let coded = |mut answer: Answer| {
        answer.fields.push(("content-encoding", "gzip".to_owned()));
        answer
    };
    let page =
        Answer { fields: vec![("content-type", "text/html".to_owned())], ..Answer::json(200, "<html>1 2</html>") };
    for (answer, why) in [
        (None, "HTTP 404"),
        (Some(page), "no Prometheus text"),
        (Some(Answer::json(200, "[{\"iter\": 1}]")), "no Prometheus text"),
        (Some(plain("go_threads 5\n")), "none of its 1 samples"),
        (Some(coded(finished(1))), "compressed (gzip)"),
        (Some(plain(long)), "longer than 8388608 bytes"),
        (Some(Answer { pieces: vec![(60_000, Some("a 1\n".to_owned()))], ..plain("") }), "no answer within 5 s"),
    ] {
        let place = Place::new();
        let server = server(move |_, _| answer.clone());
        let done = run_against(&server.url(), &place, 4, &[]);
        place.assert_carried_out(&done);
        let metrics = &place.json("plan.json")["environment"]["metrics"];
        assert!(metrics["why_not"].as_str().is_some_and(|w| w.contains(why)), "{why}: {metrics}");
        assert!(done.err.contains(why) && done.err.contains("metrics  none"), "{}", done.err);
        assert!(window(&place, 0)["server"].is_null() && !place.dir.join("server-metrics.jsonl").exists());
        place.assert_verifies();
    }
}

#[test]
fn counters_that_stop_answering_cost_the_windows_nothing() {
    let place = Place::new();
    let hang = || Answer { pieces: vec![(60_000, None)], ..plain("") };
    let server = server(move |nth, posts| Some(if nth < 2 { finished(posts) } else { hang() }));
    let done = run_against(&server.url(), &place, 4, &["--max-concurrency", "1,2"]);
    place.assert_carried_out(&done);
    assert_eq!(place.json("run.json")["cells"].as_array().map(Vec::len), Some(2), "{}", done.err);
    let server = &window(&place, 0)["server"];
    assert_eq!(server["no_counters"], "/metrics was not answered after the window");
    assert!(server["requests_finished"].is_null(), "{server}");
    let errors: Vec<ScrapeRow> = scrapes(&place).into_iter().filter(|s| s.error.is_some()).collect();
    assert!(!errors.is_empty() && errors.iter().all(|s| s.metrics.is_empty()), "{errors:?}");
    place.assert_verifies();
}

#[test]
fn other_traffic_and_resets_are_named() {
    let place = Place::new();
    // seven requests of somebody else after the scrape at the start and the one before the window
    let busy = server(|nth, posts| Some(finished(posts + if nth < 2 { 0 } else { 7 })));
    let done = run_against(&busy.url(), &place, 4, &[]);
    place.assert_carried_out(&done);
    let found = window(&place, 0);
    assert_eq!(found["server"]["requests_beyond_ours"], 7, "{found}");
    assert!(texts(&found, "server")[0].starts_with("contaminated"), "{found}");
    assert!(done.out.contains("contaminated"), "{}", done.out);
    place.assert_verifies();

    let place = Place::new();
    let anew = server(|nth, posts| Some(finished(if nth < 2 { 500 } else { posts })));
    place.assert_carried_out(&run_against(&anew.url(), &place, 4, &[]));
    let found = window(&place, 0);
    assert_eq!(found["server"]["resets"], json!(["requests_finished"]));
    assert!(found["server"]["requests_finished"].is_null() && texts(&found, "server").is_empty(), "{found}");
    place.assert_verifies();
}

#[test]
fn the_counters_can_be_elsewhere_or_not_wanted() {
    let elsewhere =
        ForeignServer::start(|request, posts| (request.line == "GET /team/counters").then(|| finished(posts)));
    let server = server(|_, _| Some(finished(0)));
    let url = format!("{}/team/counters", elsewhere.url());
    let place = Place::new();
    let more = ["--metrics-url", &url, "--header", "X-Key=secret-of-the-server"];
    place.assert_carried_out(&run_against(&server.url(), &place, 3, &more));
    assert_eq!(place.json("plan.json")["environment"]["metrics"]["url"], url);
    assert!(!scrapes(&place).is_empty() && scrapes(&place).iter().all(|s| s.rtt_us.is_none()));
    assert!(
        elsewhere.received().iter().all(|r| r.field("x-key").is_none()),
        "what opens one door is shown at no other"
    );
    assert!(server.received().iter().all(|r| r.line != "GET /metrics"));

    let place = Place::new();
    let done = run_against(&server.url(), &place, 3, &["--metrics-url", "none"]);
    place.assert_carried_out(&done);
    assert!(done.err.contains("metrics  none (--metrics-url none)"), "{}", done.err);
    assert!(server.received().iter().all(|r| r.line != "GET /metrics"));
    let done = run_against(&server.url(), &Place::new(), 3, &["--metrics-url", "h:9"]);
    assert!(done.code != Some(0) && done.err.contains("--metrics-url"), "{}", done.err);
}

#[test]
fn facts_are_selected_and_keys_are_not() {
    let server = ForeignServer::start(|request, _| match request.line.as_str() {
        "GET /v1/models" => Some(Answer::json(
            200,
            r#"{"data":[{"id":"m","owned_by":"sglang","root":"/models/m","max_model_len":4096}]}"#,
        )),
        "GET /get_server_info" => Some(Answer::json(
            200,
            r#"{"version":"0.5.9","api_key":"sk-one","model_path":"/models/m","tp_size":2,"dtype":"bfloat16","env":{"HF_TOKEN":"sk-two"}}"#,
        )),
        "GET /metrics" => Some(plain("sglang:num_requests_total 4\nprocess_start_time_seconds 1700000000\n")),
        line if line.starts_with("POST") => Some(Answer::stream(3, 0)),
        _ => None,
    });
    let place = Place::new();
    place.assert_carried_out(&run_against(&server.url(), &place, 3, &[]));
    let plan = std::fs::read_to_string(place.dir.join("plan.json")).expect("a plan");
    let found = &serde_json::from_str::<Value>(&plan).expect("JSON")["environment"]["server"];
    let fact = |name: &str| (found["facts"][name]["value"].clone(), found["facts"][name]["from"].clone());
    assert_eq!(fact("engine"), (json!("sglang"), json!("/v1/models")));
    assert_eq!(fact("dtype"), (json!("bfloat16"), json!("/get_server_info")));
    assert_eq!(fact("tensor_parallel"), (json!(2), json!("/get_server_info")));
    assert_eq!(fact("max_model_len"), (json!(4096), json!("/v1/models")));
    assert_eq!((&found["started_at"], found["age_s"].is_f64()), (&json!("2023-11-14T22:13:20Z"), true));
    for file in ["plan.json", "run.json", "report.md", "report.html"] {
        let text = std::fs::read_to_string(place.dir.join(file)).expect("a file");
        assert!(!text.contains("sk-one") && !text.contains("sk-two"), "{file}");
    }
    // an engine that is known is not asked for what others have
    assert!(server.received().iter().all(|r| r.line != "GET /props" && r.line != "GET /info"));
    let probed = tarebench(&["probe", "--base-url", &server.url()]);
    assert!(probed.out.contains("dtype bfloat16") && probed.out.contains("network  round trip"), "{}", probed.out);
    assert!(probed.out.contains("started  2023-11-14T22:13:20Z"), "{}", probed.out);
}

#[test]
fn a_model_that_answers_in_another_name_is_flagged() {
    let token = "data: {\"model\":\"foreign-2026\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\"finish_reason\":\"stop\"}]}\n\n";
    let stream = Answer { pieces: vec![(0, Some(format!("{token}data: [DONE]\n\n")))], ..Answer::stream(1, 0) };
    let server = ForeignServer::start(move |request, _| request.is_post().then(|| stream.clone()));
    let place = Place::new();
    let done = run_against(&server.url(), &place, 3, &[]);
    place.assert_carried_out(&done);
    let found = window(&place, 0);
    assert_eq!(found["model_echoes"], json!({"foreign-2026": 3}));
    assert!(texts(&found, "model")[0].contains("3 of 3 ok requests were answered in the name of \"foreign-2026\""));
    assert!(done.out.contains("foreign-2026"), "{}", done.out);
    place.assert_verifies();
}
