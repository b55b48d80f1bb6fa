//! SHA-256 of the files of a run directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::workload::hex;

/// SHA-256 of a file, hex.
///
/// # Errors
/// It is not there, cannot be read, or is a device, which may have no end.
pub fn of_file(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (mut file, mut digest, mut block) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&digest.finalize())),
            n => digest.update(&block[..n]),
        }
    }
}
