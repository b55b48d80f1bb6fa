//! What an X.509 certificate says of itself (RFC 5280, 4.1), as far as a person wants to know which one a server showed:
//! subject, issuer and validity. Nothing is verified here.

use std::fmt::Write;

/// Longest name shown, in characters.
const LONGEST: usize = 200;

/// Tags of DER (X.690, 8.1.2).
const BOOLEAN_TO_STRING: u8 = 0x1f;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const BMP_STRING: u8 = 0x1e;
/// `[0]`, constructed: the version.
const VERSION: u8 = 0xa0;

/// Names and validity of a certificate. Text is as the certificate has it: whoever shows it makes it printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// `CN=api.example, O=Example`.
    pub subject: String,
    /// The same of whoever signed it.
    pub issuer: String,
    /// First moment of its validity, s since 1970 (UTC).
    pub not_before: i64,
    /// Last moment.
    pub not_after: i64,
}

impl Certificate {
    /// Reads a certificate in DER. None: it is not one.
    pub fn read(der: &[u8]) -> Option<Certificate> {
        let mut whole = Der(der).enter(SEQUENCE)?;
        let mut body = whole.enter(SEQUENCE)?;
        if body.0.first() == Some(&VERSION) {
            body.next()?;
        }
        let (_serial, _algorithm) = (body.next()?, body.next()?);
        let issuer = body.enter(SEQUENCE)?;
        let mut validity = body.enter(SEQUENCE)?;
        let subject = body.enter(SEQUENCE)?;
        Some(Certificate {
            subject: name(subject)?,
            issuer: name(issuer)?,
            not_before: time(validity.next()?)?,
            not_after: time(validity.next()?)?,
        })
    }
}

/// What is left of a row of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element: its tag and its contents.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            short @ 0..=0x7f => usize::from(short),
            long @ 0x81..=0x84 => {
                let (bytes, after) = rest.split_at_checked(usize::from(long & 0x7f))?;
                rest = after;
                bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }

    /// The elements inside the next one, which must have this tag.
    fn enter(&mut self, tag: u8) -> Option<Der<'a>> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, contents)| Der(contents))
    }
}

/// A distinguished name, most specific part first, as people write it (RFC 4514 turns the order round).
fn name(mut parts: Der<'_>) -> Option<String> {
    let mut words = Vec::new();
    while !parts.0.is_empty() {
        let mut part = parts.enter(SET)?;
        while !part.0.is_empty() {
            let mut pair = part.enter(SEQUENCE)?;
            let (OBJECT_ID, kind) = pair.next()? else { return None };
            let (tag, value) = pair.next()?;
            words.push(format!("{}={}", kind_of(kind), text(tag, value)));
        }
    }
    words.reverse();
    let whole = words.join(", ");
    Some(match whole.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &whole[..at]),
        None => whole,
    })
}

/// Short names of the kinds of RFC 4514, 3, and of mail addresses; others by their bytes.
fn kind_of(id: &[u8]) -> String {
    match id {
        [0x55, 4, 3] => "CN".to_owned(),
        [0x55, 4, 6] => "C".to_owned(),
        [0x55, 4, 7] => "L".to_owned(),
        [0x55, 4, 8] => "ST".to_owned(),
        [0x55, 4, 10] => "O".to_owned(),
        [0x55, 4, 11] => "OU".to_owned(),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress".to_owned(),
        other => other.iter().fold("oid-".to_owned(), |mut words, byte| {
            let _ = write!(words, "{byte:02x}");
            words
        }),
    }
}

fn text(tag: u8, value: &[u8]) -> String {
    match tag {
        BMP_STRING => {
            let units: Vec<u16> = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        tag if tag <= BOOLEAN_TO_STRING => String::from_utf8_lossy(value).into_owned(),
        _ => "?".to_owned(),
    }
}

/// Seconds since 1970 of a UTCTime or a GeneralizedTime in the forms of RFC 5280, 4.1.2.5.
fn time((tag, digits): (u8, &[u8])) -> Option<i64> {
    let digits = digits.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        Some(digits.get(from..to)?.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
    };
    let (year, at) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let short = number(0, 2)?;
            (short + if short < 50 { 2000 } else { 1900 }, 2)
        }
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |n: usize| number(at + 2 * n, at + 2 * n + 2);
    let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(((days_from_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. A year is counted from March, so that the leap day is its last.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    fn der() -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["api.example".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, "api.example");
        params.distinguished_name.push(DnType::OrganizationName, "Exämple");
        (params.not_before, params.not_after) = (date_time_ymd(1999, 12, 31), date_time_ymd(2051, 3, 1));
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn a_certificate_says_who_and_until_when() {
        let read = Certificate::read(&der()).expect("a certificate");
        assert!(read.subject.contains("CN=api.example") && read.subject.contains("O=Exämple"), "{read:?}");
        assert_eq!(read.subject, read.issuer, "it signed itself");
        // 1999 stands as UTCTime, 2051 as GeneralizedTime
        assert_eq!((read.not_before, read.not_after), (946_598_400, 2_561_241_600));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (date, days) in [((1970, 1, 1), 0), ((2000, 2, 29), 11_016), ((2000, 3, 1), 11_017), ((1969, 12, 31), -1)] {
            assert_eq!(days_from_epoch(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::read(&bytes);
        }

        #[test]
        fn a_damaged_certificate_is_read_without_a_panic(at in 0usize..400, to in any::<u8>()) {
            let mut der = der();
            let at = at % der.len();
            der[at] = to;
            let _ = Certificate::read(&der);
        }
    }
}
