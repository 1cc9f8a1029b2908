//! The functions that rules may call: those of CEL, and the libraries of Kubernetes.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    authorizer::AccessStep,
    types::{CelType, UNBOUNDED},
};

/// One form of a function.
pub(crate) struct Signature {
    pub(crate) is_member: bool,
    /// The receiver, if it is a member, then the arguments.
    pub(crate) parameters: Vec<CelType>,
    pub(crate) result: CelType,
}

/// Each function with its forms. `A` and `B` stand for any type.
const SIGNATURES: &str = "
    size(string):int size(bytes):int size(list(A)):int size(map(A,B)):int
    string.size():int bytes.size():int list(A).size():int map(A,B).size():int
    string.contains(string):bool string.startsWith(string):bool string.endsWith(string):bool
    string.matches(string):bool matches(string,string):bool
    type(A):type dyn(A):dyn
    int(int):int int(uint):int int(double):int int(string):int int(timestamp):int
    uint(uint):uint uint(int):uint uint(double):uint uint(string):uint
    double(double):double double(int):double double(uint):double double(string):double
    string(string):string string(bool):string string(int):string string(uint):string
    string(double):string string(bytes):string string(timestamp):string string(duration):string
    string(ip):string string(cidr):string
    bool(bool):bool bool(string):bool bytes(bytes):bytes bytes(string):bytes
    duration(duration):duration duration(string):duration
    timestamp(timestamp):timestamp timestamp(string):timestamp timestamp(int):timestamp
    timestamp.getFullYear():int timestamp.getFullYear(string):int
    timestamp.getMonth():int timestamp.getMonth(string):int
    timestamp.getDayOfYear():int timestamp.getDayOfYear(string):int
    timestamp.getDayOfMonth():int timestamp.getDayOfMonth(string):int
    timestamp.getDate():int timestamp.getDate(string):int
    timestamp.getDayOfWeek():int timestamp.getDayOfWeek(string):int
    timestamp.getHours():int timestamp.getHours(string):int duration.getHours():int
    timestamp.getMinutes():int timestamp.getMinutes(string):int duration.getMinutes():int
    timestamp.getSeconds():int timestamp.getSeconds(string):int duration.getSeconds():int
    timestamp.getMilliseconds():int timestamp.getMilliseconds(string):int
    duration.getMilliseconds():int
    string.charAt(int):string string.indexOf(string):int string.indexOf(string,int):int
    string.lastIndexOf(string):int string.lastIndexOf(string,int):int
    string.lowerAscii():string string.upperAscii():string string.trim():string
    string.replace(string,string):string string.replace(string,string,int):string
    string.split(string):list(string) string.split(string,int):list(string)
    string.substring(int):string string.substring(int,int):string
    list(string).join():string list(string).join(string):string
    string.format(list(dyn)):string strings.quote(string):string
    list(A).isSorted():bool list(A).sum():A list(A).min():A list(A).max():A
    list(A).indexOf(A):int list(A).lastIndexOf(A):int list(A).includes(A):bool
    list(A).distinct():list(A) list(A).reverse():list(A) list(A).sort():list(A)
    list(A).slice(int,int):list(A) list(A).flatten():list(dyn) list(A).flatten(int):list(dyn)
    lists.range(int):list(int)
    sets.contains(list(A),list(A)):bool sets.equivalent(list(A),list(A)):bool
    sets.intersects(list(A),list(A)):bool
    string.find(string):string string.findAll(string):list(string)
    string.findAll(string,int):list(string)
    url(string):url isURL(string):bool url.getScheme():string url.getHost():string
    url.getHostname():string url.getPort():string url.getEscapedPath():string
    url.getQuery():map(string,list(string))
    quantity(string):quantity isQuantity(string):bool quantity.isInteger():bool
    quantity.asInteger():int quantity.asApproximateFloat():double quantity.sign():int
    quantity.add(quantity):quantity quantity.add(int):quantity
    quantity.sub(quantity):quantity quantity.sub(int):quantity
    quantity.compareTo(quantity):int quantity.isGreaterThan(quantity):bool
    quantity.isLessThan(quantity):bool
    ip(string):ip isIP(string):bool ip.isCanonical(string):bool ip.family():int
    ip.isUnspecified():bool ip.isLoopback():bool ip.isLinkLocalMulticast():bool
    ip.isLinkLocalUnicast():bool ip.isGlobalUnicast():bool
    cidr(string):cidr isCIDR(string):bool cidr.containsIP(ip):bool cidr.containsIP(string):bool
    cidr.containsCIDR(cidr):bool cidr.containsCIDR(string):bool cidr.ip():ip
    cidr.masked():cidr cidr.prefixLength():int
    semver(string):semver semver(string,bool):semver isSemver(string):bool
    isSemver(string,bool):bool semver.major():int semver.minor():int semver.patch():int
    semver.compareTo(semver):int semver.isGreaterThan(semver):bool semver.isLessThan(semver):bool
    format.named(string):optional(format) format.dns1123Label():format
    format.dns1123Subdomain():format format.dns1035Label():format format.qualifiedName():format
    format.dns1123LabelPrefix():format format.dns1123SubdomainPrefix():format
    format.dns1035LabelPrefix():format format.labelValue():format format.uri():format
    format.uuid():format format.byte():format format.date():format format.datetime():format
    format.validate(string):optional(list(string))
    optional.of(A):optional(A) optional.ofNonZeroValue(A):optional(A) optional.none():optional(A)
    optional(A).hasValue():bool optional(A).value():A optional(A).or(optional(A)):optional(A)
    optional(A).orValue(A):A
    @not_strictly_false(bool):bool
    authorizer.path(string):path_check authorizer.group(string):group_check
    authorizer.serviceAccount(string,string):authorizer
    group_check.resource(string):resource_check
    resource_check.subresource(string):resource_check
    resource_check.namespace(string):resource_check resource_check.name(string):resource_check
    resource_check.fieldSelector(string):resource_check
    resource_check.labelSelector(string):resource_check
    path_check.check(string):decision resource_check.check(string):decision
    decision.allowed():bool decision.reason():string decision.errored():bool
    decision.error():string
    jsonpatch.escapeKey(string):string
";

/// Names before a dot that belong to a function, and are no variables.
const NAMESPACES: [&str; 7] = ["strings", "lists", "sets", "ip", "format", "optional", "jsonpatch"];

/// The global functions with a dot in their names.
const DOTTED: [&str; 23] = [
    "strings.quote",
    "lists.range",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "ip.isCanonical",
    "format.named",
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
    "optional.of",
    "optional.ofNonZeroValue",
    "jsonpatch.escapeKey",
];

/// Functions of Kubernetes that rules cannot use here. They are refused by name.
pub(crate) const NOT_SUPPORTED: [&str; 3] =
    ["sortBy", "transformMapEntry", "@sortByAssociatedKeys"];

/// The name of a dotted function, if a call is one.
pub(crate) fn dotted(namespace: &str, function: &str) -> Option<String> {
    let name = format!("{namespace}.{function}");
    let is_known = DOTTED.contains(&name.as_str()) || name == "optional.none";
    (NAMESPACES.contains(&namespace) && is_known).then_some(name)
}

/// The functions, by name.
pub(crate) fn all() -> BTreeMap<&'static str, Vec<Signature>> {
    let mut functions: BTreeMap<&str, Vec<Signature>> = BTreeMap::new();
    for text in SIGNATURES.split_whitespace() {
        let (call, result) = text.rsplit_once("):").expect("a signature names its result");
        let (head, arguments) = split_call(call);
        let is_dotted = DOTTED.contains(&head) || head == "optional.none";
        let (receiver, name) = match head.rsplit_once('.') {
            Some((receiver, name)) if !is_dotted => (Some(receiver), name),
            _ => (None, head),
        };
        let receiver = receiver.into_iter().map(parse_type);
        let signature = Signature {
            is_member: head != name,
            parameters: receiver.chain(split_types(arguments).map(parse_type)).collect(),
            result: parse_type(result),
        };
        functions.entry(name).or_default().push(signature);
    }
    functions
}

/// Splits `list(A).join(string` into the function and its arguments.
fn split_call(call: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    let start = call.char_indices().rev().find(|(_, sign)| match sign {
        ')' => {
            depth += 1;
            false
        }
        '(' if depth == 0 => true,
        '(' => {
            depth -= 1;
            false
        }
        _ => false,
    });
    let (start, _) = start.expect("a signature has arguments");
    (&call[..start], &call[start + 1..])
}

fn split_types(types: &str) -> impl Iterator<Item = &str> {
    let mut rest = types;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut depth = 0_i32;
        let end = rest.find(|sign| {
            depth += i32::from(sign == '(') - i32::from(sign == ')');
            sign == ',' && depth == 0
        });
        let (first, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.strip_prefix(',').unwrap_or(after);
        Some(first)
    })
}

fn parse_type(name: &str) -> CelType {
    if let Some((outer, inner)) = name.strip_suffix(')').and_then(|name| name.split_once('(')) {
        let mut inner = split_types(inner).map(|name| Arc::new(parse_type(name)));
        let mut next = || inner.next().expect("the type has a parameter");
        return match outer {
            "list" => CelType::List(next(), UNBOUNDED),
            "map" => CelType::Map(next(), next(), UNBOUNDED),
            "optional" => CelType::Optional(next()),
            other => unreachable!("signatures have no type {other}"),
        };
    }
    match name {
        "dyn" => CelType::ANY,
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::text(),
        "bytes" => CelType::Bytes(UNBOUNDED),
        "duration" => CelType::Duration(1),
        "timestamp" => CelType::Timestamp(1),
        "type" => CelType::TypeName,
        "quantity" => CelType::Quantity,
        "url" => CelType::Url,
        "ip" => CelType::Ip,
        "cidr" => CelType::Cidr,
        "semver" => CelType::Semver,
        "format" => CelType::Format,
        "authorizer" => CelType::Authorization(AccessStep::Authorizer),
        "path_check" => CelType::Authorization(AccessStep::Path),
        "group_check" => CelType::Authorization(AccessStep::Group),
        "resource_check" => CelType::Authorization(AccessStep::Resource),
        "decision" => CelType::Authorization(AccessStep::Decision),
        "A" => CelType::Param('A'),
        "B" => CelType::Param('B'),
        other => unreachable!("signatures have no type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        let functions = all();
        assert!(functions.len() > 100, "{}", functions.len());
        for name in DOTTED {
            assert!(!functions[name][0].is_member, "{name}");
        }
        let join = &functions["join"][1];
        assert!(join.is_member);
        assert_eq!(join.parameters.len(), 2);
        assert_eq!(functions["getQuery"][0].result.to_string(), "map(string, list(string))");
    }
}
