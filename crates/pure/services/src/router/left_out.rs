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
    /// Frontends, with the element that the kernel refused. They are tried again without it.
    frontends: BTreeMap<Frontend, RuleElement>,
    /// Addresses that cannot be reached from themselves.
    hairpins: BTreeSet<IpAddr>,
}

impl LeftOutElements {
    /// What the rules get of a frontend that is to be so.
    pub(super) fn pass(&mut self, frontend: Frontend, wanted: ServedFrontend) -> ServedFrontend {
        match self.frontends.get(&frontend) {
            None => wanted,
            Some(refused) if wanted.elements(frontend).any(|it| is_same(&it, refused)) => {
                ServedFrontend::default()
            }
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

/// An endpoint that only gets another number is the same to the kernel's refusal.
fn is_same(one: &RuleElement, other: &RuleElement) -> bool {
    match (one, other) {
        (RuleElement::Endpoint(one, _, to_one), RuleElement::Endpoint(other, _, to_other)) => {
            (one, to_one) == (other, to_other)
        }
        (one, other) => one == other,
    }
}

impl ServiceRouter {
    /// The kernel refuses this element. The rules do without its frontend, as a part of one could
    /// lead connections astray, until the frontend is to have no such element. `None`: they have
    /// none now.
    pub fn leave_out(&mut self, element: &RuleElement) -> Option<RuleChanges> {
        if !self.elements_of(element).contains(element) {
            return None;
        }
        if let RuleElement::Hairpin(address) = element {
            self.left_out.hairpins.insert(*address);
            return Some(RuleChanges { removed: vec![*element], added: Vec::new() });
        }
        let frontend = element.frontend()?;
        self.left_out.frontends.insert(frontend, *element);
        Some(self.update([frontend].into()))
    }

    /// What the kernel has refused is to be in the rules again: it is offered anew.
    pub fn take_back_left_out(&mut self) -> RuleChanges {
        let before = self.elements();
        let left_out = std::mem::take(&mut self.left_out);
        self.update(left_out.frontends.into_keys().collect());
        RuleChanges::between(&before, &self.elements())
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
            | RuleElement::OnOtherNodes(..)
            | RuleElement::Held(_)
            | RuleElement::HostPort(_) => {
                let routed = service.frontends.iter().find(|it| it.frontend == frontend);
                routed.map(|routed| routed.origin.field())
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
    fn a_frontend_is_left_out_while_it_has_the_element_that_the_kernel_refuses() {
        let mut router = router(&plain(), &slice(serde_json::json!([ready(2), ready(3)])));
        // the third gets the number of the first
        router.gone(&pod(2));
        router.set_slice(key("web-a"), Some(&slice(serde_json::json!([ready(3), ready(4)]))));
        let all = router.elements();
        let third = |it: &&RuleElement| matches!(it, RuleElement::Endpoint(.., to) if to.ip() == IpAddr::from([10, 88, 0, 4]));
        let endpoint = *all.iter().find(third).unwrap();
        assert_eq!(router.field_of(&endpoint), Some("spec.clusterIPs"));
        let changes = router.leave_out(&endpoint).unwrap();
        assert_eq!(changes.removed.len(), all.len(), "{changes:?}");
        assert!(router.elements().is_empty());
        assert_eq!(router.leave_out(&endpoint), None, "it is left out already");
        // nor is it tried again when others come and go, and it gets another number by that
        let others = [
            serde_json::json!([ready(2), ready(3), ready(4)]),
            serde_json::json!([ready(4), ready(5)]),
            serde_json::json!([ready(4)]),
            serde_json::json!([ready(3), ready(4)]),
        ];
        for endpoints in others {
            let changes = router.set_slice(key("web-a"), Some(&slice(endpoints)));
            assert!(changes.is_empty() && router.elements().is_empty(), "{changes:?}");
        }
        // without it the frontend is served
        let changes = router.gone(&pod(4));
        let expected = [
            "10.96.0.10:80/TCP one of 1",
            "10.96.0.10:80/TCP 0 10.88.0.3:8080",
            "hairpin 10.88.0.3",
        ];
        assert_eq!(shown(changes.added), expected);
    }

    #[test]
    fn what_the_kernel_refused_is_offered_again_when_all_rules_are_written_anew() {
        let mut router = router(&plain(), &slice(serde_json::json!([ready(2)])));
        let all = router.elements();
        assert!(router.take_back_left_out().is_empty());
        let hairpin = RuleElement::Hairpin([10, 88, 0, 2].into());
        router.leave_out(&hairpin).unwrap();
        router.leave_out(all.first().unwrap()).unwrap();
        assert!(router.elements().is_empty());
        let changes = router.take_back_left_out();
        assert_eq!((router.elements(), changes.added.len()), (all.clone(), all.len()));
        assert!(router.take_back_left_out().is_empty());
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
