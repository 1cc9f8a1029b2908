//! What the parts of a pod look at in its containers. Two of these are compared to see whether a
//! step has moved anything.

use rekindle_types::ContainerAttempt;

use super::Containers;
use super::container::{PodContainer, ProcessState, PullStep, StartHold, StopStep};
use crate::health::Launch;
use crate::journal::{ContainerStanding, SidecarGate};

/// How far the containers are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainersProgress {
    list: Vec<ContainerProgress>,
    strays: (usize, usize),
}

/// How far one container is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ContainerProgress {
    number: ContainerAttempt,
    standing: ContainerStanding,
    gate: SidecarGate,
    stage: ProcessProgress,
}

/// Its state, without what belongs to one process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ProcessProgress {
    Idle(StartHold),
    Pulling(PullStep),
    Starting,
    Running(Launch, Option<StopStep>),
}

impl Containers {
    pub(crate) fn progress(&self) -> ContainersProgress {
        ContainersProgress {
            list: self.list.iter().map(PodContainer::progress).collect(),
            strays: self.strays.counts(),
        }
    }
}

impl PodContainer {
    fn progress(&self) -> ContainerProgress {
        let stage = match &self.state {
            ProcessState::Idle(hold) => ProcessProgress::Idle(*hold),
            ProcessState::Pulling { step } => ProcessProgress::Pulling(*step),
            ProcessState::Starting { .. } => ProcessProgress::Starting,
            ProcessState::Running { health, stop, .. } => {
                ProcessProgress::Running(health.launch, stop.as_ref().map(|stop| stop.step))
            }
        };
        ContainerProgress { number: self.number, standing: self.standing, gate: self.gate, stage }
    }
}
