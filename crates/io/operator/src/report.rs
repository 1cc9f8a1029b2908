//! Reads what a report is made of, once: nothing is written, and no watch is held.

use kube::{Api, Client};
use rekindle_controllers::ClusterView;
use rekindle_reconcile::{ClusterReport, REPORT_KINDS, cluster_report};
use rekindle_types::{ResourceScope, Tick};

use crate::api_resource::api_resource;
use crate::snapshot::read_all;

/// What a report is made of cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("list {kind}")]
pub struct ReportError {
    kind: &'static str,
    #[source]
    source: Box<kube::Error>,
}

/// The report of a cluster; of one namespace, if it is given.
///
/// # Errors
/// When the API does not let the caller list what it is made of.
pub async fn report(
    client: &Client,
    namespace: Option<&str>,
    now: Tick,
) -> Result<ClusterReport, ReportError> {
    let mut view = ClusterView::new();
    view.set_time(now);
    for kind in REPORT_KINDS {
        let info = kind.info();
        let objects = match (info.scope, namespace) {
            (ResourceScope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), namespace, &api_resource(kind))
            }
            (ResourceScope::Namespaced | ResourceScope::Cluster, _) => {
                Api::all_with(client.clone(), &api_resource(kind))
            }
        };
        let failed = |source| ReportError { kind: info.plural, source: Box::new(source) };
        read_all(objects, kind, &mut view).await.map_err(failed)?;
    }
    Ok(cluster_report(&view, namespace))
}
