//! One pull from beginning to end.
//!
//! ```text
//!  Always and here -- HEAD -> the same digest: done
//!  else: manifest -> config -> layers that are not here, three at a time: fetched, unpacked
//!    -> shown, all at once
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use tokio::sync::RwLock;

use super::error::RegistryError;
use super::layer::{self, FetchError};
use super::manifest::{self, RemoteImage};
use super::progress::{LayerProgress, LayerState};
use super::session::RegistrySession;
use crate::image::digest::Sha256Digest;
use crate::image::document::Platform;
use crate::image::layers::LayerError;
use crate::image::plan::PlannedLayer;
use crate::image::store::pulled::{Fetched, PullCommit};
use crate::image::{ImageError, ImageReference, ImageStore};
use crate::runtime::ImageInfo;

/// Times that a pull begins anew because layers were removed under it.
const ROUNDS_MAX: usize = 3;

/// Told what happens.
pub(super) type Listener = dyn Fn(LayerProgress) + Send + Sync;

pub(super) struct ImagePullTask<'a> {
    pub(super) session: RegistrySession<'a>,
    pub(super) store: Arc<ImageStore>,
    pub(super) reference: ImageReference,
    pub(super) listener: Arc<Listener>,
    /// Read by each layer that is being unpacked, also when the pull has failed and no longer waits
    /// for it.
    pub(super) unpacking: Arc<RwLock<()>>,
}

impl ImagePullTask<'_> {
    pub(super) async fn run(&self) -> Result<ImageInfo, ImageError> {
        if let Some(info) = self.unchanged().await? {
            return Ok(info);
        }
        let machine = Platform::here();
        let resolved = manifest::resolve(&self.session, &self.reference, &machine).await;
        let remote = resolved.map_err(|error| self.failed(error))?;
        for _ in 0..ROUNDS_MAX {
            match self.bring_in(&remote).await {
                Ok(PullCommit::Done(info)) => return Ok(info),
                Ok(PullCommit::LayerGone) => {}
                Err(error) => {
                    self.sweep().await;
                    return Err(error);
                }
            }
        }
        Err(self.failed(RegistryError::Content {
            what: self.reference.to_string(),
            problem: "its layers are removed while they come".to_owned(),
        }))
    }

    /// When the image is here and the registry still means the same by its name, nothing is
    /// fetched.
    async fn unchanged(&self) -> Result<Option<ImageInfo>, ImageError> {
        let (store, reference) = (self.store.clone(), self.reference.to_string());
        if self.blocking(move || store.resolve(&reference)).await?.is_none() {
            return Ok(None);
        }
        match manifest::stated_digest(&self.session, &self.reference).await {
            Ok(Some(digest)) => {
                let (store, reference) = (self.store.clone(), self.reference.clone());
                self.blocking(move || store.adopt_digest(&reference, &digest)).await
            }
            // a registry that has no answer to HEAD is asked in full
            Ok(None) | Err(RegistryError::Status { status: 405 | 501, .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn bring_in(&self, remote: &RemoteImage) -> Result<PullCommit, ImageError> {
        let wanted = self.wanted(remote).await?;
        self.check_space(remote, &wanted)?;
        let fetches = wanted.into_iter().map(|planned| self.layer(remote, planned));
        let fetched: Vec<(Sha256Digest, Fetched)> = futures::stream::iter(fetches)
            .buffer_unordered(self.session.settings.layers_at_once)
            .try_collect()
            .await?;
        let fetched: Fetched = fetched.into_iter().flat_map(|(_, files)| files).collect();
        let (store, reference) = (self.store.clone(), self.reference.clone());
        let plan = remote.plan.clone();
        let committed = self.blocking(move || store.commit_pull(&reference, &plan, &fetched)).await;
        committed.map_err(|error| self.refused(error))
    }

    /// The layers that are not here, each once.
    async fn wanted(&self, remote: &RemoteImage) -> Result<Vec<PlannedLayer>, ImageError> {
        let (store, layers) = (self.store.clone(), remote.plan.layers.clone());
        let states = self
            .blocking(move || {
                let state = |layer: PlannedLayer| (store.has_layer(&layer), layer);
                layers.into_iter().map(state).collect::<Vec<_>>()
            })
            .await;
        let mut seen = BTreeSet::new();
        let mut wanted = Vec::new();
        for (is_here, layer) in states {
            if !seen.insert(layer.diff_id.clone()) {
                continue;
            }
            let state = if is_here { LayerState::AlreadyHere } else { LayerState::Waiting };
            self.tell(remote, &layer, state);
            if !is_here {
                wanted.push(layer);
            }
        }
        Ok(wanted)
    }

    /// Packed layers must fit beside each other on nine tenths of the free disk; unpacking has a
    /// limit of its own.
    fn check_space(&self, remote: &RemoteImage, wanted: &[PlannedLayer]) -> Result<(), ImageError> {
        let sizes = wanted.iter().map(|planned| size_of(remote, planned));
        let total = sizes.fold(0_u64, u64::saturating_add);
        let dir = self.store.scratch();
        let space = rustix::fs::statvfs(dir).map_err(|errno| ImageError::Store {
            operation: "look at",
            path: dir.to_owned(),
            source: errno.into(),
        })?;
        let free = space.f_bavail.saturating_mul(space.f_frsize) / 10 * 9;
        if total <= free {
            return Ok(());
        }
        Err(self.failed(RegistryError::Content {
            what: self.reference.to_string(),
            problem: format!("its layers have {total} bytes, and the disk has room for {free}"),
        }))
    }

    /// Fetches and unpacks one layer.
    async fn layer(
        &self,
        remote: &RemoteImage,
        planned: PlannedLayer,
    ) -> Result<(Sha256Digest, Fetched), ImageError> {
        let size = size_of(remote, &planned);
        let digest = planned.digest.clone().expect("a manifest states each layer's digest");
        let arrived = |bytes| self.tell(remote, &planned, LayerState::Coming { bytes });
        let file = layer::fetch(&self.session, &digest, size, self.store.scratch(), &arrived).await;
        let file = file.map_err(|error| match error {
            FetchError::Registry(error) => self.failed(error),
            FetchError::Disk(error) => error,
        })?;
        self.tell(remote, &planned, LayerState::Unpacking);
        let (store, layer, packed) = (self.store.clone(), planned.clone(), Arc::clone(&file));
        let under_way = Arc::clone(&self.unpacking).read_owned().await;
        let unpack = move || {
            let _under_way = under_way;
            store.unpack_fetched(&layer, &packed, size)
        };
        let unpacked = self.blocking(unpack).await;
        unpacked.map_err(|error| self.refused(error))?;
        self.tell(remote, &planned, LayerState::Done);
        Ok((digest.clone(), Fetched::from([(digest, (file, size))])))
    }

    fn tell(&self, remote: &RemoteImage, planned: &PlannedLayer, state: LayerState) {
        let size_bytes = size_of(remote, planned);
        (self.listener)(LayerProgress { layer: planned.blob.clone(), size_bytes, state });
    }

    /// Removes the layers of a pull that failed, once none is being unpacked any more.
    async fn sweep(&self) {
        let _none_under_way = self.unpacking.write().await;
        let store = self.store.clone();
        if let Err(error) = self.blocking(move || store.sweep_after_pull()).await {
            tracing::warn!(%error, "failed to remove the layers of a failed pull; the next sweep removes them");
        }
    }

    fn failed(&self, source: RegistryError) -> ImageError {
        ImageError::Pull { image: self.reference.to_string(), source }
    }

    /// A layer that does not unpack is the registry's fault, a disk that is full is ours.
    fn refused(&self, error: LayerError) -> ImageError {
        match error {
            LayerError::Archive(problem) => {
                let what = self.reference.to_string();
                self.failed(RegistryError::Content { what, problem })
            }
            LayerError::Store(error) => error,
        }
    }

    /// Runs what blocks on a thread where that is no harm.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        crate::blocking::run(work).await
    }
}

fn size_of(remote: &RemoteImage, planned: &PlannedLayer) -> u64 {
    planned.digest.as_ref().and_then(|digest| remote.sizes.get(digest)).copied().unwrap_or(0)
}
