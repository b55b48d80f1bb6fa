//! What may be said of a difference between two arms: one function, in a fixed order.
//!
//! A difference not larger than the noise ([`super::noise`]) is never a claim, however small its p: the test cannot lift
//! that veto. Larger is a condition and no evidence: the test decides. The veto does not bar [`Verdict::Equivalent`], which claims no difference; two equal arms always
//! lie within the noise, so nothing could ever be found equivalent otherwise.

use super::Design;
use super::metric::{Unit, change};
use std::fmt;

/// Level of the tests, over all of them together.
pub const ALPHA: f64 = 0.05;

/// What a reader may take from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client was not fit to measure it.
    NoResultClient,
    /// The server did not stay the same within a window, or failed too many requests.
    NoResultUnstable,
    /// Below the noise.
    NotAClaim,
    /// Beyond the noise, but too few windows to test it.
    Suggestive,
    /// A difference, beyond the noise and the margin, and not by chance.
    Supported,
    /// No difference as large as the margin.
    Equivalent,
    /// Neither.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::NoResultClient => "NO RESULT: client",
            Verdict::NoResultUnstable => "NO RESULT: unstable",
            Verdict::NotAClaim => "NOT A CLAIM",
            Verdict::Suggestive => "SUGGESTIVE",
            Verdict::Supported => "SUPPORTED",
            Verdict::Equivalent => "EQUIVALENT",
            Verdict::Inconclusive => "INCONCLUSIVE",
        })
    }
}

impl serde::Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Verdict {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Verdict".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let all = Verdict::ALL.map(|verdict| verdict.to_string());
        schemars::json_schema!({"description": "What a reader may take from a row.", "type": "string", "enum": all})
    }
}

impl Verdict {
    /// Every one, the first that holds is the verdict.
    pub const ALL: [Verdict; 7] = [
        Verdict::NoResultClient,
        Verdict::NoResultUnstable,
        Verdict::Equivalent,
        Verdict::NotAClaim,
        Verdict::Suggestive,
        Verdict::Supported,
        Verdict::Inconclusive,
    ];

    /// Whether the comparison could be made at all.
    pub fn is_result(self) -> bool {
        !matches!(self, Verdict::NoResultClient | Verdict::NoResultUnstable)
    }
}

/// What is known of one metric at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Why the client could not measure it, where it could not.
    pub client: Option<String>,
    /// Why the server was not one thing, where it was not.
    pub unstable: Option<String>,
    /// Why there is no figure, where there is none.
    pub missing: Option<String>,
    /// Difference of the arms' means over windows, B - A, in the unit; 0 where there is no figure.
    pub effect: f64,
    /// Unit of effect and noise.
    pub unit: Unit,
    /// Typical gap between two windows of one arm, or the differences of two pairs, in the unit; None when there is one only.
    pub noise: Option<f64>,
    /// How the windows lie in time.
    pub design: Design,
    /// Windows of the smaller arm, or pairs.
    pub windows: usize,
    /// Windows an arm (or pairs) that the test needs, all tests of the comparison counted.
    pub needed: usize,
    /// Tests of the comparison.
    pub tests: usize,
    /// p of "no difference", Holm-adjusted over the comparison; 1 when it was not tested.
    pub p_holm: f64,
    /// p of "a difference of the margin or more", likewise.
    pub p_outside_holm: f64,
    /// B / A by Hodges and Lehmann; None where a value is not positive.
    pub ratio: Option<f64>,
    /// Smallest difference that matters, as a share.
    pub margin: f64,
}

/// Whether a ratio lies beyond the margin: above `1 + margin` or below `1 / (1 + margin)`, so that naming the arms the
/// other way round changes nothing.
pub fn beyond(ratio: f64, margin: f64) -> bool {
    ratio.ln().abs() > margin.ln_1p()
}

/// The verdict and the reason for it.
pub fn decide(e: &Evidence) -> (Verdict, Reason) {
    let tested = e.windows >= e.needed;
    match e {
        Evidence { client: Some(words), .. } => (Verdict::NoResultClient, Reason::Words(words.clone())),
        Evidence { unstable: Some(words), .. } => (Verdict::NoResultUnstable, Reason::Words(words.clone())),
        Evidence { missing: Some(words), .. } => (Verdict::Inconclusive, Reason::Words(words.clone())),
        _ if tested && e.p_outside_holm <= ALPHA => {
            let also_different = e.p_holm <= ALPHA;
            (Verdict::Equivalent, Reason::WithinMargin { margin: e.margin, p: e.p_outside_holm, also_different })
        }
        Evidence { noise: None, .. } => (Verdict::NotAClaim, Reason::NoNoise(e.design)),
        Evidence { noise: Some(noise), .. } if e.effect.abs() <= *noise => {
            let p = tested.then_some(e.p_holm);
            (
                Verdict::NotAClaim,
                Reason::WithinNoise { effect: e.effect, noise: *noise, unit: e.unit, design: e.design, p },
            )
        }
        _ if !tested => {
            let (windows, needed, tests, design) = (e.windows, e.needed, e.tests, e.design);
            (Verdict::Suggestive, Reason::FewWindows { windows, needed, tests, design })
        }
        _ if e.p_holm > ALPHA => (Verdict::Inconclusive, Reason::ByChance { p: e.p_holm }),
        Evidence { ratio: Some(ratio), .. } if !beyond(*ratio, e.margin) => {
            (Verdict::Inconclusive, Reason::Small { ratio: *ratio, margin: e.margin })
        }
        Evidence { ratio: None, .. } => (Verdict::Inconclusive, Reason::NoRatio),
        _ => (Verdict::Supported, Reason::Difference { p: e.p_holm }),
    }
}

/// Why a verdict is what it is, and what would change it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// What a gate, a window or a file says.
    Words(String),
    /// A single window, or pair, has no noise.
    NoNoise(Design),
    /// What is compared differs from itself by as much.
    WithinNoise {
        /// B - A.
        effect: f64,
        /// Typical gap within an arm, or between pairs.
        noise: f64,
        /// Of both.
        unit: Unit,
        /// Which of the two.
        design: Design,
        /// Adjusted p, where it was tested.
        p: Option<f64>,
    },
    /// Beyond the noise, not tested.
    FewWindows {
        /// There are.
        windows: usize,
        /// There must be.
        needed: usize,
        /// Of the comparison.
        tests: usize,
        /// What is counted.
        design: Design,
    },
    /// Chance does as much.
    ByChance {
        /// Adjusted p.
        p: f64,
    },
    /// Not by chance, but smaller than what matters.
    Small {
        /// B / A.
        ratio: f64,
        /// What matters.
        margin: f64,
    },
    /// Values that are not positive have no ratio to hold against the margin.
    NoRatio,
    /// All conditions are met.
    Difference {
        /// Adjusted p.
        p: f64,
    },
    /// The interval lies within the margin.
    WithinMargin {
        /// What matters.
        margin: f64,
        /// Adjusted p of "it is not".
        p: f64,
        /// A difference was found, a small one.
        also_different: bool,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Words(words) => f.write_str(words),
            Reason::NoNoise(design) => {
                let one = if *design == Design::Pairs { "pair" } else { "window" };
                let unit = design.unit();
                write!(f, "one {one} has no noise to hold a difference against: measure at least two {unit}")
            }
            Reason::WithinNoise { effect, noise, unit, design, p } => {
                let (effect, noise) = (unit.words(effect.abs()), unit.words(*noise));
                let (which, from) = match design {
                    Design::Pairs => ("the differences of two pairs", "one pair to the next"),
                    _ => ("two windows of one arm", "one window to the next"),
                };
                write!(f, "{effect} is not more than the {noise} by which {which} typically differ")?;
                match p {
                    Some(p) if *p <= ALPHA => write!(
                        f,
                        "; a test alone would find it (p = {p:.4}), but from {from} the same servers vary by more: measure \
                         longer windows"
                    ),
                    _ => Ok(()),
                }
            }
            Reason::FewWindows { windows, needed, tests, design } => write!(
                f,
                "more than the noise, but {windows} {} cannot tell it from chance: {} need {needed}",
                design.unit(),
                if *tests == 1 { "a test would".to_owned() } else { format!("{tests} tests together would") }
            ),
            Reason::ByChance { p } => write!(f, "p = {p:.3}: chance alone does as much too often"),
            Reason::Small { ratio, margin } => write!(
                f,
                "not by chance, but {} is within the margin of {} %, and the interval is not: more or longer windows",
                change(*ratio),
                margin * 100.0
            ),
            Reason::NoRatio => f.write_str("not by chance, but values that are not above 0 have no ratio to judge"),
            Reason::Difference { p } => write!(f, "p = {p:.4}, beyond the noise and the margin"),
            Reason::WithinMargin { margin, p, also_different } => {
                write!(f, "a difference of {} % or more is ruled out (p = {p:.4})", margin * 100.0)?;
                if *also_different { f.write_str("; a smaller one is there") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Supported; each test changes one thing.
    fn supported() -> Evidence {
        Evidence {
            client: None,
            unstable: None,
            missing: None,
            effect: 60.0,
            unit: Unit::Millis,
            noise: Some(20.0),
            design: Design::Separate,
            windows: 6,
            needed: 6,
            tests: 9,
            p_holm: 0.02,
            p_outside_holm: 1.0,
            ratio: Some(1.1),
            margin: 0.05,
        }
    }

    #[test]
    fn each_condition_in_its_place() {
        let of = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = supported();
            change(&mut evidence);
            decide(&evidence).0
        };
        assert_eq!(of(&|_| ()), Verdict::Supported);
        assert_eq!(of(&|e| e.noise = Some(60.0)), Verdict::NotAClaim, "not larger is not a claim");
        assert_eq!(of(&|e| e.noise = None), Verdict::NotAClaim);
        assert_eq!(of(&|e| e.windows = 5), Verdict::Suggestive);
        assert_eq!(of(&|e| e.p_holm = 0.051), Verdict::Inconclusive);
        assert_eq!(of(&|e| e.ratio = Some(1.049)), Verdict::Inconclusive, "the margin is what matters");
        assert_eq!(of(&|e| e.ratio = Some(1.0 / 1.049)), Verdict::Inconclusive, "either way");
        assert_eq!(of(&|e| e.ratio = Some(0.95)), Verdict::Supported, "1 / 1.05 is 0.952");
        assert_eq!(of(&|e| e.ratio = None), Verdict::Inconclusive);
        let within = |e: &mut Evidence| (e.p_outside_holm, e.noise) = (0.04, Some(60.0));
        assert_eq!(of(&within), Verdict::Equivalent, "the veto is on claims of difference");
        assert_eq!(of(&|e| (e.p_outside_holm, e.windows) = (0.04, 5)), Verdict::Suggestive);
        assert_eq!(of(&|e| e.missing = Some("x".into())), Verdict::Inconclusive);
        assert_eq!(of(&|e| e.unstable = Some("x".into())), Verdict::NoResultUnstable);
        assert_eq!(of(&|e| (e.client, e.unstable) = (Some("x".into()), Some("y".into()))), Verdict::NoResultClient);
    }

    proptest! {
        #[test]
        fn no_claim_without_all_of_its_conditions(
            effect in -100.0_f64..100.0, noise in 0.0_f64..100.0, windows in 1_usize..10, needed in 4_usize..8,
            p_holm in 0.0_f64..0.2, p_outside_holm in 0.0_f64..0.2, ratio in 0.8_f64..1.25,
        ) {
            let e = Evidence { effect, noise: Some(noise), windows, needed, p_holm, p_outside_holm, ratio: Some(ratio), ..supported() };
            let (verdict, _) = decide(&e);
            if verdict == Verdict::Supported {
                prop_assert!(effect.abs() > noise && windows >= needed && p_holm <= ALPHA && beyond(ratio, e.margin));
            }
            if windows < needed {
                prop_assert!(matches!(verdict, Verdict::NotAClaim | Verdict::Suggestive));
            }
            // the same with the arms' names exchanged
            let turned = Evidence { effect: -effect, ratio: Some(1.0 / ratio), ..e };
            prop_assert_eq!(decide(&turned).0, verdict);
        }
    }
}
