//! Parts of moments and durations.

use jiff::tz::TimeZone;

use super::super::{
    eval::{EvalError, EvalResult, Evaluation},
    value::CelValue,
};

/// No zone has a longer name.
const ZONE_BYTES_MAX: usize = 64;

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    if !name.starts_with("get") {
        return None;
    }
    let part = match arguments {
        [CelValue::Duration(nanos)] => match name {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        },
        [CelValue::Timestamp(moment), zone @ ..] => {
            let zone = match zone {
                [] => TimeZone::UTC,
                [CelValue::Text(name)] => match time_zone(name) {
                    Some(zone) => zone,
                    None => {
                        let problem = format!("unknown time zone {}", &**name);
                        return Some(Err(EvalError::new(problem)));
                    }
                },
                _ => return None,
            };
            let local = moment.to_zoned(zone);
            match name {
                "getFullYear" => local.year().into(),
                "getMonth" => i64::from(local.month()) - 1,
                "getDayOfYear" => i64::from(local.day_of_year()) - 1,
                "getDayOfMonth" => i64::from(local.day()) - 1,
                "getDate" => local.day().into(),
                "getDayOfWeek" => local.weekday().to_sunday_zero_offset().into(),
                "getHours" => local.hour().into(),
                "getMinutes" => local.minute().into(),
                "getSeconds" => local.second().into(),
                "getMilliseconds" => local.millisecond().into(),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(evaluation.charge(1).map(|()| CelValue::Int(part)))
}

/// A zone by its name, or by its distance such as `-07:00`.
fn time_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    if name.len() > ZONE_BYTES_MAX {
        return None;
    }
    if let Some((hours, minutes)) = name.split_once(':') {
        let sign = if hours.starts_with('-') { -1 } else { 1 };
        let hours: i32 = hours.parse().ok()?;
        let minutes: i32 = minutes.parse().ok()?;
        let seconds = hours.checked_mul(3600)?.checked_add(sign * minutes.checked_mul(60)?)?;
        return Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?));
    }
    TimeZone::get(name).ok()
}
