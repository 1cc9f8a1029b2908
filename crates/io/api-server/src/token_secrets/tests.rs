use std::time::Duration;

use http::StatusCode;
use rekindle_api::auth::AuthorizationMode;
use serde_json::{Value, json};

use super::*;
use crate::SystemClock;
use crate::memory_front::{ask, call, front_in_memory};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str, account: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    })
}

/// Asks for a Secret until the answer is so.
async fn until(front: &Front, name: &str, is_so: impl Fn(StatusCode, &Value) -> bool) -> Value {
    let path = format!("{SECRETS}/{name}");
    let ask = async {
        loop {
            let (status, answer) = ask(front, Method::GET, &path, &Value::Null).await;
            if is_so(status, &answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ask).await.expect(name)
}

#[tokio::test]
async fn a_secret_is_filled_in_and_goes_with_its_account() {
    let clock = SystemClock::start();
    let front = front_in_memory(&clock, AuthorizationMode::Rbac);
    let named = |name: &str| json!({"metadata": {"name": name}});
    call(&front, Method::POST, "/api/v1/namespaces", &named("default")).await;
    call(&front, Method::POST, ACCOUNTS, &named("robot")).await;
    // before anyone looks
    let made = call(&front, Method::POST, SECRETS, &secret("early", "robot")).await;
    assert_eq!(made["data"], Value::Null);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let keeping = tokio::spawn(keep_token_secrets(front.clone(), async { drop(stopped.await) }));
    let is_filled = |_, secret: &Value| secret["data"]["token"].is_string();
    until(&front, "early", is_filled).await;
    call(&front, Method::POST, SECRETS, &secret("late", "robot")).await;
    let late = until(&front, "late", is_filled).await;
    let keys: Vec<&String> = late["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ca.crt", "namespace", "token"]);
    // the token is taken away, and another one comes
    let mut emptied = late.clone();
    emptied["data"] = json!({});
    call(&front, Method::PUT, &format!("{SECRETS}/late"), &emptied).await;
    let again = until(&front, "late", is_filled).await;
    assert_ne!(again["data"]["token"], late["data"]["token"]);

    let is_gone = |status: StatusCode, _: &Value| status == StatusCode::NOT_FOUND;
    call(&front, Method::POST, SECRETS, &secret("stray", "stranger")).await;
    until(&front, "stray", is_gone).await;
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    call(&front, Method::DELETE, &format!("{ACCOUNTS}/robot"), &options).await;
    until(&front, "early", is_gone).await;
    until(&front, "late", is_gone).await;
    drop(stop);
    keeping.await.unwrap();
}
