//! From verdicts on system calls to a classic BPF program: a balanced tree of comparisons on the call's number.
//!
//! `check the architecture → load the number → halve the range until one verdict is left → look at an argument → answer`

use std::collections::BTreeMap;

use super::syscalls::LAST_KNOWN;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes through.
    Allow,
    /// EPERM.
    Refuse,
    /// ENOSYS, as on a kernel that does not have it.
    Unknown,
    /// It goes through when its first argument has none of these bits.
    UnlessFlags(u32),
    /// It goes through when the lower half of its first argument is one of these.
    OnlyValues(&'static [u32]),
    /// It goes through when the lower half of its first argument is none of these.
    ExceptValues(&'static [u32]),
}

// linux/filter.h, linux/bpf_common.h
const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_EQUAL: u16 = 0x15;
const JUMP_NOT_BELOW: u16 = 0x35; // BPF_JGE
const JUMP_ANY_BIT: u16 = 0x45; // BPF_JSET
const RETURN: u16 = 0x06;

// struct seccomp_data, on a little-endian machine
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT_LOW: u32 = 16;

/// linux/audit.h
#[cfg(target_arch = "x86_64")]
const OWN_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCHITECTURE: u32 = 0xc000_00b7;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

/// One instruction of `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    value: u32,
}

const fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, value }
}

/// The program as the shim takes it: 16 hex digits per instruction.
pub(super) fn compile(verdicts: &BTreeMap<u32, Verdict>) -> String {
    let write = |i: &Instruction| {
        format!("{:04x}{:02x}{:02x}{:08x}", i.code, i.jump_true, i.jump_false, i.value)
    };
    program(verdicts).iter().map(write).collect()
}

fn program(verdicts: &BTreeMap<u32, Verdict>) -> Vec<Instruction> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        Instruction { code: JUMP_EQUAL, jump_true: 1, jump_false: 0, value: OWN_ARCHITECTURE },
        plain(RETURN, KILL),
        plain(LOAD, NUMBER),
    ];
    program.extend(tree(&ranges(verdicts)));
    program
}

/// From which number on which verdict holds, up to the next one.
fn ranges(verdicts: &BTreeMap<u32, Verdict>) -> Vec<(u32, Verdict)> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=LAST_KNOWN + 1 {
        let verdict = if number > LAST_KNOWN {
            Verdict::Unknown
        } else {
            verdicts.get(&number).copied().unwrap_or(Verdict::Refuse)
        };
        if ranges.last().is_none_or(|(_, last)| *last != verdict) {
            ranges.push((number, verdict));
        }
    }
    ranges
}

fn tree(ranges: &[(u32, Verdict)]) -> Vec<Instruction> {
    match ranges {
        [] => Vec::new(),
        [(_, verdict)] => leaf(*verdict),
        _ => {
            let (below, from) = ranges.split_at(ranges.len() / 2);
            let (first, below, above) = (from[0].0, tree(below), tree(from));
            let code = JUMP_NOT_BELOW;
            let mut all = match u8::try_from(below.len()) {
                Ok(skip) => {
                    vec![Instruction { code, jump_true: skip, jump_false: 0, value: first }]
                }
                // Too far for a conditional jump.
                Err(_) => vec![
                    Instruction { code, jump_true: 0, jump_false: 1, value: first },
                    plain(JUMP, u32::try_from(below.len()).unwrap_or(u32::MAX)),
                ],
            };
            all.extend(below);
            all.extend(above);
            all
        }
    }
}

fn leaf(verdict: Verdict) -> Vec<Instruction> {
    let by_argument = |code, values: &[u32], matched, otherwise| {
        let mut all = vec![plain(LOAD, FIRST_ARGUMENT_LOW)];
        for value in values {
            // Skips the next instruction unless it matches.
            all.push(Instruction { code, jump_true: 0, jump_false: 1, value: *value });
            all.push(plain(RETURN, matched));
        }
        all.push(plain(RETURN, otherwise));
        all
    };
    match verdict {
        Verdict::Allow => vec![plain(RETURN, ALLOW)],
        Verdict::Refuse => vec![plain(RETURN, REFUSE)],
        Verdict::Unknown => vec![plain(RETURN, UNKNOWN)],
        Verdict::UnlessFlags(flags) => by_argument(JUMP_ANY_BIT, &[flags], REFUSE, ALLOW),
        Verdict::OnlyValues(values) => by_argument(JUMP_EQUAL, values, ALLOW, REFUSE),
        Verdict::ExceptValues(values) => by_argument(JUMP_EQUAL, values, REFUSE, ALLOW),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the program as the kernel does; every path ends, as jumps only go forward.
    fn run(program: &[Instruction], architecture: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0u32);
        loop {
            let i = program[at];
            at += 1;
            let holds = match i.code {
                LOAD => {
                    loaded = match i.value {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        FIRST_ARGUMENT_LOW => argument,
                        other => panic!("loads {other}"),
                    };
                    continue;
                }
                RETURN => return i.value,
                JUMP => {
                    at += i.value as usize;
                    continue;
                }
                JUMP_EQUAL => loaded == i.value,
                JUMP_NOT_BELOW => loaded >= i.value,
                JUMP_ANY_BIT => loaded & i.value != 0,
                other => panic!("instruction {other}"),
            };
            at += usize::from(if holds { i.jump_true } else { i.jump_false });
        }
    }

    fn expected(verdict: Verdict, argument: u32) -> u32 {
        match verdict {
            Verdict::Allow => ALLOW,
            Verdict::Refuse => REFUSE,
            Verdict::Unknown => UNKNOWN,
            Verdict::UnlessFlags(flags) if argument & flags != 0 => REFUSE,
            Verdict::OnlyValues(values) if !values.contains(&argument) => REFUSE,
            Verdict::ExceptValues(values) if values.contains(&argument) => REFUSE,
            Verdict::UnlessFlags(_) | Verdict::OnlyValues(_) | Verdict::ExceptValues(_) => ALLOW,
        }
    }

    fn any_verdict() -> impl Strategy<Value = Verdict> {
        prop_oneof![
            Just(Verdict::Allow),
            Just(Verdict::Refuse),
            Just(Verdict::Unknown),
            any::<u32>().prop_map(Verdict::UnlessFlags),
            Just(Verdict::OnlyValues(&[0, 8, 0xffff_ffff])),
            Just(Verdict::ExceptValues(&[40])),
        ]
    }

    proptest! {
        #[test]
        fn the_program_gives_each_call_its_verdict(
            verdicts in proptest::collection::btree_map(0..=LAST_KNOWN, any_verdict(), 0..470),
            argument in prop_oneof![any::<u32>(), Just(0), Just(8), Just(40)],
        ) {
            let program = program(&verdicts);
            for number in 0..=LAST_KNOWN {
                let verdict = verdicts.get(&number).copied().unwrap_or(Verdict::Refuse);
                prop_assert_eq!(
                    run(&program, OWN_ARCHITECTURE, number, argument),
                    expected(verdict, argument)
                );
            }
            // x32 calls have a high bit in their number; i386 programs are another architecture.
            for number in [LAST_KNOWN + 1, 0x4000_0000, u32::MAX] {
                prop_assert_eq!(run(&program, OWN_ARCHITECTURE, number, argument), UNKNOWN);
            }
            prop_assert_eq!(run(&program, 0x4000_0003, 0, argument), KILL);
        }
    }
}
