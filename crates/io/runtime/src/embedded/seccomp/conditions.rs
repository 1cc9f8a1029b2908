//! Rules on arguments as instructions: an argument has 64 bits, the machine that runs filters has
//! 32.

use super::filter::{ArgumentCondition, ArgumentTest, SyscallPolicy, SyscallRule};
use super::instruction::{
    AND, JUMP_ABOVE, JUMP_EQUAL, JUMP_NOT_BELOW, LOAD, RETURN, SeccompInstruction, instruction,
    plain,
};

/// Where the arguments begin in `struct seccomp_data`, on a little-endian machine.
const ARGUMENTS: u32 = 16;

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum JumpTarget {
    /// The instruction that follows.
    Next,
    /// The condition holds.
    Holds,
    /// It does not.
    Fails,
}

/// One instruction whose jumps are not numbers yet.
struct SymbolicInstruction {
    code: u16,
    value: u32,
    jumps: Option<(JumpTarget, JumpTarget)>,
}

/// What answers for a call, whatever its arguments.
pub(super) fn verdict(verdict: &SyscallPolicy) -> Vec<SeccompInstruction> {
    let mut all: Vec<SeccompInstruction> = verdict.rules.iter().flat_map(rule).collect();
    all.push(plain(RETURN, verdict.otherwise.0));
    all
}

/// Conditions in a row, then the answer; what fails goes on behind it.
fn rule(rule: &SyscallRule) -> Vec<SeccompInstruction> {
    let parts: Vec<Vec<SymbolicInstruction>> = rule.conditions.iter().map(condition).collect();
    let total: usize = parts.iter().map(Vec::len).sum();
    let mut all = Vec::with_capacity(total + 1);
    let mut end_of_part = 0;
    for part in parts {
        end_of_part += part.len();
        for step in part {
            let behind = all.len() + 1;
            let distance = |to: JumpTarget| match to {
                JumpTarget::Next => 0,
                JumpTarget::Holds => end_of_part - behind,
                JumpTarget::Fails => total + 1 - behind,
            };
            let short = |to| u8::try_from(distance(to)).expect("six conditions are 48 steps");
            let (holds, fails) = step.jumps.map_or((0, 0), |(yes, no)| (short(yes), short(no)));
            all.push(instruction(step.code, holds, fails, step.value));
        }
    }
    all.push(plain(RETURN, rule.action.0));
    all
}

fn condition(condition: &ArgumentCondition) -> Vec<SymbolicInstruction> {
    let low = ARGUMENTS + 8 * u32::from(condition.argument);
    let high = low + 4;
    let load = |from| SymbolicInstruction { code: LOAD, value: from, jumps: None };
    let test = |code, value, yes, no| SymbolicInstruction { code, value, jumps: Some((yes, no)) };
    let (yes, no) = (JumpTarget::Holds, JumpTarget::Fails);
    let equal = |value: u64, yes, no| {
        let [upper, lower] = halves(value);
        vec![
            load(high),
            test(JUMP_EQUAL, upper, JumpTarget::Next, no),
            load(low),
            test(JUMP_EQUAL, lower, yes, no),
        ]
    };
    // the upper half decides unless it is the same
    let ordered = |code, value: u64, yes, no| {
        let [upper, lower] = halves(value);
        vec![
            load(high),
            test(JUMP_ABOVE, upper, yes, JumpTarget::Next),
            test(JUMP_EQUAL, upper, JumpTarget::Next, no),
            load(low),
            test(code, lower, yes, no),
        ]
    };
    match condition.test {
        ArgumentTest::Equal(value) => equal(value, yes, no),
        ArgumentTest::NotEqual(value) => equal(value, no, yes),
        ArgumentTest::Greater(value) => ordered(JUMP_ABOVE, value, yes, no),
        ArgumentTest::LessOrEqual(value) => ordered(JUMP_ABOVE, value, no, yes),
        ArgumentTest::GreaterOrEqual(value) => ordered(JUMP_NOT_BELOW, value, yes, no),
        ArgumentTest::Less(value) => ordered(JUMP_NOT_BELOW, value, no, yes),
        ArgumentTest::Masked { mask, value } => {
            let (masks, values) = (halves(mask), halves(value));
            let mut steps = Vec::new();
            for (half, from) in [high, low].into_iter().enumerate() {
                // nothing is asked of this half
                if masks[half] == 0 && values[half] == 0 {
                    continue;
                }
                steps.push(load(from));
                if masks[half] != u32::MAX {
                    steps.push(SymbolicInstruction { code: AND, value: masks[half], jumps: None });
                }
                steps.push(test(JUMP_EQUAL, values[half], JumpTarget::Next, no));
            }
            steps
        }
    }
}

fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, value as u32]
}
