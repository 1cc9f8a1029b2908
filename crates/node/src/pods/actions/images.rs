//! Making sure that an image is here.

use rekindle_pod::{ActionError, ActionErrorKind, ImageSource, Outcome, PullPolicy};
use rekindle_runtime::{Runtime, RuntimeError};

use super::{ActionResult, PodActions, runtime_error};
use crate::network::PodNetwork;

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    pub(super) async fn pull_image(self, image: &str, policy: PullPolicy) -> ActionResult {
        let runtime = &self.node.runtime;
        let failed = |error: RuntimeError| runtime_error(&error);
        match policy {
            PullPolicy::Never => match runtime.image_status(image).await.map_err(failed)? {
                Some(info) => Ok(present(info.id)),
                None => Err(ActionError {
                    kind: ActionErrorKind::ImageNeverPull,
                    message: format!(
                        "Container image {image:?} is not present with pull policy of Never"
                    ),
                }),
            },
            PullPolicy::IfNotPresent => match runtime.image_status(image).await.map_err(failed)? {
                Some(info) => Ok(present(info.id)),
                None => self.fetch_image(image).await,
            },
            PullPolicy::Always => match self.fetch_image(image).await {
                Ok(pulled) => Ok(pulled),
                // an image that was loaded by hand, or is built in, has no registry to ask
                Err(error) => match runtime.image_status(image).await.map_err(failed)? {
                    Some(info) => Ok(present(info.id)),
                    None => Err(error),
                },
            },
        }
    }

    async fn fetch_image(&self, image: &str) -> ActionResult {
        let info = self.node.runtime.pull_image(image).await.map_err(|e| runtime_error(&e))?;
        Ok(Outcome::ImagePresent { image_id: info.id, source: ImageSource::Pulled })
    }
}

fn present(image_id: String) -> Outcome {
    Outcome::ImagePresent { image_id, source: ImageSource::AlreadyPresent }
}
