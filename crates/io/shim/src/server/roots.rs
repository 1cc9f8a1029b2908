//! Roots that are made ahead of containers' starts, and who takes them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::process::{WaitId, WaitIdOptions};

use super::Server;
use super::source::Source;
use crate::birth;
use crate::launch::{self, Root, RootBuilder};
use crate::notes::note;
use crate::problem::{Context, errno_text};
use crate::protocol::{Answer, ContainerPlan, Failure, FailureKind, RootAhead};
use crate::users::Users;

/// Those that are there, or are being made.
#[derive(Default)]
pub(super) struct Roots(BTreeMap<u32, Ahead>);

struct Ahead {
    plan: RootAhead,
    stage: Stage,
}

enum Stage {
    /// For the call of this number.
    Making(RootBuilder, u64),
    /// Its mount namespace.
    Ready(OwnedFd),
}

impl Roots {
    /// Whether a child of this number makes one of them.
    pub(super) fn is_builder(&self, pid: u32) -> bool {
        self.0.values().any(|ahead| match &ahead.stage {
            Stage::Making(builder, _) => builder.pid == pid,
            Stage::Ready(_) => false,
        })
    }

    /// Lets go of those that nobody has taken: their agent is gone, and those who waited for them.
    pub(super) fn clear(&mut self) {
        for (_, ahead) in std::mem::take(&mut self.0) {
            let _gone_with_its_agent = ahead.let_go();
        }
    }

    /// The one that serves a start, if there is one: it is that container's from now on.
    pub(super) fn take(&mut self, plan: &ContainerPlan) -> Root {
        let found = self.0.iter().find_map(|(number, ahead)| match &ahead.stage {
            Stage::Ready(_) if ahead.plan.serves(plan) => Some(*number),
            Stage::Ready(_) | Stage::Making(..) => None,
        });
        match found.and_then(|number| self.0.remove(&number)) {
            Some(Ahead { stage: Stage::Ready(mounts), .. }) => Root::Ahead(mounts),
            Some(Ahead { stage: Stage::Making(..), .. }) | None => Root::New,
        }
    }
}

impl Ahead {
    /// Ends who makes it, if it does not stand yet. Answers the call that waits for it.
    fn let_go(self) -> Option<u64> {
        match self.stage {
            Stage::Making(builder, seq) => {
                birth::end_child(builder.pidfd.as_fd());
                Some(seq)
            }
            Stage::Ready(_) => None,
        }
    }
}

impl Server {
    /// `None`: answered by [`Self::root_made`].
    pub(super) fn make_root(
        &mut self,
        plan: RootAhead,
        seq: u64,
    ) -> Result<Option<Answer>, Failure> {
        let refused = |problem| Err(Failure::new(FailureKind::State, problem));
        let Some(sandbox) = &self.sandbox else { return refused("there is no sandbox yet") };
        match sandbox.users {
            Users::Host => {}
            Users::Own(_) => return refused("a root for users of a pod's own is not made ahead"),
        }
        if self.shutdown.is_some() {
            return refused("the sandbox is being taken away");
        }
        let builder = launch::begin_root(&plan, sandbox)?;
        let number = self.next_number;
        let source = Source::RootBuilder(number).pack();
        if let Err(errno) = epoll::add(&self.epoll, &builder.pidfd, source, EventFlags::IN) {
            birth::end_child(builder.pidfd.as_fd());
            return Err(errno).setup(|| "watch who makes a root".to_owned());
        }
        self.next_number += 1;
        self.replace_root(&plan.container);
        self.roots.0.insert(number, Ahead { plan, stage: Stage::Making(builder, seq) });
        Ok(None)
    }

    /// There is one for each container.
    fn replace_root(&mut self, container: &str) {
        let find = |(number, ahead): (&u32, &Ahead)| {
            (ahead.plan.container == container).then_some(*number)
        };
        let before = self.roots.0.iter().find_map(find);
        let before = before.and_then(|number| self.roots.0.remove(&number));
        if let Some(seq) = before.and_then(Ahead::let_go) {
            let problem = "another root is made for the container";
            self.answer(seq, Err(Failure::new(FailureKind::State, problem)));
        }
    }

    /// Its builder has ended.
    pub(super) fn root_made(&mut self, number: u32) {
        let Some(Ahead { plan, stage }) = self.roots.0.remove(&number) else { return };
        let Stage::Making(builder, seq) = stage else {
            self.roots.0.insert(number, Ahead { plan, stage });
            return;
        };
        let child = WaitId::PidFd(builder.pidfd.as_fd());
        if let Err(errno) = rustix::process::waitid(child, WaitIdOptions::EXITED) {
            note(&format!("reap who makes a root: {}", errno_text(errno)));
        }
        let made = builder.mounts().map(|mounts| {
            self.roots.0.insert(number, Ahead { plan, stage: Stage::Ready(mounts) });
            Answer::Done
        });
        self.answer(seq, made);
    }
}
