//! `rekindle why TARGET`: reads what the API has about a pod, a workload or a node, and prints the
//! account of crate `why`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, LogParams, ObjectList};
use kube::{Client, ResourceExt};
use rekindle_api_server::SystemClock;
use rekindle_types::Tick;
use rekindle_types::pods::claim_name;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};
use rekindle_why::{
    Account, GoneEvidence, NodeEvidence, PodEvidence, WorkloadEvidence, WorkloadObjects,
    WorkloadRemains, asked_for, explain_gone, explain_node, explain_pod, explain_workload,
    left_behind, waits_for_node,
};

use crate::args::{OutputArg, Why};
use crate::target::{self, CommandTarget, Lookup, NamedTargets, NamespacedKind, TargetKind};
use crate::{client, output};

/// Events of one object that are read; servers keep them for an hour, counted.
const EVENTS_MAX: u32 = 500;
/// Lines of a dead container, and bytes of them.
const LINES_MAX: i64 = 10;
const LINE_BYTES_MAX: i64 = 8 * 1024;
/// Containers of one target whose logs are read.
const LOGS_MAX: usize = 10;
/// Nodes that are looked at for pods that none has taken.
const NODES_MAX: u32 = 500;
/// Pods whose events are read at once.
const AT_ONCE: usize = 8;

/// Carries the command out.
pub fn run(args: &Why) -> anyhow::Result<ExitCode> {
    let target = match target::read(&args.target)? {
        NamedTargets::Each(mut targets) if targets.len() == 1 => targets.remove(0),
        NamedTargets::Each(_) => bail!("name one target: an account is about one thing"),
        NamedTargets::All(kind) => bail!("name it: {}/NAME", kind.name()),
    };
    client::block_on(async {
        let reader = EvidenceReader { lookup: client::connect_to(&args.access).await? };
        let now = SystemClock::start().now();
        let account = reader.account(&target, now).await?;
        output::print(&match args.output {
            OutputArg::Text => rekindle_why::render(&account, now),
            OutputArg::Json => serde_json::to_string_pretty(&account)? + "\n",
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads evidence through the API.
struct EvidenceReader {
    lookup: Lookup,
}

impl EvidenceReader {
    async fn account(&self, target: &CommandTarget, now: Tick) -> anyhow::Result<Account> {
        let CommandTarget { kind, name } = target;
        let kind = *kind;
        let workload = match kind {
            TargetKind::Pod => return self.pod(name, now).await,
            TargetKind::Node => return Ok(explain_node(&self.node(name).await?, now)),
            TargetKind::CronJob => {
                let cron_job = Box::new(self.lookup.object(kind, name).await?);
                let jobs = self.lookup.jobs_of(&cron_job).await?;
                WorkloadObjects::CronJob(cron_job, jobs)
            }
            TargetKind::Deployment => {
                let deployment = Box::new(self.lookup.object(kind, name).await?);
                let sets = self.lookup.replica_sets_of(&deployment).await?;
                WorkloadObjects::Deployment(deployment, sets)
            }
            TargetKind::DaemonSet => WorkloadObjects::DaemonSet(self.boxed(target).await?),
            TargetKind::Job => WorkloadObjects::Job(self.boxed(target).await?),
            TargetKind::ReplicaSet => WorkloadObjects::ReplicaSet(self.boxed(target).await?),
            TargetKind::ReplicationController => {
                WorkloadObjects::ReplicationController(self.boxed(target).await?)
            }
            TargetKind::StatefulSet => WorkloadObjects::StatefulSet(self.boxed(target).await?),
        };
        Ok(explain_workload(&self.workload(workload).await?, now))
    }

    async fn boxed<K: NamespacedKind>(&self, target: &CommandTarget) -> anyhow::Result<Box<K>> {
        Ok(Box::new(self.lookup.object(target.kind, &target.name).await?))
    }

    /// The account of a pod, or of what it left.
    async fn pod(&self, name: &str, now: Tick) -> anyhow::Result<Account> {
        let absent = match self.lookup.object(TargetKind::Pod, name).await {
            Ok(pod) => {
                let restarts = self.restarts(Some(name)).await?;
                let mut all = self.about(vec![pod], &restarts).await?;
                let evidence = all.pop().context("a pod that was read has evidence")?;
                return Ok(explain_pod(&evidence, now));
            }
            Err(error) if is_not_found(&error) => error,
            Err(error) => return Err(error),
        };
        let namespace = self.lookup.namespace.clone();
        let ledgers: Api<RestartLedger> = Api::namespaced(self.client().clone(), &namespace);
        let ledger = own_ledger(name, &ledgers).await.context("read the restart ledger")?;
        let there = self.restarts(Some(name)).await?;
        let left = GoneEvidence {
            events: self.events_of_gone(name).await?,
            restarts: asked_for(name, there, ledger.as_ref()),
            ledger,
            namespace,
            name: name.to_owned(),
        };
        if left.is_empty() { Err(absent) } else { Ok(explain_gone(&left)) }
    }

    /// What there is about an object that makes pods, about what it made, and about its pods.
    async fn workload(&self, workload: WorkloadObjects) -> anyhow::Result<WorkloadEvidence> {
        let (owner, made) = makers(&workload);
        let mut events = self.events(owner).await?;
        for maker in made.iter().flatten() {
            events.extend(self.events(maker).await?);
        }
        let owners = made.unwrap_or_else(|| vec![owner]);
        // without replica sets or Jobs there are no pods
        let pods = match owners.is_empty() {
            true => Vec::new(),
            false => self.lookup.pods_of(owners).await?,
        };
        let restarts = self.restarts(None).await?;
        let gone = self.gone(&workload, &events, &pods, &restarts).await?;
        let pods = self.about(pods, &restarts).await?;
        Ok(WorkloadEvidence { workload, events, pods, gone })
    }

    /// What is left of the workload's pods that are gone.
    async fn gone(
        &self,
        workload: &WorkloadObjects,
        events: &[Event],
        pods: &[Pod],
        restarts: &[PodRestart],
    ) -> anyhow::Result<Vec<GoneEvidence>> {
        let ledgers: Api<RestartLedger> =
            Api::namespaced(self.client().clone(), &self.lookup.namespace);
        let ledgers = unless_unknown(ledgers.list(&ListParams::default()).await);
        let ledgers = ledgers.context("list the restart ledgers")?;
        let remains = WorkloadRemains { events, pods, ledgers: &ledgers, restarts };
        let reads = left_behind(workload, remains).into_iter().map(|left| async {
            let events = self.events_of_gone(&left.name).await?;
            Ok(GoneEvidence { events, ..left })
        });
        let reads: Vec<_> = reads.collect();
        let mut gone = futures::stream::iter(reads)
            .buffered(AT_ONCE)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect::<anyhow::Result<Vec<GoneEvidence>>>()?;
        gone.retain(|left| !left.is_empty());
        Ok(gone)
    }

    /// The events about a pod of this name, whichever it was.
    async fn events_of_gone(&self, pod: &str) -> anyhow::Result<Vec<Event>> {
        let api = Api::namespaced(self.client().clone(), &self.lookup.namespace);
        self.list_events(api, &format!("involvedObject.kind=Pod,involvedObject.name={pod}")).await
    }

    async fn node(&self, name: &str) -> anyhow::Result<NodeEvidence> {
        let (node, pods) = self.lookup.node(name).await?;
        let selector = format!("involvedObject.kind=Node,involvedObject.name={name}");
        let events = self.list_events(Api::all(self.client().clone()), &selector).await?;
        let pods = self.about(pods, &[]).await?;
        Ok(NodeEvidence { node, events, pods })
    }

    fn client(&self) -> &Client {
        &self.lookup.client
    }

    /// What there is about these pods; of these restarts those that were asked for them.
    async fn about(
        &self,
        pods: Vec<Pod>,
        restarts: &[PodRestart],
    ) -> anyhow::Result<Vec<PodEvidence>> {
        let mut logs_left = LOGS_MAX;
        let reads = pods.into_iter().map(|pod| {
            let dead = if logs_left > 0 { dead_containers(&pod) } else { Vec::new() };
            logs_left = logs_left.saturating_sub(dead.len());
            let name = pod.name_any();
            let restarts =
                restarts.iter().filter(|restart| restart.spec.pod_name == name).cloned().collect();
            self.about_one(pod, restarts, dead)
        });
        // `buffered` keeps the order
        let reads: Vec<_> = reads.collect();
        let read = futures::stream::iter(reads).buffered(AT_ONCE).collect::<Vec<_>>().await;
        let mut read = read.into_iter().collect::<anyhow::Result<Vec<PodEvidence>>>()?;
        if read.iter().any(|evidence| waits_for_node(&evidence.pod)) {
            let nodes = Arc::new(self.nodes().await);
            let waiting = read.iter_mut().filter(|evidence| waits_for_node(&evidence.pod));
            waiting.for_each(|evidence| evidence.nodes = Arc::clone(&nodes));
        }
        Ok(read)
    }

    /// The nodes; none for who may not read them, which is no reason to tell nothing else.
    async fn nodes(&self) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.client().clone());
        match api.list(&ListParams::default().limit(NODES_MAX)).await {
            Ok(list) => list.items,
            Err(error) => {
                tracing::debug!(%error, "the nodes cannot be read");
                Vec::new()
            }
        }
    }

    async fn about_one(
        &self,
        pod: Pod,
        restarts: Vec<PodRestart>,
        dead: Vec<DeadContainer>,
    ) -> anyhow::Result<PodEvidence> {
        let namespace = pod.namespace().unwrap_or_default();
        let events = self.events(&pod.metadata).await?;
        let ledgers: Api<RestartLedger> = Api::namespaced(self.client().clone(), &namespace);
        let ledger = ledger_of(&pod, &ledgers).await.context("read the restart ledger")?;
        let restarts = asked_for(&pod.name_any(), restarts, ledger.as_ref());
        let api: Api<Pod> = Api::namespaced(self.client().clone(), &namespace);
        let mut last_lines = BTreeMap::new();
        for container in dead {
            let lines = last_lines_of(&api, &pod.name_any(), &container).await;
            last_lines.insert(container.name, lines);
        }
        let volumes = match waits_for_node(&pod) {
            true => self.volumes_of(&pod).await,
            false => Vec::new(),
        };
        let nodes = Arc::default();
        Ok(PodEvidence { pod, events, ledger, restarts, last_lines, nodes, volumes })
    }

    /// The volumes that the pod's claims are bound to; those that may not be read are left out,
    /// which is no reason to tell nothing else.
    async fn volumes_of(&self, pod: &Pod) -> Vec<PersistentVolume> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client().clone(), &namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client().clone());
        let mut found = Vec::new();
        let declared = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        for claim in declared.filter_map(|volume| claim_name(&pod.name_any(), volume)) {
            let read = async {
                let claim = claims.get_opt(&claim).await?;
                match claim.and_then(|claim| claim.spec?.volume_name) {
                    Some(name) => volumes.get_opt(&name).await,
                    None => Ok(None),
                }
            };
            match read.await {
                Ok(volume) => found.extend(volume),
                Err(error) => {
                    tracing::debug!(%error, claim, "failed to read the volume of a claim")
                }
            }
        }
        found
    }

    /// The restarts that were asked for: of a pod of this name, or all of the namespace.
    async fn restarts(&self, pod: Option<&str>) -> anyhow::Result<Vec<PodRestart>> {
        let params = match pod {
            Some(pod) => ListParams::default().fields(&format!("spec.podName={pod}")),
            None => ListParams::default(),
        };
        let api: Api<PodRestart> = Api::namespaced(self.client().clone(), &self.lookup.namespace);
        let listed = match api.list(&params).await {
            // a cluster without field selectors on our kinds: those of other pods are left out here
            Err(kube::Error::Api(answer)) if answer.code == 400 => {
                api.list(&ListParams::default()).await
            }
            listed => listed,
        };
        let mut restarts =
            unless_unknown(listed).context("list the restarts that were asked for")?;
        restarts.retain(|restart| pod.is_none_or(|pod| restart.spec.pod_name == pod));
        Ok(restarts)
    }

    async fn events(&self, of: &ObjectMeta) -> anyhow::Result<Vec<Event>> {
        let namespace = of.namespace.as_deref().unwrap_or_default();
        let uid = of.uid.as_deref().unwrap_or_default();
        let api = Api::namespaced(self.client().clone(), namespace);
        self.list_events(api, &format!("involvedObject.uid={uid}")).await
    }

    async fn list_events(&self, api: Api<Event>, selector: &str) -> anyhow::Result<Vec<Event>> {
        let params = ListParams::default().fields(selector).limit(EVENTS_MAX);
        unless_unknown(api.list(&params).await).context("list events")
    }
}

/// The ledger of the group that the pod is a member of; else the one that speaks of the pod now;
/// else the one of its name, which an earlier pod left.
async fn ledger_of(pod: &Pod, ledgers: &Api<RestartLedger>) -> kube::Result<Option<RestartLedger>> {
    let uid = pod.uid().unwrap_or_default();
    let all = unless_unknown(ledgers.list(&ListParams::default()).await)?;
    let is_its = |ledger: &RestartLedger| ledger.is_of_group() && ledger.member(&uid).is_some();
    if let Some(group) = all.into_iter().find(is_its) {
        return Ok(Some(group));
    }
    let of_pod = ListParams::default().fields(&format!("spec.podName={}", pod.name_any()));
    let mut found = match ledgers.list(&of_pod).await {
        // a cluster without field selectors on our kinds: the one of its name is asked for
        Err(kube::Error::Api(answer)) if answer.code == 400 => Vec::new(),
        listed => unless_unknown(listed)?,
    };
    let own = found.iter().position(|ledger| Some(&ledger.spec.pod_uid) == pod.uid().as_ref());
    match own {
        Some(place) => Ok(Some(found.swap_remove(place))),
        None => own_ledger(&pod.name_any(), ledgers).await,
    }
}

/// The ledger that was begun for a pod of this name.
async fn own_ledger(
    pod: &str,
    ledgers: &Api<RestartLedger>,
) -> kube::Result<Option<RestartLedger>> {
    match ledgers.get(pod).await {
        // no such ledger, nobody knows the kind, or it is not for this user to read
        Err(kube::Error::Api(answer)) if matches!(answer.code, 403 | 404) => Ok(None),
        read => read.map(Some),
    }
}

/// What a cluster says that knows the kind, to somebody who may read it. For others the account has
/// nothing to tell of it.
fn unless_unknown<K: Clone>(listed: kube::Result<ObjectList<K>>) -> kube::Result<Vec<K>> {
    match listed {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(answer)) if matches!(answer.code, 403 | 404) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The object itself, and what it made to make its pods; `None`: it makes them itself.
fn makers(workload: &WorkloadObjects) -> (&ObjectMeta, Option<Vec<&ObjectMeta>>) {
    match workload {
        WorkloadObjects::CronJob(cron_job, jobs) => {
            (&cron_job.metadata, Some(jobs.iter().map(|job| &job.metadata).collect()))
        }
        WorkloadObjects::DaemonSet(set) => (&set.metadata, None),
        WorkloadObjects::Deployment(deployment, sets) => {
            (&deployment.metadata, Some(sets.iter().map(|set| &set.metadata).collect()))
        }
        WorkloadObjects::Job(job) => (&job.metadata, None),
        WorkloadObjects::ReplicaSet(set) => (&set.metadata, None),
        WorkloadObjects::ReplicationController(controller) => (&controller.metadata, None),
        WorkloadObjects::StatefulSet(set) => (&set.metadata, None),
    }
}

/// The API says that there is no such object.
fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(answer)) if answer.code == 404)
}

/// A container whose last lines are worth reading.
struct DeadContainer {
    name: String,
    run: EndedRun,
}

/// Which of its runs has ended.
#[derive(Clone, Copy)]
enum EndedRun {
    Newest,
    Previous,
}

/// Those that have ended with a failure and are not well again.
fn dead_containers(pod: &Pod) -> Vec<DeadContainer> {
    let Some(status) = &pod.status else { return Vec::new() };
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses);
    let dead = statuses.flatten().filter_map(|container| {
        let now = container.state.as_ref();
        let ended = now.and_then(|state| state.terminated.as_ref());
        let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let run = match (ended, before) {
            (Some(end), _) if end.exit_code != 0 => EndedRun::Newest,
            (Some(_), _) => return None,
            // waiting: the container that ended is still the newest of its logs or the one before
            // it
            (None, Some(_)) => EndedRun::Previous,
            (None, None) => return None,
        };
        Some(DeadContainer { name: container.name.clone(), run })
    });
    dead.collect()
}

/// The last lines of a dead container; none when they are gone, which is no reason to tell nothing
/// else.
async fn last_lines_of(api: &Api<Pod>, pod: &str, container: &DeadContainer) -> Vec<String> {
    let params = LogParams {
        container: Some(container.name.clone()),
        previous: match container.run {
            EndedRun::Newest => false,
            EndedRun::Previous => true,
        },
        tail_lines: Some(LINES_MAX),
        limit_bytes: Some(LINE_BYTES_MAX),
        ..LogParams::default()
    };
    match api.logs(pod, &params).await {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(error) => {
            tracing::debug!(pod, container = container.name, %error, "no log of the dead container");
            Vec::new()
        }
    }
}
