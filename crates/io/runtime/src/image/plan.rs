//! From an archive to what must be unpacked: its images for this machine, each with its names,
//! config and layers. All documents are checked against their digests; nothing is written.
//!
//! An archive with an `index.json` is an OCI layout (`docker save` writes one, too, since version
//! 25); one with only a `manifest.json` is a docker-archive.

use std::collections::BTreeSet;

use super::ImageConfig;
use super::archive::ArchiveSource;
use super::digest::Sha256Digest;
use super::document::{
    self, ConfigDocument, Descriptor, DockerImage, INDEX_TYPES, IndexDocument, ManifestDocument,
    Platform,
};
use super::reference::ImageReference;

/// Images of one archive, and manifests looked at on the way, at most.
const MANIFESTS_MAX: usize = 1000;
/// Bytes of the configs of all images of one archive at most: they are held until it is loaded.
const CONFIGS_MAX_BYTES: usize = 64 << 20;
/// Indexes inside each other at most.
pub(super) const NESTED_MAX: usize = 4;
/// Layers of an image at most: what overlayfs stacks.
const LAYERS_MAX: usize = 500;

const NAME_OF_CONTAINERD: &str = "io.containerd.image.name";
const NAME_OF_OCI: &str = "org.opencontainers.image.ref.name";

/// One image to bring in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImagePlan {
    /// `sha256:…` of its config.
    pub(super) id: String,
    pub(super) config_bytes: Vec<u8>,
    pub(super) config: ImageConfig,
    /// In full form.
    pub(super) references: BTreeSet<String>,
    /// The manifest's digest and those of indexes above it.
    pub(super) digests: BTreeSet<Sha256Digest>,
    /// Bottom first.
    pub(super) layers: Vec<PlannedLayer>,
}

/// One layer to unpack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedLayer {
    /// The file's name in the archive.
    pub(super) blob: String,
    /// The file's digest, where the archive states it.
    pub(super) digest: Option<Sha256Digest>,
    /// The unpacked archive's digest.
    pub(super) diff_id: Sha256Digest,
}

/// The images of `source` for `machine`. `stem` names an image whose archive gives it only a tag.
pub(super) fn plan(
    source: &ArchiveSource,
    machine: &Platform,
    stem: &str,
) -> Result<Vec<ImagePlan>, String> {
    if let Some(bytes) = source.document("index.json")? {
        let index: IndexDocument = document::read("index.json", &bytes)?;
        return OciWalk {
            source,
            machine,
            stem,
            plans: Vec::new(),
            seen: 0,
            others: BTreeSet::new(),
        }
        .run(&index);
    }
    if let Some(bytes) = source.document("manifest.json")? {
        let images: Vec<DockerImage> = document::read("manifest.json", &bytes)?;
        let mut plans = Vec::new();
        for image in &images {
            plans.push(docker_image(source, machine, image)?);
            check_amount(&plans)?;
        }
        return Ok(plans);
    }
    Err("it is no image: neither index.json (OCI) nor manifest.json (docker save) is in it"
        .to_owned())
}

struct OciWalk<'a> {
    source: &'a ArchiveSource,
    machine: &'a Platform,
    stem: &'a str,
    plans: Vec<ImagePlan>,
    /// Manifests and indexes looked at.
    seen: usize,
    /// Platforms left out.
    others: BTreeSet<String>,
}

impl OciWalk<'_> {
    fn run(mut self, index: &IndexDocument) -> Result<Vec<ImagePlan>, String> {
        for descriptor in &index.manifests {
            let names = names(descriptor, self.stem)?;
            self.descend(descriptor, &names, &BTreeSet::new(), 0)?;
        }
        if self.plans.is_empty() {
            let others: Vec<String> = self.others.into_iter().collect();
            return Err(match others.as_slice() {
                [] => "index.json lists no image".to_owned(),
                _ => {
                    format!("it has no image for {}, only for {}", self.machine, others.join(", "))
                }
            });
        }
        Ok(self.plans)
    }

    fn descend(
        &mut self,
        descriptor: &Descriptor,
        names: &BTreeSet<String>,
        above: &BTreeSet<Sha256Digest>,
        depth: usize,
    ) -> Result<(), String> {
        self.seen += 1;
        if self.seen > MANIFESTS_MAX || depth > NESTED_MAX {
            return Err("its indexes list too many manifests, or each other".to_owned());
        }
        if let Some(platform) = &descriptor.platform
            && !platform.runs_on(self.machine)
        {
            self.leave_out(platform);
            return Ok(());
        }
        let (digest, bytes) = verified(self.source, &descriptor.digest)?;
        let mut digests = above.clone();
        digests.insert(digest);
        if INDEX_TYPES.contains(&descriptor.media_type.as_str()) {
            let index: IndexDocument = document::read(&descriptor.digest, &bytes)?;
            for inner in &index.manifests {
                self.descend(inner, names, &digests, depth + 1)?;
            }
            return Ok(());
        }
        self.image(&document::read(&descriptor.digest, &bytes)?, names, digests)
    }

    fn image(
        &mut self,
        manifest: &ManifestDocument,
        names: &BTreeSet<String>,
        digests: BTreeSet<Sha256Digest>,
    ) -> Result<(), String> {
        let (digest, config_bytes) = verified(self.source, &manifest.config.digest)?;
        let config: ConfigDocument = document::read(&manifest.config.digest, &config_bytes)?;
        if !config.platform.runs_on(self.machine) {
            self.leave_out(&config.platform);
            return Ok(());
        }
        let id = digest.to_string();
        // one image under several names, and artifacts beside it
        if let Some(known) = self.plans.iter_mut().find(|plan| plan.id == id) {
            known.references.extend(names.iter().cloned());
            known.digests.extend(digests);
            return Ok(());
        }
        let mut blobs = Vec::new();
        for layer in &manifest.layers {
            let digest = digest_of(&layer.digest)?;
            blobs.push((blob_name(&digest), Some(digest)));
        }
        let layers = pair_up(&id, blobs, &config)?;
        let config = config.process();
        self.plans.push(ImagePlan {
            id,
            config_bytes,
            config,
            references: names.clone(),
            digests,
            layers,
        });
        check_amount(&self.plans)
    }

    /// Attestations and signatures have the platform `unknown`, and are no images.
    fn leave_out(&mut self, platform: &Platform) {
        if platform.os != "unknown" && !platform.os.is_empty() {
            self.others.insert(platform.to_string());
        }
    }
}

fn docker_image(
    source: &ArchiveSource,
    machine: &Platform,
    image: &DockerImage,
) -> Result<ImagePlan, String> {
    let config_bytes = source.document(&image.config)?.ok_or_else(|| {
        format!("manifest.json names config {:?}, which is not there", image.config)
    })?;
    let id = Sha256Digest::from_bytes(&config_bytes).to_string();
    let config: ConfigDocument = document::read(&image.config, &config_bytes)?;
    if !config.platform.runs_on(machine) {
        return Err(format!("it has no image for {machine}, only for {}", config.platform));
    }
    let mut references = BTreeSet::new();
    for tag in &image.repo_tags {
        let reference = ImageReference::parse(tag).map_err(|error| error.to_string())?;
        references.insert(reference.to_string());
    }
    let blobs = image.layers.iter().map(|layer| (layer.clone(), None)).collect();
    let layers = pair_up(&id, blobs, &config)?;
    let config = config.process();
    Ok(ImagePlan { id, config_bytes, config, references, digests: BTreeSet::new(), layers })
}

fn check_amount(plans: &[ImagePlan]) -> Result<(), String> {
    let bytes: usize = plans.iter().map(|plan| plan.config_bytes.len()).sum();
    match plans.len() > MANIFESTS_MAX || bytes > CONFIGS_MAX_BYTES {
        false => Ok(()),
        true => Err("it has too many images, or too large configs, for one load".to_owned()),
    }
}

/// Joins the files of the layers with the digests that the config states for them.
pub(super) fn pair_up(
    id: &str,
    blobs: Vec<(String, Option<Sha256Digest>)>,
    config: &ConfigDocument,
) -> Result<Vec<PlannedLayer>, String> {
    let diff_ids = &config.rootfs.diff_ids;
    if blobs.len() != diff_ids.len() {
        return Err(format!("image {id}: {} layers, but {} diff_ids", blobs.len(), diff_ids.len()));
    }
    if blobs.is_empty() {
        return Err(format!("image {id} has no layers: there is nothing to run in it"));
    }
    if blobs.len() > LAYERS_MAX {
        return Err(format!("image {id} has {} layers; {LAYERS_MAX} can be stacked", blobs.len()));
    }
    blobs
        .into_iter()
        .zip(diff_ids)
        .map(|((blob, digest), diff_id)| {
            Ok(PlannedLayer { blob, digest, diff_id: digest_of(diff_id)? })
        })
        .collect()
}

/// The names that an `index.json` gives an image. A name without a repository is only a tag
/// (`skopeo copy … oci:dir:v1`).
fn names(descriptor: &Descriptor, stem: &str) -> Result<BTreeSet<String>, String> {
    let annotation = |key| descriptor.annotations.get(key).filter(|name| !name.is_empty());
    let name = match (annotation(NAME_OF_CONTAINERD), annotation(NAME_OF_OCI)) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) if name.contains(['/', ':']) => name.clone(),
        (None, Some(tag)) => format!("localhost/{stem}:{tag}"),
        (None, None) => return Ok(BTreeSet::new()),
    };
    let reference = ImageReference::parse(&name).map_err(|error| error.to_string())?;
    Ok(BTreeSet::from([reference.to_string()]))
}

/// The document of this digest, proven to be it.
fn verified(source: &ArchiveSource, digest: &str) -> Result<(Sha256Digest, Vec<u8>), String> {
    let stated = digest_of(digest)?;
    let name = blob_name(&stated);
    let bytes = source.document(&name)?.ok_or_else(|| format!("{name} is not in it"))?;
    let found = Sha256Digest::from_bytes(&bytes);
    if found != stated {
        return Err(format!("{name} has the digest {found}: the archive is damaged or forged"));
    }
    Ok((stated, bytes))
}

fn digest_of(text: &str) -> Result<Sha256Digest, String> {
    Sha256Digest::parse(text).ok_or_else(|| format!("{text:?} is no sha256 digest"))
}

fn blob_name(digest: &Sha256Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
