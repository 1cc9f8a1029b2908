//! examples/three-tiers.yaml: a front end, an API and a database, as they are.

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::load::Load;
use rekindle_testkit::ports::{forwarded_port, get};
use rekindle_testkit::{Engine, TIMEOUT, text};

use crate::routing::{SHELL, asked_in_shell};

const MANIFEST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/three-tiers.yaml"));

fn rolled_out(engine: &Engine) {
    for workload in ["statefulset/database", "deployment/api", "deployment/front"] {
        engine.kubectl(&["rollout", "status", workload, TIMEOUT]);
    }
}

/// How often the page says that it was read.
#[track_caller]
fn reads(host: &str, port: u16) -> u64 {
    let answer = get(host, port).unwrap();
    let page = answer.split_once("\r\n\r\n").unwrap().1.trim();
    let count = page.strip_prefix("read ").and_then(|page| page.strip_suffix(" times"));
    count.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

#[test]
fn an_app_of_three_tiers_is_reached_from_everywhere_and_loses_no_request() {
    let mut engine = Engine::start();
    engine.apply(MANIFEST);
    engine.apply(SHELL);
    rolled_out(&engine);
    engine.wait_ready("shell");
    let front = engine.get("service/front");
    let address = front["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let node_port = front["spec"]["ports"][0]["nodePort"].as_u64().unwrap() as u16;

    // from the node, from a pod, and over the API
    assert_eq!([reads(&address, 80), reads("127.0.0.1", node_port)], [1, 2]);
    let answer = asked_in_shell(&engine, "front", 80);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut forward = engine.kubectl_command(&["port-forward", "service/front", ":80"]);
    let mut forward = GuardedChild::start(&mut forward);
    let mut lines = forward.lines();
    assert_eq!(reads("127.0.0.1", forwarded_port(&mut lines, 8080)), 4);
    drop((forward, lines));

    // each tier is replaced or restarted under load; where many tests run at once that may take
    // longer than connections wait by themselves
    engine.kubectl(&["annotate", "service", "database", "rekindle.dev/hold-connections=1m"]);
    let load = Load::start(&address, 80);
    load.until_answered(50);
    engine.kubectl(&["rollout", "restart", "deployment/front", "deployment/api"]);
    rolled_out(&engine);
    let restarted = engine.rekindle(&["restart", "pod/database-0", "--rung", "pod", "--wait"]);
    assert!(restarted.status.success(), "{}", text(&restarted.stderr));
    load.until_answered(50);

    // also while no engine runs: the tiers find each other by name
    engine.kill();
    load.until_answered(200);
    engine.launch(&[]);
    load.until_answered(50);
    let result = load.stop();
    assert!(result.lost.is_empty(), "{}: {:?}", result.lost.len(), result.lost.first());
    let read = reads(&address, 80);
    assert!(read > 4 + result.answered, "{read} reads, {} answers", result.answered);
}
