use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;

use super::*;

/// A client of an API that answers each list with the next of these.
fn client_of(lists: Vec<&'static str>) -> Client {
    let asked = Arc::new(AtomicUsize::new(0));
    let answer = tower::service_fn(move |request: Request<Body>| {
        assert_eq!(request.uri().path(), "/api/v1/namespaces/shop/pods");
        let list = lists[asked.fetch_add(1, Ordering::SeqCst)];
        async move { Ok::<_, Infallible>(Response::new(Full::from(list))) }
    });
    Client::new(answer, "default")
}

fn words(event: Watched<Pod>) -> String {
    match event {
        Ok(Event::Init) => "list".to_owned(),
        Ok(Event::InitApply(pod)) => pod.metadata.name.unwrap_or_default(),
        Ok(Event::InitDone) => "end of list".to_owned(),
        Ok(Event::Apply(_) | Event::Delete(_)) => "change".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_list_with_an_object_that_cannot_be_read_is_read_again() {
    let client = client_of(vec![
        r#"{"metadata":{"resourceVersion":"1"},"items":[
            {"metadata":{"name":"a"}},
            {"metadata":{"name":"b"},"spec":1},
            {"metadata":{"name":"c"}}]}"#,
        r#"{"metadata":{"resourceVersion":"2"},"items":[{"metadata":{"name":"a"},"spec":{"containers":[]}}]}"#,
    ]);
    let pods = Api::<Pod>::namespaced(client, "shop");
    let seen = watcher(pods, Config::default()).take(6).map(words);
    let seen: Vec<String> = seen.collect().await;
    assert_eq!(
        seen,
        [
            "list",
            "a",
            "watch stream failed: Error deserializing response: \
             invalid type: integer `1`, expected PodSpec",
            "list",
            "a",
            "end of list",
        ]
    );
}
