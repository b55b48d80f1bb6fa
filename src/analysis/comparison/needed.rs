//! How many windows a test needs, how small a difference windows like these can show, and how many would show one.

use super::Design;
use super::verdict::ALPHA;

/// Fewest windows an arm with which any of so many tests can reach the level, once Holm has counted them all: 4 for
/// one, 5 for two to six, 6 for seven to twenty-three. With `k` windows an arm the smallest p there is is 2 / C(2k, k).
pub fn windows(tests: usize) -> usize {
    let fewest = |k: &usize| {
        let ways = (1..=*k).fold(1.0, |ways, i| ways * (k + i) as f64 / i as f64);
        2.0 / ways * tests as f64 <= ALPHA
    };
    (4..).find(fewest).unwrap_or(usize::MAX)
}

/// The same for pairs whose order was drawn at random: at least six. The smallest p is 2 / 2^n.
pub fn pairs(tests: usize) -> usize {
    (6..)
        .find(|n| 2.0 * 0.5_f64.powi(*n) * tests as f64 <= ALPHA)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(usize::MAX)
}

/// Numbers of windows an arm, and of pairs, for which [`shown_at`] has figures.
pub const TABLED_WINDOWS: [usize; 9] = [4, 5, 6, 7, 8, 10, 12, 16, 24];
/// The same of pairs.
pub const TABLED_PAIRS: [usize; 8] = [6, 7, 8, 9, 10, 12, 16, 24];
/// Numbers of tests of a comparison of windows for which it has figures.
pub const TESTS_OF_WINDOWS: [usize; 6] = [1, 3, 6, 12, 23, 85];
/// The same of pairs.
pub const TESTS_OF_PAIRS: [usize; 6] = [1, 3, 6, 12, 25, 102];

const NEVER: f64 = f64::INFINITY;

/// By [`TABLED_WINDOWS`], then [`TESTS_OF_WINDOWS`].
#[rustfmt::skip]
const WINDOWS: [[f64; 6]; 9] = [
    [2.89, NEVER, NEVER, NEVER, NEVER, NEVER],
    [2.10, 2.65, 3.10, NEVER, NEVER, NEVER],
    [1.90, 2.25, 2.63, 3.27, 3.27, NEVER],
    [1.83, 1.99, 2.21, 2.46, 2.82, 3.42],
    [1.78, 1.85, 2.01, 2.21, 2.43, 2.97],
    [1.73, 1.73, 1.78, 1.92, 2.06, 2.37],
    [1.66, 1.66, 1.66, 1.73, 1.83, 2.19],
    [1.59, 1.59, 1.59, 1.59, 1.60, 1.76],
    [1.49, 1.49, 1.49, 1.49, 1.49, 1.49],
];

/// By [`TABLED_PAIRS`], then [`TESTS_OF_PAIRS`].
#[rustfmt::skip]
const PAIRS: [[f64; 6]; 8] = [
    [1.83, NEVER, NEVER, NEVER, NEVER, NEVER],
    [1.55, 1.88, NEVER, NEVER, NEVER, NEVER],
    [1.52, 1.61, 1.93, NEVER, NEVER, NEVER],
    [1.51, 1.53, 1.67, 2.00, NEVER, NEVER],
    [1.50, 1.50, 1.53, 1.67, 2.03, NEVER],
    [1.44, 1.44, 1.44, 1.46, 1.57, 2.08],
    [1.39, 1.39, 1.39, 1.39, 1.39, 1.43],
    [1.35, 1.35, 1.35, 1.35, 1.35, 1.35],
];

/// The effect that so many windows an arm show in 80 of 100 comparisons of so many tests, in standard deviations between
/// windows; for pairs, in standard deviations between the differences of pairs. Infinite where the test cannot reach its
/// level. It falls with the number of windows, to 1.13 at last: the typical gap, which no number of windows lifts.
///
/// Made by [`super::simulation::shown_at`], with the tables that `scripts/check-comparisons` prints: 1,000 to 20,000
/// draws of normal windows, and in each the smallest effect that would be larger than the noise and whose p would pass
/// the first and strictest step of Holm's correction. Numbers between two tabled ones are those of fewer windows and of
/// more tests; beyond the largest they are those of the largest.
pub fn shown_at(design: Design, windows: usize, tests: usize) -> f64 {
    let (rows, columns, table): (&[usize], _, &[[f64; 6]]) = match design {
        Design::Separate | Design::Abba => (&TABLED_WINDOWS, TESTS_OF_WINDOWS, &WINDOWS),
        Design::Pairs => (&TABLED_PAIRS, TESTS_OF_PAIRS, &PAIRS),
    };
    let column = columns.iter().position(|tabled| *tabled >= tests).unwrap_or(columns.len() - 1);
    rows.iter().rposition(|tabled| *tabled <= windows).map_or(NEVER, |row| table[row][column])
}

/// What a comparison found that more evidence might settle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Standard deviation of logarithms: between the windows of an arm, or the differences of pairs.
    pub deviation: f64,
    /// Difference of the arms' logarithms.
    pub effect: f64,
    /// Smallest difference that matters, likewise.
    pub margin: f64,
    /// Windows an arm (or pairs): what there are, or what the tests need where that is more.
    pub windows: usize,
    /// Tests of the comparison.
    pub tests: usize,
    /// How the windows lie in time.
    pub design: Design,
}

/// What a comparison like this one can show, and what would show more.
#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Advice {
    /// Windows an arm (or pairs): what there are, or what the tests need where that is more.
    pub windows: usize,
    /// Smallest difference, as a share, that so many windows of this length show in 80 of 100 comparisons.
    pub shows_from: Option<f64>,
    /// Windows an arm (or pairs) of this length that show the difference found as often. None where no number up to 24
    /// does, or it lies within the margin.
    pub enough: Option<usize>,
    /// Requests of a window, as a multiple of the present number, at which as many windows would show it, if windows
    /// differ by sampling only. None where more windows do.
    pub longer: Option<f64>,
    /// For people.
    pub text: String,
}

/// None where windows do not differ.
pub fn advice(seen: &Seen) -> Option<Advice> {
    let Seen { deviation, effect, margin, windows, tests, design } = *seen;
    if !(deviation > 0.0 && deviation.is_finite() && effect.is_finite()) {
        return None;
    }
    let (unit, size) = (design.unit(), effect.abs() / deviation);
    let from = shown_at(design, windows, tests);
    let shows_from = Some((from * deviation).exp_m1()).filter(|share| share.is_finite());
    let shows = shows_from.map_or_else(String::new, |share| {
        let least = if share < 0.0005 { "below 0.1".to_owned() } else { format!("about {:.1}", share * 100.0) };
        format!("{windows} {unit} like these show differences from {least} % on; ")
    });
    let more = [&TABLED_WINDOWS[..], &TABLED_PAIRS].concat().into_iter().filter(|tabled| *tabled > windows);
    let enough = [windows].into_iter().chain(more).filter(|n| shown_at(design, *n, tests) <= size).min();
    let enough = enough.filter(|_| effect.abs() > margin);
    let longer = (enough.is_none() && effect.abs() > margin).then(|| (from / size).powi(2));
    let longer = longer.filter(|times| times.is_finite());
    let text = match (enough, longer) {
        _ if effect.abs() <= margin => format!(
            "{shows}this one is within the margin of {:.1} %: it can become EQUIVALENT by more or longer windows, and not SUPPORTED",
            margin.exp_m1() * 100.0
        ),
        (Some(n), _) if n == windows => format!("{n} {unit} like these would show it"),
        (Some(n), _) => format!("{shows}{n} would show this one"),
        (None, Some(times)) if times <= 100.0 => format!(
            "{shows}this one needs windows of about {times:.1} times the requests, if sampling is what makes them differ, \
             and not more windows like these"
        ),
        (None, _) => format!("{shows}this one is far smaller"),
    };
    Some(Advice { windows, shows_from, enough, longer, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_the_smallest_p_demands() {
        let found: Vec<usize> = [1, 2, 6, 7, 9, 23, 24, 85].iter().map(|m| windows(*m)).collect();
        assert_eq!(found, [4, 5, 5, 6, 6, 6, 7, 7], "the table of the measurement rules, and how it goes on");
        let found: Vec<usize> = [1, 2, 3, 4, 6, 12].iter().map(|m| pairs(*m)).collect();
        assert_eq!(found, [6, 7, 7, 8, 8, 9]);
    }

    #[test]
    fn fewer_tests_and_more_windows_show_more() {
        assert_eq!(shown_at(Design::Separate, 3, 1), NEVER);
        for (design, rows, columns, needed) in [
            (Design::Separate, &TABLED_WINDOWS[..], TESTS_OF_WINDOWS, windows as fn(usize) -> usize),
            (Design::Pairs, &TABLED_PAIRS, TESTS_OF_PAIRS, pairs),
        ] {
            for (row, tests) in rows.iter().flat_map(|row| columns.map(|tests| (*row, tests))) {
                let found = shown_at(design, row, tests);
                assert_eq!(found.is_finite(), row >= needed(tests), "{design:?}: {row} windows, {tests} tests");
                assert!(found > 1.128 && found >= shown_at(design, row + 1, tests));
                assert!(found <= shown_at(design, row, tests + 1));
            }
            assert_eq!(shown_at(design, 11, 2), shown_at(design, 10, 3), "the careful side");
            assert_eq!(shown_at(design, 500, 1), shown_at(design, 24, 1));
        }
    }

    #[test]
    fn what_would_show_a_difference() {
        let one = Seen { deviation: 0.01, effect: 0.05, margin: 0.01, windows: 4, tests: 1, design: Design::Separate };
        let advice = |seen: Seen| super::advice(&seen).expect("advice");
        let found = advice(one);
        assert_eq!((found.enough, found.longer), (Some(4), None));
        assert_eq!(found.text, "4 windows an arm like these would show it");
        // between what 4 and what 8 windows show
        let size = (shown_at(Design::Separate, 4, 1) + shown_at(Design::Separate, 8, 1)) / 2.0;
        let found = advice(Seen { effect: size * 0.01, ..one });
        assert!(found.enough.is_some_and(|n| (5..=8).contains(&n)) && found.longer.is_none(), "{found:?}");
        assert!(found.text.contains(" % on; ") && found.text.ends_with("would show this one"), "{}", found.text);
        // below what any number of windows shows: the windows themselves must become calmer
        let found = advice(Seen { deviation: 0.04, effect: 0.03, ..one });
        let times = (shown_at(Design::Separate, 4, 1) * 0.04 / 0.03).powi(2);
        assert!(found.enough.is_none() && (found.longer.expect("longer windows") - times).abs() < 1e-9);
        assert!(found.text.contains(&format!("{times:.1} times the requests")), "{}", found.text);
        assert!(advice(Seen { deviation: 1.0, effect: 0.011, ..one }).text.contains("far smaller"));
        let within = advice(Seen { effect: -0.01, ..one });
        assert_eq!((within.enough, within.longer), (None, None));
        assert!(within.text.contains("within the margin of 1.0 %: it can become EQUIVALENT"), "{}", within.text);
        assert_eq!(advice(Seen { effect: 0.0, margin: 0.0, ..one }).longer, None, "infinity is no number of requests");
        assert_eq!(super::advice(&Seen { deviation: 0.0, ..one }), None);
        let pairs = advice(Seen { design: Design::Pairs, windows: 6, effect: 0.3, ..one });
        assert_eq!(pairs.text, "6 pairs of windows like these would show it");
    }
}
