//! One FlowSchema, ready to classify requests.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::flowcontrol::v1::FlowSchema;

use crate::matching::RuleMatcher;
use crate::request::{RequestDigest, RequestTarget};

/// The precedence of a schema that says none.
const PRECEDENCE: i32 = 1000;

/// A FlowSchema.
#[derive(Clone, Debug)]
pub(crate) struct SchemaMatcher {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The level that it names.
    pub(crate) level: String,
    /// Empty if the level is not stored.
    pub(crate) level_uid: String,
    pub(crate) precedence: i32,
    distinguisher: FlowDistinguisher,
    rules: Vec<RuleMatcher>,
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowDistinguisher {
    Nothing,
    User,
    Namespace,
}

impl SchemaMatcher {
    pub(crate) fn new(schema: &FlowSchema, level_uid: String) -> Self {
        let spec = &schema.spec;
        let method = spec.distinguisher_method.as_ref().map(|method| method.type_.as_str());
        let distinguisher = match method {
            Some("ByUser") => FlowDistinguisher::User,
            Some("ByNamespace") => FlowDistinguisher::Namespace,
            Some(_) | None => FlowDistinguisher::Nothing,
        };
        Self {
            name: schema.metadata.name.clone().unwrap_or_default(),
            uid: schema.metadata.uid.clone().unwrap_or_default(),
            level: spec.priority_level_configuration.name.clone(),
            level_uid,
            precedence: spec.matching_precedence.unwrap_or(PRECEDENCE),
            distinguisher,
            rules: spec.rules.iter().flatten().map(RuleMatcher::new).collect(),
        }
    }

    pub(crate) fn matches(&self, request: &RequestDigest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }

    /// The flow of a request: a hash of the schema and of what distinguishes flows in it.
    pub(crate) fn flow(&self, request: &RequestDigest<'_>) -> u64 {
        let distinguisher = match (self.distinguisher, request.target) {
            (FlowDistinguisher::User, _) => request.user,
            (FlowDistinguisher::Namespace, RequestTarget::Resource { namespace, .. }) => namespace,
            (FlowDistinguisher::Namespace, RequestTarget::Path { .. })
            | (FlowDistinguisher::Nothing, _) => "",
        };
        // its keys are fixed: the same flow gets the same hash
        let mut hasher = DefaultHasher::new();
        (&self.name, distinguisher).hash(&mut hasher);
        hasher.finish()
    }
}
