//! Whole archives against a real folder: what loads, what is refused, and that a refused or
//! interrupted load shows nothing.

use super::*;
use crate::image::digest::{Sha256Digest, sha256_id};
use rekindle_types::PodRef;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

fn builtins() -> BuiltinImages {
    let host_image = HostImage::On;
    BuiltinImages { engine_dirs: Vec::new(), host_write_limit_bytes: 1 << 20, host_image }
}

fn nothing_runs() -> std::io::Result<ImagesInUse> {
    Ok(ImagesInUse::new())
}

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> ImageStore {
        ImageStore::open(&self.dir.path().join("store"), builtins()).unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Names in a folder of the store.
    fn stored(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path().join("store").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn assert_empty(&self) {
        assert_eq!(self.stored("layers"), Vec::<String>::new());
        assert_eq!(self.stored("blobs/sha256"), Vec::<String>::new());
        let images: Vec<_> = self.store().list().unwrap().into_iter().skip(2).collect();
        assert_eq!(images, []);
    }
}

/// A layer with these files, as a plain tar.
fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Files of an OCI layout under construction.
#[derive(Clone, Default)]
struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    index: Vec<Value>,
}

impl Layout {
    fn blob(&mut self, bytes: &[u8]) -> String {
        let digest = Sha256Digest::from_bytes(bytes);
        self.files.insert(format!("blobs/sha256/{}", digest.hex()), bytes.to_vec());
        digest.to_string()
    }

    /// Adds an image of these (plain, packed) layers; answers the descriptor of its manifest and
    /// its id.
    fn image(&mut self, machine: &Platform, layers: &[(Vec<u8>, Vec<u8>)]) -> (Value, String) {
        let diff_ids: Vec<String> = layers.iter().map(|(plain, _)| sha256_id(plain)).collect();
        let config = json!({
            "architecture": machine.architecture, "os": machine.os,
            "config": {"Entrypoint": ["/app"], "Env": ["A=1"], "User": "7", "WorkingDir": "/srv", "StopSignal": "SIGQUIT"},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let id = self.blob(config.to_string().as_bytes());
        let layers: Vec<Value> = layers
            .iter()
            .map(|(_, packed)| json!({"digest": self.blob(packed), "size": packed.len()}))
            .collect();
        let manifest = json!({"schemaVersion": 2, "config": {"digest": id}, "layers": layers});
        let digest = self.blob(manifest.to_string().as_bytes());
        (json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest}), id)
    }

    fn named(mut self, mut descriptor: Value, name: &str) -> Self {
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        self.index.push(descriptor);
        self
    }

    fn files(mut self) -> BTreeMap<String, Vec<u8>> {
        let index = json!({"schemaVersion": 2, "manifests": self.index});
        self.files.insert("index.json".into(), index.to_string().into_bytes());
        self.files.insert("oci-layout".into(), b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec());
        self.files
    }

    fn tar(self) -> Vec<u8> {
        tar_of(&self.files())
    }
}

fn tar_of(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn plain(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (bytes.to_vec(), bytes.to_vec())
}

fn simple(name: &str, files: &[(&str, &str)]) -> (Vec<u8>, String) {
    let mut layout = Layout::default();
    let (descriptor, id) = layout.image(&Platform::here(), &[plain(&layer(files))]);
    (layout.named(descriptor, name).tar(), id)
}

#[test]
fn an_oci_archive_with_gzip_and_zstd_layers_is_loaded_and_resolved() {
    let world = World::new();
    let (bottom, top) =
        (layer(&[("etc/a", "a"), ("etc/b", "b")]), layer(&[("etc/.wh.a", ""), ("etc/c", "c")]));
    let mut layout = Layout::default();
    let layers = [(bottom.clone(), gzip(&bottom)), (top.clone(), zstd(&top)), plain(&bottom)];
    let (descriptor, id) = layout.image(&Platform::here(), &layers);
    let digest = descriptor["digest"].as_str().unwrap().to_owned();
    let archive = world.write("app.tar", &layout.named(descriptor, "shop/app:1").tar());

    let store = world.store();
    let loaded = store.load(&archive, ImageRetention::Pinned).unwrap();
    assert_eq!((loaded.len(), &loaded[0].id), (1, &id));
    assert_eq!(loaded[0].references, ["docker.io/shop/app:1"]);
    let image = store.resolve("shop/app:1").unwrap().unwrap();
    assert_eq!((&image.id, image.rootfs.upper), (&id, UpperKind::Directory));
    assert_eq!(image.config.entrypoint, ["/app"]);
    assert_eq!((image.config.working_dir.as_str(), image.config.user.as_str()), ("/srv", "7"));
    let dirs = &image.rootfs.lower_dirs;
    assert_eq!(dirs.len(), 2, "the layer that is there twice is stacked once");
    assert!(
        dirs[0].ends_with(format!("{}/fs", Sha256Digest::from_bytes(&bottom).hex())),
        "top first: {dirs:?}"
    );
    for name in [
        &id,
        id.trim_start_matches("sha256:"),
        &format!("shop/app@{digest}"),
        &format!("shop/app:1@{digest}"),
    ] {
        assert_eq!(store.resolve(name).unwrap().as_ref(), Some(&image), "{name}");
    }
    assert_eq!(store.resolve("shop/app:2").unwrap(), None);
    assert_eq!(
        store.resolve(&format!("other/app@{digest}")).unwrap(),
        None,
        "a digest belongs to its repository"
    );
    assert_eq!(world.store().resolve("shop/app:1").unwrap(), Some(image), "also after a restart");
}

/// Mounts in a mount namespace of its own, which ends with the command.
fn shell_in_overlay(lower_dirs: &[PathBuf], dir: &Path, script: &str) -> String {
    let lower: Vec<&str> = lower_dirs.iter().map(|dir| dir.to_str().unwrap()).collect();
    let place = dir.join("merged");
    fs::create_dir(&place).unwrap();
    let place = place.to_str().unwrap();
    let script = format!(
        "mount -t overlay overlay -o lowerdir={} {place} && cd {place} && {script}",
        lower.join(":")
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn overlayfs_sees_the_layers_as_the_image_means_them() {
    let world = World::new();
    let bottom = layer(&[("gone", "1"), ("dir/old", "1"), ("dir2/kept", "1"), ("same", "bottom")]);
    let top = layer(&[
        (".wh.gone", ""),
        ("dir/.wh..wh..opq", ""),
        ("dir/new", "2"),
        ("dir2/new", "2"),
        ("same", "top"),
    ]);
    let mut layout = Layout::default();
    let (descriptor, _) = layout.image(&Platform::here(), &[plain(&bottom), plain(&top)]);
    let archive = world.write("x.tar", &layout.named(descriptor, "x").tar());
    let store = world.store();
    store.load(&archive, ImageRetention::Pinned).unwrap();
    let image = store.resolve("localhost/x:x").unwrap().unwrap();
    let text = shell_in_overlay(
        &image.rootfs.lower_dirs,
        world.dir.path(),
        "find . | sort | tr '\\n' ' '; cat same",
    );
    assert_eq!(text, ". ./dir ./dir/new ./dir2 ./dir2/kept ./dir2/new ./same top");
}

#[test]
fn folders_that_a_layer_leaves_out_keep_their_attributes_in_each_image_for_itself() {
    let world = World::new();
    let base = |mode| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        header.set_mode(mode);
        builder.append_data(&mut header, "tmp/", &[][..]).unwrap();
        builder.into_inner().unwrap()
    };
    let top = layer(&[("tmp/x", "1")]);
    let store = world.store();
    let images = [("open", 0o1777), ("own", 0o700), ("usual", 0o755)].map(|(name, mode)| {
        let mut layout = Layout::default();
        let layers = [plain(&base(mode)), plain(&top)];
        let (descriptor, _) = layout.image(&Platform::here(), &layers);
        let archive = layout.named(descriptor, name).tar();
        store.load(&world.write(&format!("{name}.tar"), &archive), ImageRetention::Pinned).unwrap();
        (format!("localhost/{name}:{name}"), mode)
    });
    assert_eq!(world.stored("layers").len(), 4 + 2, "three of folders, one shared, two to mend it");
    for (name, mode) in &images {
        let image = world.store().resolve(name).unwrap().unwrap();
        let place = world.dir.path().join(format!("{mode:o}"));
        fs::create_dir(&place).unwrap();
        let said = shell_in_overlay(&image.rootfs.lower_dirs, &place, "stat -c %a tmp tmp/x");
        assert_eq!(said, format!("{mode:o}\n644\n"), "{name}");
    }
    for (name, _) in &images {
        store.remove(name, ImageRemoval::OfUnused, nothing_runs).unwrap();
    }
    world.assert_empty();
}

#[test]
fn a_layout_folder_and_a_docker_archive_load_too() {
    let world = World::new();
    let files = layer(&[("f", "1")]);
    let mut layout = Layout::default();
    let (descriptor, id) = layout.image(&Platform::here(), &[plain(&files)]);
    let layout_dir = world.dir.path().join("layout");
    for (name, bytes) in layout.clone().named(descriptor, "v9").files() {
        let path = layout_dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let store = world.store();
    assert_eq!(
        store.load(&layout_dir, ImageRetention::Pinned).unwrap()[0].references,
        ["localhost/layout:v9"],
        "only a tag"
    );

    let config =
        layout.files[&format!("blobs/sha256/{}", id.trim_start_matches("sha256:"))].clone();
    let docker = BTreeMap::from([
        ("manifest.json".to_owned(), json!([{"Config": "c.json", "RepoTags": ["web:2", "web:latest"], "Layers": ["l/layer.tar"]}]).to_string().into_bytes()),
        ("c.json".to_owned(), config),
        ("l/layer.tar".to_owned(), files),
    ]);
    let archive = world.write("docker.tar", &tar_of(&docker));
    let loaded = store.load(&archive, ImageRetention::Pinned).unwrap();
    assert_eq!(loaded[0].references, ["docker.io/library/web:2", "docker.io/library/web:latest"]);
    assert_eq!(store.resolve("web").unwrap().unwrap().id, id, "the same image, under more names");
    assert_eq!(store.resolve("localhost/layout:v9").unwrap().unwrap().id, id);

    let packed = world.write("docker.tar.gz", &gzip(&tar_of(&docker)));
    assert_eq!(store.load(&packed, ImageRetention::Pinned).unwrap()[0].id, id);
}

#[test]
fn an_index_of_several_platforms_gives_this_machines_image() {
    let world = World::new();
    let other =
        Platform { os: "linux".into(), architecture: "s390x".into(), variant: String::new() };
    let here = Platform::here();
    let mut layout = Layout::default();
    let mut inner = Vec::new();
    let mut ids = Vec::new();
    for machine in [&other, &here] {
        let (mut descriptor, id) =
            layout.image(machine, &[plain(&layer(&[("f", &machine.architecture)]))]);
        descriptor["platform"] = json!({"os": machine.os, "architecture": machine.architecture});
        inner.push(descriptor);
        ids.push(id);
    }
    inner.push(json!({"digest": inner[0]["digest"], "platform": {"os": "unknown", "architecture": "unknown"}}));
    let index = json!({"schemaVersion": 2, "manifests": inner}).to_string();
    let digest = layout.blob(index.as_bytes());
    let descriptor =
        json!({"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest});
    let archive = world.write("multi.tar", &layout.clone().named(descriptor, "multi:1").tar());
    let store = world.store();
    let loaded = store.load(&archive, ImageRetention::Pinned).unwrap();
    assert_eq!(loaded.iter().map(|l| &l.id).collect::<Vec<_>>(), [&ids[1]]);
    assert!(
        store.resolve(&format!("multi@{digest}")).unwrap().is_some(),
        "by the index's digest, as registries give it"
    );

    let foreign = world.write("foreign.tar", &layout.named(inner[0].clone(), "multi:2").tar());
    let error = store.load(&foreign, ImageRetention::Pinned).unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("it has no image for {here}, only for linux/s390x")),
        "{error}"
    );
}

#[test]
fn bad_archives_get_one_clear_error_and_leave_nothing() {
    let evil = {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.as_mut_bytes()[..9].copy_from_slice(b"../escape");
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
        builder.into_inner().unwrap()
    };
    let good = layer(&[("f", "1")]);
    let of_layers = |layers: &[(Vec<u8>, Vec<u8>)]| {
        let mut layout = Layout::default();
        let (descriptor, _) = layout.image(&Platform::here(), layers);
        layout.named(descriptor, "bad:1")
    };
    let tampered = {
        let mut files = of_layers(&[plain(&good)]).files();
        let name = format!("blobs/sha256/{}", Sha256Digest::from_bytes(&good).hex());
        files.insert(name, layer(&[("f", "2")]));
        tar_of(&files)
    };
    let absent = {
        let mut files = of_layers(&[plain(&good), plain(&layer(&[("g", "1")]))]).files();
        files.remove(&format!(
            "blobs/sha256/{}",
            Sha256Digest::from_bytes(&layer(&[("g", "1")])).hex()
        ));
        tar_of(&files)
    };
    let bomb = vec![0u8; 3 << 20];
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"hello".to_vec(), "inside a header"),
        (Vec::new(), "neither index.json (OCI) nor manifest.json"),
        (tar_of(&BTreeMap::from([("x".into(), b"y".to_vec())])), "neither index.json"),
        (tar_of(&BTreeMap::from([("index.json".into(), b"[".to_vec())])), "index.json: EOF"),
        (
            tar_of(&BTreeMap::from([(
                "manifest.json".into(),
                b"[{\"Config\":\"../../etc/shadow\"}]".to_vec(),
            )])),
            "not there",
        ),
        (of_layers(&[]).tar(), "has no layers"),
        (of_layers(&[(good.clone(), gzip(&good)[..20].to_vec())]).tar(), "layer blobs/sha256/"),
        (
            of_layers(&[plain(&good), plain(&evil)]).tar(),
            "entry \"../escape\": its path has a `..`",
        ),
        (of_layers(&[(good.clone(), layer(&[("f", "other")]))]).tar(), "but the config says"),
        (of_layers(&[(bomb.clone(), gzip(&bomb))]).tar(), "unpacks to more than"),
        (tampered, "damaged or forged"),
        (absent, "is not in it"),
        (Layout::default().tar(), "lists no image"),
    ];
    for (bytes, reason) in cases {
        let world = World::new();
        let file = world.write("bad.tar", &bytes);
        let mut store = world.store();
        store.limits =
            UnpackLimits { bytes_always: 1 << 20, ratio_max: 10, ..UnpackLimits::default() };
        let error = store.load(&file, ImageRetention::Pinned).unwrap_err();
        assert_eq!(error.kind(), crate::error::ImageErrorKind::Pull);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("load {}: ", file.display())) && text.contains(reason),
            "{reason}: {text}"
        );
        world.assert_empty();
    }
    let error = World::new()
        .store()
        .load(Path::new("/no/such/file"), ImageRetention::Pinned)
        .unwrap_err()
        .to_string();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn builtin_names_cannot_be_taken() {
    let world = World::new();
    let file = world.write("x.tar", &simple("localhost/host:latest", &[("f", "1")]).0);
    let error = world.store().load(&file, ImageRetention::Pinned).unwrap_err().to_string();
    assert!(error.contains("built-in image"), "{error}");
    assert_eq!(
        world.store().resolve("localhost/host").unwrap().unwrap().rootfs.public_dir,
        Some(PathBuf::from("/"))
    );
    let demo = world.store().resolve("localhost/demo").unwrap().unwrap();
    assert_eq!(demo.config.entrypoint, ["/demo"]);
    assert_eq!(demo.config.cmd, ["server"]);
    assert_eq!(world.store().resolve(&demo.id).unwrap(), Some(demo));
}

#[test]
fn a_builtin_image_is_the_same_by_its_name_and_by_its_id() {
    let world = World::new();
    let store = world.store();
    let mut sizes = Vec::new();
    for name in ["localhost/host", "localhost/demo"] {
        let by_name = store.info(name).unwrap().unwrap();
        let by_id = store.info(&by_name.id).unwrap().unwrap();
        assert_eq!((&by_id.id, by_id.size_bytes), (&by_name.id, by_name.size_bytes), "{name}");
        sizes.push(by_id.size_bytes);
    }
    assert!(sizes[0] == 0 && sizes[1] > 0, "{sizes:?}");
}

#[test]
fn what_an_interrupted_load_left_is_cleared_and_never_seen() {
    let world = World::new();
    let (archive, id) = simple("x:1", &[("f", "1")]);
    let file = world.write("x.tar", &archive);
    world.store().load(&file, ImageRetention::Pinned).unwrap();
    let layer = world.stored("layers").remove(0);
    // killed while it unpacked, and killed before it wrote the index
    let layers = world.dir.path().join("store/layers");
    fs::create_dir_all(layers.join(format!("unfinished-{layer}/fs"))).unwrap();
    fs::create_dir_all(layers.join(format!("{}/fs", "0".repeat(64)))).unwrap();
    fs::write(world.dir.path().join("store/blobs/sha256").join("1".repeat(64)), "{}").unwrap();
    let store = world.store();
    assert_eq!(world.stored("layers"), [layer]);
    assert_eq!(world.stored("blobs/sha256").len(), 1);
    assert_eq!(store.resolve("x:1").unwrap().unwrap().id, id);
}

#[test]
fn another_process_that_loads_is_noticed() {
    let world = World::new();
    let (engine, command) = (world.store(), world.store());
    assert_eq!(engine.resolve("x:1").unwrap(), None);
    let (archive, id) = simple("x:1", &[("f", "1")]);
    command.load(&world.write("x.tar", &archive), ImageRetention::Pinned).unwrap();
    assert_eq!(engine.resolve("x:1").unwrap().unwrap().id, id);
    command.remove("x:1", ImageRemoval::OfUnused, nothing_runs).unwrap();
    assert_eq!(engine.resolve("x:1").unwrap(), None);
}

#[test]
fn removal_takes_what_nothing_else_uses_and_spares_what_runs() {
    let world = World::new();
    let store = world.store();
    let (shared, own) = (layer(&[("s", "1")]), layer(&[("o", "1")]));
    let mut layout = Layout::default();
    let (first, first_id) = layout.image(&Platform::here(), &[plain(&shared), plain(&own)]);
    let (second, second_id) = layout.image(&Platform::here(), &[plain(&shared)]);
    let file = world.write("two.tar", &layout.named(first, "a:1").named(second, "b:1").tar());
    assert_eq!(store.load(&file, ImageRetention::Pinned).unwrap().len(), 2);
    assert_eq!(
        store.list().unwrap().iter().filter(|i| i.info.reference.contains("library")).count(),
        2
    );

    let pod = |name: &str| PodRef {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: rekindle_types::PodUid(name.to_owned()),
    };
    let pods = ["a", "b", "c", "d", "e", "f", "g"].map(pod);
    let running = ImagesInUse::from([(first_id.clone(), pods.into())]);
    let refused = store.remove("a:1", ImageRemoval::OfUnused, || Ok(running.clone())).unwrap_err();
    assert!(matches!(refused, ImageError::InUse { .. }));
    let told = refused.to_string();
    assert!(told.contains("pod shop/a, pod shop/b") && told.ends_with("and 2 more"), "{told}");
    store.remove("a:1", ImageRemoval::OfUnused, nothing_runs).unwrap();
    assert_eq!(world.stored("layers"), [Sha256Digest::from_bytes(&shared).hex()]);
    assert_eq!(store.resolve(&first_id).unwrap(), None);
    assert!(matches!(
        store.remove("a:1", ImageRemoval::OfUnused, nothing_runs),
        Err(ImageError::NotFound { .. })
    ));
    store.remove(&second_id, ImageRemoval::OfUnused, nothing_runs).unwrap();
    world.assert_empty();
}

#[test]
fn a_name_of_an_image_in_use_is_not_removed_either_and_by_force_its_files_stay() {
    let world = World::new();
    let store = world.store();
    let (archive, id) = simple("x:1", &[("f", "1")]);
    store.load(&world.write("x.tar", &archive), ImageRetention::Pinned).unwrap();
    let pod = PodRef {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: rekindle_types::PodUid("u".to_owned()),
    };
    let running = || Ok(ImagesInUse::from([(id.clone(), [pod].into())]));
    store.remove("x:1", ImageRemoval::Forced, running).unwrap();
    assert_eq!(store.resolve("x:1").unwrap(), None, "a new pod has to fetch it");
    assert!(store.resolve(&id).unwrap().is_some(), "containers run on its files");
    assert_eq!(world.stored("layers").len(), 1);
    let left = store.images(&ImagesInUse::new()).unwrap();
    assert_eq!(left.last().unwrap().usage, ImageUse::Unused, "it goes when it is not used");
}

#[test]
fn what_was_loaded_is_pinned_unless_it_is_said_to_be_evictable() {
    let world = World::new();
    let (archive, _) = simple("x:1", &[("f", "1")]);
    let file = world.write("x.tar", &archive);
    for (retention, usage) in
        [(ImageRetention::Pinned, ImageUse::Pinned), (ImageRetention::Evictable, ImageUse::Unused)]
    {
        world.store().load(&file, retention).unwrap();
        let store = world.store();
        assert_eq!(store.list().unwrap().last().unwrap().retention, retention);
        let images = store.images(&ImagesInUse::new()).unwrap();
        assert_eq!(images.last().unwrap().usage, usage);
    }
}

#[test]
fn a_name_that_moves_leaves_the_old_image_to_be_found_by_id_and_digest() {
    let world = World::new();
    let store = world.store();
    let (old, old_id) = simple("x:1", &[("f", "old")]);
    let (new, new_id) = simple("x:1", &[("f", "new")]);
    store.load(&world.write("old.tar", &old), ImageRetention::Pinned).unwrap();
    store.load(&world.write("new.tar", &new), ImageRetention::Pinned).unwrap();
    assert_eq!(store.resolve("x:1").unwrap().unwrap().id, new_id);
    assert!(store.resolve(&old_id).unwrap().is_some(), "containers may run on it");
    let list = store.list().unwrap();
    let old = list.iter().find(|image| image.info.id == old_id).unwrap();
    assert!(old.info.reference.starts_with("docker.io/library/x@sha256:"), "{old:?}");
    assert_eq!(store.info("x:1").unwrap().unwrap().reference, "docker.io/library/x:1");
}

#[test]
fn what_memory_knows_is_what_a_look_would_find() {
    let world = World::new();
    let (store, other_process) = (world.store(), world.store());
    assert!(store.info_at_hand("x:1").is_none());
    for name in ["localhost/host", "localhost/demo"] {
        let looked_up = store.info(name).unwrap();
        assert!(looked_up.is_some());
        assert_eq!(store.info_at_hand(name), looked_up);
    }
    for content in ["old", "new"] {
        let (archive, id) = simple("x:1", &[("f", content)]);
        other_process.load(&world.write("x.tar", &archive), ImageRetention::Pinned).unwrap();
        assert!(store.info_at_hand("x:1").is_none(), "the index is to be read first");
        let looked_up = store.info("x:1").unwrap();
        assert_eq!(looked_up.as_ref().map(|info| &info.id), Some(&id));
        assert_eq!(store.info_at_hand("x:1"), looked_up);
    }
    assert!(store.info_at_hand("Bad Name").is_none());
}

#[test]
fn a_bad_name_is_told_apart_from_an_absent_image() {
    let store = World::new();
    let error = store.store().resolve("Bad Name").unwrap_err();
    assert_eq!(error.kind(), crate::error::ImageErrorKind::InvalidName);
    assert_eq!(
        error.to_runtime("Bad Name").to_string(),
        "image \"Bad Name\": a repository name is lower-case"
    );
}
