//! What is cleared away behind everybody's back, and when.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long what has ended is left alone before the kernel is asked to forget it. What was written
/// last is held by the journal of the file system for five seconds (ext4's `commit`), and asking
/// earlier waits for the disk, in vain: 105 ms in place of 1.
pub(crate) const LEISURE: Duration = Duration::from_secs(10);
/// How long what has no use any more is kept: until what takes its place has started, and not so
/// long that a full disk stays full.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// How soon something is cleared away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClearingPace {
    /// When it is cheap.
    AtLeisure,
    /// Now: the engine ends.
    AtOnce,
}

/// The work under way.
pub(crate) struct ClearingTasks {
    tasks: Mutex<Vec<JoinHandle<()>>>,
    pace: watch::Sender<ClearingPace>,
}

impl ClearingTasks {
    pub(crate) fn new() -> Self {
        Self { tasks: Mutex::default(), pace: watch::Sender::new(ClearingPace::AtLeisure) }
    }

    /// Runs work where it keeps nobody waiting.
    pub(crate) fn begin(&self, work: impl FnOnce() + Send + 'static) {
        self.note(tokio::task::spawn_blocking(work));
    }

    /// The same after a while, or as soon as somebody waits for all of it.
    pub(crate) fn begin_after(
        &self,
        wait: Duration,
        work: impl FnOnce(ClearingPace) + Send + 'static,
    ) {
        let mut pace = self.pace.subscribe();
        self.note(tokio::spawn(async move {
            let hurry = pace.wait_for(|pace| *pace == ClearingPace::AtOnce);
            let pace = match tokio::time::timeout(wait, hurry).await {
                Err(_elapsed) => ClearingPace::AtLeisure,
                Ok(_) => ClearingPace::AtOnce,
            };
            // A panic of the work was reported where it happened.
            let _ = tokio::task::spawn_blocking(move || work(pace)).await;
        }));
    }

    /// Waits until everything is cleared away. From now on nothing is left for later.
    pub(crate) async fn settle(&self) {
        self.pace.send_replace(ClearingPace::AtOnce);
        loop {
            let Some(task) = self.tasks().pop() else { return };
            // A panic of the task was reported where it happened.
            let _ = task.await;
        }
    }

    fn note(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_time_is_done_later_or_when_somebody_waits_for_it() {
        let clearing = Arc::new(ClearingTasks::new());
        let (done, seen) = channel();
        let begun = tokio::time::Instant::now();
        let first = done.clone();
        clearing.begin_after(LEISURE, move |pace| first.send(pace).unwrap());
        let late = clearing.tasks().pop().unwrap();
        late.await.unwrap();
        assert_eq!(seen.try_recv(), Ok(ClearingPace::AtLeisure));
        assert!(begun.elapsed() >= LEISURE);

        let begun = tokio::time::Instant::now();
        let (outer, inner) = (Arc::clone(&clearing), done);
        clearing.begin(move || {
            outer.begin_after(LEISURE, move |pace| inner.send(pace).unwrap());
        });
        clearing.settle().await;
        assert_eq!(
            seen.try_recv(),
            Ok(ClearingPace::AtOnce),
            "also what the work itself has begun"
        );
        assert!(begun.elapsed() < LEISURE);
    }
}
