//! What fuzzers try: functions that take any bytes, and panic only if this program has a bug. They
//! run in two ways.
//!
//! ```text
//!   cargo xtask fuzz TARGET      fuzz/fuzz_targets/TARGET.rs ─┐
//!                                (libFuzzer looks for inputs) ├─▶ TARGETS
//!   cargo xtask test             corpus/TARGET/* is replayed ─┘
//! ```
#![forbid(unsafe_code)]

mod api;
mod requests;

use bytes::Bytes;
use rekindle_audit::AuditPolicy;
use rekindle_encryption::Encryption;
use rekindle_store::backup::{BackupDecoder, BackupPart};
use serde_json::{Map, Value};

use api::FuzzedApi;
use requests::RequestScript;

/// What is fuzzed.
pub struct FuzzTarget {
    /// Its name, which is that of its corpus and of its libFuzzer target.
    pub name: &'static str,
    /// Tries one input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [FuzzTarget; 7] = [
    FuzzTarget { name: "requests", run: requests },
    FuzzTarget { name: "expression", run: expression },
    FuzzTarget { name: "protobuf", run: protobuf },
    FuzzTarget { name: "manifest", run: manifest },
    FuzzTarget { name: "backup", run: backup },
    FuzzTarget { name: "audit_policy", run: audit_policy },
    FuzzTarget { name: "encryption", run: encryption },
];

/// Up to eight requests to one API, as text: paths, selectors, bodies, patches, definitions,
/// policies. Each gets an answer that can be read, and what is stored can be read again.
pub fn requests(input: &[u8]) {
    let api = FuzzedApi::new();
    for request in RequestScript::new(input) {
        api.send(request);
    }
    api.check_store();
}

/// A CEL expression, as the validation of a policy and as a rule of a custom resource.
pub fn expression(input: &[u8]) {
    let Ok(expression) = std::str::from_utf8(input) else { return };
    let api = FuzzedApi::new();
    api.use_expression(expression);
    api.check_store();
}

/// A body in protobuf; the first byte says of which kind.
pub fn protobuf(input: &[u8]) {
    let Some((kind, message)) = input.split_first() else { return };
    let api = FuzzedApi::new();
    api.send_protobuf(*kind, message);
    api.check_store();
}

/// A file of manifests.
pub fn manifest(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = rekindle_manifest::objects(text);
    }
}

/// A backup. The first byte says in pieces of which size it is read.
pub fn backup(input: &[u8]) {
    let Some((size, backup)) = input.split_first() else { return };
    let mut decoder = BackupDecoder::default();
    for piece in backup.chunks(usize::from(*size) + 1) {
        decoder.push(piece);
        loop {
            match decoder.next_part() {
                Ok(Some(BackupPart::Header(_) | BackupPart::File(_) | BackupPart::Object(_))) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    let _ = decoder.finish();
}

/// The one object of a YAML file.
fn document(input: &[u8]) -> Option<Map<String, Value>> {
    rekindle_manifest::objects(std::str::from_utf8(input).ok()?).ok()?.pop()
}

/// The policy of an audit log.
pub fn audit_policy(input: &[u8]) {
    if let Some(document) = document(input) {
        let _ = AuditPolicy::from_value(Value::Object(document));
    }
}

/// The configuration of encryption, and what it says of a stored value that is the file itself.
pub fn encryption(input: &[u8]) {
    let key = "/secrets/default/a".into();
    let stored = Bytes::copy_from_slice(input);
    let _ = Encryption::none().open(&key, &stored);
    let Some(document) = document(input) else { return };
    let random = Box::new(|bytes: &mut [u8]| bytes.fill(7));
    if let Ok(encryption) = Encryption::from_value(Value::Object(document), random) {
        let _ = encryption.open(&key, &stored);
    }
}
