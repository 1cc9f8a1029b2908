//! What a filter says, before it is a program: for each system call rules on its arguments, and
//! what becomes of it else.

use std::collections::BTreeMap;

/// The first number of x32 calls, on machines that have them. They are another set of calls: none
/// is ever allowed.
pub(super) const X32: u32 = 0x4000_0000;

/// The value that a filter returns for a call: seccomp(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeccompAction(pub(super) u32);

impl SeccompAction {
    pub(super) const ALLOW: Self = Self(libc::SECCOMP_RET_ALLOW);
    pub(super) const LOG: Self = Self(libc::SECCOMP_RET_LOG);
    pub(super) const TRAP: Self = Self(libc::SECCOMP_RET_TRAP);
    pub(super) const KILL_THREAD: Self = Self(libc::SECCOMP_RET_KILL_THREAD);
    pub(super) const KILL_PROCESS: Self = Self(libc::SECCOMP_RET_KILL_PROCESS);
    /// EPERM.
    pub(super) const REFUSE: Self = Self::errno(libc::EPERM as u16);
    /// ENOSYS, as on a kernel that does not have the call.
    pub(super) const UNKNOWN: Self = Self::errno(libc::ENOSYS as u16);

    /// The call fails with this number.
    pub(super) const fn errno(number: u16) -> Self {
        Self(libc::SECCOMP_RET_ERRNO | number as u32)
    }

    /// A tracer is told this number; without one the call fails with ENOSYS.
    pub(super) const fn trace(number: u16) -> Self {
        Self(libc::SECCOMP_RET_TRACE | number as u32)
    }
}

/// How an argument is compared, as 64 bits without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentTest {
    Equal(u64),
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Greater(u64),
    GreaterOrEqual(u64),
    /// The bits of the mask have this value.
    Masked {
        mask: u64,
        value: u64,
    },
}

/// A test of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArgumentCondition {
    /// Which one, 0 to 5.
    pub(super) argument: u8,
    pub(super) test: ArgumentTest,
}

/// When all conditions hold, this is what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyscallRule {
    pub(super) conditions: Vec<ArgumentCondition>,
    pub(super) action: SeccompAction,
}

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyscallPolicy {
    /// The first that holds counts.
    pub(super) rules: Vec<SyscallRule>,
    /// When none does.
    pub(super) otherwise: SeccompAction,
}

impl SyscallPolicy {
    /// The same for all arguments.
    pub(super) fn always(action: SeccompAction) -> Self {
        Self { rules: Vec::new(), otherwise: action }
    }
}

/// A whole filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeccompFilter {
    /// By the call's number.
    pub(super) verdicts: BTreeMap<u32, SyscallPolicy>,
    /// Of calls up to `last` that have no verdict.
    pub(super) otherwise: SeccompAction,
    /// The highest number that was known when the filter was written.
    pub(super) last: u32,
    /// Of calls above it, but for those of x32.
    pub(super) above: SeccompAction,
}
