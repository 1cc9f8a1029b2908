//! The threads that serve the API's clients. Node, cluster DNS, probes, controllers and the
//! leader's Lease have others: whatever clients send, these keep their deadlines.

use std::net::TcpListener;

use anyhow::Context;
use rekindle_api_server::ApiServer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::background::worker_threads;

/// The threads. Dropped, they end without waiting for what they do.
pub struct ApiThreads(Option<Runtime>);

impl ApiThreads {
    /// Starts them.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(worker_threads())
            .thread_name("rekindle-api")
            .enable_all()
            .build()
            .context("start the API's threads")?;
        Ok(Self(Some(runtime)))
    }

    /// Serves on them until `stop` resolves. The listener is one that does not block.
    pub fn serve(
        &self,
        server: ApiServer,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<JoinHandle<std::io::Result<()>>> {
        let runtime = self.runtime();
        // what is accepted belongs to the threads that its listener belongs to
        let _on_them = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).context("listen on them")?;
        Ok(runtime.spawn(server.serve(listener, stop)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("taken by drop alone")
    }
}

impl Drop for ApiThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The only thread of the test stands for those of node, DNS, probes and Leases.
    #[tokio::test]
    async fn clients_that_hold_every_thread_of_the_api_hold_up_nothing_else() {
        let threads = ApiThreads::start().expect("threads");
        let (told, mut reached) = tokio::sync::mpsc::unbounded_channel();
        let (gates, held): (Vec<_>, Vec<_>) =
            (0..worker_threads()).map(|_| mpsc::channel::<()>()).unzip();
        for gate in held {
            let told = told.clone();
            threads.runtime().spawn(async move {
                told.send(()).expect("the test waits");
                let _opened = gate.recv();
            });
        }
        for _ in &gates {
            reached.recv().await.expect("each thread is held");
        }
    }
}
