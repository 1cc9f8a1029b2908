//! The command: where it is found, and what its failure is called.

use std::ffi::CString;

use rustix::io::Errno;

use crate::problem::errno_text;
use crate::protocol::{FailureKind, ProcessPlan, ShimFailure};
use crate::sys;

const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs on a terminal look for its kind.
pub(crate) fn name_terminal(plan: &mut ProcessPlan) {
    if !plan.env.iter().any(|(name, _)| name == "TERM") {
        plan.env.push(("TERM".to_owned(), "xterm".to_owned()));
    }
}

/// Everything that the exec needs, laid out before it.
pub(crate) struct ExecCommand {
    name: String,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

/// Lays out the command. PATH and HOME are given when neither the image nor the pod has them.
pub(crate) fn prepare(plan: &ProcessPlan, home: &str) -> Result<ExecCommand, ShimFailure> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| {
            ShimFailure::new(FailureKind::Config, format!("{text:?} holds a zero byte"))
        })
    };
    let value = |name: &str| plan.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let path = value("PATH").unwrap_or(PATH_DEFAULT);
    let mut env = Vec::with_capacity(plan.env.len() + 2);
    for (name, value) in &plan.env {
        env.push(text(&format!("{name}={value}"))?);
    }
    if value("PATH").is_none() {
        env.push(text(&format!("PATH={PATH_DEFAULT}"))?);
    }
    if value("HOME").is_none() {
        env.push(text(&format!("HOME={home}"))?);
    }
    let name = plan.argv.first().cloned().unwrap_or_default();
    let candidates = candidates(&name, path)
        .iter()
        .map(|candidate| text(candidate))
        .collect::<Result<_, _>>()?;
    let argv = plan.argv.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?;
    Ok(ExecCommand { name, candidates, argv, env })
}

/// A name with a slash is a path; any other is looked for in PATH, where an empty entry is the
/// working directory.
fn candidates(name: &str, path: &str) -> Vec<String> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    path.split(':')
        .map(|dir| if dir.is_empty() { format!("./{name}") } else { format!("{dir}/{name}") })
        .collect()
}

impl ExecCommand {
    /// Becomes the command; comes back only when it cannot.
    pub(crate) fn exec(self) -> ShimFailure {
        let mut refused = None;
        for candidate in &self.candidates {
            match sys::execve(candidate, &self.argv, &self.env) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS if self.candidates.len() > 1 => refused = Some(Errno::ACCESS),
                errno => return self.failure(&errno_text(errno)),
            }
        }
        match (refused, self.name.contains('/')) {
            (Some(errno), _) => self.failure(&errno_text(errno)),
            (None, true) => self.failure(&errno_text(Errno::NOENT)),
            (None, false) => self.failure("executable file not found in $PATH"),
        }
    }

    fn failure(&self, cause: &str) -> ShimFailure {
        ShimFailure::new(FailureKind::Start, format!("exec {:?}: {cause}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_looked_for_as_a_shell_does() {
        assert_eq!(candidates("sh", "/bin:/usr/bin"), ["/bin/sh", "/usr/bin/sh"]);
        assert_eq!(candidates("sh", ":/bin"), ["./sh", "/bin/sh"]);
        assert_eq!(candidates("./sh", "/bin"), ["./sh"]);
        assert_eq!(candidates("/bin/sh", "/x"), ["/bin/sh"]);
        assert!(candidates("", "/bin").is_empty());
    }
}
