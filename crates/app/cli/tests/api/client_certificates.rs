//! Kubeconfigs for users, and how they end; the keys of tokens while an engine runs.
use std::io::Read;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rekindle_testkit::{Engine, PATIENCE, text};

/// What kubectl says to the owner of a kubeconfig.
fn with_kubeconfig(engine: &Engine, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut kubectl = engine.kubectl_command(arguments);
    // a later engine listens at another port
    kubectl.args(["--server", &engine.api]).env("KUBECONFIG", kubeconfig).output().unwrap()
}

#[track_caller]
fn rekindle(engine: &Engine, arguments: &[&str]) -> String {
    let done = engine.rekindle(arguments);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

/// Asks again until it is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
    }
}

/// Whether the API knows who shows this.
fn is_known(answer: &Output) -> bool {
    let refused = text(&answer.stderr).contains("Unauthorized");
    assert!(answer.status.success() || refused, "{}", text(&answer.stderr));
    answer.status.success()
}

#[test]
fn a_user_gets_a_kubeconfig_and_loses_it() {
    let mut engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jane");
    let create =
        ["kubeconfig", "create", "--user", "jane", "--group", "dev", "--ttl", "1h", "--file"];
    let create = [&create[..], &[file.to_str().unwrap()]].concat();
    rekindle(&engine, &create);
    let who = with_kubeconfig(&engine, &file, &["auth", "whoami", "-o", "json"]);
    let who: serde_json::Value = serde_json::from_slice(&who.stdout).unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "jane");
    assert_eq!(who["status"]["userInfo"]["groups"][0], "dev");
    engine.kubectl(&["create", "clusterrolebinding", "dev", "--clusterrole=view", "--group=dev"]);
    let list = ["get", "configmaps"];
    assert!(is_known(&with_kubeconfig(&engine, &file, &list)));

    // a watch is open when the certificate is revoked
    let watch = ["get", "configmaps", "--watch", "--output=name"];
    let mut watch = engine.kubectl_command(&watch);
    let watch = watch.env("KUBECONFIG", &file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = watch.spawn().unwrap();
    let mut output = watch.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    let said = rekindle(&engine, &["kubeconfig", "revoke", "--user", "jane"]);
    assert!(said.contains("\"jane\"") && said.contains("are void"), "{said}");
    output.read_to_end(&mut Vec::new()).unwrap();
    watch.wait().unwrap();
    assert!(!is_known(&with_kubeconfig(&engine, &file, &list)));

    // so it stays for the next engine, and what is issued later is good
    engine.kill();
    engine.launch(&[]);
    assert!(!is_known(&with_kubeconfig(&engine, &file, &list)));
    rekindle(&engine, &create);
    assert!(is_known(&with_kubeconfig(&engine, &file, &list)));
}

#[test]
fn an_admin_whose_certificate_is_revoked_has_a_new_kubeconfig() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    let leaked = folder.path().join("leaked");
    std::fs::copy(engine.kubeconfig(), &leaked).unwrap();
    // who connects again and again meets the new one
    let mut watch = engine.kubectl_command(&["get", "namespaces", "--watch", "--output=name"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = watch.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    rekindle(&engine, &["kubeconfig", "revoke", "--user", "kubernetes-admin"]);
    output.read_to_end(&mut Vec::new()).unwrap();
    watch.wait().unwrap();
    assert!(!is_known(&with_kubeconfig(&engine, &leaked, &["get", "namespaces"])));
    until("the kubeconfig is another one", || {
        std::fs::read(engine.kubeconfig()).unwrap() != std::fs::read(&leaked).unwrap()
    });
    engine.kubectl(&["get", "namespaces"]);
}

/// As tools do that keep a token of an account.
#[test]
fn a_secret_gets_a_token_that_is_good_until_it_is_deleted() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: Secret
metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
",
    );
    let held = engine.until_one("secret/robot", |secret| secret["data"]["token"].is_string());
    let token = held["data"]["token"].as_str().unwrap();
    let token = String::from_utf8(STANDARD.decode(token).unwrap()).unwrap();
    let whoami = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    let who = super::identity::with_token(&engine, &token, &whoami);
    assert_eq!(text(&who.stdout), "system:serviceaccount:default:robot");
    engine.kubectl(&["delete", "secret", "robot"]);
    assert!(!is_known(&super::identity::with_token(&engine, &token, &whoami)));
}

#[test]
fn tokens_of_the_key_before_are_good_until_it_is_retired() {
    let engine = Engine::start();
    let token = || engine.kubectl(&["create", "token", "default"]).trim().to_owned();
    let is_good =
        |token: &str| is_known(&super::identity::with_token(&engine, token, &["auth", "whoami"]));
    let keys = || -> usize {
        let keys = engine.kubectl(&["get", "--raw", "/openid/v1/jwks"]);
        let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
        keys["keys"].as_array().unwrap().len()
    };
    let first = token();
    rekindle(&engine, &["token-key", "rotate"]);
    until("both keys are known", || keys() == 2);
    let second = token();
    assert!(is_good(&first) && is_good(&second));
    let refused = engine.rekindle(&["token-key", "rotate"]);
    assert!(text(&refused.stderr).contains("a rotation is under way"), "{}", text(&refused.stderr));
    let refused = engine.rekindle(&["token-key", "retire"]);
    assert!(text(&refused.stderr).contains("more minutes"), "{}", text(&refused.stderr));
    rekindle(&engine, &["token-key", "retire", "--force"]);
    until("one key is known", || keys() == 1);
    assert!(!is_good(&first) && is_good(&second));
}
