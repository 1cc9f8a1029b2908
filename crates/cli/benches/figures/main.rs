//! The table of figures: what a user feels, measured on the real binary through its API, beside the peers that are installed.
//!
//! `cargo xtask bench` runs it; `cargo xtask bench --peers` measures the peers alone. It asserts nothing: machines differ, and a slow run is not a wrong one.
#![allow(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a benchmark measures time and drives processes"
)]

mod api_load;
mod engine;
mod idle;
mod machine;
mod peers;
mod restarts;
mod sample;
mod startup;

use engine::Engine;
use sample::Report;

fn main() -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::default();
    let machine = machine::describe();
    println!("{machine}");
    if std::env::args().any(|argument| argument == "--peers") {
        peers::measure(&mut report);
        report.print();
        return Ok(());
    }
    runtime.block_on(async {
        startup::measure(&mut report).await?;
        let engine = Engine::start().await?;
        restarts::measure(&engine, &mut report).await?;
        idle::measure(&engine, &mut report).await?;
        drop(engine);
        let engine = Engine::start().await?;
        api_load::measure(&engine, &mut report).await?;
        anyhow::Ok(())
    })?;
    peers::measure(&mut report);
    println!("{machine}");
    report.print();
    Ok(())
}
