//! In which form a client wants its answer.

use crate::protobuf;
use crate::status::ApiError;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The objects themselves.
    Objects,
    /// Rows of a `Table` (meta.k8s.io), as `kubectl get` asks for.
    Table(IncludeObject, MetaVersion),
    /// Only their metadata, in this shape.
    Metadata(MetadataShape, MetaVersion),
}

/// The version of the group meta.k8s.io in which a table or metadata is written. Both have the
/// same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// The current one.
    V1,
    /// What clients of before Kubernetes 1.15 ask for.
    V1beta1,
}

impl MetaVersion {
    fn of_clause(clause: &AcceptClause<'_>) -> Option<Self> {
        match (clause.param("g"), clause.param("v")) {
            ("meta.k8s.io", "v1") => Some(Self::V1),
            ("meta.k8s.io", "v1beta1") => Some(Self::V1beta1),
            _ => None,
        }
    }

    /// As `apiVersion` says it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What holds the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataShape {
    /// A `PartialObjectMetadata`: of one object, or of a watch.
    Object,
    /// A `PartialObjectMetadataList`.
    List,
}

/// What a table row carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// The metadata; the default.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// One media range of an `Accept` header.
struct AcceptClause<'a> {
    media_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
}

impl AcceptClause<'_> {
    fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value)
    }

    /// What upstream reads: a `q` that is no number is 0, and one above 1 counts.
    fn quality(&self) -> f32 {
        match self.param("q") {
            "" => 1.0,
            text => text.parse().unwrap_or(0.0),
        }
    }

    /// Whether a client likes it better. Upstream's order, which is no order: a type without a
    /// wildcard goes before one with it, but for a greater `q`.
    fn is_before(&self, other: &Self) -> bool {
        let is_any = |clause: &Self| clause.media_type == ANY_TYPE;
        let has_wildcard = |clause: &Self| clause.media_type.ends_with("/*");
        self.quality() > other.quality()
            || (!is_any(self) && is_any(other))
            || (!has_wildcard(self) && has_wildcard(other))
    }

    /// How it wants an answer written; none when we write no such type.
    fn encoding(&self) -> Option<AnswerEncoding> {
        match self.media_type {
            AnswerEncoding::JSON | ANY_TYPE | ANY_APPLICATION => Some(AnswerEncoding::Json),
            AnswerEncoding::YAML => Some(AnswerEncoding::Yaml),
            protobuf::MEDIA_TYPE => Some(AnswerEncoding::Protobuf),
            _ => None,
        }
    }

    /// Whether it names a type that the handler writes, or any at all. Upstream's routes know no
    /// `application/*`.
    fn suits(&self, handler: HandlerTypes) -> bool {
        match self.media_type {
            ANY_TYPE | AnswerEncoding::JSON => true,
            AnswerEncoding::YAML | protobuf::MEDIA_TYPE => handler != HandlerTypes::Json,
            _ => false,
        }
    }

    /// Whether it asks for no more than a media type. A stream has no YAML.
    fn asks_for_whole_objects(&self) -> bool {
        self.stream_fits() && ["as", "g", "v"].iter().all(|name| self.param(name).is_empty())
    }

    fn stream_fits(&self) -> bool {
        match self.param("stream") {
            "" => true,
            "watch" => self.encoding() != Some(AnswerEncoding::Yaml),
            _ => false,
        }
    }

    /// The form that it asks for; none when there is no such form.
    fn form(&self, include_object: &str) -> Result<Option<Representation>, ApiError> {
        if self.asks_for_whole_objects() {
            return Ok(Some(Representation::Objects));
        }
        let (Some(version), true) = (MetaVersion::of_clause(self), self.stream_fits()) else {
            return Ok(None);
        };
        Ok(match self.param("as") {
            "Table" if self.encoding() != Some(AnswerEncoding::Protobuf) => {
                Some(Representation::Table(include(include_object)?, version))
            }
            "PartialObjectMetadata" => {
                Some(Representation::Metadata(MetadataShape::Object, version))
            }
            "PartialObjectMetadataList" => {
                Some(Representation::Metadata(MetadataShape::List, version))
            }
            _ => None,
        })
    }
}

const ANY_TYPE: &str = "*/*";
const ANY_APPLICATION: &str = "application/*";

/// The clauses of an `Accept` header, best first. Upstream takes what has a `q` of 0, too, and
/// sorts by insertion: its order depends on how that goes.
fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut sorted: Vec<AcceptClause<'_>> = Vec::new();
    for text in accept.split(',').filter(|clause| !clause.trim().is_empty()) {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let params = parts.filter_map(|part| part.split_once('=')).collect();
        let clause = AcceptClause { media_type, params };
        let stays = sorted.iter().rposition(|before| !clause.is_before(before));
        sorted.insert(stays.map_or(0, |position| position + 1), clause);
    }
    sorted
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEncoding {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As Kubernetes' protobuf, where it can be.
    Protobuf,
}

impl AnswerEncoding {
    /// The media type of JSON.
    pub const JSON: &str = "application/json";
    /// The media type of YAML.
    pub const YAML: &str = "application/yaml";
}

/// What the handler of a path can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerTypes {
    /// JSON alone.
    Json,
    /// Objects in each encoding.
    Objects,
    /// The same, and streams of them.
    Collection,
}

impl HandlerTypes {
    fn names(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Objects => OBJECT_TYPES,
            Self::Collection => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                 application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            }
        }
    }
}

const OBJECT_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerForm {
    /// What it shows.
    pub shows: Representation,
    /// How it is written.
    pub encoding: AnswerEncoding,
}

impl AnswerForm {
    const DEFAULT: Self = Self { shows: Representation::Objects, encoding: AnswerEncoding::Json };

    /// Refuses what no stream of events can have.
    ///
    /// # Errors
    /// 406.
    pub fn check_stream(self) -> Result<(), ApiError> {
        match self.encoding {
            AnswerEncoding::Json | AnswerEncoding::Protobuf => Ok(()),
            AnswerEncoding::Yaml => Err(only(STREAM_TYPES)),
        }
    }
}

/// Refuses a header that names no media type of the handler. Upstream looks at it when it looks for
/// the handler of a path, before all else.
///
/// # Errors
/// 406.
pub fn check_handler(accept: &str, handler: HandlerTypes) -> Result<(), ApiError> {
    if accept.trim().is_empty() || clauses(accept).iter().any(|clause| clause.suits(handler)) {
        return Ok(());
    }
    Err(ApiError::not_acceptable(handler.names()))
}

/// Refuses a client that does not take a document in JSON.
///
/// # Errors
/// 406.
pub fn check_json(accept: &str) -> Result<(), ApiError> {
    let takes_json = |clause: &AcceptClause<'_>| {
        clause.encoding() == Some(AnswerEncoding::Json) && clause.asks_for_whole_objects()
    };
    match accept.trim().is_empty() || clauses(accept).iter().any(takes_json) {
        true => Ok(()),
        false => Err(ApiError::not_acceptable(HandlerTypes::Json.names())),
    }
}

/// The first form that the client accepts and we serve: protobuf only of kinds that have that.
///
/// # Errors
/// 406 when there is none; 400 when a table is asked for that there is not.
pub fn negotiate(
    (accept, has_protobuf): (&str, bool),
    include_object: &str,
) -> Result<AnswerForm, ApiError> {
    if accept.trim().is_empty() {
        return Ok(AnswerForm::DEFAULT);
    }
    for clause in clauses(accept) {
        let encoding = match clause.encoding() {
            Some(AnswerEncoding::Protobuf) if !has_protobuf => continue,
            Some(encoding) => encoding,
            None => continue,
        };
        if let Some(shows) = clause.form(include_object)? {
            return Ok(AnswerForm { shows, encoding });
        }
    }
    Err(only(OBJECT_TYPES))
}

/// How an answer is written that has one form only.
///
/// # Errors
/// 406 when the client takes none.
pub fn negotiate_encoding(accept: &str) -> Result<AnswerEncoding, ApiError> {
    first_encoding(accept).ok_or_else(|| only(OBJECT_TYPES))
}

/// How an error is written: in JSON to a client that takes nothing that we have.
pub(crate) fn encoding_of_errors(accept: &str) -> AnswerEncoding {
    first_encoding(accept).unwrap_or(AnswerEncoding::Json)
}

/// The encoding of the first clause that asks for whole objects in one that we write.
fn first_encoding(accept: &str) -> Option<AnswerEncoding> {
    if accept.trim().is_empty() {
        return Some(AnswerEncoding::Json);
    }
    let clauses = clauses(accept);
    let mut whole = clauses.iter().filter(|clause| clause.asks_for_whole_objects());
    whole.find_map(AcceptClause::encoding)
}

fn only(types: &str) -> ApiError {
    ApiError::not_acceptable_form(format!("only the following media types are accepted: {types}"))
}

fn include(value: &str) -> Result<IncludeObject, ApiError> {
    match value {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "Object" => Ok(IncludeObject::Object),
        "None" => Ok(IncludeObject::None),
        other => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// The two forms of discovery at `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryForm {
    /// A list of versions or groups.
    Classic,
    /// All resources of all groups at once, `apidiscovery.k8s.io/v2`.
    Aggregated,
}

/// The form of discovery that the client likes best, and how it is written.
///
/// # Errors
/// 406 when it takes none.
pub fn negotiate_discovery(accept: &str) -> Result<(DiscoveryForm, AnswerEncoding), ApiError> {
    let is_aggregated = |clause: &AcceptClause<'_>| {
        clause.param("as") == "APIGroupDiscoveryList"
            && clause.param("g") == "apidiscovery.k8s.io"
            && clause.param("v") == "v2"
    };
    if accept.trim().is_empty() {
        return Ok((DiscoveryForm::Classic, AnswerEncoding::Json));
    }
    for clause in clauses(accept) {
        let Some(encoding) = clause.encoding() else { continue };
        if clause.asks_for_whole_objects() {
            return Ok((DiscoveryForm::Classic, encoding));
        }
        if clause.stream_fits() && is_aggregated(&clause) {
            return Ok((DiscoveryForm::Aggregated, encoding));
        }
    }
    Err(only(OBJECT_TYPES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const PROTOBUF: &str = protobuf::MEDIA_TYPE;

    fn shown(accept: &str, has_protobuf: bool) -> Option<Representation> {
        negotiate((accept, has_protobuf), "").ok().map(|form| form.shows)
    }

    fn encoding(accept: &str) -> Option<AnswerEncoding> {
        negotiate((accept, true), "").ok().map(|form| form.encoding)
    }

    #[test]
    fn the_first_acceptable_form_wins() {
        let table = Representation::Table(IncludeObject::Metadata, MetaVersion::V1);
        let older_table = Representation::Table(IncludeObject::Metadata, MetaVersion::V1beta1);
        for (accept, form) in [
            ("", Some(Representation::Objects)),
            ("*/*", Some(Representation::Objects)),
            ("application/json", Some(Representation::Objects)),
            ("application/yaml", Some(Representation::Objects)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Representation::Objects)),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/yaml", None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(table)),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(older_table),
            ),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
                Some(Representation::Objects),
            ),
            ("application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io", Some(table)),
            ("*/*;as=Table;v=v1;g=meta.k8s.io", Some(table)),
            ("*/*;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Representation::Objects)),
            ("application/json;q=0", Some(Representation::Objects)),
            ("application/*", Some(Representation::Objects)),
            ("application/json;v=v1", None),
            ("application/json;stream=x", None),
            ("application/yaml;stream=watch", None),
            ("application/json;charset=utf-8", Some(Representation::Objects)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some(Representation::Metadata(MetadataShape::List, MetaVersion::V1)),
            ),
        ] {
            assert_eq!(shown(accept, false), form, "{accept}");
        }
        assert!(negotiate((TABLE, false), "All").is_err());
        assert_eq!(shown(PROTOBUF, true), Some(Representation::Objects));
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert!(negotiate((table, true), "").is_err());
    }

    #[test]
    fn the_encoding_is_that_of_the_first_form() {
        use AnswerEncoding::{Json, Protobuf, Yaml};
        for (accept, chosen, of_errors) in [
            ("", Some(Json), Json),
            ("application/yaml", Some(Yaml), Yaml),
            ("text/x,application/yaml", Some(Yaml), Yaml),
            ("application/yaml;q=0.5,application/json;q=0.1", Some(Yaml), Yaml),
            ("application/json;q=x,application/yaml;q=0.99", Some(Yaml), Yaml),
            ("application/json;q=2,application/yaml;q=3", Some(Yaml), Yaml),
            ("application/json;q=0,application/yaml;q=0", Some(Json), Json),
            // a wildcard stands behind what follows it
            ("*/*;q=0.9,application/yaml;q=0.5", Some(Yaml), Yaml),
            ("application/*,application/yaml;q=0.1", Some(Yaml), Yaml),
            ("application/json;q=0.1,*/*,application/yaml;q=0.5", Some(Yaml), Yaml),
            ("application/yaml;q=0.2,*/*;q=0.9,application/json;q=0.5", Some(Json), Json),
            ("application/vnd.kubernetes.protobuf,application/yaml", Some(Protobuf), Protobuf),
            // errors are no tables
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Some(Yaml), Json),
            ("application/yaml;stream=watch", None, Json),
            ("APPLICATION/YAML", None, Json),
        ] {
            assert_eq!(encoding(accept), chosen, "{accept}");
            assert_eq!(encoding_of_errors(accept), of_errors, "{accept}");
        }
    }

    #[test]
    fn handlers_refuse_what_they_do_not_write() {
        let refused = |accept, handler| {
            check_handler(accept, handler).map_err(|error| error.status().message.clone()).err()
        };
        for accept in ["application/json", "*/*", "application/yaml", PROTOBUF, "text/x,*/*", TABLE]
        {
            assert_eq!(refused(accept, HandlerTypes::Objects), None, "{accept}");
        }
        assert!(refused("application/yaml", HandlerTypes::Json).is_some());
        assert!(refused("application/*", HandlerTypes::Objects).is_some());
        let why = refused("text/x", HandlerTypes::Collection).unwrap();
        assert!(
            why.ends_with(
                "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            ),
            "{why}"
        );
        assert!(check_json("application/yaml").is_err());
        assert!(check_json("application/yaml,*/*").is_ok());
    }

    #[test]
    fn aggregated_discovery_is_given_only_to_clients_that_ask() {
        use DiscoveryForm::{Aggregated, Classic};
        // What kubectl 1.37 sends, newest first.
        let kubectl =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let of = |accept| negotiate_discovery(accept).ok();
        assert_eq!(of(kubectl), Some((Aggregated, AnswerEncoding::Json)));
        assert_eq!(of("application/json"), Some((Classic, AnswerEncoding::Json)));
        assert_eq!(of(""), Some((Classic, AnswerEncoding::Json)));
        assert_eq!(of("application/yaml"), Some((Classic, AnswerEncoding::Yaml)));
        assert_eq!(of(TABLE), None);
    }
}
