//! What an end, or what keeps a container from starting, says about which restart may help.

use rekindle_types::exit::signal_name;
use rekindle_types::reasons::waiting;
use rekindle_types::restart_rules::RuleAction;
use rekindle_types::v1alpha1::Rung;

use crate::explanation::Phrase;
use crate::observation::{ContainerView, End, RestartPolicy, Sandbox};

/// Bytes of a foreign message that are quoted.
const QUOTE_MAX: usize = 200;

/// What a piece of evidence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// What happened to the container, as a sentence goes on after its name: `exited with 1`.
    pub(crate) what: Phrase,
    /// What the container had to say of it, in one line: only for those who may read what
    /// containers write.
    pub(crate) said: Option<String>,
    /// What follows.
    pub(crate) verdict: Verdict,
}

/// Whether a restart may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may, from this rung on.
    Helps { from: Rung },
    /// None that is carried out in place does, because …
    Futile { because: &'static str },
}

const FROM_CONTAINER: Verdict = Verdict::Helps { from: Rung::Container };

/// By what a container is started again after an end, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Its restart policy, or the pod's.
    Policy(RestartPolicy),
    /// One of its restart rules.
    Rule(RuleAction),
}

impl Then {
    pub(crate) fn of(container: &ContainerView<'_>, end: &End<'_>) -> Self {
        container.rule_for(end).map_or(Then::Policy(container.restarts), Then::Rule)
    }
}

/// What a failed end says. `sandbox` is what the pod says of its sandbox at the same time.
pub(crate) fn of_end(end: &End<'_>, then: Then, sandbox: Sandbox) -> Diagnosis {
    let what = what(end, then);
    let verdict = match (end.reason, end.exit_code, then, sandbox) {
        ("OOMKilled", ..) => Verdict::Futile {
            because: "it would need as much memory again; raise its memory limit, or make it use less",
        },
        ("StartError" | "ContainerCannotRun", ..) => Verdict::Futile {
            because: "the same command would fail to start again; mend the command, the working directory or the image",
        },
        (_, 126 | 127, ..) if end.by_node.is_some() => started_again(then, sandbox),
        (_, 127, ..) => Verdict::Futile {
            because: "127 is a shell's code for a command that is missing; mend the command or the image",
        },
        (_, 126, ..) => Verdict::Futile {
            because: "126 is a shell's code for a command that is not executable; mend the command or the image",
        },
        (_, _, then, sandbox) => started_again(then, sandbox),
    };
    let said = end.by_node.map(|by_node| quote(by_node.said())).filter(|said| !said.is_empty());
    Diagnosis { what, said, verdict }
}

/// Whether what ended, and could run again, does.
fn started_again(then: Then, sandbox: Sandbox) -> Verdict {
    match (then, sandbox) {
        (Then::Policy(RestartPolicy::Never), _) => {
            Verdict::Futile { because: "its restartPolicy is Never, so it stays as it ended" }
        }
        (_, Sandbox::Missing) => Verdict::Helps { from: Rung::Pod },
        (_, Sandbox::Stands) => FROM_CONTAINER,
    }
}

/// What ends say that were not seen: other ends came after them before the status was.
pub(crate) fn of_unseen() -> Diagnosis {
    let what = Phrase::new("ended and was restarted", "ended");
    Diagnosis { what, said: None, verdict: FROM_CONTAINER }
}

fn what(end: &End<'_>, then: Then) -> Phrase {
    if let Some(by_node) = end.by_node {
        let part = by_node.what();
        return Phrase::new(
            format!("was killed after its {part} failed"),
            format!("{part} failed"),
        );
    }
    match (end.reason, end.exit_code) {
        ("OOMKilled", _) => Phrase::new("was killed for lack of memory (OOMKilled)", "OOM-killed"),
        ("StartError" | "ContainerCannotRun", _) if end.message.is_empty() => {
            Phrase::new("could not be started", "cannot start")
        }
        ("StartError" | "ContainerCannotRun", _) => {
            let said = quote(end.message);
            Phrase::new(format!("could not be started ({said})"), format!("cannot start: {said}"))
        }
        ("ContainerStatusUnknown", _) => {
            Phrase::new("was gone, nobody saw how it ended", "lost, its exit was not seen")
        }
        (_, 0) if then == Then::Policy(RestartPolicy::Always) => {
            Phrase::new("exited with 0 (restartPolicy Always wants it to keep running)", "exit 0")
        }
        (_, code) if then == Then::Rule(RuleAction::Restart) => Phrase::new(
            format!("exited with {code} (a restart rule starts it again)"),
            format!("exit {code}"),
        ),
        (_, code) if then == Then::Rule(RuleAction::RestartAllContainers) => Phrase::new(
            format!("exited with {code} (a restart rule restarts all containers)"),
            format!("exit {code}"),
        ),
        (_, code) => match signal_name(code - 128) {
            Some(signal) => Phrase::new(
                format!("exited with {code} ({signal})"),
                format!("exit {code} ({signal})"),
            ),
            None => Phrase::new(format!("exited with {code}"), format!("exit {code}")),
        },
    }
}

/// What it says that no sandbox stands for so long. The node tries again by itself, so that a
/// restart in place would do the same.
pub(crate) fn of_no_sandbox() -> Diagnosis {
    Diagnosis {
        what: Phrase::new(
            "has no sandbox: its node cannot make one, its network or its volumes",
            "no sandbox",
        ),
        said: None,
        verdict: Verdict::Helps { from: Rung::Recreate },
    }
}

/// What keeps a container from starting although nothing ended; none when it is merely on its way.
pub(crate) fn of_waiting(container: &ContainerView<'_>) -> Option<Diagnosis> {
    let waiting = container.waiting?;
    let (what, because) = match waiting.reason {
        reason if is_for_image(reason) => (
            Phrase::new(
                format!("waits for its image {:?}, which cannot be had", quote(container.image)),
                format!("no image: {}", quote(container.image)),
            ),
            "the node tries the image again by itself; mend its name, the registry or the credentials",
        ),
        waiting::CREATE_CONTAINER_CONFIG_ERROR => (
            Phrase::new(
                format!("cannot be configured ({})", quote(waiting.message)),
                in_brief("config error", waiting.message),
            ),
            "what it refers to is absent or refused; mend the spec or create it, and the node goes on by itself",
        ),
        waiting::CREATE_CONTAINER_ERROR => (
            Phrase::new(
                format!("cannot be created ({})", quote(waiting.message)),
                in_brief("cannot be created", waiting.message),
            ),
            "the node tries again by itself, and a restart would do the same",
        ),
        waiting::RUN_CONTAINER_ERROR => (
            Phrase::new(
                format!("cannot be run ({})", quote(waiting.message)),
                in_brief("cannot be run", waiting.message),
            ),
            "the node tries again by itself, and a restart would do the same",
        ),
        _ => return None,
    };
    Some(Diagnosis { what, said: None, verdict: Verdict::Futile { because } })
}

/// Whether a container waits for its image for this reason. It goes to and fro between some of
/// them.
pub(crate) fn is_for_image(reason: &str) -> bool {
    matches!(
        reason,
        waiting::ERR_IMAGE_PULL
            | waiting::IMAGE_PULL_BACK_OFF
            | waiting::ERR_IMAGE_NEVER_PULL
            | waiting::INVALID_IMAGE_NAME
            | "ImageInspectError"
            | "RegistryUnavailable"
    )
}

/// Why a container does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StuckCause {
    /// Its image cannot be had, and the node has tried more than once or does not try at all.
    NoImage,
    /// Anything else.
    Other,
}

/// Why a container that waits does not start.
pub(crate) fn cause_of_waiting(container: &ContainerView<'_>) -> StuckCause {
    match container.waiting.map(|waiting| waiting.reason) {
        Some(
            waiting::IMAGE_PULL_BACK_OFF
            | waiting::ERR_IMAGE_NEVER_PULL
            | waiting::INVALID_IMAGE_NAME,
        ) => StuckCause::NoImage,
        Some(_) | None => StuckCause::Other,
    }
}

/// What was said, which tells more than our words for it.
fn in_brief(ours: &str, message: &str) -> String {
    let said = quote(message);
    if said.is_empty() { ours.to_owned() } else { said }
}

/// One line, cut to a length that leaves room for our own words.
fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().find(|(index, _)| *index >= QUOTE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
