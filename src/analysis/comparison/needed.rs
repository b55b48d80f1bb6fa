//! How many windows a test needs, and how small a difference windows like these can show.

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

/// Effects, in standard deviations between windows, that with so many windows an arm (4 to 12) are larger than the
/// largest gap within an arm, with the arms apart, in 80 of 100 comparisons: simulated, 20,000 normal draws.
const SHOWN_AT: [f64; 9] = [3.46, 3.68, 3.84, 3.98, 4.09, 4.20, 4.27, 4.35, 4.41];

/// The effect, in standard deviations between windows, that `windows` an arm show in 80 of 100 comparisons. It grows
/// with their number: the largest gap of an arm does.
pub fn shown_at(windows: usize) -> f64 {
    SHOWN_AT[windows.clamp(4, 12) - 4]
}

/// What a comparison like this one can show, and what would show more.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Advice {
    /// Windows an arm (or pairs) that are needed for any claim.
    pub windows: usize,
    /// Smallest difference, as a share, that so many windows of this length show in 80 of 100 comparisons.
    pub shows_from: f64,
    /// Requests of a window, as a multiple of the present number, at which the difference found would show, if windows
    /// differ by sampling only. None when the present ones do.
    pub longer: Option<f64>,
    /// For people.
    pub text: String,
}

/// From the standard deviation between the windows of one arm (of logarithms) and the effect found (likewise).
pub fn advice(deviation: f64, effect: f64, needed: usize) -> Option<Advice> {
    if !(deviation > 0.0 && deviation.is_finite() && effect.is_finite()) {
        return None;
    }
    let from = shown_at(needed) * deviation;
    let shows_from = from.exp_m1();
    let shows =
        format!("{needed} windows an arm like these show differences of about {:.1} % or more", shows_from * 100.0);
    let longer = (effect.abs() < from).then(|| (from / effect.abs()).powi(2));
    let text = match longer {
        None => format!("{needed} windows an arm like these would show it"),
        Some(times) if times <= 100.0 => {
            format!(
                "{shows}; this one needs windows of about {times:.1} times the requests, if sampling is what makes them differ"
            )
        }
        Some(_) => format!("{shows}; this one is far smaller"),
    };
    Some(Advice { windows: needed, shows_from, longer: longer.filter(|times| times.is_finite()), text })
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
    fn what_would_show_a_difference() {
        let advice = |deviation, effect| super::advice(deviation, effect, 4).expect("advice");
        assert_eq!(advice(0.01, 0.05).longer, None);
        let longer = advice(0.02, 0.03);
        assert!((longer.longer.expect("longer windows") - (3.46_f64 * 0.02 / 0.03).powi(2)).abs() < 1e-9);
        assert!(longer.text.contains("5.3 times the requests"), "{}", longer.text);
        assert!(advice(0.02, 1e-9).text.contains("far smaller"));
        assert_eq!(super::advice(0.02, 0.0, 4).expect("advice").longer, None, "infinity is no number of requests");
        assert_eq!(super::advice(0.0, 0.03, 4), None);
    }
}
