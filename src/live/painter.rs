//! The thread that draws. A terminal may be stopped for as long as its reader likes (Ctrl-S): then this thread waits, and
//! nothing of the campaign does.

use super::screen::Screen;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io::{Stderr, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

enum Order {
    /// Draw [`Sheet::lines`].
    Draw,
    Print(String),
}

/// What is to be drawn: the newest lines only.
#[derive(Debug, Default)]
struct Sheet {
    lines: Mutex<Vec<String>>,
    /// The thread has been told to draw, and has not looked yet.
    told: AtomicBool,
}

impl Sheet {
    fn newest(&self) -> Vec<String> {
        self.told.store(false, Ordering::SeqCst);
        self.lines.lock().map(|lines| lines.clone()).unwrap_or_default()
    }
}

/// Draws on standard error, which is a terminal.
#[derive(Debug)]
pub struct Painter {
    orders: Option<Sender<Order>>,
    sheet: Arc<Sheet>,
    thread: Option<JoinHandle<()>>,
}

/// Columns and rows of the terminal that standard error is; 80 by 24 where it does not tell.
pub fn size() -> (usize, usize) {
    let told = terminal_size::terminal_size_of(stderr());
    let (columns, rows) = told.map_or((80, 24), |(columns, rows)| (usize::from(columns.0), usize::from(rows.0)));
    // some emulators have no size at all
    if columns == 0 { (80, 24) } else { (columns, rows) }
}

impl Painter {
    /// Starts the thread, on the cores of the one that calls.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start() -> std::io::Result<Painter> {
        let (orders, told) = channel();
        let sheet = Arc::<Sheet>::default();
        let newest = Arc::clone(&sheet);
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(move || follow(&told, &newest))?;
        Ok(Painter { orders: Some(orders), sheet, thread: Some(thread) })
    }

    /// Draws these lines as soon as the terminal takes them; of several that it could not take, the last.
    pub fn draw(&self, lines: Vec<String>) {
        if let Ok(mut newest) = self.sheet.lines.lock() {
            *newest = lines;
        }
        if !self.sheet.told.swap(true, Ordering::SeqCst) {
            self.order(Order::Draw);
        }
    }

    /// Prints a line above what is drawn.
    pub fn print(&self, words: &str) {
        self.order(Order::Print(words.to_owned()));
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // the thread goes on until nobody can order anything
            let _ = orders.send(order);
        }
    }
}

impl Drop for Painter {
    /// Takes away what is drawn, once everything is printed.
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A terminal that is gone is no reason to end a measurement: what cannot be drawn is not drawn.
fn follow(orders: &Receiver<Order>, sheet: &Sheet) {
    let mut screen: Screen<Stderr> = Screen::new(stderr());
    while let Ok(order) = orders.recv() {
        if !in_foreground() {
            // a shell has the terminal: its prompt must not be drawn over
            screen.leave();
        }
        if let Order::Print(words) = order {
            let _ = screen.print(&words, size().0);
        }
        if in_foreground() {
            let _ = screen.draw(&sheet.newest(), size());
        }
    }
    if in_foreground() {
        let _ = screen.clear(size().0);
    }
}

/// Whether this process may write where it likes on its terminal. Where there is no job control, it may.
fn in_foreground() -> bool {
    tcgetpgrp(stderr()).map_or(true, |group| group == getpgrp())
}
