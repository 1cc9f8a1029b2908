//! The task that looks at what is left, every ten seconds, and carries out what is decided. It
//! decides nothing itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rekindle_pod::PodEviction;
use rekindle_runtime::{Runtime, RuntimeError};
use rekindle_types::pods::is_final;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, PodUid, TickDuration};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::admission::Standing;
use super::choice::{self, Victim};
use super::figures::{EvictionFigures, Observations};
use super::judge::{PressureAssessment, Reclaim, ThresholdWatch, is_short};
use super::policy::EvictionPolicy;
use super::process_limits::{ForkRefusals, limit_reached};
use super::signal::StarvedResource;
use super::{messages, storage};
use crate::context::NodeContext;
use crate::network::PodNetwork;
use crate::pods::PodView;
use crate::usage::{NodeUsage, UsageReader, UsageScope};

/// How long a victim may take beyond its grace before the next look [kubelet `podCleanupTimeout`].
const CLEANUP_MAX: Duration = Duration::from_secs(30);

/// After an eviction, before the next look [the kubelet looks at the evicted pod every 1.25 s].
const PAUSE: Duration = Duration::from_secs(1);

/// A pod that has to go, for whoever holds the pods.
#[derive(Debug)]
pub(crate) struct EvictionOrder {
    pub(crate) uid: PodUid,
    pub(crate) eviction: PodEviction,
    /// Dropped when nothing of the pod is left on the node.
    pub(crate) over: oneshot::Sender<()>,
}

/// The running task; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct EvictionManager {
    task: JoinHandle<()>,
}

impl EvictionManager {
    /// Starts it: what the node is under goes to `pressures`, pods that have to go to `orders`.
    pub(crate) fn start<R: Runtime, N: PodNetwork>(
        node: Arc<NodeContext<R, N>>,
        usage: UsageReader,
        policy: EvictionPolicy,
        pressures: watch::Sender<Standing>,
        orders: mpsc::UnboundedSender<EvictionOrder>,
    ) -> Self {
        let driver = EvictionDriver {
            node,
            usage,
            policy,
            pressures,
            orders,
            watch: ThresholdWatch::default(),
            fork_refusals: ForkRefusals::default(),
            evicted: BTreeSet::new(),
        };
        Self { task: tokio::spawn(driver.run()) }
    }

    /// Stops it; nothing of the node is held any more when this returns.
    pub(crate) async fn stop(&mut self) {
        self.task.abort();
        // it was told to end, so that it ended early is no news
        let _aborted = (&mut self.task).await;
    }
}

impl Drop for EvictionManager {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct EvictionDriver<R, N> {
    node: Arc<NodeContext<R, N>>,
    usage: UsageReader,
    policy: EvictionPolicy,
    pressures: watch::Sender<Standing>,
    orders: mpsc::UnboundedSender<EvictionOrder>,
    watch: ThresholdWatch,
    fork_refusals: ForkRefusals,
    /// Pods that were told to go and are still here: their phase says so only when they have ended.
    evicted: BTreeSet<PodUid>,
}

/// Whether there may be more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvictionRound {
    /// Nothing had to go.
    Quiet,
    /// A pod went: the next look says whether that was enough.
    Evicted,
}

impl<R: Runtime, N: PodNetwork> EvictionDriver<R, N> {
    async fn run(mut self) {
        loop {
            match self.round().await {
                Ok(EvictionRound::Evicted) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(EvictionRound::Quiet) => {}
                Err(error) => {
                    let (node, error) = (&self.node.name, error.chain());
                    tracing::warn!(node, error, "failed to read the node's memory and disk usage");
                }
            }
            tokio::time::sleep(self.policy.monitoring_period.to_std()).await;
        }
    }

    /// One look, and what follows from it.
    async fn round(&mut self) -> Result<EvictionRound, RuntimeError> {
        self.forget_those_gone();
        let limited = self.pods_are_limited();
        let has_process_limit = self.node.pod_pids_limit.is_some();
        if self.policy.thresholds.is_empty() && !limited && !has_process_limit {
            return Ok(EvictionRound::Quiet);
        }
        let scope = if limited { UsageScope::Everything } else { UsageScope::Processes };
        let usage = self.usage.take(scope).await?;
        self.tell_of_refused_forks(&usage);
        let PressureAssessment { pressures, reclaim } = self.judge(&usage);
        self.pressures.send_if_modified(|known| {
            let news = *known != pressures;
            *known = pressures;
            news
        });
        let over = choice::over_their_limits(&self.figures(&usage));
        if !over.is_empty() {
            self.evict(over).await;
            return Ok(EvictionRound::Evicted);
        }
        match reclaim {
            Some(reclaim) => self.reclaim(&reclaim, usage).await,
            None => Ok(EvictionRound::Quiet),
        }
    }

    fn forget_those_gone(&mut self) {
        let here = self.node.index.all();
        self.evicted.retain(|uid| here.iter().any(|view| view.pod_ref.uid == *uid));
    }

    fn tell_of_refused_forks(&mut self, usage: &NodeUsage) {
        let Some(limit) = self.node.pod_pids_limit else { return };
        for pod in self.fork_refusals.look(&usage.pods) {
            self.node.recorder.pod_event(pod, limit_reached(limit));
        }
    }

    fn judge(&mut self, usage: &NodeUsage) -> PressureAssessment {
        self.watch.judge(&self.policy, self.node.clock.now(), &Observations::from_usage(usage))
    }

    async fn reclaim(
        &mut self,
        reclaim: &Reclaim,
        usage: NodeUsage,
    ) -> Result<EvictionRound, RuntimeError> {
        let about = self.node.object_reference();
        let text = messages::threshold_met(reclaim);
        self.node.recorder.record(
            about,
            EventSeverity::Warning,
            event::EVICTION_THRESHOLD_MET,
            text,
        );
        let usage = match reclaim.signal.resource() {
            StarvedResource::Memory | StarvedResource::Pids => usage,
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => {
                self.node.images.remove_unused().await;
                let usage = self.usage.take(UsageScope::Everything).await?;
                if !is_short(&self.policy, &Observations::from_usage(&usage)) {
                    return Ok(EvictionRound::Quiet);
                }
                usage
            }
        };
        let figures = self.figures(&usage);
        match choice::victim(&self.policy, reclaim, figures) {
            Some(victim) => {
                self.evict(vec![victim]).await;
                Ok(EvictionRound::Evicted)
            }
            None => {
                let signal = reclaim.signal;
                tracing::info!(node = self.node.name, %signal, "nothing is left that could be evicted");
                Ok(EvictionRound::Quiet)
            }
        }
    }

    /// Has them ended, and waits until nothing of them is left.
    async fn evict(&mut self, victims: Vec<Victim>) {
        let longest = victims.iter().map(|victim| victim.eviction.grace).max();
        let longest = longest.unwrap_or(TickDuration::ZERO).to_std() + CLEANUP_MAX;
        let mut ends = Vec::new();
        for Victim { uid, signal, eviction } in victims {
            tracing::info!(node = self.node.name, %uid, message = eviction.message, "a pod is evicted");
            let (over, end) = oneshot::channel();
            if self.orders.send(EvictionOrder { uid: uid.clone(), eviction, over }).is_ok() {
                self.evicted.insert(uid);
                self.node.counters.evictions.of(&[signal]).raise();
                ends.push(end);
            }
        }
        // an error is what is waited for: the other end is gone
        let all = futures::future::join_all(ends);
        if tokio::time::timeout(longest, all).await.is_err() {
            tracing::warn!(
                node = self.node.name,
                "failed to end an evicted pod within its grace period"
            );
        }
    }

    /// The pods that are not over, and have not been told to go. One that ends for another reason
    /// may be told to end sooner.
    fn figures(&self, usage: &NodeUsage) -> Vec<EvictionFigures> {
        let here = self.node.index.all();
        let is_over = |view: &PodView| view.status.borrow().phase.as_deref().is_some_and(is_final);
        let over = here.into_iter().filter(is_over).map(|view| view.pod_ref.uid);
        let passed_by: BTreeSet<PodUid> = over.chain(self.evicted.iter().cloned()).collect();
        let pods = usage.pods.iter().filter(|pod| !passed_by.contains(&pod.pod_ref.uid));
        pods.map(EvictionFigures::from_usage).collect()
    }

    fn pods_are_limited(&self) -> bool {
        self.node.index.all().iter().any(|view| storage::is_limited(&view.pod.borrow()))
    }
}
