//! Firewalls of others that drop what pods send.

use std::io::Write;

use rekindle_net::rules::{DroppingFirewall, dropping_firewalls};
use rekindle_types::IpStack;

use super::support::{BRIDGE, config, table_with};
use crate::support::Namespace;

const ONLY_IPV4: IpStack = IpStack::Single;

/// Replaces all rules of the namespace of the calling thread that no engine owns.
fn load(rules: &str) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // nft wants blocks on lines of their own; a set is written without spaces beside its braces
    let lines = rules.replace("{ ", "{\n ").replace(" }", "\n}\n");
    file.write_all(format!("flush ruleset\n{lines}").as_bytes()).unwrap();
    let loaded = std::process::Command::new("nft").arg("-f").arg(file.path()).status();
    assert!(loaded.unwrap().success(), "{rules}");
}

/// What is found then: each firewall with its remedy.
fn found_with(host: &Namespace, rules: &str, stack: IpStack) -> Vec<String> {
    host.inside(|| {
        load(rules);
        let found = dropping_firewalls(BRIDGE, stack).unwrap();
        found.iter().map(|found| format!("{found}: {}", found.remedy())).collect()
    })
}

/// Runs commands of a remedy in the namespace of the calling thread.
fn run(commands: &str) {
    let ran = std::process::Command::new("sh").args(["-ec", commands]).status().unwrap();
    assert!(ran.success(), "{commands}");
}

/// A base chain that drops what none of the rules accepts.
fn drops(hook: &str, rules: &str) -> String {
    let name = hook.to_uppercase();
    format!("chain {name} {{ type filter hook {hook} priority 0; policy drop; {rules} }}")
}

#[test]
fn a_firewall_that_drops_packets_of_pods_is_named_with_what_helps() {
    let host = Namespace::new();
    for (rules, expected) in [
        (
            format!("table ip filter {{ chain DOCKER-USER {{ }} {} }}", drops("forward", "jump DOCKER-USER;")),
            "Docker's firewall: iptables -I DOCKER-USER -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -o rktest0 -j ACCEPT",
        ),
        (
            format!("table ip filter {{ chain ufw-before-forward {{ }} {} }}", drops("forward", "")),
            "ufw: ufw route allow in on rktest0 && ufw route allow out on rktest0",
        ),
        (
            format!("table ip filter {{ chain ufw-before-input {{ }} {} }}", drops("input", "")),
            "ufw: ufw allow in on rktest0",
        ),
        (
            "table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; reject; } }".to_owned(),
            "firewalld: firewall-cmd --permanent --zone=trusted --add-interface=rktest0 && firewall-cmd --reload",
        ),
        (
            format!("table ip filter {{ chain DOCKER-USER {{ }} {} {} }}", drops("forward", ""), drops("input", "")),
            "Docker's firewall: iptables -I INPUT -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -i rktest0 -j ACCEPT \
             && iptables -I DOCKER-USER -o rktest0 -j ACCEPT",
        ),
        (
            format!("table ip filter {{ {} }}", drops("forward", "")),
            "a firewall of iptables: iptables -I FORWARD -i rktest0 -j ACCEPT && iptables -I FORWARD -o rktest0 -j ACCEPT",
        ),
        (
            format!("table inet mine {{ {} }}", drops("input", "")),
            "a firewall: accept packets from rktest0 in table inet mine",
        ),
        (
            format!("table inet mine {{ {} {} }}", drops("input", ""), drops("forward", "")),
            "a firewall: accept packets from rktest0 and forwarded packets from rktest0 and forwarded packets to rktest0 in table inet mine",
        ),
        (
            format!("table inet mine {{ {} }}", drops("forward", "")),
            "a firewall: accept forwarded packets from rktest0 and forwarded packets to rktest0 in table inet mine",
        ),
    ] {
        assert_eq!(found_with(&host, &rules, ONLY_IPV4), [expected], "{rules}");
    }
}

#[test]
fn what_fails_is_said_by_what_is_dropped() {
    let host = Namespace::new();
    for (rules, expected) in [
        (drops("forward", ""), "pods reach neither each other through Services nor the outside"),
        (drops("input", ""), "names do not resolve in pods and pods do not reach the API"),
        (
            format!("{} {}", drops("input", ""), drops("forward", "")),
            "names do not resolve in pods, and pods reach neither the API nor each other through Services nor the outside",
        ),
    ] {
        host.inside(|| load(&format!("table inet mine {{ {rules} }}")));
        let found = host.inside(|| dropping_firewalls(BRIDGE, ONLY_IPV4).unwrap());
        assert_eq!(found.iter().map(DroppingFirewall::effect).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn rules_that_let_the_bridge_through_count_and_others_do_not() {
    let from = "iifname \"rktest0\" accept;";
    let to = "oifname \"rktest0\" accept;";
    let (from_missing, to_missing) =
        ("iptables -I FORWARD -i rktest0 -j ACCEPT", "iptables -I FORWARD -o rktest0 -j ACCEPT");
    let both_missing = format!("{from_missing} && {to_missing}");
    let host = Namespace::new();
    for (forward, chains, expected) in [
        (format!("{from} {to}"), "", ""),
        (to.to_owned(), "", from_missing),
        (from.to_owned(), "", to_missing),
        // it decides for the bridge, but against it
        ("iifname \"rktest0\" drop; oifname \"rktest0\" reject;".to_owned(), "", &both_missing),
        // a part of the pods, or of what they send
        (format!("ip daddr 192.0.2.0/24 {from} ip saddr 192.0.2.0/24 {to}"), "", &both_missing),
        (format!("{from} tcp dport 80 {to}"), "", to_missing),
        (format!("ct state established {from} {to}"), "", from_missing),
        (format!("{from} ct state established {to}"), "", to_missing),
        // the bridge has a longer name, or another one
        (format!("iifname \"rktest01\" accept; {to}"), "", from_missing),
        ("iifname \"docker0\" accept; oifname \"docker0\" accept;".to_owned(), "", &both_missing),
        // all interfaces that are called so, or are not
        (format!("iifname \"rk*\" accept; {to}"), "", ""),
        (format!("{from} oifname != \"docker0\" accept;"), "", ""),
        (format!("{from} oifname != \"rktest0\" accept;"), "", to_missing),
        // only what goes from the bridge to one interface
        ("iifname \"rktest0\" oifname \"up0\" accept;".to_owned(), "", &both_missing),
        // sets and maps
        (format!("iifname {{\"a\", \"rktest0\"}} accept; {to}"), "", ""),
        (format!("iifname {{\"a\", \"rktest1\"}} accept; {to}"), "", from_missing),
        (format!("iifname {{\"a\", \"rktest0\"}} drop; {to}"), "", from_missing),
        (
            format!("iifname @pods accept; {to}"),
            "set pods { type ifname; elements = {\"rktest0\"}; }",
            "",
        ),
        (
            format!("iifname != @pods accept; {to}"),
            "set pods { type ifname; elements = {\"rktest0\"}; }",
            from_missing,
        ),
        (format!("iifname vmap {{\"a\" : drop, \"rktest0\" : accept}}; {to}"), "", ""),
        (format!("iifname vmap {{\"a\" : accept, \"rktest0\" : drop}}; {to}"), "", from_missing),
        // in chains that packets come to
        ("counter jump users;".to_owned(), &*format!("chain users {{ {from} {to} return; }}"), ""),
        (
            "goto users;".to_owned(),
            &*format!("chain users {{ jump pods; }} chain pods {{ {from} {to} }}"),
            "",
        ),
        (
            "jump users;".to_owned(),
            &*format!("chain users {{ return; {from} {to} }}"),
            &both_missing,
        ),
        (String::new(), &*format!("chain users {{ {from} {to} }}"), &both_missing),
        (
            format!("ct state new jump users; {to}"),
            &*format!("chain users {{ {from} }}"),
            from_missing,
        ),
        // a chain of the bridge's own decides, unless it only drops
        (
            format!("iifname \"rktest0\" jump pods; {to}"),
            "chain pods { ip daddr 192.0.2.1 accept; }",
            "",
        ),
        (
            format!("iifname \"rktest0\" goto pods; {to}"),
            "chain pods { tcp dport 53 accept; drop; }",
            "",
        ),
        (
            format!("iifname \"rktest0\" jump pods; {to}"),
            "chain pods { counter drop; }",
            from_missing,
        ),
        // not reached by packets of pods
        (format!("drop; {from} {to}"), "", &both_missing),
        (format!("jump none; {from} {to}"), "chain none { drop; }", &both_missing),
        // returns before it drops, for addresses that the rules do not say here: as in ufw
        (
            format!("jump not-local; {from} {to}"),
            "chain not-local { fib daddr type local return; drop; }",
            "",
        ),
    ] {
        let rules = format!("table ip filter {{ {chains} {} }}", drops("forward", &forward));
        let expected = Some(expected).filter(|expected| !expected.is_empty());
        let expected: Vec<String> =
            expected.iter().map(|remedy| format!("a firewall of iptables: {remedy}")).collect();
        assert_eq!(found_with(&host, &rules, ONLY_IPV4), expected, "{rules}");
    }
}

#[test]
fn what_is_for_the_node_and_what_is_forwarded_are_judged_separately() {
    let host = Namespace::new();
    let known = "iifname \"rktest0\" accept; oifname \"rktest0\" accept;";
    let docker = |input: &str, forward: &str| {
        let (input, forward) = (drops("input", input), drops("forward", forward));
        format!("table ip filter {{ chain DOCKER-USER {{ {known} }} {input} {forward} }}")
    };
    let found = found_with(&host, &docker("", "jump DOCKER-USER;"), ONLY_IPV4);
    assert_eq!(found, ["Docker's firewall: iptables -I INPUT -i rktest0 -j ACCEPT"]);
    let found = found_with(&host, &docker("jump DOCKER-USER;", ""), ONLY_IPV4);
    assert_eq!(
        found,
        [
            "Docker's firewall: iptables -I DOCKER-USER -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -o rktest0 -j ACCEPT"
        ]
    );
    let known = docker("jump DOCKER-USER;", "jump DOCKER-USER;");
    assert_eq!(found_with(&host, &known, ONLY_IPV4), [""; 0]);
    // another chain drops what the first lets go on
    let second = "chain late { type filter hook forward priority 5; policy drop; }";
    let rules = format!("table inet mine {{ {} {second} }}", drops("forward", "accept;"));
    assert_eq!(found_with(&host, &rules, ONLY_IPV4).len(), 1);
}

#[test]
fn tables_of_each_family_count_for_themselves_and_those_of_ipv6_only_with_dual_stack() {
    let host = Namespace::new();
    let known = "iifname \"rktest0\" accept; oifname \"rktest0\" accept;";
    let of_ipv4 = format!(
        "table ip filter {{ chain DOCKER-USER {{ {known} }} {} }}",
        drops("forward", "jump DOCKER-USER;")
    );
    let of_ipv6 = format!("table ip6 filter {{ chain DOCKER {{ }} {} }}", drops("forward", ""));
    let rules = format!("{of_ipv4} {of_ipv6}");
    assert_eq!(found_with(&host, &rules, ONLY_IPV4), [""; 0]);
    assert_eq!(
        found_with(&host, &rules, IpStack::Dual),
        [
            "Docker's firewall: ip6tables -I FORWARD -i rktest0 -j ACCEPT && ip6tables -I FORWARD -o rktest0 -j ACCEPT"
        ]
    );
    let with_user_chain = format!(
        "{of_ipv4} table ip6 filter {{ chain DOCKER-USER {{ }} {} {} }}",
        drops("forward", "jump DOCKER-USER;"),
        drops("input", "")
    );
    assert_eq!(
        found_with(&host, &with_user_chain, IpStack::Dual),
        [
            "Docker's firewall: ip6tables -I INPUT -i rktest0 -j ACCEPT && ip6tables -I DOCKER-USER -i rktest0 -j ACCEPT \
             && ip6tables -I DOCKER-USER -o rktest0 -j ACCEPT"
        ]
    );
    // frames that a bridge forwards, and ARP
    for family in ["bridge", "arp"] {
        let rules = format!("table {family} filter {{ {} }}", drops("input", ""));
        assert_eq!(found_with(&host, &rules, IpStack::Dual), [""; 0]);
    }
}

#[test]
fn the_remedy_ends_what_was_found() {
    let host = Namespace::new();
    let (input, forward) = (drops("input", ""), drops("forward", "jump DOCKER-USER;"));
    let users = "chain DOCKER-USER { counter return; }";
    for family in ["ip", "ip6"] {
        for chains in [format!("{users} {input} {forward}"), drops("forward", "")] {
            host.inside(|| {
                load(&format!("table {family} filter {{ {chains} }}"));
                let found = dropping_firewalls(BRIDGE, IpStack::Dual).unwrap();
                assert_eq!(found.len(), 1);
                run(&found[0].remedy());
                assert_eq!(dropping_firewalls(BRIDGE, IpStack::Dual).unwrap(), []);
            });
        }
    }
}

/// The chains as `ufw` has them after `ufw enable`, as far as they matter here.
#[test]
fn ufw_is_silent_when_its_remedy_has_been_run() {
    let host = Namespace::new();
    host.inside(|| {
        let base = "-P INPUT DROP; -P FORWARD DROP; -N ufw-before-input; -N ufw-before-forward; \
             -N ufw-not-local; -N ufw-user-input; -N ufw-user-forward; -N ufw-logging-deny; \
             -A INPUT -j ufw-before-input; -A FORWARD -j ufw-before-forward; \
             -A ufw-before-input -i lo -j ACCEPT; \
             -A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; \
             -A ufw-before-input -m conntrack --ctstate INVALID -j DROP; \
             -A ufw-before-input -j ufw-not-local; -A ufw-before-input -j ufw-user-input; \
             -A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN; \
             -A ufw-not-local -m limit --limit 3/min -j ufw-logging-deny; \
             -A ufw-not-local -j DROP; \
             -A ufw-before-forward -p icmp --icmp-type echo-request -j ACCEPT; \
             -A ufw-before-forward -j ufw-user-forward";
        let iptables = |rules: &str| {
            rules.split("; ").for_each(|rule| run(&format!("iptables {}", rule.trim())));
        };
        iptables(base);
        let remedies = || {
            let found = dropping_firewalls(BRIDGE, ONLY_IPV4).unwrap();
            found.iter().map(|found| format!("{found}: {}", found.remedy())).collect::<Vec<_>>()
        };
        assert_eq!(
            remedies(),
            [
                "ufw: ufw allow in on rktest0 && ufw route allow in on rktest0 && ufw route allow out on rktest0"
            ]
        );
        // what ufw makes of them
        iptables("-A ufw-user-input -i rktest0 -j ACCEPT");
        assert_eq!(
            remedies(),
            ["ufw: ufw route allow in on rktest0 && ufw route allow out on rktest0"]
        );
        iptables("-A ufw-user-forward -i rktest0 -j ACCEPT; -A ufw-user-forward -o rktest0 -j ACCEPT");
        assert_eq!(remedies(), [""; 0]);
    });
}

#[test]
fn firewalld_knows_a_bridge_that_any_of_its_zones_has() {
    let host = Namespace::new();
    let firewalld = |zones: &str| {
        format!(
            "table inet firewalld {{ chain filter_IN_trusted {{ accept; }} chain zones {{ {zones} }} \
             chain filter_INPUT {{ type filter hook input priority 10; jump zones; reject; }} \
             chain filter_FORWARD {{ type filter hook forward priority 10; jump zones; reject; }} }}"
        )
    };
    for (zones, count) in [
        ("iifname \"eth0\" goto filter_IN_trusted;", 1),
        ("goto filter_IN_trusted;", 1),
        ("iifname \"rktest0\" goto filter_IN_trusted;", 0),
        (
            "iifname vmap {\"eth0\" : goto filter_IN_trusted, \"rktest0\" : goto filter_IN_trusted};",
            0,
        ),
    ] {
        assert_eq!(found_with(&host, &firewalld(zones), ONLY_IPV4).len(), count, "{zones}");
    }
}

#[test]
fn one_that_lets_packets_pass_and_our_own_table_are_none() {
    let host = Namespace::new();
    for rules in [
        "table ip filter { chain FORWARD { type filter hook forward priority 0; policy accept; } }",
        "table ip filter { chain OUTPUT { type filter hook output priority 0; policy drop; } }",
    ] {
        assert_eq!(found_with(&host, rules, ONLY_IPV4), [""; 0], "{rules}");
    }
    host.block_on(|| async {
        let _table = table_with(&Default::default()).await;
        assert_eq!(dropping_firewalls(BRIDGE, config().stack()).unwrap(), [], "our own table");
    });
}

#[test]
fn one_that_comes_later_is_told_without_being_asked_for() {
    let host = Namespace::new();
    host.block_on(|| async {
        let table = table_with(&Default::default()).await;
        let changed = table.changed_by_others();
        tokio::pin!(changed);
        assert!(futures::poll!(&mut changed).is_pending());
        table.replace(&Default::default()).await.unwrap();
        // what others did in that time was not seen
        table.changed_elsewhere().await;
        run("nft add table inet rekindle-other && nft delete table inet rekindle-other");
        assert!(futures::poll!(&mut changed).is_pending());
        let elsewhere = futures::poll!(std::pin::pin!(table.changed_elsewhere()));
        assert!(elsewhere.is_pending(), "tables of engines");
        for command in [
            "iptables -P FORWARD DROP",
            "iptables -P FORWARD ACCEPT",
            "nft add rule ip filter FORWARD counter",
            "ip6tables -N DOCKER",
            "nft add table ip mine",
            "nft flush ruleset",
        ] {
            run(command);
            tokio::select! {
                biased;
                own = &mut changed => panic!("{command}: our table is as it was: {own:?}"),
                () = table.changed_elsewhere() => {}
            }
            assert!(futures::poll!(&mut changed).is_pending(), "{command}");
        }
    });
}
