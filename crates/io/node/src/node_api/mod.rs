//! The kubelet's HTTP API of a node, as far as it tells something: metrics, the summary of what is
//! used, pods, health. The API server reaches it through `nodes/<name>/proxy/…`, and has checked
//! who asks; it has no port of its own.
//!
//! | path | what |
//! |---|---|
//! | `/healthz` | `ok` |
//! | `/metrics` | the agent's own counters |
//! | `/metrics/resource` | CPU, memory and start times of node, pods and containers |
//! | `/metrics/cadvisor` | more of the same, by container |
//! | `/metrics/probes` | probes by pod |
//! | `/stats/summary` | all figures as JSON (`stats/v1alpha1` Summary) |
//! | `/pods`, `/runningpods` | the pods of this node by the API and by the runtime |
//! | `/configz` | the agent's settings under the kubelet's names |

mod cadvisor;
mod claims;
mod configz;
mod kubelet;
mod pods;
mod resource;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use rekindle_metrics as metrics;
use rekindle_runtime::{Runtime, RuntimeError};
use rekindle_types::{PodRef, TickDuration};

use self::claims::ClaimReader;
use crate::config::NodeConfig;
use crate::counters::AgentCounters;
use crate::layout::NodeDirs;
use crate::pods::PodIndex;
use crate::usage::{CpuConsumer, CpuSampler, UsageReader, UsageScope};

/// An answer of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The HTTP status code.
    pub code: u16,
    /// The media type.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

impl NodeAnswer {
    fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self { code, content_type: "text/plain; charset=utf-8", body: text.into() }
    }

    fn metrics(text: metrics::Text) -> Self {
        let body = text.into_string().into();
        Self { code: 200, content_type: metrics::CONTENT_TYPE, body }
    }

    fn json(value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self { code: 200, content_type: "application/json", body: body.into() },
            Err(error) => Self::text(500, format!("write the answer: {error}\n")),
        }
    }
}

/// What the node and its containers use now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFigures {
    /// Microseconds since the Unix epoch.
    pub taken_at: rekindle_types::Tick,
    /// CPU is the mean over this time before.
    pub window: TickDuration,
    /// The machine.
    pub node: ComputeFigures,
    /// The pods of which something runs.
    pub pods: Vec<PodResourceFigures>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodResourceFigures {
    /// Which one.
    pub pod_ref: PodRef,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Its running containers by name.
    pub containers: Vec<(String, ComputeFigures)>,
}

/// How much of both is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputeFigures {
    /// Billionths of a core.
    pub cpu_nanocores: u64,
    /// The working set.
    pub memory_bytes: u64,
}

/// What a node is asked. Cheap to clone.
#[derive(Clone)]
pub struct NodeApi(Arc<dyn NodeApiHandler>);

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeApi")
    }
}

impl NodeApi {
    pub(crate) fn new<R: Runtime>(parts: NodeApiParts<R>) -> Self {
        Self(Arc::new(RuntimeNodeApi {
            parts,
            rates: CpuSampler::default(),
            claims: ClaimReader::default(),
        }))
    }

    /// Answers a GET for this path, without a slash at either end.
    pub async fn get(&self, path: &str, query: &str) -> NodeAnswer {
        self.0.get(path, query).await
    }

    /// What is used now; takes a second when nobody has asked lately.
    ///
    /// # Errors
    /// When the runtime does not say what its sandboxes use.
    pub async fn resource_figures(&self) -> Result<ResourceFigures, RuntimeError> {
        self.0.resource_figures().await
    }
}

/// What the answers are made from.
pub(crate) struct NodeApiParts<R> {
    pub(crate) config: NodeConfig,
    pub(crate) runtime: Arc<R>,
    pub(crate) index: PodIndex,
    pub(crate) usage: UsageReader,
    pub(crate) counters: Arc<AgentCounters>,
    pub(crate) dirs: NodeDirs,
}

/// The same, whatever the runtime's type is.
trait NodeApiHandler: Send + Sync {
    fn get<'a>(&'a self, path: &'a str, query: &'a str) -> BoxFuture<'a, NodeAnswer>;
    fn resource_figures(&self) -> BoxFuture<'_, Result<ResourceFigures, RuntimeError>>;
}

struct RuntimeNodeApi<R> {
    parts: NodeApiParts<R>,
    rates: CpuSampler,
    claims: ClaimReader,
}

impl<R: Runtime> NodeApiHandler for RuntimeNodeApi<R> {
    fn get<'a>(&'a self, path: &'a str, query: &'a str) -> BoxFuture<'a, NodeAnswer> {
        Box::pin(async move {
            match self.answer(path, query).await {
                Ok(answer) => answer,
                Err(error) => NodeAnswer::text(500, format!("{}\n", error.chain())),
            }
        })
    }

    fn resource_figures(&self) -> BoxFuture<'_, Result<ResourceFigures, RuntimeError>> {
        Box::pin(async move {
            let (usage, rates) =
                self.rates.take(&self.parts.usage, self.parts.config.clock).await?;
            let memory = |usage: &rekindle_runtime::CgroupUsage| usage.memory.working_set_bytes;
            let pods = usage.pods.iter().map(|pod| PodResourceFigures {
                pod_ref: pod.pod_ref.clone(),
                labels: pod.pod.metadata.labels.clone().unwrap_or_default(),
                containers: pod
                    .containers
                    .iter()
                    .filter_map(|container| {
                        let figures = ComputeFigures {
                            cpu_nanocores: rates
                                .nanocores(&CpuConsumer::Container(&container.id))?,
                            memory_bytes: memory(container.cgroup.as_ref()?),
                        };
                        Some((container.name.0.clone(), figures))
                    })
                    .collect(),
            });
            Ok(ResourceFigures {
                taken_at: usage.taken_at,
                window: rates.window,
                node: ComputeFigures {
                    cpu_nanocores: rates.nanocores(&CpuConsumer::Machine).unwrap_or(0),
                    memory_bytes: memory(&usage.node.cgroup),
                },
                pods: pods.filter(|pod| !pod.containers.is_empty()).collect(),
            })
        })
    }
}

impl<R: Runtime> RuntimeNodeApi<R> {
    async fn answer(&self, path: &str, query: &str) -> Result<NodeAnswer, RuntimeError> {
        let NodeApiParts { config, runtime, index, usage, counters, dirs } = &self.parts;
        let claims = || self.claims.take(index, dirs, config.clock.now());
        let here = || index.all().into_iter().map(|view| view.pod_ref).collect::<Vec<_>>();
        Ok(match path {
            "healthz" | "healthz/ping" => NodeAnswer::text(200, "ok"),
            "metrics" => {
                let process = tokio::task::spawn_blocking(kubelet::process).await;
                let snapshot = runtime.snapshot().await?;
                let process = process.unwrap_or_default();
                let mut text = kubelet::text(config, counters, &snapshot, &process);
                claims::write(&mut text, &claims().await);
                NodeAnswer::metrics(text)
            }
            "metrics/resource" => {
                NodeAnswer::metrics(resource::text(usage.take(UsageScope::Processes).await))
            }
            "metrics/cadvisor" => {
                let usage = usage.take(UsageScope::Everything).await?;
                NodeAnswer::metrics(cadvisor::text(&usage))
            }
            "metrics/probes" => {
                let mut text = metrics::Text::default();
                counters.write_probes(&mut text, &here());
                NodeAnswer::metrics(text)
            }
            "stats/summary" => {
                let only = query.split('&').any(|pair| pair == "only_cpu_and_memory=true");
                let scope = if only { UsageScope::Processes } else { UsageScope::Everything };
                let usage = usage.take(scope).await?;
                let rates = self.rates.since_last(&usage);
                let claims = match scope {
                    UsageScope::Processes => Vec::new(),
                    UsageScope::Everything => claims().await,
                };
                NodeAnswer::json(&summary::summary(&config.name, &usage, &claims, &rates, scope))
            }
            "pods" => NodeAnswer::json(&pods::known(index)),
            "runningpods" => NodeAnswer::json(&pods::running(&runtime.snapshot().await?)),
            "configz" => NodeAnswer::json(&configz::configz(config)),
            _ => NodeAnswer::text(404, "404 page not found\n"),
        })
    }
}
