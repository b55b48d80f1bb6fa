//! Quantities as people read them: three digits or so, in the unit that fits.

use crate::analysis::percentiles::PUBLISHED;
use crate::rundir::run_json::Distribution;

/// A latency: `8.3 us`, `412 us`, `12.3 ms`, `822.3 ms`, `61.0 s`.
pub fn latency(ms: f64) -> String {
    let unit = Unit::of(ms);
    format!("{} {}", unit.digits(ms), unit.name)
}

/// A time in us: `21.0 us`.
pub fn micros(us: f64) -> String {
    latency(us / 1e3)
}

/// Two ends of an interval: `4.98..5.02 ms`.
pub fn between([lo, hi]: [f64; 2]) -> String {
    span(lo, hi)
}

/// From one to another, `8 to 12`; one figure where both read alike.
pub fn stretch(from: String, to: String) -> String {
    if from == to { from } else { format!("{from} to {to}") }
}

/// A percentile of a column: `12.3 ms`, an interval where its net is known to lie between two figures only,
/// `withheld`, `n<100`, or `-` where there is no such column.
pub fn percentile(column: Option<&Distribution>, name: &str) -> String {
    let Some(column) = column else { return "-".into() };
    match column.percentile(name) {
        Some(at) => stamps_bound(column, name).map_or_else(|| latency(at), |(lo, hi)| span(lo, hi)),
        None => match PUBLISHED.iter().find(|p| p.name == name) {
            Some(p) if column.n < p.smallest_n as u64 => format!("n<{}", count(p.smallest_n as u64)),
            _ => "withheld".into(),
        },
    }
}

/// A whole number with commas: `1,000`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per s: `8,123`, `12.3`, `0.42`; `-` where it is not defined.
pub fn rate(per_s: Option<f64>) -> String {
    match per_s {
        None => "-".into(),
        Some(v) if v >= 100.0 => count(v.round() as u64),
        Some(v) if v >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.2}"),
    }
}

/// A share as a decimal, `0.42`.
pub fn fraction(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{s:.2}"))
}

/// A share in percent, `5.1 %`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.1} %", s * 100.0))
}

/// The ends of a net percentile, where both must be printed.
pub(super) fn stamps_bound(column: &Distribution, name: &str) -> Option<(f64, f64)> {
    use crate::analysis::definitions::rules::{Width, width};
    let lo = column.lo_ms?.percentile(name)?;
    let hi = column.hi_ms.and_then(|ends| ends.percentile(name)).or(column.percentile(name))?;
    (width(lo, hi) != Width::Narrow).then_some((lo, hi))
}

fn span(lo: f64, hi: f64) -> String {
    let unit = Unit::of(hi);
    format!("{}..{} {}", unit.digits(lo), unit.digits(hi), unit.name)
}

struct Unit {
    name: &'static str,
    per_ms: f64,
}

impl Unit {
    fn of(ms: f64) -> Unit {
        match ms.abs() {
            size if size < 0.9995 => Unit { name: "us", per_ms: 1e3 },
            size if size < 9_999.5 => Unit { name: "ms", per_ms: 1.0 },
            _ => Unit { name: "s", per_ms: 1e-3 },
        }
    }

    fn digits(&self, ms: f64) -> String {
        let value = ms * self.per_ms;
        let digits = match value.abs() {
            size if size < 9.95 => 2,
            size if size < 999.5 && self.name != "us" => 1,
            size if size < 99.95 => 1,
            _ => 0,
        };
        // a rounded zero has no sign
        let value = if value.abs() < 0.005 { 0.0 } else { value };
        format!("{value:.digits$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::run_json::Ends;

    #[test]
    fn quantities_read_well() {
        let shown = [0.0, 0.0083, 0.0412, 0.412, 1.0, 12.34, 822.3, 1305.6, 61_000.0, -0.012].map(latency);
        let expected = [
            "0.00 us", "8.30 us", "41.2 us", "412 us", "1.00 ms", "12.3 ms", "822.3 ms", "1306 ms", "61.0 s",
            "-12.0 us",
        ];
        assert_eq!(shown, expected);
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn an_empty_cell_says_why() {
        let mut column = Distribution { n: 42, p50_ms: Some(3.0), ..Distribution::default() };
        assert_eq!(percentile(Some(&column), "p50"), "3.00 ms");
        assert_eq!(percentile(Some(&column), "p99"), "n<100");
        assert_eq!(percentile(Some(&column), "p90"), "withheld");
        assert_eq!(percentile(None, "p50"), "-");
        column.lo_ms = Some(Ends { p50: Some(2.6), ..Ends::default() });
        assert_eq!(percentile(Some(&column), "p50"), "2.60..3.00 ms");
    }
}
