//! Joining a container's first process: copies of its output to whoever asked, and its input from
//! them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::ShimServer;
use crate::container::ContainerStage;
use crate::launch;
use crate::log_records::OutputStream;
use crate::logs::LogCopy;
use crate::pipes::set_nonblocking;
use crate::problem::FailureContext;
use crate::protocol::{AttachPlan, FailureKind, FileSource, ShimAnswer, ShimFailure};

/// Who may be joined to one container at a time.
const ATTACHMENTS_MAX: usize = 32;

impl ShimServer {
    pub(super) fn attach(&mut self, plan: &AttachPlan) -> Result<ShimAnswer, ShimFailure> {
        let files = self.agent.as_mut().and_then(|agent| agent.take_files(plan.passed()));
        let Some(files) = files else {
            let problem = "the call came without its descriptors";
            return Err(ShimFailure::new(FailureKind::State, problem));
        };
        let number = self.find(&plan.slot);
        let Some(container) = number.and_then(|number| self.containers.get_mut(&number)) else {
            return Err(super::containers::no_such(&plan.slot));
        };
        match container.stage {
            ContainerStage::Created
            | ContainerStage::Starting { .. }
            | ContainerStage::Running { .. } => {}
            ContainerStage::Preparing | ContainerStage::Exited(_) => {
                return Err(launch::not_running(&plan.slot));
            }
        }
        let mut files = files.into_iter();
        let Some(control) = files.next() else { return Ok(ShimAnswer::Done) };
        container.attachments.retain(is_open);
        if container.attachments.len() >= ATTACHMENTS_MAX {
            let problem = format!("{ATTACHMENTS_MAX} clients are joined to {} already", plan.slot);
            return Err(ShimFailure::new(FailureKind::Setup, problem));
        }
        let wanted = [(plan.stdout, OutputStream::Stdout), (plan.stderr, OutputStream::Stderr)];
        for (source, stream) in wanted {
            if source == FileSource::Passed
                && let Some(to) = files.next()
            {
                set_nonblocking(&to).setup(|| "set up the copy".to_owned())?;
                container.log.copies.push(LogCopy { stream, to });
            }
        }
        container.hand_over_input(plan.stdin, control.as_fd())?;
        container.attachments.push(control);
        Ok(ShimAnswer::Done)
    }
}

/// Whether the agent holds the other end still.
fn is_open(control: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(control, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut polled, Some(&now)) {
        Ok(_) => !polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR),
        Err(_) => true,
    }
}
