//! What is asked of the server, from the flags.

use super::{BadPlan, range};
use crate::cli::{Form, RunArgs};
use crate::target::openai::Api;
use crate::tokenizer::Tokenizer;
use crate::trace::captured::Captured;
use crate::workload::body::PromptField;
use crate::workload::cache::Cache;
use crate::workload::dataset::{Dataset, Format};
use crate::workload::distributions::{Law, betweens, spreads};
use crate::workload::histogram::Histogram;
use crate::workload::ids::{DEFAULT_IDS, PromptForm};
use crate::workload::jsonl::Wanted;
use crate::workload::{BadWorkload, Lengths, Workload};
use std::path::{Path, PathBuf};

/// The file is read here, once: a wrong one ends the run before anything is sent.
pub(super) fn tokenizer(path: &Path) -> Result<Tokenizer, BadPlan> {
    Tokenizer::open(path).map_err(|bad| BadPlan::Tokenizer { path: path.to_owned(), bad })
}

/// The workload; `shortened` where lengths that nobody asked for are a tenth, `drop` requests are its warm-up.
/// With `turns`, requests are so many turns of sessions, and `drop` and `kept` are numbers of these.
pub(super) fn workload(
    args: &RunArgs,
    api: Api,
    shortened: bool,
    (drop, kept): (u64, u64),
    turns: Option<[u32; 2]>,
) -> Result<Workload, BadPlan> {
    let cache = cache(args)?;
    let form = prompt_form(args, api)?;
    let lengths = lengths(args, api, cache, turns)?;
    // a length that was typed, or counted somewhere, is meant
    let is_default = matches!(lengths, Lengths::SeedMix { .. } | Lengths::Random { .. });
    let scale = args.length_scale.unwrap_or(if shortened && is_default { 0.1 } else { 1.0 });
    let workload = Workload::new(lengths, scale, args.seed.unwrap_or(7), args.max_tokens)?.with(cache, form)?;
    if let Some(dataset) = workload.lengths.dataset() {
        dataset.select(workload.seed, drop, kept).map_err(BadWorkload::Unfit)?;
    }
    Ok(workload)
}

/// What a captured trace asks for. Where it says itself what prompts share, no flag does; whole bodies are sent as they
/// are, unless something else is asked for.
pub(super) fn replayed(args: &RunArgs, captured: &Captured) -> Result<Workload, BadPlan> {
    let together = |other, why| Err(BadPlan::Together { flag: "--trace", other, why });
    let bodies = captured.facts.prompts.contains_key("bodies");
    let cache = match (&args.cache, cache(args)?) {
        (Some(_), _) if captured.shares_prefixes() => {
            return together("--cache", "its hash_ids say what prompts share; leave --cache out");
        }
        (Some(_), Cache::Repeat) => return together("--cache repeat", "a trace says what each request asks for"),
        (None, _) if bodies => Cache::AsIs,
        (_, cache) => cache,
    };
    let form = prompt_form(args, Api::of_endpoint(args.endpoint.as_deref().unwrap_or_default()))?;
    let scale = args.length_scale.unwrap_or(1.0);
    let lengths = Lengths::Trace(Box::new(captured.clone()));
    Ok(Workload::new(lengths, scale, args.seed.unwrap_or(7), args.max_tokens)?.with(cache, form)?)
}

fn cache(args: &RunArgs) -> Result<Cache, BadPlan> {
    let text = args.cache.as_deref().unwrap_or("unique");
    text.parse().map_err(|got| range("--cache", "unique, shared-prefix:N (N tokens, at least 1), repeat or as-is", got))
}

fn prompt_form(args: &RunArgs, api: Api) -> Result<PromptForm, BadPlan> {
    let ids = args.token_ids.as_deref();
    match args.prompt_form.unwrap_or(Form::Text) {
        Form::Text if ids.is_some() => Err(BadPlan::Alone { flag: "--token-ids", other: "--prompt-form ids" }),
        Form::Text => Ok(PromptForm::Text),
        Form::Ids if api == Api::Chat => {
            let why = "a chat takes no token ids; add --endpoint /v1/completions";
            Err(BadPlan::Together { flag: "--prompt-form ids", other: "a chat endpoint", why })
        }
        Form::Ids => {
            let allowed = "a range of 256 ids or more, both ends included, like 1000..10000";
            let given = ids.map(|text| text.parse().map_err(|got| range("--token-ids", allowed, got)));
            Ok(PromptForm::Ids(given.transpose()?.unwrap_or(DEFAULT_IDS)))
        }
    }
}

fn lengths(args: &RunArgs, api: Api, cache: Cache, turns: Option<[u32; 2]>) -> Result<Lengths, BadPlan> {
    let given = args.workload.as_deref().unwrap_or("seed-mix");
    let (name, rest) = given.split_once(':').map_or((given, None), |(name, rest)| (name, Some(rest)));
    let of_file = matches!(name, "histogram" | "sharegpt" | "jsonl" | "custom");
    if args.dataset_path.is_some() && !of_file {
        return Err(BadPlan::Alone { flag: "--dataset-path", other: "--workload histogram, sharegpt or jsonl" });
    }
    let path = || match (rest, &args.dataset_path) {
        (Some(_), Some(_)) => Err(BadPlan::Together {
            flag: "--dataset-path",
            other: "a file in --workload",
            why: "each names the file; leave one of them out",
        }),
        (Some(""), None) | (None, None) => Err(BadWorkload::Form {
            given: given.to_owned(),
            text: "its file is missing".to_owned(),
            example: "sharegpt:ShareGPT_V3.json, or sharegpt with --dataset-path FILE",
        }
        .into()),
        (Some(file), None) => Ok(PathBuf::from(file)),
        (None, Some(file)) => Ok(file.clone()),
    };
    let law = rest.unwrap_or_default();
    match name {
        "seed-mix" | "random" if rest.is_some() => Err(BadWorkload::Form {
            given: given.to_owned(),
            text: format!("{name} takes nothing behind its name"),
            example: "random with --random-input-len 512, or uniform:in=16..1024,out=1..256",
        }
        .into()),
        "seed-mix" => Ok(Lengths::seed_mix()),
        "random" => Ok(Lengths::Random {
            input_len: args.random_input_len.unwrap_or(1024),
            output_len: args.random_output_len.unwrap_or(128),
            range_ratio: args.random_range_ratio.unwrap_or(0.0),
        }),
        "lognormal" => {
            let (input, output) = spreads(given, law, Law::Lognormal)?;
            Ok(Lengths::Lognormal { input, output })
        }
        "normal" => {
            let (input, output) = spreads(given, law, Law::Normal)?;
            Ok(Lengths::Normal { input, output })
        }
        "uniform" => {
            let (input, output) = betweens(given, law)?;
            Ok(Lengths::Uniform { input, output })
        }
        "histogram" => Ok(Lengths::Histogram(Histogram::open(&path()?).map_err(BadWorkload::from)?)),
        "sharegpt" => {
            let format = turns.map_or(Format::ShareGpt, Format::ShareGptSessions);
            Ok(Lengths::ShareGpt(Dataset::open(&path()?, format).map_err(BadWorkload::from)?))
        }
        "jsonl" | "custom" => {
            let field = match api {
                Api::Chat => PromptField::Messages,
                Api::Completions => PromptField::Prompt,
            };
            let single = Format::Jsonl(Wanted { field, marked: cache != Cache::AsIs });
            let format = turns.map_or(single, Format::JsonlSessions);
            Ok(Lengths::Jsonl(Dataset::open(&path()?, format).map_err(BadWorkload::from)?))
        }
        _ => Err(BadWorkload::Unknown(given.to_owned()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn made(change: impl Fn(&mut RunArgs)) -> Result<Workload, String> {
        let mut args = RunArgs::default();
        change(&mut args);
        let api = Api::of_endpoint(args.endpoint.as_deref().unwrap_or("/v1/chat/completions"));
        workload(&args, api, true, (2, 10), None).map_err(|e| e.to_string())
    }

    fn named(name: &str) -> Result<Workload, String> {
        made(|a| a.workload = Some(name.to_owned()))
    }

    #[test]
    fn laws_are_read_and_mean_what_they_say() {
        let workload = named("lognormal:in=512/300[16..4096],out=128/100").expect("a law");
        assert_eq!(workload.length_scale, 1.0, "asked lengths are not shortened");
        assert_eq!(named("seed-mix").expect("a mix").length_scale, 0.1);
        let json = serde_json::to_string(&workload).expect("json");
        let expected = r#"{"name":"lognormal","input":{"mean":512.0,"sd":300.0,"at_least":16,"at_most":4096},"output":{"mean":128.0,"sd":100.0,"at_least":1,"at_most":10000000},"length_scale":1.0,"seed":7,"max_tokens":null,"cache":"unique","prompt_form":"text","generator":"pcg64 (rand_pcg)"}"#;
        assert_eq!(json, expected);
        assert!(named("normal:in=50/5,out=9").is_ok() && named("uniform:in=1..9,out=1..2").is_ok());
        assert!(named("lognormal").expect_err("refused").contains("an example: lognormal:in=512/300"));
        assert!(named("random:5").expect_err("refused").contains("takes nothing"));
        assert!(named("gauss").expect_err("refused").contains("choose seed-mix"));
    }

    #[test]
    fn files_are_named_in_one_place() {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(b"{\"prompt\":\"a\"}\n{\"prompt\":\"b c\"}\n").expect("written");
        let path = file.path().display().to_string();
        let one = named(&format!("jsonl:{path}")).expect("a file");
        let two = made(|a| (a.workload, a.dataset_path) = (Some("custom".to_owned()), Some(file.path().to_owned())));
        assert_eq!(one, two.expect("vLLM's way"));
        let json = serde_json::to_value(&one).expect("json");
        assert_eq!(
            (&json["name"], &json["entries"], &json["path"]),
            (&"jsonl".into(), &2.into(), &path.clone().into())
        );
        assert_eq!(json["sha256"].as_str().map(str::len), Some(64));
        let both = made(|a| {
            (a.workload, a.dataset_path) = (Some(format!("jsonl:{path}")), Some(file.path().to_owned()));
        });
        assert!(both.expect_err("refused").contains("leave one of them out"));
        assert!(named("sharegpt").expect_err("refused").contains("its file is missing"));
        assert!(made(|a| a.dataset_path = Some("x".into())).expect_err("refused").starts_with("--dataset-path"));
        assert!(named("jsonl:/nowhere").expect_err("refused").contains("/nowhere: cannot be read"));
        let single = made(|a| (a.workload, a.cache) = (Some("histogram:/".to_owned()), Some("repeat".to_owned())));
        assert!(single.expect_err("refused").contains("is a directory"));
    }

    #[test]
    fn forms_and_caches_are_read_and_refused() {
        let completions = |a: &mut RunArgs| a.endpoint = Some("/v1/completions".to_owned());
        let ids = made(|a| {
            completions(a);
            (a.prompt_form, a.token_ids) = (Some(Form::Ids), Some("5..900".to_owned()));
        });
        assert_eq!(serde_json::to_value(ids.expect("ids")).expect("json")["prompt_form"], "ids:5..900");
        let said = |change: fn(&mut RunArgs)| made(change).expect_err("refused");
        assert!(said(|a| a.prompt_form = Some(Form::Ids)).contains("add --endpoint /v1/completions"));
        assert!(said(|a| a.token_ids = Some("5..900".to_owned())).starts_with("--token-ids has no meaning"));
        assert!(said(|a| a.cache = Some("shared-prefix".to_owned())).starts_with("--cache must be"));
        assert!(said(|a| a.cache = Some("as-is".to_owned())).starts_with("--cache as-is cannot be"));
        let prefix = made(|a| a.cache = Some("shared-prefix:16".to_owned())).expect("a prefix");
        assert_eq!(prefix.cache, Cache::SharedPrefix { tokens: 16 });
    }
}
