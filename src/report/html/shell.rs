//! What every page stands in: head, style, script, and the rule that nothing else is fetched or run.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A page; `title` is text of its browser tab.
pub(super) fn page(title: &str, header: &Markup, main: &Markup) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'",
        base64(&Sha256::digest(SCRIPT))
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#content" { "Skip to the findings" }
                header { (header) }
                main id="content" { (main) }
                footer { p class="note" { "Made by tarebench from the files named above; nothing in this page is fetched from anywhere." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    lean(page.into_string())
}

/// Turns the page's colours over; it stands in `#tools`, which the script shows.
pub(super) fn theme_button() -> Markup {
    html! { button type="button" id="theme" { "Light or dark" } }
}

/// End tags that HTML lets one leave out: a tenth of the page. In text the signs are escaped, so none is met there.
fn lean(page: String) -> String {
    ["</td>", "</th>", "</tr>", "</li>", "</dt>", "</dd>"].iter().fold(page, |page, tag| page.replace(tag, ""))
}

/// Base 64 with padding, RFC 4648 section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > three.len() { '=' } else { char::from(digit) });
        }
    }
    out
}
