//! `cargo xtask vm`: the poisoned example, memory limits, an OOM kill and shares of NFS on a
//! machine with cgroup version 2 only and a kernel with NFS, which development machines and CI
//! often have not. A kernel of Debian's runs in qemu without hardware virtualization.
//!
//! Kernel, busybox and mount.nfs are taken out of their packages; nothing is installed but qemu,
//! where it is missing.

mod cpio;
mod initramfs;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::{cargo_command, run, tools};

/// How long the machine may run. Software emulation on a busy machine is slow: it boots in 3.5 s on
/// an idle one.
const RUN_MAX: Duration = Duration::from_secs(600);
/// The last line of the machine begins so.
const VERDICT: &str = "verdict: ";

/// What the machine is made of.
struct Parts {
    kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
    rekindle: PathBuf,
    scripts: PathBuf,
    examples: PathBuf,
    /// What was unpacked.
    packages: PathBuf,
}

/// Builds, boots, and fails when the verdict is not "ok".
pub(crate) fn smoke(binary: Option<PathBuf>) -> anyhow::Result<()> {
    tools::qemu()?;
    let rekindle = match binary {
        Some(binary) => binary,
        None => build()?,
    };
    let unpacked = tools::vm_packages()?;
    let parts = Parts {
        kernel: only_entry(&unpacked.join("boot"), "vmlinuz-")?,
        modules: only_entry(&unpacked.join("lib/modules"), "")?,
        busybox: unpacked.join("bin/busybox"),
        rekindle: stripped(&rekindle)?,
        scripts: tools::root().join("xtask/vm"),
        examples: tools::root().join("examples"),
        packages: unpacked,
    };
    let initramfs = tools::tools_dir()?.join("vm-initramfs");
    initramfs::write(&initramfs, &parts)?;
    match boot(&parts.kernel, &initramfs)?.as_str() {
        "ok" => Ok(()),
        verdict => bail!("cgroup version 2: {verdict}"),
    }
}

fn build() -> anyhow::Result<PathBuf> {
    run(cargo_command().args(["build", "--release", "--locked", "--package", "rekindle"]))?;
    Ok(tools::target_dir().join("release/rekindle"))
}

/// A copy without debug information, which would make most of what the machine has to load.
fn stripped(binary: &Path) -> anyhow::Result<PathBuf> {
    let copy = tools::tools_dir()?.join("vm-rekindle");
    run(Command::new("strip").arg("-o").arg(&copy).arg(binary))?;
    Ok(copy)
}

/// The entry of a folder whose name begins so.
fn only_entry(folder: &Path, beginning: &str) -> anyhow::Result<PathBuf> {
    let mut entries = std::fs::read_dir(folder)
        .with_context(|| format!("read {}", folder.display()))?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning));
    let entry = entries.next().with_context(|| format!("nothing in {}", folder.display()))?;
    Ok(entry.path())
}

/// Runs the machine, prints what it prints, and answers its verdict.
fn boot(kernel: &Path, initramfs: &Path) -> anyhow::Result<String> {
    let mut machine = Command::new(tools::QEMU)
        .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"])
        .args(["-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start qemu")?;
    let output = machine.stdout.take().context("the machine's output")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            println!("vm | {line}");
            if let Some((_, verdict)) = line.split_once(VERDICT) {
                // nobody listens any more when the time is over
                let _ = sender.send(verdict.to_owned());
            }
        }
    });
    let verdict = lines.recv_timeout(RUN_MAX);
    machine.kill().context("end qemu")?;
    machine.wait().context("wait for qemu")?;
    if reader.join().is_err() {
        bail!("reading the machine's output failed inside");
    }
    verdict.map_err(|_| anyhow::anyhow!("the machine gave no verdict in {} s", RUN_MAX.as_secs()))
}
