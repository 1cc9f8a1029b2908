//! What a register keeps, made anew by a walk over all ledgers and requests: the definition that it
//! is held to, and the measure that it is compared with.

use rekindle_ladder::{BudgetApplicant, LimitUsage, Occupancy, decided_lately};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};

fn is_in(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    namespace: &str,
) -> bool {
    metadata.namespace.as_deref() == Some(namespace)
}

fn new_pod(restart: &PodRestart) -> Option<&str> {
    restart.status.as_ref()?.replacement.as_ref()?.new_pod_uid.as_deref()
}

/// [`rekindle_ladder::LedgerRegister::crowd`].
pub fn crowd(
    now: Tick,
    asker: &BudgetApplicant<'_>,
    ledgers: &[RestartLedger],
    restarts: &[PodRestart],
) -> LimitUsage {
    let mut crowd = LimitUsage::default();
    for ledger in ledgers {
        let Some(status) = ledger.status.as_ref() else { continue };
        if ledger.spec.pod_uid == asker.pod_uid {
            continue;
        }
        let decided = decided_lately(now, status);
        if is_in(&ledger.metadata, asker.namespace) {
            crowd.namespace.extend(&decided);
            let mut owners = ledger.metadata.owner_references.iter().flatten();
            if owners.any(|owner| Some(owner.uid.as_str()) == asker.controller) {
                crowd.workload.extend(under_way(now, ledger, restarts));
            }
        }
        crowd.cluster.extend(decided);
    }
    for restart in restarts {
        let went_on = Occupancy::new(now, std::iter::once(restart), std::iter::empty()).decided;
        if is_in(&restart.metadata, asker.namespace) {
            crowd.namespace.extend(&went_on);
        }
        crowd.cluster.extend(went_on);
    }
    crowd.namespace.sort_unstable();
    crowd.cluster.sort_unstable();
    crowd.workload.sort_unstable();
    crowd
}

fn under_way(now: Tick, ledger: &RestartLedger, restarts: &[PodRestart]) -> Option<Tick> {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let own = restarts.iter().filter(|restart| {
        is_in(&restart.metadata, namespace)
            && (restart.spec.pod_name == ledger.spec.pod_name
                || new_pod(restart) == Some(&ledger.spec.pod_uid))
    });
    Occupancy::new(now, own, std::iter::once(ledger)).under_way.last().copied()
}

/// [`rekindle_ladder::LedgerRegister::occupancy`].
pub fn occupancy(
    now: Tick,
    asker: &BudgetApplicant<'_>,
    ledgers: &[RestartLedger],
    restarts: &[PodRestart],
) -> Occupancy {
    let others: Vec<&RestartLedger> = ledgers
        .iter()
        .filter(|ledger| is_in(&ledger.metadata, asker.namespace))
        .filter(|l| l.spec.ladder_name == asker.ladder && l.spec.pod_name != asker.pod_name)
        .collect();
    let of_others = |restart: &&PodRestart| {
        let is_own =
            restart.spec.pod_name == asker.pod_name || new_pod(restart) == Some(asker.pod_uid);
        let is_of_ladder = restart.spec.ladder_name.as_deref() == Some(asker.ladder);
        is_in(&restart.metadata, asker.namespace)
            && !is_own
            && (is_of_ladder
                || others.iter().any(|ledger| ledger.spec.pod_name == restart.spec.pod_name))
    };
    Occupancy::new(now, restarts.iter().filter(of_others), others.iter().copied())
}
