//! A pod whose volume leads to the host: at no rung, and not when the pod is deleted, is anything
//! there touched.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rekindle_testkit::{Engine, text};

/// One container does what it likes with the volume, the other one mounts a part of it.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hostile}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 4321}
  containers:
  - {name: attacker, image: localhost/host, command: [sleep, '1000000'], volumeMounts: [{name: scratch, mountPath: /s}]}
  - {name: victim, image: localhost/host, command: [sh, -c, 'touch /v/started; exec sleep 1000000'], volumeMounts: [{name: scratch, mountPath: /v, subPath: sub}]}
  volumes:
  - {name: scratch, emptyDir: {}}
";

/// Links to the host of every kind, one of them in place of the part that the other container
/// mounts.
fn attack(engine: &Engine, outside: &Path) {
    let outside = outside.display();
    let script = format!(
        "cd /s && mv sub old && ln -s {outside} sub && ln -s {outside}/secret file && ln -s / root && mkdir -p deep/er && \
         ln -s ../../../../../../../../..{outside} deep/er/up && ln -s /proc/self/cwd magic && mkfifo pipe"
    );
    engine.kubectl(&["exec", "hostile", "-c", "attacker", "--", "sh", "-c", &script]);
}

#[test]
fn links_out_of_a_volume_lead_nowhere_at_any_rung() {
    let engine = Engine::start();
    let outside = tempfile::Builder::new().prefix("rekindle-test-outside-").tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let looks = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ino(), found.mode(), found.uid(), found.gid(), found.mtime_nsec(), found.size())
    };
    let before = (looks(outside.path()), looks(&secret));
    let untouched = |when: &str| {
        let names: Vec<_> =
            fs::read_dir(outside.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"], "{when}");
        assert_eq!((looks(outside.path()), looks(&secret)), before, "{when}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{when}");
    };

    for rung in ["container", "containers", "pod"] {
        engine.apply(POD);
        engine.wait_ready("hostile");
        attack(&engine, outside.path());
        match rung {
            // the volume stays as it is, so the part of it cannot be mounted any more
            "container" | "containers" => {
                let asked = engine.rekindle(&["restart", "pod/hostile", "--rung", rung]);
                assert!(asked.status.success(), "{}", text(&asked.stderr));
                let reason = ".status.containerStatuses[1].state.waiting.reason";
                engine.wait_for("pod/hostile", reason, "CreateContainerConfigError");
                let status = engine.get("pod/hostile")["status"]["containerStatuses"][1].clone();
                let message = status["state"]["waiting"]["message"].as_str().unwrap();
                assert!(message.contains("subPath \"sub\""), "{rung}: {message}");
            }
            // it is made new, and what was in it is deleted
            _ => {
                let done = engine.rekindle(&["restart", "pod/hostile", "--rung", rung, "--wait"]);
                assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
                engine.wait_ready("hostile");
                let list = ["exec", "hostile", "-c", "attacker", "--", "ls", "-A", "/s"];
                assert_eq!(engine.kubectl(&list), "sub\n");
                untouched("after the volume was made new");
                attack(&engine, outside.path());
            }
        }
        untouched(rung);
        engine.kubectl(&["delete", "pod", "hostile"]);
        untouched("after the pod was deleted");
    }
    let left = fs::read_dir(engine.data_dir().join("node/pods")).unwrap().count();
    assert_eq!(left, 0, "nothing of the pods is left");
}
