//! Lengths as they were counted somewhere: pairs of prompt and output length, each with how often it came.

use super::distributions::MAX_TOKENS;
use super::lines::{BadFile, Digesting, Lines, open};
use super::order::below;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Most different pairs: what is kept of the file.
const MAX_PAIRS: usize = 1_000_000;

/// A joint histogram, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// Its file.
    pub path: String,
    /// Of the file, hex.
    pub sha256: String,
    /// Rows of the file.
    pub entries: u64,
    /// Different pairs of lengths with a count above 0.
    pub pairs: u64,
    /// Requests that were counted.
    pub counted: u64,
    /// Count up to and with each pair, and the pair.
    #[serde(skip)]
    cumulative: Vec<(u64, [u64; 2])>,
}

#[derive(Deserialize)]
struct JsonRow {
    input_tokens: f64,
    output_tokens: f64,
    count: Option<f64>,
}

/// Which columns hold what.
struct Columns {
    delimiter: char,
    input: usize,
    output: usize,
    count: Option<usize>,
}

impl Histogram {
    /// Reads a CSV file with columns `input_tokens`, `output_tokens` and, where rows are not one request each, `count`, or
    /// a JSONL file with these keys.
    ///
    /// # Errors
    /// [`BadFile`] names file and line.
    pub fn open(path: &Path) -> Result<Histogram, BadFile> {
        let mut lines = Lines::new(Digesting::buffered(open(path)?), path)?;
        let mut pairs: BTreeMap<[u64; 2], u64> = BTreeMap::new();
        let (mut columns, mut entries, mut counted) = (None, 0, 0_u64);
        while let Some(line) = lines.next()? {
            let text = line.text.trim();
            if text.is_empty() {
                continue;
            }
            let number = line.number;
            let bad = |text: String| BadFile::line(path, number, text);
            let row = match (text.starts_with('{'), &columns) {
                (true, _) => json_row(text),
                (false, None) => {
                    columns = Some(Columns::of(text).map_err(bad)?);
                    continue;
                }
                (false, Some(columns)) => columns.row(text),
            };
            let ([input, output], count) = row.map_err(bad)?;
            entries += 1;
            if count > 0 {
                counted =
                    counted.checked_add(count).ok_or_else(|| bad("the counts together exceed 2^64".to_owned()))?;
                *pairs.entry([input, output]).or_default() += count;
            }
            if pairs.len() > MAX_PAIRS {
                return Err(bad(format!("more than {MAX_PAIRS} different pairs of lengths; round the lengths")));
            }
        }
        if counted == 0 {
            return Err(BadFile::whole(path, "has no row with a count above 0"));
        }
        let sha256 = lines.into_source().into_inner().finish();
        let mut sum = 0;
        let cumulative: Vec<_> = pairs
            .into_iter()
            .map(|(pair, count)| {
                sum += count;
                (sum, pair)
            })
            .collect();
        let path = path.display().to_string();
        Ok(Histogram { path, sha256, entries, pairs: cumulative.len() as u64, counted, cumulative })
    }

    /// Prompt and output length of a request, each pair as likely as it was counted.
    pub(super) fn draw(&self, rng: &mut Pcg64) -> [u64; 2] {
        let at = below(rng, self.counted);
        let place = self.cumulative.partition_point(|(sum, _)| *sum <= at);
        self.cumulative[place].1
    }
}

impl Columns {
    fn of(head: &str) -> Result<Columns, String> {
        let delimiter = [',', ';', '\t'].into_iter().find(|d| head.contains(*d)).unwrap_or(',');
        let names: Vec<&str> = fields(head, delimiter).collect();
        let find = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name));
        let must = |name: &str| {
            find(name).ok_or_else(|| {
                format!("no column {name} among {}; the first line must name input_tokens and output_tokens, and count where rows are not one request each", names.join(", "))
            })
        };
        Ok(Columns { delimiter, input: must("input_tokens")?, output: must("output_tokens")?, count: find("count") })
    }

    fn row(&self, text: &str) -> Result<([u64; 2], u64), String> {
        let row: Vec<&str> = fields(text, self.delimiter).collect();
        let number = |name: &str, at: usize| {
            let field = row.get(at).ok_or_else(|| format!("has no field for {name}"))?;
            let number = field.parse::<f64>().map_err(|_| format!("{name} {field:?} is no number"))?;
            Ok::<f64, String>(number)
        };
        let count = self.count.map(|at| number("count", at)).transpose()?;
        checked(number("input_tokens", self.input)?, number("output_tokens", self.output)?, count)
    }
}

fn fields(text: &str, delimiter: char) -> impl Iterator<Item = &str> {
    text.split(delimiter).map(|field| field.trim().trim_matches('"').trim())
}

fn json_row(text: &str) -> Result<([u64; 2], u64), String> {
    let row: JsonRow = serde_json::from_str(text)
        .map_err(|e| format!("is no JSON object with input_tokens, output_tokens and count: {e}"))?;
    checked(row.input_tokens, row.output_tokens, row.count)
}

fn checked(input: f64, output: f64, count: Option<f64>) -> Result<([u64; 2], u64), String> {
    let whole = |name: &str, x: f64, least: f64, most: f64| match x.fract() == 0.0 && (least..=most).contains(&x) {
        true => Ok(x as u64),
        false => Err(format!("{name} must be a whole number from {least} to {most}, not {x}")),
    };
    let most = MAX_TOKENS as f64;
    let pair = [whole("input_tokens", input, 1.0, most)?, whole("output_tokens", output, 1.0, most)?];
    // beyond 2^53 a float is no count
    Ok((pair, whole("count", count.unwrap_or(1.0), 0.0, 9_007_199_254_740_992.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn of(text: &str) -> Result<Histogram, String> {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(text.as_bytes()).expect("written");
        Histogram::open(file.path()).map_err(|e| e.to_string().replace(&file.path().display().to_string(), "f"))
    }

    #[test]
    fn both_forms_say_the_same() {
        let csv = of("count;\"output_tokens\";x;input_tokens\n3;10;a;100\n\n1;20.0;b;50\n2;10;c;100\n").expect("csv");
        let lines =
            "{\"input_tokens\":100,\"output_tokens\":10,\"count\":5}\n{\"input_tokens\":50,\"output_tokens\":20}\n";
        let json = of(lines).expect("jsonl");
        assert_eq!(csv.cumulative, [(1, [50, 20]), (6, [100, 10])]);
        assert_eq!(csv.cumulative, json.cumulative);
        assert_eq!((csv.entries, csv.pairs, csv.counted, json.entries), (3, 2, 6, 2));
        assert_ne!(csv.sha256, json.sha256);
    }

    #[test]
    fn pairs_come_as_often_as_they_were_counted() {
        let histogram = of("input_tokens,output_tokens,count\n1,1,1\n2,2,3\n3,3,0\n").expect("csv");
        let mut rng = Pcg64::new(7, 2);
        let draws: Vec<[u64; 2]> = (0..4000).map(|_| histogram.draw(&mut rng)).collect();
        let ones = draws.iter().filter(|d| **d == [1, 1]).count();
        // 1,000, standard deviation 27
        assert!((865..1135).contains(&ones), "{ones}");
        assert!(draws.iter().all(|d| *d != [3, 3]));
    }

    #[test]
    fn bad_files_name_the_line() {
        let said = |text: &str| of(text).expect_err("refused");
        assert!(said("a,b\n1,2\n").starts_with("f:1: no column input_tokens among a, b"), "{}", said("a,b\n1,2\n"));
        assert!(said("input_tokens,output_tokens\n1,-2\n").starts_with("f:2: output_tokens must be"));
        assert!(said("input_tokens,output_tokens\n1\n").starts_with("f:2: has no field for output_tokens"));
        assert!(said("input_tokens,output_tokens\n1.5,2\n").starts_with("f:2: input_tokens must be"));
        assert!(said("input_tokens,output_tokens,count\nx,2,1\n").contains("\"x\" is no number"));
        assert!(said("input_tokens,output_tokens,count\n1,2,0\n").contains("no row with a count"));
        assert!(said("{\"input_tokens\":1}\n").starts_with("f:1: is no JSON object with"));
        assert!(said("").ends_with("is empty"));
    }

    proptest! {
        #[test]
        fn counts_close(rows in proptest::collection::vec((1_u64..50, 1_u64..50, 0_u64..9), 1..40)) {
            let mut text = "input_tokens,output_tokens,count\n".to_owned();
            rows.iter().for_each(|(i, o, n)| text += &format!("{i},{o},{n}\n"));
            let total: u64 = rows.iter().map(|r| r.2).sum();
            match of(&text) {
                Ok(h) => {
                    prop_assert_eq!((h.counted, h.entries), (total, rows.len() as u64));
                    prop_assert_eq!(h.cumulative.last().map(|c| c.0), Some(total));
                }
                Err(_) => prop_assert_eq!(total, 0),
            }
        }

        #[test]
        fn no_file_is_too_strange(text in "[a-z_,;0-9{}\":\n.-]{0,80}") {
            let _ = of(&text);
        }
    }
}
