//! Whole traces, read from bytes.

use super::captured::{BadReplay, Captured};
use super::fault::MOST_TOKENS;
use super::format::Format;
use super::intake::{Rules, take_in};
use super::replay::Replay;
use super::spool::Writer;
use super::time::in_seconds;
use crate::rundir::trace::TraceLine;
use crate::workload::{Content, hex};
use bench_engine::units::Nanos;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const GENERIC: Rules = Rules {
    format: Some(Format::Generic),
    hash_block: None,
    from_ns: 0,
    to_ns: None,
    length_scale: 1.0,
    max_tokens: None,
    max_input_tokens: None,
    max_output_tokens: None,
};

fn spool() -> Writer {
    Writer::new(tempfile::tempfile().expect("a file"))
}

fn looped(text: &str, rules: &Rules, passes: u64) -> Captured {
    let intake = take_in("t", text.as_bytes(), rules, spool()).unwrap_or_else(|bad| panic!("{bad}"));
    Captured::new("t".to_owned(), intake, passes, 0, None).unwrap_or_else(|bad| panic!("{bad}"))
}

fn captured(text: &str, rules: &Rules) -> Captured {
    looped(text, rules, 1)
}

fn said(bytes: &[u8], rules: &Rules) -> String {
    take_in("t.csv", bytes, rules, spool()).expect_err("refused").to_string()
}

fn lines(captured: &Captured) -> Vec<TraceLine> {
    captured.lines().map(|line| line.expect("spooled")).collect()
}

/// Time, prompt and output of each request.
fn asked(captured: &Captured) -> Vec<(u64, u64, u64)> {
    lines(captured).iter().map(|l| (l.at_ns, l.prompt_tokens, l.output_tokens)).collect()
}

fn generic(rows: &[(f64, u64, u64)]) -> String {
    rows.iter()
        .map(|(ms, p, o)| format!("{{\"arrival_ms\":{ms},\"input_tokens\":{p},\"output_tokens\":{o}}}\n"))
        .collect()
}

#[test]
fn a_trace_begins_with_its_first_arrival_and_keeps_its_ticks() {
    let text = format!(
        "{AZURE}2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:46.6805901,0,1\n\n2023-11-16 18:15:50.9951690,396,109\n"
    );
    let found = captured(&text, &Rules::default());
    assert_eq!(asked(&found), [(0, 374, 44), (100, 1, 1), (4_314_579_000, 396, 109)]);
    let facts = &found.facts;
    assert_eq!((facts.rows, facts.kept, facts.format), (3, 3, Format::Azure));
    assert_eq!((facts.first_s.as_str(), facts.last_s.as_str()), ("1700158546.680590000", "1700158550.995169000"));
    assert_eq!(facts.clamped.iter().collect::<Vec<_>>(), [(&"prompt length 0 becomes 1", &1)]);
    assert_eq!((facts.bytes, &facts.sha256), (text.len() as u64, &hex(&Sha256::digest(&text))));
    assert_eq!(captured(&format!("\u{feff}{text}"), &Rules::default()).facts.rows, 3, "a mark of UTF-8 is fine");
    assert_eq!((found.mean_prompt_tokens, found.mean_output_tokens), (257.0, 154.0 / 3.0));
}

#[test]
fn what_is_left_out_or_changed_is_counted_by_its_reason() {
    let head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    let text = format!("{head}5,GPT-4,100,9,109,API\n6,ChatGPT,100,0,100,API\n6,ChatGPT,8000,900,8900,API\n");
    let rules = Rules { max_input_tokens: Some(1000), max_output_tokens: Some(10), ..Rules::default() };
    let found = captured(&text, &rules);
    assert_eq!(asked(&found), [(0, 100, 9), (1_000_000_000, 1000, 10)]);
    assert_eq!(lines(&found).iter().map(|l| l.class.as_str()).collect::<Vec<_>>(), ["GPT-4", "ChatGPT"]);
    let words = found.words().join("\n");
    assert!(words.contains("dropped: 1 failed in the capture"), "{words}");
    assert!(
        words.contains("1 output longer than --max-output-tokens, 1 prompt longer than --max-input-tokens"),
        "{words}"
    );
    assert!(words.contains("burstgpt, known by the names of its columns; 3 rows"), "{words}");
    let none = captured(&generic(&[(0.0, 5, 0), (1.0, 5, 3)]), &Rules::default());
    assert_eq!(none.facts.dropped.iter().collect::<Vec<_>>(), [(&"output length 0", &1)]);
    assert_eq!(asked(&none), [(0, 5, 3)], "the first arrival that is kept is at 0");
}

#[test]
fn lengths_scale_before_they_are_cut_and_outputs_are_replaced() {
    let text = generic(&[(0.0, 1000, 100), (1.0, 3, 3)]);
    let scaled = Rules { length_scale: 0.1, max_input_tokens: Some(60), ..Rules::default() };
    assert_eq!(asked(&captured(&text, &scaled)), [(0, 60, 10), (1_000_000, 1, 1)]);
    let replaced = Rules { max_tokens: Some(7), length_scale: 0.1, ..Rules::default() };
    assert_eq!(asked(&captured(&text, &replaced)), [(0, 100, 7), (1_000_000, 1, 7)]);
}

#[test]
fn a_clip_takes_its_part_and_neighbouring_clips_share_nothing() {
    let text = generic(&[(500.0, 1, 1), (1500.0, 2, 1), (2500.0, 3, 1), (2500.0, 4, 1), (3500.0, 5, 1)]);
    let clip = |from_s: u64, to_s: Option<u64>| {
        let rules =
            Rules { from_ns: from_s * 1_000_000_000, to_ns: to_s.map(|s| s * 1_000_000_000), ..Rules::default() };
        captured(&text, &rules)
    };
    assert_eq!(asked(&clip(0, Some(2))), [(0, 1, 1), (1_000_000_000, 2, 1)]);
    let rest = clip(2, None);
    assert_eq!(asked(&rest), [(0, 3, 1), (0, 4, 1), (1_000_000_000, 5, 1)]);
    assert_eq!(rest.facts.at_same_time, 1);
    assert_eq!(rest.facts.dropped.iter().collect::<Vec<_>>(), [(&"before --trace-from", &2)]);
    let late = Rules { from_ns: u64::MAX / 2, ..Rules::default() };
    let words = said(text.as_bytes(), &late);
    assert_eq!(words, "t.csv: none of its 5 rows is left: 5 before --trace-from");
}

#[test]
fn passes_follow_one_mean_gap_after_one_another() {
    let text = generic(&[(0.0, 1, 1), (10.0, 2, 1), (40.0, 3, 1)]);
    let found = looped(&text, &Rules::default(), 3);
    let ms: Vec<u64> = asked(&found).iter().map(|(at, ..)| at / 1_000_000).collect();
    assert_eq!(ms, [0, 10, 40, 60, 70, 100, 120, 130, 160], "40 ms of three arrivals: gaps of 20");
    assert_eq!((found.requests, found.period_ns), (9, Some(60_000_000)));
    let ids = r#"{"arrival_ms":0,"input_tokens":8,"output_tokens":1,"hash_ids":[1,2]}"#;
    let rules = Rules { hash_block: Some(4), ..GENERIC };
    let again = looped(&format!("{ids}\n{ids}\n"), &rules, 2);
    let blocks: Vec<Vec<u64>> = lines(&again).into_iter().map(|l| l.hash_ids.expect("ids")).collect();
    assert_eq!((&blocks[0], &blocks[0], &blocks[2]), (&vec![1, 2], &blocks[1], &blocks[3]));
    assert!(blocks[2].iter().all(|id| !blocks[0].contains(id)), "a second pass finds nothing of the first in a cache");
    let one = take_in("t", generic(&[(0.0, 1, 1)]).as_bytes(), &Rules::default(), spool()).expect("a row");
    assert!(matches!(Captured::new("t".into(), one, 2, 0, None), Err(BadReplay::NoGap)));
}

#[test]
fn the_first_ones_or_all() {
    let text = generic(&[(0.0, 1, 1), (1.0, 2, 1), (2.0, 3, 1)]);
    let of = |passes, drop, kept| {
        let intake = take_in("t", text.as_bytes(), &Rules::default(), spool()).expect("rows");
        Captured::new("t".into(), intake, passes, drop, kept)
    };
    let requests = |passes, drop, kept| of(passes, drop, kept).map(|found| found.requests);
    assert_eq!(requests(1, 1, None).expect("all"), 3);
    assert_eq!(requests(2, 1, Some(4)).expect("the first five"), 5);
    assert_eq!(asked(&of(2, 1, Some(3)).expect("four")).len(), 4);
    let few = requests(1, 1, Some(3)).expect_err("too few").to_string();
    assert!(few.contains("--num-prompts 3 and --drop 1 want more requests than the 3"), "{few}");
    let none = requests(1, 10, None).expect_err("none is kept").to_string();
    assert!(none.contains("--drop 10") && none.contains("3 requests"), "{none}");
    let many = requests(10_000_000, 0, None).expect_err("too many").to_string();
    assert!(many.contains("30000000") && many.contains("--num-prompts"), "{many}");
}

#[test]
fn speeds_are_load_points_of_one_trace() {
    let found = captured(&generic(&[(0.0, 1, 1), (1000.0, 2, 1), (1500.0, 3, 1), (7000.0, 3, 1)]), &Rules::default());
    let replay = |scale, cap| Replay::new(&found, scale, cap, None).expect("spooled");
    let dues = |replay: &Replay| replay.dues().map(|due| due.expect("spooled").ns()).collect::<Vec<_>>();
    let plain = replay(1.0, None);
    assert_eq!(dues(&plain), [0, 1_000_000_000, 1_500_000_000, 7_000_000_000]);
    assert_eq!((plain.rate, plain.peak_per_s, plain.last_due_s), (Some(3.0 / 7.0), 2, 7.0));
    let text: String = dues(&plain).iter().map(|due| format!("{due}\n")).collect();
    assert_eq!(plain.schedule_hash, hex(&Sha256::digest(text)));
    let fast = replay(7.0, Some(2));
    assert_eq!(dues(&fast), [0, 142_857_143, 214_285_714, 1_000_000_000]);
    assert_eq!((fast.peak_per_s, fast.slots, fast.concurrency), (3, 2, Some(2)));
    assert_eq!(replay(0.5, None).last_due_s, 14.0, "slower than it was");
    let once = Replay::new(&captured(&generic(&[(5.0, 1, 1), (5.0, 1, 1)]), &Rules::default()), 2.0, None, None);
    assert_eq!(once.expect("spooled").rate, None, "all at once");
    assert_eq!(found.times().count(), 4);
}

#[test]
fn blocks_shrink_with_the_lengths() {
    let row = |n: u64, ids: &str| {
        format!("{{\"timestamp\":{n},\"input_length\":1030,\"output_length\":5,\"hash_ids\":[{ids}]}}\n")
    };
    let text = format!("{}{}", row(1, "1,2,3"), row(2, "1,2,3,4,5"));
    let found = captured(&text, &Rules { length_scale: 0.05, ..Rules::default() });
    assert_eq!(
        (found.facts.format, found.facts.block_tokens, found.facts.asked_block_tokens),
        (Format::Mooncake, Some(512), Some(26))
    );
    assert_eq!(found.facts.clamped.iter().collect::<Vec<_>>(), [(&"more hash_ids than its prompt has blocks", &1)]);
    let contents: Vec<Content> = found.shapes().map(|shape| shape.expect("spooled").content).collect();
    assert_eq!(
        contents,
        vec![Content::Blocks { ids: vec![1, 2], tokens_each: 26 }; 2],
        "52 tokens are two blocks of 26"
    );
    assert!(found.shares_prefixes() && found.words().join(" ").contains("blocks of 512 tokens, asked for as 26"));
    let unknown = said(br#"{"arrival_ms":0,"input_tokens":8,"output_tokens":1,"hash_ids":[1]}"#, &GENERIC);
    assert!(unknown.starts_with("t.csv:1: ") && unknown.contains("--hash-block"), "{unknown}");
}

#[test]
fn prompts_of_the_trace_are_asked_for_as_they_are() {
    let text = concat!(
        r#"{"arrival_ms":0,"prompt":"one two three","max_tokens":40}"#,
        "\n",
        r#"{"arrival_ms":1,"body":{"messages":[{"role":"user","content":"a b"}],"max_tokens":40,"seed":1}}"#,
        "\n",
        r#"{"arrival_ms":2,"prompt":"one two three four five six","input_tokens":11,"max_tokens":4}"#,
        "\n"
    );
    let found = captured(text, &Rules { length_scale: 0.1, ..Rules::default() });
    assert_eq!(asked(&found), [(0, 3, 4), (1_000_000, 3, 4), (2_000_000, 11, 1)], "what is given is not scaled");
    let contents: Vec<Content> = found.shapes().map(|shape| shape.expect("spooled").content).collect();
    assert_eq!(contents[0], Content::Text("one two three".to_owned()));
    assert!(
        matches!(&contents[1], Content::Body(body) if body["max_tokens"] == 4 && body["seed"] == 1),
        "{contents:?}"
    );
    let as_it_was = captured(text, &Rules::default());
    let body = as_it_was.shapes().nth(1).expect("three").expect("spooled").content;
    assert!(matches!(&body, Content::Body(body) if body["max_tokens"] == 40));
    assert_eq!(lines(&found)[0].content_sha256.as_deref(), Some(hex(&Sha256::digest("one two three")).as_str()));
    let short = captured(text, &Rules { max_input_tokens: Some(5), ..Rules::default() });
    assert_eq!(
        short.facts.dropped.iter().collect::<Vec<_>>(),
        [(&"a prompt of its own, longer than --max-input-tokens", &1)]
    );
}

#[test]
fn the_trace_hash_names_everything_that_is_asked() {
    let hash = |ids: &str, tokens: u64| {
        let row = format!(r#"{{"arrival_ms":0,"input_tokens":{tokens},"output_tokens":1,"hash_ids":[{ids}]}}"#);
        captured(&row, &Rules { hash_block: Some(4), ..GENERIC }).trace_hash
    };
    assert_eq!(hash("1,2", 8), hash("1,2", 8));
    assert_ne!(hash("1,2", 8), hash("1,3", 8), "other prefixes are other work");
    assert_ne!(hash("1,2", 8), hash("1,2", 7));
    let text = |prompt: &str| {
        captured(&format!(r#"{{"arrival_ms":0,"prompt":"{prompt}","max_tokens":1}}"#), &Rules::default()).trace_hash
    };
    assert_ne!(text("a b"), text("a c"));
    let plain = captured(&generic(&[(0.0, 5, 6)]), &Rules::default());
    assert_eq!(plain.trace_hash, hex(&Sha256::digest("trace 5 6\n")), "without prompts it is that of any workload");
}

#[test]
fn bad_traces_are_named_by_file_and_line() {
    let auto = Rules::default();
    assert_eq!(said(b"", &auto), "t.csv: it is empty: a trace has at least one row");
    assert_eq!(said(b"\n \n", &auto), "t.csv: it is empty: a trace has at least one row");
    assert_eq!(said(AZURE.as_bytes(), &auto), "t.csv: there is a header and no row");
    let columns = said(b"TIMESTAMP,Prompt,GeneratedTokens\n1,2,3\n", &auto);
    assert!(columns.starts_with("t.csv:1: the columns are TIMESTAMP, Prompt, GeneratedTokens"), "{columns}");
    assert!(columns.ends_with("azure needs ContextTokens"), "{columns}");
    let named = said(b"a,b\n1,2\n", &Rules { format: Some(Format::Burstgpt), ..Rules::default() });
    assert!(named.contains("burstgpt needs Timestamp, Request tokens, Response tokens"), "{named}");
    let back = format!("{AZURE}2023-11-16 18:15:46.1,1,1\n2023-11-16 18:15:47,1,1\n\n2023-11-16 18:15:46.9,1,1\n");
    assert_eq!(
        said(back.as_bytes(), &auto),
        "t.csv:5: its time is before that of line 3: sort the file by its column of times"
    );
    let negative = format!("{AZURE}2023-11-16 18:15:46.1,1,-1\n");
    assert!(said(negative.as_bytes(), &auto).starts_with("t.csv:2: GeneratedTokens is \"-1\""));
    let absurd = format!("{AZURE}2023-11-16 18:15:46.1,{},1\n", MOST_TOKENS + 1);
    assert!(said(absurd.as_bytes(), &auto).starts_with("t.csv:2: ContextTokens is"));
    assert!(said(b"\xff\xfeT\0", &auto).contains("UTF-16"));
    assert!(said(b"\x7fELF\x02\x01\x01\0\0\0", &auto).contains("no text"));
    let cut = format!("{}{{\"arrival_ms\":5,\"input_to", generic(&[(0.0, 1, 1)]));
    assert!(said(cut.as_bytes(), &auto).starts_with("t.csv:2: it is no JSON object: it ends too soon"));
    for time in ["nan", "inf", "NaN", "-inf"] {
        let text = format!("Timestamp,Request tokens,Response tokens\n{time},1,1\n");
        assert!(said(text.as_bytes(), &auto).starts_with("t.csv:2: Timestamp is"), "{time}");
    }
    let infinite = generic(&[(0.0, 1, 1)]) + "{\"arrival_ms\":1e400,\"input_tokens\":1,\"output_tokens\":1}\n";
    assert!(said(infinite.as_bytes(), &auto).starts_with("t.csv:2: arrival_ms is \"1e400\""));
    let late = generic(&[(0.0, 1, 1), (1e16, 1, 1)]);
    assert!(said(late.as_bytes(), &auto).contains("290 years"));
    let unit = said(br#"{"timestamp":1,"input_length":30,"output_length":5}"#, &auto);
    assert!(unit.starts_with("t.csv:1: what unit its times have") && unit.contains("--trace-format"), "{unit}");
    let classes: String = (0..1001)
        .map(|i| format!("{{\"arrival_ms\":{i},\"input_tokens\":1,\"output_tokens\":1,\"class\":\"c{i}\"}}\n"))
        .collect();
    assert!(said(classes.as_bytes(), &auto).starts_with("t.csv:1001: there are more than 1000"));
}

/// A file of 10 GB without the end of a line, as far as anybody wants it.
struct OneLine {
    given: u64,
}

impl Read for OneLine {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min((10_000_000_000 - self.given) as usize);
        buffer[..n].fill(b'7');
        self.given += n as u64;
        Ok(n)
    }
}

#[test]
fn a_line_of_10_gb_is_given_up_on_after_64_kib() {
    let mut file = OneLine { given: 0 };
    let words = take_in("t.csv", &mut file, &Rules::default(), spool()).expect_err("refused").to_string();
    assert!(words.starts_with("t.csv:1: the line is longer than 65536 bytes"), "{words}");
    assert!(file.given <= 2 << 20, "{} bytes were read", file.given);
    let mut second = AZURE.as_bytes().chain(OneLine { given: 0 });
    let words = take_in("t.csv", &mut second, &Rules::default(), spool()).expect_err("refused").to_string();
    assert!(words.starts_with("t.csv:2: "), "{words}");
}

#[test]
fn a_reader_that_fails_is_told() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let file = AZURE.as_bytes().chain(Broken);
    let words = take_in("t.csv", file, &Rules::default(), spool()).expect_err("refused").to_string();
    assert_eq!(words, "t.csv: it cannot be read: the cable is out");
}

/// A row as every format can write it.
#[derive(Clone, Debug)]
struct Written {
    gap_ticks: u64,
    prompt: u64,
    output: u64,
    ids: Vec<u64>,
}

fn written() -> impl Strategy<Value = Vec<Written>> {
    let row = (0u64..1_000_000_000, 1u64..2000, 1u64..2000, prop::collection::vec(any::<u64>(), 0..4));
    let row = row.prop_map(|(gap_ticks, prompt, output, ids)| Written { gap_ticks, prompt, output, ids });
    prop::collection::vec(row, 1..30)
}

/// Times of the rows in ticks of 100 ns.
fn ticks(rows: &[Written]) -> Vec<u64> {
    rows.iter()
        .scan(0, |at, row| {
            *at += row.gap_ticks;
            Some(*at)
        })
        .collect()
}

fn in_format(format: Format, rows: &[Written], quote: &str, end: &str) -> String {
    let mut text = match format {
        Format::Azure => format!("{quote}TIMESTAMP{quote},ContextTokens,GeneratedTokens{end}"),
        Format::Burstgpt => {
            format!("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type{end}")
        }
        _ => String::new(),
    };
    for (row, tick) in rows.iter().zip(ticks(rows)) {
        let Written { prompt, output, ids, .. } = row;
        let (second, fraction) = (tick / 10_000_000, tick % 10_000_000);
        let ids = serde_json::to_string(ids).expect("numbers");
        let ms = format!("{}.{:04}", tick / 10_000, tick % 10_000);
        let s = in_seconds(i128::from(tick) * 100);
        let line = match format {
            Format::Azure => {
                let (hour, minute) = (second / 3600, second / 60 % 60);
                let date = format!("2023-11-16 {hour:02}:{minute:02}:{:02}.{fraction:07}", second % 60);
                format!("{quote}{date}{quote},{prompt},{quote}{output}{quote}")
            }
            Format::Burstgpt => format!("{s},1,0.1,{quote}GPT-4{quote},{prompt},{output},9,{quote}API log{quote}"),
            Format::Mooncake => {
                format!(r#"{{"timestamp":{ms},"input_length":{prompt},"output_length":{output},"hash_ids":{ids}}}"#)
            }
            Format::Vllm => {
                format!(r#"{{"timestamp":{s},"input_length":{prompt},"output_length":{output},"hash_ids":{ids}}}"#)
            }
            Format::Bailian => format!(
                r#"{{"chat_id":1,"parent_chat_id":-1,"timestamp":{s},"input_length":{prompt},"output_length":{output},"type":"text","turn":1,"hash_ids":{ids}}}"#
            ),
            Format::Generic => {
                format!(r#"{{"arrival_ms":{ms},"input_tokens":{prompt},"output_tokens":{output},"hash_ids":{ids}}}"#)
            }
        };
        text.push_str(&line);
        text.push_str(end);
    }
    text
}

proptest! {
    #[test]
    fn rows_read_back_from_every_format(rows in written(), quoted in any::<bool>(), crlf in any::<bool>(), mark in any::<bool>()) {
        // seconds of one day
        prop_assume!(ticks(&rows).last() < Some(&(86_400 * 10_000_000)));
        let (quote, end) = (if quoted { "\"" } else { "" }, if crlf { "\r\n" } else { "\n" });
        let first = rows[0].gap_ticks;
        for format in [Format::Azure, Format::Burstgpt, Format::Mooncake, Format::Vllm, Format::Bailian, Format::Generic] {
            let mut text = in_format(format, &rows, quote, end);
            if mark {
                text.insert(0, '\u{feff}');
            }
            let found = captured(&text, &Rules { format: Some(format), hash_block: Some(1), ..Rules::default() });
            let expected: Vec<(u64, u64, u64)> =
                rows.iter().zip(ticks(&rows)).map(|(row, tick)| ((tick - first) * 100, row.prompt, row.output)).collect();
            prop_assert_eq!(asked(&found), expected);
            prop_assert_eq!(found.facts.rows, rows.len() as u64);
            if !matches!(format, Format::Azure | Format::Burstgpt) {
                for (line, row) in lines(&found).iter().zip(&rows) {
                    let ids = &row.ids[..row.ids.len().min(row.prompt as usize)];
                    prop_assert_eq!(line.hash_ids.as_deref(), Some(ids));
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_trace_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..300), azure in any::<bool>()) {
        let bytes = if azure { [AZURE.as_bytes(), &bytes].concat() } else { bytes };
        let formats = [None, Some(Format::Azure), Some(Format::Burstgpt), Some(Format::Mooncake), Some(Format::Vllm),
            Some(Format::Bailian), Some(Format::Generic)];
        for format in formats {
            let _ = take_in("t", &bytes[..], &Rules { format, ..Rules::default() }, spool());
        }
    }

    #[test]
    fn any_speed_keeps_the_order(gaps in prop::collection::vec(0u64..u64::MAX / 1000, 1..50), scale in 1e-6f64..1e9) {
        let mut at = 0_u64;
        let rows: String = gaps
            .iter()
            .map(|gap| {
                at += gap / 1_000_000;
                format!("{{\"timestamp\":{},\"input_tokens\":1,\"output_tokens\":1}}\n", in_seconds(i128::from(at)))
            })
            .collect();
        let replay = Replay::new(&captured(&rows, &GENERIC), scale, None, None).expect("spooled");
        let dues: Vec<Nanos> = replay.dues().map(|due| due.expect("spooled")).collect();
        prop_assert!(dues.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert_eq!((dues[0], dues.len()), (Nanos::ZERO, gaps.len()));
    }
}
