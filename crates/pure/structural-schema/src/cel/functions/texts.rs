//! Functions of texts: those of CEL, its extension of strings, and regular expressions.

use super::{
    super::{
        cost,
        eval::{EvalError, EvalResult, Evaluation},
        text_format,
        value::{CelList, CelValue},
    },
    charge_text,
};

pub(super) fn call_global<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    match (name, arguments) {
        ("matches", [CelValue::Text(_), _]) => call(evaluation, name, arguments),
        ("strings.quote", [value @ CelValue::Text(text)]) => {
            Some(charge_text(evaluation, value).map(|()| CelValue::text(format!("{:?}", &**text))))
        }
        ("jsonpatch.escapeKey", [value @ CelValue::Text(text)]) => Some(
            charge_text(evaluation, value)
                .map(|()| CelValue::text(text.replace('~', "~0").replace('/', "~1"))),
        ),
        _ => None,
    }
}

pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let (CelValue::Text(text), rest) = arguments.split_first()? else { return None };
    let own = &arguments[0];
    if let Err(error) = evaluation.charge_text_read(text) {
        return Some(Err(error));
    }
    let charged = match (name, rest) {
        ("contains", [part]) => {
            let cost = cost::traverse(own.size()).saturating_mul(cost::traverse(part.size()));
            evaluation.charge(cost)
        }
        ("matches" | "find" | "findAll", [pattern, ..]) => {
            evaluation.charge(cost::matching(own.size(), pattern.size()))
        }
        ("replace" | "split", _) => {
            evaluation.charge(cost::times(own.size(), 2.0 * cost::PER_CHARACTER))
        }
        (
            "indexOf" | "lastIndexOf" | "startsWith" | "endsWith" | "format" | "lowerAscii"
            | "upperAscii" | "substring" | "trim",
            _,
        ) => charge_text(evaluation, own),
        _ => evaluation.charge(1),
    };
    if let Err(error) = charged {
        return Some(Err(error));
    }
    Some(match (name, rest) {
        ("contains", [CelValue::Text(part)]) => Ok(CelValue::Bool(text.contains(&**part))),
        ("startsWith", [CelValue::Text(part)]) => Ok(CelValue::Bool(text.starts_with(&**part))),
        ("endsWith", [CelValue::Text(part)]) => Ok(CelValue::Bool(text.ends_with(&**part))),
        ("matches", [CelValue::Text(pattern)]) => {
            evaluation.regex(pattern).map(|regex| CelValue::Bool(regex.is_match(text)))
        }
        ("find", [CelValue::Text(pattern)]) => evaluation
            .regex(pattern)
            .map(|regex| CelValue::text(regex.find(text).map_or("", |found| found.as_str()))),
        ("findAll", [CelValue::Text(pattern), limit @ ..]) => {
            find_all(evaluation, text, pattern, limit)
        }
        ("lowerAscii", []) => Ok(CelValue::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(CelValue::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(CelValue::text(text.trim())),
        ("charAt", [CelValue::Int(at)]) => char_at(text, *at),
        ("substring", [CelValue::Int(from)]) => substring(text, *from, own.size() as i64),
        ("substring", [CelValue::Int(from), CelValue::Int(to)]) => substring(text, *from, *to),
        ("indexOf", [CelValue::Text(part)]) => index_of(text, part, 0),
        ("indexOf", [CelValue::Text(part), CelValue::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [CelValue::Text(part)]) => last_index_of(text, part, own.size() as i64),
        ("lastIndexOf", [CelValue::Text(part), CelValue::Int(from)]) => {
            last_index_of(text, part, *from)
        }
        ("replace", [CelValue::Text(from), CelValue::Text(to), limit @ ..]) => {
            replace(evaluation, text, (from, to), limit)
        }
        ("split", [CelValue::Text(separator), limit @ ..]) => {
            split(evaluation, text, separator, limit)
        }
        ("format", [CelValue::List(values)]) => text_format::format(evaluation, text, values),
        _ => return None,
    })
}

fn find_all<'a>(
    evaluation: &mut Evaluation<'a>,
    text: &str,
    pattern: &str,
    limit: &[CelValue<'a>],
) -> EvalResult<'a> {
    let limit = match limit {
        [] => usize::MAX,
        [CelValue::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => return Err(EvalError::no_overload()),
    };
    let regex = evaluation.regex(pattern)?;
    let mut all = Vec::new();
    for found in regex.find_iter(text).take(limit) {
        evaluation.charge_new_values(1)?;
        all.push(CelValue::text(found.as_str()));
    }
    Ok(CelValue::List(CelList::made(all)))
}

/// The byte at which a character begins. The end counts as one.
fn offset_of(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    let starts = text.char_indices().map(|(start, _)| start);
    starts.chain([text.len()]).nth(at)
}

fn out_of_range(at: i64) -> EvalError {
    EvalError::new(format!("index out of range: {at}"))
}

fn char_at<'a>(text: &str, at: i64) -> EvalResult<'a> {
    let start = offset_of(text, at).ok_or_else(|| out_of_range(at))?;
    let sign = text[start..].chars().next().map(String::from);
    Ok(CelValue::text(sign.unwrap_or_default()))
}

fn substring<'a>(text: &str, from: i64, to: i64) -> EvalResult<'a> {
    let start = offset_of(text, from).ok_or_else(|| out_of_range(from))?;
    let end = offset_of(text, to).ok_or_else(|| out_of_range(to))?;
    if start > end {
        let problem = format!("invalid substring range. start: {from}, end: {to}");
        return Err(EvalError::new(problem));
    }
    Ok(CelValue::text(&text[start..end]))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> EvalResult<'a> {
    let start = offset_of(text, from).ok_or_else(|| out_of_range(from))?;
    let found = text[start..].find(part).map(|at| text[..start + at].chars().count() as i64);
    Ok(CelValue::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(text: &str, part: &str, from: i64) -> EvalResult<'a> {
    let start = offset_of(text, from).ok_or_else(|| out_of_range(from))?;
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(part).filter(|at| *at <= start);
    Ok(CelValue::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn limit_of(limit: &[CelValue<'_>]) -> Result<Option<usize>, EvalError> {
    match limit {
        [] => Ok(None),
        [CelValue::Int(limit)] => Ok(usize::try_from(*limit).ok()),
        _ => Err(EvalError::no_overload()),
    }
}

fn replace<'a>(
    evaluation: &mut Evaluation<'a>,
    text: &str,
    (from, to): (&str, &str),
    limit: &[CelValue<'_>],
) -> EvalResult<'a> {
    let limit = limit_of(limit)?.unwrap_or(usize::MAX);
    let times = text.matches(from).take(limit).count();
    evaluation.charge_text_made(times.saturating_mul(to.len()).saturating_add(text.len()))?;
    Ok(CelValue::text(text.replacen(from, to, limit)))
}

fn split<'a>(
    evaluation: &mut Evaluation<'a>,
    text: &str,
    separator: &str,
    limit: &[CelValue<'_>],
) -> EvalResult<'a> {
    let limit = limit_of(limit)?;
    let most = text.len() / separator.len().max(1) + 1;
    evaluation.charge_new_values(most.min(limit.unwrap_or(usize::MAX)))?;
    let parts: Vec<CelValue<'a>> = match (separator, limit) {
        (_, Some(0)) => Vec::new(),
        ("", limit) => {
            let limit = limit.unwrap_or(usize::MAX);
            let mut parts: Vec<CelValue<'a>> =
                text.chars().take(limit - 1).map(|sign| CelValue::text(sign.to_string())).collect();
            let rest = offset_of(text, parts.len() as i64).map_or("", |start| &text[start..]);
            if !rest.is_empty() {
                parts.push(CelValue::text(rest));
            }
            parts
        }
        (separator, Some(limit)) => text.splitn(limit, separator).map(CelValue::text).collect(),
        (separator, None) => text.split(separator).map(CelValue::text).collect(),
    };
    Ok(CelValue::List(CelList::made(parts)))
}
