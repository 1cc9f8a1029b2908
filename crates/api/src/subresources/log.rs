//! `pods/log`: checked here, answered by the node that runs the pod.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::log_options::{Follow, LogOptions, Run, Since, Timestamps};
use rekindle_types::{PodUid, Tick};

use crate::call::Call;
use crate::node_query::{LogQuery, PodOnNode};
use crate::outcome::Outcome;
use crate::status::ApiError;

pub(crate) fn get(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let stored = call.stored()?;
    let object = call.decode_stored(&stored)?;
    let Some(pod) = object.as_any().downcast_ref::<Pod>() else {
        return Err(ApiError::method_not_allowed());
    };
    let name = &call.path.name;
    let spec = pod.spec.clone().unwrap_or_default();
    let container = container(&spec, name, call.options.get("container").unwrap_or_default())?;
    let node = spec.node_name.clone().unwrap_or_default();
    if node.is_empty() {
        // Upstream sends an empty log until the pod has a node; an explanation is more useful.
        return Err(ApiError::bad_request(format!(
            "container {container:?} in pod {name:?} is waiting to start: the pod is not scheduled to a node yet"
        )));
    }
    let yes = |option: &str| call.options.flag(option);
    let uid = PodUid(pod.metadata.uid.clone().unwrap_or_default());
    let namespace = call.path.namespace.clone();
    Ok(Outcome::Log(LogQuery {
        pod: PodOnNode { namespace, pod: name.clone(), uid, node },
        container,
        options: LogOptions {
            run: if yes("previous") { Run::Previous } else { Run::Current },
            follow: if yes("follow") { Follow::Yes } else { Follow::No },
            timestamps: if yes("timestamps") { Timestamps::Yes } else { Timestamps::No },
            tail_lines: natural(call, "tailLines", 0)?,
            limit_bytes: natural(call, "limitBytes", 1)?,
            since: since(call)?,
        },
    }))
}

/// The container meant: the one named, or the only one.
pub(crate) fn container(spec: &PodSpec, pod: &str, wanted: &str) -> Result<String, ApiError> {
    let init = spec.init_containers.iter().flatten().map(|container| container.name.as_str());
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().map(|container| container.name.as_str());
    let regular: Vec<&str> =
        spec.containers.iter().map(|container| container.name.as_str()).collect();
    let init: Vec<&str> = init.collect();
    if wanted.is_empty() {
        if let [only] = regular.as_slice()
            && init.is_empty()
        {
            return Ok((*only).to_owned());
        }
        let mut message = format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            regular.join(" ")
        );
        if !init.is_empty() {
            message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
        }
        return Err(ApiError::bad_request(message));
    }
    if regular.iter().chain(&init).copied().chain(ephemeral).any(|name| name == wanted) {
        return Ok(wanted.to_owned());
    }
    Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {pod}")))
}

fn natural(call: &Call<'_>, option: &str, at_least: u64) -> Result<Option<u64>, ApiError> {
    let Some(number) = call.options.number(option)? else { return Ok(None) };
    match u64::try_from(number) {
        Ok(number) if number >= at_least => Ok(Some(number)),
        _ => Err(ApiError::bad_request(format!(
            "{option}: Invalid value: {number}: must be greater than or equal to {at_least}"
        ))),
    }
}

fn since(call: &Call<'_>) -> Result<Option<Since>, ApiError> {
    let seconds = natural(call, "sinceSeconds", 1)?;
    let time = call.options.get("sinceTime").filter(|time| !time.is_empty());
    match (seconds, time) {
        (Some(_), Some(_)) => Err(ApiError::bad_request(
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        )),
        (Some(seconds), None) => Ok(Some(Since::Seconds(seconds))),
        (None, Some(time)) => match time.parse() {
            Ok(time) => Ok(Some(Since::Time(Tick::from(&Time(time))))),
            Err(_) => {
                Err(ApiError::bad_request(format!("sinceTime: {time:?} is not an RFC 3339 time")))
            }
        },
        (None, None) => Ok(None),
    }
}
