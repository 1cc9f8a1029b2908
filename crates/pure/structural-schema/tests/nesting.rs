//! No expression overflows the stack, however it nests: neither when it is parsed and checked, nor
//! when it runs. What is refused and what is taken are both tried on a small stack.
#![allow(clippy::unwrap_used, reason = "a broken schema fails the test")]
#![allow(clippy::disallowed_methods, reason = "the stack of a thread of its own is of known size")]

use std::thread;

use proptest::prelude::*;
use rekindle_structural_schema::{DefinitionSchema, StructuralSchema, check_definition_schema};
use serde_json::{Value, json};

/// Three quarters of what the threads of the engine have.
const STACK_BYTES: usize = 3 << 19;
const EXPRESSION_CHARACTERS: usize = 16_384;

/// What can stand around an expression, and how much deeper it makes it.
const AROUND: [(&str, &str); 24] = [
    ("(", ")"),
    ("[", "]"),
    ("[", "][0]"),
    ("{'a': ", "}"),
    ("{'a': ", "}.a"),
    ("!", ""),
    ("-", ""),
    ("!-", ""),
    ("(", ").a"),
    ("size(", ") + 1"),
    ("dyn([", "])"),
    ("1 + ", ""),
    ("", " + 1"),
    ("", " in\t[1]"),
    ("", "\n==\n1 // ((("),
    ("true ? 1 : ", ""),
    ("(true ? ", " : 1)"),
    ("true && ", ""),
    ("(false || ", " && true)"),
    ("[1].all(x, ", ")"),
    ("[1].map(x, true, ", ")"),
    ("", ".map(x, [[x]])"),
    ("optional.of(", ").value()"),
    ("(rb'\\' == br\"\"\"\\\"\"\" ? ", " : 1) + '(((' // '"),
];

fn around(inner: &str, layers: &[usize], times: usize) -> String {
    let (mut before, mut after) = (Vec::new(), String::new());
    for (prefix, suffix) in (0..times).flat_map(|_| layers).map(|layer| AROUND[*layer]) {
        before.push(prefix);
        after.push_str(suffix);
        if suffix.contains("//") {
            after.push('\n');
        }
    }
    before.reverse();
    format!("{}{inner}{after}", before.concat())
}

/// A definition with a rule at the bottom of a schema that is as deep as one may be.
fn deep_schema(rule: &str) -> Value {
    let bottom = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let spec =
        (0..60).fold(bottom, |inner, _| json!({"type": "array", "maxItems": 1, "items": inner}));
    json!({"type": "object", "properties": {"spec": spec}})
}

/// Checks a rule and runs it, whatever the check said. Tells whether it was taken.
fn is_taken(rule: &str) -> bool {
    let rule = rule.to_owned();
    let checked = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let schema = deep_schema(&rule);
        let definition = DefinitionSchema { schema: &schema, path: "s", has_status: false };
        let errors = check_definition_schema(&definition);
        let compiled = StructuralSchema::compile(&schema).unwrap();
        let spec = (0..60).fold(json!({}), |inner, _| json!([inner]));
        compiled.validate(&json!({"spec": spec}), None);
        !errors.iter().any(|error| error.detail.contains("limit exceeded"))
    });
    checked.unwrap().join().unwrap()
}

/// The deepest that is taken and the shallowest that is refused, for each thing that nests.
#[test]
fn each_chain_is_refused_before_it_overflows_the_stack() {
    for (layer, (prefix, suffix)) in AROUND.into_iter().enumerate() {
        let most = EXPRESSION_CHARACTERS / (prefix.len() + suffix.len() + 1) - 1;
        let (mut taken, mut refused) = (1, most);
        while refused - taken > 1 {
            let times = taken.midpoint(refused);
            *if is_taken(&around("1", &[layer], times)) { &mut taken } else { &mut refused } =
                times;
        }
        assert!(is_taken(&around("1", &[layer], 5)), "{prefix}…{suffix}");
    }
}

/// What closes brackets may have chains behind each: the tree is as deep as all together.
#[test]
fn chains_behind_each_bracket_are_added_up() {
    for (open, close) in [("(", ")"), ("[", "]"), ("f(", ")"), ("{1: ", "}")] {
        for link in [".a", " + 1", "[0]", " in x"] {
            let close = [close, &link.repeat(90)].concat();
            let times = EXPRESSION_CHARACTERS / (open.len() + close.len()) - 1;
            let text = format!("{}x{}", open.repeat(times.min(90)), close.repeat(times.min(90)));
            assert!(!is_taken(&text), "{text}");
        }
    }
}

/// A type or a value that would double with each step is refused, and is not walked over.
#[test]
fn a_type_that_doubles_with_each_step_is_refused() {
    let rule = format!("[1]{}.size() == 1", ".map(x, {x: x})".repeat(40));
    let schema = deep_schema(&rule);
    let definition = DefinitionSchema { schema: &schema, path: "s", has_status: false };
    let errors = check_definition_schema(&definition);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].detail.contains("unsupported type 'map(int, int)' of a map key"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever stands around whatever else.
    #[test]
    fn no_nesting_overflows_the_stack(
        core in prop::sample::select(vec!["1", "self", "'a'", "rb'\\'", "x // (\n", "((((", "))))"]),
        layers in prop::collection::vec(0..AROUND.len(), 1..8),
        times in 1_usize..400,
    ) {
        let text = around(core, &layers, times);
        is_taken(&text);
    }
}
