//! The `RuntimeDefault` seccomp profile, after the container engines' own: an allow-list; what is
//! not on it fails with EPERM, and what this profile has never heard of with ENOSYS, so that
//! programs fall back to older calls.
//!
//! Only the machine's own architecture is allowed: 32-bit programs on a 64-bit kernel are killed
//! (the engines allow them).
//!
//! Profiles of the node's own (`Localhost`) are read from files ([`file`]), in the form that the
//! container engines read ([`profile`]).
//!
//! Compiled to a search tree ([`bpf`]): the kernel tries every filter with every system call when
//! it is loaded, which for a list of comparisons, one after the other, takes a third of a
//! container's start.

mod bpf;
mod conditions;
mod file;
mod filter;
mod instruction;
mod names;
mod profile;
mod syscalls;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) use file::ProfileError;
use filter::{
    ArgumentCondition, ArgumentTest, SeccompAction, SeccompFilter, SyscallPolicy, SyscallRule,
};
use profile::ProfileEnvironment;

use super::capabilities::bit;

/// Namespace flags of clone(2), which only CAP_SYS_ADMIN may use: CLONE_NEWNS | NEWCGROUP |
/// NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET.
const CLONE_NAMESPACES: u64 = 0x7e02_0000;

/// Values of personality(2) that change nothing about security: PER_LINUX, PER_LINUX32, UNAME26,
/// both, and a query.
const PERSONALITIES: &[u64] = &[0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// The socket family that is refused: vsock reaches the hypervisor, which no network policy sees.
const AF_VSOCK: u64 = 40;

/// The kernel looks at no more of these arguments.
const LOWER_HALF: u64 = 0xffff_ffff;

/// Profiles by capability set, compiled once each.
#[derive(Default)]
pub(crate) struct Profiles {
    compiled: Mutex<BTreeMap<u64, Arc<Vec<String>>>>,
}

impl Profiles {
    /// The programs for a container with these capabilities, as the shim takes them.
    pub(crate) fn get(&self, capabilities: u64) -> Arc<Vec<String>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(|e| e.into_inner());
        let compile = || {
            let program = bpf::compile(&default(capabilities));
            Arc::new(vec![program.expect("a few hundred instructions, as a test shows")])
        };
        compiled.entry(capabilities).or_insert_with(compile).clone()
    }
}

/// A profile of the node's own, as the shim takes it: read anew for each container, as somebody may
/// have changed it.
pub(crate) fn localhost(
    folder: &Path,
    name: &Path,
    capabilities: u64,
) -> Result<Vec<String>, ProfileError> {
    let text = file::read(folder, name)?;
    let failed = |problem| file::problem(folder, name, problem);
    let surroundings = ProfileEnvironment { capabilities, kernel: kernel() };
    let filter = profile::parse(&text, surroundings).map_err(failed)?;
    let program = bpf::compile(&filter).ok_or_else(|| {
        let max = bpf::INSTRUCTIONS_MAX;
        failed(format!("it is too long for the kernel, which takes {max} instructions"))
    })?;
    Ok(vec![program])
}

/// Of a kernel that does not say, nothing is expected.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    profile::kernel_version(&release).unwrap_or((0, 0))
}

/// The default profile: what is not named is refused.
fn default(capabilities: u64) -> SeccompFilter {
    SeccompFilter {
        verdicts: verdicts(capabilities),
        otherwise: SeccompAction::REFUSE,
        last: syscalls::LAST_KNOWN,
        above: SeccompAction::UNKNOWN,
    }
}

/// What is to become of each known call; a call that is not here is refused.
fn verdicts(capabilities: u64) -> BTreeMap<u32, SyscallPolicy> {
    let has = |name: &str| bit(name).is_some_and(|bit| capabilities & bit != 0);
    let mut verdicts = BTreeMap::new();
    let mut set = |number: i64, verdict: SyscallPolicy| {
        let number = u32::try_from(number).expect("system calls have small numbers");
        verdicts.insert(number, verdict);
    };
    let by_capability =
        syscalls::BY_CAPABILITY.iter().filter(|(name, _)| has(name)).map(|(_, numbers)| *numbers);
    for numbers in std::iter::once(syscalls::ALWAYS).chain(by_capability) {
        numbers.iter().for_each(|number| set(*number, SyscallPolicy::always(SeccompAction::ALLOW)));
    }
    if has("SYS_ADMIN") {
        set(libc::SYS_clone3, SyscallPolicy::always(SeccompAction::ALLOW));
    } else {
        let no_namespaces = when(CLONE_NAMESPACES, 0, SeccompAction::ALLOW);
        set(
            libc::SYS_clone,
            SyscallPolicy { rules: vec![no_namespaces], otherwise: SeccompAction::REFUSE },
        );
        // It hides its flags behind a pointer, where no filter can look: programs fall back to
        // clone.
        set(libc::SYS_clone3, SyscallPolicy::always(SeccompAction::UNKNOWN));
    }
    let harmless = PERSONALITIES.iter().map(|value| when(LOWER_HALF, *value, SeccompAction::ALLOW));
    let personality = SyscallPolicy { rules: harmless.collect(), otherwise: SeccompAction::REFUSE };
    set(libc::SYS_personality, personality);
    let vsock = when(LOWER_HALF, AF_VSOCK, SeccompAction::REFUSE);
    set(libc::SYS_socket, SyscallPolicy { rules: vec![vsock], otherwise: SeccompAction::ALLOW });
    verdicts
}

/// The rule that this happens when these bits of the first argument have this value.
fn when(mask: u64, value: u64, action: SeccompAction) -> SyscallRule {
    let condition = ArgumentCondition { argument: 0, test: ArgumentTest::Masked { mask, value } };
    SyscallRule { conditions: vec![condition], action }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_small_and_differ_by_capability() {
        let profiles = Profiles::default();
        let default = profiles.get(0xa804_25fb);
        let admin = profiles.get(bit("SYS_ADMIN").unwrap());
        assert_ne!(default, admin);
        for program in default.iter().chain(admin.iter()) {
            assert!(program.len() / 16 <= 512, "{} instructions", program.len() / 16);
        }
    }

    #[test]
    fn what_breaks_out_of_containers_is_not_allowed() {
        let verdicts = verdicts(0xa804_25fb);
        for number in [
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_open_by_handle_at,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_pivot_root,
            libc::SYS_move_mount,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_io_uring_setup,
        ] {
            let number = u32::try_from(number).unwrap();
            assert!(!verdicts.contains_key(&number), "system call {number}");
        }
    }

    #[test]
    fn a_profile_from_a_file_is_compiled_as_the_default_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let profile = serde_json::json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mkdirat"], "action": "SCMP_ACT_ERRNO"},
        ]});
        std::fs::write(dir.path().join("a.json"), profile.to_string()).unwrap();
        let programs = localhost(dir.path(), Path::new("a.json"), 0).unwrap();
        assert!(programs.len() == 1 && programs[0].len() / 16 < 20, "{programs:?}");
        let error = localhost(dir.path(), Path::new("b.json"), 0).unwrap_err();
        assert!(error.to_string().ends_with("/b.json\": no such file or directory"), "{error}");
        std::fs::write(dir.path().join("b.json"), "{\"defaultAction\": 5}").unwrap();
        let error = localhost(dir.path(), Path::new("b.json"), 0).unwrap_err();
        assert!(error.to_string().contains("invalid type: integer `5`"), "{error}");
    }

    #[test]
    fn the_profile_knows_no_call_beyond_the_last() {
        assert!(verdicts(u64::MAX).keys().all(|number| *number <= syscalls::LAST_KNOWN));
    }
}
