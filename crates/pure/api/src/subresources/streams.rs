//! `pods/exec`, `pods/attach` and `pods/portforward`: checked here, carried by the front, answered
//! by the node that runs the pod.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use rekindle_types::PodUid;
use serde_json::{Map, Value};

use super::log;
use crate::admission::request_bodies::{self, RequestBody};
use crate::auth::AccessAttributes;
use crate::call::ApiCall;
use crate::node_query::{
    AttachQuery, ExecQuery, PodOnNode, PortForwardQuery, StreamFiles, StreamQuery,
};
use crate::outcome::RequestOutcome;
use crate::status::ApiError;

/// Arguments of a command at most; the kernel's own limit on their bytes comes on top.
const ARGUMENTS_MAX: usize = 4096;

/// Ports that one client may ask for at once.
const PORTS_MAX: usize = 64;

/// `pods/exec`.
pub(crate) fn exec(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let mut options = stream_options(call);
    options.insert("command".to_owned(), values(call, "command").collect());
    let (pod, spec) = pod_on_node(call, "PodExecOptions", options)?;
    let container = container(call, &spec)?;
    let command: Vec<String> = values(call, "command").map(str::to_owned).collect();
    if command.first().is_none_or(String::is_empty) {
        return Err(ApiError::bad_request(
            "you must specify at least one command for the container",
        ));
    }
    if command.len() > ARGUMENTS_MAX {
        let problem = format!("command: must have at most {ARGUMENTS_MAX} items");
        return Err(ApiError::bad_request(problem));
    }
    let query = ExecQuery { pod, container, command, files: files(call)? };
    Ok(RequestOutcome::Stream(StreamQuery::Exec(query)))
}

/// `pods/attach`.
pub(crate) fn attach(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let (pod, spec) = pod_on_node(call, "PodAttachOptions", stream_options(call))?;
    let query = AttachQuery { pod, container: container(call, &spec)?, files: files(call)? };
    Ok(RequestOutcome::Stream(StreamQuery::Attach(query)))
}

/// `pods/portforward`.
pub(crate) fn port_forward(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    // Upstream takes `ports=80&ports=81` and `ports=80,81`.
    let ports =
        values(call, "ports").flat_map(|list| list.split(',')).map(PortForwardQuery::parse_port);
    let ports = ports.collect::<Result<Vec<u16>, _>>();
    let mut options = Map::new();
    if let Ok([_, ..]) = ports.as_deref() {
        options.insert("ports".to_owned(), ports.iter().flatten().copied().collect());
    }
    let (pod, _) = pod_on_node(call, "PodPortForwardOptions", options)?;
    let ports = ports?;
    if ports.len() > PORTS_MAX {
        return Err(ApiError::bad_request(format!("ports: must have at most {PORTS_MAX} items")));
    }
    Ok(RequestOutcome::Stream(StreamQuery::PortForward(PortForwardQuery { pod, ports })))
}

fn values<'c>(call: &'c ApiCall<'_>, option: &'static str) -> impl Iterator<Item = &'c str> {
    let pairs = call.options.pairs.iter();
    pairs.filter(move |(name, _)| name == option).map(|(_, value)| value.as_str())
}

/// A websocket begins with a GET, whatever it is for: who may only read must not get further
/// (upstream since 1.35).
fn check_create(call: &ApiCall<'_>) -> Result<(), ApiError> {
    let what = AccessAttributes::Resource {
        verb: "create",
        group: &call.path.group,
        resource: &call.path.resource,
        subresource: &call.path.subresource,
        namespace: &call.path.namespace,
        name: &call.path.name,
    };
    call.api.authorize(&call.request.identity, &what)
}

/// What a client asks of a stream, as policies and webhooks see it.
fn stream_options(call: &ApiCall<'_>) -> Map<String, Value> {
    let mut options = Map::new();
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if call.options.flag(name) {
            options.insert(name.to_owned(), true.into());
        }
    }
    if let Some(container) = call.options.get("container").filter(|name| !name.is_empty()) {
        options.insert("container".to_owned(), container.into());
    }
    options
}

/// The pod of a connection that its sender may open, and that policies and webhooks allow.
fn pod_on_node(
    call: &ApiCall<'_>,
    kind: &'static str,
    options: Map<String, Value>,
) -> Result<(PodOnNode, PodSpec), ApiError> {
    check_create(call)?;
    request_bodies::check(call, &RequestBody::connected(kind, options))?;
    let stored = call.stored()?;
    let object = call.decode_stored(&stored)?;
    let Some(pod) = object.as_any().downcast_ref::<Pod>() else {
        return Err(ApiError::method_not_allowed());
    };
    let name = call.path.name.clone();
    let spec = pod.spec.clone().unwrap_or_default();
    let node = spec.node_name.clone().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let uid = PodUid(pod.metadata.uid.clone().unwrap_or_default());
    let namespace = call.path.namespace.clone();
    Ok((PodOnNode { namespace, pod: name, uid, node }, spec))
}

fn container(call: &ApiCall<'_>, spec: &PodSpec) -> Result<String, ApiError> {
    log::container(spec, &call.path.name, call.options.get("container").unwrap_or_default())
}

fn files(call: &ApiCall<'_>) -> Result<StreamFiles, ApiError> {
    let wanted = |option| call.options.flag(option);
    let terminal = wanted("tty");
    let files = StreamFiles {
        stdin: wanted("stdin"),
        stdout: wanted("stdout"),
        stderr: !terminal && wanted("stderr"),
        terminal,
    };
    if !(files.stdin || files.stdout || files.stderr) {
        let problem = "you must specify at least 1 of stdin, stdout, stderr";
        return Err(ApiError::bad_request(problem));
    }
    Ok(files)
}
