//! Ranges that users add for cluster IPs (ServiceCIDRs): whether the machine can lead there.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::{IpFamily, IpStack, Tick};

use crate::source_range::SourceRange;

/// The condition of a ServiceCIDR that says whether addresses come from it.
const READY: &str = "Ready";
/// The message of upstream's controller.
const READY_MESSAGE: &str = "Kubernetes Service CIDR is ready";

/// What the machine uses already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineNetworks {
    /// The families of pods.
    pub stack: IpStack,
    /// Where the pods' addresses come from.
    pub pods: Vec<SourceRange>,
    /// Where routes of the machine lead, those to its pods and Services left out.
    pub routes: Vec<SourceRange>,
    /// The further ranges that it leads to already. A route that comes later takes none away:
    /// Services have addresses there.
    pub led: Vec<SourceRange>,
}

/// Whether the machine can lead to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeVerdict {
    /// It can, to all of these.
    Usable(Vec<SourceRange>),
    /// It cannot.
    Unusable {
        /// In CamelCase, for the condition.
        reason: &'static str,
        /// What is in the way, and what to do.
        message: String,
    },
}

impl RangeVerdict {
    /// That of a ServiceCIDR on this machine.
    pub fn new(cidr: &ServiceCIDR, machine: &MachineNetworks) -> Self {
        let texts = cidr.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default();
        // validation lets only ranges in
        let ranges: Vec<SourceRange> =
            texts.iter().filter_map(|text| SourceRange::parse(text)).collect();
        let refusal = ranges.iter().find_map(|range| refusal(*range, machine));
        refusal.unwrap_or(Self::Usable(ranges))
    }

    /// The condition that says so; none if the object has it already. `Ready` is upstream's for
    /// what addresses may come from.
    pub fn condition(&self, cidr: &ServiceCIDR, now: Tick) -> Option<Condition> {
        let (status, reason, message) = match self {
            Self::Usable(_) => ("True", "", READY_MESSAGE),
            Self::Unusable { reason, message } => ("False", *reason, message.as_str()),
        };
        let conditions = cidr.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut known = conditions.into_iter().flatten().filter(|it| it.type_ == READY);
        if known.any(|it| (&*it.status, &*it.reason, &*it.message) == (status, reason, message)) {
            return None;
        }
        Some(Condition {
            type_: READY.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: now.to_time(),
            observed_generation: None,
        })
    }
}

fn refusal(range: SourceRange, machine: &MachineNetworks) -> Option<RangeVerdict> {
    let family = IpFamily::from_address(range.network);
    if !machine.stack.has(family) {
        let message = format!(
            "{range} is of {}, and pods have no such addresses: start the engine with --dual-stack",
            family.name()
        );
        return Some(RangeVerdict::Unusable { reason: "FamilyNotServed", message });
    }
    let meets = |other: &&SourceRange| other.overlaps(&range);
    if let Some(pods) = machine.pods.iter().find(meets) {
        let message =
            format!("{range} overlaps with the pods' subnet {pods}: give a range beside it");
        return Some(RangeVerdict::Unusable { reason: "PodOverlap", message });
    }
    if machine.led.contains(&range) {
        return None;
    }
    let route = machine.routes.iter().find(meets)?;
    let message = format!(
        "{range} overlaps with the route {route} of this machine: give a range that no route uses"
    );
    Some(RangeVerdict::Unusable { reason: "RouteOverlap", message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cidr(ranges: &[&str]) -> ServiceCIDR {
        let object = json!({ "metadata": { "name": "more" }, "spec": { "cidrs": ranges } });
        serde_json::from_value(object).unwrap()
    }

    fn machine(stack: IpStack) -> MachineNetworks {
        let nets = |list: &[&str]| list.iter().map(|it| SourceRange::parse(it).unwrap()).collect();
        let pods = nets(&["10.88.0.0/16", "fd52::a58:0/112"]);
        let (routes, led) = (nets(&["192.168.7.0/24", "2001:db8::/32"]), Vec::new());
        MachineNetworks { stack, pods, routes, led }
    }

    #[test]
    fn a_range_is_usable_where_nothing_of_the_machine_is() {
        let cases = [
            (&["10.112.0.0/24"][..], IpStack::Single, "usable"),
            (&["10.112.0.0/24", "fd00:7::/112"], IpStack::Dual, "usable"),
            (
                &["10.112.0.0/24", "fd00:7::/112"],
                IpStack::Single,
                "FamilyNotServed: fd00:7::/112 is of IPv6, and pods have no such addresses: start the engine with --dual-stack",
            ),
            (
                &["10.88.7.0/24"],
                IpStack::Single,
                "PodOverlap: 10.88.7.0/24 overlaps with the pods' subnet 10.88.0.0/16: give a range beside it",
            ),
            (
                &["192.168.0.0/16"],
                IpStack::Single,
                "RouteOverlap: 192.168.0.0/16 overlaps with the route 192.168.7.0/24 of this machine: give a range that no route uses",
            ),
            (
                &["10.112.0.0/24", "2001:db8:1::/112"],
                IpStack::Dual,
                "RouteOverlap: 2001:db8:1::/112 overlaps with the route 2001:db8::/32 of this machine: give a range that no route uses",
            ),
        ];
        for (ranges, stack, expected) in cases {
            let said = match RangeVerdict::new(&cidr(ranges), &machine(stack)) {
                RangeVerdict::Usable(found) => {
                    assert_eq!(found.len(), ranges.len());
                    "usable".to_owned()
                }
                RangeVerdict::Unusable { reason, message } => format!("{reason}: {message}"),
            };
            assert_eq!(said, expected, "{ranges:?}");
        }
    }

    #[test]
    fn a_route_that_comes_later_takes_no_range_away() {
        let (object, mut machine) = (cidr(&["192.168.7.0/25"]), machine(IpStack::Single));
        let is_usable = |machine: &MachineNetworks| {
            matches!(RangeVerdict::new(&object, machine), RangeVerdict::Usable(_))
        };
        assert!(!is_usable(&machine));
        machine.led = vec![SourceRange::parse("192.168.7.0/25").unwrap()];
        assert!(is_usable(&machine));
    }

    #[test]
    fn a_condition_is_written_once() {
        let mut object = cidr(&["10.88.7.0/24"]);
        for stack in [IpStack::Single, IpStack::Dual] {
            let verdict = RangeVerdict::new(&object, &machine(stack));
            let written = verdict.condition(&object, Tick::ZERO);
            assert_eq!(written.is_some(), stack == IpStack::Single);
            if let Some(condition) = written {
                assert_eq!((&*condition.status, &*condition.reason), ("False", "PodOverlap"));
                object.status.get_or_insert_default().conditions = Some(vec![condition]);
            }
        }
        let usable = RangeVerdict::Usable(Vec::new());
        assert_eq!(usable.condition(&object, Tick::ZERO).unwrap().status, "True");
    }
}
