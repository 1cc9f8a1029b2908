//! The conditions of a status (`metav1.Condition`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Sets the condition of its type. While its status stays, so does the time since when it holds;
/// else it is that of the new one. Source: the API reference of `Condition.lastTransitionTime`.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time.clone_from(&known.last_transition_time);
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;

    fn condition(type_: &str, status: &str, reason: &str, second: u64) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Tick::from_secs(second).to_time(),
            observed_generation: None,
        }
    }

    #[test]
    fn the_time_stays_while_the_status_stays_and_the_rest_is_written() {
        let mut conditions = vec![condition("Other", "True", "A", 1)];
        for (new, time, why) in [
            (condition("Ready", "True", "A", 2), 2, "a first one"),
            (condition("Ready", "True", "B", 3), 2, "the status stays"),
            (condition("Ready", "False", "B", 4), 4, "the status changes"),
        ] {
            set(&mut conditions, new.clone());
            let expected =
                Condition { last_transition_time: Tick::from_secs(time).to_time(), ..new };
            assert_eq!(conditions, [condition("Other", "True", "A", 1), expected], "{why}");
        }
    }
}
