//! L1: what the wire code costs per event and per byte, and that it reads the same events however the bytes are cut.
//!
//! The code is the worker's own: head, framing, server-sent events, tape. No socket and no JSON is in it, since the
//! worker has none of the latter. The streams are built in, so that figures of different hosts compare.

use bench_engine::clock::{Clock, SystemClock};
use bench_engine::exchange::{Exchange, Progress};
use bench_engine::record::{Block, Blocks, Dispatch, Ending, Note, ReadStamp, notes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a worker's read buffer: longer writes come in several reads.
const READ_BYTES: usize = 4096;
/// Most blocks a played stream may need at once, recycled when they are full.
const BLOCKS: usize = 4;

/// How much work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Times that each stream is timed; figures are medians of these.
    pub repetitions: u32,
    /// Times that it is played within one timing.
    pub rounds: u32,
    /// Most places to cut a stream at; a stream with more bytes is cut at this many, evenly spread.
    pub cuts: u32,
}

/// What was found, per stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParserCost {
    /// Of the first stream, one token an event and each in a read of its own: what a worker meets at low load, ns.
    pub ns_per_event: Option<f64>,
    /// How much was done.
    pub work: Work,
    /// One for each built-in stream.
    pub streams: Vec<StreamCost>,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCost {
    /// Its name.
    pub name: String,
    /// Bytes, head and framing included.
    pub bytes: u64,
    /// Data events, `[DONE]` included.
    pub events: u64,
    /// Each event in reads of its own, 4,096 bytes at most: how a worker gets them at low load.
    pub one_by_one: Cost,
    /// The whole stream in one read: the parsers alone.
    pub whole: Cost,
    /// Ways of cutting it that were tried: in two at each place, and byte by byte.
    pub cuts: u64,
    /// Of these, those that did not give the events of the whole. Above 0 the build is broken.
    pub cuts_wrong: u64,
}

/// Medians over the repetitions, but for the last; null without one. The reply's head is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// ns for each event.
    pub ns_per_event: Option<f64>,
    /// ns for each byte.
    pub ns_per_byte: Option<f64>,
    /// ns for each event in the fastest repetition: what the code costs when nobody else takes the core.
    pub fastest_ns_per_event: Option<f64>,
}

/// A reply as a server writes it.
#[derive(Clone, Debug)]
struct Stream {
    name: &'static str,
    /// One write each: the head, the events, the end.
    writes: Vec<Vec<u8>>,
    events: u64,
}

impl Stream {
    fn new(name: &'static str, events: &[String]) -> Stream {
        let head = "HTTP/1.1 200 OK\r\ndate: Sat, 01 Aug 2026 10:00:00 GMT\r\nserver: uvicorn\r\n\
                    content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = |event: &String| {
            let data = format!("data: {event}\n\n");
            format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
        };
        let writes =
            [head.as_bytes().to_vec()].into_iter().chain(events.iter().map(chunk)).chain([b"0\r\n\r\n".to_vec()]);
        Stream { name, writes: writes.collect(), events: events.len() as u64 }
    }

    /// The streams whose cost is stated.
    fn built_in() -> Vec<Stream> {
        let tokens = (0..256).map(|i| delta(&format!("{{\"content\":\" word{i}\"}}"), "null"));
        let vllm = tokens.chain([delta("{\"content\":\"\"}", "\"length\""), usage(256), DONE.into()]);
        let long = delta(&format!("{{\"content\":\"{}\"}}", "abcdefg ".repeat(8 * 1024)), "null");
        let role = [
            delta("{\"role\":\"assistant\",\"content\":\"\"}", "null"),
            delta("{\"content\":\"Yes\"}", "null"),
            delta("{\"content\":\".\"}", "\"stop\""),
            usage(2),
            DONE.into(),
        ];
        vec![
            Stream::new("one token an event", &vllm.collect::<Vec<_>>()),
            Stream::new("64 KiB event", &[long, DONE.into()]),
            Stream::new("role and usage", &role),
        ]
    }

    fn reads(&self) -> Vec<&[u8]> {
        self.writes.iter().flat_map(|w| w.chunks(READ_BYTES)).collect()
    }
}

const DONE: &str = "[DONE]";

fn delta(delta: &str, finish_reason: &str) -> String {
    format!(
        "{{\"id\":\"chatcmpl-5a3c8f2e9b7d4c1f\",\"object\":\"chat.completion.chunk\",\"created\":1785578400,\
         \"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{finish_reason}}}]}}"
    )
}

fn usage(tokens: u32) -> String {
    format!(
        "{{\"id\":\"chatcmpl-5a3c8f2e9b7d4c1f\",\"object\":\"chat.completion.chunk\",\"created\":1785578400,\
         \"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[],\"usage\":{{\"prompt_tokens\":128,\
         \"total_tokens\":{},\"completion_tokens\":{tokens}}}}}",
        128 + tokens
    )
}

/// Measures every built-in stream on the calling thread.
pub fn measure(work: Work) -> ParserCost {
    let streams: Vec<StreamCost> = Stream::built_in().iter().map(|s| cost(s, work)).collect();
    ParserCost { ns_per_event: streams.first().and_then(|s| s.one_by_one.ns_per_event), work, streams }
}

fn cost(stream: &Stream, work: Work) -> StreamCost {
    let whole = stream.writes.concat();
    let (cuts, cuts_wrong) = wrong_cuts(&whole, work.cuts);
    let per = |ns: Option<(f64, f64)>| Cost {
        ns_per_event: ns.map(|(median, _)| median / stream.events as f64),
        ns_per_byte: ns.map(|(median, _)| median / whole.len() as f64),
        fastest_ns_per_event: ns.map(|(_, fastest)| fastest / stream.events as f64),
    };
    StreamCost {
        name: stream.name.to_owned(),
        bytes: whole.len() as u64,
        events: stream.events,
        one_by_one: per(timed_ns(&stream.reads(), work)),
        whole: per(timed_ns(&[&whole], work)),
        cuts,
        cuts_wrong,
    }
}

/// ns for one reply: median and smallest over the repetitions.
fn timed_ns(reads: &[&[u8]], work: Work) -> Option<(f64, f64)> {
    if work.rounds == 0 {
        return None;
    }
    let (mut exchange, mut ring) = (Exchange::default(), Recycled::default());
    let mut timed = || {
        let before = SystemClock.now();
        for _ in 0..work.rounds {
            let ending = play(&mut exchange, reads, &mut ring);
            assert_eq!(ending, Some(Ending::Complete), "a built-in stream is a whole reply");
            ring.free.extend(exchange.cut_tape().map(emptied));
        }
        SystemClock.now().saturating_since(before).ns() as f64 / f64::from(work.rounds)
    };
    let mut ns: Vec<f64> = (0..work.repetitions).map(|_| timed()).collect();
    ns.sort_unstable_by(f64::total_cmp);
    let upper = *ns.get(ns.len() / 2)?;
    let median = if ns.len().is_multiple_of(2) { f64::midpoint(ns[ns.len() / 2 - 1], upper) } else { upper };
    Some((median, ns[0]))
}

/// How the reply ended; None when its bytes did not end it.
fn play(exchange: &mut Exchange, reads: &[&[u8]], blocks: &mut impl Blocks) -> Option<Ending> {
    exchange.begin(true);
    for (read_no, bytes) in reads.iter().enumerate() {
        let stamp = ReadStamp { read_no: read_no as u32, ..ReadStamp::default() };
        if let (_, Progress::Over(ending)) = exchange.on_read(bytes, stamp, blocks) {
            return Some(ending);
        }
    }
    None
}

/// Blocks that go round, as those of a worker whose recorder keeps up.
struct Recycled {
    free: Vec<Block>,
}

impl Default for Recycled {
    fn default() -> Self {
        Recycled { free: (0..BLOCKS).map(|_| Block::default()).collect() }
    }
}

fn emptied(mut block: Block) -> Block {
    block.clear();
    block
}

impl Blocks for Recycled {
    fn take(&mut self) -> Option<Block> {
        self.free.pop()
    }
    fn full(&mut self, block: Block) {
        self.free.push(emptied(block));
    }
}

/// Blocks that are kept, to be read.
#[derive(Default)]
struct Kept(Vec<Block>);

impl Blocks for Kept {
    fn take(&mut self) -> Option<Block> {
        Some(Block::default())
    }
    fn full(&mut self, block: Block) {
        self.0.push(block);
    }
}

/// What a reply says, whatever reads it came in.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    head: Vec<u8>,
    events: Vec<(Dispatch, Vec<u8>)>,
    other: Vec<u8>,
    keep_alives: u32,
    ending: Option<Ending>,
}

fn said(reads: &[&[u8]]) -> Said {
    let (mut exchange, mut kept) = (Exchange::default(), Kept::default());
    let ending = play(&mut exchange, reads, &mut kept);
    let mut said = Said { ending, ..Said::default() };
    let last = exchange.cut_tape();
    let mut data = Vec::new();
    for note in kept.0.iter().chain(&last).flat_map(|block| notes(block.filled())) {
        match note {
            Note::Head(bytes) => said.head.extend_from_slice(bytes),
            Note::Data(bytes) => data.extend_from_slice(bytes),
            Note::Event(how) => said.events.push((how, std::mem::take(&mut data))),
            Note::EventName(bytes) | Note::ErrorField(bytes) | Note::Body(bytes) => said.other.extend_from_slice(bytes),
            Note::KeepAlive => said.keep_alives += 1,
            Note::Read(_) | Note::HeadEnd | Note::Trailing | Note::BodyEnd => {}
        }
    }
    said
}

/// Ways of cutting `whole` that were tried, and of these, those that said something else.
fn wrong_cuts(whole: &[u8], most: u32) -> (u64, u64) {
    let expected = said(&[whole]);
    let places = whole.len().saturating_sub(1).min(most as usize);
    let is_wrong = |reads: &[&[u8]]| u64::from(said(reads) != expected);
    let mut wrong: u64 = (0..places)
        .map(|i| {
            // 1 to len - 1, evenly
            let (left, right) = whole.split_at(1 + i * (whole.len() - 1) / places);
            is_wrong(&[left, right])
        })
        .sum();
    wrong += is_wrong(&whole.chunks(1).collect::<Vec<_>>());
    (places as u64 + 1, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_says_what_was_written() {
        let streams = Stream::built_in();
        for stream in &streams {
            let said = said(&[&stream.writes.concat()]);
            assert_eq!(said.events.len() as u64, stream.events, "{}", stream.name);
            assert_eq!(said.events.last().map(|e| (e.0, &e.1[..])), Some((Dispatch::Done, DONE.as_bytes())));
            assert_eq!(said.ending, Some(Ending::Complete));
            assert!(said.head.starts_with(b"HTTP/1.1 200") && said.other.is_empty());
        }
        let text = String::from_utf8(said(&[&streams[2].writes.concat()]).events[1].1.clone()).unwrap();
        assert_eq!(text, delta("{\"content\":\"Yes\"}", "null"));
        assert!(said(&[&streams[1].writes.concat()]).events[0].1.len() > 64 * 1024);
    }

    #[test]
    fn every_cut_gives_the_same_events() {
        for stream in Stream::built_in() {
            let whole = stream.writes.concat();
            let most = if stream.events == 2 { 200 } else { 5_000 };
            let (cuts, wrong) = wrong_cuts(&whole, most);
            assert_eq!((cuts, wrong), ((whole.len() as u64 - 1).min(u64::from(most)) + 1, 0), "{}", stream.name);
        }
    }

    #[test]
    fn a_cut_that_says_something_else_is_noticed() {
        let role = &Stream::built_in()[2];
        let whole = role.writes.concat();
        let expected = said(&[&whole]);
        let lost = said(&[&whole[..300], &whole[301..]]);
        assert_ne!(lost, expected);
        assert_eq!(said(&[&whole[..whole.len() - 1]]).ending, None);
    }

    #[test]
    fn every_stream_is_measured() {
        let found = measure(Work { repetitions: 2, rounds: 1, cuts: 3 });
        assert_eq!(found.streams.len(), 3);
        for stream in &found.streams {
            assert_eq!((stream.cuts, stream.cuts_wrong), (4, 0));
            assert!(stream.one_by_one.ns_per_event.is_some() && stream.whole.ns_per_byte.is_some());
            assert!(stream.whole.fastest_ns_per_event <= stream.whole.ns_per_event);
        }
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<ParserCost>(&json).unwrap(), found);
        let nothing = measure(Work { repetitions: 0, rounds: 0, cuts: 0 });
        assert_eq!(nothing.streams[0].one_by_one, Cost::default());
    }
}
