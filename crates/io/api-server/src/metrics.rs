//! `/metrics` of the API server: requests under the upstream names, and what the store holds.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use http::Method;
use rekindle_api::Api;
use rekindle_api::keys;
use rekindle_api::request::{ApiRequest, PathTarget, RequestOptions, RequestVerb};
use rekindle_kinds::registry::KindEntry;
use rekindle_metrics::{
    Counter, Gauge, Histogram, MetricFamily, MetricKind, MetricsSource, ProcessFiles, Text,
};
use rekindle_types::TickDuration;

/// Upper bounds in seconds, as upstream.
const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The counters of one front.
#[derive(Debug)]
pub(super) struct FrontMetrics {
    requests: MetricFamily<Counter>,
    durations: MetricFamily<RequestTime>,
    open: MetricFamily<Gauge>,
    long_running: MetricFamily<Gauge>,
}

/// A histogram with the bounds of requests.
#[derive(Debug)]
struct RequestTime(Histogram);

impl Default for RequestTime {
    fn default() -> Self {
        Self(Histogram::new(REQUEST_SECONDS))
    }
}

impl AsRef<Histogram> for RequestTime {
    fn as_ref(&self) -> &Histogram {
        &self.0
    }
}

/// What is asked, in the words of the labels. What is not served goes without a name: names come
/// from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

impl RequestLabels {
    pub(super) fn new(api: &Api, request: &ApiRequest) -> Self {
        let nothing = |verb| Self {
            verb,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
        };
        let method = method_name(&request.method);
        let PathTarget::Resource(path) = PathTarget::parse(&request.path) else {
            return nothing(method);
        };
        let Some(entry) = api.registry().find(&path.group, &path.version, &path.resource) else {
            return nothing(method);
        };
        let served = entry.subresources.iter().any(|sub| sub.name() == path.subresource);
        let options = RequestOptions::parse(&request.query);
        let verb =
            RequestVerb::from_request(&request.method, &path, &options).map_or(method, verb_name);
        let scope = match (path.name.is_empty(), path.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Self {
            verb,
            group: path.group,
            version: path.version,
            resource: path.resource,
            subresource: if served { path.subresource } else { String::new() },
            scope,
        }
    }

    fn values(&self) -> [&str; 6] {
        let Self { verb, group, version, resource, subresource, scope } = self;
        [verb, group, version, resource, subresource, scope]
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

fn verb_name(verb: RequestVerb) -> &'static str {
    match verb {
        RequestVerb::Get => "GET",
        RequestVerb::List => "LIST",
        RequestVerb::Watch => "WATCH",
        RequestVerb::Create => "POST",
        RequestVerb::Update => "PUT",
        RequestVerb::Patch => "PATCH",
        RequestVerb::Delete => "DELETE",
        RequestVerb::DeleteCollection => "DELETECOLLECTION",
    }
}

/// Counts something as open until it is dropped.
#[derive(Debug)]
pub(super) struct OpenCount(Arc<Gauge>);

impl OpenCount {
    fn from_gauge(gauge: Arc<Gauge>) -> Self {
        gauge.raise();
        Self(gauge)
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.lower();
    }
}

impl Default for FrontMetrics {
    fn default() -> Self {
        const WHAT: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope"];
        Self {
            requests: MetricFamily::new(&[
                "verb",
                "group",
                "version",
                "resource",
                "subresource",
                "scope",
                "code",
            ]),
            durations: MetricFamily::new(WHAT),
            open: MetricFamily::new(&["request_kind"]),
            long_running: MetricFamily::new(WHAT),
        }
    }
}

impl FrontMetrics {
    /// A request has come in.
    pub(super) fn begun(&self, labels: &RequestLabels) -> OpenCount {
        let kind =
            if matches!(labels.verb, "GET" | "LIST" | "WATCH") { "readOnly" } else { "mutating" };
        OpenCount::from_gauge(self.open.of(&[kind]))
    }

    /// A watch was accepted; it is open until what is returned is dropped.
    pub(super) fn watch_begun(&self, labels: &RequestLabels) -> OpenCount {
        OpenCount::from_gauge(self.long_running.of(&labels.values()))
    }

    /// A request was answered, be it with a watch that now begins.
    pub(super) fn answered(&self, labels: &RequestLabels, code: u16, took: TickDuration) {
        let [verb, group, version, resource, subresource, scope] = labels.values();
        let code = code.to_string();
        self.requests.of(&[verb, group, version, resource, subresource, scope, &code]).raise();
        self.durations.of(&labels.values()).0.observe(took);
    }

    /// Everything as text. Blocks, shortly.
    pub(super) fn text(&self, api: &Api, more: &[Arc<dyn MetricsSource>]) -> String {
        let mut text = Text::default();
        self.requests.write(
            &mut text,
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, group, version, resource, scope, and HTTP response code.",
        );
        self.durations.write(
            &mut text,
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, group, version, resource, subresource, and scope.",
        );
        self.open.write(
            &mut text,
            "apiserver_current_inflight_requests",
            "Requests that are being handled, by kind.",
        );
        self.long_running.write(
            &mut text,
            "apiserver_longrunning_requests",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, and scope.",
        );
        store(&mut text, api);
        api.write_admission_figures(&mut text);
        for source in more {
            source.write(&mut text);
        }
        process_files().write(&mut text);
        text.into_string()
    }
}

fn store(text: &mut Text, api: &Api) {
    text.family(
        "apiserver_resource_objects",
        MetricKind::Gauge,
        "Number of stored objects at the time of last check split by kind.",
    );
    let served = api.served();
    let mut counted = BTreeSet::new();
    for entry in served.kinds().map(KindEntry::home) {
        // a kind that is served in several versions is stored once
        if !counted.insert(entry.group_and_plural()) {
            continue;
        }
        let count = api.store().count(&keys::collection(entry, ""));
        text.sample(&[("group", &entry.group), ("resource", &entry.plural)], count as f64);
    }
    text.single(
        "rekindle_store_bytes",
        MetricKind::Gauge,
        "Bytes of all objects, as --store-limit counts them.",
        api.store().total_bytes() as f64,
    );
    text.single(
        "rekindle_store_revision",
        MetricKind::Gauge,
        "The newest durable revision.",
        api.store().revision().0 as f64,
    );
    text.single(
        "rekindle_store_oldest_revision",
        MetricKind::Gauge,
        "The oldest revision that a watch can begin at.",
        api.store().oldest_revision().0 as f64,
    );
}

/// Reads about this process, for the `process_…` metrics. Blocks, shortly.
pub fn process_files() -> ProcessFiles {
    let open_files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    ProcessFiles {
        stat: fs::read_to_string("/proc/self/stat").unwrap_or_default(),
        machine_stat: fs::read_to_string("/proc/stat").unwrap_or_default(),
        open_files: open_files.and_then(|count| u64::try_from(count).ok()),
    }
}
