//! The `RuntimeDefault` seccomp profile, after the container engines' own: an allow-list; what is not on it fails with
//! EPERM, and what this profile has never heard of with ENOSYS, so that programs fall back to older calls.
//!
//! Only the machine's own architecture is allowed: 32-bit programs on a 64-bit kernel are killed (the engines allow them).
//!
//! Compiled to a search tree ([`bpf`]): the kernel tries every filter with every system call when it is loaded, which for a
//! list of comparisons, one after the other, takes a third of a container's start.

mod bpf;
mod syscalls;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bpf::Verdict;

use super::capabilities::bit;

/// Namespace flags of clone(2), which only CAP_SYS_ADMIN may use: CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER |
/// NEWPID | NEWNET.
const CLONE_NAMESPACES: u32 = 0x7e02_0000;

/// Values of personality(2) that change nothing about security: PER_LINUX, PER_LINUX32, UNAME26, both, and a query.
const PERSONALITIES: &[u32] = &[0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Socket families that are refused: vsock reaches the hypervisor, which no network policy sees.
const AF_VSOCK: &[u32] = &[40];

/// Profiles by capability set, compiled once each.
#[derive(Default)]
pub(crate) struct Profiles {
    compiled: Mutex<BTreeMap<u64, Arc<Vec<String>>>>,
}

impl Profiles {
    /// The programs for a container with these capabilities, as the shim takes them.
    pub(crate) fn get(&self, capabilities: u64) -> Arc<Vec<String>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(|e| e.into_inner());
        let compile = || Arc::new(vec![bpf::compile(&verdicts(capabilities))]);
        compiled.entry(capabilities).or_insert_with(compile).clone()
    }
}

/// What is to become of each known call; a call that is not here is refused.
fn verdicts(capabilities: u64) -> BTreeMap<u32, Verdict> {
    let has = |name: &str| bit(name).is_some_and(|bit| capabilities & bit != 0);
    let mut verdicts = BTreeMap::new();
    let mut set = |number: i64, verdict: Verdict| {
        let number = u32::try_from(number).expect("system calls have small numbers");
        verdicts.insert(number, verdict);
    };
    let by_capability =
        syscalls::BY_CAPABILITY.iter().filter(|(name, _)| has(name)).map(|(_, numbers)| *numbers);
    for numbers in std::iter::once(syscalls::ALWAYS).chain(by_capability) {
        numbers.iter().for_each(|number| set(*number, Verdict::Allow));
    }
    if has("SYS_ADMIN") {
        set(libc::SYS_clone3, Verdict::Allow);
    } else {
        set(libc::SYS_clone, Verdict::UnlessFlags(CLONE_NAMESPACES));
        // It hides its flags behind a pointer, where no filter can look: programs fall back to clone.
        set(libc::SYS_clone3, Verdict::Unknown);
    }
    set(libc::SYS_personality, Verdict::OnlyValues(PERSONALITIES));
    set(libc::SYS_socket, Verdict::ExceptValues(AF_VSOCK));
    verdicts
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
    fn the_profile_knows_no_call_beyond_the_last() {
        assert!(verdicts(u64::MAX).keys().all(|number| *number <= syscalls::LAST_KNOWN));
    }
}
