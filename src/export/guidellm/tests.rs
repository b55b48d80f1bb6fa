use super::*;
use crate::export::specimens;

#[test]
fn a_run_is_exported_as_it_was_when_guidellm_loaded_it() {
    let (of, windows) = specimens::run();
    let files = specimens::exported(Format::default(), &of, &windows);
    assert_eq!(files.len(), 1);
    specimens::golden("guidellm", &files);
}

#[test]
fn odd_windows_are_whole_files() {
    for (case, of, windows) in specimens::odd() {
        let files = specimens::exported(Format::default(), &of, &windows);
        let report: Value = serde_json::from_str(&files[0].text).expect(case);
        let benchmark = &report["benchmarks"][0];
        let ok = windows[0].ok().count() as u64;
        assert_eq!(benchmark["metrics"]["request_totals"]["successful"], ok, "{case}");
        let first = &benchmark["requests"]["successful"][0];
        let streamed = case != "not-streamed" && ok > 0;
        assert_eq!(first["time_to_first_token_ms"].is_number(), streamed, "{case}");
        assert_eq!(first["prompt_tokens"].is_number(), ok > 0 && case != "no-usage", "{case}");
        let delay = benchmark["metrics"]["request_dispatch_delay"].is_object();
        assert_eq!(delay, ["poisson", "gamma", "ramp"].contains(&case), "{case}: only where there is a schedule");
        specimens::hand_out(case, &files);
    }
    let none = specimens::exported(Format::default(), &specimens::run().0, &[]);
    serde_json::from_str::<Value>(&none[0].text).expect("a report without benchmarks");
}

#[test]
fn the_first_token_is_in_tpot_and_events_stand_for_tokens_without_usage() {
    let (_, windows) = specimens::run();
    let mut row = windows[1].ok().next().expect("an ok row").clone();
    let basis = Basis { zero_ns: 0, streamed: true, closed: 0 };
    let ms = |stamp: Option<crate::rundir::row::Stamp>| stamp.expect("a stamp").seen as f64 / 1e6;
    let (first, last) = (ms(row.first_token), ms(row.last_token));
    let submit = row.submit.expect("submitted") as f64 / 1e6;
    let request = Request::of(&row, basis);
    let near = |found: Option<f64>, expected: f64| (found.expect("a value") - expected).abs() < 1e-6;
    assert!(near(request.tpot_ms(), (last - submit) / 8.0) && near(request.itl_ms(), (last - first) / 7.0));
    assert!(near(request.ttft_ms(), first - submit));
    (row.completion_tokens, row.tokens_source, row.token_events) = (None, None, 5);
    assert_eq!((Request::of(&row, basis).output(), Request::of(&row, basis).completion()), (Some(5), None));
}
