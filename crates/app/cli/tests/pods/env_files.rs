//! Variables from files that an init container writes (`fileKeyRef`), on real containers.
use rekindle_testkit::{Engine, text};

/// A pod whose init container runs a script in an emptyDir at /v, and whose container has a
/// variable `FROM_FILE` from there.
fn pod(name: &str, script: &str, selector: &str) -> String {
    let env =
        format!("[{{name: FROM_FILE, valueFrom: {{fileKeyRef: {{volumeName: v, {selector}}}}}}}]");
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, \
         initContainers: [{{name: write, image: localhost/host, command: [sh, -c, \"{script}\"], volumeMounts: [{{name: v, mountPath: /v}}]}}], \
         containers: [{{name: one, image: localhost/host, command: [sleep, '1000000'], env: {env}}}], volumes: [{{name: v, emptyDir: {{}}}}]}}}}"
    )
}

fn seen(engine: &Engine, pod: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "sh", "-c", "echo ${FROM_FILE-unset}"])
}

fn restart(engine: &Engine, pod: &str, rung: &str) {
    let output = engine.rekindle(&["restart", &format!("pod/{pod}"), "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready(pod);
}

#[test]
fn a_variable_is_what_the_init_container_wrote_at_every_start() {
    let engine = Engine::start();
    // another value each time it runs; the container itself does not have the volume
    let script = "echo \\\"ID='$(cat /proc/sys/kernel/random/uuid)'\\\" > /v/app.env";
    let applied =
        engine.try_kubectl(&["apply", "-f", "-"], &pod("app", script, "path: app.env, key: ID"));
    assert!(applied.status.success() && applied.stderr.is_empty(), "{applied:?}");
    engine.wait_ready("app");
    let first = seen(&engine, "app");
    assert_eq!(first.trim().len(), 36, "{first}");
    restart(&engine, "app", "container");
    assert_eq!(seen(&engine, "app"), first, "the file is the same");
    restart(&engine, "app", "pod");
    let second = seen(&engine, "app");
    assert!(second.trim().len() == 36 && second != first, "{first} {second}");
}

#[test]
fn what_is_not_in_the_file_is_left_out_or_keeps_the_container_from_starting() {
    let engine = Engine::start();
    let script = "echo \\\"ID='x'\\\" > /v/app.env; ln -s /etc/hostname /v/link";
    engine.apply(&pod("may", script, "path: none.env, key: ID, optional: true"));
    engine.apply(&pod("must", script, "path: app.env, key: OTHER"));
    engine.apply(&pod("link", script, "path: link, key: ID"));
    engine.wait_ready("may");
    assert_eq!(seen(&engine, "may"), "unset\n");
    for (pod, message) in [
        ("must", "environment variable key \"OTHER\" not found in file \"app.env\""),
        ("link", "couldn't read env file \"link\" of volume \"v\": it does not exist"),
    ] {
        let waiting = ".status.containerStatuses[0].state.waiting.reason";
        engine.wait_for(&format!("pod/{pod}"), waiting, "CreateContainerConfigError");
        let state = &engine.get(&format!("pod/{pod}"))["status"]["containerStatuses"][0]["state"];
        assert_eq!(state["waiting"]["message"], message);
    }
    let wrong = pod("wrong", script, "path: /abs, key: 'a=b'");
    let refused = engine.kubectl_fails(&["apply", "-f", "-"], &wrong);
    let field = "spec.containers[0].env[0].valueFrom.fileKeyRef";
    assert!(refused.contains(&format!("{field}.path: Invalid value")), "{refused}");
    assert!(refused.contains(&format!("{field}.key: Invalid value")), "{refused}");
}
