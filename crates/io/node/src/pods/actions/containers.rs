//! Preparing a container and starting it: everything that its spec refers to is looked up and put
//! in place.

use std::io::ErrorKind;
use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use rekindle_pod::{ActionError, ActionErrorKind, ActionOutcome, ContainerStartKey, PodEvent};
use rekindle_runtime::{ExpectedRestart, Mount, MountSource, Runtime};
use rekindle_types::reasons::event;
use rekindle_types::{ContainerAttempt, EventSeverity};

use super::{ActionResult, PodActions, config, made, other, runtime_error};
use crate::container_spec::{ContainerInputs, MountPaths, container_spec, find_container};
use crate::durable;
use crate::env::{EnvFiles, EnvInputs, build_environment};
use crate::network::PodNetwork;
use crate::objects::container_references;
use crate::pods::etc_files;
use crate::pods::termination_message::create_file;
use crate::register::memory_bytes;
use crate::volumes::{ensure_sub_path, make_folder, volume_paths};

impl<R: Runtime, N: PodNetwork> PodActions<R, N> {
    pub(super) async fn start_container(
        self,
        key: ContainerStartKey,
        target: Option<ContainerStartKey>,
    ) -> ActionResult {
        let container =
            find_container(&self.pod, &key.name.0).map_err(|e| config(e.to_string()))?;
        let container = container.as_ref();
        let wanted = container_references(&self.pod_ref.namespace, container);
        let objects = self.objects.fetch(&wanted).await.map_err(|e| config(e.to_string()))?;
        let facts = self.facts();
        let volumes = volume_paths(&self.dirs, &self.pod);
        let files = EnvFiles::read(&self.pod, container, &volumes);
        let services = self.node.services.variables(&self.pod).await;
        let services = services.map_err(|e| config(e.to_string()))?;
        let env = build_environment(EnvInputs {
            pod: &self.pod,
            container,
            facts: &facts,
            allocatable: &self.node.allocatable,
            objects: &objects,
            files: &files,
            services: &services,
        })
        .map_err(|e| config(e.to_string()))?;
        self.tell_skipped(&container.name, &env.skipped);
        let etc_files = etc_files::mounts(&self.dirs);
        let attempt = key.attempt;
        let spec = container_spec(ContainerInputs {
            key: self.container_key(key),
            pod: &self.pod,
            container,
            target: target.map(|key| self.container_key(key)),
            env: env.variables,
            paths: MountPaths {
                volumes: &volumes,
                etc_files: &etc_files,
                termination_log: Some(self.dirs.termination_log(&container.name, attempt)),
            },
            log_path: self.dirs.log(&container.name, attempt),
            seccomp_profiles: &self.node.dirs.seccomp_profiles(),
            memory_bytes: memory_bytes(),
        })
        .map_err(|e| config(e.to_string()))?;
        self.prepare_files(&container.name, attempt)?;
        make_sub_paths(container, &spec.mounts)?;
        let run = self.node.runtime.run_container(&spec).await.map_err(|e| runtime_error(&e))?;
        self.tidy_behind(&container.name, attempt, spec.renewal);
        let start = run.start.map(|started| started.started_at).map_err(|e| runtime_error(&e));
        Ok(ActionOutcome::ContainerMade { made: made(run.created), start })
    }

    /// Keys that cannot name a variable are left out, as with the kubelet, and said so.
    fn tell_skipped(&self, container: &str, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let message = format!(
            "Keys [{}] from the EnvFrom sources were skipped since they are considered invalid environment variable names.",
            keys.join(", ")
        );
        let skipped = PodEvent {
            severity: EventSeverity::Warning,
            reason: event::INVALID_ENVIRONMENT_VARIABLE_NAMES,
            message,
            field_path: Some(format!("spec.containers{{{container}}}")),
        };
        self.node.recorder.pod_event(&self.pod_ref, skipped);
    }

    /// Everything that must stand on the host before the runtime is asked: quick, so done in place.
    fn prepare_files(&self, container: &str, attempt: ContainerAttempt) -> Result<(), ActionError> {
        let failed = |what: &str, error: std::io::Error| ActionError {
            kind: ActionErrorKind::ContainerCreate,
            message: format!("container {container:?} of pod {}: {what}: {error}", self.pod_ref),
        };
        let logs = self.dirs.container_logs(container);
        std::fs::create_dir_all(&logs).map_err(|e| failed("create the log folder", e))?;
        let messages = self.dirs.termination_logs(container);
        make_folder(&messages).map_err(|error| other(error.to_string()))?;
        let message = self.dirs.termination_log(container, attempt);
        create_file(&message).map_err(|e| failed("create the termination message file", e))
    }

    /// What has time until it runs: logs and messages of earlier starts go, and the next one finds
    /// its message's file, for which an inode would have to be looked for. Nothing waits for it,
    /// and nothing is lost when it fails.
    fn tidy_behind(&self, container: &str, attempt: ContainerAttempt, renewal: ExpectedRestart) {
        let logs = self.dirs.container_logs(container);
        // the message before the last is in no status any more
        let old = attempt.0.checked_sub(2).map(ContainerAttempt);
        let message = |attempt| self.dirs.termination_log(container, attempt);
        let old = old.map(message);
        let next = match renewal {
            ExpectedRestart::Expected => {
                Some(message(ContainerAttempt(attempt.0.saturating_add(1))))
            }
            ExpectedRestart::NotExpected => None,
        };
        tokio::task::spawn_blocking(move || {
            crate::logs::prune(&logs, attempt);
            let removed = old.map_or(Ok(()), |old| durable::remove(&old));
            let created = next.map_or(Ok(()), |next| create_file(&next));
            if let Err(error) = removed.map_err(std::io::Error::other).and(created) {
                tracing::debug!(%error, "files of containers' earlier and later starts");
            }
        });
    }
}

/// The folders of its volumes that it mounts and that are missing. What fails is a mistake of its
/// spec or in its volume, as with the kubelet (`makeMounts`), whose words these are.
fn make_sub_paths(container: &Container, mounts: &[Mount]) -> Result<(), ActionError> {
    for mount in mounts {
        let (MountSource::Host(volume), Some(sub_path)) = (&mount.source, &mount.sub_path) else {
            continue;
        };
        ensure_sub_path(volume, sub_path).map_err(|error| {
            // it is resolved beneath the volume
            let leads_out = error.kind() == ErrorKind::CrossesDevices;
            let why =
                if leads_out { "it leads out of the volume".to_owned() } else { error.to_string() };
            config(format!(
                "failed to create subPath directory for volumeMount {:?} of container {:?}: subPath {:?}: {why}",
                volume_name(container, mount),
                container.name,
                sub_path.display(),
            ))
        })?;
    }
    Ok(())
}

/// The API refuses two mounts at one place.
fn volume_name<'a>(container: &'a Container, mount: &Mount) -> &'a str {
    let mut mounts = container.volume_mounts.iter().flatten();
    let of_spec = mounts.find(|m| Path::new("/").join(&m.mount_path) == mount.destination);
    of_spec.map_or("", |of_spec| of_spec.name.as_str())
}
