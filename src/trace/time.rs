//! Times as captured traces write them, exact to the ns.

/// Significant digits that are looked at: more than 290 years in ns have.
const DIGITS: usize = 30;

/// A decimal number of units of 10^`power` ns, in ns; what is finer is rounded. None: no number, or too large a one.
pub fn decimal_ns(text: &str, power: i32) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok().filter(|e| e.abs() <= 100)?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut places = power + exponent - i32::try_from(fraction.len()).ok()?;
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        match value < 10_i128.pow(DIGITS as u32) {
            true => value = value * 10 + i128::from(digit - b'0'),
            false => places += 1,
        }
    }
    let ten = |n: i32| 10_i128.checked_pow(u32::try_from(n).ok()?);
    let ns = match places {
        0.. if value == 0 => 0,
        0.. => value.checked_mul(ten(places)?)?,
        _ => ten(-places).map_or(0, |unit| (value + unit / 2) / unit),
    };
    Some(if negative { -ns } else { ns })
}

/// `2023-11-16 18:15:46.6805900`, with `T` for the space and a zone if there is one; ns since 1970.
pub fn civil_ns(text: &str) -> Option<i128> {
    let text = text.trim();
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix([' ', 'T'])?;
    let (year, month, day) = (digits(date.get(..4)?)?, digits(date.get(5..7)?)?, digits(date.get(8..)?)?);
    let dashes = date.get(4..5)? == "-" && date.get(7..8)? == "-";
    let (clock, rest) = time.split_at_checked(8)?;
    let (hour, minute, second) = (digits(clock.get(..2)?)?, digits(clock.get(3..5)?)?, digits(clock.get(6..)?)?);
    let colons = clock.get(2..3)? == ":" && clock.get(5..6)? == ":";
    let in_range = (1..=days_of(year, month)?).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !(dashes && colons && in_range) {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, rest),
    };
    let fraction = match fraction {
        Some("") => return None,
        Some(digits) => decimal_ns(&format!("0.{digits}"), 9)?,
        None => 0,
    };
    let seconds = i128::from(days_before(year, month, day)) * 86_400 + i128::from(hour * 3600 + minute * 60 + second);
    Some((seconds - i128::from(offset_s(zone)?)) * 1_000_000_000 + fraction)
}

/// Seconds as a decimal number, as people and records read them.
pub fn in_seconds(ns: i128) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// East of Greenwich.
fn offset_s(zone: &str) -> Option<i64> {
    let zone = zone.trim();
    if zone.is_empty() || zone == "Z" {
        return Some(0);
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = match &zone[1..] {
        rest if rest.len() == 5 && rest.get(2..3)? == ":" => (digits(rest.get(..2)?)?, digits(rest.get(3..)?)?),
        rest if rest.len() == 4 => (digits(rest.get(..2)?)?, digits(rest.get(2..)?)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_of(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        1..=12 => Some(31),
        _ => None,
    }
}

/// Days from 1970-01-01; Howard Hinnant's days-from-civil.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals() {
        assert_eq!(decimal_ns("0", 9), Some(0));
        assert_eq!(decimal_ns(" 1700158546.680590012 ", 9), Some(1_700_158_546_680_590_012));
        assert_eq!(decimal_ns("27482", 6), Some(27_482_000_000));
        assert_eq!(decimal_ns("0.0000000004", 9), Some(0));
        assert_eq!(decimal_ns("0.0000000005", 9), Some(1), "to the nearest ns");
        assert_eq!(decimal_ns("1.5e3", 9), Some(1_500_000_000_000));
        assert_eq!(decimal_ns("15E-1", 6), Some(1_500_000));
        assert_eq!(decimal_ns("-2.5", 9), Some(-2_500_000_000));
        assert_eq!(decimal_ns(".5", 9), Some(500_000_000));
        assert_eq!(decimal_ns("5.", 9), Some(5_000_000_000));
        assert_eq!(decimal_ns(&format!("1.{}", "3".repeat(500)), 9), Some(1_333_333_333));
        for bad in ["", ".", "-", "nan", "NaN", "inf", "-Infinity", "1e999", "1e", "1,5", "0x10", "1 2", "1e80"] {
            assert_eq!(decimal_ns(bad, 9), None, "{bad}");
        }
    }

    #[test]
    fn dates() {
        assert_eq!(civil_ns("1970-01-01 00:00:00"), Some(0));
        assert_eq!(civil_ns("2023-11-16 18:15:46.6805900"), Some(1_700_158_546_680_590_000));
        assert_eq!(civil_ns("2024-05-10 00:00:00.009930+00:00"), Some(1_715_299_200_009_930_000));
        assert_eq!(civil_ns("2024-05-10T02:00:00.009930+0200"), civil_ns("2024-05-10 00:00:00.009930Z"));
        assert_eq!(civil_ns("2000-02-29 23:59:59"), Some(951_868_799_000_000_000));
        for bad in ["2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-16", "2023-11-16 24:00:00", "nan", ""] {
            assert_eq!(civil_ns(bad), None, "{bad}");
        }
        for bad in ["2023-11-16 18:15:46.", "2023-11-16 18:15:46 noon", "2023/11/16 18:15:46", "2023-11-16 18-15-46"] {
            assert_eq!(civil_ns(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn seconds_read_back(ns in -(1i128 << 70)..(1i128 << 70)) {
            prop_assert_eq!(decimal_ns(&in_seconds(ns), 9), Some(ns));
        }

        #[test]
        fn any_text_is_a_time_or_none(text in ".{0,40}") {
            decimal_ns(&text, 9);
            civil_ns(&text);
        }

        #[test]
        fn text_of_the_same_letters_too(text in "[0-9.eE+: TZ-]{0,40}") {
            decimal_ns(&text, 6);
            civil_ns(&text);
        }
    }
}
