//! Which devices a container may open. Its mounts have no device nodes, so that it reaches those of its /dev and no others; one with
//! `CAP_SYS_ADMIN` could mount a file system that has some. A program of its cgroup then lets it open what is in every
//! container's /dev, as other runtimes do for all containers.
//!
//! A privileged container has the host's devices; in a user namespace of its own the kernel opens no device node anywhere.

use std::os::fd::AsFd;

use super::cgroups::Cgroups;
use crate::problem::Context;
use crate::protocol::{Confinement, Failure, FailureKind, Privilege};
use crate::sys;
use crate::users::Users;

/// linux/capability.h.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// What is asked for, in the upper half of the first word that a device program gets (linux/bpf.h); its lower half is the type.
const ACCESS_MKNOD: i32 = 1;
const TYPE_CHARACTER: i32 = 2;
/// Terminals of /dev/pts, whatever the minor number.
const PTS: i32 = 136;
/// null, zero, full, random, urandom; tty, console, ptmx: by major and minor number.
const ALLOWED: [(i32, i32); 8] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];

/// Keeps the container from the host's devices, if nothing else does.
pub(super) fn withhold(
    confinement: &Confinement,
    users: &Users,
    cgroups: &Cgroups,
) -> Result<(), Failure> {
    let may_mount = confinement.capabilities & CAP_SYS_ADMIN != 0;
    match (confinement.privilege, users) {
        (Privilege::Confined, Users::Host) if may_mount => {}
        (Privilege::Confined | Privilege::Privileged, Users::Host | Users::Own(_)) => return Ok(()),
    }
    let Some(cgroup) = &cgroups.unified else {
        let problem = "CAP_SYS_ADMIN: the node's devices can be withheld by the unified cgroup hierarchy only, and there is none";
        return Err(Failure::new(FailureKind::Config, problem));
    };
    sys::attach_device_program(&program(), cgroup.as_fd())
        .setup(|| "withhold the node's devices from the container".to_owned())
}

/// Anything may be made, and nothing but the allowed devices opened.
fn program() -> Vec<u64> {
    let allow = 9 + 2 * ALLOWED.len() + 2;
    let to = |target: usize, from: usize| i16::try_from(target - from - 1).unwrap_or(i16::MAX);
    let deny = allow - 2;
    let mut code = vec![
        instruction(LOAD, 2, 1, 0, 0),
        instruction(MOVE, 3, 2, 0, 0),
        instruction(SHIFT_RIGHT, 3, 0, 0, 16),
        instruction(IF_EQUAL, 3, 0, to(allow, 3), ACCESS_MKNOD),
        instruction(AND, 2, 0, 0, 0xffff),
        instruction(IF_OTHER, 2, 0, to(deny, 5), TYPE_CHARACTER),
        instruction(LOAD, 4, 1, 4, 0),
        instruction(LOAD, 5, 1, 8, 0),
        instruction(IF_EQUAL, 4, 0, to(allow, 8), PTS),
    ];
    for (major, minor) in ALLOWED {
        code.push(instruction(IF_OTHER, 4, 0, 1, major));
        code.push(instruction(IF_EQUAL, 5, 0, to(allow, code.len()), minor));
    }
    for answer in [0, 1] {
        code.push(instruction(SET, 0, 0, 0, answer));
        code.push(instruction(EXIT, 0, 0, 0, 0));
    }
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
