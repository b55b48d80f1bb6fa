//! What became of a request: the first class, in a fixed order, whose mark is on it.

use super::content;
use bench_engine::record::{Ending, Timer};
use std::fmt;

/// Classes of failure, in their order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// The client ran out of descriptors, ports, memory or record blocks.
    Client,
    /// The name did not resolve.
    Dns,
    /// No TCP connection.
    Connect,
    /// No TLS session, or no longer.
    Tls,
    /// A bounded wait ran out; the text names it.
    Timeout,
    /// A redirect: never followed.
    Redirect,
    /// Any other status than 2xx.
    HttpStatus,
    /// 2xx with an error document.
    ErrorBody,
    /// A stream was asked for, a document came.
    NotStreamed,
    /// An error was reported inside the stream.
    ErrorInStream,
    /// Bytes that are not HTTP/1.1 or not an event stream.
    Protocol,
    /// The connection ended before the reply did.
    Transport,
    /// A whole reply without a token.
    NoToken,
    /// Tokens and a clean end, but neither a finish reason nor `[DONE]`.
    Truncated,
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureClass::Client => "client",
            FailureClass::Dns => "dns",
            FailureClass::Connect => "connect",
            FailureClass::Tls => "tls",
            FailureClass::Timeout => "timeout",
            FailureClass::Redirect => "redirect",
            FailureClass::HttpStatus => "http_status",
            FailureClass::ErrorBody => "error_body",
            FailureClass::NotStreamed => "not_streamed",
            FailureClass::ErrorInStream => "error_in_stream",
            FailureClass::Protocol => "protocol",
            FailureClass::Transport => "transport",
            FailureClass::NoToken => "no_token",
            FailureClass::Truncated => "truncated",
        })
    }
}

/// What the reply showed, as far as the outcome depends on it.
#[derive(Clone, Debug)]
pub struct Marks<'a> {
    /// How the exchange ended.
    pub ending: Ending,
    /// A stream was asked for.
    pub streamed: bool,
    /// Status of the final response.
    pub status: Option<u16>,
    /// `Location` of a redirect.
    pub location: Option<&'a str>,
    /// The body when it was no event stream.
    pub document: Option<&'a [u8]>,
    /// Words of the first error reported in a stream.
    pub stream_error: Option<&'a str>,
    /// `[DONE]` was read.
    pub done: bool,
    /// Events with a token.
    pub token_events: u32,
    /// A finish reason was read.
    pub finished: bool,
}

/// The failure, if it is one: its class and its words.
pub fn failure(marks: &Marks<'_>) -> Option<(FailureClass, String)> {
    let m = marks;
    let words = m.ending.to_string();
    let status = m.status.unwrap_or(0);
    let success = (200..300).contains(&status);
    match m.ending {
        Ending::Client(_) => return Some((FailureClass::Client, words)),
        Ending::NoConnection(_) => return Some((FailureClass::Connect, words)),
        Ending::Tls(_) if !m.done => return Some((FailureClass::Tls, words)),
        // after [DONE] the drain timer is not a failure of the request
        Ending::TimedOut(timer, _) if !(m.done && timer == Timer::Drain) => {
            return Some((FailureClass::Timeout, words));
        }
        _ => {}
    }
    if (300..400).contains(&status) {
        let to = m.location.unwrap_or("(no Location)");
        let text = format!("HTTP {status} to {to}: redirects are never followed; give that address as --base-url");
        return Some((FailureClass::Redirect, text));
    }
    if m.status.is_some() && !success {
        let said = m.document.map(content::error_body_words).unwrap_or_default();
        let text = if said.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {said}") };
        return Some((FailureClass::HttpStatus, text));
    }
    if let Some(body) = m.document.filter(|body| content::is_error_document(body)) {
        return Some((
            FailureClass::ErrorBody,
            format!("HTTP {status} with an error: {}", content::error_body_words(body)),
        ));
    }
    if m.streamed && success && m.document.is_some() {
        return Some((FailureClass::NotStreamed, "a stream was asked for, one JSON document came".to_owned()));
    }
    if let Some(said) = m.stream_error {
        return Some((FailureClass::ErrorInStream, said.to_owned()));
    }
    match m.ending {
        Ending::Protocol(_) if !m.done => return Some((FailureClass::Protocol, words)),
        Ending::Closed | Ending::NoCloseNotify | Ending::Broken(_) | Ending::HalfSent(_) | Ending::Unsent(_)
            if !m.done =>
        {
            return Some((FailureClass::Transport, words));
        }
        _ => {}
    }
    if m.token_events == 0 {
        return Some((FailureClass::NoToken, "the reply is complete and has no token in it".to_owned()));
    }
    if m.streamed && !m.finished && !m.done {
        return Some((
            FailureClass::Truncated,
            "the stream ended cleanly with neither a finish reason nor [DONE]".to_owned(),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_engine::wire::tls::TlsFault;

    fn marks(ending: Ending, done: bool) -> Marks<'static> {
        Marks {
            ending,
            streamed: true,
            status: done.then_some(200),
            location: None,
            document: None,
            stream_error: None,
            done,
            token_events: 1,
            finished: done,
        }
    }

    #[test]
    fn what_goes_wrong_with_tls_is_a_class_of_its_own_and_says_certificate_where_it_is_one() {
        let of = |ending, done| failure(&marks(ending, done)).map(|(class, text)| (class.to_string(), text));
        let certificates =
            [TlsFault::Expired, TlsFault::NotYetValid, TlsFault::WrongHost, TlsFault::UnknownCa, TlsFault::Revoked];
        for fault in certificates.into_iter().chain([TlsFault::ClientCertificateWanted]) {
            let (class, text) = of(Ending::Tls(fault), false).expect("a failure");
            assert!(class == "tls" && text.contains("certificate"), "{class}: {text}");
        }
        let (class, text) = of(Ending::Tls(TlsFault::CutInHandshake), false).expect("a failure");
        assert!(class == "tls" && !text.contains("certificate"), "{class}: {text}");
        let (class, text) = of(Ending::NoCloseNotify, false).expect("a failure");
        assert!(class == "transport" && text.contains("close_notify"), "{class}: {text}");
        for ending in [Ending::HalfSent(None), Ending::Unsent(Some(104))] {
            let (class, text) = of(ending, false).expect("a failure");
            assert!(class == "transport" && text.contains("request was sent"), "{class}: {text}");
        }
        for ending in [Ending::Tls(TlsFault::Undecryptable), Ending::NoCloseNotify] {
            assert_eq!(of(ending, true), None, "after [DONE] a broken end is a flag");
        }
    }
}
