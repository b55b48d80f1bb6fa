//! The truth log's file, written by a thread of its own: a disk that is slow delays no deadline.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

/// Blocks that may be on their way to the file.
const BLOCKS: usize = 64;

/// How far the file is complete: bytes up to the end of the last whole line.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<AtomicU64>);

impl Written {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The way to the file.
#[derive(Debug)]
pub(super) struct LogFile {
    blocks: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    written: Written,
}

impl LogFile {
    /// # Errors
    /// The thread could not be started.
    pub(super) fn new(file: File) -> io::Result<LogFile> {
        let (blocks, full) = sync_channel::<Vec<u8>>(BLOCKS);
        let (give_back, empty) = channel();
        let written = Written::default();
        let mark = written.clone();
        let writer = std::thread::Builder::new().name("truth-log".to_owned()).spawn(move || {
            let mut file = file;
            let mut at = 0;
            for mut block in full {
                file.write_all(&block)?;
                if let Some(end) = block.iter().rposition(|byte| *byte == b'\n') {
                    mark.0.store(at + end as u64 + 1, Ordering::Release);
                }
                at += block.len() as u64;
                block.clear();
                // nobody takes it back at the very end
                let _ = give_back.send(block);
            }
            Ok(())
        })?;
        Ok(LogFile { blocks: Some(blocks), empty, writer: Some(writer), written })
    }

    /// Where to read how far the file is.
    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    /// Hands `text` over and empties it, unless the writer is too far behind: then false. `wait` waits for it.
    ///
    /// # Errors
    /// What befell the writer.
    pub(super) fn hand_over(&mut self, text: &mut Vec<u8>, wait: bool) -> io::Result<bool> {
        let Some(blocks) = &self.blocks else { return Ok(false) };
        let full = std::mem::replace(text, self.empty.try_recv().unwrap_or_default());
        if wait {
            return blocks.send(full).map(|()| true).or_else(|_| self.end().map(|()| false));
        }
        match blocks.try_send(full) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(full)) => {
                *text = full;
                Ok(false)
            }
            Err(TrySendError::Disconnected(_)) => self.end().map(|()| false),
        }
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// What befell the writer.
    pub(super) fn end(&mut self) -> io::Result<()> {
        drop(self.blocks.take());
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the log has panicked")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn only_whole_lines_count_as_written() {
        let path = std::env::temp_dir().join(format!("tarebench-log-file-{}.txt", std::process::id()));
        let mut log = LogFile::new(File::create(&path).unwrap()).unwrap();
        let written = log.written();
        for part in ["one\ntw", "o\n", "thr", "ee"] {
            let mut text = part.as_bytes().to_vec();
            assert!(log.hand_over(&mut text, true).unwrap());
            assert!(text.is_empty());
        }
        log.end().unwrap();
        assert_eq!(written.bytes(), 8);
        let mut all = String::new();
        File::open(&path).unwrap().read_to_string(&mut all).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(all, "one\ntwo\nthree");
    }

    #[test]
    fn a_file_that_takes_nothing_is_reported() {
        let mut log = LogFile::new(File::options().write(true).open("/dev/full").unwrap()).unwrap();
        let mut ended = Ok(true);
        for _ in 0..1000 {
            ended = log.hand_over(&mut b"x\n".to_vec(), true);
            if ended.is_err() {
                break;
            }
        }
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
