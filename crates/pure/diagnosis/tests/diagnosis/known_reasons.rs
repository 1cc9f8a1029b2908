//! Every reason that our own core and node write is known, and every one that a kubelet, its
//! runtime or the controllers of Kubernetes do. The ladder and `why` read them from here and
//! nowhere else; their own tests show what they make of each.

use std::path::{Path, PathBuf};

use rekindle_diagnosis::{
    ContainerEnd, ContainerRestartPolicy, ContainerWait, EndContext, EventReading, MemoryLimit,
    PodReason, Prognosis, SandboxAtEnd, StartedBy, TerminatedReason, WaitFamily, WaitingReason,
    diagnose_end, diagnose_wait,
};
use rekindle_types::ExitStatus;
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::reasons::{event, pod, waiting};

const KUBELET: &str = include_str!("../../testdata/kubelet_reasons.txt");

/// The reasons of a family, and where each comes from.
fn of_kubelet(family: &str) -> Vec<(String, &'static str)> {
    let lines = KUBELET.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (of, rest) = line.split_once(' ').expect("a family");
            let (reason, source) = rest.split_once(' ').expect("a reason and its source");
            (of == family).then(|| (reason.replace('_', " "), source.trim()))
        })
        .collect()
}

#[test]
fn the_table_has_a_source_for_each_reason_of_a_known_family() {
    let mut count = 0;
    for family in ["waiting", "terminated", "pod", "event"] {
        for (reason, source) in of_kubelet(family) {
            assert!(source.len() > 10, "{family} {reason}: {source}");
            count += 1;
        }
    }
    let lines = KUBELET.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(count, lines, "a line is of another family");
}

#[test]
fn every_reason_for_which_a_container_waits_is_known() {
    let ours = waiting::ALL.iter().map(|reason| (*reason).to_owned());
    let kubelets = of_kubelet("waiting").into_iter().map(|(reason, _)| reason);
    for text in ours.chain(kubelets) {
        let reason = WaitingReason::parse(&text);
        assert!(reason.is_known(), "{text}");
        assert_eq!(reason.as_str(), text);
        let is_told = diagnose_wait(&ContainerWait { reason, message: "x" }, "shop:v1").is_some();
        let is_for_time = match reason.family() {
            WaitFamily::OnItsWay | WaitFamily::AfterFailure => true,
            WaitFamily::Image
            | WaitFamily::Configuration
            | WaitFamily::Creation
            | WaitFamily::Run
            | WaitFamily::Sandbox
            | WaitFamily::Predecessor => false,
            WaitFamily::Unknown => panic!("{text} is known and has no family"),
        };
        assert_eq!(is_told, !is_for_time, "{text}");
    }
}

#[test]
fn every_wait_that_is_known_is_in_the_tables_of_those_who_write_it() {
    let listed = of_kubelet("waiting");
    for reason in WaitingReason::KNOWN {
        let text = reason.as_str();
        assert!(listed.iter().any(|(of, _)| of == text), "{text}: who writes it?");
    }
    let listed = of_kubelet("terminated");
    for reason in TerminatedReason::KNOWN {
        let text = reason.as_str();
        assert!(listed.iter().any(|(of, _)| of == text), "{text}: who writes it?");
    }
    let listed = of_kubelet("pod");
    for reason in PodReason::KNOWN {
        let text = reason.as_str();
        let is_listed = pod::ALL.contains(&text) || listed.iter().any(|(of, _)| of == text);
        assert!(is_listed, "{text}: who writes it?");
    }
}

/// One of each kind of end that our runtime tells of: a new one does not compile here.
fn ends_of_ours() -> Vec<ExitStatus> {
    let next = |status: ExitStatus| match status {
        ExitStatus::Code { code: 0 } => Some(ExitStatus::Code { code: 1 }),
        ExitStatus::Code { .. } => Some(ExitStatus::Signal { signal: 11 }),
        ExitStatus::Signal { .. } => Some(ExitStatus::OomKilled),
        ExitStatus::OomKilled => Some(ExitStatus::StartError),
        ExitStatus::StartError => Some(ExitStatus::Unknown),
        ExitStatus::Unknown => None,
    };
    std::iter::successors(Some(ExitStatus::Code { code: 0 }), |status| next(*status)).collect()
}

#[test]
fn every_reason_for_which_a_container_ends_is_known() {
    let ours = ends_of_ours().into_iter().map(|status| status.reason().to_owned());
    let kubelets = of_kubelet("terminated").into_iter().map(|(reason, _)| reason);
    for text in ours.chain(kubelets) {
        let reason = TerminatedReason::parse(&text);
        assert!(reason.is_known(), "{text}");
        assert_eq!(reason.as_str(), text);
    }
}

/// Why our node does not take a pod up: a new reason does not compile here.
fn refusals_of_ours() -> impl Iterator<Item = AdmissionRefusal> {
    let next = |refusal: &AdmissionRefusal| match refusal {
        AdmissionRefusal::NodePressure => Some(AdmissionRefusal::NodeShutdown),
        AdmissionRefusal::NodeShutdown => Some(AdmissionRefusal::NodeAffinity),
        AdmissionRefusal::NodeAffinity => Some(AdmissionRefusal::NodePorts),
        AdmissionRefusal::NodePorts => Some(AdmissionRefusal::TaintToleration),
        AdmissionRefusal::TaintToleration => Some(AdmissionRefusal::SysctlForbidden),
        AdmissionRefusal::SysctlForbidden => Some(AdmissionRefusal::PodOsNotSupported),
        AdmissionRefusal::PodOsNotSupported => None,
    };
    std::iter::successors(Some(AdmissionRefusal::NodePressure), next)
}

#[test]
fn every_reason_for_which_a_pod_is_ended_is_known_and_its_event_tells_of_it() {
    let refusals = refusals_of_ours().map(AdmissionRefusal::as_str);
    let ours = pod::ALL.iter().copied().chain(refusals).map(str::to_owned);
    let kubelets = of_kubelet("pod").into_iter().map(|(reason, _)| reason);
    for text in ours.chain(kubelets) {
        let reason = PodReason::parse(&text);
        assert!(reason.tells_of_end(), "{text}");
        let tells = EventReading::parse(&text);
        let is_of_ladder = reason == PodReason::LadderExhausted; // its ledger tells better
        assert_eq!(tells == EventReading::EndOfPod, !is_of_ladder, "{text}");
        // an eviction's message says what helps, and an exhausted ladder has an account of its own
        let is_told_elsewhere = matches!(reason, PodReason::Evicted | PodReason::LadderExhausted);
        assert_eq!(reason.remedy("").is_none(), is_told_elsewhere, "{text}");
    }
}

/// The files of a crate that are no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let path = entry.path();
        // by the name alone: the workspace itself may lie in a folder of tests
        let is_of_tests = entry.file_name().to_string_lossy().contains("test");
        if path.is_dir() && !is_of_tests {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !is_of_tests {
            found.push(path);
        }
    }
}

/// A literal would be in none of the lists that these tests go through.
#[test]
fn the_pod_core_and_the_node_name_each_reason_by_its_constant() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for name in ["pure/pod", "pure/pod-driver", "io/node"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 100, "{files:?}");
    let is_literal = |line: &str| {
        let severities = ["Severity::Normal, \"", "Severity::Warning, \""];
        line.contains("reason: \"") || severities.iter().any(|before| line.contains(before))
    };
    let mut literals = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let product = text.split("#[cfg(test)]\nmod tests {").next().expect("the product's part");
        let lines = product.lines().filter(|line| is_literal(line));
        literals.extend(lines.map(|line| format!("{}: {}", file.display(), line.trim())));
    }
    assert!(literals.is_empty(), "name these in rekindle_types::reasons: {literals:#?}");
}

#[test]
fn every_event_is_known() {
    let ours = event::ALL.iter().map(|reason| (*reason).to_owned());
    let kubelets = of_kubelet("event").into_iter().map(|(reason, _)| reason);
    for text in ours.chain(kubelets) {
        assert_ne!(EventReading::parse(&text), EventReading::Unknown, "{text}");
    }
}

#[test]
fn a_reason_that_nobody_knows_keeps_its_text_and_nothing_is_claimed_of_it() {
    assert_eq!(EventReading::parse("Sparkling"), EventReading::Unknown);
    assert_eq!(PodReason::parse("Sparkling").remedy("x"), None);
    let wait = ContainerWait { reason: WaitingReason::parse("Sparkling"), message: "x" };
    let told = diagnose_wait(&wait, "shop:v1").expect("a reading");
    assert_eq!(told.account, "waits for a reason that is not known here: Sparkling");
    assert_eq!((told.prognosis, told.why_futile()), (Prognosis::Unknown, None));
    // a wait without any reason is one of a container that is on its way
    let wait = ContainerWait { reason: WaitingReason::parse(""), message: "" };
    assert_eq!(diagnose_wait(&wait, "shop:v1"), None);
    let end = ContainerEnd {
        exit_code: 3,
        signal: None,
        reason: TerminatedReason::parse("Sparkling"),
        message: "",
        ended_by_node: None,
        node_stop: None,
        oom: None,
        started_at: None,
        finished_at: None,
    };
    let context = EndContext {
        started_by: StartedBy::Policy(ContainerRestartPolicy::Always),
        sandbox: SandboxAtEnd::Stands,
        memory_limit: MemoryLimit::NotKnown,
        failure_threshold: None,
    };
    assert_eq!(diagnose_end(&end, context).account, "exited with 3 (Sparkling)");
}
