//! The condition of a FlowSchema that names a priority level.

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, FlowSchemaCondition, FlowSchemaStatus};
use rekindle_types::Tick;

/// The type of the condition: True when the level is missing.
pub const DANGLING: &str = "Dangling";

/// The status that the schema should have; none when it has it.
pub fn dangling_status(
    schema: &FlowSchema,
    level_is_there: bool,
    now: Tick,
) -> Option<FlowSchemaStatus> {
    let level = &schema.spec.priority_level_configuration.name;
    let names =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if level_is_there {
        ("False", "Found", format!("{names} and it exists"))
    } else {
        ("True", "NotFound", format!("{names} but there is no such object"))
    };
    let mut conditions: Vec<FlowSchemaCondition> = schema
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .cloned()
        .collect();
    let known = conditions.iter().position(|condition| condition.type_ == DANGLING);
    let before = known.map(|index| conditions.remove(index)).unwrap_or_default();
    let is_same = before.status.as_deref() == Some(status);
    if is_same
        && before.reason.as_deref() == Some(reason)
        && before.message == Some(message.clone())
    {
        return None;
    }
    let since = before.last_transition_time.filter(|_| is_same);
    conditions.push(FlowSchemaCondition {
        type_: DANGLING.to_owned(),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(since.unwrap_or_else(|| now.to_time())),
    });
    Some(FlowSchemaStatus { conditions: Some(conditions) })
}
