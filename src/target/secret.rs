//! What must not be shown: keys, and the values of the user's own headers. They are wiped from memory when they are no longer
//! needed, and nothing that prints for debugging prints them. The bytes of prepared requests hold them too: those are shared
//! with the kernel, and are freed without being wiped.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// No key is longer, bytes.
const LONGEST_KEY: u64 = 64 * 1024;

/// A text that is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text over.
    pub fn new(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }
}

impl Deref for Secret {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// Request headers: names, and values that are wiped when they are dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Takes headers over, in their order.
    pub fn new(fields: Vec<(String, String)>) -> Self {
        Headers(fields)
    }

    /// These, and `Authorization` with a key, unless one was given here.
    pub fn with_key(&self, key: Option<&Secret>) -> Self {
        let mut all = self.clone();
        let own = self.0.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let (Some(key), false) = (key, own) {
            all.0.push(("Authorization".to_owned(), format!("Bearer {}", &**key)));
        }
        all
    }
}

impl Deref for Headers {
    type Target = [(String, String)];
    fn deref(&self) -> &[(String, String)] {
        &self.0
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, value)| value.zeroize());
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Where the API key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In this environment variable, and whether that was asked for by name.
    Variable(String, bool),
    /// In this file.
    File(PathBuf),
}

/// No key where one was asked for. Nothing of a key stands in it: nor what was given to these flags where it leads to
/// nothing, since people give the key itself.
#[derive(Debug, Error)]
pub enum NoKey {
    /// `--api-key-env`.
    #[error(
        "--api-key-env wants the name of an environment variable that holds the key, like OPENAI_API_KEY, not the key itself: \
         no variable of the name that was given is set (it is not repeated here, since it may be a key); export it, or leave \
         the flag out"
    )]
    Unset,
    /// `--api-key-file` that is not there.
    #[error(
        "--api-key-file wants the path of a file that holds the key, not the key itself: there is no file of the name that \
         was given (it is not repeated here, since it may be a key)"
    )]
    NoFile,
    /// `--api-key-file` that cannot be read.
    #[error("--api-key-file {}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The system's words.
        why: io::Error,
    },
    /// `--api-key-file` with something else in it.
    #[error("--api-key-file {}: the file must hold the key on a line of its own, and nothing else", .0.display())]
    NotAKey(PathBuf),
}

impl KeySource {
    /// From the flags. The default is the variable `OPENAI_API_KEY`.
    pub fn of(variable: Option<&str>, file: Option<&Path>) -> Self {
        match (variable, file) {
            (_, Some(file)) => KeySource::File(file.to_owned()),
            (Some(name), None) => KeySource::Variable(name.to_owned(), true),
            (None, None) => KeySource::Variable("OPENAI_API_KEY".to_owned(), false),
        }
    }

    /// It was asked for.
    pub fn by_flag(&self) -> bool {
        !matches!(self, KeySource::Variable(_, false))
    }

    /// The variable that holds a key, whether this one is used or not.
    pub fn variable(&self) -> &str {
        match self {
            KeySource::Variable(name, _) => name,
            KeySource::File(_) => "OPENAI_API_KEY",
        }
    }

    /// The key. None: there is none, and none was asked for.
    ///
    /// # Errors
    /// [`NoKey`].
    pub fn read(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, NoKey> {
        match self {
            KeySource::Variable(name, by_flag) => match environment(name).filter(|key| !key.is_empty()) {
                Some(key) => Ok(Some(Secret::new(key))),
                None if *by_flag => Err(NoKey::Unset),
                None => Ok(None),
            },
            KeySource::File(path) => {
                let unreadable = |why| match path.symlink_metadata() {
                    Ok(_) => NoKey::Unreadable { path: path.clone(), why },
                    Err(_) => NoKey::NoFile,
                };
                let not_a_key = || NoKey::NotAKey(path.clone());
                if std::fs::metadata(path).map_err(unreadable)?.len() > LONGEST_KEY {
                    return Err(not_a_key());
                }
                let bytes = Zeroizing::new(std::fs::read(path).map_err(unreadable)?);
                let key = std::str::from_utf8(&bytes).map_err(|_| not_a_key())?.trim_end_matches(['\r', '\n']);
                if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
                    return Err(not_a_key());
                }
                Ok(Some(Secret::new(key.to_owned())))
            }
        }
    }
}

impl fmt::Display for KeySource {
    /// `$NAME`, or the file's path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Variable(name, _) => write!(f, "${name}"),
            KeySource::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How well the way to a server is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It does not leave this host.
    Loopback,
    /// TLS to a server that was verified.
    Verified,
    /// TLS to whoever answered (`--insecure`).
    Unverified,
    /// Plain HTTP to another host.
    Open,
}

/// Whether a key goes out, and what is to be said about it. A key is sent to another host only over TLS to a server that
/// was verified, unless it was asked for by name.
pub fn key_policy(source: &KeySource, is_set: bool, way: Way) -> (bool, Option<String>) {
    let risk = match way {
        Way::Loopback | Way::Verified => None,
        Way::Unverified => Some("nobody has verified the server (--insecure)"),
        Way::Open => Some("the connection is plain http"),
    };
    match (source.by_flag(), is_set, risk) {
        (true, _, _) => (true, Some(format!("Authorization: Bearer is sent, from {source}"))),
        (false, true, None) => {
            (true, Some(format!("Authorization: Bearer is sent, from {source} (the default; unset it to send none)")))
        }
        (false, true, Some(risk)) => {
            let name = source.variable();
            (false, Some(format!("{source} is set but NOT sent: {risk}; --api-key-env {name} sends it")))
        }
        (false, false, _) => (false, None),
    }
}

/// What must not appear in any record, one a line: the key, and the values of the user's own headers; of those that hold
/// credentials also what stands in them by itself, like the token after `Bearer`. Values of fewer than eight characters
/// keep no secret, and taking them out would garble ordinary words.
///
/// Each is there in base64 too, in the standard alphabet and in that of URLs, by itself and behind `Bearer `. As a part of
/// something longer that was coded as a whole, like `user:key`, it is not found.
pub fn secrets(key: Option<&str>, headers: &[(String, String)]) -> Option<Secret> {
    let credentials = headers.iter().filter(|(name, _)| holds_credentials(name));
    let within = credentials.flat_map(|(_, value)| value.split([' ', '\t', ';', ',', '=']));
    let values = headers.iter().map(|(_, value)| value.as_str());
    let plain: Vec<&str> = key.into_iter().chain(values.chain(within).filter(|value| value.len() >= 8)).collect();
    let sent = Zeroizing::new(key.map_or_else(String::new, |key| format!("Bearer {key}")));
    let whole = plain.iter().copied().chain([sent.as_str()]).filter(|secret| secret.len() >= 6);
    let in_both = |secret: &str| [BASE64, BASE64_OF_URLS].map(|of| base64(secret.as_bytes(), of));
    let coded: Zeroizing<Vec<String>> = Zeroizing::new(whole.flat_map(in_both).collect());
    let mut all: Vec<&str> = plain.into_iter().chain(coded.iter().map(String::as_str)).collect();
    // the longest first: what is left of a whole must not keep a part from being found
    all.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    all.dedup();
    (!all.is_empty()).then(|| Secret::new(all.join("\n")))
}

/// RFC 4648, 4.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// RFC 4648, 5.
const BASE64_OF_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Without the padding at its end, which says nothing of a secret.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let of_group = |group: &[u8]| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        (0..=group.len()).map(move |at| char::from(alphabet[(bits >> (18 - 6 * at)) as usize & 63]))
    };
    bytes.chunks(3).flat_map(of_group).collect()
}

/// By its name; of others no part is taken out, since ordinary words may be in them.
fn holds_credentials(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "key", "token", "secret"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::without;
    use std::io::Write;

    fn variable(by_flag: bool) -> KeySource {
        KeySource::Variable("K".to_owned(), by_flag)
    }

    #[test]
    fn a_key_never_leaves_unasked_to_a_server_that_is_not_known() {
        for (way, sent) in [(Way::Loopback, true), (Way::Verified, true), (Way::Unverified, false), (Way::Open, false)]
        {
            let (goes, said) = key_policy(&variable(false), true, way);
            assert_eq!(goes, sent, "{way:?}");
            assert_eq!(said.expect("said aloud").contains("NOT sent"), !sent);
            assert!(key_policy(&variable(true), true, way).0, "asked for by name");
            assert_eq!(key_policy(&variable(false), false, way), (false, None));
        }
    }

    #[test]
    fn a_token_is_a_secret_without_its_scheme() {
        let of = |name: &str, value: &str| secrets(None, &[(name.to_owned(), value.to_owned())]).expect("some");
        let lines = |name: &str, value: &str| of(name, value).lines().map(str::to_owned).collect::<Vec<_>>();
        let authorization = lines("authorization", "Bearer sk-planted-1");
        assert!(["Bearer sk-planted-1", "sk-planted-1"].iter().all(|part| authorization.contains(&(*part).to_owned())));
        assert!(lines("Cookie", "a=1; session=planted-77").contains(&"planted-77".to_owned()));
        assert!(!lines("User-Agent", "compatible benchmark").contains(&"benchmark".to_owned()), "ordinary words stay");
        let text = "Incorrect key sk-planted-1, not Bearer sk-planted-1";
        let secret = of("Authorization", "Bearer sk-planted-1");
        assert_eq!(without(text, Some(&secret)), "Incorrect key [key], not [key]");
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")]
        {
            assert_eq!(base64(plain.as_bytes(), BASE64), coded);
        }
        assert_eq!(
            (base64(b"\xfb\xff", BASE64), base64(b"\xfb\xff", BASE64_OF_URLS)),
            ("+/8".to_owned(), "-_8".to_owned())
        );
    }

    #[test]
    fn a_key_is_found_in_base64() {
        let key = "sk-pl?nted+1>";
        let secret = secrets(Some(key), &[]).expect("some");
        let clean = |text: &str| without(text, Some(&secret));
        for of in [BASE64, BASE64_OF_URLS] {
            for sent in [key.to_owned(), format!("Bearer {key}")] {
                let coded = base64(sent.as_bytes(), of);
                assert_eq!(clean(&format!("\"{coded}==\"")), "\"[key]==\"");
                assert_eq!(clean(&coded.replace('+', "%2B").replace('/', "%2f")), "[key]");
            }
        }
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_repeated() {
        for key in ["sk-planted-1234", "planted_1234", "sk-planted=1/2", &"planted".repeat(999)] {
            let of_variable = KeySource::of(Some(key), None).read(|_| None).expect_err("refused").to_string();
            assert!(
                of_variable.starts_with("--api-key-env wants the name of an environment variable"),
                "{of_variable}"
            );
            let of_file = KeySource::of(None, Some(Path::new(key))).read(|_| None).expect_err("refused").to_string();
            assert!(of_file.starts_with("--api-key-file wants the path of a file"), "{of_file}");
            assert!(!of_variable.contains("planted") && !of_file.contains("planted"), "{of_variable} {of_file}");
        }
    }

    #[test]
    fn keys_are_in_no_debug_output() {
        let key = Secret::new("sk-planted-1234".to_owned());
        let headers = Headers::new(vec![("X-Api-Key".to_owned(), "sk-planted-5678".to_owned())]).with_key(Some(&key));
        assert_eq!(headers[1], ("Authorization".to_owned(), "Bearer sk-planted-1234".to_owned()));
        let own = Headers::new(vec![("authorization".to_owned(), "Basic x".to_owned())]);
        assert_eq!(own.with_key(Some(&key)), own, "what was asked for stands");
        let shown = format!("{key:?} {headers:?} {:?}", secrets(Some(&key), &headers));
        assert!(!shown.contains("planted") && shown.contains("X-Api-Key"), "{shown}");
    }

    #[test]
    fn a_file_holds_a_key_and_nothing_else() {
        let read = |bytes: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().expect("file");
            file.write_all(bytes).expect("written");
            KeySource::of(None, Some(file.path())).read(|_| None)
        };
        assert_eq!(read(b"sk-planted\n").expect("a key").as_deref(), Some("sk-planted"));
        assert_eq!(read(b"sk-planted\r\n").expect("a key").as_deref(), Some("sk-planted"));
        for wrong in [&b""[..], b"\n", b"sk-planted\nsk-planted\n", b"sk planted", b"\xff\xfe", &[b'k'; 70_000]] {
            let said = read(wrong).expect_err("refused").to_string();
            assert!(said.starts_with("--api-key-file ") && !said.contains("planted"), "{said}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let not_readable = KeySource::of(None, Some(dir.path())).read(|_| None).expect_err("refused").to_string();
        assert!(not_readable.starts_with(&format!("--api-key-file {}: ", dir.path().display())), "{not_readable}");
        assert_eq!(KeySource::of(None, None).read(|_| None).expect("none asked for"), None);
    }
}
