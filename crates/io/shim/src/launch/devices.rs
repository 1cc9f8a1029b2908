//! Which devices a container may open. Its mounts have no device nodes, so that it reaches those of
//! its /dev and no others. Two have mounts of which that is not known: one with `CAP_SYS_ADMIN`
//! makes mounts itself, and into a volume that follows the host's mounts come those that the host
//! makes later. A program of its cgroup then lets it open what is in every container's /dev, as
//! other runtimes do for all containers.
//!
//! A privileged container has the host's devices. In a user namespace of its own the kernel opens
//! no device node on what the container mounts, but does on what the host does.

use std::os::fd::AsFd;

use super::cgroups::ContainerCgroups;
use crate::problem::FailureContext;
use crate::protocol::{ContainerPlan, FailureKind, MountPropagation, Privilege, ShimFailure};
use crate::sys;
use crate::users::UserIdOwner;

/// linux/capability.h.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// What is asked for, in the upper half of the first word that a device program gets (linux/bpf.h);
/// its lower half is the type.
const ACCESS_MKNOD: i32 = 1;
const TYPE_CHARACTER: i32 = 2;
/// Terminals of /dev/pts, whatever the minor number.
const PTS: i32 = 136;
/// null, zero, full, random, urandom; tty, console, ptmx: by major and minor number.
const ALLOWED: [(i32, i32); 8] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];

/// Keeps the container from the host's devices, if nothing else does.
pub(super) fn withhold(
    plan: &ContainerPlan,
    users: &UserIdOwner,
    cgroups: &ContainerCgroups,
) -> Result<(), ShimFailure> {
    let Some(why) = unguarded(plan, users) else { return Ok(()) };
    let Some(cgroup) = &cgroups.unified else {
        let problem = format!(
            "{why}: the node's devices can be withheld by the unified cgroup hierarchy only, and there is none"
        );
        return Err(ShimFailure::new(FailureKind::Config, problem));
    };
    sys::attach_device_program(&program(), cgroup.as_fd())
        .setup(|| "withhold the node's devices from the container".to_owned())
}

/// What brings the container mounts on which device nodes could be opened.
fn unguarded(plan: &ContainerPlan, users: &UserIdOwner) -> Option<&'static str> {
    match plan.confinement.privilege {
        Privilege::Privileged => return None,
        Privilege::Confined => {}
    }
    let follows = plan.mounts.iter().any(|mount| match mount.options.propagation {
        MountPropagation::Private => false,
        MountPropagation::HostToContainer | MountPropagation::Bidirectional => true,
    });
    let mounts = match users {
        UserIdOwner::Host => plan.confinement.capabilities & CAP_SYS_ADMIN != 0,
        UserIdOwner::Own(_) => false,
    };
    if follows {
        Some("mountPropagation")
    } else if mounts {
        Some("CAP_SYS_ADMIN")
    } else {
        None
    }
}

/// Anything may be made, and nothing but the allowed devices opened. Each jump goes over the answer
/// that follows.
fn program() -> Vec<u64> {
    let answer = |allowed| [instruction(SET, 0, 0, 0, allowed), instruction(EXIT, 0, 0, 0, 0)];
    let mut code = vec![
        instruction(LOAD, 2, 1, 0, 0),
        instruction(MOVE, 3, 2, 0, 0),
        instruction(SHIFT_RIGHT, 3, 0, 0, 16),
        instruction(IF_OTHER, 3, 0, 2, ACCESS_MKNOD),
    ];
    code.extend(answer(1));
    code.push(instruction(AND, 2, 0, 0, 0xffff));
    code.push(instruction(IF_EQUAL, 2, 0, 2, TYPE_CHARACTER));
    code.extend(answer(0));
    code.push(instruction(LOAD, 4, 1, 4, 0));
    code.push(instruction(LOAD, 5, 1, 8, 0));
    code.push(instruction(IF_OTHER, 4, 0, 2, PTS));
    code.extend(answer(1));
    for (major, minor) in ALLOWED {
        code.push(instruction(IF_OTHER, 4, 0, 3, major));
        code.push(instruction(IF_OTHER, 5, 0, 2, minor));
        code.extend(answer(1));
    }
    code.extend(answer(0));
    code
}

/// Operations of a BPF program (linux/bpf.h); of 32 bits, but for moves and comparisons.
const LOAD: u8 = 0x61;
const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const SHIFT_RIGHT: u8 = 0x74;
const AND: u8 = 0x54;
const IF_EQUAL: u8 = 0x15;
const IF_OTHER: u8 = 0x55;
const EXIT: u8 = 0x95;

/// As the kernel reads it from memory: operation, registers, offset, number.
fn instruction(operation: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    u64::from_ne_bytes([operation, registers, o0, o1, n0, n1, n2, n3])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
