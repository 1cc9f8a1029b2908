//! Keeps the cores from sleeping, for what is measured by itself: in a virtual machine a core that sleeps wakes up only when the host
//! gets to it, and that takes longer than what is measured. `idle=poll` on the kernel's command line does the same.

use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// Processes that run only where nobody else wants to (SCHED_IDLE), one for each core; ended when this is dropped.
pub struct Awake {
    spinners: Vec<Child>,
}

impl Awake {
    pub fn keep() -> anyhow::Result<Self> {
        let mut awake = Self { spinners: Vec::new() };
        for _ in 0..std::thread::available_parallelism()?.get() {
            let spinner = Command::new("chrt")
                .args(["--idle", "0", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .context("run chrt")?;
            awake.spinners.push(spinner);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for spinner in &mut self.spinners {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}
