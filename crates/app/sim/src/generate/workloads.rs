//! What users have asked for when a campaign begins: workloads of every kind, naked pods, Services,
//! budgets and ladders.

use serde_json::{Value, json};

use super::CampaignGenerator;
use crate::campaign::Campaign;

impl CampaignGenerator {
    pub(super) fn workload(&mut self, campaign: &mut Campaign) {
        let objects = &mut campaign.objects;
        for index in 0..1 + self.index(2) {
            objects.push(self.deployment(&format!("web-{index}")));
        }
        if self.once_in(2) {
            objects.push(self.stateful_set());
        }
        if self.once_in(3) {
            objects.push(self.daemon_set());
        }
        if self.once_in(2) {
            let spec = self.job("once");
            objects.push(json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": spec,
            }));
        }
        if self.once_in(4) {
            objects.push(self.cron_job());
        }
        for index in 0..self.index(3) {
            objects.push(self.naked(&format!("solo-{index}")));
        }
        for app in ["web-0", "db"] {
            if self.once_in(2) {
                objects.push(self.budget(app));
            }
            if self.once_in(3) {
                objects.push(self.service(app));
            }
        }
        if self.once_in(2) {
            objects.push(self.ladder("web-0"));
            if self.once_in(4) {
                // two for the same pods: which of them has no effect is said, and not in the middle
                // of what the other does
                let mut other = self.ladder("web-0");
                other["metadata"]["name"] = json!("other");
                objects.push(other);
            }
        }
        for app in ["db", "agent", "solo-0"] {
            if self.once_in(5) {
                objects.push(self.ladder(app));
            }
        }
    }

    fn deployment(&mut self, name: &str) -> Value {
        let template = self.template(name);
        let mut spec = json!({
            "replicas": 1 + self.index(4),
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        });
        match self.index(5) {
            0 => spec["strategy"] = json!({"type": "Recreate"}),
            1 => spec["strategy"]["rollingUpdate"] = json!({"maxSurge": 0, "maxUnavailable": 1}),
            2 => spec["strategy"]["rollingUpdate"] = json!({"maxSurge": 2, "maxUnavailable": 0}),
            _ => {}
        }
        if self.once_in(4) {
            spec["minReadySeconds"] = json!(1 + self.index(10));
        }
        if self.once_in(4) {
            spec["revisionHistoryLimit"] = json!(self.index(3));
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec,
        })
    }

    fn stateful_set(&mut self) -> Value {
        let template = self.template("db");
        let mut spec = json!({
            "replicas": 1 + self.index(3), "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "template": template,
        });
        if self.once_in(2) {
            spec["podManagementPolicy"] = json!("Parallel");
        }
        if self.once_in(2) {
            spec["volumeClaimTemplates"] = json!([claim()]);
            if self.once_in(2) {
                let ends = ["Retain", "Delete"];
                spec["persistentVolumeClaimRetentionPolicy"] = json!({
                    "whenDeleted": ends[self.index(2)], "whenScaled": ends[self.index(2)],
                });
            }
        }
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec,
        })
    }

    fn daemon_set(&mut self) -> Value {
        let template = self.template("agent");
        let mut spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template});
        if self.once_in(3) {
            let surge = json!({"maxSurge": 1, "maxUnavailable": 0});
            spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": surge});
        }
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec,
        })
    }

    /// What a Job asks for.
    fn job(&mut self, app: &str) -> Value {
        let policy = ["OnFailure", "Never"][self.index(2)];
        let template = self.working_template(app, policy);
        let mut spec = json!({
            "completions": 1 + self.index(3), "parallelism": 1 + self.index(2), "template": template,
        });
        if self.once_in(3) {
            spec["completionMode"] = json!("Indexed");
        }
        if self.once_in(3) {
            spec["backoffLimit"] = json!(self.index(4));
        }
        if policy == "Never" && self.once_in(3) {
            let codes = json!({"operator": "In", "values": [super::templates::RESTART_CODE]});
            let action = ["Ignore", "FailJob", "Count"][self.index(3)];
            spec["podFailurePolicy"] = json!({"rules": [{"action": action, "onExitCodes": codes}]});
        }
        spec
    }

    /// None of its Jobs begins when the run ends: that is at twenty past, as the clocks have it
    /// that nobody has set.
    fn cron_job(&mut self) -> Value {
        let concurrency = ["Allow", "Forbid", "Replace"][self.index(3)];
        let job = self.job("tick");
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
            "spec": {
                "schedule": "*/7 * * * *", "concurrencyPolicy": concurrency,
                "jobTemplate": {"spec": job},
            },
        })
    }

    /// A pod that no controller makes anew.
    fn naked(&mut self, name: &str) -> Value {
        let mut pod = match self.index(4) {
            0 => self.working_template(name, "OnFailure"),
            1 => self.working_template(name, "Never"),
            2 => {
                let mut ends = self.template(name);
                ends["spec"]["restartPolicy"] = json!(["OnFailure", "Never"][self.index(2)]);
                ends
            }
            _ => self.template(name),
        };
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod
    }

    fn service(&mut self, app: &str) -> Value {
        let mut spec = json!({"selector": {"app": app}, "ports": [{"port": 80}]});
        if app == "db" {
            spec["clusterIP"] = json!("None");
            spec["publishNotReadyAddresses"] = json!(self.once_in(2));
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": app}, "spec": spec})
    }

    fn budget(&mut self, app: &str) -> Value {
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
        match self.index(4) {
            0 => spec["minAvailable"] = json!(1),
            1 => spec["minAvailable"] = json!("50%"),
            _ => spec["maxUnavailable"] = json!(1),
        }
        if self.once_in(4) {
            spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        }
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app}, "spec": spec,
        })
    }
}

fn claim() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}
