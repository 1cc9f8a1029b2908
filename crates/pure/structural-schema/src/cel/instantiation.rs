//! Problems that cel-go finds when it makes a program of a checked expression: it converts literals
//! then, not when the program runs.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::functions;

/// Asks of each part of an expression, those inside first, until one of them is meant.
pub(super) fn has_part(expression: &IdedExpr, is_meant: &mut dyn FnMut(&IdedExpr) -> bool) -> bool {
    let is_below = match &expression.expr {
        Expr::Select(select) => has_part(&select.operand, is_meant),
        Expr::Call(call) => {
            call.target.iter().any(|target| has_part(target, is_meant))
                || call.args.iter().any(|argument| has_part(argument, is_meant))
        }
        Expr::List(list) => list.elements.iter().any(|element| has_part(element, is_meant)),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                has_part(&entry.key, is_meant) || has_part(&entry.value, is_meant)
            }
            EntryExpr::StructField(field) => has_part(&field.value, is_meant),
        }),
        Expr::Comprehension(fold) => {
            let parts =
                [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result];
            parts.into_iter().any(|part| has_part(part, is_meant))
        }
        Expr::Ident(_) | Expr::Struct(_) | Expr::Literal(_) | Expr::Unspecified => false,
    };
    is_below || is_meant(expression)
}

/// The first literal that cannot be converted.
pub(super) fn instantiation_problem(root: &IdedExpr) -> Option<String> {
    let mut problem = None;
    has_part(root, &mut |part| {
        if let Expr::Call(call) = &part.expr {
            problem = conversion_problem(call);
        }
        problem.is_some()
    });
    problem
}

fn conversion_problem(call: &CallExpr) -> Option<String> {
    let ([argument], None) = (call.args.as_slice(), &call.target) else { return None };
    let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return None };
    let name = call.func_name.as_str();
    let is_convertible = functions::converts_text(name, text.inner())?;
    (!is_convertible).then(|| format!("type conversion error from 'string' to '{name}'"))
}
