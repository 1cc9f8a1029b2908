//! An event: one line of the log.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::authentication::v1::UserInfo;
use rekindle_types::Tick;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::level::{AuditLevel, AuditStage};
use crate::recorded_object::RecordedMetadata;
use crate::subject::AuditObjectReference;

/// An `Event` of `audit.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// How much is recorded.
    pub level: AuditLevel,
    /// The ID of the request; all its events have the same.
    pub audit_id: String,
    /// How far the request has come.
    pub stage: AuditStage,
    /// Path and query, as the client sent them.
    pub request_uri: String,
    /// As [`AuditSubject::verb`](crate::AuditSubject::verb).
    pub verb: String,
    /// The authenticated user; without a name when authentication failed.
    pub user: UserInfo,
    /// The user that the request acts as, if that is another one.
    pub impersonated_user: Option<UserInfo>,
    /// Where it comes from; see [`source_addresses`](crate::source_addresses).
    pub source_ips: Vec<IpAddr>,
    /// See [`recorded_user_agent`](crate::recorded_user_agent).
    pub user_agent: String,
    /// What it is about.
    pub object_ref: Option<AuditObjectReference>,
    /// What was answered; none when nothing was yet.
    pub response_status: Option<AuditResponseStatus>,
    /// The body of the request.
    pub request_object: Option<Box<RawValue>>,
    /// The body of the answer.
    pub response_object: Option<Box<RawValue>>,
    /// When the request came.
    pub received_at: Tick,
    /// When this stage was reached.
    pub stage_at: Tick,
    /// What authorization and admission had to say.
    pub annotations: BTreeMap<String, String>,
}

/// The answer in short, in the terms of `Status` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AuditResponseStatus {
    /// Always empty; upstream writes it.
    metadata: EmptyObject,
    /// `Success` or `Failure`, where the answer is a `Status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the `Status` is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The HTTP status code.
    pub code: u16,
}

/// `{}`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct EmptyObject {}

impl AuditResponseStatus {
    /// That of an answer of which only the code is known.
    pub fn from_code(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    /// The status if the client left before the answer, in upstream's words.
    pub fn closed_early() -> Self {
        Self {
            status: "Success".to_owned(),
            message: "Connection closed early".to_owned(),
            ..Self::from_code(200)
        }
    }
}

/// The event as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenEvent<'e> {
    kind: &'static str,
    api_version: &'static str,
    level: AuditLevel,
    #[serde(rename = "auditID")]
    audit_id: &'e str,
    stage: AuditStage,
    #[serde(rename = "requestURI")]
    request_uri: &'e str,
    verb: &'e str,
    user: &'e UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'e UserInfo>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[IpAddr]>::is_empty")]
    source_ips: &'e [IpAddr],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'e AuditObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<&'e AuditResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<&'e RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<&'e RawValue>,
    request_received_timestamp: k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime,
    stage_timestamp: k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'e BTreeMap<String, String>,
}

impl AuditEvent {
    /// Fills what the path of the request does not say from the body of the request.
    pub fn name_object(&mut self, metadata: RecordedMetadata) {
        let Some(object) = &mut self.object_ref else { return };
        let RecordedMetadata { namespace, name, uid, resource_version } = metadata;
        for (known, said) in [
            (&mut object.namespace, namespace),
            (&mut object.name, name),
            (&mut object.uid, uid),
            (&mut object.resource_version, resource_version),
        ] {
            if known.is_empty() {
                *known = said;
            }
        }
    }

    /// The event as one line of JSON, with the line's end.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&WrittenEvent {
            kind: "Event",
            api_version: crate::policy::API_VERSION,
            level: self.level,
            audit_id: &self.audit_id,
            stage: self.stage,
            request_uri: &self.request_uri,
            verb: &self.verb,
            user: &self.user,
            impersonated_user: self.impersonated_user.as_ref(),
            source_ips: &self.source_ips,
            user_agent: &self.user_agent,
            object_ref: self.object_ref.as_ref(),
            response_status: self.response_status.as_ref(),
            request_object: self.request_object.as_deref(),
            response_object: self.response_object.as_deref(),
            request_received_timestamp: self.received_at.to_micro_time(),
            stage_timestamp: self.stage_at.to_micro_time(),
            annotations: &self.annotations,
        })?;
        line.push(b'\n');
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::recorded_object::{ManagedFieldsMode, recorded_json};

    fn event() -> AuditEvent {
        let user = |name: &str| UserInfo { username: Some(name.to_owned()), ..UserInfo::default() };
        AuditEvent {
            level: AuditLevel::Request,
            audit_id: "id-1".to_owned(),
            stage: AuditStage::ResponseComplete,
            request_uri: "/api/v1/namespaces/shop/pods?dryRun=All".to_owned(),
            verb: "create".to_owned(),
            user: UserInfo { groups: Some(vec!["dev".to_owned()]), ..user("ann") },
            impersonated_user: Some(user("bob")),
            source_ips: vec![[127, 0, 0, 1].into()],
            user_agent: "kubectl".to_owned(),
            object_ref: Some(AuditObjectReference {
                resource: "pods".to_owned(),
                namespace: "shop".to_owned(),
                api_version: "v1".to_owned(),
                ..AuditObjectReference::default()
            }),
            response_status: Some(AuditResponseStatus::from_code(201)),
            request_object: recorded_json(b"{\n\"kind\":\"Pod\"}", ManagedFieldsMode::Keep),
            response_object: None,
            received_at: Tick::from_micros(1_700_000_000_000_001),
            stage_at: Tick::from_micros(1_700_000_000_250_000),
            annotations: [("authorization.k8s.io/decision".to_owned(), "allow".to_owned())].into(),
        }
    }

    #[test]
    fn an_event_reads_as_upstream() {
        let mut event = event();
        event.name_object(RecordedMetadata {
            namespace: "other".to_owned(),
            name: "web".to_owned(),
            ..RecordedMetadata::default()
        });
        let line = String::from_utf8(event.to_line().unwrap()).unwrap();
        assert_eq!(line.matches('\n').count(), 1, "one line: {line}");
        expect![[r#"
            {"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"id-1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/pods?dryRun=All","verb":"create","user":{"groups":["dev"],"username":"ann"},"impersonatedUser":{"username":"bob"},"sourceIPs":["127.0.0.1"],"userAgent":"kubectl","objectRef":{"resource":"pods","namespace":"shop","name":"web","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestObject":{"kind":"Pod"},"requestReceivedTimestamp":"2023-11-14T22:13:20.000001Z","stageTimestamp":"2023-11-14T22:13:20.250000Z","annotations":{"authorization.k8s.io/decision":"allow"}}
        "#]]
        .assert_eq(&line);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let event = AuditEvent {
            user: UserInfo::default(),
            impersonated_user: None,
            source_ips: Vec::new(),
            user_agent: String::new(),
            object_ref: None,
            response_status: None,
            request_object: None,
            annotations: BTreeMap::new(),
            ..event()
        };
        let line = String::from_utf8(event.to_line().unwrap()).unwrap();
        for absent in ["sourceIPs", "objectRef", "Object", "annotations", "responseStatus"] {
            assert!(!line.contains(absent), "{absent}: {line}");
        }
        assert!(line.contains(r#""user":{}"#), "{line}");
    }
}
