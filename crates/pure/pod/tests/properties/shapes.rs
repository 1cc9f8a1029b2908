//! Pods in few words.

use k8s_openapi::api::core::v1::{
    Container, ContainerResizePolicy, ContainerRestartRule, ContainerRestartRuleOnExitCodes,
    Lifecycle, LifecycleHandler, Pod, Probe,
};
use proptest::prelude::*;

use crate::world::build::{self, PodExt};

/// A pod in few words.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) policy: &'static str,
    pub(crate) inits: usize,
    pub(crate) sidecars: usize,
    pub(crate) regular: usize,
    pub(crate) care: Care,
}

/// Whether the containers of a pod have probes, hooks and rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Care {
    None,
    All,
}

/// Probes and hooks of all kinds, and on main0 a rule of each kind.
pub(crate) fn cared_for(container: Container) -> Container {
    let probe = |seconds: i32, failures: i32| Probe {
        period_seconds: Some(seconds),
        failure_threshold: Some(failures),
        ..Probe::default()
    };
    let rule = |action: &str, code: i32| ContainerRestartRule {
        action: action.to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: "In".to_owned(),
            values: Some(vec![code]),
        }),
    };
    let rules = vec![rule("Restart", 42), rule("RestartAllContainers", 88)];
    let hook = Some(LifecycleHandler::default());
    Container {
        startup_probe: Some(probe(7, 2)),
        readiness_probe: Some(probe(20, 1)),
        liveness_probe: Some(probe(30, 2)),
        lifecycle: Some(Lifecycle {
            post_start: hook.clone(),
            pre_stop: hook,
            ..Lifecycle::default()
        }),
        restart_policy_rules: Some(rules).filter(|_| container.name == "main0"),
        ..container
    }
}

impl Shape {
    pub(crate) fn pod(&self) -> Pod {
        let mut pod = build::pod(self.policy).with_grace(5);
        for number in 0..self.inits.max(self.sidecars) {
            if number < self.sidecars {
                pod = pod.with_sidecar(&format!("side{number}"));
            }
            if number < self.inits {
                pod = pod.with_init(&format!("init{number}"));
            }
        }
        for number in 0..self.regular {
            pod = pod.with(&format!("main{number}"));
        }
        if self.policy == "Always" {
            let spec = pod.spec.as_mut().expect("a spec");
            spec.containers[0].resize_policy = Some(vec![ContainerResizePolicy {
                resource_name: "memory".to_owned(),
                restart_policy: "RestartContainer".to_owned(),
            }]);
        }
        if self.care == Care::All {
            let spec = pod.spec.as_mut().expect("a spec");
            let sidecars = spec.init_containers.iter_mut().flatten();
            let sidecars = sidecars.filter(|c| role_of(&c.name) == "side");
            for container in sidecars.chain(&mut spec.containers) {
                *container = cared_for(std::mem::take(container));
            }
        }
        pod
    }
}

pub(crate) fn pods() -> impl Strategy<Value = Shape> {
    let policy = prop_oneof![3 => Just("Always"), 1 => Just("OnFailure"), 1 => Just("Never")];
    let care = prop_oneof![Just(Care::None), Just(Care::All)];
    (policy, 0usize..3, 0usize..3, 1usize..4, care).prop_map(
        |(policy, inits, sidecars, regular, care)| Shape { policy, inits, sidecars, regular, care },
    )
}

/// `main` of `main0`.
pub(crate) fn role_of(name: &str) -> &str {
    name.trim_end_matches(char::is_numeric)
}
