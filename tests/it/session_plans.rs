//! Sessions as they are asked for: what a dry run says of them, and what is refused before anything is sent.

use crate::binary::{Done, tarebench};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use tempfile::NamedTempFile;

fn dry(more: &[&str]) -> Done {
    tarebench(&[&["run", "--dry-run"], more].concat())
}

/// The plan of a dry run, and what was said beside it.
fn said(more: &[&str]) -> (Value, String) {
    let done = dry(more);
    assert_eq!(done.code, Some(0), "{more:?}: {}", done.err);
    (serde_json::from_str(&done.out).expect("a plan"), done.err)
}

/// Holds a screen against `tests/screens/NAME.txt`; with TAREBENCH_BLESS set it is written instead.
fn screen(name: &str, words: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(format!("{name}.txt"));
    if std::env::var_os("TAREBENCH_BLESS").is_some() {
        std::fs::write(&path, words).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("a screen");
    assert_eq!(words, expected, "if the change is meant, run with TAREBENCH_BLESS=1, and read the difference");
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn chats(turns: &[usize]) -> NamedTempFile {
    let chat = |n: &usize| {
        let said: Vec<String> = (0..*n)
            .map(|i| {
                format!(
                    r#"{{"from":"human","value":"question {n} {i}"}},{{"from":"gpt","value":"one two three four"}}"#
                )
            })
            .collect();
        format!(r#"{{"conversations":[{}]}}"#, said.join(","))
    };
    file(&turns.iter().map(chat).collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_dry_run_tells_of_conversations_of_users() {
    let work =
        ["--workload", "random", "--random-input-len", "100", "--random-output-len", "50", "--length-scale", "1"];
    let sessions = ["--sessions", "4", "--think-time", "2s", "--max-concurrency", "2,40", "--num-sessions", "8"];
    let (plan, words) = said(&[&sessions[..], &work, &["--gap-between-cells", "5", "--min-duration", "0"]].concat());
    assert_eq!((&plan["num_prompts"], &plan["drop"]), (&32.into(), &8.into()));
    assert_eq!(plan["sessions"], serde_json::json!({"num_sessions": 8, "drop_sessions": 2}));
    assert_eq!(plan["gap_between_cells_s"], 5.0);
    screen("conversations", &words);
}

#[test]
fn a_dry_run_tells_of_tasks_that_arrive() {
    let work =
        ["--workload", "random", "--random-input-len", "100", "--random-output-len", "50", "--length-scale", "1"];
    let tasks = ["--chain", "2..4", "--session-rate", "0.5", "--num-sessions", "8", "--cache", "shared-prefix:120"];
    let (plan, words) = said(&[&tasks[..], &work, &["--min-duration", "0"]].concat());
    assert_eq!(plan["cells"][0]["start"]["arrivals"]["requests"], 10);
    screen("tasks", &words);
}

#[test]
fn conversations_of_a_file_are_chosen_and_cut_by_their_turns() {
    let chats = chats(&[1, 2, 3, 9]);
    let sharegpt = format!("sharegpt:{}", chats.path().display());
    let (plan, words) =
        said(&["--sessions", "2..4", "--workload", &sharegpt, "--num-sessions", "3", "--drop-sessions", "0"]);
    assert_eq!(plan["num_prompts"], 2 + 3 + 4, "{words}");
    assert!(words.contains("1 entry gives no conversation: 1 with fewer than 2 questions with an answer"), "{words}");
    assert!(words.contains("3 entries for the measured conversations, 0 for the warm-up"), "{words}");
    let (_, words) = said(&["--sessions", "2..4", "--workload", &sharegpt]);
    assert!(words.contains("WARNING: a window wants 30 measured conversations and has 2 entries"), "{words}");
    let lists = file(
        r#"{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"max_tokens":7}
{"messages":[{"role":"user","content":"d"},{"role":"assistant","content":"e"},{"role":"user","content":"f"}],"max_tokens":7}
"#,
    );
    let jsonl = format!("jsonl:{}", lists.path().display());
    let (plan, _) = said(&["--sessions", "2", "--workload", &jsonl, "--drop-sessions", "1", "--num-sessions", "1"]);
    assert_eq!((&plan["num_prompts"], &plan["drop"]), (&2.into(), &2.into()));
    let prompts = file("{\"prompt\":\"a\"}\n");
    let done = dry(&["--sessions", "2", "--workload", &format!("jsonl:{}", prompts.path().display())]);
    assert!(done.code == Some(2) && done.err.contains(":1: has no \"messages\""), "{}", done.err);
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    for (flags, words) in [
        (&["--sessions", "6..2"][..], "--sessions must be a number of turns from 1 to 1,000"),
        (&["--chain", "ten"], "--chain must be"),
        (&["--sessions", "4", "--chain", "10"], "leave one out"),
        (&["--sessions", "4", "--tool-time", "1s"], "--tool-time is for --chain"),
        (&["--chain", "4", "--think-time", "1s"], "--think-time is for --sessions"),
        (&["--chain", "4", "--turn-every", "1s"], "--turn-every is for --sessions"),
        (&["--think-time", "1s"], "--think-time has no meaning without --sessions"),
        (&["--num-sessions", "3"], "--num-sessions has no meaning without --sessions or --chain"),
        (&["--sessions", "4", "--num-prompts", "10"], "say --num-sessions"),
        (&["--sessions", "4", "--request-rate", "10"], "say --session-rate"),
        (&["--sessions", "4", "--endpoint", "/v1/completions"], "turns are messages of a chat"),
        (&["--sessions", "4", "--cache", "repeat"], "each turn asks something else"),
        (&["--sessions", "4", "--profile", "seed-v1"], "that protocol has single requests"),
        (&["--sessions", "4", "--inject", "spike"], "--inject node-loss work"),
        (&["--sessions", "4", "--shard", "1/2"], "no schedule that hosts could share"),
        (&["--sessions", "4", "--trace", "/nowhere"], "a trace has requests of its own"),
        (&["--sessions", "4", "--session-rate", "1", "--max-concurrency", "2"], "leave one out"),
        (&["--sessions", "4", "--think-time", "exp:"], "like 500ms, 2s or 1m, or drawn: exp:2s (mean)"),
    ] {
        let done = dry(flags);
        assert_eq!(done.code, Some(2), "{flags:?}: {}", done.err);
        assert!(done.err.contains(words), "{flags:?}: {}", done.err);
    }
}

#[test]
fn flags_of_sessions_stand_in_a_file_too() {
    let config = file("sessions = \"2..6\"\nthink-time = \"exp:2s\"\nnum-sessions = 5\nmax-concurrency = [3]\n");
    let path = config.path().display().to_string();
    let (plan, _) = said(&["--config", &path, "--num-sessions", "6"]);
    let cells = plan["cells"].as_array().expect("load points");
    assert_eq!(
        (cells.len(), &cells[0]["planned"], &cells[0]["law"]["turns"]),
        (1, &8.into(), &serde_json::json!([2, 6]))
    );
    assert_eq!(cells[0]["law"]["pause"]["after"]["mean_ns"], 2_000_000_000_u64);
}
