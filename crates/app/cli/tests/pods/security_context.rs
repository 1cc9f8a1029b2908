//! Security contexts on real containers: what a pod asks for, seen by what its processes can do.
use std::fs;

use rekindle_testkit::Engine;

/// Everything but mkdir, and no socket of one family.
const PROFILE: &str = r#"{
    "defaultAction": "SCMP_ACT_ALLOW",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {"names": ["mkdir", "mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30},
        {"names": ["chmod", "fchmodat"], "action": "SCMP_ACT_ERRNO", "includes": {"caps": ["CAP_NET_ADMIN"]}}
    ]
}"#;

const SLEEP: &str = "image: localhost/host, command: [sleep, '1000000']";

fn pod(name: &str, spec: &str, container: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{terminationGracePeriodSeconds: 0{spec}, \
         containers: [{{name: one, {SLEEP}{container}}}]}}}}"
    )
}

/// What a command in the container prints, however it ends.
fn exec(engine: &Engine, pod: &str, script: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "sh", "-c", &format!("({script}) 2>&1; true")])
}

#[test]
fn a_seccomp_profile_of_the_nodes_own_holds_for_the_container_and_for_commands_in_it() {
    let engine = Engine::start();
    let folder = engine.data_dir().join("seccomp/team");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("no-mkdir.json"), PROFILE).unwrap();
    let localhost =
        |name: &str| format!("seccompProfile: {{type: Localhost, localhostProfile: {name}}}");
    let ours = localhost("team/no-mkdir.json");
    let applied = engine.try_kubectl(
        &["apply", "-f", "-"],
        &pod("by-pod", &format!(", securityContext: {{{ours}}}"), ""),
    );
    assert!(applied.status.success() && applied.stderr.is_empty(), "{applied:?}");
    let capable = format!(
        ", securityContext: {{{ours}, allowPrivilegeEscalation: false, capabilities: {{add: [NET_ADMIN]}}}}"
    );
    engine.apply(&pod("by-container", "", &capable));
    let default = ", securityContext: {seccompProfile: {type: RuntimeDefault}}";
    engine.apply(&pod("own", &format!(", securityContext: {{{ours}}}"), default));
    for name in ["by-pod", "by-container", "own"] {
        engine.wait_ready(name);
    }

    let refused = "mkdir: cannot create directory '/tmp/rekindle-a': Read-only file system\n";
    let (mkdir, chmod) = (
        "LC_ALL=C mkdir /tmp/rekindle-a",
        "touch /tmp/rekindle-b; LC_ALL=C chmod 600 /tmp/rekindle-b",
    );
    assert_eq!(exec(&engine, "by-pod", mkdir).replace(['‘', '’'], "'"), refused);
    assert_eq!(exec(&engine, "by-pod", chmod), "", "that rule is for those with a capability");
    assert_eq!(exec(&engine, "by-container", mkdir).replace(['‘', '’'], "'"), refused);
    assert!(exec(&engine, "by-container", chmod).contains("Operation not permitted"));
    assert_eq!(exec(&engine, "own", mkdir), "", "the container's profile goes before the pod's");
    for name in ["by-pod", "by-container", "own"] {
        let status = exec(&engine, name, "grep -h Seccomp: /proc/1/status /proc/self/status");
        assert_eq!(status, "Seccomp:\t2\nSeccomp:\t2\n", "{name}");
    }

    // what is not there yet is told, and waited for
    engine.apply(&pod("waits", "", &format!(", securityContext: {{{}}}", localhost("later.json"))));
    let reason = ".status.containerStatuses[0].state.waiting.reason";
    engine.wait_for("pod/waits", reason, "CreateContainerError");
    let waiting =
        engine.get("pod/waits")["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let message = waiting["message"].as_str().unwrap();
    let expected = format!(
        "cannot load seccomp profile \"{}/seccomp/later.json\": no such file or directory",
        engine.data_dir().display()
    );
    assert!(message.ends_with(&expected), "{message}");
    fs::write(engine.data_dir().join("seccomp/later.json"), PROFILE).unwrap();
    engine.wait_ready("waits");

    let wrong = pod("wrong", "", &format!(", securityContext: {{{}}}", localhost("../pki/ca.key")));
    let refused = engine.kubectl_fails(&["apply", "-f", "-"], &wrong);
    let field = "spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: \"../pki/ca.key\": must not contain '..'";
    assert!(refused.contains(field), "{refused}");
}
