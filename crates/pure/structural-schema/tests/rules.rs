//! What rules in CEL mean, what they may cost, and how a wrong one is refused.
#![allow(clippy::unwrap_used, reason = "a broken schema fails the test")]

use rekindle_structural_schema::{DefinitionSchema, StructuralSchema, check_definition_schema};
use serde_json::{Value, json};

/// A schema with a `spec` that has these properties and rules.
fn schema(properties: &Value, rules: &[Value]) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": properties, "x-kubernetes-validations": rules,
    }}})
}

fn definition_errors(schema: &Value) -> Vec<String> {
    let path = "schema";
    let definition = DefinitionSchema { schema, path, has_status: false };
    check_definition_schema(&definition).iter().map(ToString::to_string).collect()
}

fn object_errors(schema: &Value, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let compiled = StructuralSchema::compile(schema).unwrap();
    let object = |spec: &Value| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
    let old = old.map(object);
    compiled.validate(&object(spec), old.as_ref()).iter().map(ToString::to_string).collect()
}

/// The properties that the expressions below are about.
fn properties() -> Value {
    json!({
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "s": {"type": "string", "maxLength": 100},
        "b": {"type": "boolean"},
        "l": {"type": "array", "maxItems": 20, "items": {"type": "integer"}},
        "t": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 20}},
        "m": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "integer"}},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte", "maxLength": 20},
        "port": {"x-kubernetes-int-or-string": true, "maxLength": 10},
        "namespace": {"type": "string"},
    })
}

fn spec() -> Value {
    json!({
        "n": 5, "x": 2, "s": "abc", "b": true, "l": [3, 1, 2], "t": ["b", "a"],
        "m": {"k": 1, "j": 2}, "when": "2026-01-02T03:04:05Z", "span": "90m", "raw": "aGk=",
        "port": "http", "namespace": "ns",
    })
}

#[test]
fn expressions_mean_what_they_mean_upstream() {
    for expression in [
        "self.n + 1 == 6 && self.n - 7 == -2 && self.n * 2 == 10 && self.n / 2 == 2 && self.n % 2 == 1",
        "self.x == 2.0 && self.x < 3 && self.n > 4.5",
        "self.b ? self.s == 'abc' : false",
        "'a' + 'b' == 'ab' && size(self.s) == 3 && self.s.size() == 3",
        "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')",
        "self.s.matches('^[a-c]+$') && !self.s.matches('^x')",
        "self.s.upperAscii() == 'ABC' && 'aBc'.lowerAscii() == 'abc' && ' a '.trim() == 'a'",
        "self.s.indexOf('c') == 2 && 'abcabc'.lastIndexOf('b') == 4 && self.s.charAt(1) == 'b'",
        "self.s.substring(1) == 'bc' && self.s.substring(0, 2) == 'ab'",
        "self.s.replace('b', 'x') == 'axc' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && ['a', 'b'].join('-') == 'a-b'",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'%s is %d, %.2f %x'.format([dyn('a'), 1, 1.5, 255]) == 'a is 1, 1.50 ff'",
        "strings.quote('a') == '\"a\"'",
        "self.l.all(i, i > 0) && self.l.exists(i, i == 3) && self.l.exists_one(i, i == 1)",
        "self.l.map(i, i * 2) == [6, 2, 4] && self.l.filter(i, i > 1) == [3, 2]",
        "self.l.map(i, i > 1, i * 2) == [6, 4]",
        "self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3 && !self.l.isSorted()",
        "self.l.indexOf(1) == 1 && self.l.lastIndexOf(9) == -1 && [1, 2].isSorted()",
        "self.l.sort() == [1, 2, 3] && self.l.reverse() == [2, 1, 3] && [1, 1].distinct() == [1]",
        "self.l.slice(0, 2) == [3, 1] && [[1], [2]].flatten() == [1, 2] && lists.range(3) == [0, 1, 2]",
        "self.l[0] == 3 && 1 in self.l && 'k' in self.m && self.m['k'] == 1 && self.m.k == 1",
        "self.m.all(k, self.m[k] > 0) && self.m.exists(k, k == 'j') && size(self.m) == 2",
        "self.l.all(i, v, v > i - 2) && self.m.transformList(k, v, v).sum() == 3",
        "self.m.transformMap(k, v, v + 1) == {'j': 3, 'k': 2}",
        "sets.contains(self.l, [1]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1])",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "has(self.n) && has(self.m.k) && !has(self.m.z)",
        "self.?n.hasValue() && self.?n.value() == 5 && self.m[?'z'].orValue(7) == 7",
        "optional.of(1).or(optional.none()).value() == 1 && !optional.ofNonZeroValue(0).hasValue()",
        "self.?n.optMap(v, v + 1).value() == 6 && optional.none().optMap(v, v).hasValue() == false",
        "self.when < timestamp('2027-01-01T00:00:00Z') && self.when.getFullYear() == 2026",
        "self.when.getMonth() == 0 && self.when.getDate() == 2 && self.when.getDayOfWeek() == 5",
        "self.when.getHours('-03:00') == 0 && self.when.getDayOfYear('UTC') == 1",
        "self.span == duration('1h30m') && self.span.getMinutes() == 90",
        "self.when + self.span == timestamp('2026-01-02T04:34:05Z')",
        "self.when - timestamp('2026-01-02T03:04:00Z') == duration('5s')",
        "self.raw == b'hi' && string(self.raw) == 'hi' && size(self.raw) == 2",
        "type(self.port) == string && self.port == 'http' && type(self.n) == int",
        "type(self.port) == int ? self.port > 0 : self.port.startsWith('h')",
        "int('5') == 5 && double('1.5') == 1.5 && string(5) == '5' && string(1.5) == '1.5'",
        "uint(5) == 5u && bool('true') && string(self.span) == '5400s' && int(2.9) == 2",
        "self.__namespace__ == 'ns'",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && quantity('1k').asInteger() == 1000",
        "isQuantity('100m') && !isQuantity('x') && quantity('1').add(1).compareTo(quantity('2')) == 0",
        "quantity('200m').sub(quantity('100m')) == quantity('100m') && quantity('-1').sign() == -1",
        "isURL('https://a.b:8/c?d=e') && url('https://a.b:8/c?d=e').getPort() == '8'",
        "url('https://a.b:8/c?d=e').getHost() == 'a.b:8' && url('https://a.b/c?d=e').getQuery()['d'] == ['e']",
        "isIP('10.0.0.1') && ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('010.0.0.1')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0:0:0:0:0:0:1')",
        "isCIDR('10.0.0.0/8') && cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
        "isSemver('1.2.3') && semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2",
        "quantity('9223372036854775807').add(1).isInteger() == false && quantity('1Ki') == quantity('1024')",
        "quantity('9223372036854775807').sub(1).asInteger() == 9223372036854775806",
        "quantity('-1500m').asApproximateFloat() == -1.5 && !isQuantity('1e99')",
        "semver('v1.0', true).major() == 1 && !isSemver('v1.0')",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "format.named('uuid').hasValue() && !format.named('nope').hasValue()",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && [1, 2] + [3] == [1, 2, 3]",
        "(self.l[9] > 0 || true) && !(self.l[9] > 0 && false)",
        "self.l.exists(i, i == 2 || self.l[9] > 0)",
        "null == null && self.s != 'x' && dyn(1) == 1.0",
    ] {
        let schema = schema(&properties(), &[json!({"rule": expression})]);
        assert_eq!(definition_errors(&schema), [""; 0], "{expression}");
        assert_eq!(object_errors(&schema, &spec(), None), [""; 0], "{expression}");
    }
}

#[test]
fn failures_of_an_evaluation_are_named() {
    for (expression, problem) in [
        ("self.l[7] > 0", "index out of bounds: 7"),
        ("self.m['z'] > 0", "no such key: z"),
        ("self.n / 0 > 0", "division by zero"),
        ("self.n % 0 > 0", "modulus by zero"),
        ("self.n + 9223372036854775807 > 0", "integer overflow"),
        ("int(self.s) > 0", "type conversion error from 'string' to 'int'"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("self.s.charAt(9) == 'a'", "index out of range: 9"),
        (
            "quantity(self.s).sign() == 1",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        let schema = schema(&properties(), &[json!({"rule": expression})]);
        assert_eq!(definition_errors(&schema), [""; 0], "{expression}");
        let expected =
            format!("spec: Invalid value: \"object\": {problem} evaluating rule: {expression}");
        assert_eq!(object_errors(&schema, &spec(), None), [expected]);
    }
}

#[test]
fn a_wrong_rule_is_refused_when_the_definition_is_written() {
    for (expression, problem) in [
        ("self.nope == 1", "undefined field 'nope'"),
        ("other == 1", "undeclared reference to 'other' (in container '')"),
        ("self.n == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.n > 'a'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.s.foo()", "undeclared reference to 'foo' (in container '')"),
        (
            "self.n.startsWith('a')",
            "found no matching overload for 'startsWith' applied to 'int.(string)'",
        ),
        (
            "self.n.all(i, i > 0)",
            "cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.s.x == 1", "type 'string' does not support field selection"),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("self.s.matches('(')", "invalid matches argument"),
        ("self.n", "cel expression must evaluate to a bool"),
        ("self.n >", "Syntax error"),
        ("self.t.sortBy(x, x) == []", "the function 'sortBy' is not supported here"),
    ] {
        let found = definition_errors(&schema(&properties(), &[json!({"rule": expression})]));
        assert_eq!(found.len(), 1, "{expression}: {found:?}");
        assert!(found[0].contains(problem), "{expression}: {found:?}");
        assert!(found[0].starts_with("schema.properties[spec].x-kubernetes-validations[0].rule: "));
    }
    let unknown = definition_errors(&schema(&properties(), &[json!({"rule": "self.nope == 1"})]));
    let shown = "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^";
    assert!(unknown[0].ends_with(shown), "{unknown:?}");
}

#[test]
fn messages_reasons_and_paths_of_rules_are_used() {
    let rules = [
        json!({"rule": "self.n < 5", "messageExpression": "'s is ' + self.s", "fieldPath": ".n"}),
        json!({"rule": "self.n < 5", "message": "too much", "reason": "FieldValueForbidden"}),
        json!({"rule": "self.n < 5", "message": "m", "messageExpression": "string(self.l[9])"}),
        json!({"rule": "self.n < 5", "reason": "FieldValueRequired", "fieldPath": ".m['k']"}),
    ];
    let schema = schema(&properties(), &rules);
    assert_eq!(definition_errors(&schema), [""; 0]);
    assert_eq!(
        object_errors(&schema, &spec(), None),
        [
            "spec.n: Invalid value: s is abc",
            "spec: Forbidden: too much",
            "spec: Invalid value: m",
            "spec.m[k]: Required value: failed rule: self.n < 5",
        ]
    );
}

#[test]
fn what_was_wrong_before_and_did_not_change_is_not_refused() {
    let schema = schema(
        &json!({
            "n": {"type": "integer", "maximum": 3},
            "sub": {
                "type": "object", "properties": {"s": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "self.s == 'good'"}],
            },
            "other": {"type": "string"},
        }),
        &[],
    );
    let old = json!({"n": 9, "sub": {"s": "bad"}, "other": "a"});
    let moved = json!({"n": 9, "sub": {"s": "bad"}, "other": "b"});
    assert_eq!(object_errors(&schema, &moved, Some(&old)), [""; 0]);
    let worse = json!({"n": 8, "sub": {"s": "worse"}, "other": "a"});
    assert_eq!(
        object_errors(&schema, &worse, Some(&old)),
        [
            "spec.n: Invalid value: 8: spec.n in body should be less than or equal to 3",
            "spec.sub: Invalid value: failed rule: self.s == 'good'",
        ]
    );
}

/// Rules of the kinds that published definitions have: upstream takes them without further limits.
#[test]
fn estimates_refuse_no_rule_that_upstream_takes() {
    let text = json!({"type": "string", "maxLength": 4096});
    let labels = json!({
        "type": "object", "maxProperties": 8, "additionalProperties": text,
        "x-kubernetes-validations": [
            {"rule": "self.all(key, key.matches('^([a-z0-9]+/)?[A-Za-z0-9][-A-Za-z0-9_.]{0,61}$'))"},
            {"rule": "self.all(key, key.split('/')[0].size() < 253)"},
        ],
    });
    let span = json!({
        "type": "string", "maxLength": 20,
        "x-kubernetes-validations": [{"rule": "duration(self) >= duration('0s')"}],
    });
    let rules = [json!({
        "rule": "self.n < 5", "messageExpression": "string(self.n)",
    })];
    let schema = schema(&json!({"labels": labels, "span": span, "n": {"type": "integer"}}), &rules);
    assert_eq!(definition_errors(&schema), [""; 0]);
}

/// Upstream knows no size of a text that a conversion makes, so what walks over it costs too much.
#[test]
fn a_converted_text_has_no_known_size() {
    for (message, count) in [("string(self.n)", 0), ("'n: ' + string(self.n)", 3)] {
        let rules = [json!({"rule": "self.n < 5", "messageExpression": message})];
        let schema = schema(&json!({"n": {"type": "integer"}}), &rules);
        let found = definition_errors(&schema);
        assert_eq!(found.len(), count, "{message}: {found:?}");
    }
}

#[test]
fn literals_are_converted_when_the_definition_is_written() {
    for (rule, problem) in [
        ("int('7') == 7 && double('1e3') > 1.0", None),
        (
            "int('a') == 7",
            Some("program instantiation failed: type conversion error from 'string' to 'int'"),
        ),
        (
            "bool('x')",
            Some("program instantiation failed: type conversion error from 'string' to 'bool'"),
        ),
        ("dyn(self.n)", Some("cel expression must evaluate to a bool")),
        (
            "oldSelf.optMap(o, o == self).orValue(true)",
            Some("found no matching overload for 'hasValue'"),
        ),
    ] {
        let schema = schema(&json!({"n": {"type": "integer"}}), &[json!({"rule": rule})]);
        let found = definition_errors(&schema);
        match problem {
            None => assert_eq!(found, [""; 0], "{rule}"),
            Some(problem) => assert!(found[0].contains(problem), "{rule}: {found:?}"),
        }
    }
}

#[test]
fn old_self_is_refused_where_items_have_no_old_values() {
    let items =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let list = schema(&json!({"l": {"type": "array", "maxItems": 5, "items": items}}), &[]);
    let found = definition_errors(&list);
    assert_eq!(found.len(), 1, "{found:?}");
    let path = "schema.properties[spec].properties[l]";
    let detail =
        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
    assert!(found[0].ends_with(&detail), "{found:?}");
    let items = json!({
        "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "required": ["k"], "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}],
    });
    let map = schema(
        &json!({"l": {
            "type": "array", "maxItems": 5, "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        }}),
        &[],
    );
    assert_eq!(definition_errors(&map), [""; 0]);
    let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let new = json!({"l": [{"k": "b", "v": 4}, {"k": "a", "v": 1}, {"k": "c", "v": 0}]});
    let found = object_errors(&map, &new, Some(&old));
    assert_eq!(found, ["spec.l[0]: Invalid value: failed rule: self.v >= oldSelf.v"]);
}

#[test]
fn lists_of_a_type_are_compared_and_added_by_it() {
    let item = json!({
        "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "required": ["k"],
    });
    let rules = [
        json!({"rule": "self.s == self.r && self.s + self.r == self.s && self.a != self.b"}),
        json!({"rule": "(self.m + self.o).map(i, i.v) == [1, 9, 3]"}),
    ];
    let set = json!({
        "type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9},
        "x-kubernetes-list-type": "set",
    });
    let map = json!({
        "type": "array", "maxItems": 9, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    });
    let list = json!({"type": "array", "maxItems": 9, "items": {"type": "integer"}});
    let properties = json!({"s": set, "r": set, "a": list, "b": list, "m": map, "o": map});
    let schema = schema(&properties, &rules);
    assert_eq!(definition_errors(&schema), [""; 0]);
    let spec = json!({
        "s": ["x", "y"], "r": ["y", "x"], "a": [1, 2], "b": [2, 1],
        "m": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "o": [{"k": "b", "v": 9}, {"k": "c", "v": 3}],
    });
    assert_eq!(object_errors(&schema, &spec, None), [""; 0]);
}

/// An expression that would run for hours ends when its cost is spent.
#[test]
fn a_bomb_ends_in_an_error() {
    let numbers: Vec<i64> = (0..20_000).collect();
    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))";
    let wide = "self.l.map(a, self.l + self.l).size() >= 0";
    let equal = "self.l.all(a, self.l == self.l.map(x, x))";
    let text = "self.s.matches('(a*)*b') || self.s.replace('a', self.s).size() >= 0";
    let sizes = "self.l.all(x, size(self.s) > 0)";
    let keys = "self.l.transformMap(k, v, v).all(k, self.l.transformMap(i, j, j)[k] >= 0)";
    for rule in [nested, wide, equal, text, sizes, keys] {
        let properties = json!({
            "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"},
        });
        let schema = schema(&properties, &[json!({"rule": rule})]);
        let spec = json!({"l": numbers, "s": "a".repeat(300_000)});
        let errors = object_errors(&schema, &spec, None);
        assert_eq!(errors.len(), 1, "{rule}: {errors:?}");
        assert!(errors[0].contains("cost limit exceeded"), "{rule}: {errors:?}");
    }
    let deep = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
    let long = format!("self.b || {}", "true || ".repeat(5_000));
    for rule in [
        deep.as_str(),
        long.as_str(),
        &"!".repeat(5_000),
        &"-".repeat(5_000),
        &"[".repeat(80),
        &format!("self.n{} > 0", "+1".repeat(5_000)),
    ] {
        assert_eq!(definition_errors(&schema(&properties(), &[json!({"rule": rule})])).len(), 1);
    }
}

/// What costs little or nothing upstream, and takes long here, ends soon, too. No error repeats
/// the large text that it is about.
#[test]
fn work_that_has_no_cost_is_counted() {
    let numbers: Vec<i64> = (0..20_000).collect();
    let texts: Vec<String> = (0..2_000).map(|at| format!("{}{at}", "b".repeat(100))).collect();
    let properties = json!({
        "l": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
        "raw": {"type": "string", "format": "byte"},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    });
    let spec =
        json!({"l": numbers, "s": "a".repeat(300_000), "raw": "aGkh".repeat(75_000), "set": texts});
    let doubled = format!("[1]{}", ".map(x, [x, x])".repeat(40));
    let many = "%s".repeat(2_000);
    let entries: Vec<String> =
        (0..400).map(|at| format!("string(self.l[{at}]) + self.s: 1")).collect();
    for (rule, ends) in [
        (format!("[{doubled}].all(y, y == y)"), "cost limit exceeded"),
        (format!("{doubled}.indexOf([]) == 0"), "cost limit exceeded"),
        (format!("'%s'.format([{doubled}]) == ''"), "cost limit exceeded"),
        (format!("{{'a': 1}}[dyn({doubled})] == 1"), "cost limit exceeded"),
        (format!("'{many}'.format(self.l.map(x, self.s)) == ''"), "cost limit exceeded"),
        (format!("size({{{}}}) > 0", entries.join(", ")), "cost limit exceeded"),
        ("self.l.all(x, size(self.raw) > 0)".to_owned(), "cost limit exceeded"),
        ("self.l.all(x, double(self.s) > 0.0 || true)".to_owned(), "cost limit exceeded"),
        ("self.l.all(x, self.set == self.set)".to_owned(), "cost limit exceeded"),
        (
            "self.l.all(x, optional.of(self.l) == optional.of(self.l))".to_owned(),
            "cost limit exceeded",
        ),
        ("[self.s + 'a'].all(t, self.l.all(x, [t].size() == 1))".to_owned(), ""),
        ("self.l.exists(x, {'a': 1}[self.s] == x)".to_owned(), "cost limit exceeded"),
        ("{'a': 1}[self.s] == 1".to_owned(), "no such key: aaa"),
        ("int(self.s) == 1".to_owned(), "type conversion error from 'string'"),
        ("ip(self.s).family() == 4".to_owned(), "IP Address"),
    ] {
        let errors = object_errors(&schema(&properties, &[json!({"rule": rule})]), &spec, None);
        let shown: String = errors.concat();
        assert!(shown.contains(ends) && (shown.is_empty() == ends.is_empty()), "{rule}: {shown}");
        assert!(shown.len() < rule.len() + 1_000, "{rule}: {}", shown.len());
    }
}

/// A value may nest as deep as an expression may, but no deeper by many steps.
#[test]
fn a_value_nests_only_so_deep() {
    for (times, problem) in [(15, ""), (30, "the value of the expression nests too deep")] {
        let rule = format!("[1]{}.size() == 1", ".map(x, dyn([[[[[x]]]]]))".repeat(times));
        let schema = schema(&properties(), &[json!({"rule": rule})]);
        let errors = object_errors(&schema, &spec(), None).concat();
        assert!(errors.contains(problem) && errors.is_empty() == problem.is_empty(), "{errors}");
    }
    let deep = format!("[1]{} == []", ".map(x, [[[[[x]]]]])".repeat(30));
    let found = definition_errors(&schema(&properties(), &[json!({"rule": deep})]));
    assert!(found[0].contains("the type of the expression nests too deep"), "{found:?}");
}

#[test]
fn an_expression_reports_twenty_problems_at_most() {
    let rule = vec!["self.nope"; 100].join(" || ");
    let found = definition_errors(&schema(&properties(), &[json!({"rule": rule})]));
    assert_eq!(found[0].matches("undefined field 'nope'").count(), 20, "{found:?}");
    let wrong = vec!["self.n +* 1"; 100].join(" || ");
    let found = definition_errors(&schema(&properties(), &[json!({"rule": wrong})]));
    assert!(found[0].matches("ERROR: ").count() <= 20, "{found:?}");
    assert!(found[0].matches("ERROR: ").count() > 1, "{found:?}");
}

#[test]
fn problems_stand_where_upstream_says_they_are() {
    for (rule, place) in [
        (
            "self.n == 1 &&\n  self.nope",
            "ERROR: <input>:2:7: undefined field 'nope'\n |   self.nope\n | ......^",
        ),
        ("size (self.n) > 0", "ERROR: <input>:1:6: found no matching overload for 'size'"),
        ("self.s.contains(1)", "ERROR: <input>:1:16: found no matching overload"),
        ("'ä' == 1", "ERROR: <input>:1:5: found no matching overload for '_==_'"),
        ("self.n == 'a' // (", "ERROR: <input>:1:8: found no matching overload for '_==_'"),
        ("has(self.nope)", "ERROR: <input>:1:4: undefined field 'nope'"),
    ] {
        let rule = json!({"rule": rule, "message": "m"});
        let found = definition_errors(&schema(&properties(), &[rule]));
        assert!(found[0].contains(place), "{found:?}");
    }
}

/// Limits and moments at the ends of their ranges.
#[test]
fn nothing_overflows_at_the_end_of_a_range() {
    let long = json!({"type": "string", "maxLength": i64::MAX});
    let rule = json!({"rule": "self.s.matches('a+')"});
    let found = definition_errors(&schema(&json!({"s": long}), &[rule]));
    assert!(found[0].contains("exceeds budget by factor of more than 100x"), "{found:?}");
    for (expression, problem) in [
        ("timestamp(-62135596801) < timestamp(0)", "timestamp overflow"),
        ("timestamp(9223372036854775807) < timestamp(0)", "timestamp overflow"),
        (
            "timestamp('0001-01-01T00:00:00Z') - duration('1ns') < timestamp(0)",
            "timestamp overflow",
        ),
        (
            "timestamp('9999-12-30T00:00:00Z') + duration('2562047h') < timestamp(0)",
            "timestamp overflow",
        ),
        (
            "timestamp('9999-12-30T00:00:00Z') - timestamp('0001-01-01T00:00:00Z') > duration('0')",
            "duration overflow",
        ),
        (
            "duration('9223372036854775807ns') + duration('1ns') > duration('0')",
            "duration overflow",
        ),
        (
            "duration('-9223372036854775808ns') - duration('1ns') > duration('0')",
            "duration overflow",
        ),
        ("timestamp(0) - duration('-9223372036854775808ns') > timestamp(0)", "duration overflow"),
    ] {
        let schema = schema(&properties(), &[json!({"rule": expression})]);
        assert_eq!(definition_errors(&schema), [""; 0], "{expression}");
        let expected =
            format!("spec: Invalid value: \"object\": {problem} evaluating rule: {expression}");
        assert_eq!(object_errors(&schema, &spec(), None), [expected]);
    }
}

/// Rules of many items share one budget.
#[test]
fn the_budget_of_an_object_is_shared_by_its_rules() {
    let items = json!({
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]{1,400}$')"}],
    });
    let schema = schema(&json!({"l": {"type": "array", "items": items}}), &[]);
    let spec = json!({"l": vec!["a".repeat(300); 100_000]});
    let errors = object_errors(&schema, &spec, None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].ends_with("no further validation rules will be run"), "{errors:?}");
}
