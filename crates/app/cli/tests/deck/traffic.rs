//! Requests through a Service while its pods are replaced or restarted.
//!
//! Where the deck saves requests by a preStop sleep, nothing is lost here without it: the rules go
//! before the stop signal (P15).

use rekindle_testkit::Engine;
use rekindle_testkit::load::{Load, LoadResult};

use crate::{apply, pods_of, restart};

/// Clients that keep their connections.
const KEPT: usize = 20;

struct Deck {
    engine: Engine,
    address: String,
}

impl Deck {
    /// With this manifest applied, and all its pods ready.
    fn start(manifest: &str) -> Self {
        let engine = Engine::start();
        apply(&engine, manifest);
        rolled_out(&engine);
        let service = engine.get("service/web");
        let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        Self { engine, address }
    }

    /// What new connections get while this goes on.
    fn under_load(&self, disturb: impl FnOnce(&Engine)) -> LoadResult {
        self.answers(Load::start(&self.address, 80), disturb)
    }

    /// The same for connections that are kept.
    fn under_kept_load(&self, disturb: impl FnOnce(&Engine)) -> LoadResult {
        self.answers(Load::start_kept(&self.address, 80, KEPT), disturb)
    }

    /// The server answers before the disturbance and after it: nothing else is wrong with it.
    fn answers(&self, load: Load, disturb: impl FnOnce(&Engine)) -> LoadResult {
        load.until_answered(20);
        disturb(&self.engine);
        load.until_answered(20);
        let result = load.stop();
        println!("{} lost, {} answered", result.lost.len(), result.answered);
        result
    }
}

fn rolled_out(engine: &Engine) {
    engine.kubectl(&["rollout", "status", "deployment/web", "--timeout=180s"]);
}

/// A rolling update, to its end: also the old pods are gone.
fn roll_out(engine: &Engine) {
    let old = pods_of(engine, "web");
    engine.kubectl(&["rollout", "restart", "deployment/web"]);
    rolled_out(engine);
    for pod in old {
        engine.kubectl(&["wait", "--for=delete", &format!("pod/{pod}"), "--timeout=180s"]);
    }
}

#[track_caller]
fn expect_lost(result: &LoadResult) {
    assert!(!result.lost.is_empty(), "all {} were answered", result.answered);
}

#[track_caller]
fn expect_none_lost(result: &LoadResult) {
    let (lost, first) = (result.lost.len(), result.lost.first());
    assert!(first.is_none(), "{lost} lost, {} answered: {first:?}", result.answered);
}

#[test]
fn a_server_that_dies_on_sigterm_loses_what_it_was_answering() {
    // on connections that are kept, so that both pods are answering when they are asked to end: of
    // new ones none may be with a pod that is in the rules no more
    expect_lost(&Deck::start("shutdown-before").under_kept_load(roll_out));
}

#[test]
fn a_server_that_drains_loses_nothing_in_a_rolling_update() {
    let deck = Deck::start("shutdown-after");
    expect_none_lost(&deck.under_load(roll_out));
    expect_none_lost(&deck.under_kept_load(roll_out));
}

#[test]
fn without_a_readiness_probe_connections_come_before_the_server_listens() {
    expect_lost(&Deck::start("readiness-before").under_load(roll_out));
}

#[test]
fn with_a_readiness_probe_none_comes_before() {
    expect_none_lost(&Deck::start("readiness-after").under_load(roll_out));
}

/// The deck's downtime: also for the figures, where it shows that the measurement can fail.
#[test]
fn the_only_replica_without_probes_is_away_during_a_rolling_update() {
    let result = Deck::start("single-replica-before").under_load(roll_out);
    // nothing listens for 2 s, and four clients try more than once a second each
    assert!(result.lost.len() >= 8, "{} lost, {} answered", result.lost.len(), result.answered);
}

#[test]
fn the_only_replica_with_a_readiness_probe_is_replaced_without_loss() {
    expect_none_lost(&Deck::start("single-replica-after").under_load(roll_out));
}

/// On Kubernetes this loses connections. The order of rules and signal saves them here.
#[test]
fn what_loses_connections_elsewhere_for_lack_of_a_sleep_loses_none_here() {
    expect_none_lost(&Deck::start("endpoints-before").under_load(roll_out));
}

#[test]
fn a_sleep_before_the_end_loses_nothing_either() {
    expect_none_lost(&Deck::start("endpoints-after").under_load(roll_out));
}

fn restart_only_pod(engine: &Engine) {
    let pod = pods_of(engine, "web").remove(0);
    restart(engine, &pod, "pod");
}

#[test]
fn a_restart_of_the_only_replica_loses_connections_that_may_not_wait() {
    expect_lost(&Deck::start("restart-before").under_load(restart_only_pod));
}

#[test]
fn a_restart_of_the_only_replica_loses_none_that_wait() {
    let deck = Deck::start("restart-after");
    expect_none_lost(&deck.under_load(restart_only_pod));
    expect_none_lost(&deck.under_kept_load(restart_only_pod));
}

#[test]
fn four_replicas_without_a_sleep_lose_nothing_whatever_ends_them() {
    let disturb = |engine: &Engine| {
        roll_out(engine);
        let pods = pods_of(engine, "web");
        restart(engine, &pods[0], "pod");
        restart(engine, &pods[1], "containers");
        engine.kubectl(&["delete", "pod", &pods[2]]);
        rolled_out(engine);
    };
    let deck = Deck::start("no-sleep");
    let kept = Load::start_kept(&deck.address, 80, KEPT);
    expect_none_lost(&deck.under_load(disturb));
    kept.until_answered(20);
    expect_none_lost(&kept.stop());
}
