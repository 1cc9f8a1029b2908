//! The same things done by the peers that are installed, in the same run. A peer that is absent is said to be.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::sample::Report;

const SAMPLES: usize = 10;

pub fn measure(report: &mut Report) {
    for (peer, sample) in
        [("runc", oci_sample as fn(&str) -> _), ("crun", oci_sample), ("podman", podman_sample)]
    {
        if !installed(peer) {
            report.value(
                &format!("{peer}: create + start → running"),
                "peer",
                "not installed".to_owned(),
            );
            continue;
        }
        let samples: anyhow::Result<Vec<Duration>> = (0..SAMPLES).map(|_| sample(peer)).collect();
        match samples {
            Ok(samples) => {
                report.durations(&format!("{peer}: create + start → running"), "peer", samples)
            }
            Err(error) => report.value(
                &format!("{peer}: create + start → running"),
                "peer",
                format!("failed: {error:#}"),
            ),
        }
    }
}

fn installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    })
}

/// One container of an OCI runtime with the host's root, read-only: `run --detach`, then it is gone again.
fn oci_sample(runtime: &str) -> anyhow::Result<Duration> {
    let bundle = tempfile::tempdir()?;
    std::fs::create_dir(bundle.path().join("rootfs"))?;
    quiet(Command::new(runtime).arg("spec").current_dir(bundle.path()))?;
    let config = bundle.path().join("config.json");
    let mut spec: serde_json::Value = serde_json::from_slice(&std::fs::read(&config)?)?;
    spec["root"] = serde_json::json!({"path": "/", "readonly": true});
    spec["process"]["args"] = serde_json::json!(["sleep", "1000"]);
    spec["process"]["terminal"] = false.into();
    std::fs::write(&config, spec.to_string())?;
    let name = format!(
        "rekindle-bench-{}",
        bundle.path().file_name().context("a name")?.to_string_lossy()
    );
    let start = Instant::now();
    let run = quiet(
        Command::new(runtime).args(["run", "--detach", "--bundle"]).arg(bundle.path()).arg(&name),
    );
    let took = start.elapsed();
    let _ = quiet(Command::new(runtime).args(["delete", "--force", &name]));
    run.map(|()| took)
}

/// `podman restart` of one container with the host's root.
fn podman_sample(podman: &str) -> anyhow::Result<Duration> {
    let name = "rekindle-bench";
    let _ = quiet(Command::new(podman).args(["rm", "--force", "--time", "0", name]));
    let start = Instant::now();
    let run = quiet(Command::new(podman).args([
        "run",
        "--detach",
        "--name",
        name,
        "--network",
        "none",
        "--rootfs",
        "/:O",
        "sleep",
        "1000",
    ]));
    let took = start.elapsed();
    let _ = quiet(Command::new(podman).args(["rm", "--force", "--time", "0", name]));
    run.map(|()| took)
}

fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    if !output.status.success() {
        let program = Path::new(command.get_program()).display().to_string();
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
