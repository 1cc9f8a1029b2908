//! What can go wrong with images. Every text names the file or the image, and what is the matter with it.

use std::path::PathBuf;

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
    /// A container was made from it.
    #[error("image {image:?} is used by a container")]
    InUse {
        /// As given.
        image: String,
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
            | Self::InUse { .. }
            | Self::Store { .. } => ImageErrorKind::Pull,
        }
    }

    /// As the error of a runtime call about `image`.
    pub fn into_runtime(self, image: &str) -> RuntimeError {
        let kind = self.kind();
        let mut problem = match &self {
            Self::InvalidName { problem, .. } => problem.clone(),
            Self::NotFound { .. } => "not present".to_owned(),
            Self::Archive { .. } | Self::InUse { .. } | Self::Store { .. } => self.to_string(),
        };
        if let Some(cause) = std::error::Error::source(&self) {
            problem.push_str(": ");
            problem.push_str(&cause.to_string());
        }
        RuntimeError::Image { image: image.to_owned(), problem, kind }
    }
}
