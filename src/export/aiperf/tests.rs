use super::*;
use crate::export::specimens;

#[test]
fn a_run_is_exported_as_it_was_when_aiperf_loaded_it() {
    let (of, windows) = specimens::run();
    let files = specimens::exported(Format, &of, &windows);
    assert_eq!(files.len(), 8);
    specimens::golden("aiperf", &files);
}

#[test]
fn odd_windows_are_whole_files() {
    for (case, of, windows) in specimens::odd() {
        let files = specimens::exported(Format, &of, &windows);
        let summary: Value = serde_json::from_str(&files[0].text).expect(case);
        let lines: Vec<Value> = files[1].text.lines().map(|line| serde_json::from_str(line).expect(case)).collect();
        let sent = windows[0].rows.iter().filter(|row| row.outcome != Outcome::NotSent).count();
        assert_eq!(lines.len(), sent, "{case}");
        let ok = windows[0].ok().count();
        assert_eq!(summary["request_count"]["avg"].as_f64().unwrap_or(0.0), ok as f64, "{case}");
        // undefined is left out, never 0
        let streamed = case != "not-streamed" && ok > 0;
        assert_eq!(summary.get("time_to_first_token").is_some(), streamed, "{case}");
        assert_eq!(
            summary.get("inter_token_latency").is_some(),
            streamed && !["one-token", "no-usage"].contains(&case)
        );
        specimens::hand_out(case, &files);
    }
}

#[test]
fn latencies_start_before_the_connection_and_gaps_within_a_read_are_zero() {
    let (_, windows) = specimens::run();
    let window = &windows[1];
    let mut row = window.ok().next().expect("an ok row").clone();
    let basis = Basis { zero_ns: 1_000, streamed: true, closed: window.bounds.closed };
    (row.dns, row.connect, row.tls) = (None, None, None);
    let warm = Record::of(&row, basis);
    row.connect = Some(70_000);
    let cold = Record::of(&row, basis);
    assert_eq!(warm.start - cold.start, 70_000);
    let apart = |of: Metric| cold.one(of).expect("a value") - warm.one(of).expect("a value");
    assert_eq!((apart(metric::TTFT), apart(metric::REQUEST_LATENCY), apart(metric::ITL)), (70_000.0, 70_000.0, 0.0));
    let gaps = warm.values(metric::ICL);
    assert_eq!(gaps.len(), row.chunks.len() - 1);
    assert_eq!(gaps.iter().sum::<f64>(), warm.one(metric::DECODE).expect("a value"));
    let itl = warm.one(metric::DECODE).expect("a value") / (row.completion_tokens.expect("usage") - 1) as f64;
    assert_eq!(warm.one(metric::ITL), Some(itl));
}

#[test]
fn turns_say_which_conversation_they_are_of() {
    let (_, windows) = specimens::run();
    let mut row = windows[1].ok().next().expect("an ok row").clone();
    let basis = Basis { zero_ns: 1_000, streamed: true, closed: windows[1].bounds.closed };
    let told = |row: &Row| {
        let metadata = Record::of(row, basis).json()["metadata"].clone();
        [&metadata["session_num"], &metadata["conversation_id"], &metadata["turn_index"]].map(Value::clone)
    };
    assert_eq!(told(&row), [json!(row.trace_id), Value::Null, json!(0)]);
    row.session = Some(crate::analysis::specimen::turn(7, 2, 4, None));
    assert_eq!(told(&row), [json!(7), json!("session_7"), json!(2)]);
}
