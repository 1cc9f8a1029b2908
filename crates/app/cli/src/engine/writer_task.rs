//! A task that keeps rules in the kernel as they are wanted.

use std::future::Future;

use tokio::task::JoinHandle;

/// The task, if there is one.
#[derive(Debug, Default)]
pub struct WriterTask(Option<JoinHandle<()>>);

impl WriterTask {
    /// Begins to write.
    pub fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    /// Writes no more. The rules stay, for pods that run on.
    pub async fn stop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            // it was stopped: how it ended says nothing
            drop(task.await);
        }
    }
}
