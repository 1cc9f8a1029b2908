//! A network that only remembers who has which address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::network::{NetworkError, PodNetwork};

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeNetwork(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    addresses: BTreeMap<String, Ipv4Addr>,
    given: u8,
}

impl FakeNetwork {
    pub(crate) fn attached(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().addresses.keys().cloned().collect()
    }
}

impl PodNetwork for FakeNetwork {
    async fn attach(&self, id: &str, _netns: &Path) -> Result<Vec<IpAddr>, NetworkError> {
        let mut state = self.0.lock().unwrap();
        if !state.addresses.contains_key(id) {
            state.given += 1;
            let address = Ipv4Addr::new(10, 88, 0, state.given);
            state.addresses.insert(id.to_owned(), address);
        }
        Ok(vec![IpAddr::V4(state.addresses[id])])
    }

    async fn prepare(&self, id: &str, netns: &Path) -> Result<(), NetworkError> {
        self.attach(id, netns).await.map(drop)
    }

    async fn detach(&self, id: &str) -> Result<(), NetworkError> {
        self.0.lock().unwrap().addresses.remove(id);
        Ok(())
    }

    async fn release_all_except(&self, ids: &BTreeSet<String>) -> Result<(), NetworkError> {
        self.0.lock().unwrap().addresses.retain(|id, _| ids.contains(id));
        Ok(())
    }
}
