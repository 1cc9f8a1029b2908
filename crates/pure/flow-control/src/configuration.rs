//! The objects as one thing that classifies requests, and configures levels.

use std::sync::Arc;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};

use crate::defaults;
use crate::level::LevelSettings;
use crate::request::RequestDigest;
use crate::schema::SchemaMatcher;

/// All FlowSchemas that name a level that is there, in the order in which they are tried, and the
/// levels. The mandatory objects are always in it, stored or not.
#[derive(Clone, Debug)]
pub struct FlowConfiguration {
    schemas: Vec<Arc<SchemaMatcher>>,
    pub(crate) levels: Vec<LevelSettings>,
}

/// Where a request belongs.
#[derive(Clone, Debug)]
pub struct RequestClass {
    schema: Arc<SchemaMatcher>,
    flow: u64,
}

impl RequestClass {
    /// The name of the FlowSchema.
    pub fn schema(&self) -> &str {
        &self.schema.name
    }

    /// The UID of the FlowSchema; empty if it is not stored.
    pub fn schema_uid(&self) -> &str {
        &self.schema.uid
    }

    /// The name of the priority level.
    pub fn level(&self) -> &str {
        &self.schema.level
    }

    /// The UID of the priority level; empty if it is not stored.
    pub fn level_uid(&self) -> &str {
        &self.schema.level_uid
    }

    /// The flow within the level.
    pub fn flow(&self) -> u64 {
        self.flow
    }
}

impl FlowConfiguration {
    /// What these objects say. The mandatory ones always say what upstream fixes.
    pub fn new(schemas: &[FlowSchema], levels: &[PriorityLevelConfiguration]) -> Self {
        let mandatory = defaults::mandatory_levels();
        let with_fixed = defaults::fix_and_add(levels, mandatory, defaults::fix_level);
        let levels: Vec<LevelSettings> = with_fixed.iter().map(LevelSettings::new).collect();
        let mandatory = defaults::mandatory_schemas();
        let with_fixed = defaults::fix_and_add(schemas, mandatory, defaults::fix_schema);
        let mut matchers: Vec<SchemaMatcher> = with_fixed
            .iter()
            .filter_map(|schema| {
                let named = &schema.spec.priority_level_configuration.name;
                let level = levels.iter().find(|level| level.name == *named)?;
                Some(SchemaMatcher::new(schema, level.uid.clone()))
            })
            .collect();
        matchers.sort_by(|one, two| (one.precedence, &one.name).cmp(&(two.precedence, &two.name)));
        Self { schemas: matchers.into_iter().map(Arc::new).collect(), levels }
    }

    /// The first schema that covers the request, with its level and flow. The schema catch-all
    /// covers what no other does.
    pub fn classify(&self, request: &RequestDigest<'_>) -> RequestClass {
        let found = self.schemas.iter().find(|schema| schema.matches(request));
        let schema = found.unwrap_or_else(|| self.catch_all());
        RequestClass { flow: schema.flow(request), schema: Arc::clone(schema) }
    }

    fn catch_all(&self) -> &Arc<SchemaMatcher> {
        let found = self.schemas.iter().rfind(|schema| schema.name == defaults::CATCH_ALL);
        found.expect("a configuration has the mandatory schemas")
    }
}
