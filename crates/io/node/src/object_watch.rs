//! All objects of a kind, followed for as long as the stream is polled.

use std::fmt::Debug;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use rekindle_object_watch::watcher;
use rekindle_types::ObjectJson;

/// What a watch shows.
#[derive(Debug)]
pub(crate) enum WatchNews<K> {
    /// These are all: first of all, and again when the watch had to begin anew.
    All(Vec<K>),
    /// One is new, or changed.
    Changed(K),
    /// One is gone.
    Gone(K),
}

/// Follows a kind. A watch that fails is begun again; the log names `reader` then.
pub(crate) fn watch_objects<K>(
    objects: Api<K>,
    reader: &'static str,
) -> BoxStream<'static, WatchNews<K>>
where
    K: Resource<DynamicType = ()> + ObjectJson + Debug + Send + 'static,
{
    follow_events(watcher(objects, watcher::Config::default()), reader)
}

/// The same of what a watcher sees.
pub(crate) fn follow_events<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    reader: &'static str,
) -> BoxStream<'static, WatchNews<K>>
where
    K: Debug + Send + 'static,
{
    let mut listed = Vec::new();
    let news = events.default_backoff().map_ok(move |event| match event {
        Event::Init => {
            listed = Vec::new();
            None
        }
        Event::InitApply(object) => {
            listed.push(object);
            None
        }
        Event::InitDone => Some(WatchNews::All(std::mem::take(&mut listed))),
        Event::Apply(object) => Some(WatchNews::Changed(object)),
        Event::Delete(object) => Some(WatchNews::Gone(object)),
    });
    let news = news.filter_map(move |news| async move {
        news.unwrap_or_else(|error| {
            tracing::debug!(%error, reader, "a watch failed; it is begun again");
            None
        })
    });
    news.boxed()
}
