//! Programs are run as the kernel runs them, and compared with what the filter says.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::filter::{ArgumentCondition, ArgumentTest, SyscallRule};
use super::super::instruction::{AND, JUMP_ABOVE};
use super::*;

const LAST: u32 = 470;

/// Runs the program; every path ends, as jumps only go forward.
fn run(
    program: &[SeccompInstruction],
    architecture: u32,
    number: u32,
    arguments: &[u64; 6],
) -> u32 {
    let (mut at, mut loaded) = (0, 0u32);
    loop {
        let i = program[at];
        at += 1;
        let holds = match i.code {
            LOAD => {
                loaded = match i.value {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    from @ 16..64 => {
                        let argument = arguments[(from as usize - 16) / 8];
                        if from % 8 == 0 { argument as u32 } else { (argument >> 32) as u32 }
                    }
                    other => panic!("loads {other}"),
                };
                continue;
            }
            AND => {
                loaded &= i.value;
                continue;
            }
            RETURN => return i.value,
            JUMP => {
                at += i.value as usize;
                continue;
            }
            JUMP_EQUAL => loaded == i.value,
            JUMP_ABOVE => loaded > i.value,
            JUMP_NOT_BELOW => loaded >= i.value,
            other => panic!("instruction {other}"),
        };
        at += usize::from(if holds { i.jump_true } else { i.jump_false });
    }
}

fn holds(condition: &ArgumentCondition, arguments: &[u64; 6]) -> bool {
    let argument = arguments[usize::from(condition.argument)];
    match condition.test {
        ArgumentTest::Equal(value) => argument == value,
        ArgumentTest::NotEqual(value) => argument != value,
        ArgumentTest::Less(value) => argument < value,
        ArgumentTest::LessOrEqual(value) => argument <= value,
        ArgumentTest::Greater(value) => argument > value,
        ArgumentTest::GreaterOrEqual(value) => argument >= value,
        ArgumentTest::Masked { mask, value } => argument & mask == value,
    }
}

fn expected(verdict: &SyscallPolicy, arguments: &[u64; 6]) -> u32 {
    let rule = verdict
        .rules
        .iter()
        .find(|rule| rule.conditions.iter().all(|condition| holds(condition, arguments)));
    rule.map_or(verdict.otherwise, |rule| rule.action).0
}

/// Values that meet each other often, in both halves.
fn any_value() -> impl Strategy<Value = u64> {
    let half = || {
        prop_oneof![
            Just(0_u64),
            Just(1),
            Just(40),
            Just(0xffff_ffff),
            any::<u32>().prop_map(u64::from)
        ]
    };
    (half(), half()).prop_map(|(high, low)| high << 32 | low)
}

fn any_action() -> impl Strategy<Value = SeccompAction> {
    prop_oneof![
        Just(SeccompAction::ALLOW),
        Just(SeccompAction::REFUSE),
        Just(SeccompAction::UNKNOWN),
        Just(SeccompAction::KILL_THREAD),
        any::<u8>().prop_map(|number| SeccompAction::errno(number.into())),
    ]
}

fn any_condition() -> impl Strategy<Value = ArgumentCondition> {
    let test = (0..7, any_value(), any_value()).prop_map(|(kind, value, mask)| match kind {
        0 => ArgumentTest::Equal(value),
        1 => ArgumentTest::NotEqual(value),
        2 => ArgumentTest::Less(value),
        3 => ArgumentTest::LessOrEqual(value),
        4 => ArgumentTest::Greater(value),
        5 => ArgumentTest::GreaterOrEqual(value),
        _ => ArgumentTest::Masked { mask, value: value & mask },
    });
    (0..6_u8, test).prop_map(|(argument, test)| ArgumentCondition { argument, test })
}

fn any_verdict() -> impl Strategy<Value = SyscallPolicy> {
    let rule = (proptest::collection::vec(any_condition(), 0..4), any_action())
        .prop_map(|(conditions, action)| SyscallRule { conditions, action });
    prop_oneof![
        4 => any_action().prop_map(SyscallPolicy::always),
        1 => (proptest::collection::vec(rule, 0..4), any_action())
            .prop_map(|(rules, otherwise)| SyscallPolicy { rules, otherwise }),
    ]
}

fn any_filter() -> impl Strategy<Value = SeccompFilter> {
    let verdicts = proptest::collection::btree_map(0..=LAST, any_verdict(), 0..300);
    (verdicts, any_action(), any_action()).prop_map(|(verdicts, otherwise, above)| SeccompFilter {
        verdicts,
        otherwise,
        last: LAST,
        above,
    })
}

proptest! {
    #[test]
    fn the_program_gives_each_call_its_verdict(
        filter in any_filter(),
        arguments in proptest::array::uniform6(any_value()),
    ) {
        let program = program(&filter);
        for number in 0..=LAST {
            let default = SyscallPolicy::always(filter.otherwise);
            let verdict = filter.verdicts.get(&number).unwrap_or(&default);
            prop_assert_eq!(
                run(&program, OWN_ARCHITECTURE, number, &arguments),
                expected(verdict, &arguments),
                "call {} by {:?}", number, verdict
            );
        }
        prop_assert_eq!(run(&program, OWN_ARCHITECTURE, LAST + 1, &arguments), filter.above.0);
        // x32 calls have a high bit in their number; i386 programs are another architecture.
        for number in [X32, X32 + 1, u32::MAX] {
            prop_assert_eq!(run(&program, OWN_ARCHITECTURE, number, &arguments), SeccompAction::UNKNOWN.0);
        }
        prop_assert_eq!(run(&program, 0x4000_0003, 0, &arguments), SeccompAction::KILL_PROCESS.0);
    }
}

#[test]
fn a_program_that_the_kernel_would_not_take_is_none() {
    let condition = |value| ArgumentCondition { argument: 0, test: ArgumentTest::Equal(value) };
    let rules = (0..1000).map(|value| SyscallRule {
        conditions: vec![condition(value)],
        action: SeccompAction::REFUSE,
    });
    let verdict = SyscallPolicy { rules: rules.collect(), otherwise: SeccompAction::ALLOW };
    let filter = |verdicts| SeccompFilter {
        verdicts,
        otherwise: SeccompAction::ALLOW,
        last: LAST,
        above: SeccompAction::ALLOW,
    };
    assert!(compile(&filter(BTreeMap::new())).is_some());
    assert!(compile(&filter(BTreeMap::from([(1, verdict)]))).is_none());
}
