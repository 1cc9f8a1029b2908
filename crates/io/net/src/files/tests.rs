use super::*;
use expect_test::expect;

const POD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 88, 0, 2));

fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn host() -> ResolvConf {
    parse_resolv_conf(
        "# the host\nnameserver 192.0.2.1\nsearch example.org lan ; twice\noptions ndots:1 edns0\n",
    )
}

#[test]
fn hosts_looks_as_the_kubelet_writes_it() {
    let aliases = [HostAlias { ip: "10.0.0.9".into(), hostnames: list(&["db", "db.lan"]) }];
    let text = hosts(&[POD], "web-0", Some("web.shop.svc.cluster.local"), &aliases);
    expect![[r#"
        # Kubernetes-managed hosts file.
        127.0.0.1	localhost
        ::1	localhost ip6-localhost ip6-loopback
        fe00::0	ip6-localnet
        fe00::0	ip6-mcastprefix
        fe00::1	ip6-allnodes
        fe00::2	ip6-allrouters
        10.88.0.2	web-0.web.shop.svc.cluster.local	web-0

        # Entries added by HostAliases.
        10.0.0.9	db	db.lan
    "#]]
    .assert_eq(&text.unwrap());
    let second = "fd00::a58:2".parse().unwrap();
    let both = hosts(&[POD, second], "web-0", Some("web.shop"), &[]).unwrap();
    let end = "10.88.0.2\tweb-0.web.shop\tweb-0\nfd00::a58:2\tweb-0.web.shop\tweb-0\n";
    assert!(both.ends_with(end), "{both}");
    let plain = hosts(&[POD], "web-0", None, &[]).unwrap();
    assert!(plain.ends_with("\n10.88.0.2\tweb-0\n"), "{plain}");
    assert_eq!(hostname("web-0").unwrap(), "web-0\n");
}

#[test]
fn dns_policies_follow_the_api_reference() {
    let cluster =
        ClusterDnsConfig { nameservers: list(&["10.96.0.10"]), domain: "cluster.local".into() };
    let config = DnsConfig {
        nameservers: list(&["192.0.2.1", "9.9.9.9"]),
        searches: list(&["lan", "extra"]),
        options: vec![("ndots".into(), Some("2".into())), ("use-vc".into(), None)],
    };
    let text = |policy, config: &DnsConfig, cluster| {
        let pod = pod_resolver(policy, "shop", config, &host(), cluster);
        assert_eq!(pod.omitted, Vec::<String>::new());
        resolv_conf(&pod.resolver).unwrap()
    };
    let empty = DnsConfig::default();
    let default = "search example.org lan\nnameserver 192.0.2.1\noptions ndots:1 edns0\n";
    assert_eq!(text(DnsPolicy::Default, &empty, Some(&cluster)), default);
    assert_eq!(text(DnsPolicy::ClusterFirst, &empty, None), default, "no cluster DNS: as Default");
    assert_eq!(
        text(DnsPolicy::ClusterFirst, &empty, Some(&cluster)),
        "search shop.svc.cluster.local svc.cluster.local cluster.local example.org lan\nnameserver 10.96.0.10\noptions ndots:5\n"
    );
    assert_eq!(
        text(DnsPolicy::Default, &config, None),
        "search example.org lan extra\nnameserver 192.0.2.1\nnameserver 9.9.9.9\noptions edns0 ndots:2 use-vc\n"
    );
    assert_eq!(
        text(DnsPolicy::None, &config, None),
        "search lan extra\nnameserver 192.0.2.1\nnameserver 9.9.9.9\noptions ndots:2 use-vc\n"
    );
    assert_eq!(text(DnsPolicy::None, &empty, None), "");
}

#[test]
fn what_resolvers_would_not_read_is_left_out_and_told() {
    let config = DnsConfig {
        nameservers: list(&["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]),
        searches: (0..40).map(|i| format!("d{i}")).collect(),
        options: Vec::new(),
    };
    let pod = pod_resolver(DnsPolicy::None, "shop", &config, &host(), None);
    assert_eq!(pod.resolver.nameservers.len(), 3);
    assert_eq!(pod.resolver.searches.len(), 32);
    assert!(pod.omitted[0].ends_with("line is: 1.1.1.1 2.2.2.2 3.3.3.3"), "{:?}", pod.omitted);
    assert!(pod.omitted[1].ends_with(" d30 d31"), "{:?}", pod.omitted);
    let long =
        DnsConfig { searches: vec!["x".repeat(1500), "y".repeat(1500)], ..DnsConfig::default() };
    assert_eq!(
        pod_resolver(DnsPolicy::None, "shop", &long, &host(), None).resolver.searches.len(),
        1
    );
}

#[test]
fn values_cannot_break_out_of_their_line() {
    for bad in ["", "a b", "a\n127.0.0.1", "a\tb", "a\u{0}", "a\u{2028}b"] {
        let alias = HostAlias { ip: "10.0.0.1".into(), hostnames: list(&[bad]) };
        let error = hosts(&[POD], "web", None, &[alias]).unwrap_err().to_string();
        assert!(error.starts_with("hostAliases.hostnames: "), "{error}");
        assert!(hostname(bad).is_err());
        let resolver = ResolvConf { options: list(&[bad]), ..ResolvConf::default() };
        assert!(resolv_conf(&resolver).is_err(), "{bad:?}");
    }
}

#[test]
fn a_manifest_cannot_fill_the_disk_through_these_files() {
    let alias = HostAlias { ip: "10.0.0.1".into(), hostnames: vec!["x".repeat(200); 2000] };
    let error = hosts(&[POD], "web", None, &[alias]).unwrap_err();
    assert!(matches!(error, FileError::TooLarge { file: "/etc/hosts", .. }), "{error}");
}

#[test]
fn a_stub_resolver_on_the_loopback_is_seen_through() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    assert_eq!(resolver_below(dir.path()).unwrap(), ResolvConf::default());
    write("etc/resolv.conf", "nameserver 127.0.0.53\n");
    assert_eq!(
        resolver_below(dir.path()).unwrap().nameservers,
        ["127.0.0.53"],
        "nothing better is known"
    );
    write("run/systemd/resolve/resolv.conf", "nameserver 192.0.2.53\n");
    assert_eq!(resolver_below(dir.path()).unwrap().nameservers, ["192.0.2.53"]);
    write("etc/resolv.conf", "nameserver 127.0.0.53\nnameserver 192.0.2.1\n");
    assert_eq!(resolver_below(dir.path()).unwrap().nameservers.len(), 2);
}

#[test]
fn a_pod_on_the_hosts_network_has_the_hosts_names_and_its_aliases() {
    let aliases = [HostAlias { ip: "10.1.2.3".into(), hostnames: vec!["db".into()] }];
    assert_eq!(
        hosts_of_host("127.0.0.1 localhost\n10.0.0.9 me", &aliases).unwrap(),
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n10.0.0.9 me\n\n\
         # Entries added by HostAliases.\n10.1.2.3\tdb\n"
    );
    assert_eq!(
        hosts_of_host("", &[]).unwrap(),
        "# Kubernetes-managed hosts file (host network).\n"
    );
}

#[test]
fn a_very_long_hosts_file_is_cut_at_the_end_of_a_line() {
    let line = "0.0.0.0 w\u{e9}rbung.example\n";
    let text = hosts_of_host(&line.repeat(HOST_HOSTS_MAX_BYTES / line.len() + 5), &[]).unwrap();
    let (_header, copied) = text.split_once('\n').unwrap();
    assert_eq!(copied, line.repeat(HOST_HOSTS_MAX_BYTES / line.len()));
}
