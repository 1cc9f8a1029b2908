//! The autoscaler at work: a load that is shared by the pods that are ready, read every 15 s.
//! Reasons and messages are upstream's (`pkg/controller/podautoscaler/horizontal.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use k8s_openapi::api::core::v1::ResourceRequirements;
use rekindle_controllers::metric_query::{
    CustomMetricsVersion, MetricQuery, MetricReading, MetricSubject, MetricValue,
};
use rekindle_controllers::readings::{
    MeasuredPod, NamespaceReading, ScaleReading, UsageReading, UsageReport, WorkloadScale,
};
use rekindle_controllers::{
    ClusterView, ObjectId, ResourceKind, ViewObject, WriteOperation, pods, reconcile,
};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use rekindle_types::resources::Amounts;
use serde_json::{Value, json};

use crate::build::deployment;
use crate::world::{Answer, World, id};

const PERIOD: TickDuration = TickDuration::from_secs(15);

/// A Deployment with pods that ask for 100m, and what else its spec says.
fn web(replicas: i32) -> Value {
    let mut web = deployment("web", replicas, "one");
    web["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m"}});
    web
}

/// An autoscaler of it, at half of what its pods ask for.
fn autoscaler(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

fn amounts(cpu_millis: i64) -> Amounts {
    let list = json!({"limits": {"cpu": format!("{cpu_millis}m"), "memory": "1Mi"}});
    let list: ResourceRequirements = serde_json::from_value(list).unwrap();
    Amounts::read(list.limits.as_ref())
}

/// What the pods use when those that are ready share this load.
fn shared(world: &World, load_millis: i64) -> UsageReport {
    let ready: Vec<String> = world
        .api
        .pods()
        .into_iter()
        .filter(|pod| pods::is_ready(*pod) && !pods::is_terminating(pod))
        .map(|pod| pod.metadata.name.clone().unwrap())
        .collect();
    let share = load_millis / i64::try_from(ready.len().max(1)).unwrap();
    let measured = MeasuredPod {
        taken_at: world.api.now,
        window: PERIOD,
        containers: BTreeMap::from([("main".to_owned(), amounts(share))]),
    };
    UsageReport { pods: ready.into_iter().map(|name| (name, measured.clone())).collect() }
}

fn measure(world: &mut World, usage: UsageReading) {
    measure_with(world, usage, |_| Err("no adapter".to_owned()));
}

/// The same, with what adapters say.
fn measure_with(
    world: &mut World,
    usage: UsageReading,
    adapter: impl Fn(&MetricQuery) -> MetricReading,
) {
    measure_all(world, usage, adapter, |_| Err("no scale".to_owned()));
}

/// The same, with the scales of custom resources.
fn measure_all(
    world: &mut World,
    usage: UsageReading,
    adapter: impl Fn(&MetricQuery) -> MetricReading,
    scale: impl Fn(&ObjectId) -> ScaleReading,
) {
    let asked = world.view.reading_request("shop");
    let metrics = asked.metrics.iter().map(|query| (query.clone(), adapter(query))).collect();
    let scales = asked.scales.iter().map(|id| (id.clone(), scale(id))).collect();
    let reading = NamespaceReading { usage, metrics, scales };
    let keys: Vec<_> = world.view.measured("shop", reading).collect();
    world.queue.extend(keys);
    world.settle();
}

/// So many readings under this load, each after the kubelet has got everything on.
fn run(world: &mut World, load_millis: i64, readings: usize) {
    for _ in 0..readings {
        world.converge();
        world.advance(PERIOD);
        let report = shared(world, load_millis);
        measure(world, Ok(report));
    }
    world.converge();
}

/// A world in which the pods have run for so long that their CPU counts.
fn running(replicas: i32, spec: Value) -> World {
    let mut world = World::with_node();
    world.create(web(replicas));
    world.create(autoscaler("web", spec));
    world.converge();
    started_long_ago(&mut world);
    world
}

/// The fake kubelet gives pods no start time; without one they count as starting.
fn started_long_ago(world: &mut World) {
    let started = (world.api.now - TickDuration::from_secs(600)).to_time();
    for id in world.api.ids(ResourceKind::Pod, "shop") {
        world.api.change(&id, |pod| pod["status"]["startTime"] = json!(started));
    }
    world.settle();
}

fn status(world: &World, name: &str) -> HorizontalPodAutoscalerStatus {
    match &world.api.objects[&id(ResourceKind::HorizontalPodAutoscaler, name)] {
        ViewObject::HorizontalPodAutoscaler(object) => object.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// `TYPE=STATUS REASON: MESSAGE` of the condition.
fn condition(world: &World, name: &str, type_: &str) -> String {
    let conditions = status(world, name).conditions.unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == type_).unwrap();
    assert!(found.last_transition_time.is_some());
    format!("{} {}: {}", found.status, found.reason.unwrap(), found.message.unwrap())
}

/// The autoscaler's own events, in order.
fn said(world: &World) -> Vec<String> {
    let own = world.notes.iter().filter(|note| note.component == "horizontal-pod-autoscaler");
    own.map(|note| format!("{}: {}", note.reason, note.message)).collect()
}

fn replicas(world: &World) -> i32 {
    world.deployment("web").spec.replicas.unwrap()
}

#[test]
fn a_load_is_followed_up_at_once_and_down_after_five_minutes() {
    let mut world = running(1, json!({}));
    run(&mut world, 180, 1);
    assert_eq!(replicas(&world), 4, "180 % of 50 %");
    let event = "SuccessfulRescale: New size: 4; reason: cpu resource utilization (percentage of \
                request) above target";
    assert!(said(&world).contains(&event.to_owned()), "{:?}", said(&world));
    assert_eq!(
        condition(&world, "web", "AbleToScale"),
        "True SucceededRescale: the HPA controller was able to update the target scale to 4"
    );
    let shown = status(&world, "web");
    assert_eq!((shown.current_replicas, shown.desired_replicas), (Some(1), 4));
    assert!(shown.last_scale_time.is_some());
    let metric = serde_json::to_value(shown.current_metrics).unwrap();
    let current = json!({"averageUtilization": 180, "averageValue": "180m"});
    assert_eq!(metric[0]["resource"], json!({"name": "cpu", "current": current}));

    started_long_ago(&mut world);
    run(&mut world, 180, 1);
    assert_eq!((replicas(&world), status(&world, "web").current_replicas), (4, Some(4)));
    assert_eq!(
        condition(&world, "web", "ScalingLimited"),
        "False DesiredWithinRange: the desired count is within the acceptable range"
    );
    // less load: the highest recommendation of five minutes holds
    run(&mut world, 40, 10);
    assert_eq!(replicas(&world), 4);
    assert!(condition(&world, "web", "AbleToScale").starts_with("True ScaleDownStabilized: "));
    run(&mut world, 40, 12);
    assert_eq!(replicas(&world), 1);
    assert!(
        said(&world).contains(
            &"SuccessfulRescale: New size: 1; reason: All metrics below target".to_owned()
        )
    );
}

#[test]
fn a_reading_that_changes_nothing_is_answered_by_no_write() {
    let mut world = running(2, json!({}));
    run(&mut world, 100, 1);
    world.writes.clear();
    run(&mut world, 100, 40);
    assert_eq!(world.writes, [], "{:?}", status(&world, "web"));
}

#[test]
fn the_range_holds_without_a_look_at_metrics() {
    for (start, spec, expected, reason) in [
        (1, json!({"minReplicas": 3}), 3, "Current number of replicas below Spec.MinReplicas"),
        (9, json!({"maxReplicas": 4}), 4, "Current number of replicas above Spec.MaxReplicas"),
    ] {
        let mut world = running(start, spec);
        measure(&mut world, Err("nothing is known".to_owned()));
        assert_eq!(replicas(&world), expected);
        let event = format!("SuccessfulRescale: New size: {expected}; reason: {reason}");
        assert_eq!(said(&world).last(), Some(&event));
    }
}

#[test]
fn a_target_of_no_replicas_is_left_alone() {
    let mut world = running(0, json!({}));
    run(&mut world, 900, 2);
    assert_eq!(replicas(&world), 0);
    assert_eq!(
        condition(&world, "web", "ScalingActive"),
        "False ScalingDisabled: scaling is disabled since the replica count of the target is zero"
    );
}

#[test]
fn what_cannot_be_read_is_said_and_changes_nothing() {
    let no_requests = |world: &mut World| {
        world.create(deployment("web", 2, "one"));
    };
    let with_requests = |world: &mut World| {
        world.create(web(2));
    };
    type Prepare = fn(&mut World);
    let container = json!({"metrics": [{"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "absent", "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    let pods = json!({"metrics": [{"type": "Pods", "pods": {
        "metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]});
    for (prepare, spec, answers, reason, message) in [
        (
            with_requests as Prepare,
            json!({}),
            false,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch \
             metrics from resource metrics API: nothing is known",
        ),
        (
            no_requests as Prepare,
            json!({}),
            true,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: missing request for cpu in container main of Pod ",
        ),
        (
            with_requests as Prepare,
            container,
            true,
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: container absent \
             not present in metrics for pod shop/web-",
        ),
        (
            with_requests as Prepare,
            pods,
            true,
            "FailedGetPodsMetric",
            "unable to get metric requests: unable to fetch metrics from custom metrics API: no custom \
             metrics API (custom.metrics.k8s.io) registered",
        ),
    ] {
        let mut world = World::with_node();
        prepare(&mut world);
        world.create(autoscaler("web", spec));
        world.converge();
        started_long_ago(&mut world);
        let reading = match answers {
            true => Ok(shared(&world, 900)),
            false => Err("nothing is known".to_owned()),
        };
        measure(&mut world, reading);
        assert_eq!(replicas(&world), 2);
        let active = condition(&world, "web", "ScalingActive");
        let expected =
            format!("False {reason}: the HPA was unable to compute the replica count: {message}");
        assert!(active.starts_with(&expected), "{active}");
        let events = said(&world);
        assert!(events[0].starts_with(&format!("{reason}: {message}")), "{events:?}");
        let summary = "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first \
                       error is: failed to get ";
        assert!(events[1].starts_with(summary), "{events:?}");
    }
}

#[test]
fn of_several_metrics_the_most_counts_and_one_that_is_unknown_never_leads_to_fewer() {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}},
        {"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "AverageValue", "averageValue": "256Ki"}}},
    ]);
    let mut world = running(2, json!({"metrics": metrics}));
    run(&mut world, 100, 1);
    assert_eq!(
        replicas(&world),
        4,
        "twice, as memory would ask for eight and doubling is the most"
    );
    let event = "SuccessfulRescale: New size: 4; reason: memory resource above target";
    assert_eq!(said(&world).last(), Some(&event.to_owned()));

    let mut metrics = metrics;
    metrics[1] = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "1"}}});
    let mut world = running(2, json!({"metrics": metrics}));
    run(&mut world, 10, 30);
    assert_eq!(replicas(&world), 2, "the queue may be long");
    run(&mut world, 300, 1);
    assert_eq!(replicas(&world), 4, "more are made all the same");
}

/// An adapter of custom metrics, in the versions that it serves.
fn with_adapter(world: &mut World, versions: &[&str]) {
    for version in versions {
        world.create(json!({"kind": "APIService",
            "metadata": {"name": format!("{version}.custom.metrics.k8s.io")}}));
    }
}

/// One look by these metrics, of which each value is the same whatever is asked: the replicas that
/// follow, what the status shows of the first metric, and why.
fn by_adapter(replicas_now: i32, metrics: Value, value_millis: i64) -> (i32, Value, String) {
    let mut world = running(
        replicas_now,
        json!({"metrics": metrics, "maxReplicas": 100,
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]},
            "scaleDown": {"stabilizationWindowSeconds": 0,
                "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}}),
    );
    with_adapter(&mut world, &["v1beta2", "v1beta1"]);
    world.converge();
    let value = |object: String| MetricValue { object, millis: value_millis };
    let pods: Vec<String> =
        world.api.pods().iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    measure_with(&mut world, Ok(UsageReport::default()), |query| match &query.subject {
        MetricSubject::Pods { version: CustomMetricsVersion::V1Beta2, selector } => {
            assert_eq!(selector, "app=web");
            Ok(pods.iter().cloned().map(value).collect())
        }
        MetricSubject::Object { version: CustomMetricsVersion::V1Beta2, name, .. } => {
            Ok(vec![value(name.clone())])
        }
        MetricSubject::External => Ok(vec![value(String::new())]),
        other => panic!("{other:?}"),
    });
    let current = json!(status(&world, "web").current_metrics.unwrap()[0]);
    let reasons = said(&world).into_iter().filter(|said| said.contains("Rescale"));
    (replicas(&world), current, reasons.collect::<Vec<_>>().join("; "))
}

/// Upstream's `replica_calculator.go`: pods by their average, one value by its ratio to the target,
/// or shared by the replicas.
#[test]
fn metrics_of_adapters_scale_by_pods_by_objects_and_by_what_is_outside() {
    let front = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "10"}}});
    let object = |target: Value| {
        json!({"type": "Object", "object": {"metric": {"name": "requests"},
            "describedObject": front, "target": target}})
    };
    let external = |target: Value| {
        json!({"type": "External", "external": {"metric": {"name": "queue",
            "selector": {"matchLabels": {"of": "mails"}}}, "target": target}})
    };
    let whole = || json!({"type": "Value", "value": "10"});
    let average = || json!({"type": "AverageValue", "averageValue": "10"});
    for (metric, millis, count, shown, reason) in [
        (
            pods.clone(),
            20_000,
            4,
            json!({"averageValue": "20"}),
            "pods metric requests above target",
        ),
        (pods.clone(), 10_900, 2, json!({"averageValue": "10900m"}), ""),
        (pods, 5_000, 1, json!({"averageValue": "5"}), "All metrics below target"),
        (
            object(whole()),
            20_000,
            4,
            json!({"value": "20"}),
            "Ingress metric requests above target",
        ),
        (
            object(average()),
            50_000,
            5,
            json!({"averageValue": "25"}),
            "Ingress metric requests above target",
        ),
        (
            external(whole()),
            30_000,
            6,
            json!({"value": "30"}),
            "external metric queue(of=mails) above target",
        ),
        (
            external(average()),
            75_000,
            8,
            json!({"averageValue": "37500m"}),
            "external metric queue(of=mails) above target",
        ),
        (external(average()), 19_000, 2, json!({"averageValue": "9500m"}), ""),
        (
            external(average()),
            1_000,
            1,
            json!({"averageValue": "500m"}),
            "All metrics below target",
        ),
    ] {
        let case = format!("{metric} {millis}");
        let source = metric["type"].as_str().unwrap().to_lowercase();
        let (replicas, current, said) = by_adapter(2, json!([metric]), millis);
        assert_eq!(replicas, count, "{case}");
        assert_eq!(current[&source]["current"], shown, "{case}");
        assert_eq!(current[&source]["metric"], metric[&source]["metric"], "{case}");
        match reason {
            "" => assert_eq!(said, "", "{case}"),
            reason => assert_eq!(
                said,
                format!("SuccessfulRescale: New size: {count}; reason: {reason}"),
                "{case}"
            ),
        }
    }
}

/// By these metrics down to zero, without a window.
fn down_at_once(metrics: &Value) -> Value {
    let policies = json!([{"type": "Percent", "value": 100, "periodSeconds": 15},
        {"type": "Pods", "value": 4, "periodSeconds": 15}]);
    let behavior = json!({"scaleUp": {"policies": policies},
        "scaleDown": {"stabilizationWindowSeconds": 0, "policies": policies}});
    json!({"metrics": metrics, "minReplicas": 0, "behavior": behavior})
}

/// KEP-2021, and upstream's `horizontal.go`: an autoscaler wakes what it has put to sleep itself.
#[test]
fn a_workload_without_work_is_scaled_to_zero_and_back_unless_a_person_did_it() {
    let queue = json!([{"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    let mut world = running(2, down_at_once(&queue));
    let look = |world: &mut World, length: i64| {
        world.converge();
        world.advance(PERIOD);
        measure_with(world, Ok(UsageReport::default()), |_| {
            Ok(vec![MetricValue { object: String::new(), millis: length * 1_000 }])
        });
        world.converge();
        replicas(world)
    };
    let asleep = "True ScaledToZero: the HPA controller scaled the workload to zero";
    let awake = "False NotScaledToZero: the HPA controller did not scale the workload to zero";
    assert_eq!(look(&mut world, 0), 0);
    assert_eq!(condition(&world, "web", "ScaledToZero"), asleep);
    assert_eq!(look(&mut world, 0), 0);
    assert!(condition(&world, "web", "ScalingActive").starts_with("True ValidMetricFound"));
    assert_eq!(look(&mut world, 25), 3);
    assert_eq!(condition(&world, "web", "ScaledToZero"), awake);
    // what a person puts to sleep stays there
    let web = id(ResourceKind::Deployment, "web");
    world.api.change(&web, |web| web["spec"]["replicas"] = json!(0));
    assert_eq!(look(&mut world, 25), 0);
    assert!(condition(&world, "web", "ScalingActive").starts_with("False ScalingDisabled"));
    // a range that does not allow zero any more wakes what the autoscaler has put to sleep
    world.api.change(&web, |web| web["spec"]["replicas"] = json!(1));
    assert_eq!(look(&mut world, 0), 0);
    world.api.change(&id(ResourceKind::HorizontalPodAutoscaler, "web"), |autoscaler| {
        autoscaler["spec"]["minReplicas"] = json!(2);
    });
    assert_eq!(look(&mut world, 0), 2);
    let why = "SuccessfulRescale: New size: 2; reason: Current number of replicas below \
               Spec.MinReplicas";
    assert_eq!(said(&world).last().map(String::as_str), Some(why));
}

/// An engine that is killed between the two must know that it was not a person.
#[test]
fn that_a_workload_is_scaled_to_zero_is_written_before_the_scale() {
    let queue = json!([{"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    let mut world = running(2, down_at_once(&queue));
    let metrics = world.view.reading_request("shop").metrics.into_iter();
    let metrics =
        metrics.map(|query| (query, Ok(vec![MetricValue { object: String::new(), millis: 0 }])));
    let reading = NamespaceReading {
        usage: Ok(UsageReport::default()),
        metrics: metrics.collect(),
        scales: BTreeMap::new(),
    };
    let key = world.view.measured("shop", reading).next().unwrap();
    let plan = reconcile(&world.view, &key, world.api.now);
    let writes: Vec<_> = plan.batches.iter().flatten().map(|planned| &planned.write).collect();
    let [WriteOperation::UpdateStatus(status), WriteOperation::Scale(scale)] = writes[..] else {
        panic!("{writes:?}");
    };
    assert_eq!(scale.replicas, 0);
    let ViewObject::HorizontalPodAutoscaler(status) = status else { panic!("{status:?}") };
    let conditions = status.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let zero = conditions.iter().find(|condition| condition.type_ == "ScaledToZero").unwrap();
    assert_eq!(zero.status, "True");
}

/// The texts are upstream's.
#[test]
fn what_an_adapter_does_not_say_is_said() {
    let front = |kind: &str, group: &str| {
        json!([{"type": "Object", "object": {"metric": {"name": "requests"},
            "describedObject": {"apiVersion": format!("{group}/v1"), "kind": kind, "name": "front"},
            "target": {"type": "Value", "value": "10"}}}])
    };
    let queue = json!([{"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "10"}}}]);
    let pods = json!([{"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    let ingress = || front("Ingress", "networking.k8s.io");
    let refused = || Err("the server could not find the metric".to_owned());
    for (metrics, versions, answer, reason, why) in [
        (
            pods.clone(),
            vec![],
            refused(),
            "FailedGetPodsMetric",
            "unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            pods.clone(),
            vec!["v1beta1"],
            Ok(vec![]),
            "FailedGetPodsMetric",
            "unable to get metric requests: no metrics returned from custom metrics API",
        ),
        (
            pods,
            vec!["v1beta1"],
            Ok(vec![MetricValue { object: "gone".to_owned(), millis: 1 }]),
            "FailedGetPodsMetric",
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (
            ingress(),
            vec!["v1beta2"],
            refused(),
            "FailedGetObjectMetric",
            "unable to get metric requests: Ingress on shop front/unable to fetch metrics from custom metrics API: the server could not find the metric",
        ),
        (
            front("Route", "acme.com"),
            vec!["v1beta2"],
            refused(),
            "FailedGetObjectMetric",
            "unable to get metric requests: Route on shop front/unable to fetch metrics from custom metrics API: no matches for kind \"Route\" in group \"acme.com\"",
        ),
        (
            queue,
            vec![],
            refused(),
            "FailedGetExternalMetric",
            "unable to get external metric shop/queue/: unable to fetch metrics from external metrics API: the server could not find the metric",
        ),
    ] {
        let mut world = running(2, json!({"metrics": metrics}));
        with_adapter(&mut world, &versions);
        world.converge();
        measure_with(&mut world, Ok(UsageReport::default()), |_| answer.clone());
        assert_eq!(
            condition(&world, "web", "ScalingActive"),
            format!("False {reason}: the HPA was unable to compute the replica count: {why}")
        );
        assert!(said(&world).contains(&format!("{reason}: {why}")), "{:?}", said(&world));
        assert_eq!(replicas(&world), 2);
    }
}

/// A custom resource says by its `/scale` how many it wants and which pods are its own.
#[test]
fn a_custom_resource_is_scaled_by_what_its_scale_says() {
    let target = json!({"apiVersion": "acme.com/v1alpha1", "kind": "Rollout", "name": "web"});
    let mut world = running(2, json!({"scaleTargetRef": target}));
    run(&mut world, 200, 1);
    assert_eq!(
        condition(&world, "web", "AbleToScale"),
        "False FailedGetScale: the HPA controller was unable to get the target's current scale: \
         no matches for kind \"Rollout\" in group \"acme.com\""
    );
    world.create(
        json!({"kind": "CustomResourceDefinition", "metadata": {"name": "rollouts.acme.com"},
        "spec": {"group": "acme.com", "scope": "Namespaced",
            "names": {"plural": "rollouts", "kind": "Rollout"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
    );
    world.converge();
    let usage = shared(&world, 200);
    let no_adapter = |_: &MetricQuery| Err("no adapter".to_owned());
    measure_all(&mut world, Ok(usage), no_adapter, |id| {
        assert_eq!(id.name.to_string(), "shop/web");
        Err("the server could not find the requested resource".to_owned())
    });
    assert_eq!(
        condition(&world, "web", "AbleToScale"),
        "False FailedGetScale: the HPA controller was unable to get the target's current scale: \
         the server could not find the requested resource"
    );
    // the write is decided, and meets an object that this world does not have
    let selector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    let scale = WorkloadScale {
        uid: "u1".to_owned(),
        resource_version: "7".to_owned(),
        wanted: 2,
        observed: 2,
        selector: Some(selector),
    };
    let usage = shared(&world, 200);
    let asked = world.view.reading_request("shop");
    let scales = asked.scales.iter().map(|id| (id.clone(), Ok(scale.clone()))).collect();
    let reading = NamespaceReading { usage: Ok(usage), metrics: BTreeMap::new(), scales };
    let key = world.view.measured("shop", reading).next().unwrap();
    let plan = reconcile(&world.view, &key, world.api.now);
    let writes: Vec<_> = plan.batches.iter().flatten().map(|planned| &planned.write).collect();
    let [WriteOperation::Scale(write), WriteOperation::UpdateStatus(_)] = writes[..] else {
        panic!("{writes:?}");
    };
    assert_eq!(write.target, *asked.scales.first().unwrap());
    assert_eq!((write.uid.as_str(), write.resource_version.as_str()), ("u1", "7"));
    assert_eq!((write.replicas, write.change), (4, 2));
}

#[test]
fn an_autoscaler_waits_until_adapters_were_asked_what_it_wants_to_know() {
    let queue = json!([{"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "10"}}}]);
    let mut world = running(2, json!({"metrics": queue}));
    let keys: Vec<_> = world.view.measured("shop", Ok(UsageReport::default()).into()).collect();
    world.queue.extend(keys);
    world.settle();
    assert_eq!(status(&world, "web").conditions, None);
    measure(&mut world, Ok(UsageReport::default()));
    assert!(condition(&world, "web", "ScalingActive").starts_with("False FailedGetExternalMetric"));
}

#[test]
fn a_scale_that_is_refused_is_said_and_tried_again() {
    let mut world = running(1, json!({}));
    world.api.refuse_scale = Some("no".to_owned());
    run(&mut world, 180, 1);
    assert_eq!(replicas(&world), 1);
    assert_eq!(
        condition(&world, "web", "AbleToScale"),
        "False FailedUpdateScale: the HPA controller was unable to update the target scale: no"
    );
    assert_eq!(status(&world, "web").last_scale_time, None);
    let event = "FailedRescale: New size: 4; reason: cpu resource utilization (percentage of \
                request) above target; error: no";
    assert!(said(&world).contains(&event.to_owned()), "{:?}", said(&world));
    world.api.refuse_scale = None;
    world.advance(TickDuration::from_secs(1));
    assert_eq!(replicas(&world), 4);
    run(&mut world, 180, 1);
    assert!(condition(&world, "web", "AbleToScale").starts_with("True "));
    assert!(status(&world, "web").last_scale_time.is_some());
}

#[test]
fn a_decision_on_an_old_target_is_not_carried_out() {
    let mut world = running(1, json!({}));
    let report = shared(&world, 180);
    let web = id(ResourceKind::Deployment, "web");
    // a user scales, and no watch has shown it yet
    world.api.change(&web, |web| web["spec"]["replicas"] = json!(7));
    let key = world.view.measured("shop", Ok(report).into()).next().unwrap();
    world.work(&key, |_| Answer::Arrives);
    assert_eq!(replicas(&world), 7);
    assert!(!said(&world).iter().any(|said| said.contains("Rescale")), "{:?}", said(&world));
}

#[test]
fn two_autoscalers_of_the_same_pods_do_nothing_and_say_so() {
    let mut world = running(1, json!({}));
    world.create(autoscaler("other", json!({"maxReplicas": 3})));
    run(&mut world, 180, 1);
    assert_eq!(replicas(&world), 1);
    for name in ["web", "other"] {
        assert_eq!(
            condition(&world, name, "ScalingActive"),
            "False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: \
             [shop/other shop/web]"
        );
    }
}

#[test]
fn a_target_that_is_not_there_is_said_in_upstreams_words() {
    for (reference, text) in [
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "absent"}),
            "deployments/scale.apps \"absent\" not found",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "absent"}),
            "replicationcontrollers/scale \"absent\" not found",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "absent"}),
            "the server could not find the requested resource",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "absent"}),
            "no matches for kind \"Widget\" in group \"example.com\"",
        ),
    ] {
        let mut world = running(1, json!({"scaleTargetRef": reference}));
        run(&mut world, 180, 1);
        assert_eq!(said(&world).last(), Some(&format!("FailedGetScale: {text}")));
        assert_eq!(
            condition(&world, "web", "AbleToScale"),
            format!(
                "False FailedGetScale: the HPA controller was unable to get the target's current \
                 scale: {text}"
            )
        );
    }
}

#[test]
fn pods_that_start_neither_speed_up_nor_slow_down_a_decision() {
    let mut world = running(2, json!({}));
    run(&mut world, 160, 1);
    assert_eq!(replicas(&world), 4);
    // the two new pods are not ready, and burn CPU as they start
    world.converge();
    let mut report = shared(&world, 200);
    let is_new =
        |pod: &&HeldPod| pod.status.as_ref().is_none_or(|status| status.start_time.is_none());
    let pods = world.api.pods();
    let new: Vec<String> =
        pods.into_iter().filter(is_new).map(|pod| pod.metadata.name.clone().unwrap()).collect();
    assert_eq!(new.len(), 2);
    for (name, pod) in &mut report.pods {
        let used = if new.contains(name) { 900 } else { 50 };
        pod.containers.insert("main".to_owned(), amounts(used));
    }
    measure(&mut world, Ok(report));
    assert_eq!(replicas(&world), 4);
    let active = condition(&world, "web", "ScalingActive");
    assert!(active.starts_with("True ValidMetricFound: "), "{active}");
}

#[test]
fn policies_count_what_was_scaled_before() {
    let behavior = json!({
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
    });
    let mut world = running(1, json!({"behavior": behavior}));
    let mut counts = Vec::new();
    for _ in 0..3 {
        started_long_ago(&mut world);
        run(&mut world, 900, 1);
        counts.push(replicas(&world));
    }
    assert_eq!(counts, [2, 2, 2], "one a minute");
    assert_eq!(
        condition(&world, "web", "ScalingLimited"),
        "True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate"
    );
    world.advance(TickDuration::from_secs(60));
    started_long_ago(&mut world);
    run(&mut world, 900, 1);
    assert_eq!(replicas(&world), 3);
    started_long_ago(&mut world);
    run(&mut world, 30, 1);
    assert_eq!(replicas(&world), 1, "down at once");
}

#[test]
fn a_lost_answer_scales_once() {
    let mut world = running(1, json!({}));
    let report = shared(&world, 180);
    let key = world.view.measured("shop", Ok(report).into()).next().unwrap();
    let is_scale = |write: &WriteOperation| matches!(write, WriteOperation::Scale(_));
    world.work(&key, |write| if is_scale(write) { Answer::IsLost } else { Answer::Arrives });
    world.advance(TickDuration::from_secs(1));
    assert_eq!(replicas(&world), 4);
    assert_eq!(world.writes.iter().filter(|write| is_scale(write)).count(), 1);
}

#[test]
fn a_new_controller_does_not_scale_down_at_once() {
    let mut world = running(4, json!({}));
    run(&mut world, 200, 1);
    assert_eq!(replicas(&world), 4);
    // another leader: it remembers nothing
    world.view = ClusterView::new();
    ResourceKind::ALL.into_iter().for_each(|kind| world.relist(kind, 0));
    run(&mut world, 40, 10);
    assert_eq!(replicas(&world), 4);
    assert!(condition(&world, "web", "AbleToScale").starts_with("True ScaleDownStabilized: "));
    run(&mut world, 40, 12);
    assert_eq!(replicas(&world), 1);
}
