//! What functions cost at most, and how large their results are (apiserver `cel/library/cost.go`).

use cel::common::ast::{CallExpr, Expr, LiteralValue};

use super::{check::Checked, cost, types::CelType};

/// The longest expression that a named format has.
const FORMAT_REGEX_CHARACTERS: f64 = 128.0;

/// The cost of a call with its arguments, and its result with its size.
pub(super) fn function(
    name: &str,
    result: CelType,
    arguments: &[Checked],
    call: &CallExpr,
) -> Checked {
    let size = |at: usize| arguments.get(at).map_or(0, |argument| argument.cel_type.size());
    let first = size(0);
    let given = arguments.iter().fold(0, |sum: u64, argument| sum.saturating_add(argument.cost));
    let literal = |at: usize| match &call.args.get(at)?.expr {
        Expr::Literal(LiteralValue::Int(count)) => u64::try_from(*count.inner()).ok(),
        _ => None,
    };
    let (own, size) = text_function(name, arguments, &literal)
        .or_else(|| list_function(name, &result, arguments, &literal))
        .unwrap_or_else(|| match name {
            "containsIP" | "containsCIDR" => {
                let text = match &arguments[1].cel_type {
                    CelType::Text(size) | CelType::Any(size) => cost::traverse(*size),
                    _ => 0,
                };
                (text.saturating_add(4 + 3), 1)
            }
            "validate" => {
                let regex = FORMAT_REGEX_CHARACTERS * cost::PER_REGEX_CHARACTER;
                (cost::times(cost::traverse(size(1)), regex), u64::MAX)
            }
            "dyn" => (1, first),
            _ => (1, result.size()),
        });
    Checked::new(result.with_size(size), given.saturating_add(own))
}

/// The cost of a function of texts, and the size of its result.
fn text_function(
    name: &str,
    arguments: &[Checked],
    literal: &dyn Fn(usize) -> Option<u64>,
) -> Option<(u64, u64)> {
    let size = |at: usize| arguments.get(at).map_or(0, |argument| argument.cel_type.size());
    let first = size(0);
    Some(match name {
        "startsWith" | "endsWith" => (cost::traverse(size(1)), 1),
        "contains" => (cost::traverse(first).saturating_mul(cost::traverse(size(1))), 1),
        "matches" => (cost::matching(first, size(1)), 1),
        "find" | "findAll" => (cost::matching(first, size(1)), first),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "charAt" => {
            (cost::traverse(first), first)
        }
        "replace" => {
            let count = if size(1) == 0 { first.saturating_add(1) } else { first };
            let longest = first.saturating_add(count.saturating_mul(size(2)));
            (cost::times(first, 2.0 * cost::PER_CHARACTER), longest)
        }
        "split" => {
            let count = literal(1).unwrap_or(first);
            (cost::times(first, 2.0 * cost::PER_CHARACTER), count)
        }
        "join" => {
            let item = match arguments.first().map(|list| &list.cel_type) {
                Some(CelType::List(item, _)) => item.size(),
                _ => u64::MAX,
            };
            let joined = first.saturating_mul(item);
            let separators = size(1).saturating_mul(first.saturating_sub(1));
            let size = joined.saturating_add(separators);
            (cost::traverse(size), size)
        }
        "format" | "quantity" | "isQuantity" | "semver" | "isSemver" | "isIP" | "cidr"
        | "isCIDR" | "isURL" => (cost::traverse(first), u64::MAX),
        "ip" if !matches!(arguments[0].cel_type, CelType::Cidr) => (cost::traverse(first), 1),
        "ip.isCanonical" => (cost::times(first, 2.0 * cost::PER_CHARACTER), 1),
        "strings.quote" => (cost::traverse(first), first.saturating_mul(2).saturating_add(2)),
        "bytes" => (cost::traverse(first), first.saturating_mul(4)),
        "string" => match &arguments[0].cel_type {
            CelType::Text(_) | CelType::Bytes(_) => (cost::traverse(first), u64::MAX),
            _ => (1, u64::MAX),
        },
        _ => return None,
    })
}

/// The cost of a function of lists, and the size of its result.
fn list_function(
    name: &str,
    result: &CelType,
    arguments: &[Checked],
    literal: &dyn Fn(usize) -> Option<u64>,
) -> Option<(u64, u64)> {
    let size = |at: usize| arguments.get(at).map_or(0, |argument| argument.cel_type.size());
    let first = size(0);
    Some(match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes"
        | "distinct" | "sort" | "sets.contains" | "sets.equivalent" | "sets.intersects"
        | "flatten" | "reverse" | "slice" => {
            let each = match arguments.first().map(|list| &list.cel_type) {
                Some(CelType::List(item, _)) => match item.as_ref() {
                    CelType::Text(size) | CelType::Bytes(size) => {
                        cost::traverse(*size).saturating_add(1)
                    }
                    _ => 1,
                },
                _ => 1,
            };
            let other = if name.starts_with("sets.") { size(1).max(1) } else { 1 };
            (first.saturating_mul(each).saturating_mul(other), result.size().min(first))
        }
        "lists.range" => {
            let count = literal(0).unwrap_or(u64::MAX);
            (count, count)
        }
        _ => return None,
    })
}
