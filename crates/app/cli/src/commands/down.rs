//! `rekindle down`: asks the engine of a data directory to end, and waits until it has. Where an
//! engine was killed, ends what it left.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use rustix::process::Signal;

use crate::args::Down;
use crate::client;
use crate::engine::data_dir::DataDir;
use crate::engine::remains;
use crate::engine::settings::EngineSettings;
use crate::holder::DataDirHolder;
use crate::output;

/// Carries the command out. No engine is success, and said.
pub fn run(args: &Down) -> anyhow::Result<ExitCode> {
    let path = &args.data_dir.data_dir;
    let Some(engine) = DataDirHolder::find(path)? else {
        output::tell(format!("no engine runs on {}", path.display()));
        return if args.leave_pods { Ok(ExitCode::SUCCESS) } else { clean_up(path) };
    };
    // SIGQUIT leaves the pods: see `engine::run`.
    engine.signal(if args.leave_pods { Signal::QUIT } else { Signal::TERM })?;
    engine.wait()?;
    output::tell(format!("engine {} ended", engine.pid()));
    if args.leave_pods {
        return Ok(ExitCode::SUCCESS);
    }
    ensure_no_new_engine(path)?;
    // it may have been killed before it had ended everything
    clean_up(path)
}

/// Fails when an engine holds the data directory again: what lies there is its own, and so are the
/// pods.
fn ensure_no_new_engine(path: &Path) -> anyhow::Result<()> {
    let Some(new) = DataDirHolder::find(path)? else { return Ok(()) };
    bail!(
        "a new engine (pid {}) has taken data directory {} since: something starts it again, such as a systemd unit with Restart=; \
         stop that instead (systemctl stop UNIT), or disable it and run this again",
        new.pid(),
        path.display()
    )
}

/// Ends the pods that a killed engine left running, as that engine would have. After one that ended
/// by itself there is nothing to do.
fn clean_up(path: &Path) -> anyhow::Result<ExitCode> {
    let Some(settings) = EngineSettings::kept(path)? else {
        return Ok(ExitCode::SUCCESS); // the last one took everything away, or came not far enough to make anything
    };
    client::block_on(async {
        let data_dir = match DataDir::hold(path) {
            Ok(data_dir) => data_dir,
            Err(error) => {
                ensure_no_new_engine(path)?;
                return Err(error);
            }
        };
        let ended = remains::end(data_dir, &settings)
            .await
            .context("end what an engine that was killed left")?;
        for pod in &ended {
            output::tell(format!("ended pod {pod}, which an engine that was killed had left"));
        }
        Ok(ExitCode::SUCCESS)
    })
}
