//! In which form a client wants its answer.

use std::cmp::Reverse;

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

    /// Its place among others: the least is the best.
    fn rank(&self) -> (Reverse<u32>, bool, bool) {
        let quality: f32 = self.param("q").parse().unwrap_or(1.0);
        let quality = Reverse((quality.clamp(0.0, 1.0) * 1000.0) as u32);
        (quality, self.media_type == ANY_TYPE, self.media_type.ends_with("/*"))
    }

    /// Whether it names a media type that is served, or any at all. Upstream's routes know no
    /// `application/*`.
    fn has_served_type(&self, has_protobuf: bool) -> bool {
        match self.media_type {
            ANY_TYPE | JSON => true,
            media_type => has_protobuf && media_type == protobuf::MEDIA_TYPE,
        }
    }

    /// The form that it asks for; none when there is no such form.
    fn form(&self, include_object: &str) -> Result<Option<Representation>, ApiError> {
        if !matches!(self.param("stream"), "" | "watch") {
            return Ok(None);
        }
        let says_none = ["as", "g", "v"].iter().all(|name| self.param(name).is_empty());
        let form = match (self.param("as"), MetaVersion::of_clause(self)) {
            _ if says_none => Representation::Objects,
            ("Table", Some(version)) if is_json(self.media_type) => {
                Representation::Table(include(include_object)?, version)
            }
            ("PartialObjectMetadata", Some(version)) => {
                Representation::Metadata(MetadataShape::Object, version)
            }
            ("PartialObjectMetadataList", Some(version)) => {
                Representation::Metadata(MetadataShape::List, version)
            }
            _ => return Ok(None),
        };
        Ok(Some(form))
    }
}

const ANY_TYPE: &str = "*/*";
const JSON: &str = "application/json";

/// The clauses of an `Accept` header, best first: by `q`, then those without wildcards, then in
/// order. Upstream takes what has a `q` of 0, too.
fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut all: Vec<AcceptClause<'_>> = accept
        .split(',')
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            AcceptClause {
                media_type,
                params: parts.filter_map(|part| part.split_once('=')).collect(),
            }
        })
        .collect();
    all.sort_by_key(AcceptClause::rank);
    all
}

fn is_json(media_type: &str) -> bool {
    matches!(media_type, JSON | "application/*" | ANY_TYPE)
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEncoding {
    /// As JSON.
    Json,
    /// As Kubernetes' protobuf, where it can be.
    Protobuf,
}

/// The encoding that the client likes best of those that we have.
pub(crate) fn preferred_encoding(accept: &str) -> AnswerEncoding {
    let known = clauses(accept).into_iter().find_map(|clause| match clause.media_type {
        protobuf::MEDIA_TYPE => clause.form("").ok().flatten().map(|_| AnswerEncoding::Protobuf),
        media_type => is_json(media_type).then_some(AnswerEncoding::Json),
    });
    known.unwrap_or(AnswerEncoding::Json)
}

/// Refuses a header that names no media type of ours. Upstream looks at it when it looks for the
/// handler of a path, before all else.
///
/// # Errors
/// 406.
pub fn check_media_types(accept: &str, has_protobuf: bool) -> Result<(), ApiError> {
    if accept.trim().is_empty() { Ok(()) } else { check_clauses(&clauses(accept), has_protobuf) }
}

fn check_clauses(clauses: &[AcceptClause<'_>], has_protobuf: bool) -> Result<(), ApiError> {
    match clauses.iter().any(|clause| clause.has_served_type(has_protobuf)) {
        true => Ok(()),
        false => Err(ApiError::not_acceptable()),
    }
}

/// The first form that the client accepts and we serve: in JSON, or in protobuf if the kind has
/// that. A table has JSON only.
pub fn negotiate(
    (accept, has_protobuf): (&str, bool),
    include_object: &str,
) -> Result<Representation, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Representation::Objects);
    }
    let clauses = clauses(accept);
    check_clauses(&clauses, has_protobuf)?;
    for clause in clauses {
        let is_known = is_json(clause.media_type) || clause.has_served_type(has_protobuf);
        if is_known && let Some(form) = clause.form(include_object)? {
            return Ok(form);
        }
    }
    Err(ApiError::not_acceptable_form(
        "only the following media types are accepted: application/json",
    ))
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

/// Whether the client would rather have aggregated discovery of this version (`v2` or `v2beta1`)
/// than the old form.
pub fn wants_aggregated_discovery(accept: &str) -> bool {
    for clause in clauses(accept) {
        if !is_json(clause.media_type) {
            continue;
        }
        match clause.param("as") {
            "" => return false,
            "APIGroupDiscoveryList"
                if clause.param("g") == "apidiscovery.k8s.io" && clause.param("v") == "v2" =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_acceptable_form_wins() {
        let table = Representation::Table(IncludeObject::Metadata, MetaVersion::V1);
        let older_table = Representation::Table(IncludeObject::Metadata, MetaVersion::V1beta1);
        for (accept, form) in [
            ("", Some(Representation::Objects)),
            ("*/*", Some(Representation::Objects)),
            ("application/json", Some(Representation::Objects)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Representation::Objects)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", None),
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
            ("application/*", None),
            ("application/json;v=v1", None),
            ("application/json;stream=x", None),
            ("application/json;charset=utf-8", Some(Representation::Objects)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some(Representation::Metadata(MetadataShape::List, MetaVersion::V1)),
            ),
        ] {
            assert_eq!(negotiate((accept, false), "").ok(), form, "{accept}");
        }
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert!(negotiate((table, false), "All").is_err());
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(negotiate((protobuf, true), "").ok(), Some(Representation::Objects));
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert!(negotiate((table, true), "").is_err());
        assert_eq!(preferred_encoding(table), AnswerEncoding::Json);
    }

    #[test]
    fn aggregated_discovery_is_given_only_to_clients_that_ask() {
        // What kubectl 1.37 sends, newest first.
        let kubectl =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert!(wants_aggregated_discovery(kubectl));
        assert!(!wants_aggregated_discovery("application/json"));
        assert!(!wants_aggregated_discovery(""));
    }
}
