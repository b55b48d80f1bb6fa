//! Axes of pictures: where a value lies, which values are labelled, and how labels keep clear of each other.

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Log,
    /// Percentiles by how far they are from 100, in decades, as HdrHistogram plots them: 0, 90, 99, 99.9.
    Percentile,
}

/// An axis between two places in px.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    /// How values are spread.
    pub(super) scale: Scale,
    /// Its ends, on the scale: exponents of a log axis, decades of percentiles.
    pub(super) from: f64,
    pub(super) to: f64,
    /// Where they lie, px.
    pub(super) at: (f64, f64),
}

/// Between labels, so that none covers another.
pub(super) const LABEL_STEP: f64 = 14.0;
/// Values that span more than this are spread by ratios.
const WIDE: f64 = 8.0;

impl Axis {
    /// A log axis over whole decades, or from a floor.
    pub(super) fn over(values: impl Iterator<Item = f64>, at: (f64, f64), floor: Option<f64>) -> Axis {
        let (lo, hi) = values.fold((f64::INFINITY, 0.0_f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
        let (lo, hi) = if lo <= hi { (lo, hi) } else { (1.0, 10.0) };
        let from = floor.map_or_else(|| lo.log10().floor(), f64::log10);
        let to = hi.log10().ceil();
        Axis { scale: Scale::Log, from, to: if to > from { to } else { from.floor() + 1.0 }, at }
    }

    /// From 0 to a round figure that is not below `largest`.
    pub(super) fn from_zero(largest: f64, at: (f64, f64)) -> Axis {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let step = round_step(largest / 4.0);
        Axis { scale: Scale::Linear, from: 0.0, to: (largest / step - 1e-9).ceil() * step, at }
    }

    /// Between two figures as they are.
    pub(super) fn between(from: f64, to: f64, at: (f64, f64)) -> Axis {
        Axis { scale: Scale::Linear, from, to: if to > from { to } else { from + 1.0 }, at }
    }

    /// For loads, exactly from the first to the last: by ratios where these span six times or more; around a single one.
    pub(super) fn of_loads(first: f64, last: f64, at: (f64, f64)) -> Axis {
        match () {
            () if first > 0.0 && last / first >= 6.0 => {
                Axis { scale: Scale::Log, from: first.log10(), to: last.log10(), at }
            }
            () if last > first => Axis::between(first, last, at),
            () => Axis::between(first - 1.0, first + 1.0, at),
        }
    }

    /// For values above 0: by ratios, to 1, 2 or 5 of a decade, where they span more than eight times; else from 0.
    pub(super) fn fitting(values: impl Iterator<Item = f64>, at: (f64, f64)) -> Axis {
        let positive = values.filter(|v| v.is_finite() && *v > 0.0);
        let (lo, hi) = positive.fold((f64::INFINITY, 0.0_f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if lo > hi || hi / lo <= WIDE {
            return Axis::from_zero(hi, at);
        }
        let below = |v: f64| steps_of(v).rfind(|s| *s <= v * (1.0 + 1e-9)).unwrap_or(v);
        let above = |v: f64| steps_of(v).find(|s| *s >= v * (1.0 - 1e-9)).unwrap_or(v);
        Axis { scale: Scale::Log, from: below(lo).log10(), to: above(hi).log10(), at }
    }

    /// Percentiles as far as `n` values carry.
    pub(super) fn percentiles(n: u64, at: (f64, f64)) -> Axis {
        Axis { scale: Scale::Percentile, from: 0.0, to: (n.max(10) as f64).log10().min(7.0) + 0.15, at }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Percentile => -(1.0 - value / 100.0).max(1e-12).log10(),
        }
    }

    /// Where a value lies; what is beyond an end lies on it.
    pub(super) fn px(&self, value: f64) -> f64 {
        let share = (self.place(value) - self.from) / (self.to - self.from);
        self.at.0 + share.clamp(0.0, 1.0) * (self.at.1 - self.at.0)
    }

    /// Whole decades on a log axis.
    pub(super) fn decades(&self) -> impl Iterator<Item = i32> + use<> {
        (self.from - 1e-9).ceil() as i32..=(self.to + 1e-9).floor() as i32
    }

    /// Every how many decades a label has room.
    pub(super) fn label_every(&self, room: f64) -> i32 {
        let decades = (self.to - self.from).max(1.0);
        (room * decades / (self.at.1 - self.at.0).abs()).ceil().max(1.0) as i32
    }

    /// Values that are labelled, ascending, where each label needs `room` px.
    pub(super) fn ticks(&self, room: f64) -> Vec<f64> {
        let most = ((self.at.1 - self.at.0).abs() / room).floor().max(2.0);
        let inside = |v: &f64| (self.from - 1e-9..=self.to + 1e-9).contains(&self.place(*v));
        match self.scale {
            Scale::Linear => {
                let step = round_step((self.to - self.from) / most);
                let first = (self.from / step - 1e-9).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
            Scale::Log => {
                let all = |steps: &[f64]| -> Vec<f64> {
                    let decades = self.from.floor() as i32..=self.to.ceil() as i32;
                    decades.flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d))).filter(inside).collect()
                };
                let fine = all(&[1.0, 2.0, 5.0]);
                let coarse = all(&[1.0]);
                match () {
                    () if fine.len() as f64 <= most || coarse.len() < 2 => fine,
                    () => {
                        let every = (coarse.len() as f64 / most).ceil() as usize;
                        coarse.into_iter().step_by(every).collect()
                    }
                }
            }
            Scale::Percentile => {
                [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999].into_iter().filter(inside).collect()
            }
        }
    }
}

/// 1, 2, 5 of the decades around a value.
fn steps_of(value: f64) -> impl DoubleEndedIterator<Item = f64> {
    let decade = value.log10().floor() as i32;
    (decade - 1..=decade + 1).flat_map(|d| [1.0, 2.0, 5.0].map(|s| s * 10_f64.powi(d)))
}

/// The round step that is not below `least`.
fn round_step(least: f64) -> f64 {
    steps_of(least).find(|s| *s >= least * (1.0 - 1e-9)).unwrap_or(least)
}

/// Ascending places moved so that none is nearer than [`LABEL_STEP`] to another, all between `top` and `bottom` if
/// there is room.
pub(super) fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for i in 1..places.len() {
        places[i] = places[i].max(places[i - 1] + LABEL_STEP);
    }
    // back up from the bottom, then down again from the top
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LABEL_STEP;
    }
    let mut limit = top;
    for place in &mut places {
        *place = place.max(limit);
        limit = *place + LABEL_STEP;
    }
    places
}

/// `0`, `0.1`, `250`, `5k`, `1.25M`.
pub(super) fn tick(value: f64) -> String {
    let short = |v: f64| {
        let digits = (2 - v.log10().floor() as i32).clamp(0, 9) as usize;
        let text = format!("{v:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match value {
        v if v.abs() < 1e-12 => "0".to_owned(),
        v if v < 0.0 => format!("-{}", tick(-v)),
        v if v >= 999_500.0 => format!("{}M", short(v / 1e6)),
        v if v >= 999.5 => format!("{}k", short(v / 1e3)),
        v => short(v),
    }
}

/// A coordinate to a tenth of a px.
pub(super) fn px(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Text for an XML element or attribute; characters XML cannot hold become U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_keep_their_distance() {
        assert_eq!(apart(&[100.0, 101.0, 300.0], 50.0, 400.0), [100.0, 114.0, 300.0]);
        assert_eq!(apart(&[398.0, 399.0, 400.0], 50.0, 400.0), [372.0, 386.0, 400.0]);
        assert_eq!(apart(&[50.0, 50.0], 50.0, 400.0), [50.0, 64.0]);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (0.25, "0.25"),
            (1.0, "1"),
            (10.0, "10"),
            (123.4, "123"),
            (999.6, "1k"),
            (1_250.0, "1.25k"),
            (200_000.0, "200k"),
            (1e6, "1M"),
            (-5.0, "-5"),
        ] {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn an_axis_spreads_by_what_it_must_hold() {
        let near = Axis::fitting([5.0, 9.0].into_iter(), (0.0, 100.0));
        assert_eq!((near.scale, near.from, near.to), (Scale::Linear, 0.0, 10.0));
        let wide = Axis::fitting([3.0, 900.0].into_iter(), (0.0, 100.0));
        assert_eq!(wide.scale, Scale::Log);
        assert_eq!(wide.ticks(10.0), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(wide.ticks(30.0), [10.0, 100.0, 1000.0]);
        let none = Axis::fitting(std::iter::empty(), (0.0, 100.0));
        assert_eq!((none.from, none.to), (0.0, 1.0));
        let tail = Axis::percentiles(10_000, (0.0, 415.0));
        assert!((tail.px(99.0) - 200.0).abs() < 1e-6 && (tail.px(100.0) - 415.0).abs() < 1e-6);
        assert_eq!(tail.ticks(10.0), [0.0, 50.0, 90.0, 99.0, 99.9, 99.99]);
    }

    proptest! {
        #[test]
        fn labels_stay_apart_and_inside_where_there_is_room(mut wanted in prop::collection::vec(60.0_f64..400.0, 0..20)) {
            wanted.sort_by(f64::total_cmp);
            let found = apart(&wanted, 60.0, 400.0);
            prop_assert!(found.windows(2).all(|w| w[1] - w[0] >= LABEL_STEP - 1e-9), "{found:?}");
            prop_assert!(found.iter().all(|p| (60.0..=400.0).contains(p)), "{found:?}");
        }

        #[test]
        fn ticks_lie_on_their_axis_and_are_few(values in prop::collection::vec(1e-4_f64..1e7, 1..9), room in 10.0_f64..90.0) {
            let axis = Axis::fitting(values.iter().copied(), (400.0, 20.0));
            let ticks = axis.ticks(room);
            prop_assert!(!ticks.is_empty() && ticks.len() < 80, "{ticks:?}");
            prop_assert!(ticks.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(values.iter().all(|v| (20.0..=400.0).contains(&axis.px(*v))));
        }
    }
}
