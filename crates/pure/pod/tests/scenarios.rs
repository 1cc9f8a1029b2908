//! Scenarios in `testdata/*.txt`: commands, and below `----` what the core asked for. The files are
//! read by people; the first lines say where the behaviour comes from. `UPDATE_EXPECT=1` writes
//! what the core does now into them.
#![allow(clippy::disallowed_methods, reason = "a test reads its data files")]

mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Container, ContainerResizePolicy, ContainerRestartRule, ContainerRestartRuleOnExitCodes,
    Lifecycle, LifecycleHandler, Pod, Probe, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rekindle_pod::{
    ActionErrorKind, ContainerSeenState, CoreAction, CoreEvent, EvictionCause, GroupHold,
    NeededImage, PodConfig, PodEviction, ResourceDecision, RestartRequest, Series,
};
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::v1alpha1::{EmptyDirPolicy, Rung};
use rekindle_types::{ContainerName, ExitStatus, TickDuration};
use world::build::{self, PodExt};
use world::runtime::Says;
use world::{Disk, Processes, START, World, digest};

#[test]
fn scenarios_do_what_their_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = std::fs::read_dir(&folder).expect("the folder of the scenarios");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a scenario");
        println!("{}", file.display()); // shown when a command below panics
        let now = Scenario::run(&text);
        if now == text {
            continue;
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(file, now).expect("the scenario is written");
        } else {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            wrong.push(format!("{name}: {}", first_difference(&text, &now)));
        }
    }
    assert!(wrong.is_empty(), "UPDATE_EXPECT=1 writes them anew\n{}", wrong.join("\n"));
}

fn first_difference(old: &str, new: &str) -> String {
    let mut lines = old.lines().zip(new.lines()).enumerate();
    match lines.find(|(_, (old, new))| old != new) {
        Some((number, (old, new))) => format!("line {}\n  - {old}\n  + {new}", number + 1),
        None => "one goes on where the other ends".to_owned(),
    }
}

/// One file while it runs.
struct Scenario {
    world: Option<World>,
}

impl Scenario {
    /// The file with the output as it is now.
    fn run(text: &str) -> String {
        let mut scenario = Self { world: None };
        let mut output = String::new();
        for block in text.split("\n\n").map(str::trim_end).filter(|block| !block.is_empty()) {
            if !output.is_empty() {
                output.push('\n');
            }
            if block.starts_with('#') {
                let _ = writeln!(output, "{block}");
                continue;
            }
            let commands = block.split("\n----").next().unwrap_or_default();
            let _ = writeln!(output, "{commands}\n----");
            for line in scenario.execute(commands) {
                let _ = writeln!(output, "{line}");
            }
        }
        output
    }

    fn execute(&mut self, commands: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if commands.starts_with("pod") {
            self.world = Some(World::with_config(parse_pod(commands), parse_config(commands)));
            return lines;
        }
        let world = self.world.as_mut().expect("a scenario begins with a pod");
        for command in commands.lines() {
            world.log.clear();
            let answer = perform(world, &Words::parse(command));
            world.poll_all();
            lines.append(&mut world.log);
            lines.extend(answer);
        }
        let next = world.core.poll_timeout().map(|at| digest::span(at.since(START)));
        let now = digest::span(world.now.since(START));
        if let Some(next) = next {
            lines.push(format!("-- {now}, wakes at {next}"));
        } else {
            lines.push(format!("-- {now}"));
        }
        lines
    }
}

/// A command: its words, and what is given as `name=value`. A value with blanks is in quotes.
struct Words {
    words: Vec<String>,
    values: Vec<(String, String)>,
}

impl Words {
    fn parse(line: &str) -> Self {
        let mut parsed = Self { words: Vec::new(), values: Vec::new() };
        let mut word = String::new();
        let mut quoted = false;
        for c in line.chars().chain([' ']) {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => parsed.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        parsed
    }

    fn push(&mut self, word: String) {
        match word.split_once('=') {
            Some((name, value)) => self.values.push((name.to_owned(), value.to_owned())),
            None if word.is_empty() => {}
            None => self.words.push(word),
        }
    }

    fn word(&self, place: usize) -> &str {
        self.words.get(place).map_or("", String::as_str)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn seconds(&self, name: &str) -> Option<TickDuration> {
        self.value(name).map(|text| TickDuration::from_secs(text.parse().expect("seconds")))
    }
}

fn parse_pod(text: &str) -> Pod {
    let mut lines = text.lines().map(Words::parse);
    let first = lines.next().expect("the pod's own line");
    let mut pod = build::pod(first.value("restart").unwrap_or("Always"));
    if let Some(grace) = first.value("grace") {
        pod = pod.with_grace(grace.parse().expect("seconds"));
    }
    if let Some(deadline) = first.value("deadline") {
        pod = pod.with_deadline(deadline.parse().expect("seconds"));
    }
    if let Some(gate) = first.value("gate") {
        pod = pod.with_gate(gate);
    }
    for line in lines {
        let mut container: Container = build::container(line.word(1));
        if let Some(image) = line.value("image") {
            container.image = Some(image.to_owned());
        }
        if let Some(policy) = line.value("pull") {
            container.image_pull_policy = Some(policy.to_owned());
        }
        container.resources = parse_resources(line.value("requests"), line.value("limits"));
        container.resize_policy = line.value("resize").map(parse_resize_policy);
        if let Some(volume) = line.value("volume") {
            pod = pod.with_image_volume(&mut container, volume, line.value("volume-pull"));
        }
        container.restart_policy = line.value("restart").map(str::to_owned);
        container.startup_probe = line.value("startup").map(parse_probe);
        container.readiness_probe = line.value("readiness").map(parse_probe);
        container.liveness_probe = line.value("liveness").map(parse_probe);
        container.restart_policy_rules = line.value("rules").map(parse_rules);
        container.lifecycle = Some(Lifecycle {
            post_start: line.value("postStart").map(|_| LifecycleHandler::default()),
            pre_stop: line.value("preStop").map(|_| LifecycleHandler::default()),
            ..Lifecycle::default()
        });
        pod = match line.word(0) {
            "init" => pod.with_init_container(container),
            "sidecar" => {
                container.restart_policy = Some("Always".to_owned());
                pod.with_init_container(container)
            }
            "container" => pod.with_container(container),
            other => panic!("{other} is no kind of container"),
        };
    }
    pod
}

/// `cap=5` in the pod's own line: the longest wait before a restart that its node allows, seconds.
fn parse_config(text: &str) -> PodConfig {
    let first = Words::parse(text.lines().next().unwrap_or_default());
    let usual = world::config();
    let cap = first.seconds("cap").unwrap_or(usual.max_container_restart_period);
    PodConfig { max_container_restart_period: cap, ..usual }
}

/// `delay=1 period=5 pass=1 fail=3 timeout=2 grace=7`, each of which may be absent.
fn parse_probe(text: &str) -> Probe {
    let words = Words::parse(text);
    let number = |name: &str| words.value(name).map(|text| text.parse().expect("a number"));
    Probe {
        initial_delay_seconds: number("delay"),
        period_seconds: number("period"),
        success_threshold: number("pass"),
        failure_threshold: number("fail"),
        timeout_seconds: number("timeout"),
        termination_grace_period_seconds: number("grace").map(i64::from),
        ..Probe::default()
    }
}

/// `Restart In 42 43; RestartAllContainers NotIn 0`.
fn parse_rules(text: &str) -> Vec<ContainerRestartRule> {
    let rule = |text: &str| {
        let mut words = text.split_whitespace();
        let mut word = || words.next().expect("action and operator").to_owned();
        let (action, operator) = (word(), word());
        let values = words.map(|code| code.parse().expect("an exit code")).collect();
        let on_codes = ContainerRestartRuleOnExitCodes { operator, values: Some(values) };
        ContainerRestartRule { action, exit_codes: Some(on_codes) }
    };
    text.split(';').map(rule).collect()
}

/// Carries a command out; what it has to say itself is returned.
fn perform(world: &mut World, words: &Words) -> Vec<String> {
    match words.word(0) {
        // all that is asked for is done, until nothing more is
        "obey" => world.obey(),
        // the first waiting action of this name is done
        "ok" => {
            let place = waiting(world, words);
            world.carry_out(place);
            world.report_exits();
        }
        // the same, and the answer never comes
        "unanswered" => {
            let place = waiting(world, words);
            world.carry_out_unanswered(place);
        }
        "fail" => {
            let place = waiting(world, words);
            let kind = error_kind(words.value("kind").unwrap_or("Other"));
            world.fail(place, kind, words.value("message").unwrap_or("it failed"));
        }
        // a start is carried out, and its answer does not say so
        "unclear" => {
            let place = waiting(world, words);
            world.start_unclear(place, words.value("message").unwrap_or("it failed"));
        }
        "snapshot" => world.snapshot(),
        "start" => {
            world.snapshot();
            world.obey();
            world.log.clear();
        }
        "signals" => world.runtime.obeys_signals = words.word(1) == "obeyed",
        "exit" => {
            let status = exit_status(words);
            assert!(world.exit(words.word(1), status), "it does not run");
        }
        // what probes and hooks come to from now on: `says web Liveness Failure`
        "says" => {
            let says = match words.word(3) {
                "Success" => Says::Success,
                "Warning" => Says::Warning,
                "Failure" => Says::Failure,
                "NotListening" => Says::NotListening,
                "Error" => Says::Error,
                "Hangs" => Says::Hangs,
                other => panic!("{other} is nothing that a probe says"),
            };
            let of = format!("{} {}", words.word(1), words.word(2));
            world.runtime.answers.insert(of, says);
        }
        "advance" => world.advance(parse_span(words.word(1))),
        // the same, and nothing that is asked for is done meanwhile
        "pass" => {
            world.now = world.now + parse_span(words.word(1));
            world.core.handle_timeout(world.now);
        }
        "wake" => {
            world.wake();
        }
        "delete" => {
            let grace = words.seconds("grace").expect("a grace");
            world.tell(CoreEvent::DeleteRequested { grace });
        }
        "node-stops" => {
            let grace = words.seconds("grace").expect("a grace");
            world.tell(CoreEvent::NodeStops { grace });
        }
        "evict" => world.tell(CoreEvent::Eviction(PodEviction {
            cause: match words.value("cause") {
                None | Some("pressure") => EvictionCause::NodePressure,
                Some("storage-limit") => EvictionCause::StorageLimit,
                Some("shutdown") => EvictionCause::NodeShutdown,
                Some("not-admitted") => {
                    EvictionCause::NotAdmitted { refusal: AdmissionRefusal::NodeShutdown }
                }
                Some(other) => panic!("{other} is no cause of an eviction"),
            },
            message: words.value("message").unwrap_or("the node is low on memory").to_owned(),
            grace: words.seconds("grace").unwrap_or_default(),
        })),
        // an ephemeral container is added to the pod
        "debug" => {
            world.debug(words.word(1), words.value("target"), words.value("volume"));
        }
        "restart" => world.tell(CoreEvent::RestartRequested(request(words))),
        // the others of its group have stopped
        "release" => world
            .tell(CoreEvent::RestartReleased { id: words.value("id").unwrap_or("r1").to_owned() }),
        "restart-impossible" => world.tell(CoreEvent::RestartImpossible {
            request: request(words),
            problem: "image demo:1 of container web: no registry has it".to_owned(),
        }),
        // a setup is carried out, and its answer comes behind the news of the sandbox's death
        "dies-in-setup" => {
            let place = waiting(world, words);
            world.sandbox_dies_in_setup(place);
        }
        "sandbox-dies" => world.sandbox_dies(match words.value("processes") {
            Some("live") => Processes::LiveOn,
            Some(_) | None => Processes::DieToo,
        }),
        // what an agent that starts again finds set on its node
        "cap" => {
            world.config.max_container_restart_period = parse_span(words.word(1));
        }
        "lose-journal" => world.journal = None,
        // the journal cannot be written: `disk full`, `disk has room`
        "disk" => {
            world.disk = if words.word(1) == "full" { Disk::Full } else { Disk::HasRoom };
        }
        "crash" => world.crash_agent(),
        // killed, and started again so much later
        "away" => {
            world.now = world.now + parse_span(words.word(1));
            world.crash_agent();
        }
        "reboot" => world.reboot(),
        // a container ends while nobody looks
        "exit-unseen" => {
            let status = exit_status(words);
            let now = world.now;
            assert!(world.runtime.exit(now, words.word(1), status), "it does not run");
            world.runtime.forget_exits();
        }
        // a container is gone from the runtime, and nobody saw how
        "forget" => assert!(world.runtime.forget(words.word(1)), "it does not run"),
        "change-unseen" => {
            let mut pod = Pod::clone(&world.pod);
            let spec = pod.spec.as_mut().expect("a spec");
            spec.containers[0].image = Some(words.word(1).to_owned());
            world.pod = std::sync::Arc::new(pod);
        }
        // a start is in the runtime that should not be there
        "stray" => {
            let number = words.value("attempt").unwrap_or("0").parse().expect("a number");
            let key = world::runtime::key(0, words.word(1), number);
            let state = match words.word(2) {
                "running" => world::runtime::runs_since(world.now),
                _ => ContainerSeenState::Created,
            };
            world.runtime.insert(key, state);
        }
        "late-exit" => {
            let number = |name: &str| words.value(name).unwrap_or("0").parse().expect("a number");
            let key = world::runtime::key(number("sandbox"), words.word(1), number("attempt"));
            world.late_exit(key);
        }
        "image" => change_image(world, words),
        // other resources are asked for: `resize web requests="cpu=1 memory=1Gi" limits="cpu=2"`,
        // or `resize pod …`
        "resize" => resize(world, words),
        "grant" => world.decide(ResourceDecision::Granted),
        "defer" => world.decide(ResourceDecision::Deferred { message: words.word(1).to_owned() }),
        "infeasible" => {
            world.decide(ResourceDecision::Infeasible { message: words.word(1).to_owned() });
        }
        "resources" => return shown_resources(world),
        "condition" => set_condition(world, words),
        "deleting" => {
            let mut pod = Pod::clone(&world.pod);
            pod.metadata.deletion_timestamp = Some(world.now.to_time());
            world.pod = std::sync::Arc::new(pod);
            world.crash_agent();
        }
        "declare" => declare(world, words),
        "status" => {
            let status = world.pod.status.clone().unwrap_or_default();
            return digest::full_status(&status, START);
        }
        // what the driver makes sure of before it hands in this restart
        "images-before" => {
            let needed = world.core.images_before_restart(&request(words));
            let line =
                |one: NeededImage| format!("{} {} {:?}", one.container, one.image, one.policy);
            return needed.into_iter().map(line).collect();
        }
        "runtime" => {
            let running: Vec<String> = world.runtime.running_names().into_iter().collect();
            let sandboxes = world.runtime.sandbox_attempts();
            let refreshes = world.runtime.refreshes;
            return vec![format!(
                "sandboxes={sandboxes:?} running={running:?} refreshes={refreshes}"
            )];
        }
        other => panic!("{other} is no command"),
    }
    Vec::new()
}

/// The place of the waiting action that is named: by kind, and by container if that is given.
fn waiting(world: &mut World, words: &Words) -> usize {
    world.poll_all();
    let digests: Vec<String> = world.waiting.iter().map(|(_, a)| digest::action(a)).collect();
    let matches = |text: &String| {
        text.starts_with(words.word(1)) && text.contains(&format!(" {}", words.word(2)))
            || (words.word(2).is_empty() && text == words.word(1))
    };
    let place = digests.iter().position(matches);
    place.unwrap_or_else(|| panic!("{:?} is not waiting, but {digests:?}", words.words))
}

fn error_kind(name: &str) -> ActionErrorKind {
    match name {
        "Sandbox" => ActionErrorKind::Sandbox,
        "Volume" => ActionErrorKind::Volume,
        "InvalidImageName" => ActionErrorKind::InvalidImageName,
        "ImageNeverPull" => ActionErrorKind::ImageNeverPull,
        "ImagePull" => ActionErrorKind::ImagePull,
        "ContainerConfig" => ActionErrorKind::ContainerConfig,
        "ContainerCreate" => ActionErrorKind::ContainerCreate,
        "ContainerStart" => ActionErrorKind::ContainerStart,
        "Other" => ActionErrorKind::Other,
        other => panic!("{other} is no kind of error"),
    }
}

fn exit_status(words: &Words) -> ExitStatus {
    match (words.value("code"), words.value("signal"), words.word(2)) {
        (Some(code), _, _) => ExitStatus::Code { code: code.parse().expect("a code") },
        (None, Some(signal), _) => ExitStatus::Signal { signal: signal.parse().expect("a signal") },
        (None, None, "oom") => ExitStatus::OomKilled,
        (None, None, _) => ExitStatus::Code { code: 0 },
    }
}

fn parse_span(text: &str) -> TickDuration {
    if let Some(millis) = text.strip_suffix("ms") {
        return TickDuration::from_millis(millis.parse().expect("milliseconds"));
    }
    let secs = text.strip_suffix('s').expect("a span as 10s or 5ms");
    TickDuration::from_secs(secs.parse().expect("seconds"))
}

fn request(words: &Words) -> RestartRequest {
    let rung = match words.value("rung").unwrap_or("Pod") {
        "Container" => Rung::Container,
        "Containers" => Rung::Containers,
        "Pod" => Rung::Pod,
        "Recreate" => Rung::Recreate,
        other => panic!("{other} is no rung"),
    };
    let empty_dirs = match words.value("emptyDirs") {
        None | Some("Clear") => EmptyDirPolicy::Clear,
        Some("Keep") => EmptyDirPolicy::Keep,
        Some(other) => panic!("{other} is neither Clear nor Keep"),
    };
    let id = words.value("id").unwrap_or("r1").to_owned();
    RestartRequest {
        name: format!("restart-{id}"),
        id,
        rung,
        container: words.value("container").map(|name| ContainerName(name.to_owned())),
        empty_dirs,
        grace: words.seconds("grace"),
        is_fast: words.value("fast") == Some("true"),
        reason: words.value("reason").unwrap_or("a test").to_owned(),
        series: match words.value("by") {
            Some("ladder") => Series::GoesOn,
            Some(other) => panic!("nobody is called {other}"),
            None => Series::Anew,
        },
        group: words.value("group").map(|name| GroupHold {
            name: name.to_owned(),
            limit: words.seconds("limit").unwrap_or(TickDuration::from_secs(600)),
        }),
    }
}

fn change_pod(world: &mut World, change: impl FnOnce(&mut Pod)) {
    let mut pod = Pod::clone(&world.pod);
    change(&mut pod);
    world.pod = std::sync::Arc::new(pod);
    let pod = world.pod.clone();
    world.tell(CoreEvent::SpecChanged(pod));
}

fn change_image(world: &mut World, words: &Words) {
    change_pod(world, |pod| {
        pod.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
        let spec = pod.spec.as_mut().expect("a spec");
        let mut containers = spec.containers.iter_mut();
        let container = containers.find(|c| c.name == words.word(1)).expect("the container");
        container.image = Some(words.word(2).to_owned());
    });
}

fn resize(world: &mut World, words: &Words) {
    change_pod(world, |pod| {
        pod.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
        let spec = pod.spec.as_mut().expect("a spec");
        let resources = parse_resources(words.value("requests"), words.value("limits"));
        if words.word(1) == "pod" {
            spec.resources = resources;
            return;
        }
        let mut containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        let container = containers.find(|c| c.name == words.word(1)).expect("the container");
        container.resources = resources;
    });
}

/// `cpu=1 memory=1Gi`.
fn parse_resources(requests: Option<&str>, limits: Option<&str>) -> Option<ResourceRequirements> {
    let list = |text: &str| {
        let pair = |word: &str| {
            let (name, amount) = word.split_once('=').expect("name=amount");
            (name.to_owned(), Quantity(amount.to_owned()))
        };
        text.split_whitespace().map(pair).collect()
    };
    (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
        requests: requests.map(list),
        limits: limits.map(list),
        ..ResourceRequirements::default()
    })
}

/// The resources whose change restarts the container: `cpu memory`.
fn parse_resize_policy(text: &str) -> Vec<ContainerResizePolicy> {
    let policy = |name: &str| ContainerResizePolicy {
        resource_name: name.to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    };
    text.split_whitespace().map(policy).collect()
}

/// What the status says of resources, and what is made after them.
fn shown_resources(world: &World) -> Vec<String> {
    let status = world.pod.status.clone().unwrap_or_default();
    let mut lines = Vec::new();
    for condition in status.conditions.iter().flatten().filter(|c| c.type_.starts_with("PodResize"))
    {
        let generation = condition.observed_generation.unwrap_or_default();
        let why = [condition.reason.as_deref(), condition.message.as_deref()];
        let why: Vec<&str> = why.into_iter().flatten().collect();
        let line = format!("{} generation={generation} {}", condition.type_, why.join(" "));
        lines.push(line.trim_end().to_owned());
    }
    if let Some(own) = &status.resources {
        lines.push(format!("pod {}", digest::resources(own)));
    }
    let lists = [&status.init_container_statuses, &status.container_statuses];
    for container in lists.into_iter().flatten().flatten() {
        let granted = ResourceRequirements {
            requests: container.allocated_resources.clone(),
            ..ResourceRequirements::default()
        };
        let granted = digest::resources(&granted);
        let in_force = container.resources.as_ref().map(digest::resources).unwrap_or_default();
        let granted =
            granted.split(" limits").next().unwrap_or_default().replace("requests", "granted");
        lines.push(format!("{} {granted} in force: {in_force}", container.name));
    }
    lines
}

fn set_condition(world: &mut World, words: &Words) {
    change_pod(world, |pod| {
        let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != words.word(1));
        conditions.push(k8s_openapi::api::core::v1::PodCondition {
            type_: words.word(1).to_owned(),
            status: words.word(2).to_owned(),
            ..Default::default()
        });
    });
}

fn declare(world: &mut World, words: &Words) {
    change_pod(world, |pod| {
        pod.status.get_or_insert_default().phase = Some(words.word(1).to_owned());
    });
}

#[test]
fn every_action_that_waits_is_known_by_name() {
    // `ok` and `fail` find actions by the digest's first word
    for (action, word) in
        [(CoreAction::MountVolumes, "MountVolumes"), (CoreAction::RefreshVolumes, "RefreshVolumes")]
    {
        assert_eq!(digest::action(&action), word);
    }
}
