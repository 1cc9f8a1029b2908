//! The scenarios in `testdata/*.txt`: what happens to a pod, a line `----`, and what the ladder
//! decides. Run with `UPDATE_SCENARIOS=1` to write the expected parts anew, then read the
//! difference.
//!
//! A block is a list of commands; the last line of what it prints is followed by an empty line.
//! ```text
//! ladder window=10m rungs=Container:2,Pod:2 [maxConcurrent=N] [perMinute=N] [onExhausted=Fail] [generation=N] [uid=UID]
//! pod app [init:seed] [sidecar:proxy] [policy=OnFailure]     a new pod with these containers
//! age 2h                       the pod was created that long ago
//! +500ms                       time passes
//! run NAME | run all           an attempt of a container begins
//! exit NAME CODE [REASON [MESSAGE]]
//! crash NAME CODE TIMES        so many attempts begin and end, and nobody looks in between
//! backoff NAME 10s             it waits in CrashLoopBackOff
//! waiting NAME REASON [MESSAGE]
//! sandbox True|False           condition PodReadyToStartContainers
//! restart shown                the PodRestart that was asked for shows up in the API
//! restart done                 … and is carried out: what runs is ended, everything runs again
//! restart running | killed | refused | succeeded | gone (it is removed when it has been over for a while)
//! user restart NAME            somebody else makes a PodRestart
//! restart held WORDS           the operator holds it back, as a disruption budget says
//! restart given-up WORDS       … and gives it up
//! restart evicting             … or goes on with it
//! restart replaced             … and the pod comes back under its name, while the request is shown as done
//! others under-way=N decided=N
//! crowd namespace=N cluster=N workload=N                     restarts of other ladders' pods, just now
//! peers failing=N of=N [tried=RUNG] [trial=RUNG] [helped=RUNG]   pods of the revision that fail alike
//! node failing=N of=N          pods of the node that fail, while another node does better
//! node ended=N of=N            pods of the node that ended together, just now
//! of DaemonSet                 the pod is of a DaemonSet
//! node says CONDITION          what the node says is wrong with it
//! rollback N                   revision N was healthy
//! agent none                   the pod's node restarts nothing in place
//! mode observe | act           whether decisions are carried out
//! old definitions              the API drops status.dryRunSince of the ledger
//! recreated                    the pod comes back under the same name with another UID, and runs; requests for the old one are gone
//! recreated meanwhile          … and nothing runs yet; requests for the old one are there
//! delete | phase Failed | phase Succeeded
//! decide                       prints the decision
//! wake                         time passes until the ladder wants to decide again; prints the decision
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rekindle_ladder::{
    InPlaceSupport, LadderAction, LadderMode, LadderPolicy, LimitUsage, NodeOutage, NodeTrouble,
    RestartDecision, RollbackTarget, Trial,
};
use rekindle_types::v1alpha1::{
    LadderBudget, LadderRung, OnExhausted, PodRestartPhase, PodRestartSpec, ReplacementStep,
    RestartLadder, Rung,
};
use rekindle_types::{Tick, TickDuration};

use crate::world::{DAWN, Role, World};

#[test]
fn scenarios_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the test data is there")
        .map(|entry| entry.expect("the folder is readable").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let before = std::fs::read_to_string(&file).expect("a scenario is text");
        let after = play(&before);
        if update {
            std::fs::write(&file, after).expect("the test data can be written");
        } else {
            assert_eq!(after, before, "{} (UPDATE_SCENARIOS=1 writes it anew)", file.display());
        }
    }
}

/// The same text with the output of each block as it is now.
fn play(text: &str) -> String {
    let mut player = Player { world: None, last: None, ladder: RestartLadder::default() };
    let mut out = String::new();
    let mut skip_output = false;
    let mut printed = String::new();
    for line in text.lines() {
        if skip_output {
            if line.is_empty() {
                skip_output = false;
                out.push('\n');
            }
            continue;
        }
        out.push_str(line);
        out.push('\n');
        let command = line.split('#').next().unwrap_or_default().trim();
        if line == "----" {
            out.push_str(&std::mem::take(&mut printed));
            skip_output = true;
        } else if !command.is_empty() {
            player.command(command, &mut printed);
        }
    }
    assert!(printed.is_empty(), "a decision is printed that no block expects");
    out
}

struct Player {
    world: Option<World>,
    last: Option<RestartDecision>,
    ladder: RestartLadder,
}

impl Player {
    fn world(&mut self) -> &mut World {
        self.world.as_mut().expect("a scenario names its pod first")
    }

    fn command(&mut self, line: &str, out: &mut String) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest_from = |n: usize| words.get(n..).unwrap_or_default().join(" ");
        match words.as_slice() {
            ["ladder", options @ ..] => self.set_ladder(&options_of(options)),
            ["pod", containers @ ..] => self.new_pod(containers),
            ["age", span] => {
                let world = self.world();
                world.created = world.now - span_of(span);
            }
            [plus] if plus.starts_with('+') => self.world().advance(span_of(&plus[1..])),
            [back] if back.starts_with('-') => self.world().set_clock_back(span_of(&back[1..])),
            ["run", "all"] => self.world().run_all(),
            ["run", name] => self.world().run(name),
            ["exit", name, code, ..] => {
                let code: i32 = code.parse().expect("an exit code");
                let reason = words.get(3).copied();
                let usual = if code == 0 { "Completed" } else { "Error" };
                self.world().exit(name, code, reason.unwrap_or(usual), &rest_from(4));
            }
            ["crash", name, code, times] => {
                let code: i32 = code.parse().expect("an exit code");
                for _ in 0..times.parse().expect("a number") {
                    self.world().run(name);
                    self.world().exit(name, code, "Error", "");
                }
            }
            ["backoff", name, delay] => {
                let message = format!(
                    "back-off {delay} restarting failed container={name} pod=web-0_shop(uid-1)"
                );
                self.world().wait(name, "CrashLoopBackOff", &message);
            }
            ["waiting", name, reason, ..] => self.world().wait(name, reason, &rest_from(3)),
            ["sandbox", stands] => {
                let world = self.world();
                world.sandbox = if *stands == "True" { "True" } else { "False" };
                world.sandbox_since = world.now;
            }
            ["of", "DaemonSet"] => self.world().owner_kind = Some("DaemonSet"),
            ["of", "Node"] => self.world().owner_kind = Some("Node"),
            ["node", "says", condition] => {
                self.world().peers.node_says = Some((*condition).to_owned());
            }
            ["restart", "held", ..] => self.hold(&rest_from(2)),
            ["restart", "given-up", ..] => {
                self.hold(&rest_from(2));
                self.world().report(PodRestartPhase::Failed);
            }
            ["restart", "evicting"] => {
                self.hold("evicting");
                let status = self.world().restarts.last_mut().and_then(|r| r.status.as_mut());
                let replacement = status.and_then(|status| status.replacement.as_mut());
                replacement.expect("it was taken up").step = ReplacementStep::Evicting;
            }
            ["restart", "replaced"] => {
                let world = self.world();
                world.report(PodRestartPhase::Running);
                world.replace();
                world.report(PodRestartPhase::Succeeded);
            }
            ["restart", step] => self.restart(step),
            ["crowd", options @ ..] => {
                let options = options_of(options);
                let world = self.world();
                let now = world.now;
                let times = |key: &str| {
                    let count = options.get(key).map_or(0, |n| n.parse().expect("a number"));
                    vec![now; count]
                };
                world.crowd = LimitUsage {
                    namespace: times("namespace"),
                    cluster: times("cluster"),
                    workload: times("workload"),
                };
            }
            ["peers", options @ ..] => self.set_peers(&options_of(options)),
            ["node", "well"] => self.world().peers.outage = None,
            ["node", options @ ..] => {
                let options = options_of(options);
                let number = |key: &str| options[key].parse().expect("a number");
                let name = "n1".to_owned();
                if options.contains_key("ended") {
                    let (ended, pods) = (number("ended"), number("of"));
                    let over_at = self.world().now + TickDuration::from_secs(120);
                    self.world().peers.outage = Some(NodeOutage { name, pods, ended, over_at });
                    return;
                }
                let (failing, pods) = (number("failing"), number("of"));
                self.world().peers.node = Some(NodeTrouble { name, pods, failing });
            }
            ["agent", "none"] => self.world().authority.in_place = InPlaceSupport::NoAgent,
            ["old", "definitions"] => self.world().has_old_definitions = true,
            ["mode", "observe"] => self.world().authority.mode = LadderMode::Observe,
            ["mode", "act"] => self.world().authority.mode = LadderMode::Act,
            ["rollback", "none"] => self.world().rollback = None,
            ["rollback", revision] => {
                let revision = revision.parse().expect("a number");
                let deployment = "web".to_owned();
                self.world().rollback = Some(RollbackTarget { deployment, revision });
            }
            ["user", "restart", name] => {
                let spec =
                    PodRestartSpec { pod_name: "web-0".to_owned(), ..PodRestartSpec::default() };
                self.world().show(name, spec);
            }
            ["user", "restart", name, container] => {
                let spec = PodRestartSpec {
                    pod_name: "web-0".to_owned(),
                    rung: Some(Rung::Container),
                    container_name: Some((*container).to_owned()),
                    ..PodRestartSpec::default()
                };
                self.world().show(name, spec);
            }
            ["others", options @ ..] => self.others(&options_of(options)),
            ["recreated"] => self.recreate(),
            ["recreated", "meanwhile"] => self.world().replace(),
            ["delete"] => self.world().deleted = true,
            ["phase", "Failed"] => self.world().phase = "Failed",
            ["phase", "Succeeded"] => self.world().phase = "Succeeded",
            ["decide"] => self.decide(out),
            ["wake"] => {
                let at = self.last.as_ref().and_then(|d| d.again_at).expect("it wants to be woken");
                self.world().now = at;
                self.decide(out);
            }
            _ => panic!("no such command: {line}"),
        }
    }

    fn set_ladder(&mut self, options: &BTreeMap<String, String>) {
        let ladder = &mut self.ladder;
        ladder.metadata.name = Some("web".to_owned());
        ladder.metadata.generation =
            Some(options.get("generation").map_or(1, |n| n.parse().expect("a number")));
        ladder.metadata.uid = options.get("uid").cloned();
        let spec = &mut ladder.spec;
        spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
        spec.window = options.get("window").cloned();
        spec.rungs = options["rungs"].split(',').map(rung_of).collect();
        let number = |key: &str| options.get(key).map(|n| n.parse().expect("a number"));
        spec.budget = Some(LadderBudget {
            max_concurrent: number("maxConcurrent"),
            per_minute: number("perMinute"),
        });
        spec.on_exhausted = options.get("onExhausted").map(|word| match word.as_str() {
            "Fail" => OnExhausted::Fail,
            _ => OnExhausted::Hold,
        });
        let policy = LadderPolicy::from_ladder(ladder).expect("the scenario's ladder is valid");
        if let Some(world) = &mut self.world {
            world.policy = policy;
        }
    }

    fn new_pod(&mut self, containers: &[&str]) {
        let mut world =
            World::new(LadderPolicy::from_ladder(&self.ladder).expect("the ladder comes first"));
        for word in containers {
            match (word.split_once(':'), word.split_once('=')) {
                (Some(("init", name)), _) => world.add(name, Role::Init),
                (Some(("sidecar", name)), _) => world.add(name, Role::Sidecar),
                (_, Some(("policy", policy))) => world.restart_policy = policy.to_owned(),
                _ => world.add(word, Role::Regular),
            }
        }
        self.world = Some(world);
    }

    fn restart(&mut self, step: &str) {
        let plan = match self.last.as_ref().map(|d| &d.action) {
            Some(LadderAction::Restart(plan)) => Some((plan.name.clone(), plan.spec())),
            Some(LadderAction::None | LadderAction::Fail { .. }) | None => None,
        };
        let world = self.world();
        if let Some((name, spec)) = plan {
            world.show(&name, spec);
        }
        match step {
            "shown" => {}
            "running" => world.report(PodRestartPhase::Running),
            "killed" => world.kill_all(),
            "succeeded" => world.report(PodRestartPhase::Succeeded),
            "withdrawn" => world.report(PodRestartPhase::Withdrawn),
            "unanswered" => world
                .withdraw("node n1 is not ready: nobody took it up within its deadline of 10m30s"),
            "failed" => world.report(PodRestartPhase::Failed),
            "refused" => world.report(PodRestartPhase::Refused),
            "gone" => world.restarts.clear(),
            "done" => {
                world.report(PodRestartPhase::Running);
                world.kill_all();
                world.run_all();
                world.report(PodRestartPhase::Succeeded);
            }
            _ => panic!("no such step of a restart: {step}"),
        }
    }

    fn hold(&mut self, why: &str) {
        self.restart("running");
        self.world().hold(why);
    }

    fn set_peers(&mut self, options: &BTreeMap<String, String>) {
        let number =
            |key: &str| options.get(key).map_or(0, |n| n.parse::<usize>().expect("a number"));
        let rung = |key: &str| options.get(key).map(|name| rung_named(name));
        let (tried, helped, trial) = (rung("tried"), rung("helped"), rung("trial"));
        let over_at = self.world().now + TickDuration::from_secs(600);
        let trial = trial.map(|rung| Trial { pod: "web-1".to_owned(), rung, over_at });
        let peers = &mut self.world().peers;
        (peers.helped, peers.trial) = (helped, trial);
        peers.revision = "ReplicaSet web-5d4f".to_owned();
        (peers.failing_alike, peers.replicas, peers.tried) =
            (number("failing"), number("of"), tried);
    }

    fn others(&mut self, options: &BTreeMap<String, String>) {
        let number =
            |key: &str| options.get(key).map_or(0, |n| n.parse::<usize>().expect("a number"));
        let (under_way, decided) = (number("under-way"), number("decided"));
        let world = self.world();
        world.others.under_way = vec![world.now; under_way];
        world.others.decided = vec![world.now; decided];
    }

    fn recreate(&mut self) {
        let world = self.world();
        world.replace();
        world.restarts.clear();
        world.run_all();
    }

    fn decide(&mut self, out: &mut String) {
        let world = self.world.as_mut().expect("a scenario names its pod first");
        let decision = world.decide();
        print(&decision, world.now, out);
        let again = world.clone().decide();
        assert_eq!(again.ledger, decision.ledger, "deciding twice changes nothing");
        assert!(again.events.is_empty(), "and says nothing twice: {:?}", again.events);
        self.last = Some(decision);
    }
}

fn print(decision: &RestartDecision, now: Tick, out: &mut String) {
    let ledger = &decision.ledger;
    let mut line = String::new();
    let phase = ledger.phase.map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}"));
    let _ = write!(line, "[{}] {phase}", since_dawn(now));
    if let Some(rung) = ledger.rung {
        let _ = write!(line, " on {rung}");
    }
    for attempts in ledger.attempts.iter().flatten() {
        let _ = write!(line, ", {} {}", attempts.rung, attempts.at.len());
    }
    let _ = write!(line, ", failures {}", ledger.failures_total);
    if let Some(rung) = ledger.held_rung {
        let _ = write!(line, ", held {rung}");
    }
    if let Some(at) = &ledger.next_attempt_at {
        let _ = write!(line, ", next [{}]", since_dawn(Tick::from(at)));
    }
    if let Some(at) = &ledger.stable_since {
        let _ = write!(line, ", stable since [{}]", since_dawn(Tick::from(at)));
    }
    if let Some(at) = decision.again_at {
        let _ = write!(line, ", again [{}]", since_dawn(at));
    }
    let held: Vec<&str> = ledger
        .conditions
        .iter()
        .flatten()
        .filter(|c| c.status == "True")
        .map(|c| c.type_.as_str())
        .collect();
    if !held.is_empty() {
        let _ = write!(line, ", is {}", held.join("+"));
    }
    let message = ledger.message.as_deref().unwrap_or_default();
    let _ = writeln!(out, "{line}");
    let summary = ledger.summary.as_deref().unwrap_or_default();
    assert_eq!(summary.is_empty(), message.is_empty(), "what is said is said in full and in brief");
    if !message.is_empty() {
        let _ = writeln!(out, "  summary: {summary}");
        let _ = writeln!(out, "  why: {message}");
    }
    match &decision.action {
        LadderAction::None => {}
        LadderAction::Fail { message: why } => {
            let _ = writeln!(
                out,
                "  do: the pod is Failed: {}",
                if why == message { "why" } else { why }
            );
        }
        LadderAction::Restart(plan) => {
            let _ = writeln!(out, "  do: PodRestart {} {}", plan.name, plan.rung);
        }
    }
    for event in &decision.events {
        let same = if event.message == message { "why" } else { event.message.as_str() };
        let _ = writeln!(out, "  say: {:?} {}: {same}", event.severity, event.reason);
    }
}

fn since_dawn(at: Tick) -> String {
    let millis = at.since(DAWN).as_micros() / 1000;
    match (millis / 1000, millis % 1000) {
        (secs, 0) => format!("{secs}s"),
        (secs, millis) => format!("{secs}.{millis:03}s"),
    }
}

fn options_of(words: &[&str]) -> BTreeMap<String, String> {
    let pair = |word: &&str| {
        let (key, value) = word.split_once('=').expect("an option is key=value");
        (key.to_owned(), value.to_owned())
    };
    words.iter().map(pair).collect()
}

fn rung_of(word: &str) -> LadderRung {
    let (name, attempts) = word.split_once(':').expect("a rung is Name:attempts");
    LadderRung {
        rung: rung_named(name),
        attempts: Some(attempts.parse().expect("a number")),
        empty_dirs: None,
        avoid_node_for: None,
    }
}

fn rung_named(name: &str) -> Rung {
    let all = [
        Rung::Container,
        Rung::Containers,
        Rung::Pod,
        Rung::Recreate,
        Rung::Reschedule,
        Rung::Rollback,
    ];
    all.into_iter().find(|rung| rung.name() == name).expect("a rung")
}

fn span_of(text: &str) -> TickDuration {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
    let number: u64 = number.parse().expect("a number");
    match unit {
        "ms" => TickDuration::from_millis(number),
        "s" => TickDuration::from_secs(number),
        "m" => TickDuration::from_secs(number * 60),
        "d" => TickDuration::from_secs(number * 86_400),
        "h" => TickDuration::from_secs(number * 3600),
        _ => panic!("no such unit: {text}"),
    }
}
