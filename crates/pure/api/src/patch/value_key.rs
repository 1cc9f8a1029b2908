//! JSON values as keys of ordered sets, so that two lists are merged without a search of the one
//! for each entry of the other.

use std::borrow::Borrow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A value that is ordered by what it holds. Two are equal exactly when the values are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueKey<V>(pub(super) V);

impl<V: Borrow<Value>> Ord for ValueKey<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.borrow(), other.0.borrow())
    }
}

impl<V: Borrow<Value>> PartialOrd for ValueKey<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: Borrow<Value>> PartialEq for ValueKey<V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<V: Borrow<Value>> Eq for ValueKey<V> {}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other).map(|(one, other)| compare(one, other));
            first_difference(pairs).then_with(|| one.len().cmp(&other.len()))
        }
        // Fields come in the order of their names.
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other).map(|((name, value), (other_name, other_value))| {
                name.cmp(other_name).then_with(|| compare(value, other_value))
            });
            first_difference(pairs).then_with(|| one.len().cmp(&other.len()))
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => rank(one).cmp(&rank(other)),
    }
}

fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// As `Number` has it, a whole number differs from a fraction of the same size, and 0.0 is -0.0.
fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    let whole = |number: &Number| {
        let signed = number.as_i64().map(i128::from);
        signed.or_else(|| number.as_u64().map(i128::from))
    };
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        // Adding 0.0 makes -0.0 a 0.0. JSON has no number that is none.
        (None, None) => {
            let float = |number: &Number| number.as_f64().unwrap_or_default() + 0.0;
            float(one).total_cmp(&float(other))
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..3).prop_map(Value::from),
            prop_oneof![Just(-1.0), Just(-0.0), Just(0.0), Just(1.0), Just(0.5)]
                .prop_map(|float: f64| json!(float)),
            Just(json!(u64::MAX)),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|fields| json!(fields)),
            ]
        })
    }

    proptest! {
        #[test]
        fn keys_are_equal_when_their_values_are(one in tree(), other in tree()) {
            prop_assert_eq!(ValueKey(&one) == ValueKey(&other), one == other);
        }

        #[test]
        fn the_order_is_one(a in tree(), b in tree(), c in tree()) {
            let (a, b, c) = (ValueKey(&a), ValueKey(&b), ValueKey(&c));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }
    }
}
