//! Pulls of a whole engine: they share connections, and two that want the same image with the same
//! logins are one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use super::address::RegistryAddress;
use super::error::RegistryError;
use super::login::{Keyring, Login};
use super::progress::LayerProgress;
use super::pull::{ImagePullTask, Listener};
use super::session::RegistrySession;
use super::settings::RegistrySettings;
use super::transport::RegistryTransport;
use crate::image::reference::as_image_id;
use crate::image::{ImageError, ImageReference, ImageStore};
use crate::runtime::ImageInfo;

/// The registry in the names of images that only this machine has, as podman and buildah give them,
/// too.
const THIS_MACHINE: &str = "localhost";

type Outcome = Result<ImageInfo, Arc<ImageError>>;
type Flight = BoxFuture<'static, Outcome>;
/// Who asks for the same image with other logins must not get what these brought.
type FlightKey = (String, Vec<Login>);

/// Pulls images into a store. Cheap to share behind an `Arc`.
pub struct Puller {
    inner: Arc<PullerState>,
    flights: Mutex<BTreeMap<FlightKey, WeakShared<Flight>>>,
}

struct PullerState {
    store: Arc<ImageStore>,
    settings: RegistrySettings,
    /// Made at the first pull: it reads the system's certificates.
    transport: OnceLock<RegistryTransport>,
}

impl Puller {
    /// A puller into `store`. Nothing is asked yet.
    pub fn new(store: Arc<ImageStore>, settings: RegistrySettings) -> Self {
        let inner = PullerState { store, settings, transport: OnceLock::new() };
        Self { inner: Arc::new(inner), flights: Mutex::default() }
    }

    /// Fetches an image, or makes sure that the one that is here is still the registry's. Pulls of
    /// one image with the same logins at the same time are one. Dropping the last future that waits
    /// for a pull ends it.
    pub async fn pull(&self, image: &str, keyring: &Keyring) -> Outcome {
        let reference = pullable(image).map_err(Arc::new)?;
        let logins = keyring.lookup(&reference);
        self.flight(reference, logins).await
    }

    /// The same, told about while it goes on, and not shared.
    pub async fn pull_watched(
        &self,
        image: &str,
        keyring: &Keyring,
        listener: impl Fn(LayerProgress) + Send + Sync + 'static,
    ) -> Result<ImageInfo, ImageError> {
        let reference = pullable(image)?;
        let logins = keyring.lookup(&reference);
        self.inner.pull(reference, logins, Arc::new(listener)).await
    }

    fn flight(&self, reference: ImageReference, logins: Vec<Login>) -> Shared<Flight> {
        let key = (reference.to_string(), logins.clone());
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.upgrade().is_some());
        let under_way = flights.get(&key).and_then(WeakShared::upgrade);
        if let Some(flight) = under_way.filter(|flight| flight.peek().is_none()) {
            return flight;
        }
        let inner = self.inner.clone();
        let flight =
            async move { inner.pull(reference, logins, Arc::new(|_| ())).await.map_err(Arc::new) }
                .boxed()
                .shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(key, weak);
        }
        flight
    }
}

impl PullerState {
    async fn pull(
        &self,
        reference: ImageReference,
        logins: Vec<Login>,
        listener: Arc<Listener>,
    ) -> Result<ImageInfo, ImageError> {
        let image = reference.to_string();
        let transport = self.transport().await;
        let transport = transport.map_err(|source| ImageError::Pull { image, source })?;
        let address = RegistryAddress::new(&reference, &self.settings.plain_http);
        let repository = reference.repository();
        let session = RegistrySession::new(transport, &self.settings, address, repository, logins);
        let (store, unpacking) = (self.store.clone(), Arc::default());
        ImagePullTask { session, store, reference, listener, unpacking }.run().await
    }

    async fn transport(&self) -> Result<&RegistryTransport, RegistryError> {
        if let Some(transport) = self.transport.get() {
            return Ok(transport);
        }
        let settings = self.settings.clone();
        let made = crate::blocking::run(move || RegistryTransport::new(&settings)).await?;
        Ok(self.transport.get_or_init(|| made))
    }
}

/// The reference of an image that a registry can be asked for.
fn pullable(image: &str) -> Result<ImageReference, ImageError> {
    if as_image_id(image).is_some() {
        return Err(ImageError::NotFound { image: image.to_owned() });
    }
    let reference = ImageReference::parse(image)?;
    match reference.registry() {
        THIS_MACHINE => Err(ImageError::OfThisMachine { image: image.to_owned() }),
        _ => Ok(reference),
    }
}

/// Whether a registry can be asked for an image of this name. Ids and names below `localhost/` are
/// of this machine.
pub(crate) fn has_registry(image: &str) -> bool {
    pullable(image).is_ok()
}
