//! The declared price of a server, and what tokens cost at it.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use thiserror::Error;

/// What a server costs per hour, as somebody declared it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Above 0.
    pub per_hour: f64,
    /// Three capital letters; null: not told.
    pub currency: Option<String>,
}

/// A price that could mean several things.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "price={0:?} is not clear: write AMOUNT/h or AMOUNT CUR/h, what the whole server costs per hour, like price=3.2/h or \
     'price=3.2 USD/h' (a decimal point, no thousands separator, no currency sign)"
)]
pub struct Unclear(pub String);

impl FromStr for Price {
    type Err = Unclear;

    fn from_str(text: &str) -> Result<Price, Unclear> {
        let unclear = || Unclear(text.to_owned());
        let amount = text.trim().strip_suffix("/h").ok_or_else(unclear)?;
        let (digits, currency) = match amount.split_once(' ') {
            Some((digits, currency)) => (digits, Some(currency)),
            None => (amount, None),
        };
        let is_currency = |c: &str| c.len() == 3 && c.bytes().all(|b| b.is_ascii_uppercase());
        // no exponent, sign or infinity: what a price list would have
        let is_decimal = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.ends_with(|c: char| c.is_ascii_digit());
        if !is_decimal || !currency.is_none_or(is_currency) {
            return Err(unclear());
        }
        let per_hour = digits.parse().ok().filter(|p: &f64| *p > 0.0 && p.is_finite()).ok_or_else(unclear)?;
        Ok(Price { per_hour, currency: currency.map(str::to_owned) })
    }
}

impl Price {
    /// What a million tokens cost at so many per s; None of none.
    pub fn per_million(&self, tokens_per_s: f64) -> Option<f64> {
        (tokens_per_s > 0.0).then(|| self.per_hour / (tokens_per_s * 3_600.0) * 1e6)
    }

    /// `3.2/h`, `3.2 USD/h`.
    pub fn words(&self) -> String {
        format!("{}{}/h", self.per_hour, self.unit())
    }

    /// The currency after a blank, where it was told.
    pub fn unit(&self) -> String {
        self.currency.as_ref().map_or_else(String::new, |c| format!(" {c}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_or_refused() {
        for (text, per_hour, currency) in [
            ("3.2/h", 3.2, None),
            ("3.2 USD/h", 3.2, Some("USD")),
            (" 12 EUR/h ", 12.0, Some("EUR")),
            ("0.5/h", 0.5, None),
        ] {
            let found: Price = text.parse().expect(text);
            assert_eq!((found.per_hour, found.currency.as_deref()), (per_hour, currency), "{text}");
            assert_eq!(found.words().parse::<Price>(), Ok(found));
        }
        for unclear in [
            "3.2",
            "$3.2/h",
            "3,2/h",
            "3.2/day",
            "3.2/gpu-h",
            "3.2 usd/h",
            "USD 3.2/h",
            "-3/h",
            "0/h",
            "0.0/h",
            "/h",
            "1e3/h",
            "inf/h",
            "nan/h",
            "3.2  USD/h",
            "3.2 USD /h",
            ".5/h",
            "3./h",
            "1.2.3/h",
            "",
        ] {
            let error = unclear.parse::<Price>().expect_err(unclear).to_string();
            assert!(error.contains("3.2 USD/h"), "{error}");
        }
    }

    #[test]
    fn what_a_million_tokens_cost() {
        let price: Price = "3.6/h".parse().expect("a price");
        assert_eq!(price.per_million(1_000.0), Some(1.0));
        assert_eq!(price.per_million(0.0), None);
    }
}
