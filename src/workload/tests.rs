//! Workloads as a whole.

use super::body::PromptField;
use super::dataset::Format;
use super::distributions::{Between, MAX_TOKENS, Spread};
use super::ids::DEFAULT_IDS;
use super::jsonl::Wanted;
use super::*;
use std::collections::HashSet;
use std::io::Write;
use tempfile::NamedTempFile;

fn mix(scale: f64) -> Workload {
    Workload::new(Lengths::seed_mix(), scale, 7, None).expect("in range")
}

fn shapes(workload: &Workload, drop: u64, kept: u64, n: usize) -> Vec<Shape> {
    let shapes = workload.shapes(drop, kept).expect("readable").take(n);
    shapes.collect::<io::Result<_>>().expect("readable")
}

fn file(lines: &[String]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("file");
    file.write_all((lines.join("\n") + "\n").as_bytes()).expect("written");
    file
}

fn jsonl(file: &NamedTempFile, cache: Cache, max_tokens: Option<u64>) -> Workload {
    let wanted = Wanted { field: PromptField::Messages, marked: cache != Cache::AsIs };
    let lengths = Lengths::Jsonl(Dataset::open(file.path(), Format::Jsonl(wanted)).expect("lines"));
    let workload = Workload::new(lengths, 1.0, 7, max_tokens).expect("in range");
    workload.with(cache, PromptForm::Text).expect("they fit")
}

fn prompts(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{{\"prompt\":\"question number {i}\"}}")).collect()
}

#[test]
fn the_hash_names_lengths_and_texts() {
    assert_eq!(mix(1.0).trace_hash(10, 300).expect("no file"), mix(1.0).trace_hash(10, 300).expect("no file"));
    assert_ne!(mix(1.0).trace_hash(10, 300).expect("no file"), mix(0.1).trace_hash(10, 300).expect("no file"));
    let hash = |lines: &[String]| jsonl(&file(lines), Cache::Unique, None).trace_hash(1, 3).expect("readable");
    let mut others = prompts(5);
    others[2] = "{\"prompt\":\"question number x\"}".to_owned();
    assert_eq!(hash(&prompts(5)), hash(&prompts(5)));
    assert_ne!(hash(&prompts(5)), hash(&others), "as long, but another");
}

#[test]
fn a_cap_replaces_every_output_length() {
    let capped = Workload { max_tokens: Some(9), ..mix(1.0) };
    assert!(shapes(&capped, 0, 1, 50).iter().all(|s| s.output_tokens == 9));
    let body = r#"{"messages":[{"content":"hi"}],"max_tokens":5,"max_completion_tokens":6}"#.to_owned();
    let one = file(&[body]);
    let (own, capped) = (jsonl(&one, Cache::Unique, None), jsonl(&one, Cache::Unique, Some(9)));
    assert_eq!(shapes(&own, 0, 1, 1)[0].output_tokens, 6);
    let shape = &shapes(&capped, 0, 1, 1)[0];
    let Content::Body(fields) = &shape.content else { panic!("a body") };
    assert_eq!((shape.output_tokens, fields.get("max_tokens")), (9, None));
    assert_eq!(fields["max_completion_tokens"], 9);
    let text = file(&prompts(1));
    assert_eq!(shapes(&jsonl(&text, Cache::Unique, None), 0, 1, 1)[0].output_tokens, DEFAULT_OUTPUT_TOKENS);
}

#[test]
fn a_file_starts_over_only_when_all_were_used() {
    let workload = jsonl(&file(&prompts(12)), Cache::AsIs, None);
    let all = shapes(&workload, 2, 10, 22);
    let texts = |shapes: &[Shape]| shapes.iter().map(|s| format!("{:?}", s.content)).collect::<Vec<_>>();
    let (warm_up, first, second) = (texts(&all[..2]), texts(&all[2..12]), texts(&all[12..]));
    assert_eq!(first, second);
    assert_eq!(warm_up.iter().chain(&first).collect::<HashSet<_>>().len(), 12);
    let said = workload.remarks(2, 10, 0).expect("readable");
    assert_eq!(said[0], "10 entries for the measured requests, 2 for the warm-up");
    assert!(said[1].starts_with("WARNING: all measured prompts are 3 tokens long") && said.len() == 2, "{said:?}");
    let said = workload.remarks(2, 10, 15).expect("readable");
    assert!(said[1].contains("wants 15 measured requests and has 10 entries for them"), "{said:?}");
    let said = jsonl(&file(&prompts(1)), Cache::AsIs, None).shapes(1, 3).err().expect("refused").to_string();
    assert!(said.contains("has not two different prompts") && said.contains("--drop 0"), "{said}");
}

#[test]
fn repeat_asks_for_the_first_measured_request_again_and_again() {
    let workload = mix(1.0).with(Cache::Repeat, PromptForm::Text).expect("they fit");
    let (all, drawn) = (shapes(&workload, 10, 300, 320), shapes(&mix(1.0), 10, 300, 320));
    assert_eq!(all[..11], drawn[..11]);
    assert!(all[10..].iter().all(|shape| *shape == drawn[10]));
}

#[test]
fn remarks_are_made_where_they_are_due() {
    let remarks = |workload: &Workload| workload.remarks(10, 100, 0).expect("no file");
    assert_eq!(remarks(&mix(1.0)), [""; 0]);
    let prefix = mix(1.0).with(Cache::SharedPrefix { tokens: 200 }, PromptForm::Text).expect("they fit");
    assert!(remarks(&prefix)[0].contains("70 of 100 measured prompts are not longer than the shared prefix"));
    let same =
        Lengths::Uniform { input: Between { at_least: 64, at_most: 64 }, output: Between { at_least: 1, at_most: 9 } };
    let same = Workload::new(same, 1.0, 7, None).expect("in range");
    assert!(remarks(&same)[0].contains("all measured prompts are 64 tokens long"));
    let few = Between { at_least: 1, at_most: 5 };
    let few = Workload::new(Lengths::Uniform { input: few, output: few }, 1.0, 7, None).expect("in range");
    let few = few.with(Cache::Unique, PromptForm::Ids(DEFAULT_IDS)).expect("they fit");
    assert!(remarks(&few)[0].contains("have fewer ids than the nonce's 4"), "{:?}", remarks(&few));
    let side = Spread { mean: 100.0, sd: 80.0, at_least: 60, at_most: MAX_TOKENS };
    let cut = Workload::new(Lengths::Normal { input: side, output: side }, 1.0, 7, None).expect("in range");
    assert!(remarks(&cut)[0].contains("fell outside their bounds"), "{:?}", remarks(&cut));
}

#[test]
fn nonsense_is_refused_by_name() {
    let refused = |l, s| Workload::new(l, s, 7, None).expect_err("refused").to_string();
    assert!(refused(Lengths::seed_mix(), 0.0).starts_with("--length-scale"));
    assert!(refused(Lengths::seed_mix(), f64::NAN).starts_with("--length-scale"));
    let bad = Lengths::Random { input_len: 1, output_len: 1, range_ratio: 1.5 };
    assert!(refused(bad, 1.0).starts_with("--random-range-ratio"));
    let texts = jsonl(&file(&prompts(2)), Cache::Unique, None);
    assert!(refused(texts.lengths.clone(), 0.1).contains("only drawn lengths can be scaled"));
    let unfit = |workload: Workload, cache, form| workload.with(cache, form).expect_err("refused").to_string();
    assert!(unfit(mix(1.0), Cache::AsIs, PromptForm::Text).starts_with("--cache as-is"));
    assert!(unfit(texts, Cache::Unique, PromptForm::Ids(DEFAULT_IDS)).starts_with("--prompt-form ids"));
}
