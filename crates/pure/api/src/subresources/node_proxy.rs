//! `nodes/proxy`: what a node's own HTTP API is asked; answered by the node. Reading only: what a
//! kubelet does on a POST (running commands) is served by `pods/exec` here, where it is authorized
//! as that.

use http::Method;

use super::proxy::proxied;
use crate::admission::request_bodies;
use crate::call::ApiCall;
use crate::node_query::NodeGet;
use crate::outcome::RequestOutcome;
use crate::status::ApiError;

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    if call.request.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    request_bodies::check(call, &proxied("NodeProxyOptions", &call.path.rest))?;
    call.stored()?; // a node that is not there has nothing to say
    Ok(RequestOutcome::Node(NodeGet {
        node: call.path.name.clone(),
        path: call.path.rest.clone(),
        query: call.request.query.clone(),
    }))
}
