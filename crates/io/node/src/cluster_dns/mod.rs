//! Publishes names from the API: watches Services, EndpointSlices and pods, and sends updates to
//! the process of cluster DNS (`rekindle_net::dns`), which answers for all nodes of a machine.

mod convert;

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, Resource};
use rekindle_net::dns::{DnsProcessClient, DnsSettings, DnsUpdate, DnsZone};
use rekindle_net::{Ipv4Net, Ipv6Net};
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

/// Settings of a server at the bridge's address for the pods of this subnet. It forwards other
/// questions to the resolvers in `resolv_conf`.
pub fn dns_settings(
    gateway: Ipv4Addr,
    (subnet, ipv6_subnet): (Ipv4Net, Option<Ipv6Net>),
    resolv_conf: PathBuf,
) -> DnsSettings {
    let domain = CLUSTER_DOMAIN.to_owned();
    DnsSettings { zone: DnsZone { domain, subnet, ipv6_subnet, server: gateway }, resolv_conf }
}

/// Sends a snapshot of all names to the process of cluster DNS, then each change. Returns when the
/// process has exited.
///
/// # Errors
/// When an update cannot be sent.
pub async fn publish_names(
    process: &mut DnsProcessClient,
    client: Client,
    names: ServiceNames,
) -> io::Result<()> {
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
        watch(services, service, DnsUpdate::Service, DnsUpdate::Services),
        watch(slices, convert::slice, DnsUpdate::Slice, DnsUpdate::Slices),
        watch(pods, convert::pod, DnsUpdate::Pod, DnsUpdate::Pods),
    ];
    for watch in &mut watches {
        // the first that it shows is the whole list
        let Some(list) = next(process, watch).await else { return Ok(()) };
        process.send(list).await?;
    }
    process.synced().await?;
    let mut updates = futures::stream::select_all(watches);
    while let Some(update) = next(process, &mut updates).await {
        process.send(update).await?;
    }
    Ok(())
}

/// The next update; `None` when the process has exited.
async fn next(
    process: &DnsProcessClient,
    updates: &mut (impl Stream<Item = DnsUpdate> + Unpin),
) -> Option<DnsUpdate> {
    tokio::select! {
        () = process.closed() => None,
        update = updates.next() => update,
    }
}

/// The updates that a watch of one kind gives.
fn watch<K, T>(
    news: BoxStream<'static, WatchNews<K>>,
    convert: fn(&K) -> Option<T>,
    one: fn(NamespacedName, Option<T>) -> DnsUpdate,
    all: fn(Vec<(NamespacedName, T)>) -> DnsUpdate,
) -> BoxStream<'static, DnsUpdate>
where
    K: Resource + Send + 'static,
    T: 'static,
{
    let updates = news.map(move |news| match news {
        WatchNews::All(listed) => {
            let shown = |object: &K| convert(object).map(|shown| (key(object), shown));
            all(listed.iter().filter_map(shown).collect())
        }
        WatchNews::Changed(object) => one(key(&object), convert(&object)),
        WatchNews::Gone(object) => one(key(&object), None),
    });
    updates.boxed()
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
