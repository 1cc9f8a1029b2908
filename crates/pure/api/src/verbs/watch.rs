//! watch: the changes of a collection from a revision on (P6: ordered, unique, none missing,
//! resumable).

use rekindle_store::Revision;

use super::list;
use crate::call::ApiCall;
use crate::event_stream::{EventStream, WatchSource, WatchView};
use crate::outcome::{RequestOutcome, WatchAnswer};
use crate::request::Representation;
use crate::request::options::RevisionMatch;
use crate::revision;
use crate::selectors::Selection;
use crate::status::ApiError;

/// How long a watch without `timeoutSeconds` lasts (upstream: 30 to 60 minutes).
const TIMEOUT_SECONDS: u64 = 2700;

pub(crate) fn watch(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let selection = Selection::parse(call.entry, &call.options)?;
    let wanted = call.answer_form()?;
    wanted.check_stream()?;
    let form = wanted.shows;
    let stream = match start(call)? {
        WatchStart::After(revision) => stream_after(call, selection, form, revision),
        WatchStart::WithState { end_mark } => {
            let range = call.api.store.range(&list::query(call, &selection))?;
            let mut stream = stream_after(call, selection, form, range.revision);
            stream.begin_with(range.objects, end_mark.then_some(range.revision));
            stream
        }
    };
    let timeout_seconds = call.options.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
    Ok(RequestOutcome::Watch(Box::new(WatchAnswer { stream, timeout_seconds })))
}

/// Where a watch begins.
enum WatchStart {
    /// With the changes after a revision.
    After(Revision),
    /// With the current state as ADDED events, then what follows.
    WithState {
        /// Whether a bookmark marks the end of the state.
        end_mark: bool,
    },
}

fn start(call: &ApiCall<'_>) -> Result<WatchStart, ApiError> {
    let options = &call.options;
    let asked = revision::parse(&options.resource_version)?.filter(|asked| asked.0 > 0);
    match (options.send_initial_events, options.resource_version_match) {
        (Some(true), Some(RevisionMatch::NotOlderThan)) => {
            revision::check_reached(call.api.store.revision(), &options.resource_version)?;
            Ok(WatchStart::WithState { end_mark: options.allow_watch_bookmarks })
        }
        (Some(false), Some(RevisionMatch::NotOlderThan)) => {
            Ok(WatchStart::After(asked.unwrap_or_else(|| call.api.store.revision())))
        }
        // a match with anything else was refused with the options
        (None | Some(_), _) => {
            Ok(asked.map_or(WatchStart::WithState { end_mark: false }, WatchStart::After))
        }
    }
}

fn stream_after(
    call: &ApiCall<'_>,
    selection: Selection,
    form: Representation,
    after: Revision,
) -> EventStream {
    // Upstream accepts the watch and then tells the trouble as its only event; clients know that
    // way.
    let source = match call.api.store.watch(&list::prefix(call, &selection), after) {
        Ok(watch) => WatchSource::Live(watch),
        Err(error) => WatchSource::Failed(error.into()),
    };
    let wants_bookmarks = call.options.allow_watch_bookmarks;
    let shown = WatchView { entry: call.entry.clone(), form, selection };
    EventStream::new(shown, source, wants_bookmarks, after, call.api.encoded_events.clone())
}
