//! Cluster DNS as the API sees it: watches Services, EndpointSlices and pods, and tells the process
//! that serves names (`rekindle_net::dns`) what they are. One answers for all nodes of a machine.

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
use rekindle_net::dns::{DnsLine, DnsSettings, DnsUpdate, DnsZone};
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

/// What a server of names at the bridge of a network is to serve: those of the pods of this subnet.
/// Other names are asked of the resolvers in `resolv_conf`.
pub fn dns_settings(
    gateway: Ipv4Addr,
    (subnet, ipv6_subnet): (Ipv4Net, Option<Ipv6Net>),
    resolv_conf: PathBuf,
) -> DnsSettings {
    let domain = CLUSTER_DOMAIN.to_owned();
    DnsSettings { zone: DnsZone { domain, subnet, ipv6_subnet, server: gateway }, resolv_conf }
}

/// Says to the process that serves names what the API says of them, all of it first: it answers
/// nothing that it may not know yet. Ends when the process has ended.
pub async fn feed_names(line: &mut DnsLine, client: Client, names: ServiceNames) -> io::Result<()> {
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
        let Some(list) = next(line, watch).await else { return Ok(()) };
        line.send(list).await?;
    }
    line.listed().await?;
    let mut updates = futures::stream::select_all(watches);
    while let Some(update) = next(line, &mut updates).await {
        line.send(update).await?;
    }
    Ok(())
}

/// The next update; `None` when the process has ended.
async fn next(
    line: &DnsLine,
    updates: &mut (impl Stream<Item = DnsUpdate> + Unpin),
) -> Option<DnsUpdate> {
    tokio::select! {
        () = line.closed() => None,
        update = updates.next() => update,
    }
}

/// What a watch of one kind shows.
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
