//! The API itself: routes a request to what serves it. Synchronous and free of IO.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;
use rekindle_kinds::certificate_signing_request::SignatureVerifier;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{
    AnyObject, KindEntry, KindOrigin, Registry, ResourceScope, Subresource,
};
use rekindle_kinds::service_range::ServiceRanges;
use rekindle_metrics::Text;
use rekindle_store::{PendingWrite, Store, StoredObject};
use rekindle_types::Tick;

use crate::admission;
use crate::admission::pod_security::PodSecurityConfiguration;
use crate::admission_session::AdmissionSession;
use crate::api_services::{self, routing};
use crate::audit_notes::AuditNotes;
use crate::auth::AccessAttributes;
use crate::auth::token::TokenKeys;
use crate::call::{ApiCall, ObjectPart};
use crate::custom::{self, ResumedDefinitions};
use crate::discovery::{self, Discovery};
use crate::impersonation::{self, Impersonation};
use crate::keys;
use crate::node_query::MetricsQuery;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::attributes;
use crate::request::path::PROXY;
use crate::request::{
    ApiRequest, PathTarget, RequestLine, RequestOptions, RequestVerb, ResourcePath, accept,
};
use crate::resource_metrics::{self, NodeFigures};
use crate::reviews;
use crate::service_addresses;
use crate::shared::{ApiParts, ApiShared};
use crate::status::ApiError;
use crate::subresources::{self, binding};
use crate::verbs::{self, request_checks};

/// The API. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Api {
    pub(crate) shared: Arc<ApiShared>,
    discovery: Arc<Discovery>,
}

impl Api {
    /// An API over a store. Call [`Api::bootstrap`] before the first request.
    pub fn new(parts: ApiParts) -> Self {
        Self { shared: Arc::new(ApiShared::new(parts)), discovery: Arc::default() }
    }

    /// By which keys tokens of service accounts are signed and known from now on. Before that
    /// none is issued and none is known.
    pub fn set_token_keys(&self, keys: TokenKeys) {
        self.shared.tokens.set_keys(keys);
    }

    /// Makes what every cluster has and this one lacks: the namespaces default, kube-system,
    /// kube-public and kube-node-lease, each with its default ServiceAccount and its
    /// kube-root-ca.crt; the roles and bindings that users expect; the CA's ClusterTrustBundle;
    /// the system's priority classes; the storage class local-path; the ServiceCIDR, and the
    /// addresses that Services lack; the APIServices of what is served here.
    ///
    /// # Errors
    /// When the store refuses. The caller waits for what is returned.
    pub fn bootstrap(&self, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
        let mut pending = admission::namespaces::bootstrap(&self.shared, now)?;
        pending.extend(admission::default_roles::bootstrap(&self.shared, now)?);
        pending.extend(admission::extension_authentication::bootstrap(&self.shared, now)?);
        pending.extend(admission::trust_bundles::bootstrap(&self.shared, now)?);
        pending.extend(admission::priority::bootstrap(&self.shared, now)?);
        pending.extend(admission::storage_classes::bootstrap(&self.shared, now)?);
        pending.extend(service_addresses::bootstrap(&self.shared, now)?);
        pending.extend(api_services::local_api_service::bootstrap(&self.shared, now)?);
        Ok(pending)
    }

    /// Goes on with what the end of the engine has interrupted: names of definitions that were not
    /// settled, and definitions that were going. To be called once, after [`Api::bootstrap`]. What
    /// fails stops no start; the caller waits for the writes and logs the failures.
    pub fn resume_definitions(&self, now: Tick) -> ResumedDefinitions {
        let mut resumed = custom::resume(&self.shared, now);
        match api_services::local_api_service::bootstrap(&self.shared, now) {
            Ok(pending) => resumed.pending.extend(pending),
            Err(error) => resumed.failures.push(("APIServices".to_owned(), error.into())),
        }
        resumed
    }

    /// The ranges that addresses of Services come from, 10.96.0.0/16 unless told. To be called
    /// before [`Api::bootstrap`].
    pub fn configure_service_ranges(&self, ranges: ServiceRanges) {
        self.shared.service_addresses.configure(ranges);
    }

    /// The CA (PEM) of the proxy to other API servers. To be called before [`Api::bootstrap`],
    /// once: later calls change nothing.
    pub fn configure_front_proxy(&self, ca_pem: &str) {
        self.shared.set_front_proxy_ca(ca_pem.to_owned());
    }

    /// Makes the Service `kubernetes` in the namespace default, with its Endpoints and
    /// EndpointSlice. It leads to this address, at which pods reach the API, and comes back when it
    /// is deleted. To be called once, after [`Api::bootstrap`].
    ///
    /// # Errors
    /// When the store refuses. The caller waits for what is returned.
    pub fn publish_api_service(
        &self,
        endpoint: SocketAddr,
        now: Tick,
    ) -> Result<Vec<PendingWrite>, ApiError> {
        service_addresses::publish(&self.shared, endpoint, now)
    }

    /// Who a bearer token belongs to.
    ///
    /// # Errors
    /// 401 when it is none of ours, has expired, or what it was made for is no more.
    pub fn authenticate(&self, token: &str, now: Tick) -> Result<ClientIdentity, ApiError> {
        self.shared.tokens.authenticate(self.shared.state(), token, now)
    }

    /// The identity that a request acts as, when `who` asks to act as somebody else.
    ///
    /// # Errors
    /// 403 when `who` may not.
    pub fn impersonate(
        &self,
        who: ClientIdentity,
        as_whom: &Impersonation,
    ) -> Result<ClientIdentity, ApiError> {
        impersonation::check(&self.shared, &who, as_whom)?;
        Ok(as_whom.identity())
    }

    /// Serves one request.
    pub fn handle(&self, request: &ApiRequest) -> RequestOutcome {
        self.handle_in(request, &AdmissionSession::default())
    }

    /// Serves one request, with what it has drawn and learned before. Its answer may be that
    /// webhooks have to be asked: then it comes again, with what they said.
    pub fn handle_in(&self, request: &ApiRequest, session: &AdmissionSession) -> RequestOutcome {
        session.begin_run();
        if let Some(notes) = &request.notes {
            notes.begin_run();
        }
        let outcome = self.route(request, session);
        let questions = session.questions();
        if !questions.is_empty() {
            return RequestOutcome::Webhooks(questions);
        }
        let mut outcome = outcome.unwrap_or_else(|error| {
            let encoding = accept::encoding_of_errors(&request.accept);
            RequestOutcome::Answer(error.into()).encoded(encoding)
        });
        if let RequestOutcome::Watch(watch) = &mut outcome {
            watch.stream.follow_definition(&self.shared);
        }
        outcome
    }

    /// How long pods that are created from now on stay on a node that is not ready or not
    /// reachable, where they do not say so themselves; 300 s otherwise.
    pub fn set_default_toleration_seconds(&self, seconds: u32) {
        self.shared.set_toleration_seconds(seconds.into());
    }

    /// How long tokens of service accounts that are asked for from now on are good at most, in
    /// seconds; a year otherwise. Who asks for more gets a shorter token, and a warning.
    pub fn set_token_seconds_max(&self, seconds: u32) {
        self.shared.set_token_seconds_max(seconds.into());
    }

    /// What Pod Security admission asks for where namespaces do not say, and what is exempt from
    /// it. To be called before the first request, once: later calls change nothing.
    pub fn configure_pod_security(&self, configuration: PodSecurityConfiguration) {
        self.shared.pod_security.configure(configuration);
    }

    /// What verifies the signatures of certificate requests. Without it each such request is
    /// refused. To be called before the first request, once: later calls change nothing.
    pub fn verify_signatures_with(&self, verifier: impl SignatureVerifier + 'static) {
        self.shared.set_signature_verifier(Box::new(verifier));
    }

    /// What admission has counted, as text for `/metrics`.
    pub fn write_admission_figures(&self, text: &mut Text) {
        self.shared.pod_security.write_figures(text);
    }

    /// From now on no leader's write is taken (`terms`): what ends with the engine must not be made
    /// again by controllers elsewhere.
    pub fn close_to_leaders(&self) {
        self.shared.terms.close();
    }

    /// The answer to a question about figures, from what the nodes have said.
    pub fn resource_metrics(&self, query: &MetricsQuery, nodes: &[NodeFigures]) -> ApiAnswer {
        query.answer(nodes, |node| self.node_labels(node))
    }

    /// The labels of a node; none when it is not there.
    fn node_labels(&self, name: &str) -> BTreeMap<String, String> {
        let entry = self.shared.registry.find("", "v1", "nodes");
        let found = entry.and_then(|entry| {
            let object = self.shared.store.get(&keys::object(entry, "", name))?;
            let node = self.shared.read(entry, &object).ok()?;
            node.meta().labels.clone()
        });
        found.unwrap_or_default()
    }

    /// The object behind a stored text, shared with the API itself.
    ///
    /// # Errors
    /// When it is none of that kind.
    pub fn read(
        &self,
        entry: &KindEntry,
        stored: &StoredObject,
    ) -> Result<Arc<dyn AnyObject>, ApiError> {
        self.shared.read(entry, stored)
    }

    /// Remembers at least so many objects as they are behind their text, 64 unless told. For who
    /// reads all objects in this process.
    pub fn set_remembered(&self, objects: usize) {
        self.shared.decoded.set_remembered(objects);
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The kind that a path names.
    pub(crate) fn kind(&self, path: &ResourcePath) -> Option<Arc<KindEntry>> {
        self.shared.kind(path)
    }

    /// The kinds it serves, with those that durable definitions describe.
    pub fn served(&self) -> Registry {
        self.shared.custom.served(&self.shared)
    }

    /// Every kind that a durable definition describes, in the version that its objects are stored
    /// in, by what their keys begin with.
    pub(crate) fn kinds_of_definitions(&self) -> Vec<(String, Arc<KindEntry>)> {
        let kinds = self.shared.custom.all(&self.shared);
        let stored = kinds.iter().filter_map(|kind| {
            Some((kind.place_of_objects(), Arc::clone(kind.storage_version()?)))
        });
        stored.collect()
    }

    /// The built-in kinds.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Refuses what `who` may not do. It needs no body, so a front asks before it reads one;
    /// [`Api::handle`] decides again.
    ///
    /// # Errors
    /// 401 without an identity, 403 without the right.
    pub fn authorize(
        &self,
        who: &ClientIdentity,
        asked: &RequestLine<'_>,
        notes: Option<&AuditNotes>,
    ) -> Result<(), ApiError> {
        match PathTarget::parse(asked.path) {
            PathTarget::Other(path) => self.authorize_path((who, notes), asked.method, &path),
            PathTarget::Resource(path) => {
                let options = RequestOptions::of_path(&path, asked.query);
                let verb = RequestVerb::from_request(asked.method, &path, &options);
                attributes::of_resource(asked.method, &path, (verb, &options), |what| {
                    self.shared.authorize_request(who, what, notes)
                })
            }
        }
    }

    fn route(
        &self,
        request: &ApiRequest,
        session: &AdmissionSession,
    ) -> Result<RequestOutcome, ApiError> {
        match PathTarget::parse(&request.path) {
            PathTarget::Other(path) => {
                RequestOptions::parse(&request.query).check_timeout()?;
                let asks = (&request.identity, request.notes.as_deref());
                self.authorize_path(asks, &request.method, &path)?;
                if let Some(outcome) = routing::route_discovery(&self.shared, request, &path) {
                    return Ok(outcome);
                }
                self.discovery.serve(&self.shared, &path, request)
            }
            PathTarget::Resource(path) => self.serve_resource((request, session), &path),
        }
    }

    fn authorize_path(
        &self,
        (who, notes): (&ClientIdentity, Option<&AuditNotes>),
        method: &Method,
        path: &str,
    ) -> Result<(), ApiError> {
        let verb = attributes::path_verb(method);
        let what = AccessAttributes::Path { verb: &verb, path };
        self.shared.authorize_request(who, &what, notes)
    }

    fn serve_resource(
        &self,
        (request, session): (&ApiRequest, &AdmissionSession),
        path: &ResourcePath,
    ) -> Result<RequestOutcome, ApiError> {
        let options = RequestOptions::of_path(path, &request.query);
        let verb = RequestVerb::from_request(&request.method, path, &options);
        let is_watch = verb == Some(RequestVerb::Watch);
        if !is_watch && !path.is_long_running() {
            options.check_timeout()?;
        }
        attributes::of_resource(&request.method, path, (verb, &options), |what| {
            self.shared.authorize_request(&request.identity, what, request.notes.as_deref())
        })?;
        let group_version = (path.group.as_str(), path.version.as_str());
        if let Some(outcome) = routing::route(&self.shared, request, group_version, is_watch) {
            return Ok(outcome);
        }
        if let Some(answer) = reviews::serve(&self.shared, request, (path, &options))? {
            return Ok(answer);
        }
        if let Some(outcome) = resource_metrics::query(request, path, &options)? {
            return Ok(outcome);
        }
        if request.path.contains("//") && path.subresource != PROXY {
            return discovery::misspelt(&self.shared, &request.path, path);
        }
        let bound_by_body = binding::pods_of_collection(path);
        let path = bound_by_body.as_ref().unwrap_or(path);
        let entry = self.shared.kind(path).filter(|entry| is_in_scope(entry, path));
        let Some(entry) = &entry else { return discovery::nothing_served(&self.shared, path) };
        if path.name.contains('/') {
            return Err(ApiError::no_such_path());
        }
        if path.subresource == PROXY && entry.subresources.contains(&Subresource::Proxy) {
            let call = ApiCall::new(&self.shared, entry, path, options, (request, session));
            return subresources::proxy::connect(&call);
        }
        let verb = verb.ok_or_else(ApiError::method_not_allowed)?;
        check_collection(entry, path, verb)?;
        let terms = &self.shared.terms;
        let _until_queued =
            terms.admit(self.shared.state(), verb, path, (&options, &request.body))?;
        if path.is_watch {
            return self.serve_old_watch((request, session), (entry, path), options);
        }
        let call = ApiCall::new(&self.shared, entry, path, options, (request, session));
        request_checks::check_media_types(&call, verb)?;
        let checked = request_checks::check_form_and_options(&call, verb);
        let outcome = checked.and_then(|()| match path.subresource.as_str() {
            "" if bound_by_body.is_some() => binding::create_by_body(&call),
            "" => main(&call, verb),
            _ => sub(&call, verb),
        });
        let outcome = match entry.deprecation.as_deref() {
            Some(warning) => with_warning(outcome, warning),
            None => outcome,
        };
        outcome.map(|outcome| outcome.encoded(call.answer_encoding()))
    }

    /// A watch by one of the old paths: of a collection, or of the one object that is named.
    fn serve_old_watch(
        &self,
        (request, session): (&ApiRequest, &AdmissionSession),
        (entry, path): (&Arc<KindEntry>, &ResourcePath),
        mut options: RequestOptions,
    ) -> Result<RequestOutcome, ApiError> {
        if !path.subresource.is_empty() {
            return Err(ApiError::no_such_path());
        }
        let mut path = path.clone();
        let name = std::mem::take(&mut path.name);
        if !name.is_empty() {
            let selected = [options.field_selector.as_str(), &format!("metadata.name={name}")];
            let selected: Vec<&str> = selected.into_iter().filter(|s| !s.is_empty()).collect();
            options.field_selector = selected.join(",");
        }
        let call = ApiCall::new(&self.shared, entry, &path, options, (request, session));
        request_checks::check_form_and_options(&call, RequestVerb::Watch)?;
        verbs::watch::watch(&call).map(|watch| watch.encoded(call.answer_encoding()))
    }
}

/// The same with a warning.
fn with_warning(
    outcome: Result<RequestOutcome, ApiError>,
    warning: &str,
) -> Result<RequestOutcome, ApiError> {
    let warning = warning.to_owned();
    match outcome {
        Ok(RequestOutcome::Answer(answer)) => Ok(answer.with_first_warning(warning).into()),
        Ok(RequestOutcome::List(list)) => {
            Ok(RequestOutcome::List(Box::new(list.with_first_warning(warning))))
        }
        Ok(RequestOutcome::Write(write)) => {
            Ok(RequestOutcome::Write(write.then(move |answer| answer.with_first_warning(warning))))
        }
        // these have no warnings
        Ok(
            other @ (RequestOutcome::Watch(_)
            | RequestOutcome::Log(_)
            | RequestOutcome::Stream(_)
            | RequestOutcome::Proxy(_)
            | RequestOutcome::Aggregated(_)
            | RequestOutcome::Node(_)
            | RequestOutcome::ResourceMetrics(_)
            | RequestOutcome::Metrics
            | RequestOutcome::Webhooks(_)
            | RequestOutcome::Backup),
        ) => Ok(other),
        Err(error) => Err(error.with_first_warning(warning)),
    }
}

/// Collections of all namespaces, and that of the namespaces, cannot be deleted at once.
fn check_collection(
    entry: &KindEntry,
    path: &ResourcePath,
    verb: RequestVerb,
) -> Result<(), ApiError> {
    let can_be_deleted = match entry.scope {
        ResourceScope::Namespaced => !path.namespace.is_empty(),
        ResourceScope::Cluster => entry.has_deletable_collections(),
    };
    match verb {
        RequestVerb::DeleteCollection if !can_be_deleted => Err(ApiError::method_not_allowed()),
        RequestVerb::DeleteCollection
        | RequestVerb::Get
        | RequestVerb::List
        | RequestVerb::Watch
        | RequestVerb::Create
        | RequestVerb::Update
        | RequestVerb::Patch
        | RequestVerb::Delete => Ok(()),
    }
}

/// A namespaced object is found in its namespace only; a cluster-scoped one in none.
fn is_in_scope(entry: &KindEntry, path: &ResourcePath) -> bool {
    match entry.scope {
        ResourceScope::Cluster => path.namespace.is_empty(),
        ResourceScope::Namespaced => !path.namespace.is_empty() || path.name.is_empty(),
    }
}

fn main(call: &ApiCall<'_>, verb: RequestVerb) -> Result<RequestOutcome, ApiError> {
    match verb {
        RequestVerb::Get => verbs::get::get(call),
        RequestVerb::List => verbs::list::list(call),
        RequestVerb::Watch => verbs::watch::watch(call),
        RequestVerb::Create if call.path.name.is_empty() => verbs::create::create(call),
        RequestVerb::Create => Err(ApiError::method_not_allowed()),
        RequestVerb::Update => verbs::update::update(call, ObjectPart::Main),
        RequestVerb::Patch => verbs::patch::patch(call, ObjectPart::Main),
        RequestVerb::Delete => verbs::delete::delete(call),
        RequestVerb::DeleteCollection => verbs::delete::delete_collection(call),
    }
}

fn sub(call: &ApiCall<'_>, verb: RequestVerb) -> Result<RequestOutcome, ApiError> {
    let path = call.path;
    let subresource = call
        .entry
        .subresources
        .iter()
        .find(|subresource| subresource.name() == call.path.subresource)
        .filter(|found| path.rest.is_empty() || **found == Subresource::NodeProxy)
        .ok_or_else(|| match call.entry.origin {
            KindOrigin::BuiltIn => ApiError::no_such_path(),
            // as upstream, where another server answers for these
            KindOrigin::Definition => call.not_found(),
        })?;
    let streams = call.request.method != Method::HEAD;
    match (subresource, verb) {
        (Subresource::Status, RequestVerb::Get) => verbs::get::get(call),
        (Subresource::Status, RequestVerb::Update) => {
            verbs::update::update(call, ObjectPart::Status)
        }
        (Subresource::Status, RequestVerb::Patch) => verbs::patch::patch(call, ObjectPart::Status),
        (Subresource::Scale, RequestVerb::Get) => subresources::scale::get(call),
        (Subresource::Scale, RequestVerb::Update) => subresources::scale::update(call),
        (Subresource::Scale, RequestVerb::Patch) => subresources::scale::patch(call),
        (Subresource::Binding, RequestVerb::Create) => subresources::binding::create(call),
        (Subresource::Eviction, RequestVerb::Create) => subresources::eviction::create(call),
        (Subresource::Resize, RequestVerb::Get) => verbs::get::get(call),
        (Subresource::Resize, RequestVerb::Update) => {
            verbs::update::update(call, ObjectPart::Resize)
        }
        (Subresource::Resize, RequestVerb::Patch) => verbs::patch::patch(call, ObjectPart::Resize),
        (Subresource::Finalize, RequestVerb::Update) => {
            verbs::update::update(call, ObjectPart::Finalize)
        }
        (Subresource::Token, RequestVerb::Create) => subresources::token::create(call),
        (Subresource::EphemeralContainers, RequestVerb::Get) => verbs::get::get(call),
        (Subresource::EphemeralContainers, RequestVerb::Update) => {
            verbs::update::update(call, ObjectPart::EphemeralContainers)
        }
        (Subresource::EphemeralContainers, RequestVerb::Patch) => {
            verbs::patch::patch(call, ObjectPart::EphemeralContainers)
        }
        (Subresource::Approval, RequestVerb::Get) => verbs::get::get(call),
        (Subresource::Approval, RequestVerb::Update) => {
            verbs::update::update(call, ObjectPart::Approval)
        }
        (Subresource::Approval, RequestVerb::Patch) => {
            verbs::patch::patch(call, ObjectPart::Approval)
        }
        (Subresource::Log, RequestVerb::Get) if call.request.method != Method::HEAD => {
            subresources::log::get(call)
        }
        (Subresource::Exec, RequestVerb::Get | RequestVerb::Create) if streams => {
            subresources::streams::exec(call)
        }
        (Subresource::Attach, RequestVerb::Get | RequestVerb::Create) if streams => {
            subresources::streams::attach(call)
        }
        (Subresource::PortForward, RequestVerb::Get | RequestVerb::Create) if streams => {
            subresources::streams::port_forward(call)
        }
        (Subresource::NodeProxy, RequestVerb::Get) => subresources::node_proxy::get(call),
        (
            Subresource::Status
            | Subresource::Scale
            | Subresource::Binding
            | Subresource::Eviction
            | Subresource::Finalize
            | Subresource::Resize
            | Subresource::EphemeralContainers
            | Subresource::Approval
            | Subresource::Log
            | Subresource::Exec
            | Subresource::Attach
            | Subresource::PortForward
            | Subresource::Token
            | Subresource::Proxy
            | Subresource::NodeProxy,
            _,
        ) => Err(ApiError::method_not_allowed()),
    }
}
