//! The agent and the machine may go at any moment: what runs is left alone, no count falls, no wait
//! becomes shorter (P1, P3).

use std::collections::BTreeSet;

use proptest::prelude::*;
use rekindle_pod::ContainerStartKey;
use rekindle_types::v1alpha1::{EmptyDirPolicy, PodRestartPhase, Rung};
use rekindle_types::{ExitStatus, Tick};

use crate::happenings::{Happening, crash, happen, happening, play, restart_one};
use crate::rest::{End, check_rest, heal};
use crate::shapes::{Care, Shape, pods};
use crate::world::build::{self, PodExt};
use crate::world::{Processes, World};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// P3: the delays survive the agent. A container that crashes as soon as it runs is started at
    /// the same ticks, wherever the agent is killed.
    #[test]
    fn killing_the_agent_does_not_change_when_a_crashing_container_is_started(
        crashes in prop::collection::btree_set(0usize..120, 0..12),
    ) {
        let undisturbed = crash_loop(&[]);
        let disturbed = crash_loop(&crashes.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(undisturbed, disturbed);
    }

    /// P3: the delays survive the machine. One that goes down while the container waits makes no
    /// wait shorter.
    #[test]
    fn a_machine_that_restarts_does_not_change_when_a_crashing_container_is_started(
        reboots in prop::collection::btree_set(0usize..8, 1..8),
    ) {
        let undisturbed = crash_loop(&[]);
        let disturbed = crash_loop_over_reboots(&reboots);
        prop_assert_eq!(undisturbed, disturbed);
    }

    /// P1: the next agent finds each container that runs under the same key, ends none and starts
    /// none, wherever the ones before it were killed.
    #[test]
    fn agents_that_are_killed_again_and_again_end_nothing_and_start_nothing(
        pod in pods(),
        before in prop::collection::vec(happening(), 0..60),
        kills in prop::collection::vec(0usize..12, 1..6),
    ) {
        let mut world = play(pod.pod(), &before);
        heal(&mut world);
        let running: BTreeSet<ContainerStartKey> = world.runtime.running().collect();
        let starts = world.runtime.starts.clone();
        for steps in kills {
            crash(&mut world);
            for _ in 0..steps {
                if !world.poll() && !world.waiting.is_empty() {
                    world.carry_out(0);
                }
            }
        }
        heal(&mut world);
        prop_assert_eq!(running, world.runtime.running().collect::<BTreeSet<_>>());
        prop_assert_eq!(starts, world.runtime.starts.clone());
    }

    /// P1, P3: with the journal gone too, the runtime and the API's status are enough to start
    /// nothing twice and let no count fall. What is checked is in the world.
    #[test]
    fn a_lost_journal_restarts_nothing(
        pod in pods(),
        before in prop::collection::vec(happening(), 0..60),
        after in prop::collection::vec(happening(), 0..60),
    ) {
        let mut world = play(pod.pod(), &before);
        heal(&mut world);
        let running = world.runtime.running_names();
        let starts = world.runtime.starts.clone();
        happen(&mut world, &Happening::AgentCrashWithoutJournal);
        heal(&mut world);
        prop_assert_eq!(running, world.runtime.running_names());
        prop_assert_eq!(starts, world.runtime.starts.clone());
        for step in &after {
            happen(&mut world, step);
        }
        heal(&mut world);
        check_rest(&world, End::NotAsked);
    }
}

/// The ticks at which a container is started that crashes at once, with the agent killed after
/// these numbers of steps.
fn crash_loop(kills: &[usize]) -> Vec<Tick> {
    let mut world = World::new(build::pod("Always").with("web"));
    world.snapshot();
    let starts = |world: &World| world.runtime.start_ticks.get("web").cloned().unwrap_or_default();
    for step in 0..2_000 {
        if kills.contains(&step) {
            crash(&mut world);
        }
        if starts(&world).len() == 9 {
            break;
        }
        if world.poll() {
            continue;
        }
        if !world.waiting.is_empty() {
            world.carry_out(0);
        } else if world.runtime.running_names().contains("web") {
            world.exit("web", ExitStatus::Code { code: 1 });
        } else {
            world.wake();
        }
    }
    starts(&world)
}

/// The same, with a machine that restarts during the waits with these numbers.
fn crash_loop_over_reboots(reboots: &BTreeSet<usize>) -> Vec<Tick> {
    let mut world = World::new(build::pod("Always").with("web"));
    world.snapshot();
    let mut waits = 0;
    loop {
        world.obey();
        if world.runtime.running_names().contains("web") {
            if world.runtime.start_ticks["web"].len() == 9 {
                return world.runtime.start_ticks["web"].clone();
            }
            world.exit("web", ExitStatus::Code { code: 1 });
            continue;
        }
        if reboots.contains(&waits) {
            world.reboot();
            world.snapshot();
            world.obey();
        }
        waits += 1;
        assert!(world.wake(), "it waits for nothing");
    }
}

#[test]
fn an_undisturbed_crash_loop_waits_as_the_kubelet_says() {
    let ticks = crash_loop(&[]);
    let waits: Vec<u64> = ticks.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
}

/// P1: of a request that names a container the other containers know nothing, and it is done once,
/// wherever the agent is killed.
#[test]
fn a_restart_of_one_container_is_done_once_wherever_the_agent_is_killed() {
    for (named, kill) in ["main1", "side0"].into_iter().flat_map(|n| (0..30).map(move |k| (n, k))) {
        let shape = Shape { policy: "Never", inits: 1, sidecars: 1, regular: 3, care: Care::All };
        let mut world = play(shape.pod(), &[]);
        heal(&mut world);
        let others = |world: &World| {
            let others = world.runtime.running().filter(|key| key.name.0 != named);
            others.collect::<BTreeSet<ContainerStartKey>>()
        };
        let (before, mut expected) = (others(&world), world.runtime.starts.clone());
        expected.entry(named.to_owned()).and_modify(|starts| *starts += 1);
        restart_one(&mut world, 0, named);
        for step in 0..200 {
            if step == kill {
                crash(&mut world);
            } else if !world.poll() && !world.waiting.is_empty() {
                world.carry_out(0);
                world.report_exits();
            }
        }
        heal(&mut world);
        check_rest(&world, End::NotAsked);
        let report = world.reports.get("id0");
        assert_eq!(report, Some(&PodRestartPhase::Succeeded), "{named}, killed at {kill}");
        assert_eq!(others(&world), before, "{named}, killed at {kill}");
        assert_eq!(world.runtime.starts, expected, "{named}, killed at {kill}");
    }
}

/// Found by the property of the lost journal, once in 17,000 runs: the machine restarts after the
/// status had shown the end of a container whose restart was asked for, and before the journal had.
/// Under Never it was then taken for an end for good, and the request waited for ever.
#[test]
fn an_end_that_only_the_status_knows_is_the_one_that_was_asked_for() {
    let pod = Shape { policy: "Never", inits: 0, sidecars: 1, regular: 3, care: Care::All };
    let mut world = play(pod.pod(), &[]);
    heal(&mut world);
    let happenings = [
        Happening::Restart(0, Rung::Container, EmptyDirPolicy::Keep),
        Happening::SandboxDies(Processes::LiveOn),
        Happening::Poll,
        Happening::Exit(3, ExitStatus::Code { code: 0 }),
        Happening::Poll,
        Happening::CarryOut(0),
        Happening::Poll,
        Happening::PollAll,
        Happening::AnswerTwice(4),
        Happening::Reboot,
    ];
    for happening in &happenings {
        happen(&mut world, happening);
    }
    heal(&mut world);
    check_rest(&world, End::NotAsked);
}

/// P1: the machine goes down, the pod is over, and the agent dies when it has told of the restart
/// and not finished: the outcome stays.
#[test]
fn how_a_restart_ended_stays_when_the_agent_dies_while_it_tells_that_the_pod_is_over() {
    let shape = Shape { policy: "Never", inits: 0, sidecars: 1, regular: 1, care: Care::None };
    let mut world = play(shape.pod(), &[]);
    heal(&mut world);
    let restart = Happening::RestartOne(1, "side0");
    for step in [restart, Happening::Reboot, Happening::Poll, Happening::Poll] {
        happen(&mut world, &step);
    }
    happen(&mut world, &Happening::AgentCrash);
    heal(&mut world); // which checks that what was told of a restart does not change
}

/// Found by the property of the lost journal, once in some 20,000 runs: a start that was under way
/// when the node began to stop fails, and the machine goes down before the other containers have
/// ended. The next agent gave out the number of the start that had failed again.
#[test]
fn a_start_that_fails_while_the_node_stops_has_used_its_number() {
    let shape = Shape { policy: "Always", inits: 0, sidecars: 0, regular: 2, care: Care::None };
    let mut world = play(shape.pod(), &[]);
    heal(&mut world);
    let happenings = [
        Happening::Exit(0, ExitStatus::Code { code: 0 }),
        Happening::PollAll,
        Happening::NodeStops(0),
        Happening::PollAll,
        Happening::ExitUnseen(0),
        Happening::Fail(0),
        Happening::Reboot,
    ];
    for happening in &happenings {
        happen(&mut world, happening);
    }
    heal(&mut world); // which checks the number of each start
    check_rest(&world, End::NotAsked);
}
