//! What each name is answered with; the cases are those of the specification and of CoreDNS'
//! plugin.

use proptest::prelude::*;
use rekindle_types::NamespacedName;

use super::super::view::{DnsPod, DnsPort, DnsSlice, DnsUpdate};
use super::*;

fn zone() -> DnsZone {
    DnsZone {
        domain: "cluster.local".to_owned(),
        subnet: "10.88.0.0/16".parse().unwrap(),
        ipv6_subnet: Some("fd00::/112".parse().unwrap()),
        server: "10.88.0.1".parse().unwrap(),
    }
}

fn endpoint(address: &str, hostname: Option<&str>) -> DnsEndpoint {
    DnsEndpoint { address: address.parse().unwrap(), hostname: hostname.map(str::to_owned) }
}

fn port(name: &str, protocol: &str, number: u16) -> DnsPort {
    DnsPort { name: name.to_owned(), protocol: protocol.to_owned(), number }
}

/// Two pods of a StatefulSet, a Deployment's, one without endpoints, three other names, a pod of
/// its own.
fn view() -> DnsView {
    let mut view = DnsView::default();
    let mut slice = |service: &str, endpoints: Vec<DnsEndpoint>, ports: Vec<DnsPort>| {
        view.set_service(NamespacedName::new("shop", service), Some(DnsService::Endpoints));
        let slice = DnsSlice { service: service.to_owned(), endpoints, ports };
        view.set_slice(NamespacedName::new("shop", format!("{service}-1")), Some(slice));
    };
    let web = vec![endpoint("10.88.0.2", Some("web-0")), endpoint("10.88.0.3", Some("web-1"))];
    slice("web", web, vec![port("http", "tcp", 8080), port("", "udp", 53)]);
    slice("api", vec![endpoint("10.88.0.4", None), endpoint("fd00::4", None)], Vec::new());
    slice("empty", Vec::new(), Vec::new());
    let own = vec!["10.96.0.7".parse().unwrap(), "fd00:96::7".parse().unwrap()];
    let ports = vec![port("http", "tcp", 80), port("dns", "udp", 53)];
    view.set_service(NamespacedName::new("shop", "front"), Some(DnsService::Addresses(own, ports)));
    let slice = DnsSlice {
        service: "front".to_owned(),
        endpoints: vec![endpoint("10.88.0.6", Some("front-0"))],
        ports: vec![port("http", "tcp", 8080)],
    };
    view.set_slice(NamespacedName::new("shop", "front-1"), Some(slice));
    for (name, target) in [
        ("db", "DB.example.com"),
        ("alias", "web.shop.svc.cluster.local"),
        ("loop", "loop.shop.svc.cluster.local"),
    ] {
        let external = DnsService::External(target.to_owned());
        view.set_service(NamespacedName::new("shop", name), Some(external));
    }
    let alone = vec!["10.88.0.9", "fd00::9"];
    for (name, addresses) in [("web-0", vec!["10.88.0.2"]), ("alone", alone)] {
        let addresses = addresses.into_iter().map(|address| address.parse().unwrap()).collect();
        let pod = DnsPod { addresses };
        view.set_pod(NamespacedName::new("shop", name), Some(pod));
    }
    view
}

/// A reply in one line.
fn shown(reply: &DnsReply) -> String {
    let data = |record: &DnsRecord| match &record.data {
        RecordData::Address(address) => address.to_string(),
        RecordData::Host { weight, port, target } => format!("{weight} {port} {target}"),
        RecordData::Pointer(name) | RecordData::Alias(name) | RecordData::NameServer(name) => {
            name.clone()
        }
        RecordData::Text(text) => (*text).to_owned(),
        RecordData::Authority { server, .. } => format!("authority {server}"),
    };
    let record = |record: &DnsRecord| match &record.owner {
        RecordOwner::Asked => data(record),
        RecordOwner::Name(owner) => format!("{owner}={}", data(record)),
    };
    let list = |records: &[DnsRecord]| records.iter().map(record).collect::<Vec<_>>().join(", ");
    match reply {
        DnsReply::NotOurs => "not ours".to_owned(),
        DnsReply::Alias { chain, target } => format!("{} then ask for {target}", list(chain)),
        DnsReply::Answer(answer) => {
            assert_eq!(
                answer.authority.is_some(),
                match answer.code {
                    ResponseCode::NoName => true,
                    ResponseCode::NoError => answer.records.is_empty(),
                    ResponseCode::Failure | ResponseCode::Refused => false,
                },
                "who says that there is nothing says who says so"
            );
            let mut text = match answer.code {
                ResponseCode::NoName => "no name".to_owned(),
                ResponseCode::NoError if answer.records.is_empty() => "no data".to_owned(),
                ResponseCode::NoError => String::new(),
                ResponseCode::Failure => "failure".to_owned(),
                ResponseCode::Refused => "refused".to_owned(),
            };
            text.push_str(&list(&answer.records));
            if !answer.additional.is_empty() {
                text.push_str(&format!(" with {}", list(&answer.additional)));
            }
            text
        }
    }
}

fn ask(view: &DnsView, wanted: RecordQuery, name: &str) -> String {
    let labels = name.split('.').map(str::to_owned).collect();
    shown(&reply(view, &zone(), &DnsQuestion { labels, wanted }, 0))
}

#[test]
fn names_of_services_are_those_of_their_ready_endpoints() {
    let view = view();
    for (wanted, name, expected) in [
        (RecordQuery::A, "web.shop.svc.cluster.local", "10.88.0.2, 10.88.0.3"),
        (RecordQuery::Aaaa, "web.shop.svc.cluster.local", "no data"),
        (RecordQuery::Txt, "web.shop.svc.cluster.local", "no data"),
        (RecordQuery::A, "web-1.web.shop.svc.cluster.local", "10.88.0.3"),
        (RecordQuery::A, "web-2.web.shop.svc.cluster.local", "no name"),
        (RecordQuery::A, "10-88-0-2.web.shop.svc.cluster.local", "no name"),
        (RecordQuery::A, "10-88-0-4.api.shop.svc.cluster.local", "10.88.0.4"),
        (RecordQuery::Aaaa, "api.shop.svc.cluster.local", "fd00::4"),
        (RecordQuery::Aaaa, "fd00--4.api.shop.svc.cluster.local", "fd00::4"),
        (RecordQuery::A, "empty.shop.svc.cluster.local", "no name"),
        (RecordQuery::A, "other.shop.svc.cluster.local", "no name"),
        (RecordQuery::A, "web.other.svc.cluster.local", "no name"),
        (RecordQuery::A, "_http._tcp.web.shop.svc.cluster.local", "10.88.0.2, 10.88.0.3"),
        (RecordQuery::A, "x.web-0.web.shop.svc.cluster.local", "no name"),
    ] {
        assert_eq!(ask(&view, wanted, name), expected, "{wanted:?} {name}");
    }
}

#[test]
fn a_service_with_an_address_of_its_own_has_that_one_whatever_its_endpoints_are() {
    let mut view = view();
    let host = "front.shop.svc.cluster.local";
    for slice in [true, false] {
        if !slice {
            view.set_slice(NamespacedName::new("shop", "front-1"), None);
        }
        for (wanted, name, expected) in [
            (RecordQuery::A, host.to_owned(), "10.96.0.7".to_owned()),
            (RecordQuery::Aaaa, host.to_owned(), "fd00:96::7".to_owned()),
            (RecordQuery::A, format!("_http._tcp.{host}"), "10.96.0.7".to_owned()),
            (RecordQuery::A, format!("_http._udp.{host}"), "no name".to_owned()),
            (
                RecordQuery::Srv,
                format!("_dns._udp.{host}"),
                format!("100 53 {host} with {host}=10.96.0.7, {host}=fd00:96::7"),
            ),
            (
                RecordQuery::Srv,
                host.to_owned(),
                format!("50 80 {host}, 50 53 {host} with {host}=10.96.0.7, {host}=fd00:96::7"),
            ),
            (RecordQuery::Ptr, "7.0.96.10.in-addr.arpa".to_owned(), host.to_owned()),
        ] {
            assert_eq!(ask(&view, wanted, &name), expected, "{wanted:?} {name}");
        }
        let of_endpoint = if slice { "10.88.0.6" } else { "no name" };
        assert_eq!(ask(&view, RecordQuery::A, &format!("front-0.{host}")), of_endpoint);
    }
    view.set_service(NamespacedName::new("shop", "front"), Some(DnsService::Endpoints));
    assert_eq!(ask(&view, RecordQuery::Ptr, "7.0.96.10.in-addr.arpa"), "not ours");
}

#[test]
fn ports_with_a_name_are_found_with_their_hosts() {
    let view = view();
    let hosts =
        "50 8080 web-0.web.shop.svc.cluster.local, 50 8080 web-1.web.shop.svc.cluster.local";
    let glue =
        "web-0.web.shop.svc.cluster.local=10.88.0.2, web-1.web.shop.svc.cluster.local=10.88.0.3";
    for (name, expected) in [
        ("_http._tcp.web.shop.svc.cluster.local", format!("{hosts} with {glue}")),
        ("_http._udp.web.shop.svc.cluster.local", "no name".to_owned()),
        ("_https._tcp.web.shop.svc.cluster.local", "no name".to_owned()),
        ("http.tcp.web.shop.svc.cluster.local", "no name".to_owned()),
        ("_http._tcp.web-0.web.shop.svc.cluster.local", "no name".to_owned()),
        ("api.shop.svc.cluster.local", "no data".to_owned()),
        ("db.shop.svc.cluster.local", "no data".to_owned()),
    ] {
        assert_eq!(ask(&view, RecordQuery::Srv, name), expected, "{name}");
    }
    let every = ask(&view, RecordQuery::Srv, "web-0.web.shop.svc.cluster.local");
    assert!(every.starts_with("50 8080 web-0.") && every.contains(", 50 53 web-0."), "{every}");
}

#[test]
fn a_service_may_be_another_name() {
    let view = view();
    for (wanted, name, expected) in [
        (RecordQuery::A, "db.shop.svc.cluster.local", "DB.example.com then ask for db.example.com"),
        (RecordQuery::Cname, "db.shop.svc.cluster.local", "DB.example.com"),
        (RecordQuery::A, "web-0.db.shop.svc.cluster.local", "no name"),
        (
            RecordQuery::A,
            "alias.shop.svc.cluster.local",
            "web.shop.svc.cluster.local, web.shop.svc.cluster.local=10.88.0.2, web.shop.svc.cluster.local=10.88.0.3",
        ),
        (RecordQuery::A, "loop.shop.svc.cluster.local", "failure"),
    ] {
        assert_eq!(ask(&view, wanted, name), expected, "{wanted:?} {name}");
    }
}

#[test]
fn pods_are_found_by_address_in_their_own_namespace_only() {
    let view = view();
    for (name, expected) in [
        ("10-88-0-9.shop.pod.cluster.local", "10.88.0.9"),
        ("10-88-0-9.other.pod.cluster.local", "no name"),
        ("10-88-0-8.shop.pod.cluster.local", "no name"),
        ("8-8-8-8.shop.pod.cluster.local", "no name"),
        ("10-88-0-009.shop.pod.cluster.local", "no name"),
        ("web-0.shop.pod.cluster.local", "no name"),
        ("fd00--9.shop.pod.cluster.local", "no data"),
    ] {
        assert_eq!(ask(&view, RecordQuery::A, name), expected, "{name}");
    }
    for (name, expected) in [
        ("fd00--9.shop.pod.cluster.local", "fd00::9"),
        ("fd00--8.shop.pod.cluster.local", "no name"),
        ("10-88-0-9.shop.pod.cluster.local", "no data"),
        ("web.shop.svc.cluster.local", "no data"),
        ("api.shop.svc.cluster.local", "fd00::4"),
    ] {
        assert_eq!(ask(&view, RecordQuery::Aaaa, name), expected, "{name}");
    }
}

#[test]
fn addresses_of_pods_have_names_and_no_others_of_their_subnet_do() {
    let view = view();
    for (name, expected) in [
        ("2.0.88.10.in-addr.arpa", "web-0.web.shop.svc.cluster.local"),
        ("4.0.88.10.in-addr.arpa", "10-88-0-4.api.shop.svc.cluster.local"),
        ("9.0.88.10.in-addr.arpa", "10-88-0-9.shop.pod.cluster.local"),
        ("8.0.88.10.in-addr.arpa", "no name"),
        ("8.8.8.8.in-addr.arpa", "not ours"),
        ("08.8.8.8.in-addr.arpa", "not ours"),
        ("0.88.10.in-addr.arpa", "not ours"),
        (
            "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
            "fd00--4.api.shop.svc.cluster.local",
        ),
        (
            "9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
            "fd00--9.shop.pod.cluster.local",
        ),
        ("8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", "no name"),
        ("8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa", "not ours"),
        (
            "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa",
            "front.shop.svc.cluster.local",
        ),
    ] {
        assert_eq!(ask(&view, RecordQuery::Ptr, name), expected, "{name}");
    }
}

#[test]
fn what_is_above_a_name_exists_and_has_no_data() {
    let view = view();
    for (wanted, name, expected) in [
        (RecordQuery::A, "cluster.local", "no data"),
        (RecordQuery::A, "svc.cluster.local", "no data"),
        (RecordQuery::A, "shop.svc.cluster.local", "no data"),
        (RecordQuery::A, "other.svc.cluster.local", "no name"),
        (RecordQuery::A, "shop.pod.cluster.local", "no data"),
        (RecordQuery::A, "dns.cluster.local", "no data"),
        (RecordQuery::A, "example.com.cluster.local", "no name"),
        (RecordQuery::Txt, "dns-version.cluster.local", "1.1.0"),
        (RecordQuery::A, "ns.dns.cluster.local", "10.88.0.1"),
        (
            RecordQuery::Ns,
            "cluster.local",
            "ns.dns.cluster.local with ns.dns.cluster.local=10.88.0.1",
        ),
        (RecordQuery::Soa, "cluster.local", "authority ns.dns.cluster.local"),
        (RecordQuery::A, "example.com", "not ours"),
        (RecordQuery::A, "notcluster.local", "not ours"),
        (RecordQuery::A, "local", "not ours"),
    ] {
        assert_eq!(ask(&view, wanted, name), expected, "{wanted:?} {name}");
    }
}

#[test]
fn addresses_take_turns_in_being_first() {
    let labels: Vec<String> = "web.shop.svc.cluster.local".split('.').map(str::to_owned).collect();
    let firsts = [0, 1, 2, u16::MAX].map(|turn| {
        let question = DnsQuestion { labels: labels.clone(), wanted: RecordQuery::A };
        shown(&reply(&view(), &zone(), &question, turn))
    });
    let (a, b) = ("10.88.0.2, 10.88.0.3", "10.88.0.3, 10.88.0.2");
    assert_eq!(firsts, [a, b, a, b]);
}

#[test]
fn what_changes_or_goes_is_answered_so() {
    let mut view = view();
    let web = |view: &DnsView| ask(view, RecordQuery::A, "web.shop.svc.cluster.local");
    let mut slice = DnsSlice {
        service: "web".to_owned(),
        endpoints: vec![endpoint("10.88.0.7", Some("web-0"))],
        ports: Vec::new(),
    };
    view.set_slice(NamespacedName::new("shop", "web-1"), Some(slice.clone()));
    assert_eq!(web(&view), "10.88.0.7");
    assert_eq!(
        ask(&view, RecordQuery::Ptr, "7.0.88.10.in-addr.arpa"),
        "web-0.web.shop.svc.cluster.local"
    );
    slice.endpoints = vec![endpoint("10.88.0.8", None)];
    view.set_slice(NamespacedName::new("shop", "web-2"), Some(slice.clone()));
    assert_eq!(web(&view), "10.88.0.7, 10.88.0.8");
    view.apply(DnsUpdate::Slices(vec![(NamespacedName::new("shop", "web-2"), slice)]));
    assert_eq!(web(&view), "10.88.0.8");
    assert_eq!(ask(&view, RecordQuery::Ptr, "7.0.88.10.in-addr.arpa"), "no name");
    view.apply(DnsUpdate::Services(Vec::new()));
    assert_eq!(web(&view), "no name", "a slice of a Service that is gone");
    view.apply(DnsUpdate::Pods(Vec::new()));
    assert_eq!(ask(&view, RecordQuery::A, "10-88-0-9.shop.pod.cluster.local"), "no name");
    assert_eq!(ask(&view, RecordQuery::A, "shop.svc.cluster.local"), "no name");
}

#[test]
fn what_is_listed_again_unchanged_is_no_change_of_the_zone() {
    let web = NamespacedName::new("shop", "web");
    let endpoints = vec![endpoint("10.88.0.2", None)];
    let slice = DnsSlice { service: "web".to_owned(), endpoints, ports: Vec::new() };
    let services = vec![(web.clone(), DnsService::Endpoints)];
    let slices = vec![(web.clone(), slice.clone())];
    let pods = vec![(web.clone(), DnsPod { addresses: vec!["10.88.0.2".parse().unwrap()] })];
    let mut view = DnsView::default();
    for _list in 0..2 {
        view.apply(DnsUpdate::Services(services.clone()));
        view.apply(DnsUpdate::Slices(slices.clone()));
        view.apply(DnsUpdate::Pods(pods.clone()));
        assert_eq!(view.serial(), 3, "one change of each kind");
    }
    view.set_service(web.clone(), Some(DnsService::Endpoints));
    view.set_slice(web, Some(slice));
    assert_eq!(view.serial(), 3);
    view.apply(DnsUpdate::Slices(Vec::new()));
    assert_eq!(view.serial(), 4);
}

proptest! {
    /// Whatever is asked: an answer, of bounded size, and nothing that is not in the view.
    #[test]
    fn any_question_has_a_bounded_answer(
        labels in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "web", "web-0", "shop", "svc", "pod", "cluster", "local", "_http", "_tcp",
                    "db", "alias", "loop", "10-88-0-2", "in-addr", "arpa", "2", "0", "88", "10", "",
                ]).prop_map(str::to_owned),
                ".{0,8}",
            ],
            0..9,
        ),
        zoned in any::<bool>(),
        turn in any::<u16>(),
    ) {
        let mut labels = labels;
        if zoned {
            labels.extend(["svc", "cluster", "local"].map(str::to_owned));
        }
        for wanted in [RecordQuery::A, RecordQuery::Srv, RecordQuery::Ptr, RecordQuery::Cname, RecordQuery::Other] {
            let question = DnsQuestion { labels: labels.clone(), wanted };
            match reply(&view(), &zone(), &question, turn) {
                DnsReply::Answer(answer) => prop_assert!(answer.records.len() <= 16),
                DnsReply::Alias { chain, .. } => prop_assert!(chain.len() <= ALIASES_MAX),
                DnsReply::NotOurs => prop_assert!(!zoned),
            }
        }
    }
}
