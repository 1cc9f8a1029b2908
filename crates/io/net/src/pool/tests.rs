use super::*;
use proptest::prelude::*;

fn pool(subnet: &str) -> AddressPool {
    AddressPool::new(subnet.parse().unwrap()).unwrap()
}

#[test]
fn the_gateway_the_network_and_the_broadcast_address_are_never_given() {
    let mut pool = pool("10.1.2.0/29");
    let given: Vec<String> =
        (0..5).map(|i| pool.allocate(&format!("p{i}")).unwrap().to_string()).collect();
    assert_eq!(given, ["10.1.2.2", "10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6"]);
    assert_eq!(pool.gateway().to_string(), "10.1.2.1");
    assert_eq!(
        pool.allocate("one too many").unwrap_err().to_string(),
        "no free address in 10.1.2.0/29: 5 are in use"
    );
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut pool = pool("10.1.2.0/24");
    let first = pool.allocate("a").unwrap();
    pool.allocate("b").unwrap();
    assert_eq!(pool.allocate("a").unwrap(), first);
}

#[test]
fn what_was_released_lately_is_given_last_and_the_oldest_first() {
    let mut pool = pool("10.1.2.0/29");
    let addresses: Vec<Ipv4Addr> =
        (0..4).map(|i| pool.allocate(&format!("p{i}")).unwrap()).collect();
    pool.release("p2");
    pool.release("p0");
    assert_eq!(
        pool.allocate("x").unwrap().to_string(),
        "10.1.2.6",
        "the one never used comes first"
    );
    assert_eq!(pool.allocate("y").unwrap(), addresses[2]);
    assert_eq!(pool.allocate("z").unwrap(), addresses[0]);
    assert!(pool.allocate("none left").is_err());
}

#[test]
fn a_restricted_pool_gives_addresses_of_its_range_and_keeps_what_it_gave_before() {
    let mut pool = pool("10.1.2.0/24");
    let before = pool.allocate("before").unwrap();
    assert!(!pool.restrict("10.1.3.0/28".parse().unwrap()), "no part of the subnet");
    assert!(pool.restrict("10.1.2.240/28".parse().unwrap()));
    assert_eq!(pool.defect(), None);
    let given: Vec<Ipv4Addr> = (0..15).map(|i| pool.allocate(&format!("p{i}")).unwrap()).collect();
    assert_eq!(given.first().unwrap().to_string(), "10.1.2.240");
    assert_eq!(
        given.last().unwrap().to_string(),
        "10.1.2.254",
        "the broadcast address is the subnet's"
    );
    assert!(pool.allocate("one too many").is_err());
    assert_eq!(pool.allocate("before").unwrap(), before);
    assert_eq!(pool.release("before"), Some(before));
    assert!(pool.allocate("still too many").is_err(), "it is not this range's");
    assert_eq!((pool.gateway().to_string(), pool.defect()), ("10.1.2.1".to_owned(), None));
}

#[test]
fn subnets_without_room_are_refused_and_host_bits_dropped() {
    assert_eq!(AddressPool::new("10.1.2.0/31".parse().unwrap()), None);
    let mut smallest = pool("10.1.2.7/30");
    assert_eq!(smallest.allocate("a").unwrap().to_string(), "10.1.2.6");
    assert!(smallest.allocate("b").is_err());
}

#[test]
fn defects_of_a_stored_pool_are_found() {
    let sound = pool("10.1.2.0/29");
    assert_eq!(sound.defect(), None);
    let mut twice = sound.clone();
    twice.leases.insert("a".into(), "10.1.2.3".parse().unwrap());
    twice.recent.push_back("10.1.2.3".parse().unwrap());
    assert_eq!(twice.defect().unwrap(), "10.1.2.3 is there twice");
    let mut outside = sound.clone();
    outside.leases.insert("a".into(), "10.1.2.1".parse().unwrap());
    assert_eq!(outside.defect().unwrap(), "10.1.2.1 is not a pod address");
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u8),
    Release(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..20).prop_map(Step::Allocate),
        2 => (0u8..20).prop_map(Step::Release),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Against a model: unique, stable, inside, exhausted only when really full, and of the free
    /// ones never one that was released later than another free one.
    #[test]
    fn addresses_are_unique_stable_and_reused_late(steps in steps(), prefix in 27u8..=30) {
        let mut pool = AddressPool::new(Ipv4Net::new(Ipv4Addr::new(10, 9, 8, 0), prefix).unwrap()).unwrap();
        let capacity = (1usize << (32 - prefix)) - 3;
        let mut held: BTreeMap<String, Ipv4Addr> = BTreeMap::new();
        let mut released: Vec<Ipv4Addr> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(i) => {
                    let id = i.to_string();
                    match pool.allocate(&id) {
                        Ok(address) => {
                            if let Some(before) = held.get(&id) {
                                prop_assert_eq!(*before, address);
                            } else {
                                prop_assert!(!held.values().any(|a| *a == address));
                                if let Some(at) = released.iter().position(|a| *a == address) {
                                    prop_assert_eq!(at, 0, "an older one was free");
                                    prop_assert_eq!(held.len() + released.len(), capacity, "one never used was free");
                                    released.remove(0);
                                }
                                held.insert(id, address);
                            }
                        }
                        Err(_) => prop_assert_eq!(held.len(), capacity),
                    }
                }
                Step::Release(i) => {
                    let id = i.to_string();
                    let address = held.remove(&id);
                    prop_assert_eq!(pool.release(&id), address);
                    released.extend(address);
                }
            }
            prop_assert_eq!(pool.leases(), &held);
            prop_assert_eq!(pool.defect(), None);
            let stored = serde_json::to_string(&pool).unwrap();
            prop_assert_eq!(&serde_json::from_str::<AddressPool>(&stored).unwrap(), &pool);
        }
    }
}
