//! Pods of every shape: what stands in a template, or in a pod that nobody controls.

use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

use super::CampaignGenerator;

/// What the rules of containers answer: this code with a restart of the container …
pub(super) const RESTART_CODE: u8 = 42;
/// … and this with one of all containers.
pub(super) const RESTART_ALL_CODE: u8 = 88;

/// Whether the pods of a template are to run for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplatePurpose {
    /// They serve: whatever ends in them starts again.
    Serve,
    /// They do their work and end.
    Work,
}

impl CampaignGenerator {
    /// A template of pods that serve.
    pub(super) fn template(&mut self, app: &str) -> Value {
        let main = self.serving("app");
        let mut containers = vec![main];
        if self.once_in(4) {
            containers.push(self.serving("aux"));
        }
        let mut spec = json!({
            "containers": containers, "terminationGracePeriodSeconds": 1 + self.index(30),
        });
        self.surround(&mut spec, TemplatePurpose::Serve);
        let mut template = json!({"metadata": {"labels": {"app": app}}, "spec": spec});
        if self.once_in(8) {
            template["metadata"]["annotations"] = self.annotated_ladder();
        }
        template
    }

    /// A template of pods that do their work and end.
    pub(super) fn working_template(&mut self, app: &str, policy: &str) -> Value {
        let mut main = container("work");
        self.rules(&mut main, TemplatePurpose::Work);
        let mut containers = vec![main];
        if self.once_in(4) {
            // it works for longer than the other
            containers.push(container("chore"));
        }
        let mut spec = json!({"containers": containers, "restartPolicy": policy});
        self.surround(&mut spec, TemplatePurpose::Work);
        json!({"metadata": {"labels": {"app": app}}, "spec": spec})
    }

    /// A container that is looked after: one that hangs must be found out by somebody, or it would
    /// never be ready again.
    fn serving(&mut self, name: &str) -> Value {
        let mut main = self.looked_after(name);
        self.rules(&mut main, TemplatePurpose::Serve);
        main
    }

    /// A container with probes and hooks.
    fn looked_after(&mut self, name: &str) -> Value {
        let mut main = container(name);
        main["livenessProbe"] = json!({
            "tcpSocket": {"port": 80}, "periodSeconds": 5 + self.index(20), "timeoutSeconds": 1,
        });
        if self.once_in(2) {
            main["readinessProbe"] = json!({"tcpSocket": {"port": 80}, "periodSeconds": 5});
        }
        if self.once_in(3) {
            main["startupProbe"] = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
        }
        for (hook, times) in [("preStop", 3), ("postStart", 4)] {
            if self.once_in(times) {
                main["lifecycle"][hook] = json!({"exec": {"command": ["true"]}});
            }
        }
        main
    }

    /// A restart policy of the container's own, and rules.
    fn rules(&mut self, container: &mut Value, purpose: TemplatePurpose) {
        if !self.once_in(4) {
            return;
        }
        let policies: &[&str] = match purpose {
            // nothing would start what has ended well, and its pod would never be ready again
            TemplatePurpose::Serve => &["Always", "OnFailure"],
            TemplatePurpose::Work => &["OnFailure", "Never"],
        };
        container["restartPolicy"] = json!(policies[self.index(policies.len())]);
        let mut rules = Vec::new();
        for (action, code) in
            [("Restart", RESTART_CODE), ("RestartAllContainers", RESTART_ALL_CODE)]
        {
            if self.once_in(2) {
                let codes = json!({"operator": "In", "values": [code]});
                rules.push(json!({"action": action, "exitCodes": codes}));
            }
        }
        if !rules.is_empty() {
            container["restartPolicyRules"] = json!(rules);
        }
    }

    /// Init containers, sidecars and volumes.
    fn surround(&mut self, spec: &mut Value, purpose: TemplatePurpose) {
        let mut init = Vec::new();
        if self.once_in(3) {
            let mut setup = container("setup");
            if self.once_in(3) {
                self.rules(&mut setup, TemplatePurpose::Work);
            }
            init.push(setup);
        }
        let rarely = match purpose {
            TemplatePurpose::Serve => 3,
            TemplatePurpose::Work => 5,
        };
        if self.once_in(rarely) {
            // others wait until it is started, which its startup probe says, if it has one
            let mut sidecar = match self.once_in(2) {
                true => self.looked_after("sidecar"),
                false => container("sidecar"),
            };
            sidecar["restartPolicy"] = json!("Always");
            init.push(sidecar);
        }
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
        if self.once_in(4) {
            spec["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
            let mounts = json!([{"name": "scratch", "mountPath": "/scratch"}]);
            spec["containers"][0]["volumeMounts"] = mounts;
        }
    }

    /// The ladder of these pods, in which each rung comes once or does not.
    pub(super) fn ladder(&mut self, app: &str) -> Value {
        let mut rungs = vec![json!({"rung": Rung::Container, "attempts": 1 + self.index(3)})];
        for rung in &Rung::ALL[1..] {
            if self.once_in(2) {
                rungs.push(json!({"rung": rung, "attempts": 1 + self.index(2)}));
            }
        }
        let pod = rungs.iter_mut().find(|rung| rung["rung"] == json!(Rung::Pod));
        if let Some(pod) = pod
            && self.once_in(3)
        {
            // the emptyDir volumes are kept as they are
            pod["emptyDirs"] = json!("Keep");
        }
        let window = ["2m", "5m", "10m"][self.index(3)];
        let mut spec = json!({
            "selector": {"matchLabels": {"app": app}}, "rungs": rungs,
            "window": window,
        });
        match self.index(4) {
            0 => spec["budget"] = json!({"maxConcurrent": 1}),
            1 => spec["budget"] = json!({"perMinute": 1 + self.index(3)}),
            2 => spec["budget"] = json!({"maxConcurrent": 1 + self.index(2), "perMinute": 6}),
            _ => {}
        }
        if self.once_in(3) {
            spec["onExhausted"] = json!("Fail");
        }
        json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder",
            "metadata": {"name": app}, "spec": spec,
        })
    }

    fn annotated_ladder(&mut self) -> Value {
        let ladder = ["Container:2, Pod", "Container, Containers, Recreate"][self.index(2)];
        json!({"rekindle.dev/ladder": ladder, "rekindle.dev/ladder-window": "3m"})
    }
}

/// A container of which nobody asks anything.
pub(super) fn container(name: &str) -> Value {
    json!({"name": name, "image": "app:1", "securityContext": {"runAsUser": 1000}})
}
