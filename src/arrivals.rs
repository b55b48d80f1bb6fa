//! Laws of arrival as people write and read them: `--arrivals`, `--stages`, and the words for a rate that is not the same
//! at all times.

use bench_engine::schedule::{After, ArrivalLaw, BadLaw, BadProfile, RateProfile, Spacing, Stretch};
use bench_engine::units::Nanos;

/// Stages that are named one by one; of more the first ones are.
const STAGES_NAMED: usize = 6;

/// What `--arrivals` or `--stages` asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// `batch:N/T`: N at once at the opening and after each T.
    Batch {
        /// Requests of a batch.
        size: u64,
        /// From one to the next.
        every: Nanos,
    },
    /// `on-off:ON/OFF`: the rate for a while, then none, again and again.
    OnOff {
        /// At the rate.
        on: Nanos,
        /// Without a request.
        off: Nanos,
    },
    /// `spike:Kx/T@START`: K times the rate for T, and the rate before and after.
    Spike {
        /// K.
        times: f64,
        /// T.
        lasts: Nanos,
        /// From the opening.
        start: Nanos,
    },
    /// `ramp:A..B/T`: from A to B requests/s over T.
    Ramp {
        /// A.
        from_per_s: f64,
        /// B.
        to_per_s: f64,
        /// T.
        lasts: Nanos,
    },
    /// `--stages T@R,..`: rates one after another.
    Stages(Vec<(Nanos, f64)>),
}

/// Text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The form expected, with an example.
    pub form: &'static str,
    /// What was found.
    pub got: String,
}

/// Why a pattern is no law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoLaw {
    /// `--burstiness` is out of range.
    Burstiness(f64),
    /// A batch is out of range.
    Batch(BadLaw),
    /// A rate or a span is.
    Profile(BadProfile),
}

/// A span as people write it: `500ms`, `10s`, `2m`, `1h`, a bare number in s. From 1 ns to 366 days.
pub fn span(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (digits, unit) = units.iter().find_map(|(name, s)| Some((text.strip_suffix(name)?, *s))).unwrap_or((text, 1.0));
    let span = Nanos::from_secs_f64(digits.trim().parse::<f64>().ok()? * unit)?;
    (span.ns() <= 366 * 86_400 * 1_000_000_000).then_some(span)
}

fn above_zero(text: &str) -> Option<Nanos> {
    span(text).filter(|span| *span > Nanos::ZERO)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
}

impl Pattern {
    /// The text of `--arrivals`.
    ///
    /// # Errors
    /// [`BadPattern`] with the form that was expected.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (found, form) = match kind.trim() {
            "batch" => (batch(rest), "batch:N/T, N requests (1 to 1,000,000) at once every T, like batch:50/10s"),
            "on-off" => (
                on_off(rest),
                "on-off:ON/OFF, --request-rate for ON, none for OFF, again and again, like on-off:10s/20s",
            ),
            "spike" => {
                (spike(rest), "spike:Kx/T@START, K times --request-rate for T from START on, like spike:4x/10s@30s")
            }
            "ramp" => (ramp(rest), "ramp:A..B/T, from A to B requests/s over T, like ramp:1..20/60s"),
            _ => (None, "batch:N/T, on-off:ON/OFF, spike:Kx/T@START or ramp:A..B/T, like batch:50/10s"),
        };
        found.ok_or_else(|| BadPattern { form, got: text.to_owned() })
    }

    /// The items of `--stages`.
    ///
    /// # Errors
    /// [`BadPattern`] names the item.
    pub fn stages(items: &[String]) -> Result<Self, BadPattern> {
        let form = "a list of T@R, R requests/s for T (0: a pause), like 60s@5,120s@20";
        let stage = |text: &String| {
            let found = text.split_once('@').and_then(|(lasts, rate)| Some((above_zero(lasts)?, number(rate)?)));
            found.ok_or_else(|| BadPattern { form, got: text.clone() })
        };
        items.iter().map(stage).collect::<Result<Vec<_>, _>>().map(Pattern::Stages)
    }

    /// Whether it multiplies `--request-rate`, rather than having rates of its own.
    pub fn wants_rate(&self) -> bool {
        matches!(self, Pattern::OnOff { .. } | Pattern::Spike { .. })
    }

    /// Whether it comes to an end by itself.
    pub fn is_finite(&self) -> bool {
        matches!(self, Pattern::Ramp { .. } | Pattern::Stages(_))
    }

    /// The law of it: `per_s` is the rate where it [wants](Self::wants_rate) one, `burstiness` the shape of the gamma
    /// distribution of the gaps.
    ///
    /// # Errors
    /// [`NoLaw`].
    pub fn law(&self, per_s: f64, burstiness: f64) -> Result<ArrivalLaw, NoLaw> {
        let spacing = Spacing::new(burstiness).map_err(|_| NoLaw::Burstiness(burstiness))?;
        let (stretches, after) = match self {
            Pattern::Batch { size, every } => return ArrivalLaw::batches(*size, *every).map_err(NoLaw::Batch),
            Pattern::OnOff { on, off } => {
                (vec![Stretch::constant(*on, per_s), Stretch::constant(*off, 0.0)], After::Again)
            }
            Pattern::Spike { times, lasts, start } => {
                let before = (*start > Nanos::ZERO).then(|| Stretch::constant(*start, per_s));
                let spike = Stretch::constant(*lasts, per_s * times);
                (before.into_iter().chain([spike]).collect(), After::Constant { per_s })
            }
            Pattern::Ramp { from_per_s, to_per_s, lasts } => {
                let ramp = Stretch { lasts_ns: lasts.ns(), from_per_s: *from_per_s, to_per_s: *to_per_s };
                (vec![ramp], After::End)
            }
            Pattern::Stages(stages) => {
                (stages.iter().map(|(lasts, per_s)| Stretch::constant(*lasts, *per_s)).collect(), After::End)
            }
        };
        let rate = RateProfile::new(stretches, after).map_err(NoLaw::Profile)?;
        Ok(ArrivalLaw::Varying { rate, spacing })
    }
}

fn batch(text: &str) -> Option<Pattern> {
    let (size, every) = text.split_once('/')?;
    let size = size.trim().parse().ok().filter(|n| (1..=bench_engine::schedule::LARGEST_BATCH).contains(n))?;
    Some(Pattern::Batch { size, every: above_zero(every)? })
}

fn on_off(text: &str) -> Option<Pattern> {
    let (on, off) = text.split_once('/')?;
    Some(Pattern::OnOff { on: above_zero(on)?, off: above_zero(off)? })
}

fn spike(text: &str) -> Option<Pattern> {
    let (times, rest) = text.split_once('/')?;
    let (lasts, start) = rest.split_once('@')?;
    let times = number(times.trim().strip_suffix('x')?)?;
    Some(Pattern::Spike { times, lasts: above_zero(lasts)?, start: span(start)? })
}

fn ramp(text: &str) -> Option<Pattern> {
    let (rates, lasts) = text.split_once('/')?;
    let (from, to) = rates.split_once("..")?;
    Some(Pattern::Ramp { from_per_s: number(from)?, to_per_s: number(to)?, lasts: above_zero(lasts)? })
}

/// A law in words, where its rate is not the same at all times: `ramp: 1 to 20 requests/s in 60 s`. The first word is its
/// kind. Load points with the same words differ in nothing but the rate.
pub fn words(law: &ArrivalLaw) -> Option<String> {
    let s = |ns: u64| format!("{} s", Nanos::from_ns(ns).secs_f64());
    let rate = match law {
        ArrivalLaw::Batches { size, every_ns } => return Some(format!("batches of {size} every {}", s(*every_ns))),
        ArrivalLaw::Varying { rate, .. } => rate,
        _ => return None,
    };
    Some(match (rate.after, rate.stretches.as_slice()) {
        (After::Again, [on, off]) => format!("on-off: {} on, {} off", s(on.lasts_ns), s(off.lasts_ns)),
        (After::Constant { per_s }, [.., spike]) => {
            let start = rate.stretches.iter().rev().skip(1).map(|stretch| stretch.lasts_ns).sum();
            let height = spike.from_per_s;
            format!("spike: {per_s} requests/s, but {height} for {} from {} on", s(spike.lasts_ns), s(start))
        }
        (_, [ramp]) if ramp.from_per_s != ramp.to_per_s => {
            format!("ramp: {} to {} requests/s in {}", ramp.from_per_s, ramp.to_per_s, s(ramp.lasts_ns))
        }
        (_, stages) => {
            let named =
                stages.iter().take(STAGES_NAMED).map(|stage| format!("{} at {}", s(stage.lasts_ns), stage.from_per_s));
            let more = match stages.len() > STAGES_NAMED {
                true => format!(", and {} more", stages.len() - STAGES_NAMED),
                false => String::new(),
            };
            format!("stages: {} requests/s{more}", named.collect::<Vec<_>>().join(", "))
        }
    })
}

/// The kind of a load in one word, from its [`words`]: `ramp`.
pub fn kind(words: &str) -> &str {
    words.split([':', ' ']).next().unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: Nanos = Nanos::from_secs(1);

    fn s(n: u64) -> Nanos {
        Nanos::from_secs(n)
    }

    fn stages(text: &str) -> Result<Pattern, BadPattern> {
        Pattern::stages(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    fn law(text: &str) -> ArrivalLaw {
        Pattern::parse(text).expect("a pattern").law(10.0, f64::INFINITY).expect("a law")
    }

    fn dues_s(law: &ArrivalLaw, n: usize) -> Vec<f64> {
        law.schedule(7).take(n).map(Nanos::secs_f64).collect()
    }

    #[test]
    fn spans_as_people_write_them() {
        let ms = Nanos::from_millis;
        for (text, is) in [("500ms", ms(500)), ("10s", s(10)), ("2m", s(120)), ("1h", s(3600)), ("1.5", ms(1500))] {
            assert_eq!(span(text), Some(is), "{text}");
        }
        assert_eq!((span(" 250 us "), span("0")), (Some(Nanos::from_micros(250)), Some(Nanos::ZERO)));
        for text in ["", "s", "-1s", "1d", "inf", "nan", "1h30m", "9000h", "10 s s"] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    #[test]
    fn patterns_are_what_they_say() {
        assert_eq!(Pattern::parse("batch:50/10s"), Ok(Pattern::Batch { size: 50, every: s(10) }));
        assert_eq!(Pattern::parse("on-off:10s/20"), Ok(Pattern::OnOff { on: s(10), off: s(20) }));
        assert_eq!(Pattern::parse("spike:4x/10s@1m"), Ok(Pattern::Spike { times: 4.0, lasts: s(10), start: s(60) }));
        let ramp = Pattern::Ramp { from_per_s: 1.0, to_per_s: 20.5, lasts: s(60) };
        assert_eq!(Pattern::parse("ramp:1..20.5/60s"), Ok(ramp));
        assert_eq!(stages("60s@5,1m@0,2@20"), Ok(Pattern::Stages(vec![(s(60), 5.0), (s(60), 0.0), (s(2), 20.0)])));
    }

    #[test]
    fn what_is_no_pattern_is_told_the_form() {
        let bad = |text: &str| Pattern::parse(text).expect_err(text);
        for (kind, texts) in [
            ("batch:N/T", &["batch", "batch:50", "batch:0/10s", "batch:1.5/10s", "batch:5/0s", "batch:5/10s/2"][..]),
            ("on-off:ON/OFF", &["on-off:10s", "on-off:0s/10s", "on-off:10s/0s", "on-off:/"][..]),
            ("spike:Kx/T@START", &["spike:4/10s@30s", "spike:4x/10s", "spike:-1x/10s@3s", "spike:nanx/1s@1s"][..]),
            ("ramp:A..B/T", &["ramp:1..20", "ramp:1-20/60s", "ramp:-1..2/60s", "ramp:1..inf/60s", "ramp:1..2/0s"][..]),
        ] {
            for text in texts {
                let bad = bad(text);
                assert!(bad.form.starts_with(kind) && bad.form.contains(", like ") && bad.got == *text, "{bad:?}");
            }
        }
        assert!(bad("bursts:5/1s").form.contains("batch:N/T, on-off"));
        assert_eq!(stages("60s@5,oops").expect_err("no stage").got, "oops");
        for text in ["", "5@", "@5", "0s@5", "60s@-1", "60s@inf", "60s@5@5"] {
            assert!(stages(text).is_err(), "{text}");
        }
    }

    #[test]
    fn laws_do_what_the_pattern_says() {
        assert_eq!(dues_s(&law("batch:2/500ms"), 5), [0.0, 0.0, 0.5, 0.5, 1.0]);
        assert_eq!(dues_s(&law("on-off:200ms/1s"), 5), [0.0, 0.1, 1.2, 1.3, 2.4]);
        assert_eq!(dues_s(&law("spike:4x/100ms@200ms"), 8), [0.0, 0.1, 0.2, 0.225, 0.25, 0.275, 0.3, 0.4]);
        assert_eq!(dues_s(&law("spike:0x/1s@100ms"), 3), [0.0, 1.1, 1.2], "an outage");
        assert_eq!(dues_s(&law("spike:2x/100ms@0"), 4), [0.0, 0.05, 0.1, 0.2]);
        assert_eq!(
            dues_s(&law("ramp:0..2/4s"), 9),
            [0.0, 2.0, 8f64.sqrt(), 12f64.sqrt()].map(|s| (s * 1e9).round() / 1e9)
        );
        let finite = stages("1s@2,2s@0,1s@4").expect("stages").law(f64::NAN, f64::INFINITY).expect("a law");
        assert_eq!(dues_s(&finite, 99), [0.0, 0.5, 3.0, 3.25, 3.5, 3.75]);
        assert_eq!((finite.end(), finite.mean_per_s(u64::MAX, Nanos::ZERO)), (Some(s(4)), Some(1.5)));
    }

    #[test]
    fn laws_that_cannot_be() {
        let of = |text: &str, per_s, burstiness| Pattern::parse(text).expect("a pattern").law(per_s, burstiness);
        assert_eq!(of("on-off:1s/1s", 10.0, 0.0), Err(NoLaw::Burstiness(0.0)));
        assert_eq!(of("spike:1000x/1s@1s", 2000.0, 1.0), Err(NoLaw::Profile(BadProfile::Rate(2e6))));
        assert_eq!(of("ramp:0..0/1s", 1.0, 1.0), Err(NoLaw::Profile(BadProfile::Nothing)));
        assert!(stages(&["1s@1"; 1_001].join(",")).expect("stages").law(1.0, 1.0).is_err());
    }

    #[test]
    fn words_begin_with_the_kind() {
        for (text, said) in [
            ("batch:50/10s", "batches of 50 every 10 s"),
            ("on-off:10s/20s", "on-off: 10 s on, 20 s off"),
            ("spike:4x/5s@1m", "spike: 10 requests/s, but 40 for 5 s from 60 s on"),
            ("spike:4x/5s@0", "spike: 10 requests/s, but 40 for 5 s from 0 s on"),
            ("ramp:1..20/60s", "ramp: 1 to 20 requests/s in 60 s"),
        ] {
            let words = words(&law(text)).expect("no constant rate");
            assert_eq!(words, said);
            assert!(["batches", "on-off", "spike", "ramp"].contains(&kind(&words)));
        }
        let of = |text: &str| words(&stages(text).expect("stages").law(1.0, 1.0).expect("a law")).expect("words");
        assert_eq!(of("60s@5,500ms@20"), "stages: 60 s at 5, 0.5 s at 20 requests/s");
        assert!(of(&["1s@1"; 9].join(",")).ends_with("1 s at 1 requests/s, and 3 more"));
        assert_eq!(of("60s@5"), "stages: 60 s at 5 requests/s");
        assert_eq!(words(&ArrivalLaw::new(10.0, 1.0).expect("a law")), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(text in "(batch|on-off|spike|ramp|x)?:?[-0-9a-z./@x]{0,16}", rate in 0.1f64..100.0) {
            if let Ok(law) = Pattern::parse(&text).map_err(|_| ()).and_then(|p| p.law(rate, 1.0).map_err(|_| ())) {
                prop_assert!(law.schedule(7).take(100).is_sorted());
                let json = serde_json::to_string(&law).expect("JSON");
                prop_assert_eq!(serde_json::from_str::<ArrivalLaw>(&json).expect("a law"), law, "as plans hold it");
            }
        }
    }

    #[test]
    fn a_bare_second() {
        assert_eq!(span("1"), Some(S));
    }
}
