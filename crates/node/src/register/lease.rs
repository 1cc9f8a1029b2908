//! The node's Lease: renewed every 10 s, it says that the agent lives. Source: Kubernetes, "Nodes", heartbeats.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rekindle_types::Tick;
use serde_json::json;

/// Where node leases live.
const NAMESPACE: &str = "kube-node-lease";
/// How long a lease counts without being renewed, in seconds.
const DURATION_SECONDS: i32 = 40;

/// Renews the lease, and makes it when there is none.
pub(crate) async fn renew(
    client: &Client,
    node: &str,
    node_uid: Option<&str>,
    now: Tick,
) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({ "spec": {
        "holderIdentity": node,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": now.to_micro_time(),
    } });
    match api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => {
            api.create(&PostParams::default(), &lease(node, node_uid, now)).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

fn lease(node: &str, node_uid: Option<&str>, now: Tick) -> Lease {
    let owner = node_uid.map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    });
    Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(now.to_micro_time()),
            ..LeaseSpec::default()
        }),
    }
}
