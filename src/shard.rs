//! `--shard I/N`: the part of a schedule that one of N hosts sends. All of them make the whole schedule; each sends every
//! Nth request, so that together they send exactly it.

use serde::Serialize;

/// One of several hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u32,
    /// Of how many, from 1 to [`MOST_SHARDS`].
    pub of: u32,
}

/// Most hosts of one schedule.
pub const MOST_SHARDS: u32 = 10_000;

impl Shard {
    /// `2/4`; None for what is no such pair, with the first from 1 to the second.
    pub fn parse(text: &str) -> Option<Self> {
        let (index, of) = text.split_once('/')?;
        let (index, of) = (index.trim().parse().ok()?, of.trim().parse().ok()?);
        ((1..=MOST_SHARDS).contains(&of) && (1..=of).contains(&index)).then_some(Shard { index, of })
    }

    /// Whether this host sends a request.
    pub fn sends(self, trace_id: u64) -> bool {
        trace_id % u64::from(self.of) == u64::from(self.index - 1)
    }

    /// How many of the trace ids 0..`n` this host sends.
    pub fn share(self, n: u64) -> u64 {
        (n + u64::from(self.of - self.index)) / u64::from(self.of)
    }

    /// `shard 2/4`.
    pub fn words(self) -> String {
        format!("shard {}/{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_request_is_sent_by_one_host(of in 1u32..40, n in 0u64..500) {
            let hosts: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
            for id in 0..n {
                prop_assert_eq!(hosts.iter().filter(|host| host.sends(id)).count(), 1);
            }
            for host in &hosts {
                prop_assert_eq!(host.share(n), (0..n).filter(|id| host.sends(*id)).count() as u64);
                prop_assert_eq!(Shard::parse(&format!("{}/{of}", host.index)), Some(*host));
            }
        }
    }

    #[test]
    fn what_is_no_shard() {
        for text in ["", "1", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1/10001", "1.5/2"] {
            assert_eq!(Shard::parse(text), None, "{text}");
        }
        assert_eq!(Shard::parse("2/4").map(Shard::words).as_deref(), Some("shard 2/4"));
    }
}
