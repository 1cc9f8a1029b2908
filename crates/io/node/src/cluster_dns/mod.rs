//! Cluster DNS as the API sees it: watches Services, EndpointSlices and pods, and keeps the view of
//! `rekindle_net::dns` up to date. One server answers for all nodes of a machine.

mod convert;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, Resource};
use rekindle_net::dns::{DnsServer, DnsSettings, DnsView, DnsZone, SharedView};
use rekindle_net::{Ipv4Net, Ipv6Net, NetError};
use rekindle_types::NamespacedName;

use self::convert::PodStatus;
use crate::config::CLUSTER_DOMAIN;
use crate::object_watch::{WatchNews, follow_events, watch_objects};

/// What the log calls the reader of the watches.
const READER: &str = "cluster DNS";

/// What the name of a Service with a cluster IP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceNames {
    /// Its cluster IP: rules lead from there to its pods.
    ClusterIps,
    /// The pods themselves: the kernel cannot have such rules.
    Endpoints,
}

/// A server that listens at the bridge of a network.
#[derive(Debug)]
pub struct ClusterDns(DnsServer);

impl ClusterDns {
    /// Begins to listen at the bridge's address, for the pods of this subnet. Other names are asked
    /// of the resolvers in `resolv_conf`. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// When something else on the machine has the port.
    pub async fn open(
        gateway: std::net::Ipv4Addr,
        (subnet, ipv6_subnet): (Ipv4Net, Option<Ipv6Net>),
        resolv_conf: PathBuf,
    ) -> Result<Self, NetError> {
        let domain = CLUSTER_DOMAIN.to_owned();
        let zone = DnsZone { domain, subnet, ipv6_subnet, server: gateway };
        DnsServer::open(DnsSettings { zone, resolv_conf }).await.map(Self)
    }

    /// Where pods reach it.
    pub fn address(&self) -> std::net::Ipv4Addr {
        self.0.address()
    }

    /// Serves, once it knows what there is: nobody is told that a name does not exist because it is
    /// not known yet. Ends when it is dropped.
    pub async fn serve(self, client: Client, names: ServiceNames) {
        let view = SharedView::default();
        let service = match names {
            ServiceNames::ClusterIps => convert::service,
            ServiceNames::Endpoints => convert::service_without_routes,
        };
        let services: Api<Service> = Api::all(client.clone());
        let slices: Api<EndpointSlice> = Api::all(client.clone());
        let pods: Api<PodStatus> = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
        let services = watch_objects(services, READER);
        let slices = watch_objects(slices, READER);
        let pods = follow_events(watcher(pods, Config::default()), READER);
        let mut watches = [
            watch(services, service, DnsView::set_service, DnsView::set_services),
            watch(slices, convert::slice, DnsView::set_slice, DnsView::set_slices),
            watch(pods, convert::pod, DnsView::set_pod, DnsView::set_pods),
        ];
        for watch in &mut watches {
            // the first that it shows is the whole list
            match watch.next().await {
                Some(list) => apply(&view, list),
                None => return,
            }
        }
        let mut changes = futures::stream::select_all(watches);
        let following = async {
            while let Some(change) = changes.next().await {
                apply(&view, change);
            }
        };
        tokio::join!(self.0.serve(Arc::clone(&view)), following);
    }
}

/// A change of the view.
type Change = Box<dyn FnOnce(&mut DnsView) + Send>;

fn apply(view: &SharedView, change: Change) {
    change(&mut view.write().unwrap_or_else(PoisonError::into_inner));
}

/// The changes that a watch of one kind shows.
fn watch<K, T>(
    news: BoxStream<'static, WatchNews<K>>,
    convert: fn(&K) -> Option<T>,
    set: fn(&mut DnsView, NamespacedName, Option<T>),
    set_all: fn(&mut DnsView, BTreeMap<NamespacedName, T>),
) -> BoxStream<'static, Change>
where
    K: Resource + Send + 'static,
    T: Send + 'static,
{
    let changes = news.map(move |news| -> Change {
        match news {
            WatchNews::All(listed) => {
                let shown = |object: &K| convert(object).map(|shown| (key(object), shown));
                let shown = listed.iter().filter_map(shown).collect();
                Box::new(move |view| set_all(view, shown))
            }
            WatchNews::Changed(object) => {
                let (key, shown) = (key(&object), convert(&object));
                Box::new(move |view| set(view, key, shown))
            }
            WatchNews::Gone(object) => {
                let key = key(&object);
                Box::new(move |view| set(view, key, None))
            }
        }
    });
    changes.boxed()
}

fn key<K: Resource>(object: &K) -> NamespacedName {
    NamespacedName::from_meta(object.meta())
}

/// What a pod's resolver is told of cluster DNS, which has the names below `domain`.
pub(crate) fn resolver_config(
    address: Option<std::net::IpAddr>,
    domain: &str,
) -> Option<rekindle_net::files::ClusterDnsConfig> {
    let nameservers = vec![address?.to_string()];
    Some(rekindle_net::files::ClusterDnsConfig { nameservers, domain: domain.to_owned() })
}

#[cfg(test)]
mod tests;
