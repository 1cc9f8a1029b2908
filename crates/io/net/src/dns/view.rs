//! What cluster DNS knows of the API's objects: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rekindle_types::NamespacedName;
use serde::{Deserialize, Serialize};

/// What a Service is to DNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DnsService {
    /// It leads to its endpoints (`clusterIP: None`).
    Endpoints,
    /// It has addresses of its own, at which it has these ports.
    Addresses(Vec<IpAddr>, Vec<DnsPort>),
    /// It is another name's (`spec.externalName`).
    External(String),
}

/// The ready endpoints of an EndpointSlice, with the ports that all of them have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsSlice {
    /// The name of its Service, in the slice's namespace.
    pub service: String,
    /// Those that are ready, or published although they are not.
    pub endpoints: Vec<DnsEndpoint>,
    /// Their ports.
    pub ports: Vec<DnsPort>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsEndpoint {
    /// Where it is.
    pub address: IpAddr,
    /// Its own name in its Service, in small letters.
    pub hostname: Option<String>,
}

impl DnsEndpoint {
    /// Its label below its Service's name: the host name, or the address with dashes in it.
    pub(super) fn label(&self) -> String {
        match &self.hostname {
            Some(hostname) => hostname.clone(),
            None => dashed(self.address),
        }
    }
}

/// A port of endpoints, or of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsPort {
    /// As in the Service; may be empty.
    pub name: String,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The pods' port; of a Service with addresses its own.
    pub number: u16,
}

/// A pod that has an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsPod {
    /// All of them, one of each IP family at most.
    pub addresses: Vec<IpAddr>,
}

/// One thing that has become known of the API's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DnsUpdate {
    /// A Service is as given, or gone.
    Service(NamespacedName, Option<DnsService>),
    /// An EndpointSlice is as given, or gone.
    Slice(NamespacedName, Option<DnsSlice>),
    /// A pod has an address, or none any more.
    Pod(NamespacedName, Option<DnsPod>),
    /// The Services are these, and no others.
    Services(Vec<(NamespacedName, DnsService)>),
    /// The slices are these, and no others.
    Slices(Vec<(NamespacedName, DnsSlice)>),
    /// The pods with an address are these, and no others.
    Pods(Vec<(NamespacedName, DnsPod)>),
}

/// An address as a label.
pub(super) fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// All that names are answered from.
#[derive(Debug, Default)]
pub struct DnsView {
    services: BTreeMap<NamespacedName, DnsService>,
    slices: BTreeMap<NamespacedName, DnsSlice>,
    pods: BTreeMap<NamespacedName, DnsPod>,
    /// Names of slices, by their Service.
    of_service: BTreeMap<NamespacedName, BTreeSet<String>>,
    services_at: BTreeMap<IpAddr, BTreeSet<NamespacedName>>,
    slices_at: BTreeMap<IpAddr, BTreeSet<NamespacedName>>,
    pods_at: BTreeMap<IpAddr, BTreeSet<NamespacedName>>,
    /// Counts the changes: the serial number of the zone.
    serial: u32,
}

impl DnsView {
    /// A Service is as given, or gone.
    pub fn set_service(&mut self, key: NamespacedName, service: Option<DnsService>) {
        if self.services.get(&key) == service.as_ref() {
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        if let Some(DnsService::Addresses(before, _)) = self.services.remove(&key) {
            for address in &before {
                remove_from(&mut self.services_at, address, &key);
            }
        }
        let Some(service) = service else { return };
        if let DnsService::Addresses(addresses, _) = &service {
            for address in addresses {
                self.services_at.entry(*address).or_default().insert(key.clone());
            }
        }
        self.services.insert(key, service);
    }

    /// An EndpointSlice is as given, or gone.
    pub fn set_slice(&mut self, key: NamespacedName, slice: Option<DnsSlice>) {
        if self.slices.get(&key) == slice.as_ref() {
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        if let Some(before) = self.slices.remove(&key) {
            let service = NamespacedName::new(key.namespace.as_str(), before.service);
            remove_from(&mut self.of_service, &service, &key.name);
            for endpoint in &before.endpoints {
                remove_from(&mut self.slices_at, &endpoint.address, &key);
            }
        }
        let Some(slice) = slice else { return };
        let service = NamespacedName::new(key.namespace.as_str(), slice.service.as_str());
        self.of_service.entry(service).or_default().insert(key.name.clone());
        for endpoint in &slice.endpoints {
            self.slices_at.entry(endpoint.address).or_default().insert(key.clone());
        }
        self.slices.insert(key, slice);
    }

    /// A pod has an address, or none any more.
    pub fn set_pod(&mut self, key: NamespacedName, pod: Option<DnsPod>) {
        if self.pods.get(&key) == pod.as_ref() {
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        if let Some(before) = self.pods.remove(&key) {
            for address in &before.addresses {
                remove_from(&mut self.pods_at, address, &key);
            }
        }
        if let Some(pod) = pod {
            for address in &pod.addresses {
                self.pods_at.entry(*address).or_default().insert(key.clone());
            }
            self.pods.insert(key, pod);
        }
    }

    /// Notes what has become known.
    pub fn apply(&mut self, update: DnsUpdate) {
        match update {
            DnsUpdate::Service(key, service) => self.set_service(key, service),
            DnsUpdate::Slice(key, slice) => self.set_slice(key, slice),
            DnsUpdate::Pod(key, pod) => self.set_pod(key, pod),
            DnsUpdate::Services(listed) => {
                for (key, service) in changes(&self.services, listed) {
                    self.set_service(key, service);
                }
            }
            DnsUpdate::Slices(listed) => {
                for (key, slice) in changes(&self.slices, listed) {
                    self.set_slice(key, slice);
                }
            }
            DnsUpdate::Pods(listed) => {
                for (key, pod) in changes(&self.pods, listed) {
                    self.set_pod(key, pod);
                }
            }
        }
    }

    pub(super) fn serial(&self) -> u32 {
        self.serial
    }

    pub(super) fn service(&self, key: &NamespacedName) -> Option<&DnsService> {
        self.services.get(key)
    }

    /// Services with this address.
    pub(super) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        self.services_at.get(&address).into_iter().flatten()
    }

    /// The slices of a Service.
    pub(super) fn slices_of<'a>(
        &'a self,
        service: &'a NamespacedName,
    ) -> impl Iterator<Item = &'a DnsSlice> {
        let names = self.of_service.get(service).into_iter().flatten();
        names.filter_map(|name| {
            self.slices.get(&NamespacedName::new(service.namespace.as_str(), name.as_str()))
        })
    }

    /// Endpoints at this address, each with its Service.
    pub(super) fn endpoints_at(
        &self,
        address: IpAddr,
    ) -> impl Iterator<Item = (NamespacedName, &DnsEndpoint)> {
        let slices = self.slices_at.get(&address).into_iter().flatten();
        slices.flat_map(move |key| {
            let slice = self.slices.get(key);
            slice.into_iter().flat_map(move |slice| {
                let here = slice.endpoints.iter().filter(move |e| e.address == address);
                here.map(|e| {
                    (NamespacedName::new(key.namespace.as_str(), slice.service.as_str()), e)
                })
            })
        })
    }

    /// Pods with this address.
    pub(super) fn pods_at(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        self.pods_at.get(&address).into_iter().flatten()
    }

    /// True when a Service or a pod is in the namespace: only then there are names below it.
    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        let first = NamespacedName::new(namespace, "");
        let here = |key: Option<&NamespacedName>| key.is_some_and(|key| key.namespace == namespace);
        here(self.services.range(&first..).next().map(|(key, _)| key))
            || here(self.pods.range(&first..).next().map(|(key, _)| key))
    }
}

/// What a list says: that what is known and not in it is gone, and how everything in it is.
fn changes<T>(
    known: &BTreeMap<NamespacedName, T>,
    listed: Vec<(NamespacedName, T)>,
) -> Vec<(NamespacedName, Option<T>)> {
    let keys: BTreeSet<_> = listed.iter().map(|(key, _)| key).collect();
    let gone = known.keys().filter(|key| !keys.contains(key));
    let gone: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
    gone.into_iter().chain(listed.into_iter().map(|(key, value)| (key, Some(value)))).collect()
}

fn remove_from<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = map.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}
