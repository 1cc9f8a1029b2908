//! Selectors of devices: expressions that see one device and say whether it fits.
//!
//! Source: KEP-4381, and `CELDeviceSelector` of the API reference (resource.k8s.io/v1).

use std::sync::Arc;

use super::{
    check::{KnownNames, check_with},
    parse::{parse, placed},
    policy::{object_type, type_in_words},
    types::CelType,
};

/// What a selector may cost at most.
const COST_MAX: u64 = 1_000_000;
/// The longest domain of an attribute, and name of a driver, in characters.
const DOMAIN_CHARACTERS_MAX: u64 = 63;
/// The longest name of an attribute in its domain, in characters.
const ID_CHARACTERS_MAX: u64 = 32;
/// The longest text of an attribute, in characters.
const VALUE_CHARACTERS_MAX: u64 = 64;
/// The most attributes and capacities of a device.
const ATTRIBUTES_MAX: u64 = 32;

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSelectorError {
    /// The expression is wrong, as upstream says it.
    Wrong(String),
    /// It may cost more than a selector may.
    TooExpensive,
}

/// Checks an expression that selects devices.
///
/// # Errors
/// It does not compile, gives no bool, or may cost too much.
pub fn check_device_selector(text: &str) -> Result<(), DeviceSelectorError> {
    let failed =
        |problem: String| DeviceSelectorError::Wrong(format!("compilation failed: {problem}"));
    let root = parse(text).map_err(failed)?;
    let variables = vec![("device".to_owned(), device_type())];
    let names = KnownNames { variables, composed: None, has_messages: false };
    let checked = check_with(&root, names).map_err(|problems| failed(placed(text, &problems)))?;
    if !matches!(checked.cel_type, CelType::Bool | CelType::Any(_)) {
        let found = type_in_words(&checked.cel_type);
        let why = format!("must evaluate to bool or the unknown type, not {found}");
        return Err(DeviceSelectorError::Wrong(why));
    }
    if checked.cost_max > COST_MAX {
        return Err(DeviceSelectorError::TooExpensive);
    }
    Ok(())
}

/// `device`: attributes and capacities are grouped by their domain.
fn device_type() -> CelType {
    let by_domain = |value: CelType| {
        let by_id = map_of(ID_CHARACTERS_MAX, value);
        map_of(DOMAIN_CHARACTERS_MAX, by_id)
    };
    object_type([
        ("driver", CelType::Text(DOMAIN_CHARACTERS_MAX)),
        ("allowMultipleAllocations", CelType::Bool),
        ("attributes", by_domain(CelType::Any(VALUE_CHARACTERS_MAX))),
        ("capacity", by_domain(CelType::Quantity)),
    ])
}

fn map_of(key_characters: u64, value: CelType) -> CelType {
    CelType::Map(Arc::new(CelType::Text(key_characters)), Arc::new(value), ATTRIBUTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_see_the_driver_the_attributes_and_the_capacity() {
        for text in [
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].model == 'a100'",
            "device.attributes['gpu.example.com'].shared",
            "'model' in device.attributes['gpu.example.com']",
            "has(device.attributes['gpu.example.com'].model)",
            "device.attributes['x.y'].version.isGreaterThan(semver('1.0.0'))",
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('2Gi')) >= 0",
            "device.allowMultipleAllocations",
        ] {
            assert_eq!(check_device_selector(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn wrong_selectors_say_what_is_wrong() {
        for (text, part) in [
            ("", "compilation failed"),
            ("device.model == 'a'", "undefined field 'model'"),
            ("devices.driver == 'a'", "undeclared reference to 'devices'"),
            ("device.driver", "must evaluate to bool or the unknown type, not string"),
            ("device.driver == 1", "found no matching overload"),
        ] {
            let Err(DeviceSelectorError::Wrong(why)) = check_device_selector(text) else {
                panic!("{text:?} is taken");
            };
            assert!(why.contains(part), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_selector_that_may_cost_too_much_is_refused() {
        let all = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, \
                   device.attributes.all(d, a != b && c != d))))";
        assert_eq!(check_device_selector(all), Err(DeviceSelectorError::TooExpensive));
    }
}
