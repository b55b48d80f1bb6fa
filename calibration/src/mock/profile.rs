//! What one request is served with: the mock's flags, over them its class, over that the request's own `mock` object.

use super::openai::TOKEN_LIMIT;
use super::timeline::{Law, Pace};
use bench_engine::units::Nanos;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Longest interval that can be asked for, in ms.
const MS_LIMIT: f64 = 86_400_000.0;
/// Most tokens in one event.
const PER_EVENT_LIMIT: u32 = 10_000;
/// Largest padded event, in bytes.
const EVENT_LIMIT: u32 = 4 << 20;
/// Most events in one write.
const MERGE_LIMIT: u32 = 1_000;
/// Largest write, in bytes: it stands in memory whole, for every stream.
const WRITE_LIMIT: u64 = 64 << 20;
/// Bytes of one token in an event, at most: its text under two names, and its id.
const TOKEN_BYTES: u64 = 18;

/// The keys of [`Settings`], for those who ask for another.
const KEYS: &str = "ttft, itl, jitter, ttft_dist, itl_dist, lockstep, tokens, tokens_per_event, event_bytes, reasoning, \
                    merge_writes";

/// Values that win over what lies below them; None leaves that as it is. Times are in ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    ttft: Option<Nanos>,
    itl: Option<Nanos>,
    ttft_law: Option<Law>,
    itl_law: Option<Law>,
    jitter: Option<f64>,
    lockstep: Option<Nanos>,
    tokens: Option<u32>,
    tokens_per_event: Option<u32>,
    event_bytes: Option<u32>,
    reasoning: Option<u32>,
    merge_writes: Option<u32>,
}

impl Settings {
    /// Takes one value in. The error names the key, and the range it was outside of.
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let count = |range: RangeInclusive<u32>| {
            let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n));
            number.map(Some).ok_or_else(|| {
                format!("`{key}` must be a whole number from {} to {}, not {value}", range.start(), range.end())
            })
        };
        let real = |range: RangeInclusive<f64>, unit: &str| {
            let number = value.as_f64().filter(|n| range.contains(n));
            number.ok_or_else(|| {
                format!("`{key}` must be a number from {} to {}{unit}, not {value}", range.start(), range.end())
            })
        };
        let millis = || real(0.0..=MS_LIMIT, " ms").map(|ms| Nanos::from_secs_f64(ms / 1e3));
        let law = || match value.as_str().map(str::parse::<Law>) {
            Some(Ok(law)) => Ok(Some(law)),
            Some(Err(e)) => Err(format!("`{key}`: {e}")),
            None => Err(format!("`{key}` must be a string: constant, lognormal:SIGMA or pareto:ALPHA, not {value}")),
        };
        match key {
            "ttft" => self.ttft = millis()?,
            "itl" => self.itl = millis()?,
            "ttft_dist" => self.ttft_law = law()?,
            "itl_dist" => self.itl_law = law()?,
            "jitter" => self.jitter = Some(real(0.0..=1.0, "")?),
            // 0 switches it off
            "lockstep" => self.lockstep = millis()?,
            "tokens" => self.tokens = count(1..=TOKEN_LIMIT)?,
            "tokens_per_event" => self.tokens_per_event = count(1..=PER_EVENT_LIMIT)?,
            "event_bytes" => self.event_bytes = count(0..=EVENT_LIMIT)?,
            "reasoning" => self.reasoning = count(0..=TOKEN_LIMIT)?,
            "merge_writes" => self.merge_writes = count(1..=MERGE_LIMIT)?,
            _ => return Err(format!("`{key}` is not known; the keys are {KEYS}")),
        }
        Ok(())
    }

    fn apply(&self, to: &mut Profile) {
        fn put<T: Copy>(value: Option<T>, place: &mut T) {
            if let Some(value) = value {
                *place = value;
            }
        }
        put(self.ttft, &mut to.pace.ttft);
        put(self.itl, &mut to.pace.itl);
        put(self.ttft_law, &mut to.pace.ttft_law);
        put(self.itl_law, &mut to.pace.itl_law);
        put(self.jitter, &mut to.pace.jitter);
        put(self.lockstep.map(Some), &mut to.pace.lockstep);
        put(self.tokens.map(Some), &mut to.tokens);
        put(self.tokens_per_event, &mut to.tokens_per_event);
        put(self.event_bytes, &mut to.event_bytes);
        put(self.reasoning, &mut to.reasoning);
        put(self.merge_writes, &mut to.merge_writes);
    }
}

/// A named kind of request with settings of its own.
///
/// Written `NAME=key:value,key:value,...` with the keys of a request's `mock` object and `max_tokens:LOW-HIGH`. A
/// request is of the class that its `mock` object names; else of the first whose range its `max_tokens` lies in.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    name: String,
    max_tokens: Option<(u32, u32)>,
    settings: Settings,
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Class, String> {
        let Some((name, rest)) = text.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(format!("a class is NAME=key:value,key:value,..., not {text:?}"));
        };
        let mut class = Class { name: name.trim().to_owned(), max_tokens: None, settings: Settings::default() };
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once(':') else {
                return Err(format!("class {name}: {part:?} is not key:value"));
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "max_tokens" {
                let (low, high) = value.split_once('-').unwrap_or((value, value));
                let ends = low.trim().parse::<u32>().ok().zip(high.trim().parse::<u32>().ok());
                let Some(range) = ends.filter(|(low, high)| low <= high) else {
                    return Err(format!("class {name}: max_tokens is a range LOW-HIGH, not {value:?}"));
                };
                class.max_tokens = Some(range);
                continue;
            }
            // a number where it is one; anything else is text
            let value = serde_json::from_str(value).ok().filter(Value::is_number);
            let value = value.unwrap_or_else(|| Value::from(part.split_once(':').map_or("", |(_, v)| v.trim())));
            class.settings.set(key, &value).map_err(|e| format!("class {name}: {e}, or max_tokens"))?;
        }
        Ok(class)
    }
}

/// What a request's body says about how the mock is to serve it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wish {
    class: Option<String>,
    settings: Settings,
}

impl Wish {
    /// Reads the `mock` object of a body.
    ///
    /// # Errors
    /// A sentence with the key at fault and, for a known key, its range.
    pub(super) fn read(object: &Map<String, Value>) -> Result<Wish, String> {
        let mut wish = Wish::default();
        for (key, value) in object {
            if key != "class" {
                wish.settings.set(key, value).map_err(|e| format!("mock: {e}"))?;
                continue;
            }
            match value.as_str() {
                Some(name) => wish.class = Some(name.to_owned()),
                None => return Err(format!("mock: `class` must be the name of a class, not {value}")),
            }
        }
        Ok(wish)
    }
}

/// Everything about one reply that is not in its request's usual fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Profile {
    pub pace: Pace,
    pub tokens: Option<u32>,
    pub tokens_per_event: u32,
    /// 0: as they come.
    pub event_bytes: u32,
    pub reasoning: u32,
    pub merge_writes: u32,
}

impl Profile {
    /// What is outside its range, as `(what, range, value)`.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str, String)> {
        let Pace { jitter, .. } = self.pace;
        if !(0.0..=1.0).contains(&jitter) {
            return Some(("the jitter", "between 0 and 1", jitter.to_string()));
        }
        let counts = [
            ("the number of tokens", "1 to 1,000,000", 1..=TOKEN_LIMIT, self.tokens.unwrap_or(1)),
            ("the number of tokens per event", "1 to 10,000", 1..=PER_EVENT_LIMIT, self.tokens_per_event),
            ("the size of an event", "0 to 4,194,304 bytes", 0..=EVENT_LIMIT, self.event_bytes),
            ("the number of reasoning tokens", "0 to 1,000,000", 0..=TOKEN_LIMIT, self.reasoning),
            ("the number of events in a write", "1 to 1,000", 1..=MERGE_LIMIT, self.merge_writes),
        ];
        let outside = counts.into_iter().find(|(_, _, range, n)| !range.contains(n));
        if let Some((what, range, _, n)) = outside {
            return Some((what, range, n.to_string()));
        }
        let write = self.write_size();
        (write > WRITE_LIMIT).then(|| ("the size of a write", "64 MiB or less", format!("{write} bytes")))
    }

    /// About how large its writes are.
    fn write_size(&self) -> u64 {
        let event = u64::from(self.event_bytes).max(u64::from(self.tokens_per_event) * TOKEN_BYTES);
        event * u64::from(self.merge_writes)
    }

    /// The profile of one request.
    ///
    /// # Errors
    /// A class that does not exist, with those that do.
    pub(super) fn of(mut self, classes: &[Class], wish: &Wish, max_tokens: u32) -> Result<Profile, String> {
        let class = match &wish.class {
            Some(name) => match classes.iter().find(|class| class.name == *name) {
                Some(class) => Some(class),
                None => {
                    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
                    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(format!("mock: the class `{name}` does not exist; the classes are {names}"));
                }
            },
            None => classes
                .iter()
                .find(|class| class.max_tokens.is_some_and(|(low, high)| (low..=high).contains(&max_tokens))),
        };
        if let Some(class) = class {
            class.settings.apply(&mut self);
        }
        wish.settings.apply(&mut self);
        match self.write_size() {
            0..=WRITE_LIMIT => Ok(self),
            size => Err(format!(
                "mock: `event_bytes` or `tokens_per_event`, times `merge_writes`, must be at most {WRITE_LIMIT} bytes, \
                 not {size}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: Profile = Profile {
        pace: Pace {
            ttft: Nanos::from_millis(5),
            itl: Nanos::from_millis(1),
            ttft_law: Law::Constant,
            itl_law: Law::Constant,
            jitter: 0.25,
            lockstep: None,
        },
        tokens: None,
        tokens_per_event: 1,
        event_bytes: 0,
        reasoning: 0,
        merge_writes: 1,
    };

    fn wish(json: &str) -> Result<Wish, String> {
        Wish::read(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_request_wins_over_the_class_and_the_class_over_the_flags() {
        let classes: Vec<Class> =
            ["chat=ttft:20,itl:2.5,max_tokens:1-100", "batch= itl:9 , tokens:7,itl_dist:lognormal:0.5,lockstep:10"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let of = |json: &str, max_tokens| FLAGS.of(&classes, &wish(json).unwrap(), max_tokens).unwrap();
        assert_eq!(of("{}", 101), FLAGS);
        let chat = of("{}", 100);
        assert_eq!((chat.pace.ttft, chat.pace.itl), (Nanos::from_millis(20), Nanos::from_micros(2_500)));
        assert_eq!(chat.pace.jitter, 0.25);
        let batch = of(r#"{"class":"batch","tokens":3,"jitter":0,"event_bytes":500}"#, 100);
        assert_eq!((batch.pace.ttft, batch.pace.itl), (Nanos::from_millis(5), Nanos::from_millis(9)));
        assert_eq!((batch.tokens, batch.pace.jitter, batch.event_bytes), (Some(3), 0.0, 500));
        assert_eq!(batch.pace.itl_law, Law::LogNormal { sigma: 0.5 });
        assert_eq!(batch.pace.lockstep, Some(Nanos::from_millis(10)));
        let all = of(
            r#"{"ttft":0,"itl":0.5,"ttft_dist":"pareto:2","tokens_per_event":4,"reasoning":2,"merge_writes":3,"lockstep":0}"#,
            101,
        );
        assert_eq!((all.pace.ttft, all.pace.itl), (Nanos::ZERO, Nanos::from_micros(500)));
        assert_eq!((all.tokens_per_event, all.reasoning, all.merge_writes), (4, 2, 3));
        let none = FLAGS.of(&classes, &wish(r#"{"class":"x"}"#).unwrap(), 1).unwrap_err();
        assert!(none.contains("`x`") && none.contains("chat, batch"), "{none}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_range() {
        for (json, words) in [
            (r#"{"itll":1}"#, "`itll` is not known"),
            (r#"{"ttft":-1}"#, "`ttft` must be a number from 0 to 86400000 ms, not -1"),
            (r#"{"ttft":"5"}"#, "`ttft`"),
            (r#"{"ttft":1e300}"#, "`ttft`"),
            (r#"{"jitter":1.5}"#, "`jitter` must be a number from 0 to 1, not 1.5"),
            (r#"{"tokens":0}"#, "`tokens` must be a whole number from 1 to 1000000, not 0"),
            (r#"{"tokens":1.5}"#, "`tokens`"),
            (r#"{"tokens":null}"#, "`tokens`"),
            (r#"{"tokens_per_event":10001}"#, "`tokens_per_event`"),
            (r#"{"event_bytes":4194305}"#, "from 0 to 4194304"),
            (r#"{"merge_writes":0}"#, "`merge_writes`"),
            (r#"{"itl_dist":"normal"}"#, "`itl_dist`"),
            (r#"{"itl_dist":1}"#, "`itl_dist` must be a string"),
            (r#"{"class":1}"#, "`class`"),
        ] {
            let said = wish(json).unwrap_err();
            assert!(said.starts_with("mock: ") && said.contains(words), "{json}: {said}");
        }
        for (text, words) in [
            ("x", "NAME=key:value"),
            ("=ttft:1", "NAME=key:value"),
            ("a=ttft", "\"ttft\" is not key:value"),
            ("a=tft:1", "`tft` is not known"),
            ("a=ttft:x", "`ttft`"),
            ("a=max_tokens:9-1", "max_tokens is a range"),
        ] {
            let said = text.parse::<Class>().unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
        assert_eq!(FLAGS.fault(), None);
        let huge = FLAGS.of(&[], &wish(r#"{"event_bytes":4194304,"merge_writes":17}"#).unwrap(), 1).unwrap_err();
        assert!(huge.contains("`merge_writes`, must be at most 67108864 bytes, not 71303168"), "{huge}");
        let huge = Profile { event_bytes: EVENT_LIMIT, merge_writes: MERGE_LIMIT, ..FLAGS };
        assert_eq!(huge.fault().unwrap().0, "the size of a write");
        assert_eq!(Profile { tokens_per_event: 0, ..FLAGS }.fault().unwrap().0, "the number of tokens per event");
    }
}
