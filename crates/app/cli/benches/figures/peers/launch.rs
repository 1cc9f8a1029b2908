//! Running a peer's program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// crun refuses machines where the unified cgroup tree beside version 1 has controllers: it runs in
/// a mount namespace without that tree. Costs about 2 ms.
const WITHOUT_UNIFIED: &str = "umount /sys/fs/cgroup/unified; exec \"$@\"";

/// Whether a program can be found.
pub fn installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    })
}

/// A command, on hybrid machines in a mount namespace where only cgroup version 1 is to be seen.
pub fn command_of_crun(program: &str) -> Command {
    if !Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", WITHOUT_UNIFIED, "sh", program]);
    command
}

/// Runs a command to its end; a failure has what it said. Its output goes to a file, because the
/// container that it leaves behind holds it open.
pub fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let mut said = tempfile::tempfile().context("make a file")?;
    let errors = said.try_clone().context("share a file")?;
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .status()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    if !status.success() {
        use std::io::{Read, Seek};
        let mut text = String::new();
        said.rewind()?;
        said.read_to_string(&mut text)?;
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        bail!("{} {}: {}", command.get_program().display(), arguments.join(" "), text.trim());
    }
    Ok(())
}
