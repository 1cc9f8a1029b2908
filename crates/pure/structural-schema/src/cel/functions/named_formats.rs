//! Named formats of Kubernetes (`format.dns1123Label().validate(text)`).

use std::rc::Rc;

use rekindle_types::validation::names;

use super::{
    super::{
        eval::{EvalResult, Evaluation},
        value::{CelList, CelValue},
    },
    charge_text,
};
use crate::formats::StringFormat;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let named = |name: &str| NAMES.into_iter().find(|known| *known == name).map(CelValue::Format);
    let result = match (name, arguments) {
        ("format.named", [CelValue::Text(name)]) => CelValue::Optional(named(name).map(Rc::new)),
        (name, []) => named(name.strip_prefix("format.")?)?,
        _ => return None,
    };
    Some(evaluation.charge(1).map(|()| result))
}

/// What is wrong with a text, or `optional.none()`.
pub(super) fn validate<'a>(
    evaluation: &mut Evaluation<'a>,
    format: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let [_, value @ CelValue::Text(text)] = arguments else { return None };
    // a prefix may end in a dash
    let as_whole =
        text.strip_suffix('-').map_or_else(|| text.to_string(), |text| format!("{text}a"));
    let of = |format: StringFormat, problem: &str| {
        if format.is_met_by(text) { Vec::new() } else { vec![problem.to_owned()] }
    };
    let problems = match format {
        "dns1123Label" => names::dns_label(text),
        "dns1123Subdomain" => names::dns_subdomain(text),
        "dns1035Label" => names::dns_1035_label(text),
        "qualifiedName" => names::qualified(text),
        "dns1123LabelPrefix" => names::dns_label(&as_whole),
        "dns1123SubdomainPrefix" => names::dns_subdomain(&as_whole),
        "dns1035LabelPrefix" => names::dns_1035_label(&as_whole),
        "labelValue" => names::label_value(text),
        "uri" => of(StringFormat::Uri, "invalid URI"),
        "uuid" => of(StringFormat::Uuid, "does not match the UUID format"),
        "byte" => of(StringFormat::Byte, "invalid base64"),
        "date" => of(StringFormat::Date, "invalid date"),
        "datetime" => of(StringFormat::DateTime, "invalid datetime"),
        _ => return None,
    };
    let found = (!problems.is_empty()).then(|| {
        let problems = problems.into_iter().map(CelValue::text).collect();
        Rc::new(CelValue::List(CelList::made(problems)))
    });
    Some(charge_text(evaluation, value).map(|()| CelValue::Optional(found)))
}
