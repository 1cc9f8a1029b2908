//! `--encryption-provider-config`: what lies in the data directory, and what an engine makes of it
//! with other keys, without them, and after a kill.
use std::path::{Path, PathBuf};
use std::process::Output;

use rekindle_testkit::{Engine, text};

const PLAIN: &str = "a-password-that-is-to-be-found-nowhere";
/// 32 bytes each.
const OLD: &str = "b2xkIGtleSBvZiBleGFjdGx5IHRoaXJ0eS10d28gYnk=";
const NEW: &str = "bmV3IGtleSBvZiBleGFjdGx5IHRoaXJ0eS10d28gYnk=";

/// Writes a configuration with these keys, the first for new values.
fn configure(folder: &Path, resources: &str, keys: &[(&str, &str)]) -> PathBuf {
    let keys: Vec<String> =
        keys.iter().map(|(name, key)| format!("{{name: {name}, secret: {key}}}")).collect();
    let file = folder.join("encryption.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ['{resources}']
  providers:
  - secretbox: {{keys: [{}]}}
  - identity: {{}}
",
        keys.join(", ")
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn argument(file: &Path) -> [&str; 2] {
    ["--encryption-provider-config", file.to_str().unwrap()]
}

fn make_secret(engine: &Engine) {
    let literal = format!("--from-literal=password={PLAIN}");
    engine.kubectl(&["create", "secret", "generic", "db", &literal]);
}

/// The secret as the API gives it.
fn password(engine: &Engine) -> String {
    let template = "go-template={{index .data \"password\" | base64decode}}";
    engine.kubectl(&["get", "secret", "db", "-o", template])
}

/// Whether this text is anywhere in the file: a store or a backup.
fn holds(file: &Path, what: &str) -> bool {
    let bytes = std::fs::read(file).unwrap();
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

/// The Secret's data are base64 in the stored JSON.
fn is_readable(file: &Path) -> bool {
    holds(file, "YS1wYXNzd29yZC10aGF0LWlzLXRvLWJlLWZvdW5kLW5vd2hlcmU")
}

fn end(engine: &mut Engine) {
    assert!(engine.rekindle(&["down"]).status.success());
    engine.wait();
}

/// An engine that encrypts with the key `k1`, and has the Secret.
struct BackedUpEngine {
    engine: Engine,
    configuration: PathBuf,
    backup: PathBuf,
}

impl BackedUpEngine {
    /// Starts it, with configuration and backup in this folder.
    fn start(folder: &Path, resources: &str) -> Self {
        let configuration = configure(folder, resources, &[("k1", OLD)]);
        let engine = Engine::start_with(&argument(&configuration));
        make_secret(&engine);
        let backup = folder.join("backup");
        let output = engine.rekindle(&["backup", backup.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        Self { engine, configuration, backup }
    }
}

#[track_caller]
fn fails(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn secrets_are_readable_in_the_api_and_neither_in_the_store_nor_in_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let BackedUpEngine { mut engine, configuration, backup } =
        BackedUpEngine::start(folder.path(), "secrets");
    assert_eq!(password(&engine), PLAIN);
    let store = engine.data_dir().join("store.redb");
    for file in [&store, &backup] {
        assert!(holds(file, "k8s:enc:secretbox:v1:k1:"), "{}", file.display());
        assert!(!is_readable(file), "{}", file.display());
    }

    // what a killed engine left is ended with its key, which no argument names
    engine.kill();
    let output = engine.rekindle(&["down"]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let check = |arguments: &[&str]| {
        let output = engine.rekindle(&[&["store", "check"], arguments].concat());
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    assert!(check(&[]).starts_with("1 encrypted object was not looked into"), "{}", check(&[]));
    assert!(!check(&argument(&configuration)).contains("encrypted"));

    // a restore needs no key, and leaves values as they are in the backup
    let output = engine.rekindle(&["restore", backup.to_str().unwrap(), "--force"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!is_readable(&store));
    engine.launch(&argument(&configuration));
    assert_eq!(password(&engine), PLAIN);
}

#[test]
fn keys_are_rotated_by_a_start_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::start();
    let store = engine.data_dir().join("store.redb");
    make_secret(&engine);
    assert!(is_readable(&store), "else the comparison below would find nothing");
    let revision = engine.get("secret/db")["metadata"]["resourceVersion"].clone();
    for (keys, prefix) in [
        (&[("old", OLD)][..], "k8s:enc:secretbox:v1:old:"),
        (&[("new", NEW), ("old", OLD)], "k8s:enc:secretbox:v1:new:"),
        (&[("new", NEW)], "k8s:enc:secretbox:v1:new:"),
    ] {
        end(&mut engine);
        engine.launch(&argument(&configure(folder.path(), "secrets", keys)));
        assert_eq!(password(&engine), PLAIN, "{prefix}");
        assert_eq!(engine.get("secret/db")["metadata"]["resourceVersion"], revision);
        assert!(holds(&store, prefix));
    }
    end(&mut engine);

    let refused = fails(&engine.up_command(&[]).output().unwrap());
    assert!(
        refused.contains(
            "\"/secrets/default/db\" is encrypted with key \"new\" of provider \"secretbox\""
        ),
        "{refused}"
    );
    let other = configure(folder.path(), "secrets", &[("new", OLD)]);
    let refused = fails(&engine.up_command(&argument(&other)).output().unwrap());
    assert!(refused.contains("the key is another one, or the value is damaged"), "{refused}");
    let bad = configure(folder.path(), "secrets", &[("new", "c2hvcnQ=")]);
    let refused = fails(&engine.up_command(&argument(&bad)).output().unwrap());
    assert!(
        refused.contains("secretbox.keys[0].secret: Invalid value: it has 5 bytes"),
        "{refused}"
    );

    let right = configure(folder.path(), "secrets", &[("new", NEW)]);
    engine.launch(&argument(&right));
    assert_eq!(password(&engine), PLAIN);
}

#[test]
fn a_backup_in_which_everything_is_encrypted_is_restored_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let BackedUpEngine { mut engine, configuration, backup } =
        BackedUpEngine::start(folder.path(), "*.*");
    let backup = backup.to_str().unwrap();
    end(&mut engine);
    let refused = fails(&engine.rekindle(&["restore", backup, "--force"]));
    assert!(refused.contains("read the range of Services: "), "{refused}");
    assert!(refused.contains("is encrypted with key \"k1\""), "{refused}");
    let arguments = ["restore", backup, "--force"].into_iter().chain(argument(&configuration));
    let restored = engine.rekindle(&arguments.collect::<Vec<_>>());
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    engine.launch(&argument(&configuration));
    assert_eq!(password(&engine), PLAIN);
}
