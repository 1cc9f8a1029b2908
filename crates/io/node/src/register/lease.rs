//! The node's Lease: renewed at each heartbeat, it says that the agent lives. Source: Kubernetes,
//! "Nodes", heartbeats.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

/// Where node leases live.
const NAMESPACE: &str = "kube-node-lease";
/// So many heartbeats long a lease counts without being renewed.
const DURATION_PERIODS: u64 = 4;

/// Whose lease it is.
pub(crate) struct LeaseHolder<'a> {
    pub(crate) node: &'a str,
    pub(crate) uid: Option<&'a str>,
    /// Between two heartbeats.
    pub(crate) period: TickDuration,
}

impl LeaseHolder<'_> {
    /// In whole seconds, as a Lease has it; 40 as a rule.
    fn duration_seconds(&self) -> i32 {
        let seconds = self.period.saturating_mul(DURATION_PERIODS).as_secs().max(1);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }
}

/// Renews the lease, and makes it when there is none.
pub(crate) async fn renew(
    client: &Client,
    holder: &LeaseHolder<'_>,
    now: Tick,
) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({ "spec": {
        "holderIdentity": holder.node,
        "leaseDurationSeconds": holder.duration_seconds(),
        "renewTime": now.to_micro_time(),
    } });
    match api.patch(holder.node, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => {
            api.create(&PostParams::default(), &lease(holder, now)).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

fn lease(holder: &LeaseHolder<'_>, now: Tick) -> Lease {
    let node = holder.node;
    let owner = holder.uid.map(|uid| OwnerReference {
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
            lease_duration_seconds: Some(holder.duration_seconds()),
            renew_time: Some(now.to_micro_time()),
            ..LeaseSpec::default()
        }),
    }
}
