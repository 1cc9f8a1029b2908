//! Making sure that an image is here: looking for it, and fetching it with the pod's pull secrets.

use rekindle_pod::{
    ActionError, ActionErrorKind, ActionOutcome, ImageSource, NeededImage, PodEvent, PullPolicy,
};
use rekindle_runtime::image::ImageReference;
use rekindle_runtime::{ImageInfo, ImageOrigin, ImagePull, Runtime, RuntimeError};
use rekindle_types::EventSeverity;
use rekindle_types::reasons::event;

use super::{ActionResult, PodActions, runtime_error};
use crate::images::{PullSecrets, pull_secrets};
use crate::network::PodNetwork;
use crate::objects::pull_secret_references;

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    /// Whether the image is here, or is to be fetched.
    pub(super) async fn look_for_image(self, image: &str, policy: PullPolicy) -> ActionResult {
        let found = self.node.runtime.image_status(image).await.map_err(|e| runtime_error(&e))?;
        match (policy, found) {
            // the built-in images, and those whose name says that no registry has them
            (_, Some(info)) if info.origin == ImageOrigin::ThisMachine => Ok(self.present(info)),
            (PullPolicy::IfNotPresent | PullPolicy::Never, Some(info)) => Ok(self.present(info)),
            (PullPolicy::Never, None) => Err(ActionError {
                kind: ActionErrorKind::ImageNeverPull,
                message: format!(
                    "Container image {image:?} is not present with pull policy of Never"
                ),
            }),
            (PullPolicy::Always, Some(_) | None) | (PullPolicy::IfNotPresent, None) => {
                Ok(ActionOutcome::ImageToPull { name: full_name(image) })
            }
        }
    }

    fn present(&self, info: ImageInfo) -> ActionOutcome {
        self.node.images.note_use(&info.id, self.node.clock.now());
        ActionOutcome::ImagePresent { image_id: info.id, source: ImageSource::AlreadyPresent }
    }

    /// Asks the registry. Dropping the future ends the pull.
    pub(super) async fn pull_image(self, image: &str) -> ActionResult {
        let asked_at = self.node.clock.now();
        let keyring = self.pull_secrets().await?.keyring;
        let _place = self.node.images.pull_place().await;
        let begun_at = self.node.clock.now();
        let request = ImagePull { image: image.to_owned(), keyring };
        let info = self.node.runtime.pull_image(&request).await.map_err(|e| pull_error(&e))?;
        let now = self.node.clock.now();
        self.node.images.note_use(&info.id, now);
        self.node.images.note_pull();
        let source = ImageSource::Pulled {
            took: now.since(begun_at),
            with_waiting: now.since(asked_at),
            size_bytes: info.size_bytes,
        };
        Ok(ActionOutcome::ImagePresent { image_id: info.id, source })
    }

    /// Makes sure of the images that a restart needs, one after the other. Answers what cannot be
    /// had, and why.
    pub(crate) async fn have_images(self, images: Vec<NeededImage>) -> Result<(), String> {
        for NeededImage { container, image, policy } in images {
            let found = match self.clone().look_for_image(&image, policy).await {
                Ok(ActionOutcome::ImageToPull { .. }) => self.clone().pull_image(&image).await,
                looked => looked,
            };
            found.map_err(|error| {
                format!("image {image} of container {container}: {}", error.message)
            })?;
        }
        Ok(())
    }

    async fn pull_secrets(&self) -> Result<PullSecrets, ActionError> {
        let wanted = pull_secret_references(&self.pod);
        let objects = self.objects.fetch(&wanted).await.map_err(|error| ActionError {
            kind: ActionErrorKind::ImagePull,
            message: error.to_string(),
        })?;
        let secrets = pull_secrets(&wanted, &objects);
        if !secrets.unusable.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                secrets.unusable.join(", ")
            );
            let reason = event::FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET;
            let severity = EventSeverity::Warning;
            let event = PodEvent { severity, reason, message, field_path: None };
            self.node.recorder.pod_event(&self.pod_ref, event);
        }
        Ok(secrets)
    }
}

/// What is no reference is none in full either: the pull says so.
fn full_name(image: &str) -> String {
    ImageReference::parse(image)
        .map_or_else(|_| image.to_owned(), |reference| reference.to_string())
}

/// The event that shows it names the image already.
fn pull_error(error: &RuntimeError) -> ActionError {
    let mut failed = runtime_error(error);
    if let RuntimeError::Image { problem, .. } = error {
        failed.message.clone_from(problem);
    }
    failed
}
