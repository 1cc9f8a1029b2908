//! The engine's folder: what lies where, who may read it, and the lock that keeps a second engine
//! out.
//!
//! ```text
//! <data-dir>/            0700
//!   engine.lock          held (flock) while an engine runs; holds its pid
//!   engine-id            8 hex digits; names cgroups, run folder and bridge, so that engines on one machine never meet
//!   engine.json          what the engine was started with
//!   service-cidr         the range of the addresses of Services, which a restore sets
//!   restore-unfinished   while `rekindle restore` replaces files
//!   store.redb           all API objects
//!   pki/                 the CA, the keys of tokens, and which certificates are revoked
//!   kubeconfig           0600
//!   static-pods/         manifests of static pods; another folder with --static-pod-path
//!   nodes/<name>/        the data directory of a further node: the same, without store and pki, and with its node.json
//!   images/ node/ logs/ net/
//!   engine.log           of a detached engine
//! ```

use std::fs::{File, Metadata, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rekindle_api_server::pki::write_private;

use super::lock::{self, LOCK, open_lock, write_pid};
use crate::holder::DataDirHolder;

/// Where sockets of the running engine and its shims lie: short, so that a socket's path fits in
/// 108 bytes.
pub const RUN_ROOT: &str = "/run/rekindle";

/// The folder for keys in the data directory.
pub const PKI: &str = "pki";

/// The file with all API objects.
pub const STORE: &str = "store.redb";

/// The file with the name of the engine among others on the machine.
const ENGINE_ID: &str = "engine-id";

/// The folder of static pods' manifests, which a user may fill before the first start.
const STATIC_PODS: &str = "static-pods";

/// What group and others may do with a file or folder.
const OTHERS: u32 = 0o077;

/// How long an engine that was killed may take to be gone.
const HOLDER_DIES_WITHIN: Duration = Duration::from_secs(1);

/// A data directory that this process holds.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    engine_id: String,
    /// Keeps the lock until the process ends, however it ends.
    _lock: File,
}

impl DataDir {
    /// Prepares the folder and takes its lock. A holder that was killed a moment ago is waited for.
    pub fn hold(path: &Path) -> anyhow::Result<Self> {
        Self::prepare(path)?;
        let path =
            path.canonicalize().with_context(|| format!("data directory {}", path.display()))?;
        let mut lock = open_lock(&path)?;
        let mut locked = lock.try_lock();
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            if let Ok(Some(holder)) = DataDirHolder::find(&path) {
                holder.wait_at_most(HOLDER_DIES_WITHIN)?;
            }
            locked = lock.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(lock::refusal(&mut lock, &path)),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock {}", path.display()));
            }
        }
        write_pid(&mut lock)
            .with_context(|| format!("write the lock of data directory {}", path.display()))?;
        close_keys(&path.join(PKI))?;
        let engine_id = engine_id(&path)?;
        Ok(Self { path, engine_id, _lock: lock })
    }

    /// Creates the folder when it is absent, and closes it to others (mode 0700): an earlier
    /// version, or its user, may have left it open, and it holds keys.
    ///
    /// # Errors
    /// When the folder is another user's, or is open to others and holds files that are not an
    /// engine's. Closing such a folder would disturb its users.
    pub fn prepare(path: &Path) -> anyhow::Result<()> {
        create_private(path)?;
        let reading = || format!("read data directory {}", path.display());
        let found = std::fs::metadata(path).with_context(reading)?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            bail!(
                "data directory {} belongs to user {}: choose a folder of your own with --data-dir",
                path.display(),
                found.uid()
            );
        }
        if !is_open_to_others(&found) {
            return Ok(());
        }
        let is_engines = [ENGINE_ID, LOCK, STATIC_PODS].iter().any(|file| path.join(file).exists());
        let foreign = std::fs::read_dir(path).with_context(reading)?.next();
        match foreign {
            Some(entry) if !is_engines => bail!(
                "data directory {} is open to other users and holds files that are not an engine's, such as {:?}: choose an \
                 empty folder with --data-dir, or close this one with `chmod 0700`",
                path.display(),
                entry.with_context(reading)?.file_name()
            ),
            Some(_) | None => close_to_others(path),
        }
    }

    /// The folder, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or folder in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Names this engine among others on the machine.
    pub fn engine_id(&self) -> &str {
        &self.engine_id
    }

    /// The folder of static pods' manifests, created.
    pub fn static_pods(&self) -> anyhow::Result<PathBuf> {
        let folder = self.join(STATIC_PODS);
        create_own(&folder)?;
        Ok(folder)
    }

    /// The folder for sockets of the process that holds that data directory; `None` when none ever
    /// did.
    pub fn run_dir_of(path: &Path) -> Option<PathBuf> {
        let id = std::fs::read_to_string(path.join(ENGINE_ID)).ok()?;
        is_engine_id(&id).then(|| Path::new(RUN_ROOT).join(id))
    }

    /// The folder for sockets, created.
    pub fn run_dir(&self) -> anyhow::Result<PathBuf> {
        let run_dir = Path::new(RUN_ROOT).join(&self.engine_id);
        create_own(&run_dir)?;
        Ok(run_dir)
    }
}

/// Creates the folder, and those above it that are absent, with mode 0700. One that is there
/// already is left as it is.
fn create_private(path: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("create folder {}", path.display()))
}

/// Creates a folder of an engine's own, or closes the one that is there: mode 0700.
pub fn create_own(path: &Path) -> anyhow::Result<()> {
    create_private(path)?;
    close_to_others(path)
}

/// Whether other users may do anything with a file or folder.
pub fn is_open_to_others(found: &Metadata) -> bool {
    found.mode() & OTHERS != 0
}

fn close_to_others(path: &Path) -> anyhow::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("close folder {} to other users", path.display()))
}

/// Makes the keys and their folder private again. Before the first start there are none.
fn close_keys(folder: &Path) -> anyhow::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("list {}", folder.display())),
    };
    close_to_others(folder)?;
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", folder.display()))?;
        let file = entry.path();
        if entry.file_type().is_ok_and(|found| found.is_file()) {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))
                .with_context(|| format!("close {} to other users", file.display()))?;
        }
    }
    Ok(())
}

fn engine_id(path: &Path) -> anyhow::Result<String> {
    let file = path.join(ENGINE_ID);
    match std::fs::read_to_string(&file) {
        Ok(id) if is_engine_id(&id) => Ok(id),
        Ok(_) => bail!(
            "{} does not hold 8 hex digits: restore it, or start afresh with another --data-dir",
            file.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut id = uuid::Uuid::new_v4().simple().to_string();
            id.truncate(8);
            write_private(&file, id.as_bytes())
                .with_context(|| format!("write {}", file.display()))?;
            Ok(id)
        }
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

fn is_engine_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::super::lock::holder as pid_of_holder;
    use super::*;

    #[test]
    fn a_second_engine_is_kept_out_and_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(pid_of_holder(dir.path()).unwrap(), None);
        let held = DataDir::hold(dir.path()).unwrap();
        let error = DataDir::hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert_eq!(pid_of_holder(dir.path()).unwrap(), Some(std::process::id()));
        let id = held.engine_id().to_owned();
        drop(held);
        assert_eq!(pid_of_holder(dir.path()).unwrap(), None);
        assert_eq!(DataDir::hold(dir.path()).unwrap().engine_id(), id);
    }

    #[test]
    fn a_start_names_commands_that_only_read_the_directory_as_such() {
        let dir = tempfile::tempdir().unwrap();
        assert!(lock::keep_engines_out(dir.path()).unwrap().is_none(), "no engine has made a lock");
        drop(DataDir::hold(dir.path()).unwrap());
        let readers = [(); 2].map(|()| lock::keep_engines_out(dir.path()).unwrap());
        assert_eq!(pid_of_holder(dir.path()).unwrap(), None, "the pid in the file is an older one");
        let error = DataDir::hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is being read by") && !error.contains("engine"), "{error}");
        drop(readers);
        let _held = DataDir::hold(dir.path()).unwrap();
        let error = lock::keep_engines_out(dir.path()).unwrap_err().to_string();
        let holder = format!("held by an engine (pid {})", std::process::id());
        assert!(error.contains(&holder), "{error}");
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn open_to_all(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_data_directory_is_closed_to_others_at_each_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/data");
        drop(DataDir::hold(&path).unwrap());
        assert_eq!(mode_of(&path), 0o700);

        // an earlier version made it with the umask's mode when it was started with --detach
        open_to_all(&path);
        let held = DataDir::hold(&path).unwrap();
        assert_eq!(mode_of(&path), 0o700);

        let own = held.static_pods().unwrap();
        open_to_all(&own);
        assert_eq!(mode_of(&held.static_pods().unwrap()), 0o700);

        drop(held);
        let (pki, key) = (path.join(PKI), path.join(PKI).join("ca.key"));
        std::fs::create_dir(&pki).unwrap();
        std::fs::write(&key, "").unwrap();
        open_to_all(&pki);
        open_to_all(&key);
        drop(DataDir::hold(&path).unwrap());
        assert_eq!([mode_of(&pki), mode_of(&key)], [0o700, 0o600]);

        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        open_to_all(&empty);
        DataDir::prepare(&empty).unwrap();
        assert_eq!(mode_of(&empty), 0o700);
    }

    #[test]
    fn a_shared_folder_of_other_files_is_no_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("notes.txt"), "").unwrap();
        open_to_all(dir.path());
        let error = DataDir::hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains("notes.txt") && error.contains("--data-dir"), "{error}");
        assert_eq!(mode_of(dir.path()), 0o755, "its users keep it");
        assert!(!dir.path().join(LOCK).exists());
    }

    #[test]
    fn a_holder_that_is_about_to_be_gone_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("engine.lock");
        // it holds the lock until its input ends
        let mut holder = std::process::Command::new("flock");
        let holder = holder
            .arg("-F")
            .arg(&lock)
            .arg("sh")
            .args(["-c", "echo $$ > $0; echo; cat"])
            .arg(&lock);
        let holder =
            holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut held = String::new();
        let mut told = std::io::BufReader::new(holder.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut told, &mut held).unwrap();
        assert!(pid_of_holder(dir.path()).unwrap().is_some());
        let input = holder.stdin.take().unwrap();
        let ends = std::thread::spawn(move || drop(input));
        DataDir::hold(dir.path()).unwrap();
        ends.join().unwrap();
        holder.wait().unwrap();
    }
}
