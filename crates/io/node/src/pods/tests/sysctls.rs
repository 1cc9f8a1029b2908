//! Kernel settings that the node does not allow, and pods for other operating systems.

use std::sync::Arc;

use serde_json::json;

use crate::agent::{AgentLauncher, AgentStopMode, NodeHandle};
use crate::sysctls::AllowedSysctls;
use crate::testing::{FakeApi, World, container, pod};

async fn agent(world: &World, allowed: &[&str]) -> NodeHandle {
    let mut config = world.config();
    let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
    config.sysctls = AllowedSysctls::new(&allowed).unwrap();
    let runtime = Arc::new(world.machine.connect());
    let network = Arc::new(world.network.clone());
    AgentLauncher::start(config, world.api.client(), runtime, network).await.unwrap()
}

fn create(world: &World, name: &str, sysctl: &str) {
    let mut object = serde_json::to_value(pod(name, vec![container(name)])).unwrap();
    let sysctls = json!([{"name": sysctl, "value": "1024"}]);
    object["spec"]["securityContext"] = json!({"sysctls": sysctls});
    world.api.create(
        "pods",
        &serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(object).unwrap(),
    );
}

/// Source: kubelet, `pkg/kubelet/sysctl`.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_setting_that_is_not_allowed_fails_and_one_that_runs_stays() {
    let world = World::new();
    let first = agent(&world, &["net.core.*"]).await;
    create(&world, "safe", "net.ipv4.tcp_syncookies");
    create(&world, "allowed", "net.core.somaxconn");
    create(&world, "refused", "kernel.msgmax");
    world.until_running("safe").await;
    world.until_running("allowed").await;
    let failed = |api: &FakeApi| {
        api.get("pods", "refused").is_some_and(|pod| pod["status"]["phase"] == "Failed")
    };
    world.api.until("it is refused", failed).await;
    let status = world.status("refused");
    assert_eq!(status["reason"], "SysctlForbidden");
    let message = "Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted";
    assert_eq!(status["message"], message);
    assert_eq!(world.machine.starts("refused"), 0);
    let told = |api: &FakeApi| {
        api.list("events").iter().any(|event| event["reason"] == json!("SysctlForbidden"))
    };
    world.api.until("it is told", told).await;
    // the next agent does not ask again whether what runs may come in
    first.stop(AgentStopMode::LeavePods).await;
    let _next = agent(&world, &[]).await;
    world.lease_renewals(3).await;
    assert_eq!(world.status("allowed")["phase"], "Running");
    assert_eq!(world.machine.starts("allowed"), 1);
}

/// Source: kubelet, `pkg/kubelet/lifecycle/handlers.go`.
#[tokio::test(start_paused = true)]
async fn a_pod_for_another_operating_system_fails() {
    let world = World::new();
    let _agent = agent(&world, &[]).await;
    let mut object = serde_json::to_value(pod("foreign", vec![container("foreign")])).unwrap();
    object["spec"]["os"] = json!({"name": "windows"});
    let object: k8s_openapi::api::core::v1::Pod = serde_json::from_value(object).unwrap();
    world.api.create("pods", &object);
    let failed = |api: &FakeApi| {
        api.get("pods", "foreign").is_some_and(|pod| pod["status"]["phase"] == "Failed")
    };
    world.api.until("it is refused", failed).await;
    let status = world.status("foreign");
    assert_eq!(status["reason"], "PodOSNotSupported");
    let message = "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS";
    assert_eq!(status["message"], message);
    assert_eq!(world.machine.starts("foreign"), 0);
}
