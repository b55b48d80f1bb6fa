//! A host that forbids io_uring, as container runtimes do: a seccomp filter on one thread, which its threads and
//! processes inherit.

use crate::live::{RunningMock, found};
use bench_engine::io::DriverKind;
use bench_engine::io::capabilities::choose;
use calibration::mock::MockConfig;
use nix::errno::Errno;
use nix::libc::{SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::Value;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_tarebench");

/// What `f` gives on a thread on which `denied` fail with `errno`; None, and said, where filters are forbidden too.
fn without<T: Send>(denied: &[i64], errno: Errno, f: impl FnOnce() -> T + Send) -> Option<T> {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let rules = denied.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    let filtered = || match apply_filter(&program) {
        Ok(()) => Some(f()),
        Err(error) => {
            println!("SKIPPED: no seccomp filter can be set here: {error}");
            None
        }
    };
    std::thread::scope(|scope| scope.spawn(filtered).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn without_uring<T: Send>(f: impl FnOnce() -> T + Send) -> Option<T> {
    without(&[SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register], Errno::EPERM, f)
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The binary on a host without io_uring.
fn tarebench(args: &[&str]) -> Option<Output> {
    let mut command = Command::new(BINARY);
    command.args(args).env_remove("OPENAI_API_KEY");
    without_uring(move || command.output().expect("the binary runs"))
}

/// A short campaign against the built-in mock.
fn campaign<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", "--max-concurrency", "4", "--num-prompts", "20", "--drop", "2", "--windows", "1"];
    args.extend(["--min-duration", "0", "--out", out]);
    args.extend(more);
    args
}

#[test]
fn the_default_gives_way_aloud() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("run");
    let Some(done) = tarebench(&campaign(out.to_str().expect("text"), &[])) else { return };
    let err = words(&done.stderr);
    // 3 is an answer about this machine at this moment
    assert!(matches!(done.status.code(), Some(0 | 3)), "{err}{}", words(&done.stdout));
    let warnings: Vec<&str> = err.lines().filter(|l| l.contains("io_uring")).collect();
    assert_eq!(warnings.len(), 1, "said once: {err}");
    let said = warnings[0];
    assert!(said.starts_with("WARNING: io_uring is forbidden here: "), "{said}");
    assert!(said.contains("seccomp") || said.contains("io_uring_disabled"), "which of them it was: {said}");
    assert!(said.contains("the epoll driver is used instead"), "{said}");
    assert!(err.contains("harness  epoll, "), "{err}");
    let plan = std::fs::read_to_string(out.join("plan.json")).expect("a plan");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let arm = &plan["environment"]["arm"];
    assert_eq!((&arm["asked"], &arm["used"]), (&Value::Null, &Value::from("epoll")));
    assert!(arm["refused"].as_str().is_some_and(|why| said.contains(why)), "{arm}");
    let verified = Command::new(BINARY).arg("verify").arg(&out).output().expect("the binary runs");
    assert!(verified.status.success(), "{}", words(&verified.stdout));
}

#[test]
fn what_was_asked_for_by_name_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("run");
    let out = out.to_str().expect("text");
    let Some(done) = tarebench(&campaign(out, &["--arm", "uring"])) else { return };
    let err = words(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: --arm uring cannot be had here"), "{err}");
    assert!(err.contains("io_uring is forbidden here: "), "{err}");
    assert!(!std::path::Path::new(out).exists(), "nothing was begun");
    let Some(done) = tarebench(&campaign(out, &["--arm", "epoll"])) else { return };
    let err = words(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{err}");
    assert!(!err.contains("io_uring"), "nothing is amiss: {err}");
}

#[test]
fn a_probe_gives_way_as_well() {
    let mock = RunningMock::start(MockConfig { tokens: Some(3), ..MockConfig::default() });
    let url = format!("http://{}", mock.address);
    let Some(done) = tarebench(&["probe", "--base-url", &url]) else { return };
    let err = words(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{err}");
    assert!(err.contains("WARNING: io_uring is forbidden here: "), "{err}");
    let done = tarebench(&["probe", "--base-url", &url, "--arm", "uring"]).expect("there was a filter before");
    assert_eq!(done.status.code(), Some(1), "{}", words(&done.stderr));
}

#[test]
fn each_way_of_refusing_is_told_apart() {
    let refusal = |denied: &[i64], errno| {
        without(denied, errno, || choose(None).expect("no arm was named")).map(|choice| {
            assert_eq!(choice.driver, DriverKind::Epoll);
            choice.refused.expect("a reason").to_string()
        })
    };
    // where the host refuses it altogether, that is what is heard
    if found(DriverKind::Uring).is_none() {
        return;
    }
    for (denied, errno, said) in [
        (SYS_io_uring_setup, Errno::EPERM, "forbidden"),
        (SYS_io_uring_setup, Errno::ENOSYS, "no io_uring"),
        (SYS_io_uring_setup, Errno::EINVAL, "too old"),
        (SYS_io_uring_setup, Errno::ENOMEM, "cannot be set up"),
        (SYS_io_uring_register, Errno::EPERM, "forbidden"),
        (SYS_io_uring_register, Errno::EINVAL, "too old"),
        (SYS_io_uring_enter, Errno::EPERM, "forbidden"),
    ] {
        let Some(words) = refusal(&[denied], errno) else { return };
        assert!(words.contains(said), "{denied} {errno}: {words}");
    }
}

/// This suite's own tests of the real engine, in a process that may not use io_uring.
#[test]
fn the_live_tests_pass_on_such_a_host() {
    let suite = std::env::current_exe().expect("this test binary");
    let ran = without_uring(|| {
        let only = ["live::", "cases::", "allocations::", "campaigns::a_small_campaign_against_the_built_in_mock"];
        Command::new(suite).args(only).output().expect("it runs")
    });
    let Some(ran) = ran else { return };
    let out = words(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", words(&ran.stderr));
    assert!(out.contains("live::epoll::user_reports_one_byte_a_write ... ok"), "{out}");
    assert!(out.contains("a_small_campaign_against_the_built_in_mock ... ok"), "{out}");
}
