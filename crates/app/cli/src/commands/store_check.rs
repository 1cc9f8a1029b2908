//! `rekindle store check`: looks at every page and object of a store, or of a backup, and changes
//! nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::OsEntropy;
use rekindle_encryption::{Encryption, UnreadableValue};
use rekindle_redb_disk::inspect;
use rekindle_store::backup::BackupHeader;
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{DiskContent, DiskError, ObjectFault, Revision, Store, StoreLimits};
use serde::Serialize;

use crate::args::{OutputArg, StoreCheck};
use crate::backup::content::{self, BackupContent};
use crate::backup::engine_keys::EngineKeys;
use crate::backup::look_quietly;
use crate::engine::data_dir::STORE;
use crate::engine::{encryption, lock};
use crate::holder::DataDirHolder;
use crate::output;

/// What was found. JSON shows it as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    /// The store, or the backup.
    checked: PathBuf,
    /// When the backup was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    revision: u64,
    objects: usize,
    /// How many of them were not looked into, because no keys were given.
    #[serde(skip_serializing_if = "is_zero")]
    encrypted_objects: usize,
    problems: Vec<StoreProblem>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct StoreProblem {
    /// The object; none when the file itself is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    problem: String,
}

/// Carries the command out.
pub fn run(args: &StoreCheck) -> anyhow::Result<ExitCode> {
    let encryption = encryption::read(args.encryption.encryption_provider_config.as_deref())?;
    let report = match &args.backup {
        Some(file) => {
            let BackupContent { header, files, objects } = BackupContent::read(file)?;
            let of_files = EngineKeys::from_files(files).err().map(|error| error.to_string());
            let content = DiskContent { revision: header.revision, objects };
            report(file, Some(&header), of_files, decrypted(content, &encryption))?
        }
        None => check_store(&args.data_dir.data_dir, &encryption)?,
    };
    output::print(&match args.output {
        OutputArg::Text => text(&report),
        OutputArg::Json => {
            serde_json::to_string_pretty(&report).context("write the report")? + "\n"
        }
    })?;
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_store(data_dir: &Path, encryption: &Encryption) -> anyhow::Result<CheckReport> {
    let store = data_dir.join(STORE);
    if let Some(engine) = DataDirHolder::find(data_dir)? {
        bail!(
            "engine {} runs on {}: check a backup of it (`rekindle backup FILE`, `rekindle store check --backup FILE`), or \
             end it first (`rekindle down --leave-pods`)",
            engine.pid(),
            data_dir.display()
        );
    }
    let engines_kept_out = lock::keep_engines_out(data_dir)?;
    let inspected = look_quietly(|| inspect(&store));
    drop(engines_kept_out);
    let (content, of_file) = match inspected {
        Ok(content) => (content, None),
        Err(DiskError::Damaged { what, .. }) => (DiskContent::default(), Some(what)),
        Err(error) => return Err(error).context("check the store"),
    };
    report(&store, None, of_file, decrypted(content, encryption))
}

/// What the API can look at.
struct DecryptedObjects {
    content: DiskContent,
    /// How many objects there are, with those that it cannot look at.
    objects: usize,
    /// What is wrong with objects as they are stored, or with their encryption.
    faults: Vec<ObjectFault>,
    /// How many objects are encrypted while no keys were given.
    encrypted: usize,
}

fn decrypted(mut content: DiskContent, encryption: &Encryption) -> DecryptedObjects {
    let (objects, mut faults) = (content.objects.len(), content.revision_faults());
    let mut encrypted = 0;
    content.objects.retain_mut(|object| match encryption.open(&object.key, &object.value) {
        Ok(opened) => {
            object.value = opened.value;
            true
        }
        Err(UnreadableValue::NotConfigured { .. }) => {
            encrypted += 1;
            false
        }
        Err(why @ (UnreadableValue::UnknownKey { .. } | UnreadableValue::WrongKey { .. })) => {
            faults.push(ObjectFault { key: object.key.clone(), problem: why.to_string() });
            false
        }
    });
    DecryptedObjects { content, objects, faults, encrypted }
}

fn report(
    checked: &Path,
    header: Option<&BackupHeader>,
    of_file: Option<String>,
    read: DecryptedObjects,
) -> anyhow::Result<CheckReport> {
    let DecryptedObjects { content, objects, mut faults, encrypted } = read;
    let revision = content.revision.0;
    faults.extend(object_faults(content)?);
    faults.sort_by(|a, b| a.key.cmp(&b.key));
    let of_file = of_file.into_iter().map(|problem| StoreProblem { key: None, problem });
    let of_objects = faults.into_iter().map(|ObjectFault { key, problem }| StoreProblem {
        key: Some(key.as_str().to_owned()),
        problem,
    });
    let problems = of_file.chain(of_objects).collect();
    let created_at = header.map(content::created_at);
    let checked = checked.to_owned();
    Ok(CheckReport {
        checked,
        created_at,
        revision,
        objects,
        encrypted_objects: encrypted,
        problems,
    })
}

/// What the API finds. It sees no object that is newer than the newest revision, so that is raised.
fn object_faults(mut content: DiskContent) -> anyhow::Result<Vec<ObjectFault>> {
    let newest = content.objects.iter().map(|object| object.revision).max();
    content.revision = content.revision.max(newest.unwrap_or(Revision::ZERO));
    let (store, _committer) = Store::open(MemoryDisk::holding(content), StoreLimits::default())
        .context("look at the objects")?;
    let api = Api::new(ApiParts {
        registry: rekindle_kinds::all(),
        store,
        entropy: Box::new(OsEntropy::default()),
        authorizer: AuthorizationMode::Rbac,
        ca_bundle: String::new(),
    });
    Ok(api.stored_faults())
}

fn text(report: &CheckReport) -> String {
    let checked = report.checked.display();
    let mut text = String::new();
    for StoreProblem { key, problem } in &report.problems {
        text += &match key {
            Some(key) => format!("{key} {problem}\n"),
            None => format!("{checked}: {problem}\n"),
        };
    }
    let found = match report.problems.len() {
        0 => "no problems".to_owned(),
        1 => "1 problem".to_owned(),
        several => format!("{several} problems"),
    };
    let made = report.created_at.as_ref().map_or(String::new(), |at| format!(" of {at}"));
    let unread = match report.encrypted_objects {
        0 => None,
        1 => Some("1 encrypted object was".to_owned()),
        several => Some(format!("{several} encrypted objects were")),
    };
    if let Some(unread) = unread {
        text += &format!("{unread} not looked into: give --encryption-provider-config\n");
    }
    text + &format!(
        "{checked}{made}: {} objects at revision {}, {found}\n",
        report.objects, report.revision
    )
}
