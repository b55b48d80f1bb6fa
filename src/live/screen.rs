//! Lines that stand at the end of a terminal's output and are drawn over again and again. Everything else that is printed
//! goes above them.

use super::line::columns;
use std::io::{self, Write};

/// Where lines are drawn. The cursor rests at the beginning of the line below them, so that whatever is written there by
/// somebody else, or the end of the process, leaves them whole.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    /// Columns of each line that stands there.
    drawn: Vec<usize>,
}

impl<W: Write> Screen<W> {
    /// Nothing is drawn yet.
    pub fn new(out: W) -> Screen<W> {
        Screen { out, drawn: Vec::new() }
    }

    /// Draws `lines` in place of those that stand there, in one write. `size`: columns and rows of the terminal now. Each
    /// line must be narrower than that; those for which there is no row are left out.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, lines: &[String], size: (usize, usize)) -> io::Result<()> {
        let (width, height) = size;
        let mut frame = self.back_to_the_top(width);
        let shown = &lines[..lines.len().min(height.saturating_sub(1))];
        for line in shown {
            // to the end of the line: what stood there may have been longer
            frame.push_str(&format!("{line}\x1b[K\r\n"));
        }
        frame.push_str("\x1b[J");
        self.drawn = shown.iter().map(|line| columns(&without_colors(line))).collect();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Takes away what stands there. The cursor is where the first line began.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn clear(&mut self, width: usize) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        let frame = self.back_to_the_top(width) + "\x1b[J";
        self.drawn.clear();
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Prints a line above: what stands there is taken away for it, and must be drawn again.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn print(&mut self, words: &str, width: usize) -> io::Result<()> {
        self.clear(width)?;
        writeln!(self.out, "{words}")?;
        self.out.flush()
    }

    /// Forgets what stands there: somebody else writes now.
    pub fn leave(&mut self) {
        self.drawn.clear();
    }

    /// To the beginning of the first line. A terminal that has become narrower has broken the lines that are too long
    /// for it now, as all but a few old ones do.
    fn back_to_the_top(&self, width: usize) -> String {
        let rows: usize = self.drawn.iter().map(|columns| columns.div_ceil(width.max(1)).max(1)).sum();
        if rows == 0 { "\r".to_owned() } else { format!("\r\x1b[{rows}A") }
    }
}

/// A line without its colours.
fn without_colors(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (usize, usize) = (80, 24);

    fn drawn(screen: &mut Screen<Vec<u8>>, lines: &[&str], size: (usize, usize)) -> String {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        screen.draw(&lines, size).expect("memory");
        written(screen)
    }

    fn written(screen: &mut Screen<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut screen.out)).expect("text")
    }

    #[test]
    fn a_frame_takes_the_place_of_the_one_before() {
        let mut screen = Screen::new(Vec::new());
        assert_eq!(drawn(&mut screen, &["one", "two"], SIZE), "\rone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        assert_eq!(drawn(&mut screen, &["three"], SIZE), "\r\x1b[2Athree\x1b[K\r\n\x1b[J");
        screen.clear(SIZE.0).expect("memory");
        assert_eq!(written(&mut screen), "\r\x1b[1A\x1b[J");
        screen.clear(SIZE.0).expect("memory");
        assert_eq!(written(&mut screen), "", "nothing stands there any more");
    }

    #[test]
    fn what_is_printed_goes_above() {
        let mut screen = Screen::new(Vec::new());
        drawn(&mut screen, &["one", "two"], SIZE);
        screen.print("WARNING: x", SIZE.0).expect("memory");
        assert_eq!(written(&mut screen), "\r\x1b[2A\x1b[JWARNING: x\n");
        assert_eq!(drawn(&mut screen, &["one"], SIZE), "\rone\x1b[K\r\n\x1b[J");
    }

    #[test]
    fn a_terminal_that_became_narrower_has_broken_the_lines() {
        let mut screen = Screen::new(Vec::new());
        // 25, 10 and 0 columns: three, one and one row of ten
        let colored = format!("\x1b[31m{}\x1b[0m", "a".repeat(25));
        drawn(&mut screen, &[&colored, "模型模型模", ""], SIZE);
        assert_eq!(drawn(&mut screen, &["x"], (10, 24)), "\r\x1b[5Ax\x1b[K\r\n\x1b[J");
    }

    #[test]
    fn a_low_terminal_has_the_first_lines() {
        let mut screen = Screen::new(Vec::new());
        assert_eq!(drawn(&mut screen, &["one", "two", "three"], (80, 3)), "\rone\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
        assert_eq!(drawn(&mut screen, &["one"], (80, 0)), "\r\x1b[2A\x1b[J");
    }

    #[test]
    fn what_somebody_else_wrote_is_left_alone() {
        let mut screen = Screen::new(Vec::new());
        drawn(&mut screen, &["one"], SIZE);
        screen.leave();
        screen.clear(SIZE.0).expect("memory");
        assert_eq!(written(&mut screen), "");
    }
}
