//! Profiles of the node's own: from the JSON that container engines read to a filter. Pure.
//!
//! The fields are those of the OCI runtime specification (`linux.seccomp`), and those by which
//! docker's profiles depend on the machine (`archMap`, `includes`, `excludes`). A field that is
//! neither is refused: half a profile is none.
//!
//! Rules for one call: one without arguments goes before those with arguments, the first of several
//! counts; rules that say what the default says are left out; calls beyond the last one that a
//! restrictive profile names fail with ENOSYS, so that programs fall back to older ones (all as
//! runc with libseccomp).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::capabilities::bit;
use super::filter::{
    ArgumentCondition, ArgumentTest, SeccompAction, SeccompFilter, SyscallPolicy, SyscallRule,
};
use super::names;

/// The greatest error number that the kernel gives to a program (MAX_ERRNO).
const ERRNO_MAX: u16 = 4095;

/// By what a profile's `arches` know this machine.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "amd64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "arm64";

/// What parts of a profile depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileEnvironment {
    /// The container's capabilities, one bit each.
    pub(super) capabilities: u64,
    /// Major and minor version of the kernel.
    pub(super) kernel: (u32, u32),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SeccompDocument {
    default_action: String,
    default_errno_ret: Option<u64>,
    architectures: Option<Vec<String>>,
    arch_map: Option<Vec<ArchMap>>,
    flags: Option<Vec<String>>,
    listener_path: Option<String>,
    listener_metadata: Option<String>,
    syscalls: Option<Vec<Syscalls>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ArchMap {
    architecture: String,
    sub_architectures: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Syscalls {
    name: Option<String>,
    names: Option<Vec<String>>,
    action: String,
    errno_ret: Option<u64>,
    args: Option<Vec<ProfileArgument>>,
    includes: Option<ProfileCondition>,
    excludes: Option<ProfileCondition>,
    #[serde(rename = "comment")]
    _comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProfileArgument {
    index: u64,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProfileCondition {
    arches: Option<Vec<String>>,
    caps: Option<Vec<String>>,
    min_kernel: Option<String>,
}

/// Reads a profile. The error names the field.
pub(super) fn parse(
    text: &[u8],
    surroundings: ProfileEnvironment,
) -> Result<SeccompFilter, String> {
    let document: SeccompDocument =
        serde_json::from_slice(text).map_err(|error| error.to_string())?;
    check_machines(&document)?;
    let default = ResolvedAction::new(&document.default_action, document.default_errno_ret)
        .map_err(|(field, problem)| match field {
            ActionField::Action => format!("defaultAction: {problem}"),
            ActionField::Errno => format!("defaultErrnoRet: {problem}"),
        })?;
    let mut calls: BTreeMap<u32, SyscallRules> = BTreeMap::new();
    for (at, group) in document.syscalls.iter().flatten().enumerate() {
        let here = |problem: String| format!("syscalls[{at}].{problem}");
        if !applies(group, surroundings).map_err(here)? {
            continue;
        }
        add(group, default.action, &mut calls).map_err(here)?;
    }
    let last = calls.keys().next_back().copied().unwrap_or(0);
    let above =
        match default.permissive || default.action == SeccompAction::UNKNOWN || calls.is_empty() {
            true => default.action,
            false => SeccompAction::UNKNOWN,
        };
    let verdicts =
        calls.into_iter().map(|(number, call)| (number, call.verdict(default.action))).collect();
    Ok(SeccompFilter { verdicts, otherwise: default.action, last, above })
}

/// What a profile says of the machines it is for. Programs of other machines than this one are
/// ended in any case.
fn check_machines(document: &SeccompDocument) -> Result<(), String> {
    let architectures = document.architectures.iter().flatten();
    let mapped = document.arch_map.iter().flatten();
    if document.architectures.as_ref().is_some_and(|list| !list.is_empty())
        && document.arch_map.as_ref().is_some_and(|list| !list.is_empty())
    {
        return Err("architectures and archMap: only one of them may be given".to_owned());
    }
    let all = architectures.chain(mapped.flat_map(|map| {
        std::iter::once(&map.architecture).chain(map.sub_architectures.iter().flatten())
    }));
    for architecture in all {
        if !architecture.starts_with("SCMP_ARCH_") {
            return Err(format!("architectures: {architecture:?} is none that seccomp knows"));
        }
    }
    for flag in document.flags.iter().flatten() {
        // a container begins as one thread
        if flag != "SECCOMP_FILTER_FLAG_TSYNC" {
            return Err(format!("flags: {flag:?} is not supported"));
        }
    }
    let listener = [&document.listener_path, &document.listener_metadata];
    if listener.into_iter().flatten().any(|text| !text.is_empty()) {
        return Err("listenerPath: nobody is told of calls here".to_owned());
    }
    Ok(())
}

/// The rules that name one call.
#[derive(Default)]
struct SyscallRules {
    always: Option<SeccompAction>,
    rules: Vec<SyscallRule>,
}

impl SyscallRules {
    fn verdict(self, default: SeccompAction) -> SyscallPolicy {
        match self.always {
            Some(action) => SyscallPolicy::always(action),
            None => SyscallPolicy { rules: self.rules, otherwise: default },
        }
    }
}

fn add(
    group: &Syscalls,
    default: SeccompAction,
    calls: &mut BTreeMap<u32, SyscallRules>,
) -> Result<(), String> {
    let settled = ResolvedAction::new(&group.action, group.errno_ret).map_err(
        |(field, problem)| match field {
            ActionField::Action => format!("action: {problem}"),
            ActionField::Errno => format!("errnoRet: {problem}"),
        },
    )?;
    let names: Vec<&String> = match (&group.name, &group.names) {
        (Some(_), Some(names)) if !names.is_empty() => {
            return Err("name and names: only one of them may be given".to_owned());
        }
        (Some(name), _) => vec![name],
        (None, names) => names.iter().flatten().collect(),
    };
    let rules = rules(group.args.as_deref().unwrap_or_default(), settled.action)?;
    // a call that this machine does not have cannot be made, so there is nothing to say of it
    for number in names.iter().filter_map(|name| names::number(name)) {
        let call = calls.entry(number).or_default();
        if settled.action == default {
            continue;
        }
        match rules.as_slice() {
            [] => {
                call.always.get_or_insert(settled.action);
            }
            rules => call.rules.extend(rules.iter().cloned()),
        }
    }
    Ok(())
}

/// Conditions on different arguments have to hold together; as soon as one argument has two, each
/// is a rule of its own.
fn rules(arguments: &[ProfileArgument], action: SeccompAction) -> Result<Vec<SyscallRule>, String> {
    let mut conditions: Vec<ArgumentCondition> = Vec::with_capacity(arguments.len());
    for (at, argument) in arguments.iter().enumerate() {
        let condition = condition(argument).map_err(|problem| format!("args[{at}].{problem}"))?;
        conditions.push(condition);
    }
    let twice = |condition: &ArgumentCondition| {
        conditions.iter().filter(|other| other.argument == condition.argument).count() > 1
    };
    Ok(match conditions.as_slice() {
        [] => Vec::new(),
        all if all.iter().any(twice) => {
            all.iter().map(|one| SyscallRule { conditions: vec![*one], action }).collect()
        }
        _ => vec![SyscallRule { conditions, action }],
    })
}

fn condition(argument: &ProfileArgument) -> Result<ArgumentCondition, String> {
    let index = u8::try_from(argument.index).ok().filter(|index| *index < 6);
    let index = index.ok_or_else(|| format!("index: {} is not 0 to 5", argument.index))?;
    let value = argument.value;
    let test = match argument.op.as_str() {
        "SCMP_CMP_EQ" => ArgumentTest::Equal(value),
        "SCMP_CMP_NE" => ArgumentTest::NotEqual(value),
        "SCMP_CMP_LT" => ArgumentTest::Less(value),
        "SCMP_CMP_LE" => ArgumentTest::LessOrEqual(value),
        "SCMP_CMP_GT" => ArgumentTest::Greater(value),
        "SCMP_CMP_GE" => ArgumentTest::GreaterOrEqual(value),
        "SCMP_CMP_MASKED_EQ" => ArgumentTest::Masked { mask: value, value: argument.value_two },
        other => return Err(format!("op: {other:?} is no comparison")),
    };
    Ok(ArgumentCondition { argument: index, test })
}

/// An action with its number.
struct ResolvedAction {
    action: SeccompAction,
    /// Whether it lets calls pass that the profile's writer had never heard of.
    permissive: bool,
}

/// Which of two fields is wrong.
enum ActionField {
    Action,
    Errno,
}

impl ResolvedAction {
    fn new(action: &str, number: Option<u64>) -> Result<Self, (ActionField, String)> {
        let number = match number {
            None => libc::EPERM as u16,
            Some(number) => u16::try_from(number)
                .ok()
                .filter(|number| *number <= ERRNO_MAX)
                .ok_or_else(|| (ActionField::Errno, format!("{number} is not 0 to {ERRNO_MAX}")))?,
        };
        let (action, permissive) = match action {
            "SCMP_ACT_ALLOW" => (SeccompAction::ALLOW, true),
            "SCMP_ACT_LOG" => (SeccompAction::LOG, true),
            "SCMP_ACT_TRACE" => (SeccompAction::trace(number), true),
            "SCMP_ACT_ERRNO" => (SeccompAction::errno(number), false),
            "SCMP_ACT_TRAP" => (SeccompAction::TRAP, false),
            "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => (SeccompAction::KILL_THREAD, false),
            "SCMP_ACT_KILL_PROCESS" => (SeccompAction::KILL_PROCESS, false),
            "SCMP_ACT_NOTIFY" => {
                return Err((
                    ActionField::Action,
                    format!("{action}: nobody is told of calls here"),
                ));
            }
            other => return Err((ActionField::Action, format!("{other:?} is no action"))),
        };
        Ok(Self { action, permissive })
    }
}

/// Whether the rules are for this container on this machine.
fn applies(group: &Syscalls, surroundings: ProfileEnvironment) -> Result<bool, String> {
    let has = |name: &String| bit(name).is_some_and(|bit| surroundings.capabilities & bit != 0);
    let here = |name: &String| name == ARCHITECTURE;
    let none = ProfileCondition::default();
    let includes = group.includes.as_ref().unwrap_or(&none);
    let excludes = group.excludes.as_ref().unwrap_or(&none);
    let new_enough = |field: &str, version: &Option<String>| match version.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => match kernel_version(text) {
            Some(version) => Ok(Some(surroundings.kernel >= version)),
            None => Err(format!("{field}.minKernel: {text:?} is not like \"4.8\"")),
        },
    };
    let included = includes.caps.iter().flatten().all(has)
        && includes.arches.as_ref().is_none_or(|list| list.is_empty() || list.iter().any(here))
        && new_enough("includes", &includes.min_kernel)?.unwrap_or(true);
    let excluded = excludes.caps.iter().flatten().any(has)
        || excludes.arches.iter().flatten().any(here)
        || new_enough("excludes", &excludes.min_kernel)?.unwrap_or(false);
    Ok(included && !excluded)
}

/// Major and minor of `6.18.0-arch1` or `4.8`.
pub(super) fn kernel_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
