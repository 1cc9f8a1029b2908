//! What a kubelet does for the pods of a node, as it was measured on version 1.36.2: it lists the
//! runtime again and again. A pod without a sandbox that is ready gets a new one under the same
//! UID, then its init containers and sidecars, then the others. A container that has ended is
//! started again, from the second time in a sandbox on after a pause. Its attempt is one more than
//! that of the last one which the runtime knows, or which has written a log. The status of the pod
//! follows; of a container that ran and is gone it says `ContainerStatusUnknown`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use rekindle_agent::cri::messages::EmptyResponse;
use rekindle_agent::cri::{CriClient, CriError};
use rekindle_agent::{PodCalls, RuntimeContainer};
use rekindle_testkit::containerd::IMAGE;
use serde_json::{Value, json};

use crate::cri_requests::*;

/// The time between two lists; a kubelet's is a second.
const RELIST: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(60);
/// The pause before a container is started again; a kubelet's is 10 seconds at first.
const BACK_OFF: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);

/// A kubelet in a thread; it ends with the test.
pub struct KubeletDouble {
    stop: Arc<AtomicBool>,
    sandboxes: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl KubeletDouble {
    /// Its folders are below `root`.
    pub fn start(
        kubeconfig: PathBuf,
        node: String,
        socket: PathBuf,
        cgroup: String,
        root: PathBuf,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sandboxes = Arc::new(AtomicU32::new(0));
        let made = Arc::clone(&sandboxes);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
                let options = kube::config::KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
                let mut node = NodePods {
                    client: Client::try_from(config).unwrap(),
                    node,
                    cri: CriClient::new(socket.clone()),
                    calls: PodCalls::new(CriClient::new(socket)),
                    cgroup,
                    root,
                    made: BTreeMap::new(),
                    started: BTreeMap::new(),
                    sandboxes: made,
                };
                let mut turn = tokio::time::interval(RELIST);
                while !stopped.load(Ordering::Relaxed) {
                    turn.tick().await;
                    node.relist().await;
                }
            });
        });
        Self { stop, sandboxes, thread: Some(thread) }
    }

    /// How many sandboxes it has made.
    pub fn sandboxes(&self) -> u32 {
        self.sandboxes.load(Ordering::Relaxed)
    }
}

impl Drop for KubeletDouble {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the kubelet double failed");
        }
    }
}

/// Where a kubelet has an emptyDir volume.
pub fn empty_dir(root: &Path, uid: &str, name: &str) -> PathBuf {
    root.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir").join(name)
}

/// Makes it when it is not there.
fn make_empty_dir(folder: &Path, is_in_memory: bool) {
    if folder.exists() {
        return;
    }
    std::fs::create_dir_all(folder).unwrap();
    if is_in_memory {
        let flags = rustix::mount::MountFlags::NOSUID;
        rustix::mount::mount("tmpfs", folder, "tmpfs", flags, None).unwrap();
    }
}

/// As a kubelet writes times.
fn seconds(at: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_second()).unwrap().to_string()
}

/// Whether a container that has ended still waits for its next start.
fn is_in_back_off(ended: &RuntimeContainer) -> bool {
    let finished = ended.end.as_ref().and_then(|end| end.finished_at.as_ref());
    finished.is_some_and(|at| jiff::Timestamp::now() < at.0 + BACK_OFF)
}

/// Whether a container has done its work.
fn is_finished(spec: &PodSpec, ended: &RuntimeContainer) -> bool {
    let exit_code = ended.end.as_ref().map(|end| end.exit_code);
    spec.restart_policy.as_deref() == Some("OnFailure") && exit_code == Some(0)
}

/// The highest attempt that has a log in the folder of a container: `3.log`.
fn latest_log(folder: &Path) -> Option<u32> {
    let logs = std::fs::read_dir(folder).ok()?;
    logs.filter_map(|log| log.ok()?.path().file_stem()?.to_str()?.parse().ok()).max()
}

/// A container as the status of its pod shows it.
struct ShownContainer {
    id: String,
    attempt: u32,
    state: Value,
}

impl ShownContainer {
    fn finished(ended: &RuntimeContainer) -> Self {
        let state = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        Self { id: ended.id.clone(), attempt: ended.attempt, state }
    }

    fn in_back_off(ended: &RuntimeContainer) -> Self {
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        Self { id: ended.id.clone(), attempt: ended.attempt, state }
    }
}

struct NodePods {
    client: Client,
    node: String,
    cri: CriClient,
    calls: PodCalls,
    cgroup: String,
    /// Its folders: `pods`, and `logs`.
    root: PathBuf,
    /// How many sandboxes it has made for each pod, by its UID.
    made: BTreeMap<String, u32>,
    /// When each container was started.
    started: BTreeMap<String, jiff::Timestamp>,
    sandboxes: Arc<AtomicU32>,
}

impl NodePods {
    async fn relist(&mut self) {
        let of_node = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        // the API may be gone for a while, as when a test ends
        let Ok(pods) = Api::<Pod>::all(self.client.clone()).list(&of_node).await else { return };
        for pod in pods.items {
            if let Err(error) = self.sync(&pod).await {
                eprintln!("kubelet double: {}: {error}", pod.metadata.name.unwrap_or_default());
            }
        }
    }

    async fn sync(&mut self, pod: &Pod) -> Result<(), CriError> {
        let uid = pod.metadata.uid.clone().unwrap();
        let spec = pod.spec.as_ref().unwrap();
        let seen = self.calls.look(&uid).await?;
        let mut config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: pod.metadata.name.clone().unwrap(),
                uid: uid.clone(),
                namespace: pod.metadata.namespace.clone().unwrap(),
                attempt: 0,
            }),
            hostname: pod.metadata.name.clone().unwrap(),
            log_directory: self.root.join("logs").join(&uid).display().to_string(),
            labels: BTreeMap::from([("io.kubernetes.pod.uid".to_owned(), uid.clone())]),
            linux: Some(LinuxSandbox { cgroup_parent: format!("/{}/pod{uid}", self.cgroup) }),
        };
        let sandbox = match seen.ready_sandbox() {
            Some(sandbox) => sandbox.id.clone(),
            None => {
                let made = self.made.entry(uid.clone()).or_default();
                config.metadata.as_mut().unwrap().attempt = *made;
                *made += 1;
                let request = RunPodSandboxRequest { config: Some(config.clone()) };
                let answer: RunPodSandboxResponse =
                    self.cri.call("RunPodSandbox", &request, LIMIT).await?;
                self.sandboxes.fetch_add(1, Ordering::Relaxed);
                answer.pod_sandbox_id
            }
        };
        let mut statuses = Vec::new();
        let inits = spec.init_containers.iter().flatten();
        for container in inits.clone().chain(&spec.containers) {
            let of_it = |known: &&RuntimeContainer| known.name == container.name;
            let latest = seen.containers_of(&sandbox).filter(of_it).max_by_key(|c| c.attempt);
            let is_sidecar = container.restart_policy.as_deref() == Some("Always");
            let runs_once = inits.clone().any(|i| i.name == container.name) && !is_sidecar;
            let shown = match latest {
                Some(known) if known.may_run() || runs_once => self.running(known),
                Some(ended) if is_finished(spec, ended) => ShownContainer::finished(ended),
                Some(ended)
                    if seen.containers_of(&sandbox).filter(of_it).count() > 1
                        && is_in_back_off(ended) =>
                {
                    ShownContainer::in_back_off(ended)
                }
                Some(_) | None => {
                    let known = seen.containers.iter().filter(of_it).map(|known| known.attempt);
                    let folder = Path::new(&config.log_directory).join(&container.name);
                    let latest = known.max().or_else(|| latest_log(&folder));
                    let attempt = latest.map_or(0, |latest| latest + 1);
                    self.start(&uid, spec, &sandbox, &config, container, attempt).await?
                }
            };
            if !runs_once {
                let of_it = seen.containers_of(&sandbox).filter(of_it);
                let last = of_it.filter(|c| c.end.is_some()).max_by_key(|c| c.attempt);
                statuses.push((is_sidecar, self.status(pod, container, &shown, last)));
            }
        }
        self.report(pod, &sandbox, statuses).await
    }

    async fn start(
        &mut self,
        uid: &str,
        spec: &PodSpec,
        sandbox: &str,
        config: &PodSandboxConfig,
        container: &Container,
        attempt: u32,
    ) -> Result<ShownContainer, CriError> {
        // those of the test; the API adds a volume of tokens
        let mounts = container.volume_mounts.iter().flatten().filter_map(|mount| {
            let mut volumes = spec.volumes.iter().flatten();
            let volume = volumes.find(|volume| volume.name == mount.name)?;
            let host_path = match &volume.empty_dir {
                Some(source) => {
                    let folder = empty_dir(&self.root, uid, &volume.name);
                    make_empty_dir(&folder, source.medium.as_deref() == Some("Memory"));
                    folder.display().to_string()
                }
                None => volume.host_path.as_ref()?.path.clone(),
            };
            Some(HostMount { container_path: mount.mount_path.clone(), host_path })
        });
        let log_path = format!("{}/{attempt}.log", container.name);
        let log = Path::new(&config.log_directory).join(&log_path);
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(ContainerConfig {
                metadata: Some(ContainerName { name: container.name.clone(), attempt }),
                image: Some(ImageSpec { image: IMAGE.to_owned() }),
                command: container.command.clone().unwrap_or_default(),
                args: container.args.clone().unwrap_or_default(),
                mounts: mounts.collect(),
                labels: config.labels.clone(),
                log_path,
                linux: Some(LinuxContainer {}),
            }),
            sandbox_config: Some(config.clone()),
        };
        let made: CreateContainerResponse =
            self.cri.call("CreateContainer", &request, LIMIT).await?;
        let id = made.container_id;
        let request = StartContainerRequest { container_id: id.clone() };
        let _started: EmptyResponse = self.cri.call("StartContainer", &request, LIMIT).await?;
        let now = jiff::Timestamp::now();
        self.started.insert(id.clone(), now);
        Ok(ShownContainer { id, attempt, state: json!({"running": {"startedAt": seconds(now)}}) })
    }

    fn started(&self, id: &str) -> Option<String> {
        self.started.get(id).map(|at| seconds(*at))
    }

    fn running(&self, known: &RuntimeContainer) -> ShownContainer {
        let state = json!({"running": {"startedAt": self.started(&known.id)}});
        ShownContainer { id: known.id.clone(), attempt: known.attempt, state }
    }

    fn status(
        &self,
        pod: &Pod,
        container: &Container,
        shown: &ShownContainer,
        last: Option<&RuntimeContainer>,
    ) -> Value {
        let id = format!("containerd://{}", shown.id);
        let runs = shown.state.get("running").is_some();
        let mut status = json!({
            "name": container.name, "image": IMAGE, "imageID": "", "ready": runs, "started": runs,
            "restartCount": shown.attempt, "containerID": id, "state": shown.state,
        });
        let before = serde_json::to_value(&pod.status).unwrap();
        let lists = ["containerStatuses", "initContainerStatuses"].map(|list| &before[list]);
        let mut before = lists.into_iter().filter_map(Value::as_array).flatten();
        let before = before.find(|status| status["name"] == *container.name);
        if let Some((last, end)) = last.and_then(|last| Some((last, last.end.as_ref()?))) {
            status["lastState"] = json!({"terminated": {
                "exitCode": end.exit_code, "reason": end.reason,
                "containerID": format!("containerd://{}", last.id),
                "startedAt": self.started(&last.id),
                "finishedAt": end.finished_at.as_ref().map(|at| seconds(at.0)),
            }});
        } else if let Some(same) = before.filter(|before| before["containerID"] == *id) {
            status["lastState"] = same["lastState"].clone();
        } else if before.is_some_and(|before| before["state"]["running"].is_object()) {
            status["lastState"] = json!({"terminated": {
                "exitCode": 137, "reason": "ContainerStatusUnknown",
                "startedAt": null, "finishedAt": null,
            }});
        }
        status
    }

    async fn report(
        &self,
        pod: &Pod,
        sandbox: &str,
        statuses: Vec<(bool, Value)>,
    ) -> Result<(), CriError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned() };
        let answer: PodSandboxStatusResponse =
            self.cri.call("PodSandboxStatus", &request, LIMIT).await?;
        let ip = answer.status.and_then(|status| status.network).map(|network| network.ip);
        let of_kind = |wanted: bool| {
            let of_kind = statuses.iter().filter(|(is_init, _)| *is_init == wanted);
            of_kind.map(|(_, status)| status.clone()).collect::<Vec<Value>>()
        };
        let status = json!({
            "phase": "Running", "podIP": ip, "podIPs": ip.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": of_kind(false), "initContainerStatuses": of_kind(true),
        });
        let known = serde_json::to_value(&pod.status).unwrap();
        let is_news = ["podIP", "containerStatuses", "initContainerStatuses"].iter().any(|field| {
            let shown = |status: &Value| match &status[field] {
                Value::Array(all) => {
                    let parts =
                        |c: &Value| [&c["containerID"], &c["state"]["waiting"]].map(Value::clone);
                    all.iter().flat_map(parts).collect()
                }
                other => vec![other.clone()],
            };
            shown(&known) != shown(&status)
        });
        if is_news {
            let pods: Api<Pod> =
                Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap());
            let patch = Patch::Merge(json!({"status": status}));
            let name = pod.metadata.name.as_deref().unwrap();
            if let Err(error) = pods.patch_status(name, &PatchParams::default(), &patch).await {
                eprintln!("kubelet double: status of {name}: {error}");
            }
        }
        Ok(())
    }
}
