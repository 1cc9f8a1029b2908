//! The Service `kubernetes` of the namespace default: how pods reach this API. It has the first
//! address of the range, leads to the address that the engine listens at for pods, and comes back
//! when it is deleted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{AnyObject, KindEntry, RequestContext};
use rekindle_kinds::service::family_of;
use rekindle_store::{PendingWrite, StoredObject, WritePrecondition};
use rekindle_types::{Tick, labels};

use super::service_write::ServiceWrite;
use crate::call::{ApiCall, ApiWriteFailure, ObjectPart, remove, with_retries};
use crate::resource_quotas::{QuotaWrite, put_own};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::{keys, object_meta};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const PORT_NAME: &str = "https";
/// Its objects, by group and plural name.
const KINDS: [(&str, &str); 3] =
    [("", "services"), ("", "endpoints"), ("discovery.k8s.io", "endpointslices")];

/// Whether this is the Service of the API.
pub(super) fn is_api_service(meta: &ObjectMeta) -> bool {
    meta.namespace.as_deref() == Some(NAMESPACE) && meta.name.as_deref() == Some(NAME)
}

/// Makes the Service lead to this address, where pods reach the API, from now on.
///
/// # Errors
/// When the store refuses.
pub(crate) fn publish(
    api: &ApiShared,
    endpoint: SocketAddr,
    now: Tick,
) -> Result<Vec<PendingWrite>, ApiError> {
    let endpoint = *api.service_addresses.endpoint.get_or_init(|| endpoint);
    let mut pending = Vec::new();
    for (group, plural) in KINDS {
        let Some(entry) = api.registry.find(group, "v1", plural) else { continue };
        let mut wanted = wanted(plural, endpoint, &api.service_addresses);
        wanted.set_defaults();
        pending.extend(bring_about(api, entry, wanted.as_ref(), now)?);
    }
    Ok(pending)
}

/// Puts back what was removed of it.
///
/// # Errors
/// When the store refuses.
pub(crate) fn restore(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let is_of_it = KINDS.contains(&call.entry.group_and_plural());
    match call.api.service_addresses.endpoint.get() {
        Some(endpoint) if is_of_it && (namespace, name) == (NAMESPACE, NAME) => {
            publish(call.api, *endpoint, call.request.now)
        }
        Some(_) | None => Ok(Vec::new()),
    }
}

fn wanted(
    plural: &str,
    endpoint: SocketAddr,
    addresses: &super::ServiceAddresses,
) -> Box<dyn AnyObject> {
    match plural {
        "services" => Box::new(service(endpoint, addresses)),
        "endpoints" => Box::new(endpoints(endpoint)),
        _ => Box::new(slice(endpoint)),
    }
}

/// Makes an object, or gives the one that is there the content that it must have.
fn bring_about(
    api: &ApiShared,
    entry: &KindEntry,
    wanted: &dyn AnyObject,
    now: Tick,
) -> Result<Vec<PendingWrite>, ApiError> {
    let mut pending = Vec::new();
    with_retries(entry, NAME, || {
        write_wanted(api, entry, wanted.boxed_clone(), now, &mut pending)
    })?;
    Ok(pending)
}

fn write_wanted(
    api: &ApiShared,
    entry: &KindEntry,
    mut wanted: Box<dyn AnyObject>,
    now: Tick,
    pending: &mut Vec<PendingWrite>,
) -> Result<(), ApiWriteFailure> {
    let key = keys::object(entry, NAMESPACE, NAME);
    let identity = ClientIdentity::server();
    let context = RequestContext { now, identity: &identity };
    let mut found = api.store.newest(&key);
    if let Some(stored) = found.take_if(|stored| has_other_address(api, entry, stored, &*wanted)) {
        // its address cannot change
        pending.extend(remove(api, entry, &stored, now)?);
    }
    let (expect, old) = match &found {
        None => {
            object_meta::prepare_new(wanted.meta_mut(), api.new_uid(), now);
            wanted.prepare_for_create(&context);
            (WritePrecondition::Absent, None)
        }
        Some(stored) => {
            let old = api.read(entry, stored)?;
            let labels = wanted.meta_mut().labels.take();
            *wanted.meta_mut() = old.meta().clone();
            wanted.meta_mut().labels.get_or_insert_default().extend(labels.into_iter().flatten());
            wanted.prepare_update(ObjectPart::Main, old.as_ref(), &context);
            (WritePrecondition::Revision(stored.revision), Some(old))
        }
    };
    let old = old.as_deref();
    if !wanted.as_any().is::<Service>() {
        if old.is_none_or(|old| !wanted.same_as(old)) {
            let write = (key.as_str(), expect, wanted.as_ref());
            pending.extend(put_own(api, entry, write, old, now)?);
        }
        return Ok(());
    }
    let mut write = ServiceWrite::of_api(api, entry)?;
    write.complete(&|| api.random_number(), wanted.as_mut(), old)?;
    if old.is_none_or(|old| !wanted.same_as(old)) {
        let quotas = QuotaWrite::of_own(api, entry, (old, Some(wanted.as_ref())), now);
        pending.extend(write.queue(&key, expect, wanted, (now, quotas))?);
    }
    Ok(())
}

/// Whether the Service that is there is one of another range, or of an older version's user.
fn has_other_address(
    api: &ApiShared,
    entry: &KindEntry,
    stored: &StoredObject,
    wanted: &dyn AnyObject,
) -> bool {
    let Some(wanted) = wanted.as_any().downcast_ref::<Service>() else { return false };
    let address =
        |service: &Service| service.spec.as_ref().and_then(|spec| spec.cluster_ip.clone());
    let found = api.read_as::<Service>(entry, stored).ok().flatten();
    found.is_none_or(|found| address(&found) != address(wanted))
}

fn metadata(labels: &[(&str, &str)]) -> ObjectMeta {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some(labels.collect::<BTreeMap<_, _>>()),
        ..ObjectMeta::default()
    }
}

fn service(endpoint: SocketAddr, addresses: &super::ServiceAddresses) -> Service {
    let shown_at = addresses.ranges().primary().api_service();
    let port = ServicePort {
        name: Some(PORT_NAME.to_owned()),
        port: shown_at.port().into(),
        target_port: Some(IntOrString::Int(endpoint.port().into())),
        ..ServicePort::default()
    };
    Service {
        metadata: metadata(&[("component", "apiserver"), ("provider", "kubernetes")]),
        spec: Some(ServiceSpec {
            cluster_ip: Some(shown_at.ip().to_string()),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn endpoints(endpoint: SocketAddr) -> Endpoints {
    let address = EndpointAddress { ip: endpoint.ip().to_string(), ..EndpointAddress::default() };
    let port = EndpointPort {
        name: Some(PORT_NAME.to_owned()),
        port: endpoint.port().into(),
        ..EndpointPort::default()
    };
    Endpoints {
        metadata: metadata(&[("endpointslice.kubernetes.io/skip-mirror", "true")]),
        subsets: Some(vec![EndpointSubset {
            addresses: Some(vec![address]),
            not_ready_addresses: None,
            ports: Some(vec![port]),
        }]),
    }
}

fn slice(endpoint: SocketAddr) -> EndpointSlice {
    let conditions = EndpointConditions { ready: Some(true), ..EndpointConditions::default() };
    let port = SlicePort {
        name: Some(PORT_NAME.to_owned()),
        port: Some(endpoint.port().into()),
        ..SlicePort::default()
    };
    EndpointSlice {
        metadata: metadata(&[(labels::SERVICE_NAME, NAME)]),
        address_type: family_of(endpoint.ip()).to_owned(),
        endpoints: Some(vec![Endpoint {
            addresses: vec![endpoint.ip().to_string()],
            conditions: Some(conditions),
            ..Endpoint::default()
        }]),
        ports: Some(vec![port]),
    }
}
