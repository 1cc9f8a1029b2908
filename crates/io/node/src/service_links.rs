//! The variables by which containers find the Services in their namespace (`enableServiceLinks`).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client, Resource};
use rekindle_types::NamespacedName;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::env::{Variables, service_variables};
use crate::object_watch::{WatchNews, watch_objects};
use crate::static_pods::is_static;

/// A container's start waits no longer for the first list of Services.
const FIRST_LIST_MAX: Duration = Duration::from_secs(5);
/// The Service of the API: every container gets its variables, with the address that the node has
/// for it.
const API: (&str, &str) = ("default", "kubernetes");

/// The variables of each Service, by its name.
type KnownServices = BTreeMap<NamespacedName, Variables>;

/// Follows the Services for as long as it is there.
#[derive(Debug)]
pub(crate) struct ServiceLinks {
    /// `None` until they are listed for the first time.
    known: watch::Receiver<Option<KnownServices>>,
    task: JoinHandle<()>,
}

/// The API has not listed the Services yet. The text is the kubelet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("services have not yet been read at least once, cannot construct envs")]
pub(crate) struct ServicesUnknown;

impl ServiceLinks {
    /// Begins to follow them. Must run inside a tokio runtime.
    pub(crate) fn follow(client: Client) -> Self {
        let (sender, known) = watch::channel(None);
        let mut services = watch_objects(Api::<Service>::all(client), "variables of Services");
        let task = tokio::spawn(async move {
            while let Some(news) = services.next().await {
                sender.send_modify(|known| update(known, news));
            }
        });
        Self { known, task }
    }

    /// Those for the containers of this pod.
    ///
    /// # Errors
    /// When the Services are not known yet. A static pod starts without: it may be the API.
    pub(crate) async fn variables(&self, pod: &Pod) -> Result<Variables, ServicesUnknown> {
        if pod.spec.as_ref().is_some_and(|spec| spec.enable_service_links == Some(false)) {
            return Ok(Variables::new());
        }
        let mut known = self.known.clone();
        if !is_static(pod) {
            let listed = tokio::time::timeout(FIRST_LIST_MAX, known.wait_for(Option::is_some));
            listed.await.map_err(|_late| ServicesUnknown)?.map_err(|_ended| ServicesUnknown)?;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let known = known.borrow();
        let first = NamespacedName { namespace: namespace.to_owned(), name: String::new() };
        let from_first = known.iter().flat_map(|known| known.range(&first..));
        let of_namespace = from_first.take_while(|(key, _)| key.namespace == namespace);
        Ok(of_namespace.flat_map(|(_, variables)| variables.clone()).collect())
    }
}

impl Drop for ServiceLinks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn update(known: &mut Option<KnownServices>, news: WatchNews<Service>) {
    match news {
        WatchNews::All(services) => *known = Some(services.iter().filter_map(entry).collect()),
        WatchNews::Changed(service) => {
            let known = known.get_or_insert_default();
            known.remove(&key(&service));
            known.extend(entry(&service));
        }
        WatchNews::Gone(service) => drop(known.get_or_insert_default().remove(&key(&service))),
    }
}

/// A Service with its variables, if it has any.
fn entry(service: &Service) -> Option<(NamespacedName, Variables)> {
    let (key, variables) = (key(service), service_variables(service));
    let is_api = (key.namespace.as_str(), key.name.as_str()) == API;
    (!is_api && !variables.is_empty()).then_some((key, variables))
}

fn key(service: &Service) -> NamespacedName {
    NamespacedName::from_meta(service.meta())
}
