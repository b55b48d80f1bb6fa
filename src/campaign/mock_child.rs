//! The built-in mock as a process of its own: started with its standard input held open, ended by closing it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running mock; it ends when this is dropped.
#[derive(Debug)]
pub struct MockChild {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub base_url: String,
}

/// How long a mock may take to write the rest of its log.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// What the mock prints before its address.
pub const LISTENING: &str = "mock: listening on ";

impl MockChild {
    /// Starts this very binary as `mock` on `core`, with its truth log at `truth`. It is in a process group of
    /// its own, so that Ctrl-C at a terminal reaches the campaign only.
    ///
    /// # Errors
    /// The mock's own words, or why it could not be started.
    pub fn start(core: Option<usize>, truth: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?), core, truth, flags)
    }

    /// The same, without the environment variable `hidden`.
    ///
    /// # Errors
    /// As for [`MockChild::start`].
    pub fn start_without(hidden: &str, core: Option<usize>, truth: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env_remove(hidden);
        Self::spawn(command, core, truth, flags)
    }

    fn spawn(mut command: Command, core: Option<usize>, truth: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        command.args(["mock", "--until-stdin-closes", "--truth"]).arg(truth).args(flags);
        if let Some(core) = core {
            command.arg("--core").arg(core.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let Some(address) = line.trim().strip_prefix(LISTENING) else {
            let status = child.wait()?;
            anyhow::bail!("the built-in mock did not start ({status}); its message is above");
        };
        Ok(MockChild { child, base_url: format!("http://{address}") })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes its standard input and waits until its truth log is written.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
        // stopped, or stuck on its disk: what the client measured must not wait for it
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for MockChild {
    fn drop(&mut self) {
        self.end();
    }
}
