//! `--config`: flags in a file.

use std::fs;
use tarebench::cli::RunArgs;

/// The flags with those of their file, if they name one; flags win.
///
/// # Errors
/// In words: the file cannot be read, is no TOML, or has a key that is no flag.
pub fn completed(args: RunArgs) -> Result<RunArgs, String> {
    let Some(path) = &args.config else { return Ok(args) };
    let read = fs::read_to_string(path).map_err(|e| e.to_string());
    let file = read.and_then(|text| toml::from_str(&text).map_err(|e| fault(&text, &e)));
    match file {
        Ok(file) => Ok(args.over(file)),
        Err(words) => Err(format!("--config {}: {words}", path.display())),
    }
}

/// What is wrong, and in which line, without the line itself: it may hold a key.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = line.map_or_else(String::new, |line| format!("line {line}: "));
    let message = error.message();
    // what was found in place of what was expected is quoted
    let shown = match (message.find('"'), message.rfind('"')) {
        (Some(from), Some(to)) if from < to => format!("{}[not shown]{}", &message[..from], &message[to + 1..]),
        _ => message.to_owned(),
    };
    format!("{place}{}", shown.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_key_is_not_shown() {
        for text in [
            "seed = 7\napi-key = \"sk-planted\"\n",
            "seed = 7\nheader = \"Authorization=Bearer sk-planted\"\n",
            "seed = 7\nheader = [\"Authorization=Bearer sk-planted\"\n",
        ] {
            let error = toml::from_str::<RunArgs>(text).expect_err("refused");
            let said = fault(text, &error);
            assert!(!said.contains("planted") && said.starts_with("line "), "{said}");
        }
        let error = toml::from_str::<RunArgs>("seeed = 7\n").expect_err("refused");
        assert!(fault("seeed = 7\n", &error).contains("seeed"));
    }
}
