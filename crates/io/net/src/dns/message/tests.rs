//! Bytes in and out, and any bytes.

use proptest::prelude::*;

use super::super::answer::TTL_S;
use super::*;

/// A query of a client.
fn query(name: &str, rtype: Rtype, udp_bytes: Option<u16>) -> Vec<u8> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(0x1234);
    message.header_mut().set_rd(true);
    let mut question = message.question();
    question.push((Name::vec_from_str(name).unwrap(), rtype)).unwrap();
    let mut additional = question.additional();
    if let Some(udp_bytes) = udp_bytes {
        let opt = additional.opt(|opt| {
            opt.set_udp_payload_size(udp_bytes);
            Ok(())
        });
        opt.unwrap();
    }
    additional.finish()
}

fn read_query(bytes: &[u8]) -> DnsQuery {
    match read(bytes) {
        IncomingMessage::Query(query) => *query,
        other => panic!("{other:?}"),
    }
}

fn parsed(bytes: &[u8]) -> Message<&[u8]> {
    Message::from_octets(bytes).unwrap()
}

fn address(number: u16) -> DnsRecord {
    let [high, low] = number.to_be_bytes();
    let address = IpAddr::from([10, 88, high, low]);
    DnsRecord { owner: RecordOwner::Asked, ttl_s: TTL_S, data: RecordData::Address(address) }
}

fn of_records(records: Vec<DnsRecord>) -> DnsAnswer {
    DnsAnswer { code: ResponseCode::NoError, records, additional: Vec::new(), authority: None }
}

fn rcode(incoming: IncomingMessage) -> Rcode {
    match incoming {
        IncomingMessage::Wrong(bytes) => {
            assert!(parsed(&bytes).header().qr() && parsed(&bytes).header().id() == 0x1234);
            parsed(&bytes).header().rcode()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_repeats_the_question_as_it_was_written() {
    let bytes = query("Web.SHOP.svc.cluster.local", Rtype::A, None);
    let query = read_query(&bytes);
    assert_eq!(query.question.labels.join("."), "web.shop.svc.cluster.local");
    assert_eq!(query.question.wanted, RecordQuery::A);
    let answer = query.answer(&of_records(vec![address(1), address(2)]), DnsTransport::Udp);
    let answer = parsed(&answer);
    assert!(answer.is_answer(&parsed(&bytes)));
    let header = answer.header();
    assert!(header.aa() && header.rd() && header.ra() && !header.tc());
    let asked = answer.sole_question().unwrap();
    assert_eq!(asked.qname().to_string(), "Web.SHOP.svc.cluster.local");
    assert_eq!(answer.header_counts().ancount(), 2);
    assert_eq!(answer.as_slice().len(), bytes.len() + 2 * 16, "names are not repeated");
    assert!(answer.opt().is_none(), "nobody spoke EDNS");
}

#[test]
fn who_is_told_nothing_is_told_for_how_long() {
    let query = read_query(&query("no.shop.svc.cluster.local", Rtype::A, Some(4096)));
    let data = RecordData::Authority {
        server: "ns.dns.cluster.local".to_owned(),
        mailbox: "hostmaster.cluster.local".to_owned(),
        serial: 7,
    };
    let owner = RecordOwner::Name("cluster.local".to_owned());
    let authority = Some(DnsRecord { owner, ttl_s: TTL_S, data });
    let answer = DnsAnswer { authority, ..DnsAnswer::bare(ResponseCode::NoName) };
    let bytes = query.answer(&answer, DnsTransport::Udp);
    let message = parsed(&bytes);
    assert_eq!(message.header().rcode(), Rcode::NXDOMAIN);
    let soa = message.authority().unwrap().limit_to::<Soa<_>>().next().unwrap().unwrap();
    assert_eq!((soa.ttl().as_secs(), soa.data().minimum().as_secs()), (5, 5));
    assert_eq!(soa.owner().to_string(), "cluster.local");
    assert_eq!(message.opt().unwrap().udp_payload_size(), 1232);
}

#[test]
fn what_does_not_fit_over_udp_is_said_to_be_missing() {
    let many: Vec<DnsRecord> = (0..2000).map(address).collect();
    for (udp_bytes, limit) in
        [(None, 512), (Some(100), 512), (Some(700), 700), (Some(65_535), 1232)]
    {
        let query = read_query(&query("web.shop.svc.cluster.local", Rtype::A, udp_bytes));
        let bytes = query.answer(&of_records(many.clone()), DnsTransport::Udp);
        assert!(parsed(&bytes).header().tc(), "{udp_bytes:?}");
        assert!(bytes.len() <= limit && bytes.len() > limit - 40, "{} of {limit}", bytes.len());
        assert_eq!(parsed(&bytes).opt().is_some(), udp_bytes.is_some());
        let over_tcp = query.answer(&of_records(many.clone()), DnsTransport::Tcp);
        assert!(!parsed(&over_tcp).header().tc());
        assert_eq!(parsed(&over_tcp).header_counts().ancount(), 2000);
    }
    let query = read_query(&query("web.shop.svc.cluster.local", Rtype::A, None));
    let most: Vec<DnsRecord> = (0..u16::MAX).map(address).collect();
    let bytes = query.answer(&of_records(most), DnsTransport::Tcp);
    assert!(bytes.len() <= 65_535 && !parsed(&bytes).header().tc());
}

#[test]
fn what_is_no_question_is_refused_by_its_kind() {
    let good = query("web.shop.svc.cluster.local", Rtype::A, Some(1232));
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        read(&bytes)
    };
    assert!(matches!(with(|bytes| bytes[2] |= 0x80), IncomingMessage::Nothing), "an answer");
    assert!(matches!(with(|bytes| bytes.truncate(11)), IncomingMessage::Nothing), "no header");
    assert_eq!(rcode(with(|bytes| bytes[2] |= 0x28)), Rcode::NOTIMP, "an update");
    assert_eq!(rcode(with(|bytes| bytes[5] = 2)), Rcode::FORMERR, "two questions");
    assert_eq!(rcode(with(|bytes| bytes[5] = 0)), Rcode::FORMERR, "none");
    assert_eq!(rcode(with(|bytes| bytes[7] = 1)), Rcode::FORMERR, "an answer in a question");
    assert_eq!(rcode(with(|bytes| bytes[11] = 9)), Rcode::FORMERR, "too much beside it");
    assert_eq!(rcode(with(|bytes| bytes.truncate(20))), Rcode::FORMERR, "half a question");
    assert_eq!(rcode(read(&query("cluster.local", Rtype::AXFR, None))), Rcode::REFUSED);
    let mut chaos = query("version.bind", Rtype::TXT, None);
    *chaos.last_mut().unwrap() = 3;
    assert_eq!(rcode(read(&chaos)), Rcode::REFUSED);
    let mut later = query("web.shop.svc.cluster.local", Rtype::A, Some(1232));
    let version = later.len() - 5;
    later[version] = 1;
    let IncomingMessage::Wrong(bytes) = read(&later) else { panic!("it was taken") };
    assert_eq!(parsed(&bytes).opt_rcode(), OptRcode::BADVERS);
}

#[test]
fn types_that_nobody_knows_are_questions_too() {
    let bytes = query("web.shop.svc.cluster.local", Rtype::from_int(65_280), None);
    assert_eq!(read_query(&bytes).question.wanted, RecordQuery::Other);
}

#[test]
fn another_server_is_asked_the_same_under_another_number() {
    let bytes = query("www.Example.com", Rtype::MX, Some(4096));
    let query = read_query(&bytes);
    let asked = query.to_upstream(77, None).unwrap();
    let message = parsed(&asked);
    assert_eq!(message.header().id(), 77);
    assert!(message.header().rd() && !message.header().qr());
    let question = message.sole_question().unwrap();
    assert_eq!(
        (question.qname().to_string().as_str(), question.qtype()),
        ("www.Example.com", Rtype::MX)
    );
    assert_eq!(message.opt().unwrap().udp_payload_size(), 1232, "no more than passes on");
    let other = query.to_upstream(78, Some("db.example.com")).unwrap();
    assert_eq!(parsed(&other).sole_question().unwrap().qname().to_string(), "db.example.com");
    assert!(query.to_upstream(79, Some(&"x".repeat(64))).is_none(), "no name");
}

/// What another server answers.
fn theirs(question: &[u8], name: &str, records: u8) -> Vec<u8> {
    let mut message = MessageBuilder::from_target(StaticCompressor::new(Vec::new())).unwrap();
    *message.header_mut() = parsed(question).header();
    message.header_mut().set_qr(true);
    let mut asked = message.question();
    asked.push(parsed(question).sole_question().unwrap()).unwrap();
    let mut answer = asked.answer();
    let name: Name<Vec<u8>> = Name::vec_from_str(name).unwrap();
    let canonical: Name<Vec<u8>> = Name::vec_from_str(&format!("real.{name}")).unwrap();
    answer.push((&name, 60, Cname::new(canonical.clone()))).unwrap();
    for number in 0..records {
        answer.push((&canonical, 60, A::from_octets(192, 0, 2, number))).unwrap();
    }
    answer.finish().into_target()
}

#[test]
fn an_answer_of_another_server_goes_on_as_it_is_or_is_said_to_be_too_long() {
    let bytes = query("example.com", Rtype::A, None);
    let query = read_query(&bytes);
    let asked = query.to_upstream(9, None).unwrap();
    let short = theirs(&asked, "example.com", 2);
    let passed = query.pass_on(short.clone(), DnsTransport::Udp);
    assert!(parsed(&passed).is_answer(&parsed(&bytes)));
    assert_eq!(passed[2..], short[2..]);
    let long = theirs(&asked, "example.com", 100);
    let cut = query.pass_on(long.clone(), DnsTransport::Udp);
    assert!(parsed(&cut).header().tc() && parsed(&cut).is_answer(&parsed(&bytes)));
    assert_eq!(parsed(&cut).header_counts().ancount(), 0);
    assert_eq!(query.pass_on(long.clone(), DnsTransport::Tcp).len(), long.len());
}

#[test]
fn a_service_with_another_name_is_answered_with_both() {
    let bytes = query("db.shop.svc.cluster.local", Rtype::A, None);
    let query = read_query(&bytes);
    let asked = query.to_upstream(9, Some("example.com")).unwrap();
    let data = RecordData::Alias("example.com".to_owned());
    let chain = [DnsRecord { owner: RecordOwner::Asked, ttl_s: TTL_S, data }];
    let whole = query.continue_with(&chain, &theirs(&asked, "example.com", 2), DnsTransport::Udp);
    let message = parsed(&whole);
    assert!(message.is_answer(&parsed(&bytes)));
    let records: Vec<String> = message
        .answer()
        .unwrap()
        .map(|record| {
            let record = record.unwrap();
            format!("{} {}", record.owner(), record.rtype())
        })
        .collect();
    assert_eq!(
        records,
        [
            "db.shop.svc.cluster.local CNAME",
            "example.com CNAME",
            "real.example.com A",
            "real.example.com A"
        ]
    );
    let cut = query.continue_with(&chain, &theirs(&asked, "example.com", 100), DnsTransport::Udp);
    assert!(parsed(&cut).header().tc() && cut.len() <= 512);
    let garbage = query.continue_with(&chain, &[0xff; 40], DnsTransport::Udp);
    assert_eq!(parsed(&garbage).header().rcode(), Rcode::SERVFAIL);
}

proptest! {
    /// Any bytes are a query, or are answered shortly, or not at all.
    #[test]
    fn any_bytes_have_a_short_answer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes)?;
    }

    /// The same for what nearly is one.
    #[test]
    fn a_damaged_query_has_a_short_answer_or_none(
        name in "[a-z0-9_-]{1,20}(\\.[a-z0-9_-]{1,20}){0,5}",
        edns in prop::option::of(any::<u16>()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = query(&name, Rtype::A, edns);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(len.index(bytes.len()));
        }
        check(&bytes)?;
    }

    /// What another server says makes nothing worse than a failure.
    #[test]
    fn any_answer_of_another_server_is_carried_within_the_limit(
        mut bytes in prop::collection::vec(any::<u8>(), 12..900),
        udp_bytes in prop::option::of(any::<u16>()),
    ) {
        let asked = query("db.shop.svc.cluster.local", Rtype::A, udp_bytes);
        let query = read_query(&asked);
        let limit = query.bytes_max(DnsTransport::Udp);
        bytes[4..12].copy_from_slice(&[0, 1, 0, 3, 0, 0, 0, 0]);
        prop_assert!(query.continue_with(&[], &bytes, DnsTransport::Udp).len() <= limit);
        let passed = query.pass_on(bytes, DnsTransport::Udp);
        prop_assert!(passed.len() <= limit);
        prop_assert_eq!(&passed[..2], &asked[..2]);
    }
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    match read(bytes) {
        IncomingMessage::Nothing => {}
        // never longer than what came, but for what says who answers
        IncomingMessage::Wrong(answer) => prop_assert!(answer.len() <= bytes.len() + OPT_BYTES),
        IncomingMessage::Query(query) => {
            prop_assert!(query.question.labels.len() <= 127);
            let answer = query.answer(&of_records(vec![address(1); 100]), DnsTransport::Udp);
            prop_assert!(answer.len() <= 1232);
            prop_assert!(parsed(&answer).sole_question().is_ok());
        }
    }
    Ok(())
}
