//! One recorded case, and how it is played.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use rekindle_api::{ApiAnswer, ApiRequest, Impersonation, RequestOutcome};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer_difference::{AnswerDifference, differences};
use super::json_paths::{drop_path, map_texts, pick};
use super::normal_form::{normal, strip_managed_fields};
use crate::harness::Bench;

/// The namespace of the case, and what names of cluster-scoped objects begin with.
const NAMES: [(&str, &str); 2] = [("case-0f1e2d3c", "{ns}"), ("c0f1e2d3c", "{case}")];

/// A case, as it lies in the file of its area.
#[derive(Deserialize)]
pub(super) struct RecordedCase {
    pub(super) name: String,
    pub(super) why: String,
    #[serde(default, rename = "namespaceLabels")]
    namespace_labels: BTreeMap<String, String>,
    steps: Vec<RecordedStep>,
}

/// One request and its answer.
#[derive(Deserialize)]
struct RecordedStep {
    method: String,
    path: String,
    #[serde(rename = "type")]
    content_type: Option<String>,
    accept: Option<String>,
    body: Option<Value>,
    /// The body, when it is no JSON.
    text: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    expect: RecordedAnswer,
    /// Paths that vary by chance.
    #[serde(default)]
    ignore: Vec<String>,
    /// Which entries of managedFields are compared.
    #[serde(default, rename = "managedFields")]
    managed_fields: Value,
    /// What is kept of the answer for later steps.
    #[serde(default)]
    save: BTreeMap<String, String>,
    /// The step waits for its answer, upstream.
    until: Option<f64>,
}

#[derive(Deserialize)]
struct RecordedAnswer {
    status: u16,
    body: Value,
    warnings: Option<Vec<String>>,
}

/// What a step got.
struct GivenAnswer {
    status: u16,
    body: Value,
    warnings: Vec<String>,
}

impl RecordedCase {
    /// What is not as recorded.
    pub(super) fn play(&self) -> Vec<AnswerDifference> {
        let mut bench = Bench::new();
        let namespace = json!({"metadata": {"name": NAMES[0].0, "labels": self.namespace_labels}});
        bench.create("/api/v1/namespaces", namespace);
        let mut saved = BTreeMap::new();
        let mut all = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let found = step.play(&mut bench, &mut saved);
            let (differences, status) = found;
            let ends = !differences.is_empty() && (status >= 500 || step.until.is_some());
            let name = format!("{index} {} {}", step.method, step.path);
            all.extend(differences.into_iter().map(|found| found.in_step(&name)));
            if ends {
                break;
            }
        }
        all
    }
}

impl RecordedStep {
    fn play(
        &self,
        bench: &mut Bench,
        saved: &mut BTreeMap<String, String>,
    ) -> (Vec<AnswerDifference>, u16) {
        let GivenAnswer { status, body, warnings } = self.ask(bench, saved);
        for (name, path) in &self.save {
            saved.insert(name.clone(), pick(&body, path));
        }
        let mut body = normal(&body, &NAMES);
        if self.managed_fields != true {
            let kept: Vec<String> =
                serde_json::from_value(self.managed_fields.clone()).unwrap_or_default();
            strip_managed_fields(&mut body, &kept);
        }
        let mut wanted = self.expect.body.clone();
        for path in &self.ignore {
            drop_path(&mut body, path);
            drop_path(&mut wanted, path);
        }
        let mut found = Vec::new();
        if status != self.expect.status {
            let problem = format!("want {}, got {status}", self.expect.status);
            found.push(AnswerDifference::new("status", problem));
        }
        found.extend(differences(&wanted, &body, ""));
        if let Some(wanted) = &self.expect.warnings {
            let heard = normal(&json!(warnings), &NAMES);
            found.extend(differences(&json!(wanted), &heard, "Warning"));
        }
        (found, status)
    }

    fn ask(&self, bench: &mut Bench, saved: &BTreeMap<String, String>) -> GivenAnswer {
        let names = |text: &str| {
            NAMES.iter().fold(text.to_owned(), |text, (real, name)| text.replace(name, real))
        };
        let saves = |text: &str| {
            saved.iter().fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("{{{name}}}"), value)
            })
        };
        let fill = |text: &str| saves(&names(text));
        let json_body = self
            .body
            .as_ref()
            .filter(|body| !body.is_null())
            .map(|body| map_texts(&map_texts(body, true, &names), false, &saves).to_string());
        let body = self.text.as_deref().map(fill).or(json_body);
        let target = fill(&self.path);
        let mut request: ApiRequest = bench.request(&self.method, &target, "");
        request.accept = fill(self.accept.as_deref().unwrap_or("application/json"));
        request.content_type = match &body {
            Some(_) => fill(self.content_type.as_deref().unwrap_or("application/json")),
            None => String::new(),
        };
        request.body = Bytes::from(body.unwrap_or_default());
        let headers = self.header_map(&fill);
        let user_agent = headers.get(USER_AGENT).map(|value| value.to_str().unwrap());
        request.user_agent = user_agent.unwrap_or_default().to_owned();
        match Impersonation::from_headers(&headers) {
            Ok(None) => {}
            Ok(Some(wanted)) => match bench.api.impersonate(request.identity, &wanted) {
                Ok(identity) => request.identity = identity,
                Err(error) => return GivenAnswer::from(ApiAnswer::from(error)),
            },
            Err(error) => return GivenAnswer::from(ApiAnswer::from(error)),
        }
        let answer = answer(bench, &request);
        // the front sends no body
        match self.method.as_str() {
            "HEAD" => GivenAnswer { body: "".into(), ..answer },
            _ => answer,
        }
    }

    fn header_map(&self, fill: &dyn Fn(&str) -> String) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: HeaderName = name.parse().unwrap();
            let values = match value {
                Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
                _ => vec![value.as_str().unwrap()],
            };
            for value in values {
                headers.append(name.clone(), HeaderValue::from_str(&fill(value)).unwrap());
            }
        }
        headers
    }
}

fn answer(bench: &mut Bench, request: &ApiRequest) -> GivenAnswer {
    match bench.handle(request) {
        RequestOutcome::Answer(answer) => answer.into(),
        RequestOutcome::List(list) => list.into_answer().into(),
        RequestOutcome::Write(mut write) => {
            bench.committer.commit_pending().unwrap();
            write.try_answer().expect("the commit answers the write").into()
        }
        RequestOutcome::Watch(mut watch) => {
            let mut lines: Vec<Value> = Vec::new();
            while let Some(line) = watch.stream.try_next(bench.now) {
                lines.push(serde_json::from_slice(&line).unwrap());
            }
            // the recorder read one line as an object, and none as an empty text
            let body = match lines.len() {
                0 => "".into(),
                1 => lines.remove(0),
                _ => lines.into(),
            };
            GivenAnswer { status: 200, body, warnings: Vec::new() }
        }
        RequestOutcome::Log(_)
        | RequestOutcome::Stream(_)
        | RequestOutcome::Proxy(_)
        | RequestOutcome::Aggregated(_)
        | RequestOutcome::Node(_)
        | RequestOutcome::ResourceMetrics(_)
        | RequestOutcome::Metrics
        | RequestOutcome::Webhooks(_)
        | RequestOutcome::Backup => {
            panic!("no case asks a node: {} {}", request.method, request.path)
        }
    }
}

impl From<ApiAnswer> for GivenAnswer {
    fn from(answer: ApiAnswer) -> Self {
        let body = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&answer.body).into_owned().into());
        Self { status: answer.code.as_u16(), body, warnings: answer.warnings }
    }
}
