//! Which sources may connect to a frontend.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use rekindle_services::{RuleElement, RuleElements, SourceRange};

use super::support::{HOST_OUTSIDE, Machine, connect, pod_ip, service, table_with, tcp};
use crate::support::Namespace;

/// A port of the machine that leads to a pod, for these sources.
fn guarded(sources: &[&str]) -> RuleElements {
    let port = tcp("0.0.0.0:8000");
    let sources = sources.iter().map(|range| SourceRange::parse(range).unwrap());
    let sources = sources.map(|range| RuleElement::Source(port, range));
    let mut elements = service(port, &[0]);
    elements.insert(RuleElement::Guarded(port));
    elements.extend(sources);
    elements
}

/// Whether a connection is made. What is dropped is not answered at all.
fn answers(from: &Namespace, to: &str) -> bool {
    let soon = Duration::from_millis(300);
    match from.inside(|| TcpStream::connect_timeout(&to.parse().unwrap(), soon)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            false
        }
    }
}

#[test]
fn only_the_sources_of_a_guarded_frontend_connect() {
    let machine = Machine::new(2);
    machine.serve_tcp();
    machine.host.block_on(|| async {
        let to = format!("{HOST_OUTSIDE}:8000");
        let table = table_with(&guarded(&["192.0.2.0/24"])).await;
        assert_eq!(connect(&machine.outside, &to).unwrap().pod, 0);
        assert!(!answers(&machine.pods[1], &to));
        // a longer prefix of the same first address is another range
        for (sources, outside, pod) in [
            (vec!["192.0.2.0/31"], false, false),
            (vec!["192.0.2.2/32"], true, false),
            (vec!["0.0.0.0/0"], true, true),
            (vec!["10.88.0.0/16", "198.51.100.0/24"], false, true),
            (vec![], false, false),
        ] {
            table.replace(&guarded(&sources)).await.unwrap();
            for (client, may) in [(&machine.outside, outside), (&machine.pods[1], pod)] {
                assert_eq!(answers(client, &to), may, "{sources:?}");
            }
        }
        // the pod itself is not guarded
        connect(&machine.pods[1], &format!("{}:8080", pod_ip(0))).unwrap();
        table.remove().await.unwrap();
    });
}
