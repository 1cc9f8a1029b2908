//! Events that no driver gives.

use std::sync::Arc;

use proptest::prelude::*;
use rekindle_pod::{
    ActionError, ActionErrorKind, ActionId, ActionOutcome, ContainerSeen, ContainerSeenState,
    ContainerStartKey, CoreEvent, GroupHold, Made, ProbeVerdict, RestartRequest, SandboxSeen,
    SandboxSeenState, Series, Snapshot,
};
use rekindle_types::v1alpha1::EmptyDirPolicy;
use rekindle_types::{ContainerName, StopNotice, TickDuration};

use crate::happenings::{decision, empty_dirs, exit_status, rung};
use crate::shapes::pods;
use crate::world;

/// An event with any content.
pub(crate) fn nonsense() -> impl Strategy<Value = (CoreEvent, u64)> {
    let event = prop_oneof![
        (0u64..40, answer())
            .prop_map(|(id, result)| CoreEvent::ActionResult { id: ActionId(id), result }),
        (any_key(), exit_status()).prop_map(|(key, status)| CoreEvent::ContainerExited {
            key,
            made: Made::default(),
            exit: world::runtime::exit(world::START, world::START, status),
        }),
        (0u64..4, decision())
            .prop_map(|(ticket, decision)| CoreEvent::ResourcesDecided { ticket, decision }),
        (0u32..4).prop_map(|attempt| CoreEvent::SandboxDied { attempt: world::sandbox(attempt) }),
        prop::collection::vec(any_sandbox(), 0..4)
            .prop_map(|sandboxes| CoreEvent::RuntimeSnapshot(Snapshot { sandboxes })),
        pods().prop_map(|shape| CoreEvent::SpecChanged(Arc::new(shape.pod()))),
        (0u8..9, rung(), prop::option::of(any_name()), empty_dirs()).prop_map(
            |(id, rung, named, empty_dirs)| {
                CoreEvent::RestartRequested(RestartRequest {
                    id: format!("id{id}"),
                    name: format!("restart-{id}"),
                    rung,
                    container: named.map(|name| ContainerName(name.to_owned())),
                    empty_dirs,
                    grace: None,
                    reason: String::new(),
                    is_fast: false,
                    series: if id.is_multiple_of(2) { Series::Anew } else { Series::GoesOn },
                    group: held(id),
                })
            }
        ),
        (0u8..9, rung()).prop_map(|(id, rung)| CoreEvent::RestartImpossible {
            request: RestartRequest {
                id: format!("id{id}"),
                name: format!("restart-{id}"),
                rung,
                container: None,
                empty_dirs: EmptyDirPolicy::Keep,
                grace: None,
                reason: String::new(),
                is_fast: false,
                series: Series::Anew,
                group: None,
            },
            problem: "no image".to_owned(),
        }),
        (0u8..9).prop_map(|id| CoreEvent::RestartReleased { id: format!("id{id}") }),
        (0u64..40)
            .prop_map(|secs| CoreEvent::DeleteRequested { grace: TickDuration::from_secs(secs) }),
        (0u64..40).prop_map(|secs| CoreEvent::NodeStops { grace: TickDuration::from_secs(secs) }),
    ];
    (event, 0u64..20_000)
}

/// Every third request is that of a member.
fn held(id: u8) -> Option<GroupHold> {
    let limit = TickDuration::from_secs(u64::from(id));
    id.is_multiple_of(3).then(|| GroupHold { name: "group".to_owned(), limit })
}

fn any_key() -> impl Strategy<Value = ContainerStartKey> {
    (0u32..3, any_name(), 0u32..3)
        .prop_map(|(sandbox, name, attempt)| world::runtime::key(sandbox, name, attempt))
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("main0"), Just("main1"), Just("init0"), Just("side0"), Just("stranger")]
}

fn answer() -> impl Strategy<Value = Result<ActionOutcome, ActionError>> {
    let kind = prop_oneof![
        Just(ActionErrorKind::Sandbox),
        Just(ActionErrorKind::Volume),
        Just(ActionErrorKind::InvalidImageName),
        Just(ActionErrorKind::ImageNeverPull),
        Just(ActionErrorKind::ImagePull),
        Just(ActionErrorKind::ContainerConfig),
        Just(ActionErrorKind::ContainerCreate),
        Just(ActionErrorKind::ContainerStart),
        Just(ActionErrorKind::Other),
    ];
    let outcome = prop_oneof![
        4 => Just(ActionOutcome::Done),
        2 => Just(ActionOutcome::SandboxReady { ips: Vec::new() }),
        2 => Just(ActionOutcome::ImagePresent {
            image_id: String::new(),
            source: rekindle_pod::ImageSource::AlreadyPresent,
        }),
        2 => Just(ActionOutcome::ImageToPull { name: String::new() }),
        2 => Just(ActionOutcome::ContainerMade { made: Made::default(), start: Ok(world::START) }),
        1 => Just(ActionOutcome::ContainerMade {
            made: Made::default(),
            start: Err(world::error(ActionErrorKind::ContainerStart, "nonsense")),
        }),
        1 => Just(ActionOutcome::ContainerMade {
            made: Made::default(),
            start: Err(world::error(ActionErrorKind::Other, "nonsense")),
        }),
        1 => Just(ActionOutcome::Probed { verdict: ProbeVerdict::Success, output: String::new() }),
        1 => Just(ActionOutcome::Probed { verdict: ProbeVerdict::Failure, output: String::new() }),
        1 => Just(ActionOutcome::Probed {
            verdict: ProbeVerdict::NotListening,
            output: String::new(),
        }),
    ];
    prop_oneof![
        3 => outcome.prop_map(Ok),
        1 => kind.prop_map(|kind| Err(world::error(kind, "nonsense"))),
    ]
}

fn any_sandbox() -> impl Strategy<Value = SandboxSeen> {
    let state = prop_oneof![
        3 => Just(SandboxSeenState::Ready),
        1 => Just(SandboxSeenState::NotReady)
    ];
    (0u32..4, state, prop::collection::vec(any_container(), 0..4)).prop_map(
        |(attempt, state, containers)| SandboxSeen {
            attempt: world::sandbox(attempt),
            state,
            ips: Vec::new(),
            containers,
        },
    )
}

fn any_container() -> impl Strategy<Value = ContainerSeen> {
    let state = prop_oneof![
        Just(ContainerSeenState::Created),
        any::<bool>().prop_map(|is_asked| ContainerSeenState::Running {
            started_at: world::START,
            notice: if is_asked { StopNotice::Given } else { StopNotice::NotGiven },
        }),
        exit_status().prop_map(|status| ContainerSeenState::Exited {
            exit: world::runtime::exit(world::START, world::START, status),
        }),
    ];
    (any_key(), state).prop_map(|(key, state)| ContainerSeen {
        name: key.name,
        attempt: key.attempt,
        made: Made::default(),
        state,
    })
}
