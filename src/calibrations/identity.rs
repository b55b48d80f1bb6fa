//! What a calibration holds for: this host, this build, this way of running the harness.

use bench_engine::io::capabilities::Capabilities;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// The host, as far as it decides what the harness costs. Unknown is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Node name.
    pub name: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub machine: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online, as the kernel lists them.
    pub cpus_online: Option<String>,
    /// Source of the clocks.
    pub clocksource: Option<String>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
}

impl Host {
    /// From the facts that a run records about its host.
    pub fn of(facts: &Value) -> Host {
        let text = |key: &str| facts[key].as_str().map(str::to_owned);
        Host {
            name: text("host"),
            kernel: text("kernel"),
            machine: text("machine"),
            cpu_model: text("cpu_model"),
            cpus_online: text("cpus_online"),
            clocksource: text("clocksource"),
            governor: text("governor"),
        }
    }
}

/// How the harness ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// `io_uring` or `epoll`.
    pub arm: String,
    /// `kernel` or `user`.
    pub stamps: String,
    /// Cores of the workers, in order: as many workers as entries.
    pub cores: Vec<usize>,
    /// Core of control and records; null when they share the workers'.
    pub control_core: Option<usize>,
    /// Whether the workers never slept.
    #[serde(default)]
    pub spin: bool,
    /// Whether the connections were TLS.
    pub tls: bool,
    /// First 16 hex digits of the SHA-256 of the binary.
    pub binary: String,
}

impl Config {
    /// Of this binary, with workers and control on these cores; over TLS or not.
    ///
    /// # Errors
    /// The binary cannot be read.
    pub fn of(
        harness: &Capabilities,
        workers: &[usize],
        control: Option<usize>,
        spin: bool,
        tls: bool,
    ) -> io::Result<Config> {
        Ok(Config {
            arm: harness.driver.to_string(),
            stamps: if harness.stamps { "kernel" } else { "user" }.to_owned(),
            cores: workers.to_vec(),
            control_core: control,
            spin,
            tls,
            binary: binary_digest()?,
        })
    }
}

/// First 16 hex digits of the SHA-256 of the running binary.
///
/// # Errors
/// The binary cannot be read.
pub fn binary_digest() -> io::Result<String> {
    let mut binary = std::fs::File::open("/proc/self/exe")?;
    let (mut digest, mut block) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match binary.read(&mut block)? {
            0 => return Ok(crate::workload::hex(&digest.finalize())[..16].to_owned()),
            n => digest.update(&block[..n]),
        }
    }
}

/// Every way in which `now` is not what was calibrated, in words. Empty: the calibration holds.
pub fn differences(calibrated: (&Host, &Config), now: (&Host, &Config)) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, then: Option<String>, now: Option<String>| {
        if then != now {
            let word = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            found.push(format!("{what}: calibrated {}, here {}", word(then), word(now)));
        }
    };
    let cores = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let ((h1, c1), (h2, c2)) = (calibrated, now);
    compare("host", h1.name.clone(), h2.name.clone());
    compare("kernel", h1.kernel.clone(), h2.kernel.clone());
    compare("CPU", h1.cpu_model.clone(), h2.cpu_model.clone());
    compare("CPUs online", h1.cpus_online.clone(), h2.cpus_online.clone());
    compare("clock source", h1.clocksource.clone(), h2.clocksource.clone());
    compare("governor", h1.governor.clone(), h2.governor.clone());
    compare("arm", Some(c1.arm.clone()), Some(c2.arm.clone()));
    compare("stamps", Some(c1.stamps.clone()), Some(c2.stamps.clone()));
    compare("worker cores", Some(cores(&c1.cores)), Some(cores(&c2.cores)));
    let control = |core: Option<usize>| Some(core.map_or_else(|| "none".to_owned(), |core| core.to_string()));
    compare("control core", control(c1.control_core), control(c2.control_core));
    compare("spinning workers", Some(c1.spin.to_string()), Some(c2.spin.to_string()));
    compare("TLS", Some(c1.tls.to_string()), Some(c2.tls.to_string()));
    compare("binary", Some(c1.binary.clone()), Some(c2.binary.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            arm: "uring".to_owned(),
            stamps: "kernel".to_owned(),
            cores: vec![0],
            control_core: Some(1),
            spin: false,
            tls: false,
            binary: "00".to_owned(),
        }
    }

    #[test]
    fn the_same_differs_in_nothing_and_each_change_is_named() {
        let host = Host::of(&serde_json::json!({"host": "a", "kernel": "6.1"}));
        let base = config();
        assert_eq!(differences((&host, &base), (&host, &base)), Vec::<String>::new());
        let other = Host { kernel: None, ..host.clone() };
        assert!(differences((&host, &base), (&other, &base))[0].starts_with("kernel: calibrated "));
        let changed = Config { arm: "epoll".to_owned(), cores: vec![0, 1], control_core: None, ..base.clone() };
        let words = differences((&host, &base), (&host, &changed));
        assert_eq!(
            words,
            [
                "arm: calibrated uring, here epoll",
                "worker cores: calibrated 0, here 0,1",
                "control core: calibrated 1, here none"
            ]
        );
    }

    #[test]
    fn the_binary_has_a_digest() {
        let digest = binary_digest().expect("readable");
        assert_eq!(digest.len(), 16);
        assert_eq!(binary_digest().expect("readable"), digest);
    }
}
