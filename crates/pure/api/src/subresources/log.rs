//! `pods/log`: checked here, answered by the node that runs the pod.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::log_options::{ContainerRun, LogOptions, LogSince};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{PodUid, Tick};

use crate::call::ApiCall;
use crate::node_query::{LogQuery, PodOnNode};
use crate::outcome::RequestOutcome;
use crate::status::ApiError;

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let options = options(call)?;
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
    let uid = PodUid(pod.metadata.uid.clone().unwrap_or_default());
    let namespace = call.path.namespace.clone();
    let pod = PodOnNode { namespace, pod: name.clone(), uid, node };
    Ok(RequestOutcome::Log(LogQuery { pod, container, options }))
}

/// The container meant: the one named, or the only regular one. Others beside it change nothing
/// (upstream: `validateContainer`).
pub(crate) fn container(spec: &PodSpec, pod: &str, wanted: &str) -> Result<String, ApiError> {
    let init = spec.init_containers.iter().flatten().map(|container| &container.name);
    let regular = spec.containers.iter().map(|container| &container.name);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.name);
    let mut all = init.chain(regular).chain(ephemeral);
    if !wanted.is_empty() {
        if all.any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let problem = format!("container {wanted} is not valid for pod {pod}");
        return Err(ApiError::bad_request(problem));
    }
    let mut problem = format!("a container name must be specified for pod {pod}");
    match spec.containers.as_slice() {
        [only] => return Ok(only.name.clone()),
        [] => {}
        _ => {
            let names: Vec<&str> = all.map(String::as_str).collect();
            problem.push_str(&format!(", choose one of: [{}]", names.join(" ")));
        }
    }
    Err(ApiError::bad_request(problem))
}

/// What is wanted of the log. What is wrong with it is told before the pod is looked at (upstream:
/// `ValidatePodLogOptions`).
fn options(call: &ApiCall<'_>) -> Result<LogOptions, ApiError> {
    let yes = |option: &str| call.options.flag(option);
    let time = call.options.get("sinceTime").filter(|time| !time.is_empty());
    let time = time.map(instant).transpose()?;
    let mut errors = Vec::new();
    let tail_lines = at_least(call, "tailLines", 0, &mut errors)?;
    let limit_bytes = at_least(call, "limitBytes", 1, &mut errors)?;
    let since = match (call.options.number("sinceSeconds")?, time) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", why));
            None
        }
        (Some(_), None) => at_least(call, "sinceSeconds", 1, &mut errors)?.map(LogSince::Seconds),
        (None, time) => time.map(LogSince::Time),
    };
    if !errors.is_empty() {
        return Err(ApiError::invalid_kind("", "PodLogOptions", &call.path.name, &errors));
    }
    Ok(LogOptions {
        run: if yes("previous") { ContainerRun::Previous } else { ContainerRun::Current },
        follow: yes("follow"),
        timestamps: yes("timestamps"),
        tail_lines,
        limit_bytes,
        since,
    })
}

fn at_least(
    call: &ApiCall<'_>,
    option: &str,
    min: u64,
    errors: &mut Vec<FieldError>,
) -> Result<Option<u64>, ApiError> {
    let Some(number) = call.options.number(option)? else { return Ok(None) };
    match u64::try_from(number) {
        Ok(number) if number >= min => return Ok(Some(number)),
        Ok(_) | Err(_) => {}
    }
    let why = match min {
        0 => "must be greater than or equal to 0",
        _ => "must be greater than 0",
    };
    errors.push(FieldError::invalid(option, number, why));
    Ok(None)
}

fn instant(text: &str) -> Result<Tick, ApiError> {
    let time = text.parse().map_err(|_| {
        ApiError::bad_request(format!("sinceTime: {text:?} is not an RFC 3339 time"))
    })?;
    Ok(Tick::from(&Time(time)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

    use super::*;

    fn spec(init: &[&str], regular: &[&str], ephemeral: &[&str]) -> PodSpec {
        let named = |name: &&str| Container { name: (*name).to_owned(), ..Container::default() };
        let added = |name: &&str| EphemeralContainer {
            name: (*name).to_owned(),
            ..EphemeralContainer::default()
        };
        PodSpec {
            init_containers: Some(init.iter().map(named).collect()),
            containers: regular.iter().map(named).collect(),
            ephemeral_containers: Some(ephemeral.iter().map(added).collect()),
            ..PodSpec::default()
        }
    }

    /// Upstream: `validateContainer`.
    #[test]
    fn the_only_regular_container_is_meant_whatever_is_beside_it() {
        let one = spec(&["init", "sidecar"], &["app"], &["debug"]);
        let two = spec(&["init"], &["app", "web"], &["debug"]);
        let choose =
            "a container name must be specified for pod p, choose one of: [init app web debug]";
        for (spec, wanted, expected) in [
            (&one, "", Ok("app")),
            (&one, "sidecar", Ok("sidecar")),
            (&one, "debug", Ok("debug")),
            (&one, "x", Err("container x is not valid for pod p")),
            (&two, "", Err(choose)),
            (&two, "web", Ok("web")),
            (&spec(&[], &[], &[]), "", Err("a container name must be specified for pod p")),
        ] {
            let found = container(spec, "p", wanted).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{wanted:?}");
        }
    }
}
