//! Rules on arguments as instructions: an argument has 64 bits, the machine that runs filters has
//! 32.

use super::filter::{Condition, Rule, Test, Verdict};
use super::instruction::{
    AND, Instruction, JUMP_ABOVE, JUMP_EQUAL, JUMP_NOT_BELOW, LOAD, RETURN, instruction, plain,
};

/// Where the arguments begin in `struct seccomp_data`, on a little-endian machine.
const ARGUMENTS: u32 = 16;

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum To {
    /// The instruction that follows.
    Next,
    /// The condition holds.
    Holds,
    /// It does not.
    Fails,
}

/// One instruction whose jumps are not numbers yet.
struct Step {
    code: u16,
    value: u32,
    jumps: Option<(To, To)>,
}

/// What answers for a call, whatever its arguments.
pub(super) fn verdict(verdict: &Verdict) -> Vec<Instruction> {
    let mut all: Vec<Instruction> = verdict.rules.iter().flat_map(rule).collect();
    all.push(plain(RETURN, verdict.otherwise.0));
    all
}

/// Conditions in a row, then the answer; what fails goes on behind it.
fn rule(rule: &Rule) -> Vec<Instruction> {
    let parts: Vec<Vec<Step>> = rule.conditions.iter().map(condition).collect();
    let total: usize = parts.iter().map(Vec::len).sum();
    let mut all = Vec::with_capacity(total + 1);
    let mut end_of_part = 0;
    for part in parts {
        end_of_part += part.len();
        for step in part {
            let behind = all.len() + 1;
            let distance = |to: To| match to {
                To::Next => 0,
                To::Holds => end_of_part - behind,
                To::Fails => total + 1 - behind,
            };
            let short = |to| u8::try_from(distance(to)).expect("six conditions are 48 steps");
            let (holds, fails) = step.jumps.map_or((0, 0), |(yes, no)| (short(yes), short(no)));
            all.push(instruction(step.code, holds, fails, step.value));
        }
    }
    all.push(plain(RETURN, rule.action.0));
    all
}

fn condition(condition: &Condition) -> Vec<Step> {
    let low = ARGUMENTS + 8 * u32::from(condition.argument);
    let high = low + 4;
    let load = |from| Step { code: LOAD, value: from, jumps: None };
    let test = |code, value, yes, no| Step { code, value, jumps: Some((yes, no)) };
    let (yes, no) = (To::Holds, To::Fails);
    let equal = |value: u64, yes, no| {
        let [upper, lower] = halves(value);
        vec![
            load(high),
            test(JUMP_EQUAL, upper, To::Next, no),
            load(low),
            test(JUMP_EQUAL, lower, yes, no),
        ]
    };
    // the upper half decides unless it is the same
    let ordered = |code, value: u64, yes, no| {
        let [upper, lower] = halves(value);
        vec![
            load(high),
            test(JUMP_ABOVE, upper, yes, To::Next),
            test(JUMP_EQUAL, upper, To::Next, no),
            load(low),
            test(code, lower, yes, no),
        ]
    };
    match condition.test {
        Test::Equal(value) => equal(value, yes, no),
        Test::NotEqual(value) => equal(value, no, yes),
        Test::Greater(value) => ordered(JUMP_ABOVE, value, yes, no),
        Test::LessOrEqual(value) => ordered(JUMP_ABOVE, value, no, yes),
        Test::GreaterOrEqual(value) => ordered(JUMP_NOT_BELOW, value, yes, no),
        Test::Less(value) => ordered(JUMP_NOT_BELOW, value, no, yes),
        Test::Masked { mask, value } => {
            let (masks, values) = (halves(mask), halves(value));
            let mut steps = Vec::new();
            for (half, from) in [high, low].into_iter().enumerate() {
                // nothing is asked of this half
                if masks[half] == 0 && values[half] == 0 {
                    continue;
                }
                steps.push(load(from));
                if masks[half] != u32::MAX {
                    steps.push(Step { code: AND, value: masks[half], jumps: None });
                }
                steps.push(test(JUMP_EQUAL, values[half], To::Next, no));
            }
            steps
        }
    }
}

fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, value as u32]
}
