//! Probes and hooks of a container: each is run once for each time that the core asks.

use rekindle_pod::{ActionOutcome, ContainerStartKey, HookKind, HookLimit, PodEvent, ProbeKind};
use rekindle_runtime::Runtime;
use rekindle_types::reasons::event::LIFECYCLE_HTTP_FALLBACK;
use rekindle_types::{EventSeverity, TickDuration};

use super::{ActionResult, PodActions, config, other};
use crate::container_spec::find_container;
use crate::hooks::HookOutcome;
use crate::network::PodNetwork;
use crate::probes::ProbeTarget;
use crate::{hooks, probes};

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    pub(super) async fn run_probe(
        self,
        key: ContainerStartKey,
        probe: ProbeKind,
        timeout: TickDuration,
    ) -> ActionResult {
        let container =
            find_container(&self.pod, &key.name.0).map_err(|e| config(e.to_string()))?;
        let key = &self.container_key(key);
        let asked = ProbeTarget { container: &container, key, ip: self.ips.first().copied() };
        let found = probes::run(&*self.node.runtime, asked, probe, timeout.to_std()).await;
        let found = found.map_err(|error| other(error.to_string()))?;
        Ok(ActionOutcome::Probed { verdict: found.verdict, output: found.output })
    }

    /// Why a hook failed goes to the log only: it may hold what the app keeps secret.
    pub(super) async fn run_hook(
        self,
        key: ContainerStartKey,
        hook: HookKind,
        limit: HookLimit,
    ) -> ActionResult {
        let container =
            find_container(&self.pod, &key.name.0).map_err(|e| config(e.to_string()))?;
        let limit = match limit {
            HookLimit::None => None,
            HookLimit::Grace(left) => Some(left.to_std()),
        };
        let key = &self.container_key(key);
        let asked = ProbeTarget { container: &container, key, ip: self.ips.first().copied() };
        match hooks::run(&*self.node.runtime, asked, hook, limit).await {
            Ok(HookOutcome::AsAsked) => Ok(ActionOutcome::Done),
            Ok(HookOutcome::WithoutTls { host }) => {
                let message = format!(
                    "request to HTTPS lifecycle hook {host} failed, retry with HTTP succeeded"
                );
                let (severity, reason) = (EventSeverity::Warning, LIFECYCLE_HTTP_FALLBACK);
                let event = PodEvent { severity, reason, message, field_path: None };
                self.node.recorder.pod_event(&self.pod_ref, event);
                Ok(ActionOutcome::Done)
            }
            Err(error) => {
                let container = container.name.as_str();
                tracing::warn!(pod = %self.pod_ref, container, ?hook, %error, "failed to run a hook");
                Err(other(error.to_string()))
            }
        }
    }
}
