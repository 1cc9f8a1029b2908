use expect_test::{Expect, expect};
use netlink_packet_core::Emitable;
use netlink_packet_netfilter::nftables::SetElementList;

use super::*;
use crate::rules::error::describe;

const WEB: Frontend = Frontend {
    address: IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1)),
    protocol: TransportProtocol::Tcp,
    port: 80,
};

fn endpoint() -> SocketAddr {
    SocketAddr::from(([10, 88, 0, 2], 8080))
}

fn pick(sticky_s: Option<u32>) -> EndpointPick {
    EndpointPick {
        endpoints: NonZeroU16::new(3).unwrap(),
        sticky_s: sticky_s.map(|time| NonZeroU32::new(time).unwrap()),
    }
}

/// The clients of a node.
fn near(range: &str) -> ClientView {
    let range = SourceRange::parse(range).unwrap();
    let frontend = match range.network {
        IpAddr::V4(_) => WEB,
        IpAddr::V6(_) => Frontend { address: "fd00:96::1".parse().unwrap(), ..WEB },
    };
    ClientView { frontend, clients: Clients::Within(range) }
}

fn by_client(range: &str, endpoint: SocketAddr) -> [RuleElement; 5] {
    let view = near(range);
    [
        RuleElement::Pick(view, pick(None)),
        RuleElement::Pick(view, pick(Some(60))),
        RuleElement::Endpoint(view, 2, endpoint),
        RuleElement::OnOtherNodes(view.frontend, SourceRange::parse(range).unwrap()),
        RuleElement::Held(view),
    ]
}

fn elements() -> [RuleElement; 9] {
    [
        RuleElement::Pick(WEB.into(), pick(None)),
        RuleElement::Pick(WEB.into(), pick(Some(10_800))),
        RuleElement::Endpoint(WEB.into(), 2, endpoint()),
        RuleElement::Member(WEB, endpoint()),
        RuleElement::Refused(WEB, Refusal::Reject),
        RuleElement::Refused(WEB, Refusal::Drop),
        RuleElement::Hairpin(endpoint().ip()),
        RuleElement::Guarded(WEB),
        RuleElement::Source(WEB, SourceRange::parse("192.0.2.9/26").unwrap()),
    ]
}

fn hex(bytes: Option<Vec<u8>>) -> String {
    let bytes = bytes.unwrap_or_default();
    let words: Vec<String> = bytes
        .chunks(4)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    words.join(" ")
}

fn check(element: RuleElement, expected: Expect) {
    let (key, data) = key_and_data(&element).unwrap();
    let set = set_of(&element).name(family_of(&element));
    let shown = format!("{set}: {} -> {}\n{}", hex(Some(key)), hex(data), describe(&element));
    expected.assert_eq(&shown);
}

#[test]
#[cfg(target_endian = "little")]
fn elements_are_encoded_as_the_rules_look_them_up() {
    let [plain, sticky, endpoint, member, rejected, dropped, hairpin, guarded, source] = elements();
    check(
        plain,
        expect![[r"
        services: 0a600001 06000000 00500000 -> 00000000 03000000 00000000
        10.96.0.1:80/TCP (endpoints: 3)"]],
    );
    check(
        sticky,
        expect![[r"
        services: 0a600001 06000000 00500000 -> 302a0000 03000000 01000000
        10.96.0.1:80/TCP (endpoints: 3, sticky for 10800 s)"]],
    );
    check(
        endpoint,
        expect![[r"
        endpoints: 0a600001 06000000 00500000 02000000 -> 0a580002 1f900000
        endpoint 10.88.0.2:8080, number 2 of 10.96.0.1:80/TCP"]],
    );
    check(
        member,
        expect![[r"
        members: 0a600001 06000000 00500000 0a580002 1f900000 -> 
        sticky endpoint 10.88.0.2:8080 of 10.96.0.1:80/TCP"]],
    );
    check(
        rejected,
        expect![[r"
        rejected: 0a600001 06000000 00500000 -> 
        rejection of 10.96.0.1:80/TCP"]],
    );
    check(
        dropped,
        expect![[r"
        dropped: 0a600001 06000000 00500000 -> 
        drop of 10.96.0.1:80/TCP"]],
    );
    check(
        hairpin,
        expect![[r"
        hairpins: 0a580002 0a580002 -> 
        hairpin of 10.88.0.2"]],
    );
    check(
        guarded,
        expect![[r"
        guarded: 0a600001 06000000 00500000 -> 
        guard of 10.96.0.1:80/TCP"]],
    );
    check(
        source,
        expect![[r"
        sources: 0a600001 06000000 00500000 c0000200 ffffffc0 -> 
        source 192.0.2.0/26 of 10.96.0.1:80/TCP"]],
    );
}

#[test]
#[cfg(target_endian = "little")]
fn elements_by_client_say_how_much_of_a_clients_address_counts() {
    let [plain, sticky, endpoint, elsewhere, held] = by_client("10.88.0.0/17", endpoint());
    check(
        plain,
        expect![[r"
        services-by-client: 0a600001 06000000 00500000 0a580000 -> 00000000 03000000 22000000
        10.96.0.1:80/TCP of 10.88.0.0/17 (endpoints: 3)"]],
    );
    check(
        sticky,
        expect![[r"
        services-by-client: 0a600001 06000000 00500000 0a580000 -> 3c000000 03000000 23000000
        10.96.0.1:80/TCP of 10.88.0.0/17 (endpoints: 3, sticky for 60 s)"]],
    );
    check(
        endpoint,
        expect![[r"
        endpoints-by-client: 0a600001 06000000 00500000 0a580000 02001100 -> 0a580002 1f900000
        endpoint 10.88.0.2:8080, number 2 of 10.96.0.1:80/TCP of 10.88.0.0/17"]],
    );
    check(
        elsewhere,
        expect![[r"
        dropped-by-client: 0a600001 06000000 00500000 0a580000 ffff8000 -> 
        drop of 10.96.0.1:80/TCP of 10.88.0.0/17"]],
    );
    check(
        held,
        expect![[r"
        held-by-client: 0a600001 06000000 00500000 0a580000 ffff8000 -> 
        wait at 10.96.0.1:80/TCP of 10.88.0.0/17"]],
    );
}

/// As the kernel would list it.
fn listed(element: &RuleElement) -> ListedElement {
    let message = SetElementList::Elements(vec![encode(element).unwrap()]);
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    let mut listed = Vec::new();
    ListedElement::read_all(&bytes, &mut listed).unwrap();
    assert_eq!(listed.len(), 1);
    listed.remove(0)
}

/// The same of IPv6.
fn elements_of_ipv6() -> [RuleElement; 9] {
    let web = Frontend { address: "fd00:96::1".parse().unwrap(), ..WEB };
    let endpoint: SocketAddr = "[fd00:88::2]:8080".parse().unwrap();
    [
        RuleElement::Pick(web.into(), pick(None)),
        RuleElement::Pick(web.into(), pick(Some(10_800))),
        RuleElement::Endpoint(web.into(), 2, endpoint),
        RuleElement::Member(web, endpoint),
        RuleElement::Refused(web, Refusal::Reject),
        RuleElement::Refused(web, Refusal::Drop),
        RuleElement::Hairpin(endpoint.ip()),
        RuleElement::Guarded(web),
        RuleElement::Source(web, SourceRange::parse("2001:db8::9/62").unwrap()),
    ]
}

#[test]
#[cfg(target_endian = "little")]
fn elements_of_ipv6_have_four_words_for_each_address() {
    let [_, sticky, endpoint, .., hairpin, _, source] = elements_of_ipv6();
    check(
        sticky,
        expect![[r"
        services-v6: fd000096 00000000 00000000 00000001 06000000 00500000 -> 302a0000 03000000 01000000
        [fd00:96::1]:80/TCP (endpoints: 3, sticky for 10800 s)"]],
    );
    check(
        endpoint,
        expect![[r"
        endpoints-v6: fd000096 00000000 00000000 00000001 06000000 00500000 02000000 -> fd000088 00000000 00000000 00000002 1f900000
        endpoint [fd00:88::2]:8080, number 2 of [fd00:96::1]:80/TCP"]],
    );
    check(
        hairpin,
        expect![[r"
        hairpins-v6: fd000088 00000000 00000000 00000002 fd000088 00000000 00000000 00000002 -> 
        hairpin of fd00:88::2"]],
    );
    check(
        source,
        expect![[r"
        sources-v6: fd000096 00000000 00000000 00000001 06000000 00500000 20010db8 00000000 00000000 00000000 ffffffff fffffffc 00000000 00000000 -> 
        source 2001:db8::/62 of [fd00:96::1]:80/TCP"]],
    );
}

#[test]
fn what_is_encoded_is_decoded() {
    let by_client = [
        by_client("10.88.128.0/24", endpoint()),
        by_client("10.88.0.0/16", endpoint()),
        by_client("fd00:88::100/120", "[fd00:88::2]:8080".parse().unwrap()),
    ];
    let all = elements().into_iter().chain(elements_of_ipv6());
    for element in all.chain(by_client.into_iter().flatten()) {
        let family = family_of(&element);
        assert_eq!(decode(set_of(&element), family, &listed(&element)), Ok(element));
        let other = IpFamily::ALL.into_iter().find(|other| *other != family).unwrap();
        assert_ne!(decode(set_of(&element), other, &listed(&element)), Ok(element));
    }
}

#[test]
fn what_is_not_ours_is_not_decoded() {
    let endpoint = listed(&elements()[2]);
    for set in ElementSet::ALL.into_iter().filter(|set| *set != ElementSet::Endpoints) {
        assert!(
            decode(set, IpFamily::V4, &endpoint).unwrap_err().starts_with("unknown element"),
            "{set:?}"
        );
    }
}

#[test]
fn only_affinity_names_a_chain() {
    let sticky: Vec<bool> = elements().iter().map(|e| encode_sticky(e).is_some()).collect();
    assert_eq!(sticky, [false, true, false, false, false, false, false, false, false]);
}
