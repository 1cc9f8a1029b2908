//! The folder of manifests: reads it when it changes, has the API complete what stands in it, and
//! tells the manager.
//!
//! A file that cannot be read, or that the API does not take, is told of once, as an event of the
//! node and in the log. The pod of its last good text runs on: an editor's half-written file ends
//! nothing. (The kubelet ends the pod.)

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, ObjectJson};
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{Mode, OFlags};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::manifest::{StaticPodError, StaticPodManifest};
use super::set::Listing;
use crate::folder_watch::FolderWatch;
use crate::pods::{EventRecorder, node_reference};

/// Larger files are refused.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// More files are refused, in the order of their names.
const FILES_MAX: usize = 500;
/// How long after the folder could not be looked at, or the API gave no answer, the next try is,
/// and how often files are read again that no watch of the folder tells of; the kubelet's
/// `fileCheckFrequency`.
const RETRY: Duration = Duration::from_secs(20);
/// The same while the API has not answered yet at all.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Permissions that let others than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Files that appear complete, change, or go, and the folder itself.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Reads the folder.
pub(crate) struct ManifestFolder {
    path: PathBuf,
    node: String,
    client: Client,
    recorder: EventRecorder,
    files: BTreeMap<PathBuf, FileState>,
    /// Whether links are among the files: their targets lie outside of what is watched.
    has_links: bool,
    /// What was told of the folder itself last.
    trouble: Option<String>,
    listings: mpsc::Sender<Listing>,
}

/// What is known of one file.
#[derive(Debug, Default)]
struct FileState {
    text: String,
    /// The pod of the last text that was good.
    pod: Option<Arc<Pod>>,
    /// What is wrong with the text.
    error: Option<StaticPodError>,
    judgement: ApiValidation,
}

/// Whether the API has said what it thinks of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ApiValidation {
    #[default]
    Awaited,
    Given,
}

/// What the folder holds.
#[derive(Debug, Default)]
struct FolderContents {
    files: BTreeMap<PathBuf, Result<String, StaticPodError>>,
    has_links: bool,
}

impl ManifestFolder {
    /// Follows the folder for this node until the task is aborted, and tells of the pods in it, the
    /// first time as soon as the API has judged them.
    pub(crate) fn start(
        path: PathBuf,
        node: &str,
        client: Client,
        recorder: EventRecorder,
    ) -> (mpsc::Receiver<Listing>, JoinHandle<()>) {
        let (listings, receiver) = mpsc::channel(1);
        let folder = Self {
            path,
            node: node.to_owned(),
            client,
            recorder,
            files: BTreeMap::new(),
            has_links: false,
            trouble: None,
            listings,
        };
        (receiver, tokio::spawn(folder.run()))
    }

    async fn run(mut self) {
        let mut retry = FIRST_RETRY;
        loop {
            // watched before it is read, so that no change falls between
            let watched = FolderWatch::new(&self.path, CHANGES);
            let found = match &watched {
                Ok(_) => self.look().await,
                Err(error) => Err(error.to_string()),
            };
            match found {
                Ok(found) => {
                    self.trouble = None;
                    self.take(found).await;
                }
                Err(trouble) => self.tell_trouble(trouble),
            }
            let is_settled = self.files.values().all(|file| file.judgement == ApiValidation::Given);
            if is_settled {
                let listing = self.listing();
                if self.listings.send(listing).await.is_err() {
                    return; // the agent ends
                }
            }
            if is_settled && self.trouble.is_none() {
                retry = FIRST_RETRY;
                if self.has_links {
                    let _changed = tokio::time::timeout(RETRY, changed(watched)).await;
                } else {
                    changed(watched).await;
                }
            } else {
                let _changed = tokio::time::timeout(retry, changed(watched)).await;
                retry = (retry * 2).min(RETRY);
            }
        }
    }

    async fn look(&self) -> Result<FolderContents, String> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read_folder(&path));
        match read.await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes in what stands in the folder now.
    async fn take(&mut self, found: FolderContents) {
        self.has_links = found.has_links;
        self.files.retain(|file, _| found.files.contains_key(file));
        for (file, text) in found.files {
            let before = self.files.get(&file);
            match text {
                Ok(text) => {
                    let is_known = before.is_some_and(|before| {
                        before.judgement == ApiValidation::Given && before.text == text
                    });
                    if !is_known {
                        self.judge(file, text).await;
                    }
                }
                Err(error) => self.refuse(file, String::new(), error),
            }
        }
    }

    /// Asks the API what it thinks of a text.
    async fn judge(&mut self, file: PathBuf, text: String) {
        let manifest = match StaticPodManifest::read(&text, &file, &self.node) {
            Ok(manifest) => manifest,
            Err(error) => return self.refuse(file, text, error),
        };
        match self.trial(&manifest).await {
            Ok(answer) => match manifest.complete(answer) {
                Ok(pod) => {
                    let pod = Some(Arc::new(pod));
                    let judgement = ApiValidation::Given;
                    self.files.insert(file, FileState { text, pod, error: None, judgement });
                }
                Err(error) => self.refuse(file, text, error),
            },
            Err(kube::Error::Api(answer)) if (400..500).contains(&answer.code) => {
                self.refuse(file, text, StaticPodError::Refused(answer.message.clone()));
            }
            Err(error) => {
                tracing::debug!(file = %file.display(), %error, "the API does not judge a static pod yet");
                let state = self.files.entry(file).or_default();
                state.judgement = ApiValidation::Awaited;
            }
        }
    }

    async fn trial(&self, manifest: &StaticPodManifest) -> Result<Pod, kube::Error> {
        let body = serde_json::to_vec(&manifest.trial()).map_err(kube::Error::SerdeError)?;
        let path = format!(
            "/api/v1/namespaces/{}/pods?dryRun=All&fieldValidation=Strict",
            manifest.namespace
        );
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        let answer = self.client.request_text(request).await?;
        Pod::from_json(answer.as_bytes()).map_err(kube::Error::SerdeError)
    }

    /// A file is no static pod; told of once. What its last good text asked for goes on.
    fn refuse(&mut self, file: PathBuf, text: String, error: StaticPodError) {
        let state = self.files.entry(file.clone()).or_default();
        if state.error.as_ref() != Some(&error) {
            let runs_on = match &state.pod {
                Some(_) => "; the pod of its last good version runs on",
                None => "",
            };
            let message = format!("static pod file {}: {error}{runs_on}", file.display());
            tell(&self.recorder, &self.node, message);
        }
        *state = FileState {
            text,
            pod: state.pod.take(),
            error: Some(error),
            judgement: ApiValidation::Given,
        };
    }

    fn tell_trouble(&mut self, trouble: String) {
        let trouble = format!("folder of static pods {}: {trouble}", self.path.display());
        if self.trouble.as_ref() != Some(&trouble) {
            tell(&self.recorder, &self.node, trouble.clone());
            self.trouble = Some(trouble);
        }
    }

    /// The pods of all files; of two with one name the first counts.
    fn listing(&mut self) -> Listing {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut pods = Vec::new();
        let mut twice = Vec::new();
        for (file, state) in &self.files {
            let Some(pod) = &state.pod else { continue };
            let metadata = &pod.metadata;
            let name = [&metadata.namespace, &metadata.name]
                .map(|part| part.as_deref().unwrap_or_default())
                .join("/");
            match names.get(&name) {
                None => {
                    names.insert(name, file.display().to_string());
                    pods.push(pod.clone());
                }
                Some(first) => {
                    twice
                        .push((file.clone(), StaticPodError::Twice { name, first: first.clone() }));
                }
            }
        }
        for (file, error) in twice {
            if let Some(state) = self.files.get_mut(&file)
                && state.error.as_ref() != Some(&error)
            {
                tell(
                    &self.recorder,
                    &self.node,
                    format!("static pod file {}: {error}", file.display()),
                );
                state.error = Some(error);
            }
        }
        pods
    }
}

fn tell(recorder: &EventRecorder, node: &str, message: String) {
    tracing::warn!("failed to read static pods: {message}");
    let about = node_reference(node);
    recorder.record(about, EventSeverity::Warning, event::INVALID_STATIC_POD, message);
}

/// Until something happened in the folder. What it was is not looked at: the folder is read anew.
async fn changed(watched: io::Result<FolderWatch>) {
    let changed = match watched {
        Ok(watched) => watched.changed().await,
        Err(error) => Err(error),
    };
    if changed.is_err() {
        std::future::pending().await // the next try is due after a while
    }
}

/// The texts of the folder's manifests; hidden files are none. Blocks.
fn read_folder(path: &Path) -> io::Result<FolderContents> {
    let folder = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let folder = std::fs::File::from(folder);
    check_writers(&folder.metadata()?).map_err(io::Error::other)?;
    let mut names = BTreeSet::new();
    let mut found = FolderContents::default();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            if entry.file_type()?.is_symlink() {
                found.has_links = true;
            }
            names.insert(name);
        }
    }
    if names.len() > FILES_MAX {
        return Err(io::Error::other(format!(
            "it holds {} files, at most {FILES_MAX} are read",
            names.len()
        )));
    }
    for name in names {
        let file = path.join(&name);
        match read_file(&folder, &name) {
            Ok(Some(text)) => {
                found.files.insert(file, Ok(text));
            }
            Ok(None) => {} // a folder, or gone meanwhile
            Err(error) => {
                found.files.insert(file, Err(error));
            }
        }
    }
    Ok(found)
}

fn read_file(
    folder: &std::fs::File,
    name: &std::ffi::OsStr,
) -> Result<Option<String>, StaticPodError> {
    // a pipe without a writer would never open
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(StaticPodError::Read(error.to_string())),
    };
    let failed = |error: io::Error| StaticPodError::Read(error.to_string());
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Ok(None);
    }
    if !metadata.is_file() {
        return Err(StaticPodError::Read("it is not a regular file".to_owned()));
    }
    check_writers(&metadata).map_err(StaticPodError::Writable)?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(StaticPodError::Read(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}

/// Who writes a static pod's manifest is root on this node.
fn check_writers(metadata: &std::fs::Metadata) -> Result<(), String> {
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us && metadata.uid() != 0 {
        return Err(format!("it belongs to user {}: chown it to root", metadata.uid()));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(format!("others may write to it (mode {mode:04o}): chmod go-w"));
    }
    Ok(())
}
