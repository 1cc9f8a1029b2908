//! Ranges that users add for cluster IPs (ServiceCIDRs): routes and rules lead there before the
//! object says that it is ready, and no longer when the object is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rekindle_net::{BridgeNetwork, IpNet, routed_ipv6_subnets, routed_subnets};
use rekindle_services::{MachineNetworks, RangeVerdict, SourceRange};
use rekindle_types::{IpFamily, IpStack};
use serde_json::json;
use tokio::time::Instant;

use crate::clock::{Clock, sleep_until};
use crate::network::{NetworkError, in_one_line};
use crate::object_watch::{WatchNews, watch_objects};
use crate::service_rules::PodRoutes;

/// What the log calls this reader of the API.
const READER: &str = "ranges of Services";
/// The ServiceCIDR of the engine itself.
const OWN: &str = "kubernetes";
/// Until what failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Follows the ServiceCIDRs of users on one machine.
#[derive(Debug)]
pub struct ServiceRanges {
    bridge: String,
    network: Arc<BridgeNetwork>,
    routes: PodRoutes,
    known: BTreeMap<String, ServiceCIDR>,
    /// The engine's own ranges: their routes stay whatever users add and delete.
    own: BTreeSet<IpNet>,
    /// Where the machine leads because of users.
    led: BTreeSet<IpNet>,
    /// What an earlier engine left.
    leftover: LeftoverRoutes,
}

/// Routes that led to ranges in the time of an earlier engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftoverRoutes {
    /// They may be there.
    Unknown,
    /// Those of ranges that are gone were removed.
    Removed,
}

impl ServiceRanges {
    /// One for the pods on this bridge. The rules change by way of `routes`.
    pub const fn new(bridge: String, network: Arc<BridgeNetwork>, routes: PodRoutes) -> Self {
        let known = BTreeMap::new();
        let own = BTreeSet::new();
        let led = BTreeSet::new();
        Self { bridge, network, routes, known, own, led, leftover: LeftoverRoutes::Unknown }
    }

    /// Follows them until the watch ends.
    pub async fn serve(mut self, client: Client, clock: Clock) {
        let objects = Api::<ServiceCIDR>::all(client);
        let mut news = watch_objects(objects.clone(), READER);
        let mut retry_at: Option<Instant> = None;
        loop {
            tokio::select! {
                news = news.next() => match news {
                    Some(news) => self.note(news),
                    None => return,
                },
                () = sleep_until(retry_at), if retry_at.is_some() => {}
            }
            retry_at = match self.settle(&objects, &clock).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "failed to lead to a range of Services; it is tried again");
                    Some(Instant::now() + RETRY_AFTER)
                }
            };
        }
    }

    fn note(&mut self, news: WatchNews<ServiceCIDR>) {
        let name = |object: &ServiceCIDR| object.metadata.name.clone().unwrap_or_default();
        match news {
            WatchNews::All(all) => {
                self.known = all.into_iter().map(|object| (name(&object), object)).collect();
            }
            WatchNews::Changed(object) => drop(self.known.insert(name(&object), object)),
            WatchNews::Gone(object) => drop(self.known.remove(&name(&object))),
        }
        if let Some(own) = self.known.remove(OWN) {
            let cidrs = own.spec.and_then(|spec| spec.cidrs).unwrap_or_default();
            self.own = cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect();
        }
    }

    /// Routes first, then rules, then what the objects say. A range that is being deleted is led
    /// to until it is gone: Services may still have addresses of it.
    async fn settle(
        &mut self,
        objects: &Api<ServiceCIDR>,
        clock: &Clock,
    ) -> Result<(), NetworkError> {
        if self.known.is_empty() && self.led.is_empty() {
            return self.remove_leftover(&BTreeSet::new()).await;
        }
        let machine = self.machine().await?;
        let judge = |object: &ServiceCIDR| RangeVerdict::new(object, &machine);
        let verdicts: Vec<RangeVerdict> = self.known.values().map(judge).collect();
        let mut wanted: BTreeSet<IpNet> = verdicts.iter().flat_map(usable).collect();
        wanted.retain(|range| !self.own.contains(range));
        self.remove_leftover(&wanted).await?;
        for range in wanted.difference(&self.led) {
            let routed = self.network.route_services(*range).await;
            routed.map_err(|error| in_one_line(&error))?;
        }
        for range in self.led.difference(&wanted) {
            let unrouted = self.network.unroute_services(*range).await;
            unrouted.map_err(|error| in_one_line(&error))?;
        }
        if wanted != self.led {
            self.routes.serve_ranges(wanted.iter().copied().collect()).await;
            self.led = wanted;
        }
        for (object, verdict) in self.known.values().zip(&verdicts) {
            if object.metadata.deletion_timestamp.is_none() {
                report(objects, object, verdict, clock).await?;
            }
        }
        Ok(())
    }

    /// Takes away once what leads to ranges of an earlier engine that are gone: their objects were
    /// deleted while none ran.
    async fn remove_leftover(&mut self, wanted: &BTreeSet<IpNet>) -> Result<(), NetworkError> {
        match self.leftover {
            LeftoverRoutes::Removed => return Ok(()),
            // before the first list nothing is known of what is wanted
            LeftoverRoutes::Unknown if self.own.is_empty() => return Ok(()),
            LeftoverRoutes::Unknown => {}
        }
        let routed = self.network.routed_services().await.map_err(|error| in_one_line(&error))?;
        let is_wanted = |range: &&IpNet| wanted.contains(range) || self.own.contains(range);
        for range in routed.iter().filter(|range| !is_wanted(range)) {
            let unrouted = self.network.unroute_services(*range).await;
            unrouted.map_err(|error| in_one_line(&error))?;
            tracing::info!(%range, "removed the route to a range of Services that is gone");
        }
        self.leftover = LeftoverRoutes::Removed;
        Ok(())
    }

    async fn machine(&self) -> Result<MachineNetworks, NetworkError> {
        let second = self.network.ipv6_subnet();
        let stack = if second.is_some() { IpStack::Dual } else { IpStack::Single };
        let routes = routed_subnets(&self.bridge).await.map_err(|error| in_one_line(&error))?;
        let mut routes: Vec<SourceRange> =
            routes.into_iter().map(|net| range(net.into())).collect();
        if stack.has(IpFamily::V6) {
            let of_ipv6 = routed_ipv6_subnets(&self.bridge).await;
            let of_ipv6 = of_ipv6.map_err(|error| in_one_line(&error))?;
            routes.extend(of_ipv6.into_iter().map(|net| range(net.into())));
        }
        let first = IpNet::V4(self.network.subnet());
        let pods = std::iter::once(first).chain(second.map(IpNet::V6)).map(range).collect();
        let led = self.led.iter().copied().map(range).collect();
        Ok(MachineNetworks { stack, pods, routes, led })
    }
}

/// Says whether addresses may come from a range, unless its object says so already.
async fn report(
    objects: &Api<ServiceCIDR>,
    object: &ServiceCIDR,
    verdict: &RangeVerdict,
    clock: &Clock,
) -> Result<(), NetworkError> {
    let Some(ready) = verdict.condition(object, clock.now()) else { return Ok(()) };
    let known = object.status.as_ref().and_then(|status| status.conditions.as_ref());
    let others = known.into_iter().flatten().filter(|condition| condition.type_ != ready.type_);
    let conditions: Vec<_> = others.chain([&ready]).collect();
    let status = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": { "conditions": conditions },
    });
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match objects.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await {
        Ok(_) => Ok(()),
        // it has changed or gone since: the watch says so
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
        Err(error) => Err(in_one_line(&error)),
    }
}

fn usable(verdict: &RangeVerdict) -> Vec<IpNet> {
    match verdict {
        RangeVerdict::Usable(ranges) => {
            let nets = ranges.iter().map(|range| IpNet::new(range.network, range.prefix));
            nets.filter_map(Result::ok).collect()
        }
        RangeVerdict::Unusable { .. } => Vec::new(),
    }
}

fn range(net: IpNet) -> SourceRange {
    let network: IpAddr = net.network();
    SourceRange { network, prefix: net.prefix_len() }
}
