//! What an end of a container says.

use rekindle_types::EndedByNode;
use rekindle_types::restart_rules::RuleAction;
use rekindle_types::v1alpha1::Rung;

use crate::cause::Cause;
use crate::container_end::ContainerEnd;
use crate::diagnosis::{Diagnosis, NO_RESTART_HELPS, Prognosis};
use crate::exit_code::ExitMeaning;
use crate::foreign_text::{message_line, quote};
use crate::phrase::Phrase;
use crate::restart_terms::{ContainerRestartPolicy, StartedBy};
use crate::terminated_reason::TerminatedReason;

const MEND_COMMAND: &str = "mend the command, the working directory or the image";
const MAKE_EXECUTABLE: &str = "make the command executable in the image, or mend the command";
const SAME_COMMAND_FAILS: &str = "the same command would fail to start again";
const READ_LAST_LINES: &str =
    "read its last lines; if they do not tell, the exit code is the app's own";
const SECCOMP: &str =
    "seccomp does not let it make a system call that it needs: look at the pod's seccompProfile";

/// What is known of an end beside the end itself.
#[derive(Clone, Copy, Debug)]
pub struct EndContext<'a> {
    /// What answers it.
    pub started_by: StartedBy,
    /// What the pod says of its sandbox at the same time.
    pub sandbox: SandboxAtEnd,
    /// The container's memory limit.
    pub memory_limit: MemoryLimit<'a>,
    /// How often in a row a probe must fail before the container is ended for it; none where that
    /// is not known.
    pub failure_threshold: Option<i32>,
}

/// What a pod says of its sandbox when a container has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxAtEnd {
    /// It stands, or nothing is said of it.
    Stands,
    /// It does not stand.
    Missing,
}

/// A container's memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit<'a> {
    /// It has this one, as its spec writes it.
    Own(&'a str),
    /// It has none of its own.
    NoneOfItsOwn,
    /// It was not read.
    NotKnown,
}

/// What an end says.
pub fn diagnose_end(end: &ContainerEnd<'_>, context: EndContext<'_>) -> Diagnosis {
    if let Some(by_node) = end.ended_by_node {
        return killed_by_node(by_node, context);
    }
    match end.reason {
        TerminatedReason::OomKilled => out_of_memory(end, context.memory_limit),
        TerminatedReason::StartError | TerminatedReason::ContainerCannotRun => {
            start_failed(end.message)
        }
        TerminatedReason::ContainerStatusUnknown | TerminatedReason::Unknown => {
            let what =
                Phrase::new("was gone, nobody saw how it ended", "lost, its exit was not seen");
            let remedy = "look whether the machine was restarted or ran out of memory";
            Diagnosis::new(Cause::Unknown, what, started_again(context), remedy)
        }
        TerminatedReason::SeccompKilled => {
            let what = Phrase::new("was killed by seccomp", "killed by seccomp");
            Diagnosis::new(Cause::Signal, what, started_again(context), SECCOMP)
        }
        TerminatedReason::Completed
        | TerminatedReason::Error
        | TerminatedReason::DeadlineExceeded
        | TerminatedReason::Other(_) => exited(end, context),
    }
}

/// What ends say that were not seen: other ends came after them before the status was.
pub fn diagnose_unseen_ends() -> Diagnosis {
    let what = Phrase::new("ended and was restarted", "ended");
    let prognosis = Prognosis::Helps { from: Rung::Container };
    Diagnosis::new(Cause::Unknown, what, prognosis, READ_LAST_LINES)
}

/// Whether what ended, and could run again, does.
fn started_again(context: EndContext<'_>) -> Prognosis {
    match (context.started_by, context.sandbox) {
        (StartedBy::Policy(ContainerRestartPolicy::Never), _) => Prognosis::StaysEnded,
        (_, SandboxAtEnd::Missing) => Prognosis::Helps { from: Rung::Pod },
        (_, SandboxAtEnd::Stands) => Prognosis::Helps { from: Rung::Container },
    }
}

/// Its node ended it for a probe or a hook: what it exited with says nothing.
fn killed_by_node(by_node: EndedByNode<'_>, context: EndContext<'_>) -> Diagnosis {
    let (cause, remedy) = match by_node {
        EndedByNode::LivenessProbe { .. } => (
            Cause::LivenessFailed,
            "find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or \
             failureThreshold, or give it a startupProbe",
        ),
        EndedByNode::StartupProbe { .. } => (
            Cause::StartupFailed,
            "if it needs longer to start, raise the startup probe's failureThreshold; else mend what it asks for",
        ),
        EndedByNode::PostStartHook => (Cause::PostStartFailed, "mend its postStart hook"),
    };
    let part = by_node.what();
    let what =
        Phrase::new(format!("was killed because its {part} failed"), format!("{part} failed"));
    let in_a_row = match (by_node, context.failure_threshold) {
        (EndedByNode::LivenessProbe { .. } | EndedByNode::StartupProbe { .. }, Some(times))
            if times > 1 =>
        {
            format!(" {times} times in a row")
        }
        (
            EndedByNode::LivenessProbe { .. }
            | EndedByNode::StartupProbe { .. }
            | EndedByNode::PostStartHook,
            _,
        ) => String::new(),
    };
    let account = format!("{what}{in_a_row}");
    let said = Some(quote(by_node.said())).filter(|said| !said.is_empty());
    let diagnosis = Diagnosis::new(cause, what, started_again(context), remedy);
    Diagnosis { said, ..diagnosis.with_account(account) }
}

fn out_of_memory(end: &ContainerEnd<'_>, limit: MemoryLimit<'_>) -> Diagnosis {
    let what = Phrase::new("was killed for lack of memory (OOMKilled)", "OOM-killed");
    let because = "it would need as much memory again";
    let has_none = end.oom.is_some_and(|oom| oom.limit_bytes.is_none());
    let limit = match limit {
        MemoryLimit::NotKnown if has_none => MemoryLimit::NoneOfItsOwn,
        limit => limit,
    };
    let (more, remedy, outlook) = match limit {
        MemoryLimit::Own(limit) => (
            format!(": its limit is {limit}"),
            format!("raise resources.limits.memory above {limit}, or make it use less"),
            Some(NO_RESTART_HELPS),
        ),
        // where the machine was full, another one may not be
        MemoryLimit::NoneOfItsOwn => (
            ": it has no limit of its own".to_owned(),
            "the pod's limit or the machine was full: give it a memory request and a limit that it fits in".to_owned(),
            None,
        ),
        MemoryLimit::NotKnown => (
            String::new(),
            "raise its memory limit, or make it use less".to_owned(),
            Some(NO_RESTART_HELPS),
        ),
    };
    let account = format!("{what}{more}");
    let diagnosis = Diagnosis::new(Cause::OutOfMemory, what, Prognosis::Futile { because }, remedy)
        .with_account(account);
    match outlook {
        Some(outlook) => diagnosis.with_outlook(outlook),
        None => diagnosis,
    }
}

/// The runtime could not start it. What kept it from that is in the message.
fn start_failed(message: &str) -> Diagnosis {
    let lower = message.to_lowercase();
    let is_missing = ["no such file", "not found"].iter().any(|text| lower.contains(text));
    let (cause, remedy, outlook) = if is_missing {
        (Cause::CommandMissing, MEND_COMMAND, NO_RESTART_HELPS)
    } else if lower.contains("permission denied") {
        (Cause::CommandNotExecutable, MAKE_EXECUTABLE, NO_RESTART_HELPS)
    } else if message.is_empty() {
        (Cause::StartError, MEND_COMMAND, SAME_COMMAND_FAILS)
    } else {
        (Cause::StartError, "mend what the message names", SAME_COMMAND_FAILS)
    };
    let said = quote(message);
    let (what, account) = if said.is_empty() {
        let what = Phrase::new("could not be started", "cannot start");
        (what, "could not be started".to_owned())
    } else {
        let what =
            Phrase::new(format!("could not be started ({said})"), format!("cannot start: {said}"));
        (what, format!("could not be started: {}", message_line(message)))
    };
    let prognosis = Prognosis::Futile { because: SAME_COMMAND_FAILS };
    Diagnosis::new(cause, what, prognosis, remedy).with_account(account).with_outlook(outlook)
}

/// It ran, and ended by itself or by a signal.
fn exited(end: &ContainerEnd<'_>, context: EndContext<'_>) -> Diagnosis {
    let code = end.exit_code;
    let what = exit_words(end, context.started_by);
    let again = started_again(context);
    match (ExitMeaning::new(code), context.started_by) {
        (ExitMeaning::CommandMissing, _) => {
            let because = "127 is a shell's code for a command that is missing";
            let remedy = "mend the command or the image";
            Diagnosis::new(Cause::CommandMissing, what, Prognosis::Futile { because }, remedy)
                .with_account("exited with 127: a shell's code for a command that is missing")
                .with_outlook(NO_RESTART_HELPS)
        }
        (ExitMeaning::NotExecutable, _) => {
            let because = "126 is a shell's code for a command that is not executable";
            let prognosis = Prognosis::Futile { because };
            Diagnosis::new(Cause::CommandNotExecutable, what, prognosis, MAKE_EXECUTABLE)
                .with_account(
                    "exited with 126: a shell's code for a command that cannot be executed",
                )
                .with_outlook(NO_RESTART_HELPS)
        }
        (ExitMeaning::Success, StartedBy::Policy(ContainerRestartPolicy::Always)) => {
            let remedy = "if it is meant to end, run it as a Job or with restartPolicy OnFailure; else find out why it ends";
            Diagnosis::new(Cause::ExitedUnasked, what, again, remedy)
        }
        (ExitMeaning::Signal(9, name), _) => {
            let remedy = "look who killed it: a grace period that was too short, a process of its own, or the machine out of memory";
            let account =
                format!("was killed by {name} (exit code {code}), not for its own memory limit");
            Diagnosis::new(Cause::Signal, what, again, remedy).with_account(account)
        }
        (ExitMeaning::Signal(signal, _), _) => {
            Diagnosis::new(Cause::Signal, what, again, signal_remedy(signal))
        }
        (ExitMeaning::Success | ExitMeaning::Own, _) => {
            Diagnosis::new(Cause::ExitCode, what, again, READ_LAST_LINES)
        }
    }
}

fn exit_words(end: &ContainerEnd<'_>, started_by: StartedBy) -> Phrase {
    let code = end.exit_code;
    let brief = format!("exit {code}");
    let note = match (started_by, ExitMeaning::new(code), end.reason) {
        (StartedBy::Policy(ContainerRestartPolicy::Always), ExitMeaning::Success, _) => {
            "restartPolicy Always wants it to keep running".to_owned()
        }
        (StartedBy::Rule(RuleAction::Restart), ..) => "a restart rule starts it again".to_owned(),
        (StartedBy::Rule(RuleAction::RestartAllContainers), ..) => {
            "a restart rule restarts all containers".to_owned()
        }
        (_, ExitMeaning::Signal(_, name), _) => {
            return Phrase::new(
                format!("exited with {code} ({name})"),
                format!("{brief} ({name})"),
            );
        }
        // the words of a runtime that is not known say more than nothing
        (_, _, TerminatedReason::Other(reason)) if !reason.is_empty() => quote(reason),
        (
            StartedBy::Policy(_),
            ExitMeaning::Success
            | ExitMeaning::NotExecutable
            | ExitMeaning::CommandMissing
            | ExitMeaning::Own,
            _,
        ) => return Phrase::new(format!("exited with {code}"), brief),
    };
    Phrase::new(format!("exited with {code} ({note})"), brief)
}

fn signal_remedy(signal: i32) -> &'static str {
    match signal {
        4 | 7 | 8 | 11 => {
            "a fault in the program or a library for another processor: look for a core dump or a backtrace"
        }
        6 => "it aborted by itself: its last lines say which assertion failed",
        31 => SECCOMP,
        _ => "look who sent the signal",
    }
}
