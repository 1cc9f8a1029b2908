//! Values that are encrypted, configurations that are refused, and keys that are rotated.

use std::sync::atomic::{AtomicU8, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rekindle_store::backup::{BackupDecoder, BackupPart};
use rekindle_store::memory::{DiskFault, MemoryDisk};
use rekindle_store::{
    Disk, DiskContent, DiskError, Mutation, Revision, Store, StoreLimits, WritePrecondition,
};
use serde_json::{Value, json};

use super::*;

/// Differs from call to call.
fn counted() -> RandomBytes {
    let next = AtomicU8::new(1);
    Box::new(move |bytes| bytes.fill(next.fetch_add(1, Ordering::Relaxed)))
}

fn secret(bytes: usize, fill: u8) -> String {
    STANDARD.encode(vec![fill; bytes])
}

fn key(name: &str, bytes: usize, fill: u8) -> Value {
    json!({"name": name, "secret": secret(bytes, fill)})
}

fn configuration(rules: Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": rules,
    })
}

fn encryption(providers: Value) -> Encryption {
    let rules = json!([{"resources": ["secrets"], "providers": providers}]);
    Encryption::from_value(configuration(rules), counted()).unwrap()
}

fn object(key: &str, value: &str) -> StoredObject {
    StoredObject::new(key, Revision(1), value.to_owned())
}

fn sealed(encryption: &Encryption, object: &StoredObject) -> StoredObject {
    let value = encryption.sealed(object).unwrap_or_else(|| object.value.clone());
    StoredObject { value, ..object.clone() }
}

/// Each provider with each length of a key.
fn ciphers() -> Vec<(&'static str, usize)> {
    let of = |algorithm: cipher::Algorithm| {
        algorithm.key_lengths().iter().map(move |bytes| (algorithm.name(), *bytes))
    };
    let all = [cipher::Algorithm::AesGcm, cipher::Algorithm::AesCbc, cipher::Algorithm::SecretBox];
    all.into_iter().flat_map(of).collect()
}

#[test]
fn each_provider_encrypts_with_each_length_of_key_and_no_value_twice_alike() {
    for (provider, bytes) in ciphers() {
        let encryption = encryption(json!([{provider: {"keys": [key("k1", bytes, 7)]}}]));
        for text in ["", "{}", "{\"data\":\"secret\"}", &"x".repeat(100_000)] {
            let plain = object("/secrets/default/a", text);
            let (one, two) = (sealed(&encryption, &plain), sealed(&encryption, &plain));
            assert_ne!(one.value, two.value, "{provider}");
            let prefix = format!("k8s:enc:{provider}:v1:k1:");
            assert!(one.value.starts_with(prefix.as_bytes()), "{provider}");
            let found = String::from_utf8_lossy(&one.value).contains("secret\"");
            assert!(!found, "{provider}");
            let opened = encryption.open(&one.key, &one.value).unwrap();
            assert_eq!(opened.value, plain.value, "{provider}");
            assert_eq!(opened.standing, ValueStanding::Current);
        }
        let config_map = object("/configmaps/default/a", "{}");
        assert_eq!(encryption.sealed(&config_map), None, "not of these resources");
    }
}

#[test]
fn a_changed_value_and_another_key_are_not_reported_as_a_missing_key() {
    for (provider, bytes) in ciphers() {
        let before = encryption(json!([{provider: {"keys": [key("k1", bytes, 7)]}}]));
        let stored = sealed(&before, &object("/secrets/default/a", "{\"a\":1}"));
        let other = encryption(json!([{provider: {"keys": [key("k1", bytes, 8)]}}]));
        // all that CBC can see is a wrong padding, which it is with this key
        let wrong = other.open(&stored.key, &stored.value);
        let expected = format!(
            "cannot be decrypted with key \"k1\" of provider \"{provider}\": the key is another one, or the value is damaged"
        );
        assert_eq!(wrong.unwrap_err().to_string(), expected);
        let short = stored.value.slice(..stored.value.len() - 1);
        assert_eq!(before.open(&stored.key, &short).unwrap_err().to_string(), expected);
        let renamed = encryption(json!([{provider: {"keys": [key("k2", bytes, 7)]}}]));
        assert_eq!(
            renamed.open(&stored.key, &stored.value).unwrap_err().to_string(),
            format!(
                "is encrypted with key \"k1\" of provider \"{provider}\", which the encryption configuration does not have \
                 for \"secrets\": add it there"
            )
        );
        assert!(Encryption::none().open(&stored.key, &stored.value).is_err());
    }
}

#[test]
fn aesgcm_ties_a_value_to_its_object() {
    let encryption = encryption(json!([{"aesgcm": {"keys": [key("k", 32, 7)]}}]));
    let stored = sealed(&encryption, &object("/secrets/default/a", "{}"));
    let elsewhere = "/secrets/default/b".into();
    assert!(encryption.open(&elsewhere, &stored.value).is_err());
}

#[test]
fn a_configuration_is_read_as_upstream_reads_it_or_refused_with_its_field() {
    let of = |resources: Value, providers: Value| json!([{"resources": resources, "providers": providers}]);
    let providers = |providers: Value| of(json!(["secrets"]), providers);
    let identity = json!([{"identity": {}}]);
    let resources = |resources: Value| of(resources, identity.clone());
    let keys = |keys: Value| providers(json!([{"aesgcm": {"keys": keys}}]));
    for (rules, error) in [
        (json!([]), "resources: Required value: at least one entry is needed"),
        (resources(json!([])), "resources[0].resources: Required value: name a resource"),
        (providers(json!([])), "resources[0].providers: Required value: name a provider"),
        (
            resources(json!(["Secrets"])),
            "resources[0].resources[0]: Invalid value: \"Secrets\": should not contain capital letters",
        ),
        (
            resources(json!(["*"])),
            "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group \
             or *.* to encrypt all resources",
        ),
        (
            resources(json!(["secrets", "pods/log"])),
            "resources[0].resources[1]: Invalid value: \"pods/log\": a subresource is stored with its object",
        ),
        (
            resources(json!(["sec*"])),
            "resources[0].resources[0]: Invalid value: \"sec*\": '*' stands for a whole resource or a whole group: \
             *.GROUP, *. or *.*",
        ),
        (
            resources(json!(["*.", "secrets"])),
            "resources[0].resources[1]: Invalid value: \"secrets\": an earlier entry is for it already",
        ),
        (
            resources(json!(["*.*", "*.apps"])),
            "resources[0].resources[1]: Invalid value: \"*.apps\": an earlier entry is for it already",
        ),
        (providers(json!([{}])), "resources[0].providers[0]: Required value: a provider is needed"),
        (
            providers(json!([{"identity": {}, "aescbc": {"keys": []}}])),
            "resources[0].providers[0]: Forbidden: more than one provider in one entry",
        ),
        (
            providers(json!([{"identity": {}}, {"kms": {"name": "x"}}])),
            "resources[0].providers[1].kms: Forbidden: kms is not supported: use aesgcm, secretbox or aescbc",
        ),
        (
            keys(json!([])),
            "resources[0].providers[0].aesgcm.keys: Required value: at least one key is needed",
        ),
        (
            keys(json!([{"secret": secret(32, 1)}])),
            "resources[0].providers[0].aesgcm.keys[0].name: Required value: a key has a name",
        ),
        (
            keys(json!([key("a:b", 32, 1)])),
            "resources[0].providers[0].aesgcm.keys[0].name: Invalid value: \"a:b\": has a colon",
        ),
        (
            keys(json!([key("a", 32, 1), key("a", 32, 2)])),
            "resources[0].providers[0].aesgcm.keys[1].name: Duplicate value: \"a\"",
        ),
        (
            keys(json!([{"name": "a", "secret": "hush?"}])),
            "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: it must be base64",
        ),
        (
            keys(json!([key("a", 31, 1)])),
            "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: it has 31 bytes, not one of [16, 24, 32]",
        ),
        (
            providers(json!([{"secretbox": {"keys": [key("a", 16, 1)]}}])),
            "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: it has 16 bytes, not one of [32]",
        ),
    ] {
        let refused = Encryption::from_value(configuration(rules), counted());
        assert_eq!(refused.unwrap_err().to_string(), error);
    }
    let too_long = keys(json!([key(&"k".repeat(257), 32, 1)]));
    let refused = Encryption::from_value(configuration(too_long), counted()).unwrap_err();
    assert!(refused.to_string().ends_with("Too long: may not be more than 256 bytes"));
    let unknown = Encryption::from_value(configuration(json!([{"provider": []}])), counted());
    assert!(unknown.unwrap_err().to_string().contains("unknown field `provider`"));
    let other = json!({"apiVersion": "v1", "kind": "Secret"});
    assert_eq!(
        Encryption::from_value(other, counted()).unwrap_err().to_string(),
        "this is \"Secret\" in \"v1\", not EncryptionConfiguration in apiserver.config.k8s.io/v1"
    );
}

#[test]
fn the_first_rule_that_names_a_resource_counts() {
    let gcm = |name: &str| json!([{"aesgcm": {"keys": [key(name, 32, 7)]}}]);
    let rules = json!([
        {"resources": ["events"], "providers": [{"identity": {}}]},
        {"resources": ["secrets", "kites.example.org"], "providers": gcm("one")},
        {"resources": ["*."], "providers": gcm("core")},
        {"resources": ["*.apps"], "providers": gcm("apps")},
        {"resources": ["*.*"], "providers": gcm("all")},
    ]);
    let encryption = Encryption::from_value(configuration(rules), counted()).unwrap();
    for (key, name) in [
        ("/events/default/a", None),
        ("/secrets/default/a", Some("one")),
        ("/kites.example.org/default/a", Some("one")),
        ("/configmaps/default/a", Some("core")),
        ("/namespaces/a", Some("core")),
        ("/deployments.apps/default/a", Some("apps")),
        ("/kites.apps.example.org/default/a", Some("all")),
    ] {
        let sealed = encryption.sealed(&object(key, "{}"));
        let found = sealed.as_ref().map(|sealed| names_in(sealed).1);
        assert_eq!(found.as_deref(), name, "{key}");
    }
}

/// Writes a Secret and a config map, and gives what lies on the disk.
fn written(encryption: Encryption) -> DiskContent {
    let mut below = MemoryDisk::new();
    let disk = EncryptedDisk::new(below.clone(), encryption);
    let (store, mut committer) = Store::open(disk, StoreLimits::default()).unwrap();
    for key in ["/secrets/default/a", "/configmaps/default/a"] {
        let value = |_: Revision| Bytes::from_static(b"{\"k\":\"hush\"}");
        let _pending = store.write(key, WritePrecondition::Absent, Mutation::Put(&value)).unwrap();
    }
    committer.commit_pending().unwrap();
    content(&mut below)
}

fn content(disk: &mut MemoryDisk) -> DiskContent {
    let mut content = disk.load().unwrap();
    content.objects.sort_by(|a, b| a.key.cmp(&b.key));
    content
}

fn holds_text(content: &DiskContent, key: &str) -> bool {
    let object = content.objects.iter().find(|object| object.key.as_str() == key).unwrap();
    String::from_utf8_lossy(&object.value).contains("hush")
}

const SECRET: &str = "/secrets/default/a";
const CONFIG_MAP: &str = "/configmaps/default/a";

#[test]
fn a_store_and_its_backups_hold_secrets_in_no_readable_form() {
    let gcm = || encryption(json!([{"aesgcm": {"keys": [key("k", 32, 7)]}}]));
    let on_disk = written(gcm());
    assert!(!holds_text(&on_disk, SECRET));
    assert!(holds_text(&on_disk, CONFIG_MAP));

    let disk = EncryptedDisk::new(MemoryDisk::holding(on_disk), gcm());
    let (store, _committer) = Store::open(disk, StoreLimits::default()).unwrap();
    assert_eq!(&store.get(SECRET).unwrap().value[..], b"{\"k\":\"hush\"}");
    let mut decoder = BackupDecoder::default();
    let mut objects = Vec::new();
    for bytes in store.backup(1).unwrap() {
        decoder.push(&bytes.unwrap());
        while let Some(part) = decoder.next_part().unwrap() {
            if let BackupPart::Object(object) = part {
                objects.push(object);
            }
        }
    }
    let content = DiskContent { revision: Revision(2), objects };
    assert!(!holds_text(&content, SECRET));
    assert!(holds_text(&content, CONFIG_MAP));
}

#[test]
fn a_start_with_another_configuration_encrypts_anew_what_it_must() {
    let plain = || json!({"identity": {}});
    let of = |name: &str, fill: u8| json!({"aesgcm": {"keys": [key(name, 32, fill)]}});
    let two = json!({"aesgcm": {"keys": [key("new", 32, 2), key("old", 32, 1)]}});
    let mut on_disk = written(Encryption::none());
    assert!(holds_text(&on_disk, SECRET));
    let revisions = |content: &DiskContent| {
        let of_objects: Vec<Revision> = content.objects.iter().map(|o| o.revision).collect();
        (content.revision, of_objects)
    };
    let before = revisions(&on_disk);
    for (providers, name) in [
        (json!([of("old", 1), plain()]), Some("old")),
        (json!([two]), Some("new")),
        (json!([of("new", 2)]), Some("new")),
        (json!([plain(), of("new", 2)]), None),
    ] {
        let mut below = MemoryDisk::holding(on_disk);
        let loaded = EncryptedDisk::new(below.clone(), encryption(providers)).load().unwrap();
        assert!(holds_text(&loaded, SECRET));
        on_disk = content(&mut below);
        assert_eq!(revisions(&on_disk), before);
        let stored = on_disk.objects.iter().find(|object| object.key.as_str() == SECRET).unwrap();
        let found = is_sealed(&stored.value).then(|| names_in(&stored.value).1);
        assert_eq!(found.as_deref(), name);
    }
    assert!(holds_text(&on_disk, SECRET));
}

/// After a failed commit a disk may write what was there before.
#[test]
fn a_commit_that_fails_leaves_no_readable_secret_behind() {
    let mut below = MemoryDisk::new();
    let gcm = encryption(json!([{"aesgcm": {"keys": [key("k", 32, 7)]}}]));
    let disk = EncryptedDisk::new(below.clone(), gcm);
    let (store, mut committer) = Store::open(disk, StoreLimits::default()).unwrap();
    let value = |_: Revision| Bytes::from_static(b"{\"k\":\"hush\"}");
    let mut put = |key: &str, fault: Option<DiskFault>| {
        let _pending = store.write(key, WritePrecondition::Any, Mutation::Put(&value)).unwrap();
        fault.into_iter().for_each(|fault| below.inject(fault));
        committer.commit_pending().is_ok()
    };
    assert!(put(SECRET, None));
    assert!(!put(SECRET, Some(DiskFault::InDoubt)));
    assert!(put(CONFIG_MAP, None));
    let on_disk = content(&mut below);
    assert_eq!(on_disk.objects.len(), 2);
    assert!(!holds_text(&on_disk, SECRET));
}

#[test]
fn without_its_key_a_store_is_not_opened_and_not_changed() {
    let gcm = encryption(json!([{"aesgcm": {"keys": [key("k", 32, 7)]}}]));
    let on_disk = written(gcm);
    let mut below = MemoryDisk::holding(on_disk.clone());
    let refused = EncryptedDisk::new(below.clone(), Encryption::none()).load().unwrap_err();
    assert!(matches!(&refused, DiskError::Encrypted { key, .. } if key.as_str() == SECRET));
    assert_eq!(
        refused.to_string(),
        "\"/secrets/default/a\" is encrypted with key \"k\" of provider \"aesgcm\": give the encryption configuration \
         that has it"
    );
    assert_eq!(content(&mut below), on_disk);
}

#[test]
fn nothing_shows_a_key() {
    let text = format!(
        "{:?}",
        encryption(json!([
            {"aesgcm": {"keys": [{"name": "k", "secret": STANDARD.encode([b'S'; 32])}]}},
            {"identity": {}},
        ]))
    );
    assert_eq!(text, "[\"k8s:enc:aesgcm:v1:k:\", \"identity\"]");

    const KEY: &str = "123454321";
    let in_keys = |keys: Value| json!([{"aesgcm": {"keys": keys}}]);
    let at = "resources[0].providers[0].aesgcm";
    for (providers, path) in [
        (in_keys(json!([KEY])), format!("{at}.keys[0]")),
        (in_keys(json!([{"name": "k", "secret": 123_454_321}])), format!("{at}.keys[0]")),
        (in_keys(json!([{"name": "k", "secret:123454321": null}])), format!("{at}.keys[0]")),
        (in_keys(json!([{"name": "k", "secret": KEY}])), format!("{at}.keys[0].secret")),
        (in_keys(json!(KEY)), format!("{at}.keys")),
        (json!([{"aesgcm": KEY}]), at.to_owned()),
    ] {
        let rules = json!([{"resources": ["secrets"], "providers": providers}]);
        let refused = Encryption::from_value(configuration(rules), counted()).unwrap_err();
        let EncryptionConfigError::Field { path: found, problem } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(found, path, "{problem}");
        assert!(problem.starts_with("Invalid value: ") && !problem.contains(KEY), "{problem}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0..3usize) {
        let (provider, _) = [ciphers()[0], ciphers()[3], ciphers()[6]][at];
        let encryption = encryption(json!([{provider: {"keys": [key("k", 32, 7)]}}]));
        for prefix in [String::new(), "k8s:enc:".to_owned(), format!("k8s:enc:{provider}:v1:k:")] {
            let stored = Bytes::from([prefix.as_bytes(), &bytes].concat());
            let _ = encryption.open(&SECRET.into(), &stored);
        }
    }

    #[test]
    fn what_is_encrypted_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        for (provider, length) in ciphers() {
            let encryption = encryption(json!([{provider: {"keys": [key("k", length, 7)]}}]));
            let value = Bytes::from(bytes.clone());
            let plain = StoredObject { value, ..object(SECRET, "") };
            let stored = sealed(&encryption, &plain);
            prop_assert_eq!(encryption.open(&stored.key, &stored.value).unwrap().value, plain.value);
        }
    }
}
