//! Makes campaigns from seeds: pods of every shape, users who change them, and faults.

use std::collections::BTreeSet;

use rekindle_controllers::{Kind, NamespacedName, ObjectId};
use rekindle_types::v1alpha1::Rung;
use rekindle_types::{ExitStatus, TickDuration};
use serde_json::{Value, json};

use crate::behaviour::{Behaviour, Exits, MendedBy};
use crate::campaign::{Campaign, FAULTS_END};
use crate::entropy::Seeded;
use crate::faults::{Deed, Rates, Relief, Sync};
use crate::script::Change;

impl Campaign {
    /// The campaign of a seed. Every fourth has no faults but agents that die: there the number of starts can be compared.
    pub fn of_seed(seed: u64) -> Self {
        let mut draw = Draw { entropy: Seeded::new(seed) };
        let mut campaign = Self {
            seed,
            nodes: 1 + draw.index(4),
            objects: Vec::new(),
            behaviours: Vec::new(),
            deeds: Vec::new(),
            rates: Rates::default(),
            crashes: BTreeSet::new(),
            bug: None,
        };
        draw.workload(&mut campaign);
        if !campaign.has_crashes_only() {
            draw.behaviours(&mut campaign);
            draw.users(&mut campaign);
            draw.faults(&mut campaign);
        }
        for _ in 0..draw.index(6) {
            campaign.crashes.insert(draw.entropy.below(600));
        }
        campaign.behaviours.extend(permanent());
        campaign
    }

    /// Whether nothing goes wrong but that agents die.
    pub fn has_crashes_only(&self) -> bool {
        // one that was made by hand has what it was given, whatever its seed
        let is_sound = self.deeds.is_empty() && self.rates == Rates::default();
        self.seed.is_multiple_of(4) && is_sound
    }
}

/// What containers of these names always do.
fn permanent() -> [Behaviour; 2] {
    let ends = |container: &str, seconds| Behaviour {
        container: Some(container.to_owned()),
        exits: Some(Exits { code: 0, after: TickDuration::from_secs(seconds), oom: false }),
        ..Behaviour::default()
    };
    [ends("setup", 1), ends("work", 5)]
}

/// Draws what a campaign is made of.
struct Draw {
    entropy: Seeded,
}

impl Draw {
    fn index(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from(self.entropy.below(bound)).unwrap_or(0)
    }

    /// True once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.entropy.below(times) == 0
    }

    fn moment(&mut self) -> TickDuration {
        TickDuration::from_millis(self.entropy.below(FAULTS_END.as_micros() / 1_000))
    }

    fn workload(&mut self, campaign: &mut Campaign) {
        for index in 0..1 + self.index(2) {
            let name = format!("web-{index}");
            let template = self.template(&name);
            campaign.objects.push(json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "replicas": 1 + self.index(4),
                    "selector": {"matchLabels": {"app": name}},
                    "template": template,
                },
            }));
        }
        if self.once_in(2) {
            let template = self.template("db");
            let mut set = json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {
                    "replicas": 1 + self.index(3), "serviceName": "db",
                    "selector": {"matchLabels": {"app": "db"}}, "template": template,
                },
            });
            if self.once_in(2) {
                set["spec"]["volumeClaimTemplates"] = json!([claim()]);
            }
            campaign.objects.push(set);
        }
        if self.once_in(2) {
            campaign.objects.push(json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
                "spec": {
                    "completions": 1 + self.index(3), "parallelism": 2,
                    "template": {
                        "metadata": {"labels": {"app": "once"}},
                        "spec": {"restartPolicy": "OnFailure", "containers": [container("work")]},
                    },
                },
            }));
        }
        for app in ["web-0", "db"] {
            if self.once_in(2) {
                campaign.objects.push(self.budget(app));
            }
        }
        if self.once_in(2) {
            campaign.objects.push(self.ladder());
        }
    }

    fn budget(&mut self, app: &str) -> Value {
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
        match self.index(4) {
            0 => spec["minAvailable"] = json!(1),
            1 => spec["minAvailable"] = json!("50%"),
            _ => spec["maxUnavailable"] = json!(1),
        }
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app}, "spec": spec,
        })
    }

    fn ladder(&mut self) -> Value {
        let mut rungs = vec![json!({"rung": "Container", "attempts": 1 + self.index(3)})];
        for rung in ["Containers", "Pod", "Recreate", "Reschedule"] {
            if self.once_in(2) {
                rungs.push(json!({"rung": rung, "attempts": 1 + self.index(2)}));
            }
        }
        json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web-0"}}, "window": "5m", "rungs": rungs,
                "budget": {"maxConcurrent": 1, "perMinute": 6},
            },
        })
    }

    fn template(&mut self, app: &str) -> Value {
        let mut main = container("app");
        // one that hangs must be found out by somebody, or it would never be ready again
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
        let mut spec = json!({
            "containers": [main], "terminationGracePeriodSeconds": 1 + self.index(30),
        });
        let mut init = Vec::new();
        if self.once_in(3) {
            init.push(container("setup"));
        }
        if self.once_in(3) {
            let mut sidecar = container("sidecar");
            sidecar["restartPolicy"] = json!("Always");
            init.push(sidecar);
        }
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
        json!({"metadata": {"labels": {"app": app}}, "spec": spec})
    }

    fn behaviours(&mut self, campaign: &mut Campaign) {
        for _ in 0..self.index(4) {
            let app = ["web-0", "web-1", "db", "once"][self.index(4)];
            let exits = Exits {
                code: 1 + u8::try_from(self.index(200)).unwrap_or(0),
                after: TickDuration::from_millis(self.entropy.below(60_000)),
                oom: self.once_in(4),
            };
            let hangs = self.once_in(4);
            campaign.behaviours.push(Behaviour {
                match_labels: [("app".to_owned(), app.to_owned())].into(),
                container: Some(if app == "once" { "work" } else { "app" }.to_owned()),
                from: self.moment(),
                until: Some(FAULTS_END),
                mended_by: [MendedBy::Nothing, MendedBy::Container, MendedBy::Pod][self.index(3)],
                // what hangs hangs for good: of a Job's pod nobody would notice
                exits: Some(exits).filter(|_| !hangs || app == "once"),
                hangs: hangs && app != "once",
                ..Behaviour::default()
            });
        }
    }

    fn users(&mut self, campaign: &mut Campaign) {
        for _ in 0..self.index(8) {
            let at = self.moment();
            let pick = self.entropy.next();
            let deed = match self.index(7) {
                0 => self.scale(),
                1 => Deed::User(self.roll()),
                2 => Deed::DeletePod(pick),
                3 => Deed::EvictPod(pick),
                4 | 5 => {
                    let rungs = [Rung::Container, Rung::Containers, Rung::Pod, Rung::Recreate];
                    Deed::RestartPod(pick, rungs[self.index(4)])
                }
                _ => self.invalid(),
            };
            campaign.deeds.push((at, deed));
            if self.once_in(2) {
                // in the middle of what that brings about
                let (node, action) = (self.entropy.next(), self.entropy.below(60));
                campaign.deeds.push((at, Deed::CrashAgentBefore(node, action)));
            }
        }
    }

    /// What the API refuses, and nothing else may change for it.
    fn invalid(&mut self) -> Deed {
        let spec = match self.index(4) {
            0 => json!({"replicas": -1}),
            1 => json!({"selector": {"matchLabels": {"app": "other"}}}),
            2 => json!({"strategy": {"type": "Sideways"}}),
            _ => json!({"replicas": "many"}),
        };
        let id = ObjectId::new(Kind::Deployment, NamespacedName::new("default", "web-0"));
        Deed::Invalid(id, json!({"spec": spec}))
    }

    fn scale(&mut self) -> Deed {
        let id = ObjectId::new(Kind::Deployment, NamespacedName::new("default", "web-0"));
        Deed::User(Change::Patch(id, json!({"spec": {"replicas": self.index(6)}})))
    }

    fn roll(&mut self) -> Change {
        let version = json!({"version": format!("{}", self.index(5))});
        let id = ObjectId::new(Kind::Deployment, NamespacedName::new("default", "web-0"));
        Change::Patch(id, json!({"spec": {"template": {"metadata": {"annotations": version}}}}))
    }

    fn faults(&mut self, campaign: &mut Campaign) {
        let mut rate = |bound| match self.once_in(2) {
            true => self.entropy.below(bound),
            false => 0,
        };
        campaign.rates = Rates {
            runtime_fails: rate(60),
            runtime_unsaid: rate(60),
            runtime_late: rate(60),
            runtime_silent: rate(15),
            write_lost: rate(60),
            write_unsaid: rate(60),
            write_conflict: rate(60),
        };
        for _ in 0..self.index(10) {
            let (at, pick) = (self.moment(), self.entropy.next());
            let lasts = TickDuration::from_secs(1 + self.entropy.below(180));
            let deed = match self.index(14) {
                0 => Deed::CrashAgent(pick),
                13 => Deed::Reboot(pick),
                12 => Deed::CrashAgentBefore(pick, self.entropy.below(30)),
                1 => Deed::CrashControllers,
                2 => Deed::PowerLoss(Sync::Before),
                3 => Deed::PowerLoss(Sync::After),
                4 => Deed::DeafControllers(lasts, Relief::Batch),
                5 => Deed::DeafControllers(lasts, Relief::Relist),
                6 => Deed::DeafNode(pick, lasts),
                7 => Deed::LoseNode(pick, lasts),
                8 => Deed::EndContainer(pick, ExitStatus::OomKilled),
                9 => Deed::FullDisk(lasts),
                10 => Deed::WallClock(i64::try_from(self.entropy.below(1_200)).unwrap_or(0) - 600),
                _ => match self.once_in(2) {
                    true => Deed::EndSandbox(pick),
                    false => Deed::ClockStep(lasts),
                },
            };
            campaign.deeds.push((at, deed));
        }
    }
}

fn claim() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "app:1", "securityContext": {"runAsUser": 1000}})
}
