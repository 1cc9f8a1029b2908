//! Making sandboxes and taking them away.

use std::sync::Arc;

use rekindle_shim::protocol::{
    ClaimPlan, NamespacePlan, NamespacesPlan, ProcessesPlan, RootsAhead, SandboxPlan, ShimRequest,
    UsersPlan,
};

use super::link::CallError;
use super::records::{RecordLine, SandboxRecord};
use super::sandbox::{self, EmbeddedSandbox, SandboxLifecycle, SandboxTraits, SpareSandbox};
use super::shim_process::{SHUTDOWN_TIME, StartedShim};
use super::sysctls::{check_sysctls, default_sysctls};
use super::{SharedRuntime, blocking, contact, janitor, spares};
use crate::error::{Cause, RuntimeError};
use crate::spec::{
    NamespaceOwner, Namespaces, ProcessVisibility, SandboxInfo, SandboxKey, SandboxSpec,
    SandboxUsers, UserRange,
};

fn failed(key: &SandboxKey, operation: &'static str, source: impl Into<Cause>) -> RuntimeError {
    RuntimeError::Sandbox { key: key.clone(), operation, source: source.into() }
}

/// Makes the sandbox, or finds it.
pub(crate) async fn run(
    shared: &Arc<SharedRuntime>,
    spec: &SandboxSpec,
) -> Result<SandboxInfo, RuntimeError> {
    const OPERATION: &str = "set up";
    let sandbox = find_or_insert(shared, spec);
    let _gate = sandbox.gate.lock().await;
    if let Some(info) = sandbox.info() {
        return Ok(info);
    }
    if !sandbox.is_new() {
        let problem = "its shim is gone: remove this attempt, and make the next one";
        return Err(failed(&spec.key, OPERATION, problem));
    }
    match make(shared, &sandbox, spec).await {
        Ok(info) => Ok(info),
        Err(cause) => {
            // Before the next one of this key is made.
            if let Err(error) = sandbox.disown() {
                tracing::warn!(%error, pod = %spec.key.pod, "failed to remove the records of an unfinished sandbox");
            }
            shared.sandboxes().remove(&spec.key);
            sandbox.begin_removal();
            janitor::retire(shared, &sandbox);
            Err(failed(&spec.key, OPERATION, cause))
        }
    }
}

fn find_or_insert(shared: &Arc<SharedRuntime>, spec: &SandboxSpec) -> Arc<EmbeddedSandbox> {
    let mut sandboxes = shared.sandboxes();
    let make = || {
        let (layout, events) = (&shared.layout, shared.events.clone());
        Arc::new(match spares::fits(spec).then(|| shared.spares.take()).flatten() {
            Some(spare) => {
                EmbeddedSandbox::of_spare(SandboxTraits::from(spec), spare, layout, events)
            }
            None => {
                let id = layout.sandbox_id(&spec.key);
                EmbeddedSandbox::new(SandboxTraits::from(spec), id, layout, events)
            }
        })
    };
    sandboxes.entry(spec.key.clone()).or_insert_with(make).clone()
}

async fn make(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    spec: &SandboxSpec,
) -> Result<SandboxInfo, Cause> {
    let sysctls = check_sysctls(spec)?;
    match sandbox.take_spare() {
        Some(spare) => claim(shared, sandbox, spec, spare, sysctls).await,
        None => make_afresh(shared, sandbox, spec, sysctls).await,
    }
}

async fn make_afresh(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    spec: &SandboxSpec,
    sysctls: Vec<(String, String)>,
) -> Result<SandboxInfo, Cause> {
    let mount_point = sandbox.mount_point();
    let mount_point = mount_point.to_str().ok_or("the data folder's path is not UTF-8")?;
    let plan = SandboxPlan {
        hostname: spec.hostname.clone(),
        sysctls: default_sysctls(spec.namespaces).into_iter().chain(sysctls).collect(),
        shm_bytes: spec.shm_bytes,
        mount_point: mount_point.to_owned(),
        namespaces: namespaces_plan(spec.namespaces),
    };
    let started = {
        let (shared, sandbox, spec) = (shared.clone(), sandbox.clone(), spec.clone());
        blocking(move || {
            shared.cgroups.create_sandbox(&spec.key, &spec.resources)?;
            Ok::<_, Cause>(shared.program.start(&shared.layout, &sandbox.id)?)
        })
    };
    let StartedShim { socket, child, records } = started.await?;
    sandbox.keep_records(records);
    sandbox.note_roots_ahead(RootsAhead::Made);
    let pid = child.id();
    let link = match contact::follow(shared, sandbox.into(), socket) {
        Ok(link) => link,
        Err(error) => {
            // Without a connection the shim goes away by itself.
            sandbox.enter(SandboxLifecycle::Dead { child: Some(child) });
            return Err(error.into());
        }
    };
    sandbox.enter(SandboxLifecycle::Ready { link: link.clone(), pid, child: Some(child) });
    link.call(ShimRequest::Configure(plan)).await?;
    sandbox.record(&RecordLine::Sandbox(record(shared, spec)))?;
    Ok(sandbox::info(&sandbox.id, pid, spec.namespaces))
}

/// Gives a sandbox that was made ahead to its pod.
async fn claim(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    spec: &SandboxSpec,
    spare: SpareSandbox,
    sysctls: Vec<(String, String)>,
) -> Result<SandboxInfo, Cause> {
    let SpareSandbox { link, target, child, records, id, roots: _ } = spare;
    let pid = child.id();
    target.set(sandbox);
    sandbox.keep_records(records);
    sandbox.note_roots_ahead(RootsAhead::Made);
    sandbox.enter(SandboxLifecycle::Ready { link: link.clone(), pid, child: Some(child) });
    let made = {
        let (shared, spec) = (shared.clone(), spec.clone());
        blocking(move || shared.cgroups.create_sandbox(&spec.key, &spec.resources))
    };
    let processes = processes_plan(spec.namespaces.processes);
    let plan = ClaimPlan { hostname: spec.hostname.clone(), sysctls, processes };
    let (made, claimed) = tokio::join!(made, link.call(ShimRequest::Claim(plan)));
    made?;
    claimed?;
    // Last: what has no record is a spare still.
    sandbox.record(&RecordLine::Sandbox(record(shared, spec)))?;
    Ok(sandbox::info(&id, pid, spec.namespaces))
}

fn record(shared: &SharedRuntime, spec: &SandboxSpec) -> SandboxRecord {
    SandboxRecord {
        key: spec.key.clone(),
        hostname: spec.hostname.clone(),
        engine_id: shared.layout.engine_id().to_owned(),
        namespaces: spec.namespaces,
    }
}

fn namespaces_plan(namespaces: Namespaces) -> NamespacesPlan {
    let plan = |whose| match whose {
        NamespaceOwner::Own => NamespacePlan::Own,
        NamespaceOwner::Host => NamespacePlan::Host,
    };
    NamespacesPlan {
        network: plan(namespaces.network),
        ipc: plan(namespaces.ipc),
        processes: processes_plan(namespaces.processes),
        users: match namespaces.users {
            SandboxUsers::Host => UsersPlan::Host,
            SandboxUsers::Own(UserRange { first, length }) => UsersPlan::Own { first, length },
        },
    }
}

fn processes_plan(processes: ProcessVisibility) -> ProcessesPlan {
    match processes {
        ProcessVisibility::Container => ProcessesPlan::Containers,
        ProcessVisibility::Pod => ProcessesPlan::Sandbox,
        ProcessVisibility::Host => ProcessesPlan::Host,
    }
}

/// Ends everything in the sandbox. When this comes back nothing of it runs; its remains are cleared
/// away behind.
pub(crate) async fn remove(
    shared: &Arc<SharedRuntime>,
    key: &SandboxKey,
) -> Result<(), RuntimeError> {
    const OPERATION: &str = "tear down";
    let Some(sandbox) = shared.find(key) else { return Ok(()) };
    let _gate = sandbox.gate.lock().await;
    if shared.find(key).is_none_or(|found| !Arc::ptr_eq(&found, &sandbox)) {
        return Ok(()); // somebody else did it meanwhile
    }
    if let Some(link) = sandbox.begin_removal() {
        match link.call_within(ShimRequest::Shutdown, SHUTDOWN_TIME).await {
            Ok(_) | Err(CallError::Gone) => {}
            Err(error @ CallError::Refused(_)) => return Err(failed(key, OPERATION, error)),
            // Stopped, or stuck: its containers are bound to die with it.
            Err(CallError::Silent(_)) => {
                tracing::warn!(pod = %key.pod, "lost a shim that does not answer; killing it")
            }
        }
    }
    let (owned, gone) = (shared.clone(), sandbox.clone());
    let ended = blocking(move || janitor::end_now(&owned, &gone)).await;
    ended.map_err(|error| failed(key, OPERATION, error))?;
    shared.sandboxes().remove(key);
    janitor::retire(shared, &sandbox);
    Ok(())
}
