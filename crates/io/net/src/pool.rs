//! Which address a sandbox gets: pure. An address is never held twice, the same id always gets the
//! same answer, and what was released lately is given out last, so that neighbours' caches and open
//! connections of the dead do not meet the new.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// Released addresses that are remembered in order. Older ones count as never used.
const RECENT_MAX: usize = 256;

/// No address is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no free address in {subnet}: {leased} are in use")]
pub struct AddressesExhausted {
    /// The subnet.
    pub subnet: Ipv4Net,
    /// Addresses given out.
    pub leased: usize,
}

/// The addresses of one subnet. The first host address is the gateway's; network and broadcast
/// addresses are never given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPool {
    subnet: Ipv4Net,
    /// Where new addresses come from; none: all of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<Ipv4Net>,
    leases: BTreeMap<String, Ipv4Addr>,
    /// Where the next search begins.
    next: Ipv4Addr,
    /// Released, oldest first; never leased at the same time.
    recent: VecDeque<Ipv4Addr>,
}

impl AddressPool {
    /// An empty pool. `None` when the subnet has no room for a gateway and a pod (prefixes longer
    /// than /30).
    pub fn new(subnet: Ipv4Net) -> Option<Self> {
        if subnet.prefix_len() > 30 {
            return None;
        }
        let subnet = subnet.trunc();
        let mut pool = Self {
            subnet,
            range: None,
            leases: BTreeMap::new(),
            next: subnet.network(),
            recent: VecDeque::new(),
        };
        pool.next = pool.first();
        Some(pool)
    }

    /// The pods' subnet.
    pub fn subnet(&self) -> Ipv4Net {
        self.subnet
    }

    /// Where new addresses come from: the subnet, or a part of it.
    pub fn range(&self) -> Ipv4Net {
        self.range.unwrap_or(self.subnet)
    }

    /// From now on new addresses come from this part of the subnet only; what is leased stays where
    /// it is. False when it is no part of it.
    #[must_use]
    pub fn restrict(&mut self, range: Ipv4Net) -> bool {
        if !self.subnet.contains(&range) {
            return false;
        }
        self.range = (range != self.subnet).then_some(range);
        if !(self.first()..=self.last()).contains(&self.next) {
            self.next = self.first();
        }
        let (first, last) = (self.first(), self.last());
        self.recent.retain(|address| (first..=last).contains(address));
        true
    }

    /// The bridge's own address: the subnet's first.
    pub fn gateway(&self) -> Ipv4Addr {
        offset(self.subnet.network(), 1)
    }

    /// Who holds which address.
    pub fn leases(&self) -> &BTreeMap<String, Ipv4Addr> {
        &self.leases
    }

    /// The address of `id`, a new one when it has none.
    pub fn allocate(&mut self, id: &str) -> Result<Ipv4Addr, AddressesExhausted> {
        if let Some(address) = self.leases.get(id) {
            return Ok(*address);
        }
        let address = match self.fresh() {
            Some(address) => {
                self.next = self.after(address);
                address
            }
            None => self
                .recent
                .pop_front()
                .ok_or(AddressesExhausted { subnet: self.subnet, leased: self.leases.len() })?,
        };
        self.leases.insert(id.to_owned(), address);
        Ok(address)
    }

    /// Takes the address back. `None` when `id` holds none.
    pub fn release(&mut self, id: &str) -> Option<Ipv4Addr> {
        let address = self.leases.remove(id)?;
        if !(self.first()..=self.last()).contains(&address) {
            return Some(address); // from before the range was restricted
        }
        self.recent.push_back(address);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        Some(address)
    }

    /// What is wrong with a pool that was read from a file; `None` when nothing is.
    pub fn defect(&self) -> Option<String> {
        if self.subnet.prefix_len() > 30 || self.subnet.trunc() != self.subnet {
            return Some(format!("{} is no subnet for pods", self.subnet));
        }
        if self.range.is_some_and(|range| !self.subnet.contains(&range)) {
            return Some(format!("{} is no part of {}", self.range(), self.subnet));
        }
        if !self.usable(self.next) {
            return Some(format!("{} is not a pod address", self.next));
        }
        let mut seen = BTreeSet::new();
        for address in self.leases.values().chain(&self.recent) {
            if !self.usable(*address) {
                return Some(format!("{address} is not a pod address"));
            }
            if !seen.insert(*address) {
                return Some(format!("{address} is there twice"));
            }
        }
        None
    }

    /// The next address, going round, that is neither leased nor released lately.
    fn fresh(&self) -> Option<Ipv4Addr> {
        let taken: BTreeSet<Ipv4Addr> = self.leases.values().chain(&self.recent).copied().collect();
        let mut candidate = self.next;
        // one more candidate than there are taken ones must meet a free one, if there is one
        for _ in 0..=taken.len() {
            if !taken.contains(&candidate) {
                return Some(candidate);
            }
            candidate = self.after(candidate);
            if candidate == self.next {
                return None;
            }
        }
        None
    }

    fn first(&self) -> Ipv4Addr {
        self.range().network().max(offset(self.subnet.network(), 2))
    }

    fn last(&self) -> Ipv4Addr {
        self.range().broadcast().min(Ipv4Addr::from(u32::from(self.subnet.broadcast()) - 1))
    }

    fn after(&self, address: Ipv4Addr) -> Ipv4Addr {
        if address >= self.last() { self.first() } else { offset(address, 1) }
    }

    fn usable(&self, address: Ipv4Addr) -> bool {
        let last = Ipv4Addr::from(u32::from(self.subnet.broadcast()) - 1);
        (offset(self.subnet.network(), 2)..=last).contains(&address)
    }
}

fn offset(address: Ipv4Addr, by: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(address) + by)
}

#[cfg(test)]
mod tests;
