//! Campaigns that are made by hand, for what a test looks at.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_reconcile::NodeLifecycleSettings;
use rekindle_sim::{
    Behaviour, BehaviourRemedy, Campaign, ExitRule, FaultRates, InvalidPatch, WorldChange,
    WorldEvent,
};
use rekindle_types::TickDuration;
use serde_json::json;

/// A Deployment and a StatefulSet without probes, and what is done to them.
pub(crate) fn campaign(deeds: &[(u64, WorldEvent)], behaviours: Vec<Behaviour>) -> Campaign {
    let spec = |app: &str, replicas: u64| {
        let container = json!({"name": "app", "image": "app:1"});
        json!({
            "replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"terminationGracePeriodSeconds": 20, "containers": [container]},
            },
        })
    };
    let object = |kind: &str, name: &str, replicas| {
        let meta = json!({"name": name});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec(name, replicas)})
    };
    Campaign {
        seed: 1,
        nodes: 1,
        patience: NodeLifecycleSettings::default(),
        objects: vec![object("Deployment", "web", 2), object("StatefulSet", "db", 1)],
        behaviours,
        deeds: deeds
            .iter()
            .map(|(at, deed)| (TickDuration::from_secs(*at), deed.clone()))
            .collect(),
        rates: FaultRates::default(),
        crashes: [].into(),
        bug: None,
    }
}

/// What ends after so long with this code.
pub(crate) fn exits(code: u8, seconds: u64) -> Option<ExitRule> {
    Some(ExitRule { code, after: TickDuration::from_secs(seconds), oom: false })
}

/// All containers crash five seconds after each start, so that they wait for longer and longer.
pub(crate) fn crashing(deeds: &[(u64, WorldEvent)]) -> Campaign {
    let until = Some(TickDuration::from_secs(15 * 60));
    campaign(deeds, vec![Behaviour { exits: exits(1, 5), until, ..Behaviour::default() }])
}

/// The same, where one pod has a ladder of two rungs with one attempt each.
pub(crate) fn laddered(deeds: &[(u64, WorldEvent)]) -> Campaign {
    let mut made = crashing(deeds);
    made.objects.push(json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "db"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}}, "window": "10m",
            "rungs": [{"rung": "Container", "attempts": 1}, {"rung": "Pod", "attempts": 1}],
        },
    }));
    made
}

/// All crash so, until each run is longer than the waits, and shorter than what ends a series of
/// them.
pub(crate) fn long_waits(deeds: &[(u64, WorldEvent)]) -> Campaign {
    let from = TickDuration::from_secs(300);
    let mut made = crashing(deeds);
    made.behaviours[0].until = Some(from);
    made.behaviours.push(Behaviour { exits: exits(1, 450), from, ..made.behaviours[0].clone() });
    made.behaviours[1].until = Some(TickDuration::from_secs(1_000));
    made
}

/// All pods are made again where no image can be had, and the sandbox of one dies while its
/// container waits for its own.
pub(crate) fn without_images() -> Campaign {
    let lost = WorldEvent::LoseRegistry(TickDuration::from_secs(300));
    campaign(&[(60, lost), (61, all_pods_deleted()), (66, WorldEvent::EndSandbox(0))], Vec::new())
}

/// Pods with every probe and hook, and a sidecar that has them, too.
pub(crate) fn probed(deeds: &[(u64, WorldEvent)], behaviours: Vec<Behaviour>) -> Campaign {
    let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 3});
    let hook = json!({"exec": {"command": ["true"]}});
    let looked_after = |name: &str| {
        json!({
            "name": name, "image": "app:1", "lifecycle": {"postStart": hook},
            "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        })
    };
    let mut sidecar = looked_after("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    let mut made = campaign(deeds, behaviours);
    for object in &mut made.objects {
        let spec = &mut object["spec"]["template"]["spec"];
        spec["containers"] = json!([looked_after("app")]);
        spec["initContainers"] = json!([sidecar]);
    }
    made
}

/// The first start of each app hangs, so that its liveness probe has it ended.
pub(crate) fn hanging_at_first() -> Campaign {
    let container = Some("app".to_owned());
    let mended_by = BehaviourRemedy::Container;
    let hangs = Behaviour { container, hangs: true, mended_by, ..Behaviour::default() };
    let mut made = probed(&[], vec![hangs]);
    for object in &mut made.objects {
        let app = &mut object["spec"]["template"]["spec"]["containers"][0];
        // a hook that hangs with it would keep its probes from being asked
        app["lifecycle"] = json!({});
        app["startupProbe"] = json!(null);
    }
    made
}

/// The agent dies while containers that crash wait, whose sidecars have been started long ago.
pub(crate) fn waiting_for_sidecars() -> Campaign {
    let until = Some(TickDuration::from_secs(15 * 60));
    let container = Some("app".to_owned());
    let crashes = Behaviour { container, exits: exits(1, 5), until, ..Behaviour::default() };
    probed(&[(200, WorldEvent::CrashAgent(0))], vec![crashes])
}

/// A rule restarts all containers of a pod whose stop signal ends one with that code.
pub(crate) fn ruled(deeds: &[(u64, WorldEvent)]) -> Campaign {
    let mut made = campaign(deeds, Vec::new());
    for object in &mut made.objects {
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        let codes = json!({"operator": "In", "values": [143]});
        container["restartPolicy"] = json!("Always");
        container["restartPolicyRules"] =
            json!([{"action": "RestartAllContainers", "exitCodes": codes}]);
    }
    made
}

/// Two nodes, of which one is lost for six minutes, with a pod of each workload at least, which
/// bear that for a minute; and what is done besides.
pub(crate) fn evicting(deeds: &[(u64, WorldEvent)]) -> Campaign {
    let lost = WorldEvent::LoseNode(0, TickDuration::from_secs(360));
    let mut evicting = campaign(&[&[(60, lost)], deeds].concat(), Vec::new());
    evicting.nodes = 2;
    for object in &mut evicting.objects {
        object["spec"]["replicas"] = json!(2);
        object["spec"]["template"]["spec"]["tolerations"] = json!([{
            "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 60,
        }]);
    }
    evicting
}

/// A pod of web and one of db that fail in the same moment, until their sandboxes are new, and one
/// ladder for both.
pub(crate) fn two_that_fail_together(budget: serde_json::Value) -> Campaign {
    let exits = ExitRule { code: 1, after: TickDuration::from_secs(1), oom: false };
    let mended_by = BehaviourRemedy::Pod;
    let fails = Behaviour { exits: Some(exits), mended_by, ..Behaviour::default() };
    let mut campaign = campaign(&[], vec![fails]);
    for object in &mut campaign.objects {
        object["spec"]["replicas"] = json!(1);
    }
    let both = json!([{"key": "app", "operator": "In", "values": ["web", "db"]}]);
    campaign.objects.insert(0, json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "both"},
        "spec": {
            "selector": {"matchExpressions": both}, "rungs": [{"rung": "Pod"}], "budget": budget,
        },
    }));
    campaign
}

pub(crate) fn web() -> ObjectId {
    ObjectId::new(ResourceKind::Deployment, NamespacedName::new("default", "web"))
}

pub(crate) fn scaled() -> WorldEvent {
    WorldEvent::User(WorldChange::Patch(web(), json!({"spec": {"replicas": 3}})))
}

/// As `kubectl delete pods --all` does it.
pub(crate) fn all_pods_deleted() -> WorldEvent {
    WorldEvent::DeleteMany(ResourceKind::Pod, None, DependentPolicy::Background)
}

/// Nothing goes wrong but that the agent dies before this action.
pub(crate) fn crashes_only(action: u64) -> Campaign {
    let made = Campaign { seed: 4, crashes: [action].into(), ..campaign(&[], Vec::new()) };
    assert!(made.has_crashes_only());
    made
}

/// A pod that is there to end, and does so well.
pub(crate) fn succeeding() -> Campaign {
    let container = Some("work".to_owned());
    let succeeds = Behaviour { container, exits: exits(0, 5), ..Behaviour::default() };
    let work = json!({"name": "work", "image": "app:1"});
    Campaign {
        objects: vec![json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "once"},
            "spec": {"restartPolicy": "Never", "containers": [work]},
        })],
        behaviours: vec![succeeds],
        ..crashes_only(0)
    }
}

/// So many replicas of web are asked for.
pub(crate) fn invalid(field: &str, replicas: i64) -> WorldEvent {
    let patch = json!({"spec": {"replicas": replicas}});
    WorldEvent::Invalid(Box::new(InvalidPatch {
        id: web(),
        patch,
        field: field.to_owned(),
        whole: json!({}),
    }))
}
