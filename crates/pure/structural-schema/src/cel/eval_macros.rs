//! Macros that the parser leaves as calls: those with two variables, and those of optional values.

use std::rc::Rc;

use cel::common::ast::{CallExpr, IdedExpr};

use super::{
    check_calls::LambdaCall,
    eval::{EvalError, EvalResult, Evaluation},
    operations,
    value::{CelList, CelMap, CelValue},
};

impl<'a> Evaluation<'a> {
    pub(super) fn lambda(
        &mut self,
        call: &'a CallExpr,
        kind: LambdaCall,
        names: &[&'a str],
        parts: &'a [IdedExpr],
    ) -> EvalResult<'a> {
        let target = match &call.target {
            Some(target) => self.run(target)?,
            None => return Err(EvalError::no_overload()),
        };
        if let LambdaCall::OptMap | LambdaCall::OptFlatMap = kind {
            let CelValue::Optional(inner) = target else { return Err(EvalError::no_overload()) };
            self.charge(3)?;
            let Some(inner) = inner else { return Ok(CelValue::Optional(None)) };
            let value = self.with(&[(names[0], inner.as_ref().clone())], &parts[0])?;
            return Ok(match (kind, value) {
                (LambdaCall::OptFlatMap, optional @ CelValue::Optional(_)) => optional,
                (_, value) => CelValue::Optional(Some(Rc::new(value))),
            });
        }
        match &target {
            CelValue::List(list) => self.charge_work(list.len())?,
            CelValue::Map(map) => self.charge_work(map.len())?,
            _ => {}
        }
        self.two_variables(kind, &operations::entries(&target)?, names, parts)
    }

    fn two_variables(
        &mut self,
        kind: LambdaCall,
        entries: &[(CelValue<'a>, CelValue<'a>)],
        names: &[&'a str],
        parts: &'a [IdedExpr],
    ) -> EvalResult<'a> {
        let (mut found, mut failure) = (0_usize, None);
        let (mut list, mut map) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            self.charge(3)?;
            self.charge_conversion(value)?;
            let variables = [(names[0], key.clone()), (names[1], value.clone())];
            let (filter, part) = match parts {
                [filter, part] => (Some(filter), part),
                [part] => (None, part),
                _ => return Err(EvalError::no_overload()),
            };
            if let Some(filter) = filter
                && !matches!(self.with(&variables, filter)?, CelValue::Bool(true))
            {
                continue;
            }
            match (kind, self.with(&variables, part)) {
                (_, Err(EvalError::TooExpensive)) => return Err(EvalError::TooExpensive),
                (LambdaCall::All, Ok(CelValue::Bool(false))) => return Ok(CelValue::Bool(false)),
                (LambdaCall::Exists, Ok(CelValue::Bool(true))) => return Ok(CelValue::Bool(true)),
                (LambdaCall::All | LambdaCall::Exists, Err(problem)) => failure = Some(problem),
                (_, Err(problem)) => return Err(problem),
                (LambdaCall::ExistsOne, Ok(CelValue::Bool(true))) => found += 1,
                (LambdaCall::TransformList, Ok(value)) => list.push(value),
                (LambdaCall::TransformMap, Ok(value)) => map.push((key.clone(), value)),
                (_, Ok(_)) => {}
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok(match kind {
            LambdaCall::All => CelValue::Bool(true),
            LambdaCall::Exists => CelValue::Bool(false),
            LambdaCall::ExistsOne => CelValue::Bool(found == 1),
            LambdaCall::TransformList => CelValue::List(CelList::made(list)),
            LambdaCall::TransformMap => CelValue::Map(CelMap::made(map)),
            LambdaCall::OptMap | LambdaCall::OptFlatMap => CelValue::Null,
        })
    }
}
