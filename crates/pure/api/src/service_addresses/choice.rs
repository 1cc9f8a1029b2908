//! The choice of addresses for one write of a Service. Nothing of it counts before the write is
//! queued, so a refused write and a dry run hold nothing.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use rekindle_kinds::service::ShownList;
use rekindle_kinds::service::needs::{
    gets_node_ports, is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports,
    node_port,
};
use rekindle_kinds::service_range::ServiceRange;
use rekindle_kinds::validation::{ListKeys, Path, items};
use rekindle_types::validation::field_error::FieldError;

use super::book::{AddressBook, AllocationRefusal};
use super::families;
use super::holders::ServiceHoldings;

/// Why a Service gets no addresses.
#[derive(Debug)]
pub(super) enum ChoiceError {
    /// The write is at fault.
    Fields(Vec<FieldError>),
    /// There are none left.
    Internal(String),
}

impl From<FieldError> for ChoiceError {
    fn from(error: FieldError) -> Self {
        Self::Fields(vec![error])
    }
}

/// What a choice is made from.
pub(super) struct AddressChoice<'c> {
    pub(super) book: &'c AddressBook,
    /// The ranges that users have added.
    pub(super) further: &'c [ServiceRange],
    /// What the Service holds already.
    pub(super) held: ServiceHoldings,
    /// Whether the first address of a range is this Service's.
    pub(super) may_have_reserved: bool,
    /// Whether an address that no Service holds is taken by another IPAddress.
    pub(super) is_foreign: &'c dyn Fn(IpAddr) -> bool,
    /// A random number.
    pub(super) seed: &'c dyn Fn() -> u128,
}

impl AddressChoice<'_> {
    /// Completes a new Service.
    pub(super) fn complete_new(&mut self, spec: &mut ServiceSpec) -> Result<(), ChoiceError> {
        self.settle_families(spec, None)?;
        if needs_cluster_ip(spec) && !is_headless(spec) {
            self.choose_addresses(spec, 0)?;
        }
        if needs_node_ports(spec) {
            self.choose_new_ports(spec)?;
        }
        self.choose_health_check_port(spec)
    }

    /// Completes an update.
    pub(super) fn complete_change(
        &mut self,
        spec: &mut ServiceSpec,
        old: &ServiceSpec,
    ) -> Result<(), ChoiceError> {
        self.settle_families(spec, Some(old))?;
        if let Some(first) = first_missing(spec, old) {
            self.choose_addresses(spec, first)?;
        }
        if needs_node_ports(spec) {
            self.choose_changed_ports(spec)?;
        }
        if needs_health_check_port(old) && old.health_check_node_port.is_some() {
            return Ok(());
        }
        self.choose_health_check_port(spec)
    }

    fn settle_families(
        &self,
        spec: &mut ServiceSpec,
        old: Option<&ServiceSpec>,
    ) -> Result<(), ChoiceError> {
        families::settle(spec, old, &self.book.ranges).map_err(ChoiceError::Fields)
    }

    /// Gives each IP family from this one on its address, that of the user or a free one.
    fn choose_addresses(
        &mut self,
        spec: &mut ServiceSpec,
        first: usize,
    ) -> Result<(), ChoiceError> {
        let asked = spec.cluster_ips.clone().unwrap_or_default();
        let mut list = asked.clone();
        for (index, family) in items(spec.ip_families.as_ref()).iter().enumerate().skip(first) {
            let Some(range) = self.book.ranges.of_family(family) else { continue };
            match asked.get(index).filter(|address| !address.is_empty()) {
                Some(address) => self.take_address(address, &asked)?,
                None => {
                    let address = self.choose_address(range)?;
                    self.held.addresses.insert(address);
                    list.truncate(index);
                    list.push(address.to_string());
                }
            }
        }
        spec.cluster_ip = list.first().cloned();
        spec.cluster_ips = Some(list).filter(|list| !list.is_empty());
        Ok(())
    }

    /// An address of the engine's range while that has one, then of further ones of its family.
    fn choose_address(&self, range: ServiceRange) -> Result<IpAddr, ChoiceError> {
        let is_of_family =
            |further: &&ServiceRange| further.network().is_ipv4() == range.network().is_ipv4();
        let further = self.further.iter().filter(is_of_family).copied();
        let mut refusal = AllocationRefusal::Full;
        for range in std::iter::once(range).chain(further) {
            let chosen = self.book.choose_address(range, (self.seed)(), |address| {
                self.held.addresses.contains(&address) || (self.is_foreign)(address)
            });
            match chosen {
                Ok(address) => return Ok(address),
                Err(why) => refusal = why,
            }
        }
        Err(ChoiceError::Internal(format!("failed to allocate a serviceIP: {refusal}")))
    }

    fn take_address(&mut self, text: &str, asked: &[String]) -> Result<(), ChoiceError> {
        // `families` has refused what is no address
        let Ok(address) = text.parse::<IpAddr>() else { return Ok(()) };
        if self.held.addresses.contains(&address) {
            return Ok(());
        }
        let is_kept = self.book.is_reserved(address) && !self.may_have_reserved;
        let checked = match self.book.check_address(address, self.further) {
            Ok(()) if is_kept || (self.is_foreign)(address) => Err(AllocationRefusal::AddressHeld),
            checked => checked,
        };
        if let Err(refusal) = checked {
            let detail = format!("failed to allocate IP {text}: {refusal}");
            let field = Path::new("spec").child("clusterIPs");
            return Err(FieldError::invalid(field, ShownList(asked), detail).into());
        }
        self.held.addresses.insert(address);
        Ok(())
    }

    /// Ports of one number have one port of the nodes: a Service may serve TCP and UDP there.
    fn choose_new_ports(&mut self, spec: &mut ServiceSpec) -> Result<(), ChoiceError> {
        let allocates = gets_node_ports(spec);
        let list = items(spec.ports.as_ref());
        let asked: Vec<(i32, i32)> =
            list.iter().filter_map(|port| Some((port.port, node_port(port)?))).collect();
        let places: ListKeys<i32> = asked.iter().map(|(port, _)| *port).collect();
        let mut given: std::collections::BTreeMap<i32, i32> = Default::default();
        for (index, port) in spec.ports.iter_mut().flatten().enumerate() {
            let wanted = node_port(port);
            if wanted.is_none() && !allocates {
                continue;
            }
            let first_asked = || places.place(&port.port).map(|place| asked[place].1);
            match (given.get(&port.port).copied(), wanted) {
                (None, _) => {
                    let number = match first_asked() {
                        Some(number) => self.take_port(number, index)?,
                        None => self.choose_port()?,
                    };
                    given.insert(port.port, number);
                    port.node_port = Some(number);
                }
                (Some(number), None) => port.node_port = Some(number),
                (Some(number), Some(wanted)) if number == wanted => {}
                (Some(_), Some(wanted)) => {
                    self.take_port(wanted, index)?;
                }
            }
        }
        Ok(())
    }

    fn choose_changed_ports(&mut self, spec: &mut ServiceSpec) -> Result<(), ChoiceError> {
        let allocates = gets_node_ports(spec);
        for (index, port) in spec.ports.iter_mut().flatten().enumerate() {
            match node_port(port) {
                Some(number) if self.holds_port(number) => {}
                Some(number) => {
                    self.take_port(number, index)?;
                }
                None if allocates => port.node_port = Some(self.choose_port()?),
                None => {}
            }
        }
        Ok(())
    }

    fn choose_health_check_port(&mut self, spec: &mut ServiceSpec) -> Result<(), ChoiceError> {
        if !needs_health_check_port(spec) {
            return Ok(());
        }
        match spec.health_check_node_port {
            Some(number) if self.holds_port(number) => {}
            Some(number) => {
                let port = self.book.check_port(number).map_err(|refusal| {
                    ChoiceError::Internal(format!(
                        "failed to allocate requested HealthCheck NodePort {number}: {refusal}"
                    ))
                })?;
                self.held.ports.insert(port);
            }
            None => spec.health_check_node_port = Some(self.choose_port()?),
        }
        Ok(())
    }

    fn holds_port(&self, number: i32) -> bool {
        u16::try_from(number).is_ok_and(|port| self.held.ports.contains(&port))
    }

    fn take_port(&mut self, number: i32, index: usize) -> Result<i32, ChoiceError> {
        let checked = match self.book.check_port(number) {
            Ok(port) if self.held.ports.contains(&port) => Err(AllocationRefusal::PortHeld),
            checked => checked,
        };
        let port = checked.map_err(|refusal| {
            let field = Path::new("spec").child("ports").index(index).child("nodePort");
            FieldError::invalid(field, number, refusal.to_string())
        })?;
        self.held.ports.insert(port);
        Ok(number)
    }

    fn choose_port(&mut self) -> Result<i32, ChoiceError> {
        let held = &self.held.ports;
        let port = self.book.choose_port((self.seed)(), |port| held.contains(&port));
        let port = port.map_err(|refusal| {
            ChoiceError::Internal(format!("failed to allocate a nodePort: {refusal}"))
        })?;
        self.held.ports.insert(port);
        Ok(port.into())
    }
}

/// The first IP family that an update gives an address; none when it changes none. Whether it may
/// change others is the concern of validation.
fn first_missing(new: &ServiceSpec, old: &ServiceSpec) -> Option<usize> {
    if !needs_cluster_ip(new) || families::keeps_preference(new, old) {
        return None;
    }
    if !needs_cluster_ip(old) || old.cluster_ips.is_none() {
        return (!is_headless(new)).then_some(0);
    }
    let families = |spec: &ServiceSpec| items(spec.ip_families.as_ref()).len();
    (!is_headless(old) && families(old) == 1 && families(new) == 2).then_some(1)
}
