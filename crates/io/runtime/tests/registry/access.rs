//! Credentials: who gets them, and who does not.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rekindle_runtime::image::registry::{Keyring, Login};

use crate::fake::{Asked, FakeRegistry, Reply, digest};
use crate::images::{push, tar_of};
use crate::{World, password};

fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

fn keyring(registry: &FakeRegistry, logins: &[Login]) -> Keyring {
    let mut keyring = Keyring::new();
    for login in logins {
        keyring.add(&registry.address.to_string(), login.clone());
    }
    keyring
}

/// A rule that wants this header for everything.
fn wants(
    header: &'static str,
    value: String,
    challenge: String,
) -> impl Fn(&Asked) -> Option<Reply> {
    move |asked| {
        (asked.header(header) != value)
            .then(|| Reply::new(401, "").with("www-authenticate", challenge.clone()))
    }
}

#[tokio::test]
async fn a_password_is_sent_when_it_is_asked_for() {
    let rule = wants("authorization", basic("me", "secret"), "Basic realm=x".to_owned());
    let registry = FakeRegistry::with_rule(rule).await;
    push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
    let (world, image) = (World::new(), registry.image("app:v1"));
    let logins = [password("me", "wrong"), password("me", "secret")];
    world.puller.pull(&image, &keyring(&registry, &logins)).await.unwrap();
    assert_eq!(registry.requests()[0].header("authorization"), "", "not before it is asked for");
    let tried: Vec<String> = registry.requests()[1..3]
        .iter()
        .map(|asked| asked.header("authorization").to_owned())
        .collect();
    assert_eq!(tried, [basic("me", "wrong"), basic("me", "secret")], "one after the other");
}

#[tokio::test]
async fn without_the_right_login_the_pull_is_denied_and_no_secret_is_told() {
    let rule = wants("authorization", basic("me", "secret"), "Basic realm=x".to_owned());
    let registry = FakeRegistry::with_rule(rule).await;
    let (world, image) = (World::new(), registry.image("app:v1"));
    let error = world.fails(&image).await;
    assert!(error.contains("access denied") && error.contains("none were given"), "{error}");
    let logins = [password("me", "hidden-1"), password("you", "hidden-2")];
    let error = world.puller.pull(&image, &keyring(&registry, &logins)).await.unwrap_err();
    let error = format!("{} {error:?}", error.to_runtime(&image));
    assert!(error.contains("2 logins were tried") && !error.contains("hidden"), "{error}");
}

/// What one login may not see is not found: so say registries, and so do token services.
#[tokio::test]
async fn what_one_login_does_not_find_the_next_one_does() {
    let registry = FakeRegistry::with_rule(|asked| match asked.header("authorization") {
        "" => Some(Reply::new(401, "").with("www-authenticate", "Basic realm=x")),
        header if header == basic("me", "secret") => None,
        _ => Some(Reply::new(404, "")),
    })
    .await;
    push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
    let (world, image) = (World::new(), registry.image("app:v1"));
    let others = [password("you", "a"), password("they", "b")];
    let error = world.puller.pull(&image, &keyring(&registry, &others)).await.unwrap_err();
    let error = error.to_runtime(&image).to_string();
    assert!(error.contains("not found"), "{error}");
    let tried = |registry: &FakeRegistry| {
        let asked = registry.requests();
        asked.iter().filter(|asked| !asked.header("authorization").is_empty()).count()
    };
    assert_eq!(tried(&registry), 2, "each once");
    let [you, they] = others;
    let logins = [you, they, password("me", "secret")];
    world.puller.pull(&image, &keyring(&registry, &logins)).await.unwrap();
}

#[tokio::test]
async fn a_token_service_that_fails_for_one_login_is_asked_with_the_next() {
    let tokens = FakeRegistry::with_rule(|asked| {
        let granted = asked.header("authorization") == basic("me", "secret");
        Some(if granted { Reply::new(200, r#"{"token":"good"}"#) } else { Reply::new(404, "{}") })
    })
    .await;
    let realm = format!(r#"Bearer realm="http://{}/token",service="s""#, tokens.address);
    let registry =
        FakeRegistry::with_rule(wants("authorization", "Bearer good".to_owned(), realm)).await;
    push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
    let (world, image) = (World::new(), registry.image("app:v1"));
    let other = password("you", "a");
    let error = world.puller.pull(&image, &keyring(&registry, std::slice::from_ref(&other))).await;
    let error = format!("{:?}", error.unwrap_err());
    assert!(error.contains("404"), "the service's own answer is told: {error}");
    let logins = [other, password("me", "secret")];
    world.puller.pull(&image, &keyring(&registry, &logins)).await.unwrap();
}

/// A registry with a token service beside it. It takes the tokens that begin with `good`; each is
/// good for `uses` requests.
async fn with_tokens(uses: usize) -> (FakeRegistry, FakeRegistry) {
    let tokens = FakeRegistry::with_rule(|asked| {
        let granted = asked.header("authorization") == basic("me", "secret")
            || asked.body.contains("refresh_token=refresh%2Fme");
        Some(match (granted, asked.header("authorization")) {
            (true, _) => Reply::new(200, format!(r#"{{"token":"good{}"}}"#, asked.before)),
            (false, "") => Reply::new(200, r#"{"access_token":"anonymous"}"#),
            (false, _) => Reply::new(401, "{}"),
        })
    })
    .await;
    let realm = format!(
        r#"Bearer realm="http://{}/token?a=b",service="the registry",scope="repository:app:pull""#,
        tokens.address
    );
    let used = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, usize>::new()));
    let registry = FakeRegistry::with_rule(move |asked| {
        let token = asked.header("authorization").to_owned();
        let mut used = used.lock().unwrap();
        let count = used.entry(token.clone()).or_default();
        *count += 1;
        let good = token.starts_with("Bearer good") && *count <= uses;
        (!good).then(|| Reply::new(401, "").with("www-authenticate", realm.clone()))
    })
    .await;
    (registry, tokens)
}

#[tokio::test]
async fn a_token_is_got_for_the_login_and_used_for_everything() {
    for login in [password("me", "secret"), Login::IdentityToken("refresh/me".to_owned())] {
        let (registry, tokens) = with_tokens(1000).await;
        push(&registry, "app", "v1", &[tar_of(&[("f", b"1")]), tar_of(&[("g", b"1")])]);
        let (world, image) = (World::new(), registry.image("app:v1"));
        world.puller.pull(&image, &keyring(&registry, &[login])).await.unwrap();
        let asked = tokens.requests();
        assert_eq!(asked.len(), 1, "one token for manifest, config and layers");
        let query = format!("{}{}", asked[0].target, asked[0].body);
        assert!(query.contains("service=the%20registry"), "{query}");
        assert!(query.contains("scope=repository%3Aapp%3Apull"), "{query}");
        let passwords = registry.requests();
        assert!(passwords.iter().all(|a| !a.header("authorization").starts_with("Basic")));
    }
}

#[tokio::test]
async fn a_token_that_expires_in_the_middle_is_got_anew() {
    let (registry, tokens) = with_tokens(2).await;
    let layers = [tar_of(&[("f", b"1")]), tar_of(&[("g", b"1")]), tar_of(&[("h", b"1")])];
    push(&registry, "app", "v1", &layers);
    let (world, image) = (World::with(|s| s.layers_at_once = 1), registry.image("app:v1"));
    world.puller.pull(&image, &keyring(&registry, &[password("me", "secret")])).await.unwrap();
    assert_eq!(tokens.asked().len(), 3, "5 requests, 2 for each token");
}

#[tokio::test]
async fn an_anonymous_token_that_is_not_enough_is_a_denial() {
    let (registry, tokens) = with_tokens(1000).await;
    let error = World::new().fails(&registry.image("app:v1")).await;
    assert!(error.contains("access denied"), "{error}");
    assert_eq!(tokens.asked().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_credentials() {
    let layer = tar_of(&[("f", b"1")]);
    let store = FakeRegistry::start().await;
    store.add_blob(&layer);
    let (name, elsewhere) = (digest(&layer), store.address);
    let challenge = wants("authorization", basic("me", "secret"), "Basic realm=x".to_owned());
    let registry = FakeRegistry::with_rule(move |asked| {
        challenge(asked).or_else(|| {
            let to = format!("http://{elsewhere}/v2/cdn/blobs/{name}?signature=x");
            asked.is("GET", &name).then(|| Reply::new(307, "").with("location", to))
        })
    })
    .await;
    push(&registry, "app", "v1", std::slice::from_ref(&layer));
    let (world, image) = (World::new(), registry.image("app:v1"));
    let login = keyring(&registry, &[password("me", "secret")]);
    world.puller.pull(&image, &login).await.unwrap();
    let asked = store.requests();
    assert!(asked[0].target.ends_with("?signature=x"));
    assert_eq!(asked[0].header("authorization"), "");
}

#[tokio::test]
async fn redirects_that_lead_nowhere_are_refused() {
    let cases = [("ftp://x/y", "neither https nor http"), ("/v2/app/manifests/v1", "too often")];
    for (to, reason) in cases {
        let registry =
            FakeRegistry::with_rule(move |_| Some(Reply::new(302, "").with("location", to))).await;
        let error = World::new().fails(&registry.image("app:v1")).await;
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_ends_the_pull() {
    let layer = tar_of(&[("f", b"1")]);
    let (store, certificate) = FakeRegistry::with_tls().await;
    store.add_blob(&layer);
    let (name, elsewhere) = (digest(&layer), store.address);
    let registry = FakeRegistry::with_rule(move |asked| {
        let to = format!("https://{elsewhere}/v2/cdn/blobs/{name}");
        asked.is("GET", &name).then(|| Reply::new(307, "").with("location", to))
    })
    .await;
    push(&registry, "app", "v1", std::slice::from_ref(&layer));
    let image = registry.image("app:v1");
    let error = World::new().fails(&image).await;
    assert!(error.contains(&elsewhere.to_string()) && error.contains("certificate"), "{error}");
    assert_eq!(store.asked().len(), 0);
    let trusting = World::with(|settings| settings.extra_roots.push(certificate));
    trusting.pull(&image).await.unwrap();
    assert_eq!(trusting.file(&image, "f").as_deref(), Some("1"));
}
