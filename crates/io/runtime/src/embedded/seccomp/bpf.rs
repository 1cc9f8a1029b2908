//! From a filter to a classic BPF program: a balanced tree of comparisons on the call's number.
//!
//! `check the architecture → load the number → halve the range until one verdict is left → look at
//! its arguments → answer`

use super::conditions;
use super::filter::{SeccompAction, SeccompFilter, SyscallPolicy, X32};
use super::instruction::{
    JUMP, JUMP_EQUAL, JUMP_NOT_BELOW, LOAD, RETURN, SeccompInstruction, instruction, plain,
};

/// Instructions that the kernel takes: BPF_MAXINSNS.
pub(super) const INSTRUCTIONS_MAX: usize = 4096;

// struct seccomp_data, on a little-endian machine
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// linux/audit.h
#[cfg(target_arch = "x86_64")]
const OWN_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCHITECTURE: u32 = 0xc000_00b7;

/// The program as the shim takes it: 16 hex digits per instruction. `None` when the kernel would
/// not take it: too long.
pub(super) fn compile(filter: &SeccompFilter) -> Option<String> {
    let write = |i: &SeccompInstruction| {
        format!("{:04x}{:02x}{:02x}{:08x}", i.code, i.jump_true, i.jump_false, i.value)
    };
    let program = program(filter);
    (program.len() <= INSTRUCTIONS_MAX).then(|| program.iter().map(write).collect())
}

fn program(filter: &SeccompFilter) -> Vec<SeccompInstruction> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        instruction(JUMP_EQUAL, 1, 0, OWN_ARCHITECTURE),
        plain(RETURN, SeccompAction::KILL_PROCESS.0),
        plain(LOAD, NUMBER),
    ];
    program.extend(tree(&ranges(filter)));
    program
}

/// From which number on which verdict holds, up to the next one.
fn ranges(filter: &SeccompFilter) -> Vec<(u32, SyscallPolicy)> {
    let mut ranges: Vec<(u32, SyscallPolicy)> = Vec::new();
    let mut add = |number: u32, verdict: SyscallPolicy| {
        if ranges.last().is_none_or(|(_, last)| *last != verdict) {
            ranges.push((number, verdict));
        }
    };
    for number in 0..=filter.last {
        let own = filter.verdicts.get(&number).cloned();
        add(number, own.unwrap_or_else(|| SyscallPolicy::always(filter.otherwise)));
    }
    add(filter.last + 1, SyscallPolicy::always(filter.above));
    add(X32, SyscallPolicy::always(SeccompAction::UNKNOWN));
    ranges
}

fn tree(ranges: &[(u32, SyscallPolicy)]) -> Vec<SeccompInstruction> {
    match ranges {
        [] => Vec::new(),
        [(_, verdict)] => conditions::verdict(verdict),
        _ => {
            let (below, from) = ranges.split_at(ranges.len() / 2);
            let (first, below, above) = (from[0].0, tree(below), tree(from));
            let code = JUMP_NOT_BELOW;
            let mut all = match u8::try_from(below.len()) {
                Ok(skip) => {
                    vec![instruction(code, skip, 0, first)]
                }
                // Too far for a conditional jump.
                Err(_) => vec![
                    instruction(code, 0, 1, first),
                    plain(JUMP, u32::try_from(below.len()).unwrap_or(u32::MAX)),
                ],
            };
            all.extend(below);
            all.extend(above);
            all
        }
    }
}

#[cfg(test)]
mod tests;
