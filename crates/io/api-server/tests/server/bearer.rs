//! Bearer tokens at the front: who a request belongs to that has no certificate.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use rekindle_api::Api;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api_server::pki::TokenKey;
use rekindle_api_server::{Front, InProcessService, SystemClock};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use serde_json::Value;
use tower::ServiceExt;

use crate::memory_front;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

fn front() -> Front {
    let api = Api::new(memory_front::api_parts());
    api.set_token_keys(TokenKeys::new(TokenKey::ephemeral().unwrap()));
    memory_front::front(api, &SystemClock::start())
}

/// The code and body of the answer to a POST of `{}` (a GET where there is nothing to post).
async fn send(service: &InProcessService, target: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let method = if target.starts_with("/api") { "POST" } else { "GET" };
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if method == "POST" { "{}" } else { "" };
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_token_counts_where_there_is_no_certificate_and_a_wrong_one_is_refused_everywhere() {
    let front = front();
    let admin = front.in_process_service(UserInfo::internal("admin"));
    let (_, made) = send(&admin, TOKEN, &[]).await;
    let token = made["status"]["token"].as_str().unwrap();
    let bearer = format!("Bearer {token}");
    let nobody = InProcessService::new(front.clone(), ClientIdentity::Anonymous);
    let name = |answer: &Value| answer["status"]["userInfo"]["username"].clone();

    let (code, who) = send(&nobody, WHO, &[("authorization", &bearer)]).await;
    assert_eq!((code, name(&who)), (201, "system:serviceaccount:default:default".into()));
    let small = bearer.replace("Bearer", "bearer");
    assert_eq!(send(&nobody, WHO, &[("authorization", &small)]).await.0, 201);
    // whoever is known by the connection stays who they are
    let (_, who) = send(&admin, WHO, &[("authorization", &bearer)]).await;
    assert_eq!(name(&who), Value::from("admin"));
    // what is no token of ours is refused, also where nobody needs one
    for wrong in ["Bearer x", "Bearer a.b.c", &format!("{bearer}x")] {
        for target in [WHO, "/healthz"] {
            let (code, _) = send(&nobody, target, &[("authorization", wrong)]).await;
            assert_eq!(code, 401, "{wrong} {target}");
        }
    }
    // what is no bearer token says nothing
    assert_eq!(send(&nobody, "/healthz", &[("authorization", "Basic eDp5")]).await.0, 200);
    assert_eq!(send(&nobody, WHO, &[("authorization", "Basic eDp5")]).await.0, 401);
    // a service account becomes nobody else
    let as_admin = [("authorization", bearer.as_str()), ("impersonate-user", "admin")];
    assert_eq!(send(&nobody, WHO, &as_admin).await.0, 403);
}
