//! Pinning threads to cores, and refusing to pretend.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use thiserror::Error;

/// A thread is not where it should be.
#[derive(Debug, Error)]
pub enum PinError {
    /// The core is not among those this process may use.
    #[error("core {core} is not among the cores this process may use ({allowed:?}); choose from those with --cores")]
    NotAllowed {
        /// Asked for.
        core: usize,
        /// To choose from.
        allowed: Vec<usize>,
    },
    /// Asked, and read back otherwise.
    #[error("the thread was to run on core {core} only, but the kernel lets it run on {got:?}")]
    NotPinned {
        /// Asked for.
        core: usize,
        /// Read back.
        got: Vec<usize>,
    },
    /// The kernel does not say.
    #[error("the cores of this thread cannot be read: {0}")]
    Unknown(#[from] nix::errno::Errno),
}

/// The cores the calling thread may run on, in order.
///
/// # Errors
/// [`PinError::Unknown`].
pub fn allowed_cores() -> Result<Vec<usize>, PinError> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// Pins the calling thread to `core` and reads back that it is so.
///
/// # Errors
/// [`PinError`]: a pinned worker that is not pinned would measure something else than it says.
pub fn pin(core: usize) -> Result<(), PinError> {
    let allowed = allowed_cores()?;
    if !allowed.contains(&core) {
        return Err(PinError::NotAllowed { core, allowed });
    }
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
    let got = allowed_cores()?;
    if got == [core] { Ok(()) } else { Err(PinError::NotPinned { core, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_is_read_back_and_nonsense_refused() {
        std::thread::spawn(|| {
            let allowed = allowed_cores().expect("readable");
            pin(allowed[0]).expect("allowed");
            assert_eq!(allowed_cores().expect("readable"), [allowed[0]]);
            assert!(matches!(pin(1000), Err(PinError::NotAllowed { core: 1000, .. })));
        })
        .join()
        .expect("no panic");
    }
}
