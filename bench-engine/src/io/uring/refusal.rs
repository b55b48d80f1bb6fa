//! Why there is no ring, in words that say what can be done.

use std::io;
use thiserror::Error;

/// Why there is no ring.
#[derive(Debug, Error)]
pub enum RingError {
    /// Turned off for this process.
    #[error("io_uring is forbidden here: {0}")]
    Forbidden(&'static str),
    /// The kernel has none, or hides it.
    #[error("this kernel has no io_uring, or a seccomp filter hides it (io_uring_setup: ENOSYS)")]
    Missing,
    /// The kernel lacks a flag that is needed.
    #[error("this kernel's io_uring is too old: Linux 6.1 or newer is needed ({0})")]
    TooOld(io::Error),
    /// Anything else.
    #[error("io_uring cannot be set up: {0}")]
    Io(io::Error),
}

impl RingError {
    /// Old kernels know no buffer rings; anything else stands in the way of a ring as such.
    pub(super) fn from_register(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::ENOMEM) => RingError::from_setup(error),
            _ => RingError::TooOld(error),
        }
    }

    /// Behind what setting it up or entering it failed with.
    pub(super) fn from_setup(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) => {
                let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
                RingError::Forbidden(match disabled.trim() {
                    "2" => "kernel.io_uring_disabled is 2; an administrator can set it to 0 with sysctl",
                    "1" => "kernel.io_uring_disabled is 1, which allows only privileged processes",
                    _ => {
                        "a seccomp filter denies it, as container runtimes do by default; \
                          run the container with a profile that allows io_uring_setup, io_uring_enter, io_uring_register"
                    }
                })
            }
            Some(libc::ENOSYS) => RingError::Missing,
            Some(libc::EINVAL) => RingError::TooOld(error),
            _ => RingError::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_a_ring_is_said() {
        let words = |errno: i32| RingError::from_setup(io::Error::from_raw_os_error(errno)).to_string();
        let forbidden = words(libc::EPERM);
        assert!(forbidden.starts_with("io_uring is forbidden here"), "{forbidden}");
        // which of the two it is depends on this host; either way it says what can be done
        assert!(forbidden.contains("io_uring_disabled") || forbidden.contains("seccomp"), "{forbidden}");
        let missing = words(libc::ENOSYS);
        assert!(missing.contains("no io_uring") && missing.contains("ENOSYS"), "{missing}");
        let old = words(libc::EINVAL);
        assert!(old.contains("Linux 6.1"), "{old}");
        let other = words(libc::ENOMEM);
        assert!(other.contains("cannot be set up") && other.contains("memory"), "{other}");
    }
}
