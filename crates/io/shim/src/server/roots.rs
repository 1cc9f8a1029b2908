//! Roots that are made ahead of containers' starts, and who takes them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::process::{WaitId, WaitIdOptions};

use super::ShimServer;
use super::source::WakeSource;
use crate::birth;
use crate::launch::{self, RootBuilder, RootSource};
use crate::notes::note;
use crate::problem::{FailureContext, errno_text};
use crate::protocol::{ContainerPlan, FailureKind, RootAhead, ShimAnswer, ShimFailure};
use crate::users::UserIdOwner;

/// Those that are there, or are being made.
#[derive(Default)]
pub(super) struct ReadyRoots(BTreeMap<u32, ReadyRootEntry>);

struct ReadyRootEntry {
    plan: RootAhead,
    stage: ReadyRootStage,
}

enum ReadyRootStage {
    /// For the call of this number.
    Making(RootBuilder, u64),
    /// Its mount namespace.
    Ready(OwnedFd),
}

impl ReadyRoots {
    /// Whether a child of this number makes one of them.
    pub(super) fn is_builder(&self, pid: u32) -> bool {
        self.0.values().any(|ahead| match &ahead.stage {
            ReadyRootStage::Making(builder, _) => builder.pid == pid,
            ReadyRootStage::Ready(_) => false,
        })
    }

    /// Lets go of those that nobody has taken: their agent is gone, and those who waited for them.
    pub(super) fn clear(&mut self) {
        for (_, ahead) in std::mem::take(&mut self.0) {
            let _gone_with_its_agent = ahead.let_go();
        }
    }

    /// The one that serves a start, if there is one: it is that container's from now on.
    pub(super) fn take(&mut self, plan: &ContainerPlan) -> RootSource {
        let found = self.0.iter().find_map(|(number, ahead)| match &ahead.stage {
            ReadyRootStage::Ready(_) if ahead.plan.serves(plan) => Some(*number),
            ReadyRootStage::Ready(_) | ReadyRootStage::Making(..) => None,
        });
        match found.and_then(|number| self.0.remove(&number)) {
            Some(ReadyRootEntry { stage: ReadyRootStage::Ready(mounts), .. }) => {
                RootSource::Ahead(mounts)
            }
            Some(ReadyRootEntry { stage: ReadyRootStage::Making(..), .. }) | None => {
                RootSource::New
            }
        }
    }
}

impl ReadyRootEntry {
    /// Ends who makes it, if it does not stand yet. Answers the call that waits for it.
    fn let_go(self) -> Option<u64> {
        match self.stage {
            ReadyRootStage::Making(builder, seq) => {
                birth::end_child(builder.pidfd.as_fd());
                Some(seq)
            }
            ReadyRootStage::Ready(_) => None,
        }
    }
}

impl ShimServer {
    /// `None`: answered by [`Self::root_made`].
    pub(super) fn make_root(
        &mut self,
        plan: RootAhead,
        seq: u64,
    ) -> Result<Option<ShimAnswer>, ShimFailure> {
        let refused = |problem| Err(ShimFailure::new(FailureKind::State, problem));
        let Some(sandbox) = &self.sandbox else { return refused("there is no sandbox yet") };
        match sandbox.users {
            UserIdOwner::Host => {}
            UserIdOwner::Own(_) => {
                return refused("a root for users of a pod's own is not made ahead");
            }
        }
        if self.shutdown.is_some() {
            return refused("the sandbox is being taken away");
        }
        let builder = launch::begin_root(&plan, sandbox)?;
        let number = self.next_number;
        let source = WakeSource::RootBuilder(number).pack();
        if let Err(errno) = epoll::add(&self.epoll, &builder.pidfd, source, EventFlags::IN) {
            birth::end_child(builder.pidfd.as_fd());
            return Err(errno).setup(|| "watch who makes a root".to_owned());
        }
        self.next_number += 1;
        self.replace_root(&plan.container);
        self.roots
            .0
            .insert(number, ReadyRootEntry { plan, stage: ReadyRootStage::Making(builder, seq) });
        Ok(None)
    }

    /// There is one for each container.
    fn replace_root(&mut self, container: &str) {
        let find = |(number, ahead): (&u32, &ReadyRootEntry)| {
            (ahead.plan.container == container).then_some(*number)
        };
        let before = self.roots.0.iter().find_map(find);
        let before = before.and_then(|number| self.roots.0.remove(&number));
        if let Some(seq) = before.and_then(ReadyRootEntry::let_go) {
            let problem = "another root is made for the container";
            self.answer(seq, Err(ShimFailure::new(FailureKind::State, problem)));
        }
    }

    /// Its builder has ended.
    pub(super) fn root_made(&mut self, number: u32) {
        let Some(ReadyRootEntry { plan, stage }) = self.roots.0.remove(&number) else { return };
        let ReadyRootStage::Making(builder, seq) = stage else {
            self.roots.0.insert(number, ReadyRootEntry { plan, stage });
            return;
        };
        let child = WaitId::PidFd(builder.pidfd.as_fd());
        if let Err(errno) = rustix::process::waitid(child, WaitIdOptions::EXITED) {
            note(&format!("reap who makes a root: {}", errno_text(errno)));
        }
        let made = builder.mounts().map(|mounts| {
            self.roots
                .0
                .insert(number, ReadyRootEntry { plan, stage: ReadyRootStage::Ready(mounts) });
            ShimAnswer::Done
        });
        self.answer(seq, made);
    }
}
