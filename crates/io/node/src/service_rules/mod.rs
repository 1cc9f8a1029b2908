//! Services in the kernel: follows Services and EndpointSlices, and keeps the rules of the engine's
//! table as `rekindle_services` wants them. One table serves all nodes of a machine.
//!
//! ```text
//!  watches ──────────────► ServiceRouter ── changes ──► RuleTable ──► kernel
//!  workers ── withdraw ──►      ▲                           │ committed
//!              ◄────────────────┼───────────────────────────┘
//!                               └── all elements ◄── another process changed the table
//! ```
//! The first packet of a connection to a Service whose last pod is being restarted waits here, and
//! goes on when the rules lead to a pod again, or when it has waited long enough (docs/adr/0060).

mod health_checks;
mod holds;
mod line;
mod open_ports;
mod routes;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Resource};
use rekindle_net::rules::{HeldPacket, RuleError, RuleTable, RuleTableConfig};
use rekindle_services::{RuleChanges, ServiceRouter};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, NamespacedName, causes};
use tokio::sync::{mpsc, oneshot};

use self::health_checks::HealthChecks;
use self::holds::Holds;
pub use self::line::{follow_requests, serve_routes};
use self::open_ports::{OpenPorts, PortTaken};
pub use self::routes::{PodRoutes, RouteRequest};
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
    /// Workers that wait until the kernel has the rules of now.
    waiting: Vec<oneshot::Sender<()>>,
    /// Ports of the machine that lead to Services.
    ports: OpenPorts,
    /// Ports where load balancers ask for endpoints of this node.
    health: HealthChecks,
    /// Connections that wait.
    holds: Holds,
    /// Whether the kernel tells of them.
    is_told_of_held: bool,
}

/// What has been listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ListedServices {
    services: bool,
    slices: bool,
}

impl ServiceRules {
    /// Looks whether the kernel can do it. Must run inside a tokio runtime, in the network
    /// namespace of the bridge.
    ///
    /// # Errors
    /// When the kernel has no nftables, or this process may not change rules.
    pub fn open(config: RuleTableConfig) -> Result<Self, RuleError> {
        Ok(Self {
            table: RuleTable::open(config)?,
            router: ServiceRouter::default(),
            kernel: KernelRules::Unlisted(ListedServices::default()),
            is_told_of_others: true,
            waiting: Vec::new(),
            ports: OpenPorts::default(),
            health: HealthChecks::default(),
            holds: Holds::default(),
            is_told_of_held: true,
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
        let mut slices = watch_objects(Api::<EndpointSlice>::all(client), READER);
        loop {
            let retry = self.kernel.retry_at();
            let hold_ends = self.holds.next_end();
            let open_again = self.ports.retry_at();
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(request) => self.requested(request).await,
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
                changed = self.table.changed_by_others(), if self.is_told_of_others => match changed {
                    Ok(()) => self.rewrite().await,
                    Err(error) => {
                        self.is_told_of_others = false;
                        tracing::error!(error = causes(&error), "failed to follow what others do to the rules of Services; they are not put back from now on");
                    }
                },
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
                    let changes = self.open_ports(&recorder);
                    self.apply(changes).await;
                }
                () = sleep_until(retry), if retry.is_some() => self.replace().await,
            }
        }
    }

    async fn requested(&mut self, request: RouteRequest) {
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
        }
    }

    async fn services_changed(&mut self, news: WatchNews<Service>, recorder: &EventRecorder) {
        if let (WatchNews::All(_), KernelRules::Unlisted(ListedServices { services, .. })) =
            (&news, &mut self.kernel)
        {
            *services = true;
        }
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
            let (number, protocol) = (port.port, port.protocol);
            let message = format!(
                "Port {number}/{protocol} of the machine cannot be opened: {error}; free the port, or give the Service another one"
            );
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Service".to_owned()),
                namespace: Some(service.name.namespace),
                name: Some(service.name.name),
                uid: Some(service.uid),
                ..ObjectReference::default()
            };
            recorder.record(about, EventSeverity::Warning, event::FAILED_OPEN_PORT, message);
        }
        changes
    }

    async fn slices_changed(&mut self, news: WatchNews<EndpointSlice>) {
        if let (WatchNews::All(_), KernelRules::Unlisted(ListedServices { slices, .. })) =
            (&news, &mut self.kernel)
        {
            *slices = true;
        }
        let (set, set_all) = (ServiceRouter::set_slice, ServiceRouter::set_slices);
        let changes = changes_by(news, &mut self.router, set, set_all);
        self.apply(changes).await;
    }

    /// The connections that wait for a frontend have waited long enough.
    async fn end_hold(&mut self) {
        if let Some(frontend) = self.holds.pop_end() {
            let changes = self.router.end_hold(frontend);
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
            KernelRules::Unlisted(ListedServices { services: true, slices: true }) => {
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
                self.replace().await;
            }
        }
    }

    /// Writes all rules.
    async fn replace(&mut self) {
        match self.table.replace(&self.router.elements()).await {
            Ok(()) => {
                self.kernel = KernelRules::Current;
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

    /// UDP has no connections that end: the kernel would send on to what is gone.
    async fn forget_flows(&self, changes: &RuleChanges) {
        let flows = changes.stale_flows();
        if let Err(error) = self.table.forget_udp_flows(&flows).await {
            tracing::warn!(
                error = causes(&error),
                "failed to end UDP flows to endpoints that are gone"
            );
        }
    }

    fn tell_waiting(&mut self) {
        for waiting in self.waiting.drain(..) {
            // a worker that waits no longer has gone on without
            let (Ok(()) | Err(())) = waiting.send(());
        }
    }
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
