use serde_json::{Value, json};

use super::*;

const NONE: ProfileEnvironment = ProfileEnvironment { capabilities: 0, kernel: (6, 1) };

fn read(profile: &Value, surroundings: ProfileEnvironment) -> Result<SeccompFilter, String> {
    parse(profile.to_string().as_bytes(), surroundings)
}

fn verdict(filter: &SeccompFilter, name: &str) -> SyscallPolicy {
    let number = names::number(name).unwrap();
    let own = filter.verdicts.get(&number).cloned();
    own.unwrap_or_else(|| {
        SyscallPolicy::always(if number > filter.last { filter.above } else { filter.otherwise })
    })
}

#[test]
fn a_deny_list_lets_everything_else_pass() {
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
        "syscalls": [
            {"names": ["mkdir", "mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30},
            {"name": "ptrace", "action": "SCMP_ACT_KILL_PROCESS"},
        ],
    });
    let filter = read(&profile, NONE).unwrap();
    assert_eq!(verdict(&filter, "mkdirat"), SyscallPolicy::always(SeccompAction::errno(30)));
    assert_eq!(verdict(&filter, "ptrace"), SyscallPolicy::always(SeccompAction::KILL_PROCESS));
    assert_eq!(verdict(&filter, "read"), SyscallPolicy::always(SeccompAction::ALLOW));
    assert_eq!(filter.above, SeccompAction::ALLOW, "calls of later kernels, too");
}

#[test]
fn a_restrictive_profile_refuses_what_it_does_not_name_and_has_not_heard_of_what_came_later() {
    let profile = |default: &str, number: Option<u64>| {
        json!({"defaultAction": default, "defaultErrnoRet": number, "syscalls": [
            {"names": ["read", "openat2"], "action": "SCMP_ACT_ALLOW"},
        ]})
    };
    let filter = read(&profile("SCMP_ACT_ERRNO", None), NONE).unwrap();
    assert_eq!(filter.otherwise, SeccompAction::REFUSE);
    assert_eq!(filter.above, SeccompAction::UNKNOWN);
    assert_eq!(Some(filter.last), names::number("openat2"));
    let filter = read(&profile("SCMP_ACT_ERRNO", Some(38)), NONE).unwrap();
    assert_eq!((filter.otherwise, filter.above), (SeccompAction::UNKNOWN, SeccompAction::UNKNOWN));
    let filter = read(&profile("SCMP_ACT_KILL", None), NONE).unwrap();
    assert_eq!(
        (filter.otherwise, filter.above),
        (SeccompAction::KILL_THREAD, SeccompAction::UNKNOWN)
    );
}

#[test]
fn conditions_hold_together_unless_one_argument_has_two() {
    let argument =
        |index: u64, value: u64| json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"});
    let profile = |args: Value| {
        json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": args},
        ]})
    };
    let rules = |args| verdict(&read(&profile(args), NONE).unwrap(), "socket").rules;
    let condition =
        |argument, value| ArgumentCondition { argument, test: ArgumentTest::Equal(value) };
    assert_eq!(rules(json!(null)), []);
    let refuse = |conditions| SyscallRule { conditions, action: SeccompAction::REFUSE };
    assert_eq!(
        rules(json!([argument(0, 16), argument(1, 3)])),
        [refuse(vec![condition(0, 16), condition(1, 3)])]
    );
    assert_eq!(
        rules(json!([argument(0, 16), argument(0, 40)])),
        [refuse(vec![condition(0, 16)]), refuse(vec![condition(0, 40)])]
    );
}

#[test]
fn a_rule_without_arguments_goes_before_those_with_and_one_like_the_default_says_nothing() {
    let args = json!([{"index": 0, "value": 1, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ"}]);
    let profile = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        {"names": ["clone", "socket"], "action": "SCMP_ACT_ALLOW", "args": args},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["clone"], "action": "SCMP_ACT_KILL"},
        {"names": ["read"], "action": "SCMP_ACT_ERRNO", "args": args},
    ]});
    let filter = read(&profile, NONE).unwrap();
    assert_eq!(verdict(&filter, "clone"), SyscallPolicy::always(SeccompAction::ALLOW));
    assert_eq!(verdict(&filter, "read"), SyscallPolicy::always(SeccompAction::REFUSE));
    let socket = verdict(&filter, "socket");
    assert_eq!(socket.rules[0].conditions[0].test, ArgumentTest::Masked { mask: 1, value: 1 });
    assert_eq!(socket.otherwise, SeccompAction::REFUSE);
}

#[test]
fn rules_of_dockers_profiles_depend_on_capabilities_machine_and_kernel() {
    let other = if ARCHITECTURE == "amd64" { "arm64" } else { "amd64" };
    for (circumstances, capabilities, applies) in [
        (json!({"includes": {"caps": ["CAP_SYS_ADMIN"]}}), 0, false),
        (json!({"includes": {"caps": ["CAP_SYS_ADMIN"]}}), bit("SYS_ADMIN").unwrap(), true),
        (json!({"includes": {"caps": ["CAP_SYS_ADMIN", "CAP_BPF"]}}), bit("BPF").unwrap(), false),
        (json!({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}), bit("SYS_ADMIN").unwrap(), false),
        (json!({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}), 0, true),
        (json!({"includes": {"arches": [ARCHITECTURE]}}), 0, true),
        (json!({"includes": {"arches": [other]}}), 0, false),
        (json!({"excludes": {"arches": [ARCHITECTURE]}}), 0, false),
        (json!({"includes": {"minKernel": "4.8"}}), 0, true),
        (json!({"includes": {"minKernel": "6.2"}}), 0, false),
        (json!({"excludes": {"minKernel": "6.1"}}), 0, false),
        (json!({"includes": {}, "excludes": {}, "comment": "always"}), 0, true),
    ] {
        let mut rule = json!({"names": ["mount"], "action": "SCMP_ACT_ALLOW"});
        rule.as_object_mut().unwrap().extend(circumstances.as_object().unwrap().clone());
        let profile = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [rule]});
        let filter = read(&profile, ProfileEnvironment { capabilities, ..NONE }).unwrap();
        assert_eq!(filter.verdicts.len(), usize::from(applies), "{circumstances}");
    }
}

#[test]
fn what_is_wrong_with_a_profile_is_told_with_its_field() {
    let with = |rule: Value| json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}, rule]});
    let arg = |argument: Value| {
        with(json!({"names": ["read"], "action": "SCMP_ACT_ERRNO", "args": [argument]}))
    };
    for (profile, expected) in [
        (json!({}), "missing field `defaultAction`"),
        (json!({"defaultAction": "ALLOW"}), "defaultAction: \"ALLOW\" is no action"),
        (
            json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 5000}),
            "defaultErrnoRet: 5000 is not 0 to 4095",
        ),
        (
            json!({"defaultAction": "SCMP_ACT_NOTIFY"}),
            "defaultAction: SCMP_ACT_NOTIFY: nobody is told",
        ),
        (json!({"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x"}), "listenerPath: "),
        (
            json!({"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG"]}),
            "flags: \"SECCOMP_FILTER_FLAG_LOG\" is not supported",
        ),
        (
            json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["X86"]}),
            "architectures: \"X86\" is none",
        ),
        (
            json!({"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86"], "archMap": [{"architecture": "SCMP_ARCH_X86"}]}),
            "architectures and archMap",
        ),
        (
            with(json!({"names": ["read"], "action": "SCMP_ACT_MAYBE"})),
            "syscalls[1].action: \"SCMP_ACT_MAYBE\" is no action",
        ),
        (
            with(json!({"name": "read", "names": ["write"], "action": "SCMP_ACT_ERRNO"})),
            "syscalls[1].name and names",
        ),
        (
            with(
                json!({"names": ["read"], "action": "SCMP_ACT_ERRNO", "includes": {"minKernel": "new"}}),
            ),
            "syscalls[1].includes.minKernel: \"new\"",
        ),
        (
            with(json!({"names": ["read"], "action": "SCMP_ACT_ERRNO", "arg": []})),
            "unknown field `arg`",
        ),
        (
            arg(json!({"index": 6, "value": 1, "op": "SCMP_CMP_EQ"})),
            "syscalls[1].args[0].index: 6 is not 0 to 5",
        ),
        (
            arg(json!({"index": 0, "value": 1, "op": "=="})),
            "syscalls[1].args[0].op: \"==\" is no comparison",
        ),
        (arg(json!({"index": 0, "value": -1, "op": "SCMP_CMP_EQ"})), "invalid value: integer `-1`"),
    ] {
        let problem = read(&profile, NONE).unwrap_err();
        assert!(problem.starts_with(expected), "{profile}: {problem}");
    }
    for text in ["", "[]", "{\"defaultAction\"", "{\"defaultAction\": \"SCMP_ACT_ALLOW\"} more"] {
        assert!(parse(text.as_bytes(), NONE).is_err(), "{text}");
    }
}

#[test]
fn kernel_versions_are_read_as_the_kernel_writes_them() {
    for (text, version) in
        [("6.18.0-arch1-1\n", Some((6, 18))), ("4.8", Some((4, 8))), ("6", None), ("x.y", None)]
    {
        assert_eq!(kernel_version(text), version, "{text:?}");
    }
}
