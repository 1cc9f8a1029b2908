//! What the machine must offer, told clearly before anything is tried.

use super::{RuntimeConfig, unavailable};
use crate::error::RuntimeError;

/// mount_setattr(2); openat2, close_range and CLONE_INTO_CGROUP are older.
const KERNEL_MIN: (u32, u32) = (5, 12);

/// Refuses what cannot work here.
pub(crate) fn check(config: &RuntimeConfig) -> Result<(), RuntimeError> {
    const OPERATION: &str = "start the embedded runtime";
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if config.engine_id.is_empty() || !config.engine_id.chars().all(plain) {
        let problem = format!(
            "engine id {:?} must be made of letters, digits, '-' and '_'",
            config.engine_id
        );
        return Err(unavailable(OPERATION, problem));
    }
    if !rustix::process::geteuid().is_root() {
        let problem = "it needs root for namespaces, mounts and cgroups: run it with sudo";
        return Err(unavailable(OPERATION, problem));
    }
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    match version(&release) {
        Some(version) if version < KERNEL_MIN => {
            let (major, minor) = KERNEL_MIN;
            let problem =
                format!("Linux {release} is too old: it needs Linux {major}.{minor} or later");
            Err(unavailable(OPERATION, problem))
        }
        Some(_) | None => Ok(()),
    }
}

/// Major and minor number of `6.1.0-18-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn kernel_releases_are_read() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.15.133.1-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(version("nonsense"), None);
    }
}
