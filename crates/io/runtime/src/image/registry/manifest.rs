//! From a reference to what must be fetched: manifest or index, this machine's image in it, its
//! config and layers. Every document is proven by its digest; sizes are those that the proven
//! documents state.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use http::header;
use serde::Deserialize;

use super::error::RegistryError;
use super::session::{RegistryRequest, RegistryResponse, RegistrySession};
use crate::image::digest::Sha256Digest;
use crate::image::document::{
    self, ConfigDocument, Descriptor, INDEX_TYPES, IndexDocument, ManifestDocument, Platform,
};
use crate::image::plan::{self, ImagePlan, NESTED_MAX};
use crate::image::reference::ImageReference;

const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                      application/vnd.docker.distribution.manifest.list.v2+json, \
                      application/vnd.docker.distribution.manifest.v2+json";
const DIGEST_HEADER: &str = "docker-content-digest";

/// An image as a registry has it.
#[derive(Debug)]
pub(super) struct RemoteImage {
    pub(super) plan: ImagePlan,
    /// Bytes of each packed layer.
    pub(super) sizes: BTreeMap<Sha256Digest, u64>,
}

/// A manifest or an index, proven.
struct RegistryDocument {
    digest: Sha256Digest,
    bytes: Vec<u8>,
    media_type: String,
}

/// What tells a manifest from an index, and one that pretends to be both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentShape {
    #[serde(default)]
    media_type: String,
    schema_version: Option<u64>,
    manifests: Option<serde::de::IgnoredAny>,
    layers: Option<serde::de::IgnoredAny>,
}

/// The digest that the registry states for `reference` now; `None` when it states none that we
/// know.
pub(super) async fn stated_digest(
    session: &RegistrySession<'_>,
    reference: &ImageReference,
) -> Result<Option<Sha256Digest>, RegistryError> {
    let what = format!("manifest of {reference}");
    let path = format!("/manifests/{}", wanted(reference));
    let ask =
        RegistryRequest { method: Method::HEAD, path: &path, accept: ACCEPT, from: 0, what: &what };
    Ok(header_digest(&session.ask(&ask).await?))
}

/// Everything that is to be known before layers are fetched.
pub(super) async fn resolve(
    session: &RegistrySession<'_>,
    reference: &ImageReference,
    machine: &Platform,
) -> Result<RemoteImage, RegistryError> {
    let what = format!("manifest of {reference}");
    let stated = reference.digest().and_then(Sha256Digest::parse);
    let mut document = fetch_document(session, wanted(reference), stated, &what).await?;
    let mut digests = BTreeSet::from([document.digest.clone()]);
    for _ in 0..NESTED_MAX {
        if !is_index(&document, &what)? {
            return image(session, reference, machine, &document, digests).await;
        }
        let index: IndexDocument = read(&what, &document.bytes)?;
        let chosen = choose(&index, machine)
            .map_err(|problem| RegistryError::Content { what: what.clone(), problem })?;
        let digest = digest_of(&what, &chosen.digest)?;
        let part = format!("manifest {digest} of {reference}");
        document = fetch_document(session, &chosen.digest, Some(digest), &part).await?;
        digests.insert(document.digest.clone());
    }
    Err(RegistryError::Content { what, problem: "its indexes list each other".to_owned() })
}

/// The digest decides when there is a tag, too.
fn wanted(reference: &ImageReference) -> &str {
    reference.digest().or(reference.tag()).expect("a reference has a tag or a digest")
}

async fn fetch_document(
    session: &RegistrySession<'_>,
    name: &str,
    stated: Option<Sha256Digest>,
    what: &str,
) -> Result<RegistryDocument, RegistryError> {
    let limit = session.settings.manifest_max_bytes;
    let path = format!("/manifests/{name}");
    let ask = RegistryRequest { method: Method::GET, path: &path, accept: ACCEPT, from: 0, what };
    let answer = session.ask(&ask).await?;
    let stated = stated.or_else(|| header_digest(&answer));
    let media_type = answer
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok()?.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_owned();
    let bytes = whole(session, answer, limit, what).await?;
    let digest = Sha256Digest::from_bytes(&bytes);
    prove(what, stated.as_ref(), &digest)?;
    Ok(RegistryDocument { digest, bytes, media_type })
}

async fn whole(
    session: &RegistrySession<'_>,
    answer: RegistryResponse,
    limit: u64,
    what: &str,
) -> Result<Vec<u8>, RegistryError> {
    let bytes = session.transport.whole(&answer.host, answer.body, limit).await?;
    bytes.ok_or_else(|| RegistryError::Content {
        what: what.to_owned(),
        problem: format!("it has more than {limit} bytes, the limit"),
    })
}

fn prove(
    what: &str,
    stated: Option<&Sha256Digest>,
    found: &Sha256Digest,
) -> Result<(), RegistryError> {
    match stated {
        Some(stated) if stated != found => Err(RegistryError::Content {
            what: what.to_owned(),
            problem: format!("it has the digest {found}, not {stated}: damaged or forged"),
        }),
        Some(_) | None => Ok(()),
    }
}

fn header_digest(answer: &RegistryResponse) -> Option<Sha256Digest> {
    Sha256Digest::parse(answer.headers.get(DIGEST_HEADER)?.to_str().ok()?)
}

/// What the document says it is must be what it is sent as, and it must not be both
/// (GHSA-xmmx-7jpf-fx42).
fn is_index(document: &RegistryDocument, what: &str) -> Result<bool, RegistryError> {
    let refuse = |problem: String| Err(RegistryError::Content { what: what.to_owned(), problem });
    let shape: DocumentShape = read(what, &document.bytes)?;
    if shape.schema_version == Some(1) {
        return refuse("it has docker's old schema 1, which is not supported: push it anew".into());
    }
    let (inside, sent) = (shape.media_type.as_str(), document.media_type.as_str());
    let known = |kind: &str| INDEX_TYPES.contains(&kind) || MANIFEST_TYPES.contains(&kind);
    if !inside.is_empty() && known(sent) && inside != sent {
        return refuse(format!("it is sent as {sent}, but says that it is {inside}"));
    }
    let kind = if inside.is_empty() { sent } else { inside };
    match (shape.manifests.is_some(), shape.layers.is_some()) {
        (true, true) => refuse("it is both an index and a manifest".to_owned()),
        (true, false) if !MANIFEST_TYPES.contains(&kind) => Ok(true),
        (false, true) if !INDEX_TYPES.contains(&kind) => Ok(false),
        _ => refuse(format!("it is no image manifest and no index (media type {kind:?})")),
    }
}

/// The first manifest for this machine; else the first that does not say what it is for.
fn choose<'a>(index: &'a IndexDocument, machine: &Platform) -> Result<&'a Descriptor, String> {
    let fits = |descriptor: &&Descriptor| {
        descriptor.platform.as_ref().is_some_and(|platform| platform.runs_on(machine))
    };
    let unsaid = |descriptor: &&Descriptor| descriptor.platform.is_none();
    let manifests = &index.manifests;
    manifests.iter().find(fits).or_else(|| manifests.iter().find(unsaid)).ok_or_else(|| {
        let others: BTreeSet<String> = manifests
            .iter()
            .filter_map(|descriptor| descriptor.platform.as_ref())
            .filter(|platform| platform.os != "unknown")
            .map(ToString::to_string)
            .collect();
        match others.is_empty() {
            true => "it lists no image".to_owned(),
            false => {
                let others: Vec<String> = others.into_iter().take(20).collect();
                format!("it has no image for {machine}, only for {}", others.join(", "))
            }
        }
    })
}

async fn image(
    session: &RegistrySession<'_>,
    reference: &ImageReference,
    machine: &Platform,
    document: &RegistryDocument,
    digests: BTreeSet<Sha256Digest>,
) -> Result<RemoteImage, RegistryError> {
    let what = format!("manifest {} of {reference}", document.digest);
    let manifest: ManifestDocument = read(&what, &document.bytes)?;
    let config_digest = digest_of(&what, &manifest.config.digest)?;
    let config_what = format!("config {config_digest} of {reference}");
    let path = format!("/blobs/{config_digest}");
    let ask = RegistryRequest {
        method: Method::GET,
        path: &path,
        accept: "*/*",
        from: 0,
        what: &config_what,
    };
    let answer = session.ask(&ask).await?;
    let limit = session.settings.config_max_bytes;
    let config_bytes = whole(session, answer, limit, &config_what).await?;
    prove(&config_what, Some(&config_digest), &Sha256Digest::from_bytes(&config_bytes))?;
    let config: ConfigDocument = read(&config_what, &config_bytes)?;
    let refuse = |problem: String| RegistryError::Content { what: what.clone(), problem };
    if !config.platform.runs_on(machine) {
        return Err(refuse(format!(
            "it is for {}, and this machine is {machine}",
            config.platform
        )));
    }
    let mut blobs = Vec::new();
    let mut sizes = BTreeMap::new();
    for layer in &manifest.layers {
        let digest = digest_of(&what, &layer.digest)?;
        let size = layer.size.ok_or_else(|| refuse(format!("layer {digest} has no size")))?;
        let limit = session.settings.layer_max_bytes;
        if size > limit {
            return Err(refuse(format!("layer {digest} has {size} bytes; {limit} is the limit")));
        }
        if sizes.insert(digest.clone(), size).is_some_and(|before| before != size) {
            return Err(refuse(format!("layer {digest} has two sizes")));
        }
        blobs.push((digest.to_string(), Some(digest)));
    }
    let id = config_digest.to_string();
    let layers = plan::pair_up(&id, blobs, &config).map_err(refuse)?;
    let references = match reference.tag() {
        Some(_) if reference.digest().is_none() => BTreeSet::from([reference.to_string()]),
        Some(_) | None => BTreeSet::new(),
    };
    let plan =
        ImagePlan { id, config_bytes, config: config.process(), references, digests, layers };
    Ok(RemoteImage { plan, sizes })
}

fn digest_of(what: &str, text: &str) -> Result<Sha256Digest, RegistryError> {
    Sha256Digest::parse(text).ok_or_else(|| RegistryError::Content {
        what: what.to_owned(),
        problem: format!("{:?} is no sha256 digest", text.chars().take(100).collect::<String>()),
    })
}

fn read<T: serde::de::DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, RegistryError> {
    document::read("it", bytes)
        .map_err(|problem| RegistryError::Content { what: what.to_owned(), problem })
}
