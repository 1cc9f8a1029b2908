//! `kubectl exec`, `cp`, `attach` and `port-forward` with the stock kubectl, as on any cluster.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::ports::{forwarded_port, get};
use rekindle_testkit::{Engine, on_terminal, text};

/// One container that sleeps, and one that ends when it is told to.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: localhost/host, command: [sleep, '100000']}
  - {name: side, image: localhost/host, command: [sleep, '100000'], securityContext: {runAsUser: 1234}}
";

const SERVER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: server, image: localhost/demo, args: [server, --port, '8080'], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}}
";

fn engine_with(manifest: &str, pod: &str) -> Engine {
    let engine = Engine::start();
    engine.apply(manifest);
    engine.wait_ready(pod);
    engine
}

#[test]
fn exec_gives_output_input_and_exit_codes() {
    let engine = engine_with(PODS, "web");
    assert_eq!(engine.kubectl(&["exec", "web", "-c", "main", "--", "hostname"]), "web\n");
    assert_eq!(engine.kubectl(&["exec", "web", "-c", "side", "--", "id", "-u"]), "1234\n");
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
        let output =
            engine.try_kubectl(&["exec", "web", "-c", "main", "--", "sh", "-c", script], "");
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output.stderr));
    }
    let output = engine.try_kubectl(
        &["exec", "web", "-c", "main", "--", "sh", "-c", "echo out; echo err >&2"],
        "",
    );
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".into(), "err\n".into()));

    let long = "0123456789abcdef\n".repeat(100_000);
    let sent = engine.try_kubectl(&["exec", "-i", "web", "-c", "main", "--", "cat"], &long);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(text(&sent.stdout) == long, "{} bytes came back", sent.stdout.len());
}

#[test]
fn exec_says_what_is_wrong() {
    let engine = engine_with(PODS, "web");
    for (arguments, problem) in [
        (&["exec", "web", "-c", "nope", "--", "true"][..], "nope"),
        (&["exec", "absent", "--", "true"], "pods \"absent\" not found"),
        (
            &["exec", "web", "-c", "main", "--", "nope"],
            "exec \"nope\": executable file not found in $PATH",
        ),
        (&["exec", "web", "-c", "main", "--", "/bin/nope"], "no such file or directory"),
    ] {
        let error = engine.kubectl_fails(arguments, "");
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
    engine.kubectl(&["exec", "web", "-c", "main", "--", "true"]);
}

#[test]
fn exec_ends_with_the_container_that_it_is_in() {
    let engine = engine_with(
        "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
  - {name: main, image: localhost/host, command: [sh, -c, 'until test -e /tmp/rekindle-end; do sleep 0.05; done']}
",
        "web",
    );
    let output = engine.try_kubectl(
        &["exec", "web", "--", "sh", "-c", "touch /tmp/rekindle-end; exec sleep 100000"],
        "",
    );
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    engine.wait_for("pod/web", ".status.phase", "Succeeded");
    let error = engine.kubectl_fails(&["exec", "web", "--", "true"], "");
    assert!(
        error.contains("container not found (\"main\")") || error.contains("completed pod"),
        "{error}"
    );
}

#[test]
fn exec_on_a_terminal_has_the_size_of_the_users() {
    let engine = engine_with(PODS, "web");
    let inside =
        "until [ \"$(stty size)\" = \"33 77\" ]; do sleep 0.01; done; tty; echo term $TERM; exit 9";
    let kubectl = engine.kubectl_command(&["exec", "-it", "web", "-c", "main", "--", "sh", "-c"]);
    let output = on_terminal(&kubectl, 33, 77, inside);
    let shown = text(&output.stdout);
    assert!(shown.contains("/dev/pts/0") && shown.contains("term xterm"), "{shown}");
    assert_eq!(output.status.code(), Some(9), "{shown}");
}

#[test]
fn cp_goes_both_ways() {
    let engine = engine_with(PODS, "web");
    let here = engine.data_dir().join("here.bin");
    let back = engine.data_dir().join("back.bin");
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&here, &content).unwrap();
    let (here, back) = (here.to_str().unwrap(), back.to_str().unwrap());
    engine.kubectl(&["cp", here, "web:/tmp/rekindle-there.bin", "-c", "main"]);
    engine.kubectl(&["cp", "web:/tmp/rekindle-there.bin", back, "-c", "main"]);
    assert!(std::fs::read(back).unwrap() == content);
}

#[test]
fn port_forward_reaches_the_pods_loopback() {
    let engine = engine_with(SERVER, "server");
    let mut forward = engine.kubectl_command(&["port-forward", "pod/server", ":8080", ":9"]);
    let mut forward = GuardedChild::start(forward.stderr(Stdio::piped()));
    let mut lines = forward.lines();
    let (open, closed) = (forwarded_port(&mut lines, 8080), forwarded_port(&mut lines, 9));
    for _ in 0..3 {
        let answer = get("127.0.0.1", open).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Nobody listens there: the client is told, and the other port goes on.
    let mut client = TcpStream::connect(("127.0.0.1", closed)).unwrap();
    let mut nothing = Vec::new();
    let _ = client.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    let mut errors = BufReader::new(forward.0.stderr.take().unwrap()).lines();
    let told = errors.by_ref().map(Result::unwrap).find(|line| line.contains("refused")).unwrap();
    assert!(told.contains("connect to localhost:9 inside the pod"), "{told}");
}

#[test]
fn discovery_tells_of_streams() {
    let engine = Engine::start();
    let resources = engine.kubectl(&["get", "--raw", "/api/v1"]);
    for name in ["pods/attach", "pods/exec", "pods/portforward"] {
        assert!(resources.contains(&format!("{name:?}")), "{resources}");
    }
    assert_eq!(engine.kubectl(&["auth", "can-i", "create", "pods/exec"]), "yes\n");
    let error = engine.kubectl_fails(
        &["create", "--raw", "/api/v1/namespaces/default/pods/x/exec", "-f", "-"],
        "{}",
    );
    assert!(error.contains("not found"), "{error}");
}

/// Reads a line at a time what it is told, and says it again.
const ECHO: &str = "
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
  - name: once
    image: localhost/host
    stdin: true
    stdinOnce: true
    command: [sh, -c, 'while read line; do echo got $line; done; echo end']
  - name: terminal
    image: localhost/host
    stdin: true
    tty: true
    command: [sh, -c, 'tty; read line; echo terminal got $line; sleep 100000']
";

#[test]
fn attach_joins_the_first_process_with_its_input() {
    let engine = engine_with(ECHO, "echo");
    let output = engine.try_kubectl(&["attach", "-i", "echo", "-c", "once"], "one\ntwo\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "got one\ngot two\nend\n");
    engine.wait_for("pod/echo", ".status.containerStatuses[0].state.terminated.exitCode", "0");
    assert_eq!(engine.kubectl(&["logs", "echo", "-c", "once"]), "got one\ngot two\nend\n");

    // On a terminal: what is typed comes back, and the log has it all.
    let mut attached = GuardedChild::start(
        &mut engine.kubectl_command(&["attach", "-i", "echo", "-c", "terminal"]),
    );
    attached.0.stdin.as_mut().unwrap().write_all(b"three\n").unwrap();
    let answer =
        attached.lines().map(Result::unwrap).find(|line| line.contains("terminal got")).unwrap();
    assert_eq!(answer.trim_end(), "terminal got three");
    let log = engine.kubectl(&["logs", "echo", "-c", "terminal"]);
    assert!(log.contains("/dev/pts/0\r\n"), "{log:?}");
}
