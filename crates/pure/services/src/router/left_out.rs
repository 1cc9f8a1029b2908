//! Elements that the kernel has refused: the rules do without them, so that all others are written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::ServiceRouter;
use super::served_frontend::ServedFrontend;
use crate::frontend::Frontend;
use crate::rules::{RuleChanges, RuleElement};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOutElements {
    /// Frontends, with what the kernel refused. Something else is tried again.
    frontends: BTreeMap<Frontend, ServedFrontend>,
    /// Addresses that cannot be reached from themselves.
    hairpins: BTreeSet<IpAddr>,
}

impl LeftOutElements {
    /// What the rules get of a frontend that is to be so.
    pub(super) fn pass(&mut self, frontend: Frontend, wanted: ServedFrontend) -> ServedFrontend {
        match self.frontends.get(&frontend) {
            None => wanted,
            Some(refused) if *refused == wanted => ServedFrontend::default(),
            Some(_) => {
                self.frontends.remove(&frontend);
                wanted
            }
        }
    }

    pub(super) fn has_hairpin(&self, address: IpAddr) -> bool {
        self.hairpins.contains(&address)
    }

    pub(super) fn forget_hairpin(&mut self, address: IpAddr) {
        self.hairpins.remove(&address);
    }
}

impl ServiceRouter {
    /// The kernel refuses this element. The rules do without its frontend, as a part of one could
    /// lead connections astray, until the frontend is to lead elsewhere. `None`: they have no such
    /// element.
    pub fn leave_out(&mut self, element: &RuleElement) -> Option<RuleChanges> {
        if !self.elements_of(element).contains(element) {
            return None;
        }
        if let RuleElement::Hairpin(address) = element {
            self.left_out.hairpins.insert(*address);
            return Some(RuleChanges { removed: vec![*element], added: Vec::new() });
        }
        let frontend = element.frontend()?;
        let refused = self.served.get(&frontend)?.clone();
        self.left_out.frontends.insert(frontend, refused);
        Some(self.update([frontend].into()))
    }

    /// The elements among which this one would be.
    fn elements_of(&self, element: &RuleElement) -> Vec<RuleElement> {
        match element.frontend() {
            Some(frontend) => {
                let served = self.served.get(&frontend);
                served.iter().flat_map(|served| served.elements(frontend)).collect()
            }
            None => {
                let addresses = self.leading_to.keys().filter(|it| self.has_hairpin(**it));
                addresses.map(|address| RuleElement::Hairpin(*address)).collect()
            }
        }
    }

    /// The field of a Service that an element comes from; the frontend of a host port comes from
    /// none.
    pub fn field_of(&self, element: &RuleElement) -> Option<&'static str> {
        let frontend = element.frontend()?;
        if self.host_ports.contains_key(&frontend) {
            return None;
        }
        let (_, service) = self.owner(frontend)?;
        match element {
            RuleElement::Source(..) | RuleElement::Guarded(_) => {
                Some("spec.loadBalancerSourceRanges")
            }
            RuleElement::Member(..) => Some("spec.sessionAffinity"),
            RuleElement::Pick(..)
            | RuleElement::Endpoint(..)
            | RuleElement::Refused(..)
            | RuleElement::Held(_)
            | RuleElement::HostPort(_) => {
                let routed = service.frontends.iter().find(|it| it.frontend == frontend);
                routed.map(|routed| routed.field)
            }
            RuleElement::Hairpin(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{key, plain, pod, ready, router, shown, slice};
    use super::*;

    #[test]
    fn a_frontend_that_the_kernel_refuses_is_left_out_until_it_is_to_lead_elsewhere() {
        let mut router = router(&plain(), &slice(serde_json::json!([ready(2), ready(3)])));
        let all = router.elements();
        let endpoint = *all.iter().find(|it| matches!(it, RuleElement::Endpoint(..))).unwrap();
        assert_eq!(router.field_of(&endpoint), Some("spec.clusterIPs"));
        let changes = router.leave_out(&endpoint).unwrap();
        assert_eq!(changes.removed.len(), all.len(), "{changes:?}");
        assert!(router.elements().is_empty());
        assert_eq!(router.leave_out(&endpoint), None, "it is left out already");
        // the same again changes nothing
        let same = router.set_slice(key("web-b"), None);
        assert!(same.is_empty() && router.elements().is_empty());
        // elsewhere: it is tried again
        let changes = router.gone(&pod(3));
        let expected = [
            "10.96.0.10:80/TCP one of 1",
            "10.96.0.10:80/TCP 0 10.88.0.2:8080",
            "hairpin 10.88.0.2",
        ];
        assert_eq!(shown(changes.added), expected);
    }

    #[test]
    fn a_hairpin_that_the_kernel_refuses_leaves_its_frontends_as_they_are() {
        let mut router = router(&plain(), &slice(serde_json::json!([ready(2)])));
        let hairpin = RuleElement::Hairpin([10, 88, 0, 2].into());
        let changes = router.leave_out(&hairpin).unwrap();
        assert_eq!(changes.removed, [hairpin]);
        assert_eq!(router.elements().len(), 2);
        assert_eq!(router.leave_out(&hairpin), None);
        // gone and back: it is tried again
        router.set_slice(key("web-a"), Some(&slice(serde_json::json!([]))));
        router.set_slice(key("web-a"), Some(&slice(serde_json::json!([ready(2)]))));
        assert!(router.elements().contains(&hairpin));
    }
}
