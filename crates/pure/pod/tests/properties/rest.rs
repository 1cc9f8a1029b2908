//! What must hold when everything has come to rest.

use rekindle_pod::ResourceDecision;
use rekindle_types::{ExitStatus, TickDuration};

use crate::happenings::crash;
use crate::shapes::role_of;
use crate::world::{Disk, Telling, World};

/// The faults are over: containers obey signals, init containers succeed, nothing else ends.
pub(crate) fn heal(world: &mut World) {
    world.disk = Disk::HasRoom;
    world.runtime.obeys_signals = true;
    world.runtime.answers.clear();
    match world.telling {
        Telling::All => {}
        Telling::JournalOnly => crash(world), // the node is there again
    }
    world.report_exits();
    world.snapshot_when_quiet();
    world.decide(ResourceDecision::Granted);
    // Longer than any delay, as probes have no end.
    let until = world.now + TickDuration::from_secs(1_000);
    for _ in 0..2_000 {
        world.obey();
        let inits: Vec<String> =
            world.runtime.running_names().into_iter().filter(|n| role_of(n) == "init").collect();
        for init in &inits {
            world.exit(init, ExitStatus::Code { code: 0 });
        }
        world.obey();
        if inits.is_empty() && (world.now > until || !world.wake()) {
            return;
        }
    }
    panic!("it does not come to rest: {:#?}", &world.log[world.log.len().saturating_sub(60)..]);
}

/// What must hold when everything has come to rest.
pub(crate) fn check_rest(world: &World, ended: End) {
    let phase = world.phase();
    let finished = world.core.is_finished();
    match ended {
        End::Asked => assert!(finished, "asked to end, and {phase}"),
        End::NotAsked if finished => {}
        End::NotAsked => {
            assert_eq!(phase, "Running", "{:?}", world.core.status());
            check_health(world);
            check_resources(world);
            let policy = world.pod.spec.as_ref().and_then(|spec| spec.restart_policy.clone());
            let running = world.runtime.running_names();
            for container in &world.pod.spec.as_ref().expect("a spec").containers {
                let due = policy.as_deref() == Some("Always");
                assert!(!due || running.contains(&container.name), "{} is down", container.name);
            }
            for sidecar in world.pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten()) {
                let due = role_of(&sidecar.name) == "side";
                assert!(!due || running.contains(&sidecar.name), "{} is down", sidecar.name);
            }
            assert_eq!(world.runtime.sandbox_attempts().len(), 1, "old sandboxes are left");
        }
    }
    if finished {
        assert!(phase == "Succeeded" || phase == "Failed", "over, and {phase}");
        assert!(world.finishes > 0);
        assert!(world.runtime.is_empty());
    }
    let open: Vec<_> = world.reports.iter().filter(|(_, phase)| !phase.is_final()).collect();
    assert!(open.is_empty(), "restarts without an outcome: {open:?}");
    for (name, starts) in &world.runtime.starts {
        assert!(role_of(name) != "debug" || *starts <= 1, "{name} was started {starts} times");
    }
    let probed = world.runtime.running_names().iter().any(|name| is_probed(world, name));
    let asks = probed || waits_for_target(world);
    assert!(asks || world.core.poll_timeout().is_none());
}

fn is_probed(world: &World, name: &str) -> bool {
    let spec = world.pod.spec.as_ref().expect("a spec");
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.into_iter().any(|c| c.name == name && c.liveness_probe.is_some())
}

/// An ephemeral container tries to see the processes of a container that has ended for good.
fn waits_for_target(world: &World) -> bool {
    let status = world.pod.status.as_ref().expect("a status");
    let mut debug = status.ephemeral_container_statuses.iter().flatten();
    debug.any(|c| c.state.as_ref().is_some_and(|state| state.waiting.is_some()))
}

/// What runs is started and ready in the end, and nothing is asked of what does not.
fn check_health(world: &World) {
    let running = world.runtime.running_names();
    let status = world.pod.status.as_ref().expect("a status");
    let lists = [&status.init_container_statuses, &status.container_statuses];
    for container in lists.into_iter().flatten().flatten() {
        let well = container.ready && container.started == Some(true);
        assert!(well || !running.contains(&container.name), "{} is not ready", container.name);
    }
}

/// What runs has what was granted, and no resize is under way.
fn check_resources(world: &World) {
    let status = world.pod.status.as_ref().expect("a status");
    let conditions = status.conditions.iter().flatten();
    let under_way: Vec<_> = conditions.filter(|c| c.type_ == "PodResizeInProgress").collect();
    assert!(under_way.is_empty(), "{under_way:?}");
    for key in world.runtime.running() {
        let granted = world.granted_to(&key.name.0);
        assert_eq!(world.in_force.get(&key), Some(&granted), "{key:?} has something else");
    }
}

/// Whether a pod that has come to rest was to end.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum End {
    Asked,
    NotAsked,
}
