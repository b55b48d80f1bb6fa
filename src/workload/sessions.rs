//! Conversations and chains: how many turns a session has, what each asks, and how long its user pauses before it.

use super::order::{PAUSES, TURNS, below};
use super::{Shape, Workload, hex};
use crate::arrivals::span;
use crate::rundir::window::SessionKind;
use bench_engine::units::Nanos;
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;

/// Most turns of a session.
pub const MOST_TURNS: u32 = 1_000;

/// How a number of turns is written.
pub const TURNS_FORM: &str = "a number of turns from 1 to 1,000, or a range of them, like 4 or 2..6";

/// How a pause is written.
pub const PAUSE_FORM: &str = "a time in us, ms, s, m or h, at most 366 days (8784h), like 500ms, 2s or 1m, or drawn: exp:2s (mean), \
                              uniform:1s..3s, or lognormal:2s/1s (mean/standard deviation)";

/// The time between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// The next turn is due when the reply before it ends.
    None,
    /// So long after the end of the reply before, drawn for each turn.
    After(Span),
    /// At a fixed pace from the session's first due, however long replies take; a turn cannot be sent before the reply
    /// that it needs.
    Every {
        /// Between two dues, ns.
        ns: u64,
    },
}

impl Pause {
    /// In words, e.g. `think time 2 s`; None where there is none.
    pub fn words(&self, kind: SessionKind) -> Option<String> {
        let (pause, turn) = match kind {
            SessionKind::Chat => ("think time", "turn"),
            SessionKind::Chain => ("tool time", "call"),
        };
        match self {
            Pause::None => None,
            Pause::After(span) => Some(format!("{pause} {span}")),
            Pause::Every { ns } => Some(format!("a {turn} every {} s", seconds(*ns))),
        }
    }

    /// Before a turn that is not the first.
    fn draw(self, rng: &mut Pcg64) -> Nanos {
        match self {
            Pause::None => Nanos::ZERO,
            Pause::After(span) => span.draw(rng),
            Pause::Every { ns } => Nanos::from_ns(ns),
        }
    }
}

/// How long a pause after a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "law", rename_all = "snake_case")]
pub enum Span {
    /// Always the same.
    Constant {
        /// ns.
        ns: u64,
    },
    /// Exponential.
    Exponential {
        /// ns.
        mean_ns: u64,
    },
    /// Uniform.
    Uniform {
        /// Shortest, ns.
        from_ns: u64,
        /// Longest, ns.
        to_ns: u64,
    },
    /// Log-normal, by the mean and standard deviation of the pauses themselves.
    LogNormal {
        /// ns.
        mean_ns: u64,
        /// ns.
        sd_ns: u64,
    },
}

/// Seconds as people write them.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Span {
    /// Text like [`PAUSE_FORM`] says; None: it is no such text.
    pub fn parse(text: &str) -> Option<Span> {
        let ns = |text: &str| span(text).map(Nanos::ns);
        match text.trim().split_once(':') {
            None => Some(Span::Constant { ns: ns(text)? }),
            Some(("exp", mean)) => Some(Span::Exponential { mean_ns: ns(mean).filter(|mean| *mean > 0)? }),
            Some(("uniform", bounds)) => {
                let (from, to) = bounds.split_once("..")?;
                let (from_ns, to_ns) = (ns(from)?, ns(to)?);
                (from_ns <= to_ns).then_some(Span::Uniform { from_ns, to_ns })
            }
            Some(("lognormal", moments)) => {
                let (mean, sd) = moments.split_once('/')?;
                Some(Span::LogNormal { mean_ns: ns(mean).filter(|mean| *mean > 0)?, sd_ns: ns(sd)? })
            }
            Some(_) => None,
        }
    }

    /// A pause of it.
    fn draw(self, rng: &mut Pcg64) -> Nanos {
        // a cast from a float stays within the type: no draw is too long for it
        let ns = match self {
            Span::Constant { ns } => ns,
            Span::Exponential { mean_ns } => {
                let drawn: f64 = Exp1.sample(rng);
                (mean_ns as f64 * drawn).round() as u64
            }
            Span::Uniform { from_ns, to_ns } => from_ns + below(rng, to_ns - from_ns + 1),
            Span::LogNormal { mean_ns, sd_ns } => {
                let drawn: f64 = StandardNormal.sample(rng);
                let variance_of_log = (1.0 + (sd_ns as f64 / mean_ns as f64).powi(2)).ln();
                let log = (mean_ns as f64).ln() - variance_of_log / 2.0 + variance_of_log.sqrt() * drawn;
                log.exp().round() as u64
            }
        };
        Nanos::from_ns(ns.min(LONGEST_NS))
    }
}

/// No drawn pause is longer: a year.
const LONGEST_NS: u64 = 366 * 86_400 * 1_000_000_000;

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Constant { ns } => write!(f, "{} s", seconds(*ns)),
            Span::Exponential { mean_ns } => write!(f, "exponential, mean {} s", seconds(*mean_ns)),
            Span::Uniform { from_ns, to_ns } => {
                write!(f, "uniform, {} to {} s", seconds(*from_ns), seconds(*to_ns))
            }
            Span::LogNormal { mean_ns, sd_ns } => {
                write!(f, "log-normal, mean {} s, standard deviation {} s", seconds(*mean_ns), seconds(*sd_ns))
            }
        }
    }
}

/// A number of turns, or a range of them, as [`TURNS_FORM`] says; None: it is no such text.
pub fn turns(text: &str) -> Option<[u32; 2]> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=MOST_TURNS).contains(n));
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some([from, to])
}

/// What sessions are like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SessionLaw {
    /// Chat or chain.
    pub kind: SessionKind,
    /// Fewest and most turns, both included, each equally likely; a file of conversations has turns of its own, and
    /// these bounds choose and cut them.
    pub turns: [u32; 2],
    /// Between turns.
    pub pause: Pause,
}

/// One session, as it is planned. The same in every window.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionShape {
    /// In order, at least one.
    pub turns: Vec<TurnShape>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnShape {
    /// Its own message, without what was said before; and the length of its reply.
    pub shape: Shape,
    /// Before it: after the end of the reply before, or with [`Pause::Every`] after the due of the turn before. 0 for
    /// the first.
    pub pause: Nanos,
}

/// What the planned sessions of a window ask for, all together.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Sessions, the dropped ones included.
    pub sessions: u64,
    /// Their turns.
    pub turns: u64,
    /// Of these, the turns of the dropped sessions.
    pub dropped_turns: u64,
    /// Mean length of a turn's own message, in tokens.
    pub mean_message_tokens: f64,
    /// Mean length of all that a turn sends, in tokens: its message and, as they are asked for, what was said before. A
    /// chat template's own tokens come on top.
    pub mean_prompt_tokens: f64,
    /// Mean length of a reply, in tokens.
    pub mean_output_tokens: f64,
    /// Length of all that the last turn of a session sends, in tokens: mean and most.
    pub last_prompt_tokens: (f64, u64),
    /// Mean of the planned pauses of a session together, in s.
    pub mean_pauses_s: f64,
    /// Names what is asked for: the hash of every length, every text of somebody's and every pause, in order.
    pub hash: String,
}

impl Survey {
    /// Mean number of turns.
    pub fn mean_turns(&self) -> f64 {
        self.turns as f64 / self.sessions.max(1) as f64
    }
}

impl Workload {
    /// The sessions of a window, in order of id: `drop` warm-up sessions, `kept` measured ones, and as many more as are
    /// asked for. The same in every window. Drawn lengths come in the order of the turns; shares of classes are exact in the
    /// turns of the first two parts.
    ///
    /// # Errors
    /// The file they come from cannot be read; each item as well.
    pub fn sessions(
        &self,
        law: &SessionLaw,
        drop: u64,
        kept: u64,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<SessionShape>> + Send + '_>> {
        let mut pauses = Pcg64::new(u128::from(self.seed), PAUSES);
        let pause = law.pause;
        let mut paused = move |shapes: Vec<Shape>| {
            let turns = shapes.into_iter().enumerate().map(|(turn, shape)| TurnShape {
                shape,
                pause: if turn == 0 { Nanos::ZERO } else { pause.draw(&mut pauses) },
            });
            SessionShape { turns: turns.collect() }
        };
        if let Some(dataset) = self.lengths.dataset() {
            let places = dataset.select(self.seed, drop, kept).map_err(io::Error::other)?.places(drop);
            return Ok(Box::new(places.map(move |place| {
                let entries = dataset.conversation(place)?.into_iter().enumerate();
                Ok(paused(entries.map(|(turn, entry)| self.of_entry(entry, turn == 0)).collect()))
            })));
        }
        let numbers = law.numbers_of_turns(self.seed);
        let sum = |numbers: &mut dyn Iterator<Item = u32>| numbers.map(u64::from).sum();
        let mut first = numbers.clone();
        let (dropped, measured) =
            (sum(&mut first.by_ref().take(drop as usize)), sum(&mut first.by_ref().take(kept as usize)));
        let mut shapes = self.generated(dropped, measured);
        Ok(Box::new(numbers.map(move |turns| {
            let drawn = shapes.by_ref().take(turns as usize).map(|shape| self.capped(shape));
            Ok(paused(drawn.collect()))
        })))
    }

    /// What the first `drop + kept` sessions ask for.
    ///
    /// # Errors
    /// As for [`Workload::sessions`].
    pub fn survey(&self, law: &SessionLaw, drop: u64, kept: u64) -> io::Result<Survey> {
        let sessions = drop + kept;
        let (mut turns, mut dropped_turns, mut hash) = (0_u64, 0_u64, Sha256::new());
        let (mut messages, mut prompts, mut outputs, mut last, mut most, mut pauses) =
            (0_u64, 0_u64, 0_u64, 0_u64, 0_u64, 0.0);
        for (id, session) in (0..sessions).zip(self.sessions(law, drop, kept)?) {
            let (mut said, mut prompt) = (0_u64, 0_u64);
            for (turn, TurnShape { shape, pause }) in session?.turns.iter().enumerate() {
                hash.update(format!("{id} {turn} {}\n", pause.ns()));
                shape.digest(&mut hash);
                prompt = said.saturating_add(shape.prompt_tokens);
                said = prompt.saturating_add(shape.output_tokens);
                turns += 1;
                dropped_turns += u64::from(id < drop);
                messages = messages.saturating_add(shape.prompt_tokens);
                prompts = prompts.saturating_add(prompt);
                outputs = outputs.saturating_add(shape.output_tokens);
                pauses += pause.secs_f64();
            }
            (last, most) = (last.saturating_add(prompt), most.max(prompt));
        }
        let of = |sum: u64, n: u64| sum as f64 / n.max(1) as f64;
        Ok(Survey {
            sessions,
            turns,
            dropped_turns,
            mean_message_tokens: of(messages, turns),
            mean_prompt_tokens: of(prompts, turns),
            mean_output_tokens: of(outputs, turns),
            last_prompt_tokens: (of(last, sessions), most),
            mean_pauses_s: pauses / sessions.max(1) as f64,
            hash: hex(&hash.finalize()),
        })
    }
}

impl SessionLaw {
    /// How many turns each session has, in order of id, without end.
    fn numbers_of_turns(&self, seed: u64) -> impl Iterator<Item = u32> + Clone + use<> {
        let [from, to] = self.turns;
        let mut rng = Pcg64::new(u128::from(seed), TURNS);
        std::iter::repeat_with(move || from + below(&mut rng, u64::from(to - from) + 1) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lengths;
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn law(turns: [u32; 2], pause: Pause) -> SessionLaw {
        SessionLaw { kind: SessionKind::Chat, turns, pause }
    }

    fn mix() -> Workload {
        Workload::new(Lengths::seed_mix(), 1.0, 7, None).expect("in range")
    }

    fn made(workload: &Workload, law: &SessionLaw, n: usize) -> Vec<SessionShape> {
        let sessions = workload.sessions(law, 2, 30).expect("no file").take(n);
        sessions.collect::<io::Result<_>>().expect("no file")
    }

    #[test]
    fn pauses_are_read_and_said_again() {
        for (text, span, words) in [
            ("2s", Span::Constant { ns: 2 * S }, "think time 2 s"),
            ("500ms", Span::Constant { ns: S / 2 }, "think time 0.5 s"),
            ("exp:2", Span::Exponential { mean_ns: 2 * S }, "think time exponential, mean 2 s"),
            ("uniform:1s..3s", Span::Uniform { from_ns: S, to_ns: 3 * S }, "think time uniform, 1 to 3 s"),
            (
                "lognormal:2m/1s",
                Span::LogNormal { mean_ns: 120 * S, sd_ns: S },
                "think time log-normal, mean 120 s, standard deviation 1 s",
            ),
        ] {
            assert_eq!(Span::parse(text), Some(span), "{text}");
            assert_eq!(Pause::After(span).words(SessionKind::Chat).as_deref(), Some(words));
        }
        for bad in [
            "",
            "x",
            "-1s",
            "exp:0",
            "exp",
            "uniform:3s..1s",
            "uniform:1s",
            "lognormal:2s",
            "lognormal:0/1",
            "gamma:2s",
            "367d",
        ] {
            assert_eq!(Span::parse(bad), None, "{bad}");
        }
        assert_eq!(Pause::None.words(SessionKind::Chat), None);
        let tools = Pause::After(Span::Constant { ns: S }).words(SessionKind::Chain);
        assert_eq!(tools.as_deref(), Some("tool time 1 s"));
        let pace = Pause::Every { ns: 6 * S }.words(SessionKind::Chat);
        assert_eq!(pace.as_deref(), Some("a turn every 6 s"));
    }

    #[test]
    fn numbers_of_turns_are_read() {
        assert_eq!((turns("4"), turns("2..6"), turns(" 1 .. 1000 ")), (Some([4, 4]), Some([2, 6]), Some([1, 1000])));
        for bad in ["", "0", "6..2", "0..3", "1..1001", "2-6", "x..3", "..", "2..", "-1"] {
            assert_eq!(turns(bad), None, "{bad}");
        }
    }

    #[test]
    fn drawn_pauses_have_their_mean_and_deviation() {
        let moments = |span: Span| {
            let mut rng = Pcg64::new(7, PAUSES);
            let n = 20_000;
            let drawn: Vec<f64> = (0..n).map(|_| span.draw(&mut rng).secs_f64()).collect();
            let mean = drawn.iter().sum::<f64>() / f64::from(n);
            let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n - 1);
            (mean, variance.sqrt())
        };
        for (span, mean, sd) in [
            (Span::Constant { ns: 2 * S }, 2.0, 0.0),
            (Span::Exponential { mean_ns: 2 * S }, 2.0, 2.0),
            (Span::Uniform { from_ns: S, to_ns: 3 * S }, 2.0, 1.0 / 3.0_f64.sqrt()),
            (Span::LogNormal { mean_ns: 2 * S, sd_ns: S }, 2.0, 1.0),
        ] {
            let (found, deviation) = moments(span);
            // five standard errors of the mean, and as wide a margin for the deviation
            assert!((found - mean).abs() < 5.0 * (sd + 1e-9) / 20_000_f64.sqrt(), "{span}: mean {found}");
            assert!((deviation - sd).abs() < 0.06 * sd + 1e-9, "{span}: standard deviation {deviation}");
        }
        let mut rng = Pcg64::new(7, PAUSES);
        let endless = Span::LogNormal { mean_ns: LONGEST_NS, sd_ns: LONGEST_NS };
        assert!((0..100).all(|_| endless.draw(&mut rng).ns() <= LONGEST_NS));
    }

    #[test]
    fn numbers_of_turns_and_pauses_are_pinned() {
        // golden vectors: what seed 7 means, in every release
        let law = law([2, 6], Pause::After(Span::Exponential { mean_ns: 2 * S }));
        let sessions = made(&mix(), &law, 6);
        let turns: Vec<usize> = sessions.iter().map(|s| s.turns.len()).collect();
        let pauses: Vec<u64> = sessions[0].turns.iter().map(|turn| turn.pause.ns()).collect();
        assert_eq!((turns, pauses), (GOLDEN_TURNS.to_vec(), GOLDEN_PAUSES.to_vec()));
    }

    const GOLDEN_TURNS: [usize; 6] = [6, 6, 5, 3, 2, 4];
    const GOLDEN_PAUSES: [u64; 6] = [0, 353520514, 1000882622, 1989456585, 73427296, 5962908666];

    #[test]
    fn turns_take_the_lengths_of_the_workload_in_order() {
        let law = law([2, 6], Pause::None);
        let (workload, sessions) = (mix(), made(&mix(), &law, 40));
        let survey = workload.survey(&law, 2, 30).expect("no file");
        let numbers: Vec<u64> = sessions.iter().map(|s| s.turns.len() as u64).collect();
        assert_eq!(survey.turns, numbers[..32].iter().sum::<u64>());
        assert_eq!(survey.dropped_turns, numbers[..2].iter().sum::<u64>());
        assert!(numbers.iter().all(|n| (2..=6).contains(n)) && numbers.contains(&2) && numbers.contains(&6));
        let (drop, kept) = (survey.dropped_turns, survey.turns - survey.dropped_turns);
        let in_order = workload.shapes(drop, kept).expect("no file").map(|shape| shape.expect("no file"));
        let turns = sessions.iter().flat_map(|s| &s.turns).map(|turn| turn.shape.clone());
        assert!(turns.eq(in_order.take(numbers.iter().sum::<u64>() as usize)), "shares are exact among kept turns");
        assert!(sessions.iter().flat_map(|s| &s.turns).all(|turn| turn.pause == Nanos::ZERO));
        assert_eq!(made(&workload, &law, 40), sessions, "each time the same");
    }

    #[test]
    fn a_survey_counts_what_was_said_before() {
        let lengths = Lengths::Random { input_len: 10, output_len: 3, range_ratio: 0.0 };
        let workload = Workload::new(lengths, 1.0, 7, None).expect("in range");
        let law = law([3, 3], Pause::Every { ns: 6 * S });
        let survey = workload.survey(&law, 1, 3).expect("no file");
        assert_eq!((survey.sessions, survey.turns, survey.dropped_turns), (4, 12, 3));
        // 10, then 10 + 3 + 10, then 36
        assert_eq!(
            (survey.mean_message_tokens, survey.mean_prompt_tokens, survey.mean_output_tokens),
            (10.0, 23.0, 3.0)
        );
        assert_eq!((survey.last_prompt_tokens, survey.mean_pauses_s), ((36.0, 36), 12.0));
    }

    #[test]
    fn the_hash_names_turns_lengths_and_pauses() {
        let of = |turns, pause, seed| {
            let workload = Workload { seed, ..mix() };
            workload.survey(&law(turns, pause), 2, 9).expect("no file").hash
        };
        let base = of([2, 4], Pause::None, 7);
        assert_eq!(base, of([2, 4], Pause::None, 7));
        let others = [
            of([3, 3], Pause::None, 7),
            of([2, 4], Pause::Every { ns: S }, 7),
            of([2, 4], Pause::After(Span::Exponential { mean_ns: S }), 7),
            of([2, 4], Pause::None, 8),
        ];
        assert!(!others.contains(&base));
    }

    proptest! {
        #[test]
        fn no_words_are_too_strange(text in "[a-z0-9:/.,-]{0,30}") {
            let _ = (Span::parse(&text), turns(&text));
        }

        #[test]
        fn every_span_comes_back(kind in 0..4_u8, a in 1_u64..1_000_000, b in 0_u64..1_000_000) {
            let (low, high) = (a.min(b), a.max(b));
            let text = match kind {
                0 => format!("{a}ms"),
                1 => format!("exp:{a}ms"),
                2 => format!("uniform:{low}ms..{high}ms"),
                _ => format!("lognormal:{a}ms/{b}ms"),
            };
            const MS: u64 = 1_000_000;
            let span = match kind {
                0 => Span::Constant { ns: a * MS },
                1 => Span::Exponential { mean_ns: a * MS },
                2 => Span::Uniform { from_ns: low * MS, to_ns: high * MS },
                _ => Span::LogNormal { mean_ns: a * MS, sd_ns: b * MS },
            };
            prop_assert_eq!(Span::parse(&text), Some(span));
        }

        #[test]
        fn the_first_turn_has_no_pause_and_all_lie_inside(from in 1_u32..9, more in 0_u32..9, seed: u64) {
            let law = law([from, from + more], Pause::After(Span::Uniform { from_ns: S, to_ns: 2 * S }));
            for session in made(&Workload { seed, ..mix() }, &law, 20) {
                prop_assert!((from..=from + more).contains(&(session.turns.len() as u32)));
                prop_assert_eq!(session.turns[0].pause, Nanos::ZERO);
                prop_assert!(session.turns[1..].iter().all(|turn| (S..=2 * S).contains(&turn.pause.ns())));
            }
        }
    }
}
