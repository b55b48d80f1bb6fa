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

/// No key where one was asked for. Nothing of a key stands in it.
#[derive(Debug, Error)]
pub enum NoKey {
    /// `--api-key-env`.
    #[error("--api-key-env {0}: that variable is not set; export it, or leave the flag out")]
    Unset(String),
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
                None if *by_flag => Err(NoKey::Unset(name.clone())),
                None => Ok(None),
            },
            KeySource::File(path) => {
                let unreadable = |why| NoKey::Unreadable { path: path.clone(), why };
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
pub fn secrets(key: Option<&str>, headers: &[(String, String)]) -> Option<Secret> {
    let credentials = headers.iter().filter(|(name, _)| holds_credentials(name));
    let within = credentials.flat_map(|(_, value)| value.split([' ', '\t', ';', ',', '=']));
    let values = headers.iter().map(|(_, value)| value.as_str());
    let mut all: Vec<&str> = key.into_iter().chain(values.chain(within).filter(|value| value.len() >= 8)).collect();
    // the longest first: what is left of a whole must not keep a part from being found
    all.sort_by_key(|value| std::cmp::Reverse(value.len()));
    all.dedup();
    (!all.is_empty()).then(|| Secret::new(all.join("\n")))
}

/// By its name; of others no part is taken out, since ordinary words may be in them.
fn holds_credentials(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "key", "token", "secret"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(lines("authorization", "Bearer sk-planted-1"), ["Bearer sk-planted-1", "sk-planted-1"]);
        assert!(lines("Cookie", "a=1; session=planted-77").contains(&"planted-77".to_owned()));
        assert_eq!(lines("User-Agent", "compatible benchmark"), ["compatible benchmark"], "ordinary words stay");
        let text = "Incorrect key sk-planted-1, not Bearer sk-planted-1";
        let secret = of("Authorization", "Bearer sk-planted-1");
        assert_eq!(crate::reading::without(text, Some(&secret)), "Incorrect key [key], not [key]");
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
        let nowhere = KeySource::of(None, Some(Path::new("/nowhere/key"))).read(|_| None).expect_err("refused");
        assert!(nowhere.to_string().starts_with("--api-key-file /nowhere/key: "), "{nowhere}");
        let unset = KeySource::of(Some("NOPE"), None).read(|_| None).expect_err("refused").to_string();
        assert!(unset.contains("NOPE") && unset.contains("not set"), "{unset}");
        assert_eq!(KeySource::of(None, None).read(|_| None).expect("none asked for"), None);
    }
}
