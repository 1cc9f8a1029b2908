//! Where a request belongs, and how many seats it needs.

use rekindle_flow_control::{FlowConfiguration, RequestClass, RequestDigest, RequestTarget};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};

use crate::api::Api;
use crate::auth::AccessAttributes;
use crate::request::{PathTarget, RequestLine, RequestOptions, RequestVerb, attributes};

/// A request with its class.
#[derive(Clone, Debug)]
pub struct ClassifiedRequest {
    /// Its schema, level and flow.
    pub class: RequestClass,
    /// Seats that it needs.
    pub width: u32,
}

impl Api {
    /// Where a request belongs; none for exec, attach, port-forward, proxies and logs, which need
    /// no seat.
    pub fn classify(
        &self,
        configuration: &FlowConfiguration,
        who: &ClientIdentity,
        asked: &RequestLine<'_>,
    ) -> Option<ClassifiedRequest> {
        let anonymous;
        let user = match who {
            ClientIdentity::User(user) => user,
            ClientIdentity::Anonymous => {
                anonymous = UserInfo::anonymous();
                &anonymous
            }
        };
        let classify = |what: &AccessAttributes<'_>| {
            let (user, groups) = (user.name.as_str(), user.groups.as_slice());
            configuration.classify(&RequestDigest { user, groups, target: target(what) })
        };
        match PathTarget::parse(asked.path) {
            PathTarget::Other(path) => {
                let verb = attributes::path_verb(asked.method);
                let class = classify(&AccessAttributes::Path { verb: &verb, path: &path });
                Some(ClassifiedRequest { class, width: 1 })
            }
            PathTarget::Resource(path) => {
                let options = RequestOptions::of_path(&path, asked.query);
                let verb = RequestVerb::from_request(asked.method, &path, &options);
                // upstream does not classify them
                if path.is_long_running() {
                    return None;
                }
                let class =
                    attributes::of_resource(asked.method, &path, (verb, &options), classify);
                let width = match verb {
                    Some(RequestVerb::List | RequestVerb::Watch) => self.width(&path, &options),
                    _ => 1,
                };
                Some(ClassifiedRequest { class, width })
            }
        }
    }
}

fn target<'a>(what: &AccessAttributes<'a>) -> RequestTarget<'a> {
    match *what {
        AccessAttributes::Resource { verb, group, resource, subresource, namespace, name: _ } => {
            RequestTarget::Resource { verb, group, resource, subresource, namespace }
        }
        AccessAttributes::Path { verb, path } => RequestTarget::Path { verb, path },
    }
}
