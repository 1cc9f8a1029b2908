//! What the parts of a pod look at in its containers. Two of these are compared to see whether a
//! step has moved anything.

use rekindle_types::ContainerAttempt;

use super::Containers;
use super::container::{Container, Hold, PullStep, State, StopStep};
use crate::health::Launch;
use crate::journal::{Gate, Standing};

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
    standing: Standing,
    gate: Gate,
    stage: ContainerStage,
}

/// Its state, without what belongs to one process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ContainerStage {
    Idle(Hold),
    Pulling(PullStep),
    Starting,
    Running(Launch, Option<StopStep>),
}

impl Containers {
    pub(crate) fn progress(&self) -> ContainersProgress {
        ContainersProgress {
            list: self.list.iter().map(Container::progress).collect(),
            strays: self.strays.counts(),
        }
    }
}

impl Container {
    fn progress(&self) -> ContainerProgress {
        let stage = match &self.state {
            State::Idle(hold) => ContainerStage::Idle(*hold),
            State::Pulling { step } => ContainerStage::Pulling(*step),
            State::Starting { .. } => ContainerStage::Starting,
            State::Running { health, stop, .. } => {
                ContainerStage::Running(health.launch, stop.as_ref().map(|stop| stop.step))
            }
        };
        ContainerProgress { number: self.number, standing: self.standing, gate: self.gate, stage }
    }
}
