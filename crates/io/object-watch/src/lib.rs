//! Watches of the API. Their code is compiled once, and not for each kind.
//!
//! kube's watcher is generic. Each crate that watches a kind compiles the list, the watch and the
//! reader of that kind again. Here only [`ObjectText`] goes through kube; what it says is read by
//! [`ObjectJson`], which `rekindle-types` compiles once for each kind.
#![forbid(unsafe_code)]

mod object_text;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Resource};
use rekindle_types::ObjectJson;

pub use object_text::ObjectText;

/// What a watch shows, or why it failed.
type Watched<K> = watcher::Result<Event<K>>;

/// Follows objects as kube's watcher of the same name does. After an error it goes on; a caller
/// adds the back-off.
///
/// An object that cannot be read makes the watch begin again: without it a list would not be
/// whole, and a reader would take the object for gone.
pub fn watcher<K>(objects: Api<K>, config: Config) -> BoxStream<'static, Watched<K>>
where
    K: Resource<DynamicType = ()> + ObjectJson + Send + 'static,
{
    let texts = Texts::new(texts_of(objects), config);
    let read = |mut texts: Texts| async move {
        let event = texts.next().await?;
        let read = event.and_then(|event| {
            read(event).map_err(|error| {
                texts.begin_again();
                watcher::Error::WatchFailed(kube::Error::SerdeError(error))
            })
        });
        Some((read, texts))
    };
    stream::unfold(texts, read).boxed()
}

/// The same objects as texts.
fn texts_of<K: Resource<DynamicType = ()>>(objects: Api<K>) -> Api<ObjectText> {
    let resource = ApiResource::erase::<K>(&());
    let namespace = objects.namespace().map(str::to_owned);
    let client = objects.into_client();
    match namespace {
        Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

fn read<K: ObjectJson>(event: Event<ObjectText>) -> Result<Event<K>, serde_json::Error> {
    Ok(match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.read()?),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(object.read()?),
        Event::Delete(object) => Event::Delete(object.read()?),
    })
}

/// A watch of texts that can begin again.
struct Texts {
    objects: Api<ObjectText>,
    config: Config,
    events: BoxStream<'static, Watched<ObjectText>>,
}

impl Texts {
    fn new(objects: Api<ObjectText>, config: Config) -> Self {
        let events = watcher::watcher(objects.clone(), config.clone()).boxed();
        Self { objects, config, events }
    }

    fn begin_again(&mut self) {
        self.events = watcher::watcher(self.objects.clone(), self.config.clone()).boxed();
    }

    /// One future for all kinds.
    fn next(&mut self) -> stream::Next<'_, BoxStream<'static, Watched<ObjectText>>> {
        self.events.next()
    }
}

#[cfg(test)]
mod tests;
