//! The fifteen questions, in the five groups of the seed's list.

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// 1 to 15.
    pub number: u8,
    /// In a few words.
    pub title: &'static str,
    /// What would fill the box when it is empty.
    pub fill: &'static str,
    /// Keys of `--declare` that are printed with the answer.
    pub declared: &'static [&'static str],
}

/// Title of each group, and the number of its last question.
pub const GROUPS: [(&str, u8); 5] = [
    ("What did you time?", 3),
    ("Was it warm?", 6),
    ("How busy was the system?", 9),
    ("What did you send?", 12),
    ("Who was timing?", 15),
];

const fn question(number: u8, title: &'static str, fill: &'static str, declared: &'static [&'static str]) -> Question {
    Question { number, title, fill, declared }
}

/// In order.
pub const QUESTIONS: [Question; 15] = [
    question(1, "First token or full answer, by which clock?", "a campaign in which requests are answered", &[]),
    question(
        2,
        "How many requests, and how often repeated?",
        "a campaign whose windows close and whose counts add up",
        &[],
    ),
    question(3, "Where are the raw records?", "requests.jsonl of this campaign, beside run.json", &["url"]),
    question(4, "Were slow first calls dropped?", "a campaign in which requests are answered", &["why-drop"]),
    question(
        5,
        "Could a cache help?",
        "a server that tells cached_tokens (vLLM: --enable-prompt-tokens-details) or counts its cache, or --declare cache=off",
        &["cache"],
    ),
    question(6, "Is a slow first hit hidden?", "a campaign in which requests are sent", &["restarted", "warmed-up"]),
    question(7, "One user or a crowd?", "a campaign in which requests are sent", &["traffic"]),
    question(
        8,
        "Only the easy load?",
        "a campaign in which requests are answered, better at three loads",
        &["why-loads"],
    ),
    question(9, "How long, and was it stable?", "a campaign whose windows close", &[]),
    question(
        10,
        "All short prompts?",
        "a server whose usage tells prompt_tokens and completion_tokens",
        &["source-of-mix"],
    ),
    question(11, "Which temperature and token caps?", "a campaign in which requests are sent", &[]),
    question(
        12,
        "Exactly which model?",
        "a model id, and a server that tells its engine and precision, or --declare precision=..",
        &["precision", "quantisation", "engine", "image", "hardware", "model-revision"],
    ),
    question(13, "Was the client itself busy?", "health.jsonl of this campaign", &[]),
    question(
        14,
        "Measured from where?",
        "the address of the server in plan.json, or --declare region=..",
        &["region", "cloud", "client-type", "network", "proxy"],
    ),
    question(
        15,
        "Only the lucky runs?",
        "the lines of a ledger that was kept from before the first request",
        &["runs"],
    ),
];

/// Keys of `--declare` that belong to no single box.
pub const OF_NO_BOX: [&str; 1] = ["price"];
