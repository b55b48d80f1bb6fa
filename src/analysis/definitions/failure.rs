//! What something done on purpose did to the load: which figures are looked at, in which slices, and which requests it
//! touched.
//!
//! **Slices are counted from the mark**, forwards and backwards, so that none has both sides of it. What was before, from
//! the first due of a kept request to the first mark of the window, makes the band of each figure; a figure has left it
//! when two slices in a row lie outside, and is back with the first slice inside after which that does not happen again
//! within [`HOLD_NS`]. The load ends with its last arrival: what comes later says nothing.
//!
//! **The length of a slice is looked for** ([`LENGTHS_NS`]): the shortest in which nothing at all would lie outside the
//! band. Longer ones show what is weaker, and are taken when the excursion in them is longer by more than two of them.
//!
//! **p95 of ttft needs requests**: it is taken over as many slices as hold [`LATENCY_N`] of them on average, by when they
//! were due. It has left its band at the end of the first such stretch outside, and is back at the beginning of the first
//! one inside, so its answers are as fine as a slice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{stall, ttft};
use crate::analysis::statistics::disturbance::{Band, Course, Rule, SMALLEST_N, Worse};
use crate::rundir::row::{Outcome, Phase, Row};

/// Lengths of a slice that are tried, in ns, ascending.
pub const LENGTHS_NS: [u64; 17] = {
    const MS: u64 = 1_000_000;
    [
        100 * MS,
        200 * MS,
        300 * MS,
        400 * MS,
        500 * MS,
        750 * MS,
        1_000 * MS,
        1_500 * MS,
        2_000 * MS,
        3_000 * MS,
        5_000 * MS,
        7_500 * MS,
        10_000 * MS,
        15_000 * MS,
        20_000 * MS,
        30_000 * MS,
        60_000 * MS,
    ]
};
/// A figure that is back must stay so for this time, in ns, or for [`HOLD_SLICES`] slices where that is longer.
pub const HOLD_NS: u64 = 2_000_000_000;
/// See [`HOLD_NS`].
pub const HOLD_SLICES: u64 = 3;
/// No more slices than this are made, which is more than a day of the shortest ones.
const MOST_SLICES: u64 = 1_000_000;
/// Mean number of requests under a p95.
pub const LATENCY_N: u64 = 40;
/// A rate is not outside while it is within this share of its mean.
const RATE_SHARE: f64 = 0.1;
/// A latency is not outside while it is within this share of its mean.
const LATENCY_SHARE: f64 = 0.2;

/// A figure that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Kept requests that met the goals of a request, by when they ended, per s.
    Goodput,
    /// Ok requests, by when they ended, per s.
    Requests,
    /// Output tokens, by when they came, per s.
    OutputTokens,
    /// p95 of ttft from due of the kept ok requests, by when they were due, in ms.
    TtftP95,
}

impl Figure {
    /// In the order in which they are printed.
    pub const ALL: [Figure; 4] = [Figure::Goodput, Figure::Requests, Figure::OutputTokens, Figure::TtftP95];

    /// Which side is the bad one.
    pub fn worse(self) -> Worse {
        if self == Figure::TtftP95 { Worse::Above } else { Worse::Below }
    }

    fn least_share(self) -> f64 {
        if self == Figure::TtftP95 { LATENCY_SHARE } else { RATE_SHARE }
    }
}

/// Why a figure is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotFollowed {
    /// No goals of a request were set.
    NoGoals,
    /// Gross is withheld.
    Withheld,
    /// No request told its tokens.
    NotTold,
    /// Closed loop: requests that would have been slow were not sent.
    ClosedLoop,
    /// Too little was before the mark, or it varied too much for anything to stand out.
    NoBaseline,
}

impl std::fmt::Display for NotFollowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NotFollowed::NoGoals => "no goals of a request were set (--goodput)",
            NotFollowed::Withheld => "gross is withheld",
            NotFollowed::NotTold => "no request told its tokens",
            NotFollowed::ClosedLoop => "closed loop: arrivals stop when the server does, so the slow ones are not sent",
            NotFollowed::NoBaseline => {
                "no baseline: too little before the first mark, or too uneven for anything to stand out"
            }
        })
    }
}

/// The times around a mark, in ns from the campaign's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Where the baseline begins.
    pub from: u64,
    /// The first mark of the window: where it ends.
    pub first_mark: u64,
    /// This mark.
    pub mark: u64,
    /// The next one: excursions that begin later are its own.
    pub next: Option<u64>,
    /// End of the load.
    pub until: u64,
}

/// Slices of one length, and how many of them a value is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Length of a slice, ns.
    pub step: u64,
    /// Slices of a value: it ends with its own slice, and begins so many before less one.
    pub width: usize,
}

/// Values of a figure: from which origin, in which slices, for the slices of which places. A value whose time lies in
/// several slices counts in each value that is taken over one of them.
pub struct Wanted {
    /// Slice 0 begins here, ns.
    pub origin: u64,
    /// The slices.
    pub slices: Slices,
    /// Place of the first value.
    pub first: i64,
    /// Number of values.
    pub n: usize,
}

impl Wanted {
    /// The slice that a moment lies in.
    pub fn place(&self, at: u64) -> i64 {
        let step = i128::from(self.slices.step.max(1));
        ((i128::from(at) - i128::from(self.origin)).div_euclid(step)) as i64
    }

    /// From and up to, ns, of the value at `index`, from 0.
    pub fn bounds(&self, index: usize) -> (u64, u64) {
        let last = self.first + index as i64;
        let edge = |place: i64| {
            let at = i128::from(self.origin) + i128::from(place) * i128::from(self.slices.step);
            at.clamp(0, i128::from(u64::MAX)) as u64
        };
        (edge(last + 1 - self.slices.width as i64), edge(last + 1))
    }
}

/// What became of a figure after a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Followed {
    /// Length of a slice, ns.
    pub step: u64,
    /// Slices of a value.
    pub width: usize,
    /// Values before the mark.
    pub before: usize,
    /// The band.
    pub band: Band,
    /// What the values did.
    pub course: Course,
}

impl Followed {
    /// How long a figure that is back must stay so, ns.
    pub fn hold(&self) -> u64 {
        hold(self.step)
    }

    /// When it left the band, ns from the mark: between these two.
    pub fn left(&self) -> Option<[u64; 2]> {
        let from = self.course.longest?.from as u64;
        Some([from * self.step, (from + 1) * self.step])
    }

    /// When it was back, ns from the mark: at this edge of a slice, give or take a slice.
    pub fn back(&self) -> Option<(u64, [u64; 2])> {
        let longest = self.course.longest?;
        let at = (longest.back? + 1).saturating_sub(self.width).max(longest.from) as u64;
        let lo = at.saturating_sub(1).max(longest.from as u64);
        Some((at * self.step, [lo * self.step, (at + 1) * self.step]))
    }

    fn lasted(&self) -> u64 {
        let from = self.course.longest.map_or(0, |longest| longest.from as u64 * self.step);
        match (self.course.longest, self.back()) {
            (None, _) => 0,
            (Some(_), None) => u64::MAX,
            (Some(_), Some((at, _))) => at.saturating_sub(from),
        }
    }
}

fn hold(step: u64) -> u64 {
    HOLD_NS.div_ceil(step).max(HOLD_SLICES) * step
}

/// Follows a figure around a mark. The ends that are told are those of slices: of an excursion that stays near the band's
/// limit, noise can hide more than that. `values` makes what is [`Wanted`] of it; of a p95, `requests` are the dues of the
/// requests under it, whose number decides over how many slices it is taken. None: there is no band that anything could leave.
pub fn follow(
    figure: Figure,
    around: &Around,
    requests: &[u64],
    mut values: impl FnMut(&Wanted) -> Vec<Option<f64>>,
) -> Option<Followed> {
    let before_ns = around.first_mark.saturating_sub(around.from);
    let requests = requests.iter().filter(|t| (around.from..around.first_mark).contains(t)).count() as u64;
    let mut best: Option<Followed> = None;
    for step in LENGTHS_NS {
        let slices_after = around.until.saturating_sub(around.mark) / step;
        if before_ns / step > MOST_SLICES || slices_after > MOST_SLICES {
            continue;
        }
        let slices_before = (before_ns / step) as usize;
        let width = match figure {
            Figure::TtftP95 if requests == 0 => break,
            Figure::TtftP95 => LATENCY_N.saturating_mul(before_ns).div_ceil(requests.saturating_mul(step)) as usize,
            _ => 1,
        };
        if slices_before / width < SMALLEST_N {
            // a p95 over fewer, longer slices may have enough of them still
            continue;
        }
        let n = slices_before + 1 - width;
        let slices = Slices { step, width };
        let before = Wanted { origin: around.first_mark, slices, first: -(n as i64), n };
        let known: Vec<f64> = values(&before).into_iter().flatten().collect();
        let independent = known.len().div_ceil(width);
        let Some(band) = Band::of(&known, independent, figure.worse(), figure.least_share()) else { continue };
        if !band.can_be_left() {
            continue;
        }
        let n = slices_after as usize;
        let after = values(&Wanted { origin: around.mark, slices, first: 0, n });
        let starts = around.next.map_or(u64::MAX, |next| next.saturating_sub(around.mark).div_ceil(step));
        let rule = Rule {
            in_a_row: width + 1,
            hold: (hold(step) / step) as usize,
            before: usize::try_from(starts).unwrap_or(usize::MAX),
        };
        let course = band.follow(&after, rule);
        let found = Followed { step, width, before: known.len(), band, course };
        let longer = |best: &Followed| found.lasted() > best.lasted().saturating_add(2 * step);
        if best.as_ref().is_none_or(longer) {
            best = Some(found);
        }
    }
    best
}

/// The end of what a mark touched, ns from the campaign's start: until every figure that had left its band was back; until
/// `closed` where one never was; where none had left, until what was done was over.
pub fn touched_until(followed: &[Followed], around: &Around, ended: Option<u64>, closed: u64) -> u64 {
    let left = followed.iter().filter(|f| f.course.longest.is_some());
    let back = left.map(|f| f.back().map_or(closed, |(_, [_, hi])| around.mark.saturating_add(hi)));
    back.max().unwrap_or_else(|| ended.unwrap_or(around.mark).max(around.mark)).min(closed.max(around.mark))
}

/// A request as a mark may touch it: kept, or to be kept and not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// It was due.
    pub due: u64,
    /// It was over; for one that was not sent, its due.
    pub end: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// From due; in closed loop gross, ns.
    pub ttft: Option<i64>,
    /// Longest gap, gross, ns.
    pub stall: Option<i64>,
}

impl Request {
    /// None of a warm-up request. `open`: ttft is counted from due.
    pub fn of(row: &Row, closed: u64, open: bool) -> Option<Request> {
        let end = super::load::in_flight(row, closed).map_or(row.due, |(_, end)| end);
        let columns = ttft(row);
        (row.phase == Phase::Measured).then(|| Request {
            due: row.due,
            end: end.max(row.due),
            outcome: row.outcome,
            ttft: if open { columns.due } else { columns.gross },
            stall: stall(row).gross,
        })
    }

    /// Whether it was under way at some time between the two.
    pub fn is_touched(&self, mark: u64, until: u64) -> bool {
        self.due <= until && self.end >= mark
    }

    /// Whether it was over before the first mark, and is of the baseline.
    pub fn is_before(&self, around: &Around) -> bool {
        self.outcome == Outcome::Ok && self.due >= around.from && self.end < around.first_mark
    }
}

/// The longest ttft and the longest gap of the ok requests before the first mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// ns.
    pub ttft: Option<i64>,
    /// ns.
    pub stall: Option<i64>,
}

impl Usual {
    /// Takes a request of the baseline.
    pub fn take(&mut self, request: &Request) {
        self.ttft = self.ttft.max(request.ttft);
        self.stall = self.stall.max(request.stall);
    }

    /// Whether a request was slower than every one before the mark. None without any.
    pub fn is_slow(&self, request: &Request) -> Option<bool> {
        let beyond = |of: Option<i64>, usual: Option<i64>| Some(of? > usual?);
        let found = [beyond(request.ttft, self.ttft), beyond(request.stall, self.stall)];
        found.into_iter().flatten().reduce(|a, b| a || b).or_else(|| self.ttft.map(|_| false))
    }
}

/// How a recovery stands to a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recovery {
    /// No figure could be followed, or nothing was done.
    Unknown,
    /// No figure left its band.
    NotNeeded,
    /// Back, in s after the mark, within these ends.
    Back {
        /// By the last figure that was.
        at_s: f64,
        /// Ends.
        within_s: [f64; 2],
    },
    /// Not back while the load went on, which was so long after the mark, in s.
    NotSeen {
        /// So long it was waited for.
        waited_s: f64,
    },
}

impl Recovery {
    /// The graver of two.
    pub fn and(self, other: Recovery) -> Recovery {
        let grave = |r: &Recovery| match *r {
            Recovery::Unknown => (0, 0.0),
            Recovery::NotNeeded => (1, 0.0),
            Recovery::Back { at_s, .. } => (2, at_s),
            Recovery::NotSeen { waited_s } => (3, waited_s),
        };
        if grave(&other) > grave(&self) { other } else { self }
    }

    /// As a figure with the interval it lies in. What was not seen to be back took at least as long as it was waited for:
    /// against a limit below that it has an interval, against another none.
    pub fn against(self, limit_s: f64) -> (Option<f64>, Option<[f64; 2]>) {
        match self {
            Recovery::Unknown => (None, None),
            Recovery::NotNeeded => (Some(0.0), Some([0.0, 0.0])),
            Recovery::Back { at_s, within_s } => (Some(at_s), Some(within_s)),
            Recovery::NotSeen { waited_s } => (Some(waited_s), (waited_s > limit_s).then_some([waited_s, waited_s])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const AROUND: Around = Around { from: 0, first_mark: 20 * S, mark: 20 * S, next: None, until: 60 * S };

    /// Counts of `ends` per s.
    fn counted(ends: &[u64]) -> impl FnMut(&Wanted) -> Vec<Option<f64>> + '_ {
        |wanted| {
            let within = |(from, to): (u64, u64)| ends.iter().filter(|t| (from..to).contains(t)).count();
            (0..wanted.n).map(|i| Some(within(wanted.bounds(i)) as f64 * 1e9 / wanted.slices.step as f64)).collect()
        }
    }

    /// 50/s evenly but for a hole, whose requests all end when it does.
    fn holed(hole: std::ops::Range<u64>) -> Vec<u64> {
        (0..3_000).map(|i| i * 20_000_000 + 7).map(|t| if hole.contains(&t) { hole.end } else { t }).collect()
    }

    #[test]
    fn a_hole_of_known_shape_is_found_to_the_slice() {
        let ends = holed(21 * S..26 * S);
        let found = follow(Figure::Requests, &AROUND, &ends, counted(&ends)).unwrap();
        assert_eq!((found.step, found.width, found.before), (100_000_000, 1, 200));
        assert_eq!(found.left(), Some([S, S + 100_000_000]));
        let (at, within) = found.back().unwrap();
        assert_eq!((at, within), (6 * S, [6 * S - 100_000_000, 6 * S + 100_000_000]));
        assert_eq!((found.course.longest.unwrap().worst, found.hold()), (0.0, 2 * S));
        assert_eq!(touched_until(&[found], &AROUND, Some(26 * S), 61 * S), 26 * S + 100_000_000);
        let for_ever = holed(21 * S..90 * S);
        let found = follow(Figure::Requests, &AROUND, &for_ever, counted(&for_ever)).unwrap();
        assert_eq!((found.back(), touched_until(&[found], &AROUND, None, 61 * S)), (None, 61 * S));
        let calm = holed(0..0);
        let found = follow(Figure::Requests, &AROUND, &calm, counted(&calm)).unwrap();
        assert_eq!((found.left(), found.back()), (None, None));
        assert_eq!(touched_until(&[found], &AROUND, Some(25 * S), 61 * S), 25 * S);
    }

    #[test]
    fn half_the_rate_is_seen_where_a_short_slice_would_not_show_it() {
        // seeded uneven arrivals, half of them lost for 10 s
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut ends: Vec<u64> = (0..3_000).map(|_| uniform() * 28 % (60 * S)).collect();
        let mut lose = false;
        ends.retain(|t| {
            lose = !lose;
            !(22 * S..32 * S).contains(t) || lose
        });
        let found = follow(Figure::Requests, &AROUND, &ends, counted(&ends)).unwrap();
        let (left, back) = (found.left().unwrap(), found.back().unwrap());
        // so near the band single slices fall inside by chance: that it happened is seen, when it began only roughly
        assert!(left[1] >= 2 * S && left[0] < 12 * S, "{left:?} by {}", found.step);
        assert!((9 * S..=14 * S).contains(&back.1[1]), "{back:?} by {}", found.step);
    }

    #[test]
    fn without_a_baseline_nothing_is_said() {
        let ends = holed(21 * S..26 * S);
        let early = Around { first_mark: S / 2, mark: S / 2, ..AROUND };
        assert_eq!(follow(Figure::Requests, &early, &ends, counted(&ends)), None);
        assert_eq!(follow(Figure::TtftP95, &AROUND, &[], counted(&ends)), None);
    }

    #[test]
    fn a_p95_is_taken_over_many_requests_and_answers_by_the_slice() {
        // due each 20 ms; those due in the hole wait until it ends
        let hole = 21 * S..26 * S;
        let all: Vec<(u64, f64)> = (0..3_000_u64)
            .map(|i| i * 20_000_000 + 7)
            .map(|t| (t, if hole.contains(&t) { (hole.end - t) as f64 / 1e6 } else { 5.0 }))
            .collect();
        let p95 = |wanted: &Wanted| {
            let of = |i| {
                let (from, to) = wanted.bounds(i);
                let mut found: Vec<f64> = all.iter().filter(|(t, _)| (from..to).contains(t)).map(|(_, v)| *v).collect();
                found.sort_by(f64::total_cmp);
                (found.len() >= 20).then(|| found[(found.len() - 1) * 95 / 100])
            };
            (0..wanted.n).map(of).collect::<Vec<_>>()
        };
        let dues: Vec<u64> = all.iter().map(|(t, _)| *t).collect();
        let found = follow(Figure::TtftP95, &AROUND, &dues, p95).unwrap();
        assert_eq!((found.step, found.width), (100_000_000, 8));
        let (at, [lo, hi]) = found.back().unwrap();
        assert!(lo <= 6 * S && 6 * S <= hi && hi - lo == 200_000_000, "{at} in {lo}..{hi}");
        assert_eq!(found.left().unwrap()[0], S);
    }

    #[test]
    fn recoveries_against_a_limit() {
        let back = Recovery::Back { at_s: 5.0, within_s: [4.5, 5.5] };
        let never = Recovery::NotSeen { waited_s: 30.0 };
        assert_eq!(back.and(never), never);
        assert_eq!(Recovery::Unknown.and(Recovery::NotNeeded).and(back), back);
        assert_eq!(never.against(10.0), (Some(30.0), Some([30.0, 30.0])), "longer than 10 s, however long");
        assert_eq!(never.against(60.0), (Some(30.0), None), "60 s may still be kept");
        assert_eq!(Recovery::Unknown.against(1.0), (None, None));
    }

    proptest! {
        #[test]
        fn any_times_are_answered(ends in proptest::collection::vec(0..70 * S, 0..400), mark in 0..70 * S,
            next in proptest::option::of(0..70 * S), until in 0..70 * S) {
            let around = Around { from: 0, first_mark: mark, mark, next, until };
            if let Some(found) = follow(Figure::Requests, &around, &ends, counted(&ends)) {
                if let (Some(left), Some((at, [lo, hi]))) = (found.left(), found.back()) {
                    prop_assert!(left[0] <= at && lo <= at && at <= hi && mark + at <= until);
                }
                prop_assert!(touched_until(&[found], &around, None, 70 * S) >= mark);
            }
        }
    }
}
