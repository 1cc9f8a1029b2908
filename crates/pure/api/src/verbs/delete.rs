//! delete: one object or many, with preconditions, grace and propagation.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use rekindle_kinds::pod;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::items;
use rekindle_store::{DurableWrite, PendingWrite, Revision, StoredObject, WritePrecondition};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Tick, TickDuration};
use serde_json::Value;

use super::list;
use crate::call::{ApiCall, ApiWriteFailure, put, remove, with_retries};
use crate::custom::VersionCodec;
use crate::custom::{ObjectConversion, with_revision_of};
use crate::outcome::{ApiAnswer, ListAnswer, RequestOutcome, WriteInFlight};
use crate::represent::ObjectRenderer;
use crate::request::options::{DryRun, GRACE_PERIOD};
use crate::request::{Representation, option_mistakes};
use crate::selectors::{Selection, names_of_key};
use crate::shared::ApiShared;
use crate::status::{ApiError, Status};
use crate::{admission, custom, decode, keys, removal};

/// What a client wants to happen with the dependents of what it deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DeletePropagation {
    /// As the object's finalizers say, or as it is usual for its kind.
    #[default]
    Unsaid,
    /// The garbage collector deletes them afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// The options of a delete, from body and query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteRequest {
    grace_period_seconds: Option<i64>,
    propagation: DeletePropagation,
    uid: Option<String>,
    resource_version: Option<String>,
    /// The answer, when the object stays for a while.
    code_of_marked: StatusCode,
    /// Whether it happens.
    pub(crate) dry_run: DryRun,
}

pub(crate) fn delete(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let wish = DeleteRequest::from_call(call)?;
    let orphaning = wish.orphaning_warning(call.entry);
    delete_as_wished(call, &wish, orphaning.clone())
        .map_err(|error| error.with_warnings(orphaning.into_iter().collect()))
}

fn delete_as_wished(
    call: &ApiCall<'_>,
    wish: &DeleteRequest,
    orphaning: Option<String>,
) -> Result<RequestOutcome, ApiError> {
    admission::check_removal(call.entry, &call.path.name)?;
    call.with_retries(|| {
        let stored = call.newest()?;
        // in the version that it is stored in: a deletion needs no other one
        let object = call.api.read(call.entry, &stored)?;
        wish.check_preconditions((call.entry, &call.path.name), object.as_ref(), &stored)?;
        let mut warnings = admission::check_deletion(call, reviewed(call, &stored)?.as_ref())?;
        warnings.extend(orphaning.clone());
        match DeleteStep::decide(object.boxed_clone(), wish, call.request.now) {
            // what was deleted at once is shown as it was
            DeleteStep::Remove(marked) if !marked.as_any().is::<Pod>() => {
                let answer = removed_answer(call, object.as_ref(), warnings)?;
                remove_now(call, &stored, answer, wish)
            }
            DeleteStep::Remove(object) => {
                let answer = removed_answer(call, object.as_ref(), warnings)?;
                remove_now(call, &stored, answer, wish)
            }
            DeleteStep::Mark(object) => {
                let shown = MarkedAnswer::of(call, object.as_ref())?;
                let said = (wish.code_of_marked, warnings);
                if wish.dry_run == DryRun::All {
                    return Ok(shown.now(call, object.as_ref(), said)?);
                }
                let key = stored.key.as_str();
                let mut pending =
                    vec![put(call.api, key, WritePrecondition::Revision(stored.revision), object)?];
                pending.extend(admission::after_mark(call, &call.path.namespace, &call.path.name)?);
                Ok(shown.when_written(call, pending, said)?)
            }
            DeleteStep::Leave(object) => {
                let shown = MarkedAnswer::of(call, object.as_ref())?;
                let mut pending = vec![call.api.store.barrier()?];
                // what an error or a kill has kept from following goes on
                if wish.dry_run == DryRun::No {
                    let (namespace, name) = (&call.path.namespace, &call.path.name);
                    pending.extend(admission::after_mark(call, namespace, name)?);
                }
                let said = (wish.code_of_marked, warnings);
                let answer = shown.now(call, object.as_ref(), said)?;
                Ok(after(pending, answer))
            }
        }
    })
}

/// The object as policies and webhooks look at it: in the version of the request, if one of them
/// does.
fn reviewed(
    call: &ApiCall<'_>,
    stored: &Arc<StoredObject>,
) -> Result<Arc<dyn AnyObject>, ApiError> {
    let object = call.api.read(call.entry, stored)?;
    let is_converted = VersionCodec::of_converted(call.entry).is_some();
    match is_converted && admission::is_deletion_reviewed(call, object.as_ref())? {
        true => call.read(stored),
        false => Ok(object),
    }
}

/// What the answer shows of an object that stays for a while.
enum MarkedAnswer {
    /// The object as it is stored.
    Stored,
    /// The object in the version of the request.
    Converted(Bytes),
    /// That it was deleted: a webhook that fails holds up no deletion.
    Status(ApiAnswer),
}

impl MarkedAnswer {
    fn of(call: &ApiCall<'_>, object: &dyn AnyObject) -> Result<Self, ApiError> {
        if matches!(call.form()?, Representation::Metadata(..)) {
            return Ok(Self::Stored);
        }
        match ObjectConversion::of_call(call).shown(call.entry, object) {
            Ok(None) => Ok(Self::Stored),
            Ok(Some(text)) => Ok(Self::Converted(text)),
            Err(error) if call.session.waits() => Err(error),
            Err(_) => {
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                let status = Status::deleted(call.entry, &call.path.name, uid);
                Ok(Self::Status(ApiAnswer::json(StatusCode::OK, status.to_json())))
            }
        }
    }

    /// Of the object as it is, which is not written.
    fn now(
        self,
        call: &ApiCall<'_>,
        object: &dyn AnyObject,
        (code, warnings): (StatusCode, Vec<String>),
    ) -> Result<RequestOutcome, ApiError> {
        let shown = match self {
            Self::Stored => None,
            Self::Converted(text) => {
                let revision = text_revision(object);
                Some(with_revision_of(call.entry, &text, revision)?)
            }
            Self::Status(answer) => return Ok(answer.with_warnings(warnings).into()),
        };
        call.answer_object(object, shown, (code, warnings))
    }

    fn when_written(
        self,
        call: &ApiCall<'_>,
        pending: Vec<PendingWrite>,
        (code, warnings): (StatusCode, Vec<String>),
    ) -> Result<RequestOutcome, ApiError> {
        let shown = match self {
            Self::Stored => None,
            Self::Converted(text) => Some(text),
            Self::Status(answer) => {
                let answer = answer.with_warnings(warnings);
                return Ok(RequestOutcome::Write(WriteInFlight::new(pending, move |_| answer)));
            }
        };
        call.when_written(pending, shown, (code, warnings))
    }
}

/// The revision that an object was read at.
fn text_revision(object: &dyn AnyObject) -> Revision {
    let text = object.meta().resource_version.as_deref().unwrap_or_default();
    Revision(text.parse().unwrap_or_default())
}

/// The same answer, once `pending` is durable.
fn after(pending: Vec<PendingWrite>, outcome: RequestOutcome) -> RequestOutcome {
    match outcome {
        RequestOutcome::Answer(answer) => {
            RequestOutcome::Write(WriteInFlight::new(pending, move |_| answer))
        }
        other => other,
    }
}

fn remove_now(
    call: &ApiCall<'_>,
    stored: &Arc<StoredObject>,
    answer: ApiAnswer,
    wish: &DeleteRequest,
) -> Result<RequestOutcome, ApiWriteFailure> {
    if wish.dry_run == DryRun::All {
        return Ok(answer.into());
    }
    let mut pending = remove(call.api, call.entry, stored, call.request.now)?;
    pending.extend(admission::after_only_removal(call, &call.path.namespace, &call.path.name)?);
    Ok(RequestOutcome::Write(WriteInFlight::new(pending, move |_| answer)))
}

/// Whether a deletion of this kind answers with the object, as upstream.
fn shows_deleted(entry: &KindEntry) -> bool {
    match entry.group.as_ref() {
        "" => matches!(
            entry.kind.as_ref(),
            "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ),
        "resource.k8s.io" | "storage.k8s.io" => true,
        _ => false,
    }
}

/// Some kinds answer with the object as it last was, the others with a `Status`, as upstream.
fn removed_answer(
    call: &ApiCall<'_>,
    object: &dyn AnyObject,
    warnings: Vec<String>,
) -> Result<ApiAnswer, ApiError> {
    let body = if shows_deleted(call.entry) {
        call.renderer()?.object(&object.to_json().into())?
    } else {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        Status::deleted(call.entry, &call.path.name, uid).to_json().into()
    };
    Ok(ApiAnswer::json(StatusCode::OK, body).with_warnings(warnings))
}

impl DeleteRequest {
    /// From the body; without one, from the query.
    fn from_call(call: &ApiCall<'_>) -> Result<Self, ApiError> {
        if call.request.body.is_empty() {
            call.options.number(GRACE_PERIOD)?;
            return Self::of_options(call.options.delete_options());
        }
        let format = decode::body_format(&call.request.content_type)?;
        let body = decode::read(format, &call.request.body)?;
        check_options_kind(&body.value)?;
        let options = serde_json::from_value(body.value).map_err(|error| {
            ApiError::bad_request(format!("DeleteOptions cannot be read: {error}"))
        })?;
        Self::of_options(options)
    }

    /// These options, when they make sense together.
    pub(crate) fn of_options(options: DeleteOptions) -> Result<Self, ApiError> {
        let errors = mistakes_in_options(&options);
        if !errors.is_empty() {
            return Err(ApiError::invalid_options("DeleteOptions", &errors));
        }
        let orphan =
            options.orphan_dependents.map(|orphan| if orphan { "Orphan" } else { "Background" });
        let propagation = options.propagation_policy.as_deref().or(orphan);
        let preconditions = options.preconditions.unwrap_or_default();
        Ok(Self {
            grace_period_seconds: options.grace_period_seconds,
            propagation: DeletePropagation::parse(propagation.unwrap_or_default()),
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            code_of_marked: match options.orphan_dependents {
                // as upstream: whoever says so knows that the object may stay
                Some(false) => StatusCode::ACCEPTED,
                Some(true) | None => StatusCode::OK,
            },
            dry_run: DryRun::of_values(items(options.dry_run.as_ref())),
        })
    }

    /// What the client does not say, and may not know.
    fn orphaning_warning(&self, entry: &KindEntry) -> Option<String> {
        let is_unsaid = self.propagation == DeletePropagation::Unsaid;
        removal::orphaning_warning(entry).filter(|_| is_unsaid)
    }

    /// The object must be the one that the client means.
    pub(crate) fn check_preconditions(
        &self,
        (entry, name): (&KindEntry, &str),
        object: &dyn AnyObject,
        stored: &StoredObject,
    ) -> Result<(), ApiError> {
        let actual = object.meta().uid.as_deref().unwrap_or_default();
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != actual) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({actual}). The object might \
                 have been deleted and then recreated"
            );
            return Err(ApiError::unmet_precondition(entry, name, &why));
        }
        let actual = stored.revision.to_string();
        if let Some(wanted) = self.resource_version.as_deref().filter(|wanted| *wanted != actual) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({actual}). The object might have been modified"
            );
            return Err(ApiError::unmet_precondition(entry, name, &why));
        }
        Ok(())
    }
}

/// A body of another kind is no wish to delete.
fn check_options_kind(value: &Value) -> Result<(), ApiError> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "" | DELETE_OPTIONS => Ok(()),
        // 500, as upstream
        other if OPTION_KINDS.contains(&other) => Err(ApiError::failure(format!(
            "the body of a deletion is a {DELETE_OPTIONS}, and this is a {other:?}"
        ))),
        other => {
            let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            Err(ApiError::bad_request(format!(
                "no kind {other:?} is registered for version {version:?}"
            )))
        }
    }
}

fn mistakes_in_options(options: &DeleteOptions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = options.propagation_policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, options.orphan_dependents) {
        errors.push(FieldError::invalid(
            PROPAGATION_POLICY,
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        ));
    }
    if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
        let supported = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported(PROPAGATION_POLICY, policy, &supported));
    }
    errors.extend(option_mistakes::dry_run_mistakes(items(options.dry_run.as_ref())));
    errors
}

const DELETE_OPTIONS: &str = "DeleteOptions";

/// Other kinds that are read in the place of options.
const OPTION_KINDS: [&str; 6] =
    ["CreateOptions", "GetOptions", "ListOptions", "PatchOptions", "Status", "UpdateOptions"];

const PROPAGATION_POLICY: &str = "propagationPolicy";
const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];

impl DeletePropagation {
    /// Of a value that was checked.
    fn parse(text: &str) -> Self {
        match text {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => Self::Unsaid,
        }
    }

    /// The wish for this object.
    fn of(self, object: &dyn AnyObject) -> Self {
        let mut finalizers = object.meta().finalizers.iter().flatten();
        let is_said = finalizers.any(|finalizer| is_propagation(finalizer));
        match self {
            Self::Unsaid if !is_said && removal::keeps_dependents(object) => Self::Orphan,
            Self::Unsaid | Self::Background | Self::Foreground | Self::Orphan => self,
        }
    }

    /// The finalizers after this wish.
    fn apply(self, meta: &mut ObjectMeta) {
        let wanted = match self {
            Self::Unsaid => return,
            Self::Background => None,
            Self::Foreground => Some(removal::FOREGROUND),
            Self::Orphan => Some(removal::ORPHAN),
        };
        let mut finalizers = meta.finalizers.take().unwrap_or_default();
        finalizers.retain(|finalizer| !is_propagation(finalizer));
        finalizers.extend(wanted.map(str::to_owned));
        meta.finalizers = Some(finalizers).filter(|finalizers| !finalizers.is_empty());
    }
}

/// Whether a finalizer says what becomes of the dependents.
fn is_propagation(finalizer: &str) -> bool {
    matches!(finalizer, removal::FOREGROUND | removal::ORPHAN)
}

/// What a delete does to an object.
pub(crate) enum DeleteStep {
    /// It goes at once.
    Remove(Box<dyn AnyObject>),
    /// It gets (or changes) its deletion timestamp, and goes later.
    Mark(Box<dyn AnyObject>),
    /// It is going already; nothing changes.
    Leave(Box<dyn AnyObject>),
}

impl DeleteStep {
    /// What becomes of the object as it is.
    pub(crate) fn decide(before: Box<dyn AnyObject>, wish: &DeleteRequest, now: Tick) -> Self {
        let mut object = before.boxed_clone();
        if removal::is_collected(object.as_ref()) {
            wish.propagation.of(object.as_ref()).apply(object.meta_mut());
        }
        let grace = grace_seconds(object.as_ref(), wish);
        let is_namespace = object.as_any().is::<Namespace>();
        let meta = object.meta_mut();
        match &meta.deletion_timestamp {
            None => {
                meta.deletion_timestamp = Some((now + TickDuration::of_field(grace)).to_time());
                // a namespace has none, and goes when it is empty
                meta.deletion_grace_period_seconds = (!is_namespace).then_some(grace);
                // Upstream: observers may want to act on the deletion, so it counts as a change of
                // the spec.
                meta.generation = meta.generation.map(|generation| generation + 1);
                custom::cleanup::hold(object.as_mut(), now);
            }
            Some(deadline) => {
                let known = meta.deletion_grace_period_seconds.unwrap_or(0);
                if wish.grace_period_seconds.is_some() && grace < known {
                    // Counted from the first delete: a second one can only shorten the time.
                    let began = Tick::from(deadline) - TickDuration::of_field(known);
                    meta.deletion_timestamp =
                        Some((began + TickDuration::of_field(grace)).to_time());
                    meta.deletion_grace_period_seconds = Some(grace);
                }
            }
        }
        if let Some(namespace) = object.as_any_mut().downcast_mut::<Namespace>() {
            namespace.status.get_or_insert_default().phase = Some("Terminating".to_owned());
        }
        if removal::may_go(object.as_ref()) {
            Self::Remove(object)
        } else if object.same_as(before.as_ref()) {
            Self::Leave(object)
        } else {
            Self::Mark(object)
        }
    }
}

/// How long the object may still take, in seconds. Only pods have time; those without a node, or at
/// their end, need none.
fn grace_seconds(object: &dyn AnyObject, wish: &DeleteRequest) -> i64 {
    let default = object.deletion_grace_period_seconds();
    let Some(pod) = object.as_any().downcast_ref::<Pod>() else { return default };
    if !pod::needs_time(pod) {
        return 0;
    }
    match wish.grace_period_seconds {
        // Upstream: a negative period becomes one second.
        Some(wanted) if wanted < 0 => 1,
        Some(wanted) => wanted,
        None => default,
    }
}

/// Deletes the selected objects of a collection, or of one page of it; the answer lists them.
pub(crate) fn delete_collection(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let selection = Selection::parse(call.entry, &call.options)?;
    let wish = DeleteRequest::from_call(call)?;
    let orphaning = wish.orphaning_warning(call.entry);
    delete_selected(call, (&selection, &wish), orphaning.clone())
        .map_err(|error| error.with_warnings(orphaning.into_iter().collect()))
}

fn delete_selected(
    call: &ApiCall<'_>,
    (selection, wish): (&Selection, &DeleteRequest),
    orphaning: Option<String>,
) -> Result<RequestOutcome, ApiError> {
    // as they are with writes that are on their way: what is checked is what goes
    let newest = |object: Arc<StoredObject>| call.api.store.newest(object.key.as_str());
    let page = list::stored_page(call, selection)?;
    let mut meta = page.meta()?;
    let selected = page.objects.into_iter().filter_map(newest).collect();
    let selected = list::only_selected(call, selection, selected)?;
    let mut warnings = check_all(call, &selected, wish)?;
    warnings.extend(orphaning);
    let shown = shown_list(call, &selected)?;
    let (mut pending, mut deleted) = (Vec::new(), Vec::new());
    for object in selected {
        let (namespace, name) = names_of_key(call.entry, object.key.as_str());
        let deletion = delete_checked(call, &object, wish)?;
        let is_shown = match &deletion {
            StoredDeletion::Gone => false,
            StoredDeletion::Going | StoredDeletion::Marked(_) | StoredDeletion::Removed(_) => true,
        };
        if wish.dry_run == DryRun::No {
            pending.extend(deletion.followed_up(call, (namespace, name))?);
        }
        deleted.extend(is_shown.then(|| Arc::clone(&object)));
    }
    if wish.dry_run == DryRun::No {
        pending.extend(admission::after_all_removals(call)?);
    }
    let (entry, form, now) = (call.entry.clone(), call.list_form()?, call.request.now);
    pending.push(call.api.store.barrier()?);
    Ok(RequestOutcome::Write(WriteInFlight::new(pending, move |written: Vec<DurableWrite>| {
        let revision = written.iter().map(|written| written.revision).max().unwrap_or_default();
        let Some(shown) = shown else {
            let status = Status::deleted(&entry, "", "").to_json();
            return ApiAnswer::json(StatusCode::OK, status).with_warnings(warnings);
        };
        let is_deleted = |object: &Arc<StoredObject>| {
            let by_key = |deleted: &Arc<StoredObject>| deleted.key.cmp(&object.key);
            deleted.binary_search_by(by_key).is_ok()
        };
        let deleted: Vec<_> = shown.into_iter().filter(is_deleted).collect();
        meta.resource_version = revision.to_string();
        let list = ObjectRenderer { entry: &entry, form, now }.list(&meta, deleted);
        list.map_or_else(ApiAnswer::from, |pieces| {
            ListAnswer::json(pieces).with_warnings(warnings).into_answer()
        })
    })))
}

/// The objects as the answer shows them; none when a webhook fails to convert them.
fn shown_list(
    call: &ApiCall<'_>,
    selected: &[Arc<StoredObject>],
) -> Result<Option<Vec<Arc<StoredObject>>>, ApiError> {
    match call.all_shown(call.list_form()?, selected.to_vec()) {
        Ok(shown) => Ok(Some(shown)),
        Err(error) if call.session.waits() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Refuses a deletion of many before any of them goes. Gives the warnings.
fn check_all(
    call: &ApiCall<'_>,
    selected: &[Arc<StoredObject>],
    wish: &DeleteRequest,
) -> Result<Vec<String>, ApiError> {
    let (mut warnings, mut waits) = (Vec::new(), None);
    for object in selected {
        let (_, name) = names_of_key(call.entry, object.key.as_str());
        let stored = call.api.read(call.entry, object)?;
        wish.check_preconditions((call.entry, name), stored.as_ref(), object)
            .map_err(|error| error.with_warnings(warnings.clone()))?;
        let checked = admission::check_removal(call.entry, name)
            .and_then(|()| admission::check_deletion(call, reviewed(call, object)?.as_ref()));
        match checked {
            Ok(more) => warnings.extend(more),
            // webhooks are asked about many objects at once
            Err(error) if call.session.waits() => {
                waits = Some(error);
                if call.session.is_full() {
                    break;
                }
            }
            Err(error) => return Err(error.with_warnings(warnings)),
        }
    }
    waits.map_or(Ok(warnings), Err)
}

/// Deletes an object as it was checked. One that another writer has changed since stays: it may be
/// another object by now, or one that nothing lets go.
fn delete_checked(
    call: &ApiCall<'_>,
    object: &Arc<StoredObject>,
    wish: &DeleteRequest,
) -> Result<StoredDeletion, ApiError> {
    match try_delete(call.api, call.entry, object, (wish, call.request.now)) {
        Ok(deletion) => Ok(deletion),
        Err(ApiWriteFailure::Raced) => Ok(StoredDeletion::Gone),
        Err(ApiWriteFailure::Api(error)) => Err(error),
    }
}

/// What became of a stored object that was to be deleted.
pub(crate) enum StoredDeletion {
    /// Another was faster.
    Gone,
    /// It was going already, and nothing changed.
    Going,
    /// It is going now, and stays for a while.
    Marked(Vec<PendingWrite>),
    /// It went at once.
    Removed(Vec<PendingWrite>),
}

impl StoredDeletion {
    /// Its writes, with those that come with the deletion of an object of this namespace and name.
    fn followed_up(
        self,
        call: &ApiCall<'_>,
        (namespace, name): (&str, &str),
    ) -> Result<Vec<PendingWrite>, ApiError> {
        let (mut pending, more) = match self {
            Self::Gone => return Ok(Vec::new()),
            Self::Going => (Vec::new(), admission::after_mark(call, namespace, name)?),
            Self::Marked(pending) => (pending, admission::after_mark(call, namespace, name)?),
            Self::Removed(pending) => (pending, admission::after_removal(call, namespace, name)?),
        };
        pending.extend(more);
        Ok(pending)
    }
}

/// Deletes the object of a key as it is, also when others write in between. What follows from the
/// deletion is the caller's.
///
/// # Errors
/// When the object cannot be read, or the store refuses.
pub(crate) fn delete_stored(
    api: &ApiShared,
    entry: &KindEntry,
    key: &str,
    (wish, now): (&DeleteRequest, Tick),
) -> Result<StoredDeletion, ApiError> {
    let (namespace, name) = names_of_key(entry, key);
    debug_assert_eq!(keys::object(entry, namespace, name), key);
    with_retries(entry, name, || {
        let Some(stored) = api.store.newest(key) else { return Ok(StoredDeletion::Gone) };
        try_delete(api, entry, &stored, (wish, now))
    })
}

/// Deletes this version of an object, if no other one has come.
fn try_delete(
    api: &ApiShared,
    entry: &KindEntry,
    stored: &Arc<StoredObject>,
    (wish, now): (&DeleteRequest, Tick),
) -> Result<StoredDeletion, ApiWriteFailure> {
    let object = api.read(entry, stored)?.boxed_clone();
    Ok(match (DeleteStep::decide(object, wish, now), wish.dry_run) {
        (DeleteStep::Leave(_), _) => StoredDeletion::Going,
        (DeleteStep::Remove(_), DryRun::All) => StoredDeletion::Removed(Vec::new()),
        (DeleteStep::Mark(_), DryRun::All) => StoredDeletion::Marked(Vec::new()),
        (DeleteStep::Remove(_), DryRun::No) => {
            StoredDeletion::Removed(remove(api, entry, stored, now)?)
        }
        (DeleteStep::Mark(object), DryRun::No) => {
            let expect = WritePrecondition::Revision(stored.revision);
            StoredDeletion::Marked(vec![put(api, stored.key.as_str(), expect, object)?])
        }
    })
}
