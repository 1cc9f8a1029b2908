//! What can go wrong with images. Every text names the file or the image, and what is the matter
//! with it.

use std::path::PathBuf;

use rekindle_types::{PodRef, causes};

use super::registry::RegistryError;
use crate::error::{ImageErrorKind, RuntimeError};

/// A failed image operation.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not an image reference at all.
    #[error("image {image:?}: {problem}")]
    InvalidName {
        /// As given.
        image: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The archive or layout cannot be used as it stands.
    #[error("load {}: {problem}", file.display())]
    Archive {
        /// The file or folder that was to be loaded.
        file: PathBuf,
        /// Which entry, and what is wrong with it.
        problem: String,
    },
    /// The image is not here.
    #[error("image {image:?} is not present")]
    NotFound {
        /// As given.
        image: String,
    },
    /// Its name says that no registry has it, and it is not here.
    #[error("image {image:?} is not present")]
    OfThisMachine {
        /// As given.
        image: String,
    },
    /// It could not be pulled.
    #[error("pull {image}")]
    Pull {
        /// In full form.
        image: String,
        /// Why.
        #[source]
        source: RegistryError,
    },
    /// Containers were made from it.
    #[error("image {image:?} is used by containers of {}", named(pods))]
    InUse {
        /// As given.
        image: String,
        /// Whose they are.
        pods: Vec<PodRef>,
    },
    /// The machine's own files cannot be had as an image.
    #[error("image localhost/host: {problem}")]
    HostImage {
        /// Why not, and what to do.
        problem: &'static str,
    },
    /// The store's own folder does not do what it should.
    #[error("image store: {operation} {}", path.display())]
    Store {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl ImageError {
    /// Which waiting reason a container shows for it.
    pub fn kind(&self) -> ImageErrorKind {
        match self {
            Self::InvalidName { .. } => ImageErrorKind::InvalidName,
            Self::Archive { .. }
            | Self::NotFound { .. }
            | Self::OfThisMachine { .. }
            | Self::Pull { .. }
            | Self::InUse { .. }
            | Self::HostImage { .. }
            | Self::Store { .. } => ImageErrorKind::Pull,
        }
    }

    /// As the error of a runtime call about `image`.
    pub fn to_runtime(&self, image: &str) -> RuntimeError {
        let kind = self.kind();
        let problem = match self {
            Self::InvalidName { problem, .. } => problem.clone(),
            Self::NotFound { .. } => "not present".to_owned(),
            Self::OfThisMachine { .. } => "not present, and names that begin with localhost/ are of this machine: no \
                                           registry has them; load it with `rekindle image load FILE`"
                .to_owned(),
            Self::HostImage { problem } => (*problem).to_owned(),
            Self::Pull { source, .. } => causes(source),
            Self::Archive { .. } | Self::InUse { .. } | Self::Store { .. } => causes(self),
        };
        RuntimeError::Image { image: image.to_owned(), problem, kind }
    }
}

/// Pods that an error names at most.
const PODS_NAMED_MAX: usize = 5;

/// `pod default/web, pod default/db and 3 more`.
fn named(pods: &[PodRef]) -> String {
    let named: Vec<String> =
        pods.iter().take(PODS_NAMED_MAX).map(|pod| format!("pod {pod}")).collect();
    match pods.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
