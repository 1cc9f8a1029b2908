//! Promise P4: a restart never widens privilege. What the kernel says of a container's process,
//! read from outside, is the same at every attempt of every rung, after a crash, and after a
//! kill -9 of the engine.
use rekindle_testkit::archive::TestImage;
use rekindle_testkit::{Engine, process, text};
use serde_json::json;

/// Rungs in an order in which each follows each.
const RUNGS: [&str; 7] =
    ["container", "container", "containers", "pod", "pod", "containers", "container"];

/// Whose program is `cat`, run by a user of its own who is in two groups.
const IMAGE_WITH_USER: &str = "example.test/with-user:1";

/// One kind of pod.
struct Case {
    name: &'static str,
    /// Further fields of the pod's spec, in YAML's flow form.
    pod: &'static str,
    /// Further fields of its container.
    container: &'static str,
    /// Lines that the facts must have: what was asked for is what is compared.
    expected: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "default",
        pod: "",
        container: "",
        expected: &[
            "Uid:\t0\t0\t0\t0",
            "CapBnd:\t00000000a80425fb",
            "CapEff:\t00000000a80425fb",
            "NoNewPrivs:\t0",
            "Seccomp:\t2",
            "Seccomp_filters:\t1",
            "net namespace: its own",
            "pid namespace: its own",
            "oom_score_adj 1000",
        ],
    },
    Case {
        name: "ids",
        pod: ", securityContext: {runAsUser: 1234, runAsGroup: 2345, fsGroup: 3456, supplementalGroups: [4567, 77]}",
        container: ", securityContext: {runAsGroup: 2346}",
        expected: &[
            "Uid:\t1234\t1234\t1234\t1234",
            "Gid:\t2346\t2346\t2346\t2346",
            "CapEff:\t0000000000000000",
        ],
    },
    Case {
        name: "image-user",
        pod: "",
        container: ", image: 'example.test/with-user:1', command: [], stdin: true, securityContext: {runAsNonRoot: true}",
        expected: &[
            "Uid:\t4711\t4711\t4711\t4711",
            "Gid:\t4712\t4712\t4712\t4712",
            "Groups:\t4712 4713 ",
        ],
    },
    Case {
        name: "capabilities",
        pod: "",
        container: ", securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE, CHOWN]}}",
        expected: &[
            "CapBnd:\t0000000000000401",
            "CapEff:\t0000000000000401",
            "CapInh:\t0000000000000000",
        ],
    },
    Case {
        name: "strict",
        pod: ", securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}",
        container: ", securityContext: {runAsUser: 65534, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}",
        expected: &["NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000"],
    },
    Case {
        name: "unconfined",
        pod: ", securityContext: {seccompProfile: {type: Unconfined}}",
        container: "",
        expected: &["Seccomp:\t0", "CapBnd:\t00000000a80425fb"],
    },
    Case {
        name: "profile",
        pod: ", securityContext: {seccompProfile: {type: Localhost, localhostProfile: no-mkdir.json}}",
        container: "",
        expected: &["Seccomp:\t2", "Seccomp_filters:\t1"],
    },
    Case {
        name: "privileged",
        pod: "",
        container: ", securityContext: {privileged: true}",
        expected: &["Seccomp:\t0", "NoNewPrivs:\t0"],
    },
    Case {
        name: "own-users",
        pod: ", hostUsers: false, securityContext: {fsGroup: 3456}, volumes: [{name: scratch, emptyDir: {}}]",
        container: ", securityContext: {procMount: Unmasked}, volumeMounts: [{name: scratch, mountPath: /scratch}]",
        expected: &[
            "user namespace: its own",
            "pid namespace: its own",
            "CapEff:\t00000000a80425fb",
            "Groups:\t1073741824 1073745280 ",
            "oom_score_adj 1000",
        ],
    },
    Case {
        name: "limits",
        pod: "",
        container: ", resources: {requests: {cpu: 100m}, limits: {cpu: 200m, memory: 64Mi}}",
        expected: &[],
    },
    Case {
        name: "volumes",
        pod: ", securityContext: {fsGroup: 3456}, volumes: [{name: scratch, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: about, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}, {name: host, hostPath: {path: /usr/share, type: Directory}}]",
        container: ", volumeMounts: [{name: scratch, mountPath: /scratch, subPath: a/b}, {name: memory, mountPath: /memory}, {name: about, mountPath: /about}, {name: host, mountPath: /host, readOnly: true}]",
        expected: &[],
    },
];

fn manifest(engine: &Engine, case: &Case) -> String {
    // of two equal keys the later one counts nowhere, so each case's image and command come instead
    // of the default ones
    let program = if case.container.contains("image:") {
        String::new()
    } else {
        ", image: localhost/host, command: [sleep, '1000000']".to_owned()
    };
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{terminationGracePeriodSeconds: 0{pod}, \
         containers: [{{name: one{program}, env: [{{name: REKINDLE_TEST_PROBE, value: '{mark}'}}]{container}}}]}}}}",
        name = case.name,
        pod = case.pod,
        container = case.container,
        mark = mark(engine, case),
    )
}

/// What no other process of the machine has in its environment.
fn mark(engine: &Engine, case: &Case) -> String {
    format!("{}-{}", engine.data_dir().display(), case.name)
}

fn pid(engine: &Engine, case: &Case) -> u32 {
    process::find("REKINDLE_TEST_PROBE", &mark(engine, case))
        .unwrap_or_else(|| panic!("pod {} has no process", case.name))
}

#[track_caller]
fn compare(engine: &Engine, case: &Case, first: &str, when: &str) {
    let now = process::facts(pid(engine, case));
    if now == first {
        return;
    }
    let only = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|o| o == *line)).map(str::to_owned).collect()
    };
    panic!("pod {} {when}: was {:#?}\nis {:#?}", case.name, only(first, &now), only(&now, first));
}

fn restart(engine: &Engine, case: &Case, rung: &str) {
    let target = format!("pod/{}", case.name);
    let output = engine.rekindle(&["restart", &target, "--rung", rung, "--wait"]);
    assert!(
        output.status.success(),
        "{target}, rung {rung}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    engine.wait_ready(case.name);
}

/// Restarts every pod, all at a time, and compares each with what it was at first.
fn restart_all(engine: &Engine, first: &[(&Case, String)], rung: &str, when: &str) {
    std::thread::scope(|scope| {
        for (case, facts) in first {
            scope.spawn(move || {
                restart(engine, case, rung);
                compare(engine, case, facts, when);
            });
        }
    });
}

fn write_profile(engine: &Engine) {
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    });
    let folder = engine.data_dir().join("seccomp");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("no-mkdir.json"), profile.to_string()).unwrap();
}

fn load_image(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image.tar");
    let files = [
        ("etc/passwd", "app:x:4711:4712::/:/bin/false\n"),
        ("etc/group", "app:x:4712:\nmore:x:4713:app\n"),
    ];
    let config = json!({"Entrypoint": ["/usr/bin/cat"], "User": "app"});
    let image = TestImage::new(Some("/usr/bin/cat"), &files, &config);
    image.write_docker_archive(&file, IMAGE_WITH_USER);
    let output = engine.rekindle(&["image", "load", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_a_process_may_do_is_the_same_at_every_attempt_of_every_rung() {
    let mut engine = Engine::start();
    load_image(&engine);
    write_profile(&engine);
    let mut first = Vec::new();
    for case in CASES {
        engine.apply(&manifest(&engine, case));
    }
    for case in CASES {
        engine.wait_ready(case.name);
        let facts = process::facts(pid(&engine, case));
        for line in case.expected {
            assert!(
                facts.lines().any(|fact| fact == *line),
                "{}: no {line:?} in {facts}",
                case.name
            );
        }
        first.push((case, facts));
    }

    for (time, rung) in RUNGS.iter().enumerate() {
        restart_all(&engine, &first, rung, &format!("after restart {time}, of rung {rung}"));
    }

    // what an engine that was killed left running is what it was, and what the next one starts is,
    // too
    let before: Vec<u32> = CASES.iter().map(|case| pid(&engine, case)).collect();
    engine.kill();
    engine.launch(&[]);
    assert_eq!(
        CASES.iter().map(|case| pid(&engine, case)).collect::<Vec<_>>(),
        before,
        "nothing was started again"
    );
    for (case, facts) in &first {
        compare(&engine, case, facts, "with the next engine");
    }
    for rung in ["container", "pod"] {
        restart_all(&engine, &first, rung, &format!("after rung {rung} by the next engine"));
    }
}

/// A restart that nobody asked for: the process is killed, and the container starts again by its
/// policy.
#[test]
fn what_a_process_may_do_is_the_same_after_it_was_killed() {
    let engine = Engine::start();
    write_profile(&engine);
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.name != "image-user").collect();
    for case in &cases {
        engine.apply(&manifest(&engine, case));
    }
    for case in cases {
        engine.wait_ready(case.name);
        let (pid, facts) = (pid(&engine, case), process::facts(pid(&engine, case)));
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let pod = format!("pod/{}", case.name);
        engine.wait_for(&pod, ".status.containerStatuses[0].restartCount", "1");
        engine.wait_ready(case.name);
        compare(&engine, case, &facts, "after its process was killed");
    }
}
