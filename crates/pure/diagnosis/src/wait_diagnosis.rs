//! What keeps a container from starting although nothing of it ended.

use rekindle_types::v1alpha1::Rung;

use crate::cause::Cause;
use crate::container_wait::ContainerWait;
use crate::diagnosis::{Diagnosis, Prognosis};
use crate::event_reading::StartObstacle;
use crate::foreign_text::quote;
use crate::phrase::Phrase;
use crate::waiting_reason::{WaitFamily, WaitingReason};

const NODE_TRIES_AGAIN: &str = "the node tries again by itself";
const REFERENCE_MISSING: &str =
    "what it refers to is absent or refused, and the node goes on by itself when it is there";
const SAME_AGAIN: &str = "the node tries again by itself, and a restart would do the same";

/// What a wait says; none when the container is merely on its way, or its last end tells why it
/// waits. `image` is the container's.
pub fn diagnose_wait(wait: &ContainerWait<'_>, image: &str) -> Option<Diagnosis> {
    Some(match wait.reason.family() {
        WaitFamily::OnItsWay | WaitFamily::AfterFailure => return None,
        WaitFamily::Image => no_image(wait.reason, image),
        WaitFamily::Configuration => {
            let prognosis = Prognosis::Futile { because: REFERENCE_MISSING };
            let what = with_message("cannot be configured", "config error", wait.message);
            let remedy = "create what it refers to, or mend the reference";
            Diagnosis::new(Cause::ConfigurationMissing, what, prognosis, remedy)
                .with_account("cannot be configured")
                .with_outlook("the node goes on by itself")
        }
        WaitFamily::Creation => refused_by_runtime("cannot be created", wait.message),
        WaitFamily::Run => refused_by_runtime("cannot be run", wait.message),
        WaitFamily::Sandbox => diagnose_missing_sandbox(),
        WaitFamily::Predecessor => {
            let what = "waits for what ran before, which the node cannot end or remove";
            let phrase = Phrase::new(what, in_brief("cannot end what ran before", wait.message));
            let remedy = "look at the node and its runtime";
            Diagnosis::new(
                Cause::CreateError,
                phrase,
                Prognosis::Futile { because: SAME_AGAIN },
                remedy,
            )
            .with_outlook(NODE_TRIES_AGAIN)
        }
        WaitFamily::Unknown => {
            let reason = quote(wait.reason.as_str());
            let what = format!("waits for a reason that is not known here: {reason}");
            let remedy =
                "look at its message, and at what runs the node: no kubelet gives this reason";
            let phrase = Phrase::new(what, format!("waits: {reason}"));
            Diagnosis::new(Cause::UnknownWait, phrase, Prognosis::Unknown, remedy)
        }
    })
}

/// What it says that no sandbox stands for long. The node tries again by itself, so that a restart
/// in place would do the same.
pub fn diagnose_missing_sandbox() -> Diagnosis {
    let what = Phrase::new(
        "has no sandbox: its node cannot make one, its network or its volumes",
        "no sandbox",
    );
    let prognosis = Prognosis::Helps { from: Rung::Recreate };
    Diagnosis::new(Cause::CreateError, what, prognosis, StartObstacle::Sandbox.remedy())
        .with_outlook(StartObstacle::Sandbox.outlook())
}

fn no_image(reason: WaitingReason<'_>, image: &str) -> Diagnosis {
    let image = quote(image);
    let remedy = if reason == WaitingReason::ErrImageNeverPull {
        "load the image on the node, or let imagePullPolicy pull it"
    } else if reason == WaitingReason::SignatureValidationFailed {
        "sign the image, or mend the node's signature policy"
    } else if reason == WaitingReason::ImageInspectError {
        "look at the node's runtime and its disk"
    } else {
        "mend the image's name, the registry or the credentials"
    };
    let what = Phrase::new(
        format!("waits for its image {image:?}, which cannot be had"),
        format!("no image: {image}"),
    );
    let prognosis = Prognosis::Futile { because: "the node tries the image again by itself" };
    Diagnosis::new(Cause::ImageUnavailable, what, prognosis, remedy).with_outlook(NODE_TRIES_AGAIN)
}

fn refused_by_runtime(what: &str, message: &str) -> Diagnosis {
    let phrase = with_message(what, what, message);
    let prognosis = Prognosis::Futile { because: SAME_AGAIN };
    Diagnosis::new(Cause::CreateError, phrase, prognosis, "mend what the message names")
        .with_account(what)
        .with_outlook("a restart would do the same again")
}

/// `cannot be created (overlay: no space left)`, in brief the message alone: it tells more than our
/// words for it.
fn with_message(what: &str, brief: &str, message: &str) -> Phrase {
    match quote(message).as_str() {
        "" => Phrase::new(what, brief),
        said => Phrase::new(format!("{what} ({said})"), said),
    }
}

fn in_brief(ours: &str, message: &str) -> String {
    let said = quote(message);
    if said.is_empty() { ours.to_owned() } else { said }
}
