//! RestartLadder, PodRestart and RestartLedger as kubectl shows and explains them, and as a cluster
//! gets them.
use rekindle_testkit::{Engine, rekindle, text};

#[test]
fn kubectl_explains_our_kinds_and_a_cluster_gets_the_same() {
    let engine = Engine::start();
    for (path, says) in [
        (
            "restartladder.spec.rungs",
            &[
                "FIELD: rungs <[]LadderRung>",
                "How often it is tried inside the window",
                "-required-",
            ][..],
        ),
        (
            "rl.spec.rungs.rung",
            &["FIELD: rung <string>", "ENUM:\n    Container\n    Containers", "What is restarted."],
        ),
        ("restartladder.spec.budget.perMinute", &["Restarts above Container per minute"]),
        ("podrestart.spec.containerName", &["Of a Container restart: the container, or sidecar"]),
        ("podrestart.spec.deadlineSeconds", &["Seconds by which it has to be done"]),
        (
            "podrestart.status.replacement.step",
            &["What is being done.", "ENUM:\n    Held\n    Evicting"],
        ),
        ("restartledger.status.decisions.reason", &["Why."]),
        ("restartledger.status.conditions", &["lastTransitionTime"]),
    ] {
        let said = engine.kubectl(&["explain", path]);
        for part in says {
            assert!(said.contains(part), "{path}: no {part:?} in\n{said}");
        }
    }
    let all = engine.kubectl(&["explain", "restartledger", "--recursive"]);
    for field in ["exhaustionToldAt", "heldRung", "attempts\t<[]RungAttempts>"] {
        assert!(all.contains(field), "no {field} in\n{all}");
    }

    let printed = rekindle().arg("crds").output().unwrap();
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let kept =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/crds.yaml"));
    assert!(text(&printed.stdout) == kept.unwrap(), "rekindle crds > deploy/crds.yaml");
}
