//! The book alone: bands, refusals, and that nothing is given twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn book(range: &str) -> AddressBook {
    AddressBook::new(ServiceRanges::single(range.parse().unwrap()))
}

fn holds(addresses: &[IpAddr], ports: &[u16]) -> ServiceHoldings {
    ServiceHoldings {
        addresses: addresses.iter().copied().collect(),
        ports: ports.iter().copied().collect(),
    }
}

fn choose(book: &AddressBook, seed: u128) -> Result<IpAddr, AllocationRefusal> {
    book.choose_address(book.ranges.primary(), seed, |_| false)
}

/// Source: KEP-3070 and KEP-3668, whose examples these are.
#[test]
fn the_lower_band_is_left_to_users() {
    for (range, first_given) in [
        ("10.96.0.0/24", "10.96.0.17"),
        ("10.96.0.0/20", "10.96.1.1"),
        ("10.96.0.0/16", "10.96.1.1"),
        ("fd00::/112", "fd00::101"),
        // no bands: the first address is that of the Service `kubernetes`
        ("10.96.0.0/29", "10.96.0.2"),
    ] {
        assert_eq!(choose(&book(range), 0).unwrap().to_string(), first_given, "{range}");
    }
    assert_eq!(book("10.96.0.0/16").choose_port(0, |_| false), Ok(30_086));
}

#[test]
fn the_lower_band_is_given_when_the_upper_one_is_full_and_then_nothing() {
    let mut book = book("10.96.0.0/27");
    let mut given = Vec::new();
    while let Ok(address) = choose(&book, 7) {
        book.hold(&holds(&[address], &[]));
        given.push(number(address) & 0xff);
    }
    assert_eq!(given[..14].iter().copied().collect::<BTreeSet<_>>(), (17..=30).collect());
    assert_eq!(given[14..].iter().copied().collect::<BTreeSet<_>>(), (2..=16).collect());
    assert_eq!(choose(&book, 7), Err(AllocationRefusal::Full));
    book.release(&holds(&["10.96.0.9".parse().unwrap()], &[]));
    assert_eq!(choose(&book, 7).unwrap().to_string(), "10.96.0.9");
}

#[test]
fn ports_run_out() {
    let mut book = book("10.96.0.0/16");
    book.hold(&holds(&[], &NODE_PORTS.collect::<Vec<_>>()));
    assert_eq!(book.choose_port(3, |_| false), Err(AllocationRefusal::Full));
    book.release(&holds(&[], &[30_001]));
    assert_eq!(book.choose_port(3, |_| false), Ok(30_001));
}

#[test]
fn what_users_may_not_have_is_refused_in_the_words_of_upstream() {
    let mut book = book("10.96.0.0/16");
    book.hold(&holds(&["10.96.0.9".parse().unwrap()], &[30_001]));
    for (address, expected) in [
        ("10.96.0.10", "fine"),
        ("10.96.0.9", "provided IP is already allocated"),
        ("10.97.0.9", "the provided network does not match the current range"),
        ("fd00::1", "the provided network does not match the current range"),
        (
            "10.96.0.0",
            "the provided IP (10.96.0.0) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
        (
            "10.96.255.255",
            "the provided IP (10.96.255.255) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
    ] {
        let checked = book.check_address(address.parse().unwrap(), &[]);
        assert_eq!(checked.map_or_else(|e| e.to_string(), |()| "fine".to_owned()), expected);
    }
    let out = "provided port is not in the valid range. The range of valid ports is 30000-32767";
    for (port, expected) in [
        (30_000, "30000"),
        (30_001, "provided port is already allocated"),
        (29_999, out),
        (32_768, out),
        (-1, out),
    ] {
        let checked = book.check_port(port);
        assert_eq!(checked.map_or_else(|e| e.to_string(), |port| port.to_string()), expected);
    }
}

#[test]
fn what_two_hold_is_free_when_both_are_gone() {
    let mut book = book("10.96.0.0/16");
    let both = holds(&["10.96.0.9".parse().unwrap()], &[30_001]);
    book.hold(&both);
    book.hold(&both);
    book.release(&both);
    assert_eq!(book.check_port(30_001), Err(AllocationRefusal::PortHeld));
    book.release(&both);
    assert_eq!(book, self::book("10.96.0.0/16"));
}

/// What a Service does to the book.
#[derive(Clone, Debug)]
enum BookStep {
    Give(u128),
    Take(u8),
    GiveUp(u8),
}

fn steps() -> impl Strategy<Value = Vec<BookStep>> {
    let step = prop_oneof![
        3 => any::<u128>().prop_map(BookStep::Give),
        1 => any::<u8>().prop_map(BookStep::Take),
        2 => any::<u8>().prop_map(BookStep::GiveUp),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn nothing_is_given_twice_and_what_is_given_up_can_be_given_again(steps in steps()) {
        let mut live = book("10.96.0.0/27");
        let mut services: BTreeMap<IpAddr, u16> = BTreeMap::new();
        for step in steps {
            match step {
                BookStep::Give(seed) => match (choose(&live, seed), live.choose_port(seed, |_| false)) {
                    (Ok(address), Ok(port)) => {
                        prop_assert!(!live.is_reserved(address));
                        live.hold(&holds(&[address], &[port]));
                        prop_assert!(services.values().all(|held| *held != port));
                        prop_assert_eq!(services.insert(address, port), None);
                    }
                    // 30 assignable, one of them reserved
                    (refusal, _) => {
                        prop_assert_eq!(refusal, Err(AllocationRefusal::Full));
                        prop_assert_eq!(services.len(), 29);
                    }
                },
                BookStep::Take(last) => {
                    let address = IpAddr::from([10, 96, 0, last % 32]);
                    let port = 30_000 + u16::from(last);
                    let is_free = live.check_address(address, &[]).is_ok()
                        && !live.is_reserved(address)
                        && live.check_port(port.into()).is_ok();
                    prop_assert!(!is_free || !services.contains_key(&address));
                    if is_free {
                        live.hold(&holds(&[address], &[port]));
                        services.insert(address, port);
                    }
                }
                BookStep::GiveUp(which) => {
                    let at = usize::from(which) % services.len().max(1);
                    let Some((address, port)) = services.iter().nth(at) else { continue };
                    let (address, port) = (*address, *port);
                    live.release(&holds(&[address], &[port]));
                    prop_assert_eq!(live.check_address(address, &[]), Ok(()));
                    services.remove(&address);
                }
            }
            // a book that is built from what is held is the same
            let mut built = book("10.96.0.0/27");
            for (address, port) in &services {
                built.hold(&holds(&[*address], &[*port]));
            }
            prop_assert_eq!(&built, &live);
        }
    }
}
