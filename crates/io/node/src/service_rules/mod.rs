//! Services in the kernel: follows Services, EndpointSlices and Nodes, and keeps the rules of the
//! engine's table as `rekindle_services` wants them. One table serves all nodes of a machine.
//!
//! ```text
//!  watches ──────────────► ServiceRouter ── changes ──► RuleTable ──► kernel
//!  workers ── withdraw ──►      ▲                           │ committed
//!              ◄────────────────┼───────────────────────────┘
//!                               └── all elements ◄── another process changed the table
//!  EventRecorder ◄── FirewallWatch ◄── another process changed another table
//! ```
//! The first packet of a connection to a Service whose last pod is being restarted waits here, and
//! goes on when the rules lead to a pod again, or when it has waited long enough (docs/adr/0060).

mod firewalls;
mod health_checks;
mod holds;
mod host_ports;
mod line;
mod open_ports;
mod port_hold;
mod refused_elements;
mod routes;
mod service_events;
mod shadowed_ports;
mod unrouted_services;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{EventSource, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Resource};
use rekindle_net::rules::{HeldPacket, RuleError, RuleTable, RuleTableConfig};
use rekindle_services::{ContestedPort, RuleChanges, RuleElements, ServiceRouter};
use rekindle_types::{NamespacedName, causes};
use tokio::sync::{mpsc, oneshot};

use self::firewalls::FirewallWatch;
use self::health_checks::HealthChecks;
use self::holds::Holds;
use self::host_ports::HostPorts;
pub use self::line::{follow_requests, serve_routes};
use self::open_ports::{OpenPorts, PortTaken};
use self::refused_elements::{LeftOutElement, write_all_but_refused};
pub use self::routes::{
    AddressesInUse, AgentLine, PodPorts, PodRoutes, PortDemand, PortOutcome, RouteRequest,
    SandboxAddresses,
};
use self::service_events::{report_closed_port, report_lost_ports, report_shadowed_port};
use self::shadowed_ports::ShadowedPorts;
pub use self::unrouted_services::warn_of_unrouted_services;
use crate::clock::{Clock, sleep_until};
use crate::kernel_rules::KernelRules;
use crate::object_watch::{WatchNews, watch_objects};
use crate::pods::EventRecorder;

/// What was on its way when the rules went has arrived after that: many servers close a connection
/// whose request they have not read yet when they are told to stop.
const SETTLES_IN: Duration = Duration::from_millis(10);
/// What the log calls the reader of the watches.
const READER: &str = "rules of Services";
/// Who says what is to be said about Services; the name that people and tools look for.
const COMPONENT: &str = "kube-proxy";

/// The rules of one engine.
#[derive(Debug)]
pub struct ServiceRules {
    table: RuleTable,
    router: ServiceRouter,
    kernel: KernelRules<ListedServices>,
    /// Whether the kernel tells what others do to the rules.
    is_told_of_others: bool,
    /// Whether UDP flows that an engine before has left are ended.
    has_forgotten_strays: bool,
    /// Workers that wait until the kernel has the rules of now.
    waiting: Vec<oneshot::Sender<()>>,
    /// Ports of the machine that lead to Services.
    ports: OpenPorts,
    /// Node ports that a process has, too.
    shadowed: ShadowedPorts,
    /// Those that lead to one pod each.
    host_ports: HostPorts,
    /// Ports where load balancers ask for endpoints of this node.
    health: HealthChecks,
    /// What the kernel has refused, and is not reported yet.
    left_out: Vec<LeftOutElement>,
    /// Connections that wait.
    holds: Holds,
    /// Whether the kernel tells of them.
    is_told_of_held: bool,
    /// Firewalls of others that drop packets of pods.
    firewalls: FirewallWatch,
}

/// What has been listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ListedServices {
    services: bool,
    slices: bool,
    nodes: bool,
}

impl ServiceRules {
    /// Looks whether the kernel can do it. Must run inside a tokio runtime, in the network
    /// namespace of the bridge. An event about the machine names this node.
    ///
    /// # Errors
    /// When the kernel has no nftables, or this process may not change rules.
    pub fn open(config: RuleTableConfig, node: &str) -> Result<Self, RuleError> {
        let stack = config.stack();
        let firewalls = FirewallWatch::new(&config, node);
        Ok(Self {
            table: RuleTable::open(config)?,
            router: ServiceRouter::new(stack),
            kernel: KernelRules::Unlisted(ListedServices::default()),
            is_told_of_others: true,
            has_forgotten_strays: false,
            waiting: Vec::new(),
            ports: OpenPorts::default(),
            shadowed: ShadowedPorts::default(),
            host_ports: HostPorts::default(),
            health: HealthChecks::default(),
            left_out: Vec::new(),
            holds: Holds::default(),
            is_told_of_held: true,
            firewalls,
        })
    }

    /// Takes all rules of an engine away. For one that does not serve any more.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn remove(config: RuleTableConfig) -> Result<(), RuleError> {
        RuleTable::open(config)?.remove().await
    }

    /// Keeps the rules as they are to be, until the watches end or no pod can ask any more.
    pub async fn serve(
        mut self,
        client: Client,
        clock: Clock,
        mut requests: mpsc::UnboundedReceiver<RouteRequest>,
    ) {
        let source = EventSource { component: Some(COMPONENT.to_owned()), host: None };
        let recorder = EventRecorder::start_for(client.clone(), source, clock);
        let mut services = watch_objects(Api::<Service>::all(client.clone()), READER);
        let mut slices = watch_objects(Api::<EndpointSlice>::all(client.clone()), READER);
        let mut nodes = watch_objects(Api::<Node>::all(client), READER);
        self.adopt_host_ports().await;
        self.firewalls.look(&recorder).await;
        loop {
            self.report_left_out(&recorder);
            let retry = self.kernel.retry_at();
            let hold_ends = self.holds.next_end();
            let open_again = [self.ports.retry_at(), self.host_ports.retry_at()];
            let open_again = open_again.into_iter().flatten().min();
            let look_at_firewalls = self.firewalls.look_at();
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(request) => self.requested(request, &recorder).await,
                    None => return,
                },
                news = slices.next() => match news {
                    Some(news) => self.slices_changed(news).await,
                    None => return,
                },
                news = services.next() => match news {
                    Some(news) => self.services_changed(news, &recorder).await,
                    None => return,
                },
                news = nodes.next() => match news {
                    Some(news) => self.nodes_changed(news).await,
                    None => return,
                },
                changed = self.table.changed_by_others(), if self.is_told_of_others => match changed {
                    Ok(()) => self.rewrite().await,
                    Err(error) => {
                        self.is_told_of_others = false;
                        tracing::error!(error = causes(&error), "failed to follow what others do to the rules of Services; they are not put back from now on");
                    }
                },
                () = self.table.changed_elsewhere() => self.firewalls.rules_changed(),
                held = self.table.held(), if self.is_told_of_held => match held {
                    Ok(packets) => {
                        let free = self.holds.add(packets, &self.router);
                        self.release(free);
                    }
                    Err(error) => {
                        self.is_told_of_held = false;
                        tracing::error!(error = causes(&error), "failed to follow connections that wait; they are refused from now on");
                    }
                },
                () = sleep_until(hold_ends), if hold_ends.is_some() => self.end_hold().await,
                () = sleep_until(open_again), if open_again.is_some() => {
                    let of_pods = self.host_ports.try_again(&mut self.router);
                    let changes = of_pods.then(self.open_ports(&recorder));
                    self.apply(changes).await;
                }
                () = sleep_until(retry), if retry.is_some() => self.replace().await,
                () = sleep_until(look_at_firewalls), if look_at_firewalls.is_some() => {
                    self.firewalls.look(&recorder).await;
                }
            }
        }
    }

    async fn requested(&mut self, request: RouteRequest, recorder: &EventRecorder) {
        match request {
            RouteRequest::Withdraw(pod, cause, done) => {
                let changes = self.router.withdraw(&pod, cause);
                self.waiting.push(if changes.is_empty() { done } else { settled(done) });
                self.apply(changes).await;
            }
            RouteRequest::Admit(pod, addresses) => {
                let changes = self.router.admit(&pod, &addresses);
                self.apply(changes).await;
            }
            RouteRequest::Leave(pod) => {
                let changes = self.router.leave_to_slices(&pod);
                self.apply(changes).await;
            }
            RouteRequest::Gone(pod) => {
                let changes = self.router.gone(&pod);
                self.apply(changes).await;
            }
            RouteRequest::OpenPorts(agent, ports, answer) => {
                let (pod, demand) = (ports.pod.clone(), ports.demand);
                let (changes, refused) = self.host_ports.open(&mut self.router, agent, ports);
                // a worker that waits no longer has gone on without
                match (demand, refused.is_empty()) {
                    (PortDemand::All, true) => self.waiting.push(opened(answer)),
                    (PortDemand::All, false) => drop(answer.send(PortOutcome::Refused(refused))),
                    (PortDemand::WhatIsFree, true) => drop(answer.send(PortOutcome::Open)),
                    (PortDemand::WhatIsFree, false) => {
                        report_lost_ports(recorder, &pod, &refused);
                        drop(answer.send(PortOutcome::Refused(refused)));
                    }
                }
                self.host_ports_changed(changes, recorder).await;
            }
            RouteRequest::ClosePorts(sandbox, done) => {
                let changes = self.host_ports.close(&mut self.router, &sandbox);
                self.waiting.push(done);
                self.host_ports_changed(changes, recorder).await;
            }
            RouteRequest::KeepPorts(in_use) => {
                let changes = self.host_ports.keep(&mut self.router, &in_use);
                self.host_ports_changed(changes, recorder).await;
            }
            RouteRequest::ServeRanges(ranges, done) => {
                self.table.serve_ranges(ranges);
                self.waiting.push(done);
                match self.kernel {
                    // written with all the rest
                    KernelRules::Unlisted(_) => {}
                    KernelRules::Current | KernelRules::Stale { .. } => self.replace().await,
                }
            }
            RouteRequest::AgentGone(agent) => self.host_ports.agent_gone(agent),
        }
    }

    /// What a pod gives back, a Service may wait for.
    async fn host_ports_changed(&mut self, changes: RuleChanges, recorder: &EventRecorder) {
        let of_services = self.open_ports(recorder);
        self.apply(changes.then(of_services)).await;
    }

    /// Host ports of an engine before lead on until their agents have said which pods still run.
    async fn adopt_host_ports(&mut self) {
        match self.table.host_ports().await {
            Ok(found) => self.host_ports.adopt(&mut self.router, found),
            // no table, or one of another version: agents open the ports again
            Err(error) => tracing::debug!(error = causes(&error), "no host ports are found"),
        }
    }

    /// The rules are written once all that they follow has been listed.
    fn note_list<K: Resource>(&mut self, news: &WatchNews<K>, mark: fn(&mut ListedServices)) {
        if let (WatchNews::All(_), KernelRules::Unlisted(listed)) = (news, &mut self.kernel) {
            mark(listed);
        }
    }

    async fn services_changed(&mut self, news: WatchNews<Service>, recorder: &EventRecorder) {
        self.note_list(&news, |listed| listed.services = true);
        let (set, set_all) = (ServiceRouter::set_service, ServiceRouter::set_services);
        let changes = changes_by(news, &mut self.router, set, set_all);
        let of_ports = self.open_ports(recorder);
        self.apply(changes.then(of_ports)).await;
    }

    /// Opens and closes ports of the machine as the Services want it.
    fn open_ports(&mut self, recorder: &EventRecorder) -> RuleChanges {
        let (changes, mut taken) = self.ports.follow(&mut self.router);
        taken.extend(self.health.follow(&self.router));
        if self.health.waits() {
            self.ports.try_again();
        }
        for PortTaken { port, service, error } in taken {
            report_closed_port(recorder, port, service, &error.to_string());
        }
        for PortTaken { port, service, error } in self.shadowed.follow(&self.router) {
            report_shadowed_port(recorder, port, service, &error.to_string());
        }
        for (contested, pod) in self.host_ports.newly_contested(&self.router) {
            let ContestedPort { wanted, service, .. } = contested;
            report_closed_port(recorder, wanted, service, &format!("{pod} has it"));
        }
        changes
    }

    async fn slices_changed(&mut self, news: WatchNews<EndpointSlice>) {
        self.note_list(&news, |listed| listed.slices = true);
        let (set, set_all) = (ServiceRouter::set_slice, ServiceRouter::set_slices);
        let changes = changes_by(news, &mut self.router, set, set_all);
        self.apply(changes).await;
    }

    async fn nodes_changed(&mut self, news: WatchNews<Node>) {
        self.note_list(&news, |listed| listed.nodes = true);
        let (set, set_all) = (ServiceRouter::set_node, ServiceRouter::set_nodes);
        let changes = changes_by(news, &mut self.router, set, set_all);
        self.apply(changes).await;
    }

    /// The connections that wait for a frontend have waited long enough.
    async fn end_hold(&mut self) {
        if let Some(view) = self.holds.pop_end() {
            let changes = self.router.end_hold(view);
            self.apply(changes).await;
        }
    }

    fn release(&self, free: Vec<HeldPacket>) {
        for packet in free {
            if let Err(error) = self.table.release(packet) {
                // the kernel has it until this process ends; its client tries again by itself
                tracing::warn!(error = causes(&error), "failed to let a connection go on");
            }
        }
    }

    /// Brings the kernel from the rules before these changes to those after them.
    async fn apply(&mut self, changes: RuleChanges) {
        self.holds.note(&changes, &self.router);
        self.health.tell(&self.router);
        match self.kernel {
            KernelRules::Unlisted(ListedServices { services: true, slices: true, nodes: true }) => {
                self.replace().await
            }
            KernelRules::Unlisted(_) | KernelRules::Stale { .. } => {}
            KernelRules::Current if changes.is_empty() => self.tell_waiting(),
            KernelRules::Current => match self.table.apply(&changes).await {
                Ok(()) => {
                    self.forget_flows(&changes).await;
                    self.tell_waiting();
                    if holds::end_holds(&changes) {
                        let free = self.holds.take_free(&self.router);
                        self.release(free);
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = causes(&error),
                        "failed to change rules of Services; all are written anew"
                    );
                    self.replace().await;
                }
            },
        }
    }

    async fn rewrite(&mut self) {
        match self.kernel {
            KernelRules::Unlisted(_) => {}
            KernelRules::Current | KernelRules::Stale { .. } => {
                let table = self.table.name();
                tracing::info!(
                    table,
                    "another process changed the rules of Services; they are written anew"
                );
                let changes = self.router.take_back_left_out();
                self.holds.note(&changes, &self.router);
                self.replace().await;
            }
        }
    }

    /// Writes all rules, or all that the kernel takes.
    async fn replace(&mut self) {
        let table = &self.table;
        let write = |elements: RuleElements| async move { table.replace(&elements).await };
        let written = write_all_but_refused(&mut self.router, &mut self.left_out, write).await;
        match written {
            Ok(changes) => {
                self.kernel = KernelRules::Current;
                self.forget_flows(&changes).await;
                if !self.has_forgotten_strays {
                    self.forget_strays().await;
                }
                self.tell_waiting();
                let free = self.holds.take_free(&self.router);
                self.release(free);
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "failed to write the rules of Services; they are tried again"
                );
                self.kernel.failed();
            }
        }
    }

    fn report_left_out(&mut self, recorder: &EventRecorder) {
        for left_out in std::mem::take(&mut self.left_out) {
            left_out.report(recorder, &self.router, &self.host_ports);
        }
    }

    /// UDP has no connections that end: the kernel would send on to what is gone.
    async fn forget_flows(&self, changes: &RuleChanges) {
        let flows = changes.stale_flows();
        warn_of_flows(self.table.forget_udp_flows(&flows).await);
    }

    /// Ends UDP flows that the agent before this one has left: it may have been killed after it
    /// changed the rules and before it ended the flows of old endpoints. This runs once for each
    /// start, also if it fails. Later changes name their stale flows themselves, and a kernel that
    /// cannot list flows would cause a warning at each rewrite.
    async fn forget_strays(&mut self) {
        self.has_forgotten_strays = true;
        warn_of_flows(self.table.forget_stray_udp_flows(self.router.elements()).await);
    }

    fn tell_waiting(&mut self) {
        for waiting in self.waiting.drain(..) {
            // a worker that waits no longer has gone on without
            let (Ok(()) | Err(())) = waiting.send(());
        }
    }
}

fn warn_of_flows(forgotten: Result<usize, RuleError>) {
    if let Err(error) = forgotten {
        tracing::warn!(
            error = causes(&error),
            "failed to end UDP flows to endpoints that are gone"
        );
    }
}

/// Reports to a worker that its ports are open, once that is reported here.
fn opened(answer: oneshot::Sender<PortOutcome>) -> oneshot::Sender<()> {
    let (done, committed) = oneshot::channel();
    tokio::spawn(async move {
        if committed.await.is_ok() {
            // a worker that waits no longer has gone on without
            drop(answer.send(PortOutcome::Open));
        }
    });
    done
}

/// Tells `waiting` a moment after it is told itself.
fn settled(waiting: oneshot::Sender<()>) -> oneshot::Sender<()> {
    let (done, withdrawn) = oneshot::channel();
    tokio::spawn(async move {
        if withdrawn.await.is_ok() {
            tokio::time::sleep(SETTLES_IN).await;
            // a worker that waits no longer has gone on without
            let (Ok(()) | Err(())) = waiting.send(());
        }
    });
    done
}

/// What the news of one kind change in the rules.
fn changes_by<K: Resource>(
    news: WatchNews<K>,
    router: &mut ServiceRouter,
    set: fn(&mut ServiceRouter, NamespacedName, Option<&K>) -> RuleChanges,
    set_all: fn(&mut ServiceRouter, &BTreeMap<NamespacedName, K>) -> RuleChanges,
) -> RuleChanges {
    match news {
        WatchNews::All(listed) => {
            let listed = listed.into_iter().map(|object| (key(&object), object)).collect();
            set_all(router, &listed)
        }
        WatchNews::Changed(object) => set(router, key(&object), Some(&object)),
        WatchNews::Gone(object) => set(router, key(&object), None),
    }
}

fn key<K: Resource>(object: &K) -> NamespacedName {
    NamespacedName::from_meta(object.meta())
}
