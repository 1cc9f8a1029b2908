use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::Decode;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, KeyPair, SanType,
};
use rekindle_kinds::certificate_signing_request::CertificateRequest;
use rekindle_types::{ObjectJson, Tick, TickDuration};
use serde_json::{Value, json};
use x509_cert::Certificate;
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage, SubjectAltName};

use super::*;

/// 2026-11-18T11:06:40Z.
const NOW: Tick = Tick::from_secs(1_795_000_000);
const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

fn seconds(seconds: u64) -> TickDuration {
    TickDuration::from_secs(seconds)
}

/// A request of this subject, PEM.
fn pem(common_name: &str, organization: Option<&str>, names: &[SanType]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.subject_alt_names = names.to_vec();
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn address() -> SanType {
    SanType::IpAddress([10, 0, 0, 1].into())
}

fn email() -> SanType {
    SanType::Rfc822Name("a@example.com".try_into().unwrap())
}

fn uri() -> SanType {
    SanType::URI("spiffe://example.com/a".try_into().unwrap())
}

fn approved(signer: &str, usages: &[&str], pem: &str) -> CertificateSigningRequest {
    signing_request(json!({
        "metadata": {"name": "one", "creationTimestamp": NOW.to_time()},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": usages},
        "status": {"conditions": [condition("Approved", NOW)]},
    }))
}

fn condition(type_: &str, at: Tick) -> Value {
    json!({"type": type_, "status": "True", "lastUpdateTime": at.to_time()})
}

fn signing_request(value: Value) -> CertificateSigningRequest {
    CertificateSigningRequest::from_json(value.to_string().as_bytes()).unwrap()
}

fn outcome(request: &CertificateSigningRequest) -> String {
    match decide(request, NOW) {
        SigningDecision::Leave => "leave".to_owned(),
        SigningDecision::Issue(_) => "issue".to_owned(),
        SigningDecision::Fail(why) => why,
        SigningDecision::Remove => "remove".to_owned(),
    }
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const NODE: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

#[test]
fn a_signer_signs_what_its_rules_allow_and_says_what_they_do_not() {
    let client = ["client auth"];
    let node = ["digital signature", "client auth"];
    let serving = ["digital signature", "key encipherment", "server auth"];
    let nodes = Some("system:nodes");
    let name = "system:node:a";
    let cases: &[(&str, &[&str], String, &str)] = &[
        (CLIENT, &client, pem("ann", Some("dev"), &[]), "issue"),
        (CLIENT, &["client auth", "key encipherment"], pem("ann", None, &[]), "issue"),
        (
            CLIENT,
            &["client auth", "server auth"],
            pem("ann", None, &[]),
            "invalid usage for client certificate: server auth",
        ),
        (
            CLIENT,
            &["digital signature"],
            pem("ann", None, &[]),
            "missing required usage for client certificate: client auth",
        ),
        (
            CLIENT,
            &["client auth", "cert sign"],
            pem("ann", None, &[]),
            "invalid usage for client certificate: cert sign",
        ),
        (NODE, &node, pem(name, nodes, &[]), "issue"),
        (NODE, &node, pem(name, Some("dev"), &[]), "subject organization is not system:nodes"),
        (NODE, &node, pem(name, None, &[]), "subject organization is not system:nodes"),
        (
            NODE,
            &node,
            pem("ann", nodes, &[]),
            "subject common name does not begin with system:node:",
        ),
        (NODE, &node, pem(name, nodes, &[dns("a")]), "DNS subjectAltNames are not allowed"),
        (
            NODE,
            &node,
            pem(name, nodes, &[uri(), address(), email(), dns("a")]),
            "DNS subjectAltNames are not allowed",
        ),
        (NODE, &node, pem(name, nodes, &[address()]), "IP subjectAltNames are not allowed"),
        (
            NODE,
            &["digital signature", "client auth", "key encipherment"],
            pem(name, nodes, &[]),
            "issue",
        ),
        (
            NODE,
            &client,
            pem("ann", nodes, &[]),
            "subject common name does not begin with system:node:",
        ),
        (
            NODE,
            &client,
            pem(name, nodes, &[]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (SERVING, &serving, pem(name, nodes, &[dns("a"), address()]), "issue"),
        (SERVING, &serving, pem(name, nodes, &[]), "DNS or IP subjectAltName is required"),
        (
            SERVING,
            &serving,
            pem(name, nodes, &[dns("a"), email()]),
            "Email subjectAltNames are not allowed",
        ),
        (
            SERVING,
            &serving,
            pem(name, nodes, &[dns("a"), uri()]),
            "URI subjectAltNames are not allowed",
        ),
        (
            SERVING,
            &node,
            pem(name, nodes, &[dns("a")]),
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            SERVING,
            &node,
            pem("ann", nodes, &[dns("a")]),
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            SERVING,
            &serving,
            pem("ann", nodes, &[dns("a")]),
            "subject common name does not begin with system:node:",
        ),
        ("example.com/mine", &client, pem("ann", None, &[]), "leave"),
    ];
    for (signer, usages, pem, expected) in cases {
        assert_eq!(outcome(&approved(signer, usages, pem)), *expected, "{signer} {usages:?}");
    }
}

#[test]
fn only_what_is_approved_and_open_is_signed() {
    let request = || approved(CLIENT, &["client auth"], &pem("ann", None, &[]));
    assert_eq!(outcome(&request()), "issue");
    for conditions in [
        json!([]),
        json!([condition("Denied", NOW)]),
        json!([condition("Approved", NOW), condition("Denied", NOW)]),
        json!([condition("Approved", NOW), condition("Failed", NOW)]),
        json!([{"type": "Other", "status": "True"}]),
    ] {
        let mut value = request().to_value();
        value["status"]["conditions"] = conditions.clone();
        assert_eq!(outcome(&signing_request(value)), "leave", "{conditions}");
    }
    let mut value = request().to_value();
    value["status"]["certificate"] = json!(STANDARD.encode("x"));
    assert_eq!(outcome(&signing_request(value)), "leave", "issued");
    let mut value = request().to_value();
    value["metadata"]["deletionTimestamp"] = json!(NOW.to_time());
    assert_eq!(outcome(&signing_request(value)), "leave", "going");
}

#[test]
fn requests_go_by_themselves_after_the_times_of_upstream() {
    let certificate = STANDARD.encode("x");
    for (status, hours) in [
        (json!({}), 24),
        (json!({"conditions": [condition("Denied", NOW)]}), 1),
        (json!({"conditions": [condition("Approved", NOW)]}), 24),
        (json!({"conditions": [condition("Approved", NOW)], "certificate": certificate}), 1),
        (json!({"conditions": [condition("Approved", NOW), condition("Failed", NOW)]}), 1),
    ] {
        let request = signing_request(json!({
            "metadata": {"name": "one", "creationTimestamp": NOW.to_time()},
            "spec": {"request": "", "signerName": "example.com/mine"},
            "status": status,
        }));
        let mut agenda = SigningAgenda::default();
        agenda.note(&request, NOW);
        let due = NOW + seconds(hours * HOUR);
        assert_eq!(agenda.next(), Some(due), "{status}");
        let before = due - seconds(1);
        assert_eq!(agenda.take_due(before), None);
        assert!(matches!(decide(&request, before), SigningDecision::Leave), "{status}");
        assert_eq!(agenda.take_due(due).as_deref(), Some("one"));
        assert!(matches!(decide(&request, due), SigningDecision::Remove), "{status}");
        assert_eq!(agenda.next(), None);
    }
}

#[test]
fn a_failed_write_is_tried_again_in_thirty_seconds_however_often_it_is_noted() {
    let request = approved(CLIENT, &["client auth"], "");
    let mut agenda = SigningAgenda::default();
    for second in 0..3 {
        agenda.note_failure(&request, NOW + seconds(second));
    }
    assert_eq!(agenda.next(), Some(NOW + seconds(32)));
    assert_eq!(agenda.take_due(NOW + seconds(32)).as_deref(), Some("one"));
    assert_eq!(agenda.next(), None);
    // one that is still there long after its time is not looked at without a pause
    let late = NOW + seconds(1_000_000);
    agenda.note(&request, late);
    assert_eq!(agenda.next(), Some(late + seconds(30)));
    agenda.forget("one");
    assert_eq!(agenda.next(), None);
}

#[test]
fn a_subject_that_readers_may_read_differently_is_not_signed() {
    let request = |dn: DistinguishedName| {
        let mut params = CertificateParams::default();
        params.distinguished_name = dn;
        let text = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        outcome(&approved(CLIENT, &["client auth"], &text))
    };
    let mut masters = DistinguishedName::new();
    masters.push(DnType::CommonName, "ann");
    masters.push(DnType::OrganizationName, "system:masters");
    assert_eq!(request(masters), "subject organization system:masters is not allowed");
    let mut wide = DistinguishedName::new();
    let text = rcgen::string::BmpString::try_from("admin").unwrap();
    wide.push(DnType::CommonName, DnValue::BmpString(text));
    let why = "a name in the subject is no UTF8String, PrintableString or IA5String";
    assert_eq!(request(wide), why);
    // another spelling of the same attribute
    let mut two = DistinguishedName::new();
    two.push(DnType::CommonName, "admin");
    two.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "ann");
    assert_eq!(request(two), "the subject has more than one common name");
}

/// A CA that is good for so many days, and its key.
fn authority(days: u64) -> (CertificateIssuer, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let end = NOW + seconds(days * DAY);
    params.not_after = std::time::UNIX_EPOCH
        .checked_add(std::time::Duration::from_micros(end.as_micros()))
        .unwrap()
        .into();
    let issuer = CertificateIssuer::from_pem(&params.self_signed(&key).unwrap().pem()).unwrap();
    (issuer, key)
}

fn issued(
    (issuer, key): &(CertificateIssuer, KeyPair),
    request: &CertificateSigningRequest,
) -> Certificate {
    let SigningDecision::Issue(order) = decide(request, NOW) else {
        panic!("{}", outcome(request))
    };
    let sign =
        |message: &[u8]| rcgen::SigningKey::sign(key, message).map_err(|error| error.to_string());
    let text = issuer.issue(&order, [0xff; 16], NOW, sign).unwrap();
    Certificate::from_der(::pem::parse(text).unwrap().contents()).unwrap()
}

fn lifetime(certificate: &Certificate) -> (u64, u64) {
    let validity = certificate.tbs_certificate().validity();
    let second = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
    let now = NOW.as_micros() / 1_000_000;
    (now - second(validity.not_before), second(validity.not_after) - now)
}

#[test]
fn a_certificate_has_the_subject_key_names_and_uses_of_its_request() {
    let authority = authority(3650);
    let pem = pem("system:node:a", Some("system:nodes"), &[dns("a.example.com"), address()]);
    let usages = ["digital signature", "key encipherment", "server auth"];
    let certificate = issued(&authority, &approved(SERVING, &usages, &pem));
    let asked = CertificateRequest::parse(pem.as_bytes()).unwrap();
    let body = certificate.tbs_certificate();
    assert_eq!(body.subject(), asked.subject());
    assert_eq!(body.subject_public_key_info(), asked.public_key());
    let (_, SubjectAltName(names)) = body.get_extension().unwrap().unwrap();
    assert_eq!(names, asked.alternative_names());
    assert_eq!(names.len(), 2);
    let (critical, usage) = body.get_extension::<KeyUsage>().unwrap().unwrap();
    assert!(critical && usage.digital_signature() && usage.key_encipherment());
    assert!(!usage.key_cert_sign());
    let (_, ExtendedKeyUsage(purposes)) = body.get_extension().unwrap().unwrap();
    assert_eq!(purposes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1.3.6.1.5.5.7.3.1"]);
    let (_, constraints) =
        body.get_extension::<x509_cert::ext::pkix::BasicConstraints>().unwrap().unwrap();
    assert!(!constraints.ca);
    assert_eq!(body.serial_number().as_bytes().len(), 16);
    assert_eq!(certificate.signature_algorithm(), body.signature());
}

/// What only the CA may say is not taken over: a request that asks to be a CA gets no CA.
#[test]
fn other_extensions_of_a_request_are_left_out() {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "ann");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let certificate = issued(&authority(3650), &approved(CLIENT, &["client auth"], &pem));
    let body = certificate.tbs_certificate();
    let (_, constraints) =
        body.get_extension::<x509_cert::ext::pkix::BasicConstraints>().unwrap().unwrap();
    assert!(!constraints.ca);
}

#[test]
fn a_certificate_lasts_as_asked_at_most_a_year_and_never_longer_than_its_ca() {
    let request = |expiration: Option<i32>| {
        let mut request = approved(CLIENT, &["client auth"], &pem("ann", None, &[]));
        request.spec.expiration_seconds = expiration;
        request
    };
    for (days, expiration, lasts) in [
        (3650, None, 365 * DAY - 300),
        (3650, Some(10 * 365 * 24 * 3600), 365 * DAY - 300),
        (3650, Some(8 * 3600), 8 * HOUR - 300),
        (3650, Some(3600), HOUR),
        (3650, Some(1), 600),
        (30, None, 30 * DAY),
    ] {
        let certificate = issued(&authority(days), &request(expiration));
        assert_eq!(lifetime(&certificate), (300, lasts), "{days} {expiration:?}");
    }
    let (issuer, _) = authority(0);
    let SigningDecision::Issue(order) = decide(&request(None), NOW) else { panic!() };
    let error = issuer.issue(&order, [1; 16], NOW, |_| Ok(Vec::new())).unwrap_err();
    assert_eq!(error.to_string(), "the certificate of the CA has expired");
}
