//! Traces as tables: CSV, the columns found by their names.

use super::fault::{AtLine, Fault, Shown};
use super::format::Format;
use super::row::{Given, Row, time, tokens};
use super::time::civil_ns;

const AZURE: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
const BURSTGPT: [&str; 3] = ["Timestamp", "Request tokens", "Response tokens"];
const MODEL: &str = "Model";

/// Where the columns stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    format: Format,
    head: usize,
    places: [usize; 3],
    class: Option<usize>,
}

/// Names of the columns that `format` must have: time, prompt, output.
pub(super) fn columns(format: Format) -> [&'static str; 3] {
    if format == Format::Burstgpt { BURSTGPT } else { AZURE }
}

/// Those of them that `head` has not.
pub(super) fn missing(head: &[String], format: Format) -> Vec<&'static str> {
    columns(format).into_iter().filter(|name| place(head, name).is_none()).collect()
}

fn place(head: &[String], name: &str) -> Option<usize> {
    head.iter().position(|column| column.trim().eq_ignore_ascii_case(name))
}

impl Table {
    /// By the header of a file of this format.
    ///
    /// # Errors
    /// A column is not there.
    pub fn of_header(line: &str, format: Format) -> Result<Table, Fault> {
        let head = fields(line)?;
        let missing = missing(&head, format);
        let found: Vec<usize> = columns(format).iter().filter_map(|name| place(&head, name)).collect();
        let Ok(places) = <[usize; 3]>::try_from(found) else {
            return Err(Fault::Columns { found: Shown::new(&head.join(", ")), format, missing: missing.join(", ") });
        };
        let class = (format == Format::Burstgpt).then(|| place(&head, MODEL)).flatten();
        Ok(Table { format, head: head.len(), places, class })
    }

    /// A row of it.
    ///
    /// # Errors
    /// What is wrong with a field.
    pub fn row(&self, number: u64, line: &str) -> Result<Row, AtLine> {
        self.fields(line).map_err(|fault| AtLine::new(number, fault))
    }

    fn fields(&self, line: &str) -> Result<Row, Fault> {
        let fields = fields(line)?;
        if fields.len() != self.head {
            return Err(Fault::Fields { has: fields.len(), head: self.head });
        }
        let [at, prompt, output] = self.places.map(|place| fields[place].as_str());
        let [at_name, prompt_name, output_name] = columns(self.format);
        let at_ns = match self.format {
            Format::Burstgpt => time(at_name, at, 9)?,
            _ => civil_ns(at).ok_or_else(|| Fault::Field {
                name: at_name,
                found: Shown::new(at),
                wanted: "a time like 2023-11-16 18:15:46.6805900",
            })?,
        };
        let output_tokens = tokens(output_name, output)?;
        Ok(Row {
            at_ns,
            class: self.class.map(|place| fields[place].trim().to_owned()),
            prompt_tokens: Some(tokens(prompt_name, prompt)?),
            output_tokens,
            // it counts what failed in the capture as a response of no tokens
            failed: self.format == Format::Burstgpt && output_tokens == 0,
            given: Given::Length,
        })
    }
}

/// The fields of a line of CSV (RFC 4180, quoted fields on one line).
pub(super) fn fields(line: &str) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        let mut field = String::new();
        let quoted = rest.trim_start().strip_prefix('"');
        rest = match quoted {
            Some(inner) => {
                let mut inner = inner;
                loop {
                    let end = inner.find('"').ok_or(Fault::Quote)?;
                    field.push_str(&inner[..end]);
                    inner = &inner[end + 1..];
                    match inner.strip_prefix('"') {
                        Some(after) => {
                            field.push('"');
                            inner = after;
                        }
                        None => break inner,
                    }
                }
            }
            None => rest,
        };
        let end = rest.find(',');
        field.push_str(&rest[..end.unwrap_or(rest.len())]);
        found.push(field);
        match end {
            Some(end) => rest = &rest[end + 1..],
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_both_formats() {
        let azure = Table::of_header("TIMESTAMP,ContextTokens,GeneratedTokens", Format::Azure).expect("a header");
        let row = azure.row(2, "2023-11-16 18:15:46.6805900,374,44").expect("a row");
        let expected = (1_700_158_546_680_590_000, Some(374), 44, false);
        assert_eq!((row.at_ns, row.prompt_tokens, row.output_tokens, row.failed), expected);
        let head = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type";
        let burst = Table::of_header(head, Format::Burstgpt).expect("a header");
        let row = burst.row(2, "45.5,3,0.2,GPT-4,472,18,490,Conversation log").expect("a row");
        assert_eq!((row.at_ns, row.class.as_deref()), (45_500_000_000, Some("GPT-4")));
        let failed = burst.row(3, "46,3,0.2,ChatGPT,472,0,472,Conversation log").expect("a row");
        assert!(failed.failed && !row.failed);
        let six =
            Table::of_header("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", Format::Burstgpt);
        let row = six.expect("a header").row(2, "5,ChatGPT,472.0,18,490,\"API log, old\"").expect("a row");
        assert_eq!((row.at_ns, row.prompt_tokens, row.output_tokens), (5_000_000_000, Some(472), 18));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let azure = Table::of_header("TIMESTAMP,ContextTokens,GeneratedTokens", Format::Azure).expect("a header");
        let said = |line: &str| azure.row(7, line).expect_err("wrong").fault.to_string();
        assert!(said("2023-11-16 18:15:46,-374,44").starts_with("ContextTokens is \"-374\""));
        assert!(said("2023-11-16 18:15:46,374,1000000001").starts_with("GeneratedTokens is \"1000000001\""));
        assert!(said("2023-11-16 18:15:46,,4").starts_with("ContextTokens is \"\""));
        assert!(said("2023-11-16 18:15:46,3.5,4").starts_with("ContextTokens is \"3.5\""));
        assert!(said("nan,374,44").contains("a time like"));
        assert_eq!(said("2023-11-16 18:15:46,374"), "it has 2 fields, the header has 3");
        assert_eq!(said("\"2023-11-16 18:15:46,374,44"), Fault::Quote.to_string());
        let burst = Table::of_header("Timestamp,Request tokens,Response tokens", Format::Burstgpt).expect("a header");
        for bad in ["inf,1,1", "NaN,1,1", ",1,1"] {
            assert!(burst.row(2, bad).is_err(), "{bad}");
        }
        let missing = Table::of_header("Timestamp,Model", Format::Burstgpt).expect_err("columns are missing");
        assert!(missing.to_string().contains("burstgpt needs Request tokens, Response tokens"), "{missing}");
    }

    proptest! {
        #[test]
        fn quoted_fields_read_back(written in prop::collection::vec("[^\r\n]{0,12}", 1..8)) {
            let quoted: Vec<String> = written.iter().map(|f| format!("\"{}\"", f.replace('"', "\"\""))).collect();
            prop_assert_eq!(fields(&quoted.join(",")), Ok(written));
        }

        #[test]
        fn any_line_is_a_row_or_a_fault(head in "[^\n]{0,80}", line in "[^\n]{0,80}") {
            for format in [Format::Azure, Format::Burstgpt] {
                let _ = Table::of_header(&head, format);
                let table = Table::of_header(&columns(format).join(","), format).expect("a header");
                let _ = table.row(1, &line);
            }
        }
    }
}
