//! A further node is a node as the first: images from a private registry, logs that are followed,
//! terminals, attach, cp and port-forward, with the stock kubectl. And when it is stopped, its pods
//! serve nobody any more.
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::ports::{forwarded_port, get};
use rekindle_testkit::registry::{LoopbackRegistry, RegistryAccess};
use rekindle_testkit::{Engine, TIMEOUT, is, on_terminal, text};

const FAR: &str = "node-1-2";

/// Pods and a Service, with the image of a registry in place of IMAGE.
const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: far}
spec:
  nodeSelector: {kubernetes.io/hostname: node-1-2}
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  imagePullSecrets: [{name: logins}]
  containers:
  - {name: app, image: IMAGE}
  - name: main
    image: localhost/host
    command: [sh, -c, 'echo first; until test -e /tmp/rekindle-end; do sleep 0.05; done; echo last']
  - name: once
    image: localhost/host
    stdin: true
    stdinOnce: true
    command: [sh, -c, 'while read line; do echo got $line; done; echo end']
---
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-1-2}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: server, image: localhost/demo, args: [server, --port, '8080'], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
";

#[test]
fn a_further_node_pulls_and_streams_as_the_first_and_serves_nobody_when_it_is_stopped() {
    let registry = LoopbackRegistry::start(RegistryAccess::WithPassword);
    registry.push("team/app", "v1", "echo from the registry; exec sleep 1000");
    let mut engine = Engine::prepare();
    engine.launch(&["--nodes", "2"]);
    engine.until_one(&format!("node/{FAR}"), |node| is(node, "Ready"));
    registry.give_logins_to(&engine);
    engine.apply(&MANIFEST.replace("IMAGE", &registry.image("team/app:v1")));
    engine.wait_ready("far");
    engine.wait_ready("server");
    assert_eq!(engine.first_lines(&["far", "-c", "app"], 1), ["from the registry"]);

    a_terminal_has_the_size_of_the_users(&engine);
    files_go_both_ways(&engine);
    an_attached_client_gives_input(&engine);
    ports_are_forwarded(&engine);
    logs_are_followed_to_their_end(&engine);
    a_stopped_node_serves_nobody(&engine);
}

fn a_terminal_has_the_size_of_the_users(engine: &Engine) {
    let inside = "until [ \"$(stty size)\" = \"33 77\" ]; do sleep 0.01; done; tty; exit 9";
    let kubectl = engine.kubectl_command(&["exec", "-it", "far", "-c", "main", "--", "sh", "-c"]);
    let output = on_terminal(&kubectl, 33, 77, inside);
    let shown = text(&output.stdout);
    assert!(shown.contains("/dev/pts/0"), "{shown}");
    assert_eq!(output.status.code(), Some(9), "{shown}");
}

fn files_go_both_ways(engine: &Engine) {
    let (here, back) = (engine.data_dir().join("here.bin"), engine.data_dir().join("back.bin"));
    let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&here, &content).unwrap();
    engine.kubectl(&["cp", here.to_str().unwrap(), "far:/tmp/rekindle-there.bin", "-c", "main"]);
    engine.kubectl(&["cp", "far:/tmp/rekindle-there.bin", back.to_str().unwrap(), "-c", "main"]);
    assert!(std::fs::read(back).unwrap() == content);
}

fn an_attached_client_gives_input(engine: &Engine) {
    let output = engine.try_kubectl(&["attach", "-i", "far", "-c", "once"], "one\ntwo\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "got one\ngot two\nend\n");
}

fn ports_are_forwarded(engine: &Engine) {
    let mut forward =
        GuardedChild::start(&mut engine.kubectl_command(&["port-forward", "pod/server", ":8080"]));
    // read on as long as it forwards: it says so with each connection
    let mut lines = forward.lines();
    let answer = get("127.0.0.1", forwarded_port(&mut lines, 8080)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop((forward, lines));
}

fn logs_are_followed_to_their_end(engine: &Engine) {
    let mut follow = GuardedChild::start(
        &mut engine.kubectl_command(&["logs", "--follow", "far", "-c", "main"]),
    );
    let mut lines = follow.lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("first"));
    engine.exec_and_end(&["far", "-c", "main", "--", "touch", "/tmp/rekindle-end"]);
    assert_eq!(lines.next().as_deref(), Some("last"));
    assert_eq!(lines.next(), None);
    assert!(follow.0.wait().unwrap().success());
}

/// Its pods are out of the Service's endpoints when the node has not been heard of for its grace
/// period.
fn a_stopped_node_serves_nobody(engine: &Engine) {
    let slice_is = |ready: bool| {
        let of_server = ["endpointslices", "-l", "kubernetes.io/service-name=server"];
        engine.until(&of_server, |slices| {
            slices.values().any(|slice| slice["endpoints"][0]["conditions"]["ready"] == ready)
        });
    };
    slice_is(true);
    let stopped = engine.rekindle(&["node", "stop", FAR]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    engine.kubectl(&["wait", "--for=condition=Ready=false", "pod/server", TIMEOUT]);
    slice_is(false);
}
