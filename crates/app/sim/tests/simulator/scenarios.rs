//! What scenarios may say, and what comes of it.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_pod::PodConfig;
use rekindle_sim::{
    Behaviour, ExitRule, Faults, KnownBug, PolicyOutcome, Scenario, ScenarioPolicy, ScenarioReport,
    World, WorldChange, WorldEvent,
};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

const fn minutes(minutes: u64) -> TickDuration {
    TickDuration::from_secs(minutes * 60)
}

fn scenario(spec: Value, manifests: &[Value]) -> Scenario {
    let script = json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario", "spec": spec});
    let documents = [script].into_iter().chain(manifests.iter().cloned());
    Scenario::from_documents(documents.collect()).unwrap()
}

fn play(spec: Value, manifests: &[Value]) -> PolicyOutcome {
    let outcome = scenario(spec, manifests).play(1, &ScenarioPolicy::AsWritten).unwrap();
    assert_eq!(outcome.broken_promise, None);
    outcome
}

fn workload(kind: &str, name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}

fn deployment(name: &str, replicas: u64) -> Value {
    let mut made = workload("Deployment", name, replicas);
    made["spec"].as_object_mut().unwrap().remove("serviceName");
    made
}

fn ladder() -> Value {
    json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "rungs": [{"rung": "Pod", "attempts": 2}],
        },
    })
}

/// A StatefulSet whose pods have a claim each, with this policy for claims of pods that go.
fn with_claims(when_scaled: &str) -> Value {
    let mut set = workload("StatefulSet", "db", 3);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": when_scaled});
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    set
}

/// What hangs at its end is killed as the kubelet does it: a sidecar gets what the others left of
/// the grace, and two seconds at least.
#[test]
fn a_sidecar_that_hangs_breaks_no_promise_when_it_is_killed_with_its_pod() {
    let proxy = json!({"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"});
    let mut web = deployment("web", 2);
    web["spec"]["template"]["spec"]["initContainers"] = json!([proxy]);
    let scaled =
        json!([{"at": "5m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]);
    let mut naked = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "app", "image": "app:1"}]},
    });
    naked["spec"]["initContainers"] = json!([proxy]);
    let deleted = json!([{"at": "1m", "delete": {"kind": "Pod", "name": "w"}}]);
    for (behaviour, changes, manifest) in [
        (json!({"container": "proxy", "hangs": true}), scaled, web),
        (json!({"hangs": true}), deleted, naked),
    ] {
        play(json!({"for": "10m", "behaviours": [behaviour], "changes": changes}), &[manifest]);
    }
}

/// KEP-5532: what a rule restarts has two seconds, also when its liveness probe has it ended
/// already.
#[test]
fn what_hangs_when_a_rule_restarts_all_containers_breaks_no_promise() {
    let mut ruled = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "containers": [
                {"name": "app", "image": "app:1", "restartPolicy": "Always", "restartPolicyRules": [{
                    "action": "RestartAllContainers",
                    "exitCodes": {"operator": "In", "values": [42]},
                }]},
                {"name": "side", "image": "side:1"},
            ],
        },
    });
    for probe in [Value::Null, json!({"tcpSocket": {"port": 80}, "periodSeconds": 49})] {
        ruled["spec"]["containers"][1]["livenessProbe"] = probe;
        let behaviours = json!([
            {"container": "app", "exits": {"code": 42, "after": "100s"}},
            {"container": "side", "hangs": true},
        ]);
        play(json!({"for": "1h", "behaviours": behaviours}), std::slice::from_ref(&ruled));
    }
}

/// The status of another container is written while a readiness probe that fails is not answered
/// yet.
#[test]
fn what_was_ready_may_be_unready_after_a_probe_failed_whatever_was_written_meanwhile() {
    let probe = |period: u64, more: Value| {
        let mut probe = json!({"exec": {"command": ["a"]}, "periodSeconds": period});
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        probe
    };
    let app = json!({
        "name": "app", "image": "a", "readinessProbe": probe(12, json!({"failureThreshold": 2})),
    });
    let side = json!({
        "name": "side", "image": "s", "livenessProbe": probe(6, json!({"initialDelaySeconds": 2})),
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"},
        "spec": {"terminationGracePeriodSeconds": 3, "containers": [app, side]},
    });
    for begin in 1_365..1_377 {
        let behaviours = json!([{"from": format!("{begin}s"), "hangs": true}]);
        play(json!({"for": "24m", "behaviours": behaviours}), std::slice::from_ref(&pod));
    }
}

/// A node of whose containers each hangs, and an API that gives them no time.
#[test]
fn a_promise_that_is_broken_is_told_with_its_pod_its_node_and_the_time() {
    let mut world = World::new(
        1,
        1,
        vec![Behaviour { hangs: true, ..Behaviour::default() }],
        PodConfig::default(),
    )
    .unwrap();
    let bug = Some(KnownBug::GraceCutShort);
    world.set_faults(Faults::none().with_bug(bug));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    world.apply(&pod).unwrap();
    let id = ObjectId::new(ResourceKind::Pod, NamespacedName::new("default", "w"));
    world.change_at(minutes(1), "the test", WorldChange::Delete(id));
    world.run_until(minutes(3)).unwrap();
    let expected = "P5: Pod default/w on node-0: container app (start 1) was killed after 10 ms of its \
                    grace period of 30000 ms (60.010 s after the run began)";
    assert_eq!(world.broken_promise(), Some(expected));
}

#[test]
fn claims_get_volumes_of_the_node_that_their_pod_goes_to_and_those_of_claims_that_go_are_removed() {
    // (what becomes of claims, volumes when all is done)
    for (when_scaled, expected) in [("Retain", 3), ("Delete", 1)] {
        let mut world = World::new(1, 2, Vec::new(), PodConfig::default()).unwrap();
        world.apply(&with_claims(when_scaled)).unwrap();
        world.run_until(minutes(5)).unwrap();
        assert_eq!((world.readiness(), world.volumes()), ((3, 3), 3));
        world
            .apply(&json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {"replicas": 1},
            }))
            .unwrap();
        world.run_until(minutes(15)).unwrap();
        assert_eq!((world.readiness(), world.volumes()), ((1, 1), expected), "{when_scaled}");
        assert_eq!(world.unsettled(), Vec::<String>::new());
        assert_eq!(world.broken_promise(), None);
    }
}

#[test]
fn a_node_that_hears_of_a_claim_late_makes_its_volume_then() {
    let mut world = World::new(1, 1, Vec::new(), PodConfig::default()).unwrap();
    world.do_at(TickDuration::ZERO, WorldEvent::DeafNode(0, minutes(2)));
    world.do_at(minutes(1), WorldEvent::FullDisk(minutes(3)));
    world.run_until(TickDuration::from_secs(1)).unwrap();
    world.apply(&with_claims("Retain")).unwrap();
    world.run_until(minutes(1)).unwrap();
    assert_eq!(world.volumes(), 0);
    world.run_until(minutes(20)).unwrap();
    assert_eq!((world.readiness(), world.volumes()), ((3, 3), 3));
}

#[test]
fn no_ladder_is_without_all_ladders_and_a_file_s_ladders_are_the_only_ones() {
    let annotated = |mut object: Value| {
        object["spec"]["template"]["metadata"]["annotations"] =
            json!({"rekindle.dev/ladder": "Pod:2", "kept": "yes"});
        object
    };
    let mut naked = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    naked["metadata"]["annotations"] = json!({"rekindle.dev/ladder": "Pod:2"});
    let deletion = json!([{"at": "1m", "delete": {"kind": "RestartLadder", "name": "web"}}]);
    // (manifests, changes)
    let cases = [
        (vec![annotated(deployment("web", 1))], json!([])),
        (vec![naked], json!([])),
        (vec![deployment("web", 1)], json!([{"at": "1m", "apply": ladder()}])),
        (
            vec![deployment("web", 1)],
            json!([{"at": "1m", "apply": annotated(deployment("web", 2))}]),
        ),
        (vec![deployment("web", 1), ladder()], deletion),
    ];
    let mut of_another = ladder();
    of_another["spec"]["selector"] = json!({"matchLabels": {"app": "nothing"}});
    let others = ScenarioPolicy::ladders("others", vec![of_another]).unwrap();
    for (manifests, changes) in cases {
        let spec = json!({
            "for": "1h", "changes": changes,
            "behaviours": [{"matchLabels": {"app": "web"}, "exits": {"code": 1, "after": "2s"}}],
        });
        let scenario = scenario(spec, &manifests);
        let written = scenario.play(1, &ScenarioPolicy::AsWritten).unwrap();
        assert!(!written.rungs.is_empty(), "{manifests:?}: no ladder acts where it should");
        for policy in [&ScenarioPolicy::NoLadder, &others] {
            let outcome = scenario.play(1, policy).unwrap();
            assert_eq!(outcome.rungs, [].into(), "{}: {manifests:?}", policy.name());
        }
    }
}

#[test]
fn a_node_has_its_network_again_when_every_loss_of_it_is_over() {
    let loss = json!([
        {"nodes": ["node-0"], "from": "10m", "until": "60m"},
        {"nodes": ["node-0"], "from": "20m", "until": "30m"},
    ]);
    let outcome = play(
        json!({"for": "2h", "nodes": 3, "nodeLoss": loss}),
        &[json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stays"},
            "spec": {
                "containers": [{"name": "app", "image": "app:1"}],
                "tolerations": [{"operator": "Exists"}],
            },
        })],
    );
    assert_eq!(outcome.timeline.longest_outage(), minutes(50));
}

#[test]
fn deafness_and_full_disks_that_overlap_last_until_the_last_of_them_is_over() {
    let mut world = World::new(1, 1, Vec::new(), PodConfig::default()).unwrap();
    world.do_at(minutes(1), WorldEvent::DeafNode(0, minutes(20)));
    world.do_at(minutes(2), WorldEvent::DeafNode(0, minutes(5)));
    world.run_until(minutes(3)).unwrap();
    world.apply(&deployment("web", 1)).unwrap();
    world.run_until(minutes(20)).unwrap();
    assert_eq!(world.readiness(), (1, 0), "its node is still deaf");
    world.run_until(minutes(22)).unwrap();
    assert_eq!(world.readiness(), (1, 1));
    let mut world = World::new(1, 1, Vec::new(), PodConfig::default()).unwrap();
    world.do_at(minutes(1), WorldEvent::FullDisk(minutes(20)));
    world.do_at(minutes(2), WorldEvent::FullDisk(minutes(5)));
    world.run_until(minutes(10)).unwrap();
    assert!(world.apply(&deployment("web", 1)).is_err(), "the disk is still full");
    world.run_until(minutes(22)).unwrap();
    world.apply(&deployment("web", 1)).unwrap();
}

/// What is written about one pod is limited, by what its node's agent remembers.
#[test]
fn each_node_remembers_its_own_events_as_long_as_its_agent_lives() {
    let events_after = |crashes: &[u64]| {
        let exits = ExitRule { code: 1, after: TickDuration::ZERO, oom: false };
        let behaviour = Behaviour { exits: Some(exits), ..Behaviour::default() };
        let longest = TickDuration::from_secs(1);
        let config = PodConfig { max_container_restart_period: longest, ..PodConfig::default() };
        let mut world = World::new(1, 2, vec![behaviour], config).unwrap();
        for node in crashes {
            world.do_at(minutes(3), WorldEvent::CrashAgent(*node));
        }
        for node in ["node-0", "node-1"] {
            world
                .apply(&json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": node},
                    "spec": {
                        "nodeName": node, "containers": [{"name": "app", "image": "app:1"}],
                    },
                }))
                .unwrap();
        }
        let mut events = [2, 4].map(|minute| {
            world.run_until(minutes(minute)).unwrap();
            world.figures().events
        });
        events[1] -= events[0];
        events[1]
    };
    let (none, one, both) = (events_after(&[]), events_after(&[0]), events_after(&[0, 1]));
    assert!(none + 10 < one && one + 10 < both, "{none}, {one} and {both}");
}

#[test]
fn nodes_have_the_labels_of_real_ones_and_those_that_a_manifest_gives_them() {
    let mut pinned = deployment("web", 1);
    pinned["spec"]["template"]["spec"]["nodeSelector"] =
        json!({"kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "b"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "b"}},
    });
    let outcome = play(json!({"for": "10m", "nodes": 2}), &[node, pinned]);
    assert_eq!((outcome.pods, outcome.ready), (1, 1));
}

#[test]
fn where_a_job_succeeds_nothing_is_left_to_recover() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "work", "image": "app:1"}],
        }}},
    });
    let outcome =
        play(json!({"for": "10m", "behaviours": [{"exits": {"code": 0, "after": "5s"}}]}), &[job]);
    assert_eq!(outcome.timeline.time_to_recovery(), Some(TickDuration::ZERO));
}

#[test]
fn a_ladder_of_a_file_finds_the_namespace_that_the_scenario_brings() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let (mut web, mut ladder) = (deployment("web", 1), ladder());
    for object in [&mut web, &mut ladder] {
        object["metadata"]["namespace"] = json!("shop");
    }
    let spec = json!({"for": "10m", "behaviours": [{"exits": {"code": 1, "after": "2s"}}]});
    let scenario = scenario(spec, &[web, namespace]);
    let outcome = scenario.play(1, &ScenarioPolicy::ladders("a", vec![ladder]).unwrap()).unwrap();
    assert!(!outcome.rungs.is_empty(), "{outcome:?}");
}

#[test]
fn what_the_api_does_not_know_is_refused_wherever_the_user_wrote_it() {
    let mut misspelt = deployment("web", 1);
    misspelt["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = json!({});
    let mut of_a_ladder = ladder();
    of_a_ladder["spec"]["windo"] = json!("10m");
    let spec = |changes: &[Value]| json!({"for": "10m", "changes": changes});
    let good = deployment("web", 1);
    let change = json!({"at": "1m", "apply": {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replica": 5},
    }});
    let cases = [
        (scenario(spec(&[]), &[misspelt]), ScenarioPolicy::AsWritten, "livenesProbe"),
        (
            scenario(spec(&[change]), std::slice::from_ref(&good)),
            ScenarioPolicy::AsWritten,
            "spec.replica",
        ),
        (
            scenario(spec(&[]), &[good]),
            ScenarioPolicy::ladders("a", vec![of_a_ladder]).unwrap(),
            "windo",
        ),
    ];
    for (scenario, policy, field) in cases {
        let error = scenario.play(1, &policy).unwrap_err().to_string();
        assert!(error.contains("unknown field") && error.contains(field), "{error}");
    }
}

#[test]
fn a_pod_that_names_a_node_that_is_not_there_is_told_of_as_a_note() {
    let mut nowhere = deployment("web", 1);
    nowhere["spec"]["template"]["spec"]["nodeName"] = json!("nod-0");
    let mut somewhere = nowhere.clone();
    somewhere["metadata"]["name"] = json!("api");
    somewhere["spec"]["template"]["spec"]["nodeName"] = json!("node-0");
    let spec = json!({"for": "10m", "changes": [{"at": "1m", "apply": nowhere}]});
    let report = ScenarioReport::from_scenario(1, &scenario(spec, &[nowhere, somewhere]));
    let field = "spec.template.spec.nodeName: there is no node \"nod-0\": the only node is node-0 (spec.nodes, --nodes)";
    let expected = [format!("Deployment web: {field}"), format!("spec.changes[0].apply.{field}")];
    assert_eq!(report.notes(), expected);
}

#[test]
fn an_autoscaler_by_a_metric_that_nobody_has_here_is_told_of_as_a_note() {
    let queue = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "External", "external": {"metric": {"name": "queue"},
                "target": {"type": "Value", "value": "10"}}},
        ]}});
    let played = scenario(json!({"for": "10m"}), &[deployment("web", 1), queue]);
    let expected = "HorizontalPodAutoscaler web: spec.metrics[1]: there is no server of metrics of \
                    type External, so the autoscaler learns nothing of it";
    assert_eq!(ScenarioReport::from_scenario(1, &played).notes(), [expected]);
    played.play(1, &ScenarioPolicy::AsWritten).unwrap();
}

#[test]
fn what_the_api_warns_of_and_ladders_that_select_nothing_are_told_as_notes() {
    let mut doubled = deployment("web", 1);
    doubled["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut of_nobody = ladder();
    of_nobody["spec"]["selector"] = json!({"matchLabels": {"app": "wbe"}});
    let mut later = deployment("late", 1);
    later["metadata"]["name"] = json!("late");
    let mut of_late = ladder();
    of_late["metadata"]["name"] = json!("late");
    of_late["spec"]["selector"] = json!({"matchLabels": {"app": "late"}});
    let spec = json!({"for": "10m", "changes": [{"at": "1m", "apply": later}]});
    let scenario = scenario(spec, &[doubled, of_nobody, of_late]);
    let mut report = ScenarioReport::from_scenario(1, &scenario);
    report.outcomes.push(scenario.play(1, &ScenarioPolicy::AsWritten).unwrap());
    let notes = report.notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(notes[0], "RestartLadder default/web selected no pod");
    assert!(
        notes[1].starts_with("the API warns of Deployment default/web: spec.template"),
        "{notes:?}"
    );
}

#[test]
fn what_is_there_to_end_ends_well_where_no_behaviour_says_otherwise() {
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["initContainers"] = json!([
        {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
        {"name": "migrate", "image": "app:1"},
    ]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "work", "image": "app:1"}],
        }}},
    });
    let outcome = play(json!({"for": "10m"}), &[web, job.clone()]);
    // the Job's pod is over
    assert_eq!((outcome.pods, outcome.ready, outcome.restarts), (2, 1, 0));
    let runs = json!({"for": "10m", "behaviours": [{"container": "work"}]});
    let outcome = play(runs, &[job]);
    assert_eq!(
        (outcome.pods, outcome.ready),
        (1, 1),
        "what a behaviour chooses does what that says"
    );
}

#[test]
fn only_what_happens_in_the_run_counts_as_a_write() {
    let manifests = [deployment("web", 0), ladder()];
    let quiet = play(json!({"for": "10m", "nodes": 20}), &manifests);
    // what the controllers do about a Deployment without pods
    assert!(quiet.figures.writes < 10, "{:?}", quiet.figures);
    let loss = json!([{"share": "100%", "from": "1m", "until": "80s"}]);
    let lost = play(json!({"for": "10m", "nodes": 20, "nodeLoss": loss}), &manifests);
    assert_eq!(lost.figures, quiet.figures, "nodes are silent for too short a time to be noticed");
    assert_eq!(quiet.timeline.writes_per_minute_max, quiet.figures.writes);
}

fn naked(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "node-0", "containers": [{"name": "app", "image": "app:1"}]},
    })
}

#[test]
fn a_naked_pod_that_is_lost_is_missing_until_somebody_does_not_want_it_any_more() {
    let loss = json!([{"nodes": ["node-0"], "from": "10m", "until": "40m"}]);
    let pods = [naked("lost")];
    let lost = play(json!({"for": "2h", "nodes": 3, "nodeLoss": loss}), &pods);
    assert_eq!((lost.pods, lost.timeline.time_to_recovery()), (0, None));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let mut of_shop = naked("lost");
    of_shop["metadata"]["namespace"] = json!("shop");
    let changes = json!([{"at": "60m", "delete": {"kind": "Namespace", "name": "shop"}}]);
    let spec = json!({"for": "2h", "nodes": 3, "nodeLoss": loss, "changes": changes});
    let given_up = play(spec, &[namespace, of_shop]);
    assert_eq!(given_up.timeline.time_to_recovery(), Some(minutes(50)));
    let changes = json!([{"at": "60m", "delete": {"kind": "Pod", "name": "ends"}}]);
    let ended = play(json!({"for": "2h", "changes": changes}), &[naked("ends")]);
    assert_eq!(ended.timeline.time_to_recovery(), Some(TickDuration::ZERO));
}

/// What each rung throws away is what mends: the ladder goes up to it, and no further.
#[test]
fn a_ladder_climbs_to_the_rung_that_mends() {
    let mut climbing = ladder();
    climbing["spec"]["rungs"] = json!([
        {"rung": "Container", "attempts": 1}, {"rung": "Pod", "attempts": 1},
        {"rung": "Recreate", "attempts": 1},
    ]);
    // (what mends, PodRestarts)
    let cases =
        [("Container", vec![]), ("Pod", vec!["Pod"]), ("Recreate", vec!["Pod", "Recreate"])];
    for (mended_by, expected) in cases {
        let behaviours = json!([{"exits": {"code": 1, "after": "2s"}, "mendedBy": mended_by}]);
        let spec = json!({"for": "1h", "behaviours": behaviours});
        let outcome = play(spec, &[climbing.clone(), deployment("web", 1)]);
        let rungs: Vec<String> = outcome.rungs.keys().map(|rung| format!("{rung:?}")).collect();
        assert_eq!(
            (rungs, outcome.ready),
            (expected.into_iter().map(str::to_owned).collect(), 1),
            "{mended_by}"
        );
    }
    let mut recreates = ladder();
    recreates["spec"]["rungs"] = json!([{"rung": "Recreate", "attempts": 1}]);
    let behaviours = json!([{"exits": {"code": 1, "after": "2s"}, "mendedBy": "Pod"}]);
    let outcome =
        play(json!({"for": "1h", "behaviours": behaviours}), &[recreates, deployment("web", 1)]);
    assert_eq!(outcome.ready, 1, "a new pod has a new sandbox: {:?}", outcome.rungs);
}

#[test]
fn a_behaviour_concerns_what_runs_already_from_its_begin_to_its_end() {
    let mut probed = deployment("web", 2);
    probed["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1});
    let of = |behaviour: Value| {
        let mut behaviour = behaviour;
        for (field, time) in [("from", "10m"), ("until", "20m")] {
            behaviour[field] = json!(time);
        }
        play(json!({"for": "1h", "behaviours": [behaviour]}), std::slice::from_ref(&probed))
    };
    let outage = |outcome: &PolicyOutcome| {
        let outages = &outcome.timeline.outages;
        assert_eq!(outages.len(), 1, "{outages:?}");
        (outages[0].from.as_secs() / 10, outages[0].until.unwrap().as_secs() / 10)
    };
    // what hangs or is not ready fails its probe at once, and is ready again at once
    for behaviour in [json!({"hangs": true}), json!({"unready": true})] {
        let outcome = of(behaviour);
        assert_eq!((outage(&outcome), outcome.restarts), ((60, 120), 0));
    }
    let exits = of(json!({"exits": {"code": 1, "after": "3m"}, "mendedBy": "Container"}));
    assert_eq!((outage(&exits).0, exits.restarts), (78, 2), "three minutes after it began");
    let slow = play(json!({"for": "1h", "behaviours": [{"readyAfter": "30s"}]}), &[probed]);
    assert_eq!(slow.timeline.ready_after.unwrap().as_secs() / 2, 15);
}

/// What was not ready is when the behaviour is over, and what hung answers, though a container that
/// was to exit will.
#[test]
fn the_end_of_a_behaviour_ends_what_it_made_of_a_container_but_for_its_exit() {
    let mut probed = deployment("web", 1);
    probed["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1});
    let of = |behaviours: Value| {
        play(json!({"for": "1h", "behaviours": behaviours}), std::slice::from_ref(&probed))
    };
    let slow = json!({"readyAfter": "20m", "until": "1m"});
    for behaviours in [json!([slow]), json!([slow, {"hangs": false}])] {
        let ready = of(behaviours).timeline.ready_after.unwrap();
        assert!(ready < TickDuration::from_secs(65), "{ready:?}");
    }
    let exits = json!({"code": 1, "after": "10m"});
    let outcome = of(json!([{"from": "5m", "until": "6m", "hangs": true, "exits": exits}]));
    let outages: Vec<_> =
        outcome.timeline.outages.iter().map(|of| of.from.as_secs() / 60).collect();
    assert_eq!((outages, outcome.restarts), (vec![5, 15], 1), "{:?}", outcome.timeline.outages);
    assert!(outcome.timeline.outages[0].until.unwrap() < TickDuration::from_secs(370));
}

/// What lies at the end or after it has no effect, and is told so; a manifest that is wrong is
/// refused all the same.
#[test]
fn what_is_asked_for_when_the_run_is_over_is_noted_and_not_done() {
    let grown = |at: &str, field: &str| {
        let spec = json!({field: 5});
        json!({"at": at, "apply": {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec,
        }})
    };
    for (at, said) in [("1h", "1h"), ("61m", "1h1m")] {
        let spec = json!({
            "for": "1h", "changes": [grown(at, "replicas")],
            "nodeLoss": [{"nodes": ["node-0"], "from": at}],
        });
        let made = scenario(spec, &[deployment("web", 3)]);
        let mut report = ScenarioReport::from_scenario(1, &made);
        report.outcomes.push(made.play(1, &ScenarioPolicy::AsWritten).unwrap());
        let outcome = &report.outcomes[0];
        assert_eq!((outcome.pods, outcome.ready), (3, 3), "{at}");
        assert_eq!(outcome.timeline.time_to_recovery(), Some(TickDuration::ZERO), "{at}");
        let note = |what: &str| format!("{what} is {said}, and the run ends after 1h");
        let expected = [note("spec.changes[0].at"), note("spec.nodeLoss[0].from")];
        assert_eq!(report.notes(), expected);
        let wrong = json!({"for": "1h", "changes": [grown(at, "replicaz")]});
        let wrong = scenario(wrong, &[deployment("web", 3)]).play(1, &ScenarioPolicy::AsWritten);
        let error = wrong.unwrap_err().to_string();
        assert!(error.starts_with(&format!("spec.changes[0], after {said}: ")), "{error}");
        assert!(error.contains("spec.replicaz"), "{error}");
    }
}

/// As in production: the agent registers again with one of its next heartbeats.
#[test]
fn a_node_that_a_script_deletes_comes_back_and_its_pods_are_made_again() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}});
    let applied = json!({"at": "20m", "apply": node});
    let deleted = json!({"at": "10m", "delete": {"kind": "Node", "name": "node-0"}});
    for changes in [json!([deleted]), json!([deleted, applied])] {
        let outcome = play(json!({"for": "1h", "changes": changes}), &[deployment("web", 3)]);
        assert_eq!((outcome.pods, outcome.ready), (3, 3), "{changes}");
        let recovery = outcome.timeline.time_to_recovery().unwrap();
        assert!(recovery < minutes(2), "{recovery:?}");
    }
}

/// A change that brings nothing but a ladder is none where ladders are left out: no map is left
/// that would roll the pods.
#[test]
fn a_ladder_that_a_change_brings_as_an_annotation_leaves_no_trace_without_ladders() {
    let template = json!({"metadata": {"annotations": {"rekindle.dev/ladder": "Pod"}}});
    let change = json!({"at": "1m", "apply": {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": template},
    }});
    let writes = |changes: Value| {
        let made = scenario(json!({"for": "10m", "changes": changes}), &[deployment("web", 1)]);
        let outcome = made.play(1, &ScenarioPolicy::NoLadder).unwrap();
        (outcome.figures.writes, outcome.starts)
    };
    let (nothing, annotated) = (writes(json!([])), writes(json!([change])));
    // the change itself, if that is one
    assert!(annotated.1 == nothing.1 && annotated.0 <= nothing.0 + 1, "{annotated:?}");
}

#[test]
fn a_behaviour_that_says_when_a_container_is_ready_without_a_probe_is_told_as_a_note() {
    let mut probed = naked("probed");
    probed["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 80}});
    for behaviour in [json!({"unready": true}), json!({"readyAfter": "1m"})] {
        let note = "spec.behaviours[0] says when containers are ready, and none that it chose has a readiness probe";
        for (pods, expected) in
            [(vec![naked("a")], vec![note]), (vec![naked("a"), probed.clone()], vec![])]
        {
            let made = scenario(json!({"for": "10m", "behaviours": [behaviour]}), &pods);
            let mut report = ScenarioReport::from_scenario(1, &made);
            report.outcomes.push(made.play(1, &ScenarioPolicy::AsWritten).unwrap());
            assert_eq!(report.notes(), expected);
        }
    }
}

#[test]
fn a_container_that_hung_obeys_its_stop_signal_when_that_is_over() {
    let mut slow = naked("slow");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(3_600);
    let spec = |until: &str| {
        json!({
            "for": "1h", "behaviours": [{"hangs": true, "from": "5m", "until": until}],
            "changes": [{"at": "10m", "delete": {"kind": "Pod", "name": "slow"}}],
        })
    };
    assert_eq!(play(spec("20m"), std::slice::from_ref(&slow)).pods, 0);
    assert_eq!(play(spec("61m"), &[slow]).pods, 1, "its grace period is long");
}

#[test]
fn behaviours_may_be_of_a_namespace_and_replication_controllers_are_scaled() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let mut of_shop = naked("shop");
    of_shop["metadata"]["namespace"] = json!("shop");
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"},
        "spec": {
            "replicas": 1, "selector": {"app": "old"},
            "template": {
                "metadata": {"labels": {"app": "old"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    });
    let spec = json!({
        "for": "10m",
        "behaviours": [{"namespace": "shop", "exits": {"oom": true, "after": "2s"}, "until": "5m"}],
        "changes": [
            {"at": "1m", "scale": {"kind": "ReplicationController", "name": "old", "replicas": 3}},
        ],
    });
    let scenario = scenario(spec, &[namespace, of_shop, naked("other"), controller]);
    let mut report = ScenarioReport::from_scenario(1, &scenario);
    report.outcomes.push(scenario.play(1, &ScenarioPolicy::AsWritten).unwrap());
    let outcome = &report.outcomes[0];
    assert_eq!((outcome.pods, outcome.restarts_by_pod["default/other"]), (5, 0));
    assert!(outcome.restarts_by_pod["shop/shop"] > 2, "{outcome:?}");
    let page = report.html();
    assert!(page.contains("namespace shop: ends for want of memory no more"), "{page}");
}

/// Above a hundred nodes the scheduler looks at some of them, by the UID of the pod.
#[test]
fn what_a_ladder_does_changes_no_name_and_no_uid_of_other_pods() {
    let mut later = deployment("late", 3);
    later["spec"]["template"]["metadata"]["labels"] = json!({"app": "late"});
    let spec = json!({
        "for": "15m", "changes": [{"at": "10m", "apply": later}],
        "behaviours": [{"matchLabels": {"app": "web"}, "exits": {"code": 1, "after": "2s"}}],
    });
    let scenario = scenario(spec, &[deployment("web", 1)]);
    let policies =
        [ScenarioPolicy::NoLadder, ScenarioPolicy::ladders("a", vec![ladder()]).unwrap()];
    let outcomes = policies.map(|policy| scenario.play(1, &policy).unwrap());
    let late = outcomes.each_ref().map(|outcome| {
        let pods = outcome.restarts_by_pod.keys().filter(|pod| pod.starts_with("default/late-"));
        pods.collect::<Vec<_>>()
    });
    assert_eq!((late[0].len(), outcomes[0].rungs.is_empty()), (3, true));
    assert!(!outcomes[1].rungs.is_empty() && late[0] == late[1], "{late:?}");
}
