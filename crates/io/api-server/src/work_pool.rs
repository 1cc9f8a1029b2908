//! Where heavy requests are handled: on a few threads of their own, so that no light request, watch
//! or handshake waits for them.
//!
//! ```text
//!   request ── turn of its user ──▶ thread ──▶ answer
//!                   │ (all threads but one)  └ one thread is for the system's own users alone
//!                   └ its client went: it is not begun
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rekindle_api::status::ApiError;
use rekindle_kinds::identity::UserInfo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use tokio::time::timeout;

/// How long a request waits for a thread before it is refused.
const WAIT: Duration = Duration::from_secs(30);
/// Seconds after which a refused client tries again.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The threads. Cheap to clone.
#[derive(Clone)]
pub(super) struct WorkPool {
    threads: Arc<Semaphore>,
    /// One more, for the system's own users when the others are busy.
    system_thread: Arc<Semaphore>,
    /// Threads that one user may hold.
    of_user_max: usize,
    turns: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
}

/// The place of one request among those of its user. The last one takes the user's entry away.
struct UserTurn {
    pool: WorkPool,
    user: String,
    turns: Arc<Semaphore>,
}

impl Default for WorkPool {
    /// As many threads as the machine has cores, from 2 to 4.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        Self::new(cores.clamp(2, 4))
    }
}

impl WorkPool {
    fn new(threads: usize) -> Self {
        Self {
            threads: Arc::new(Semaphore::new(threads)),
            system_thread: Arc::new(Semaphore::new(1)),
            of_user_max: (threads - 1).max(1),
            turns: Arc::default(),
        }
    }

    /// Does the work on a thread of the pool. Dropped while it waits, the work is not begun;
    /// dropped later, its result is.
    ///
    /// # Errors
    /// 429 when no thread was free in time; 500 when the work panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        user: &UserInfo,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.turn(&user.name);
        let permits = async {
            // It is never closed.
            let mine = Arc::clone(&turn.turns).acquire_owned().await.ok()?;
            Some((mine, self.thread(user).await?))
        };
        let permits = timeout(WAIT, permits).await.ok().flatten();
        let Some(permits) = permits else {
            return Err(ApiError::too_many_requests(
                format!("no thread was free for a large request within {} seconds", WAIT.as_secs()),
                RETRY_AFTER_SECONDS,
            ));
        };
        let done = tokio::task::spawn_blocking(move || {
            // held to the end, also when the client goes before; the permits go first
            let (_turn, _permits) = (turn, permits);
            work()
        });
        done.await.map_err(|error: JoinError| ApiError::internal(error))
    }

    async fn thread(&self, user: &UserInfo) -> Option<OwnedSemaphorePermit> {
        let any = Arc::clone(&self.threads).acquire_owned();
        if !user.is_system() {
            return any.await.ok();
        }
        tokio::select! {
            biased;
            any = any => any.ok(),
            reserved = Arc::clone(&self.system_thread).acquire_owned() => reserved.ok(),
        }
    }

    fn turn(&self, user: &str) -> UserTurn {
        let new = || Arc::new(Semaphore::new(self.of_user_max));
        let turns = Arc::clone(self.turns().entry(user.to_owned()).or_insert_with(new));
        UserTurn { pool: self.clone(), user: user.to_owned(), turns }
    }

    fn turns(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Semaphore>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UserTurn {
    fn drop(&mut self) {
        let mut turns = self.pool.turns();
        // the map's and ours: a permit that work still holds is another one
        if Arc::strong_count(&self.turns) <= 2 {
            turns.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt;

    use super::*;

    fn user(name: &str) -> UserInfo {
        UserInfo::new(name, [])
    }

    /// Work that does not end before the gate is opened.
    fn gate() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (open, closed) = mpsc::channel::<()>();
        (open, move || {
            let _opened = closed.recv();
        })
    }

    #[tokio::test]
    async fn the_heavy_work_of_one_user_does_not_hold_up_that_of_others() {
        let pool = WorkPool::new(2);
        let (open, blocked) = gate();
        let ann = user("ann");
        let mut first = Box::pin(pool.run(&ann, blocked));
        assert!((&mut first).now_or_never().is_none());
        let mut second = Box::pin(pool.run(&ann, || "second"));
        assert!((&mut second).now_or_never().is_none(), "it waits for ann's first");
        assert_eq!(pool.run(&user("bob"), || "bob").await, Ok("bob"));
        drop(open);
        assert_eq!((first.await, second.await), (Ok(()), Ok("second")));
        assert!(pool.turns().is_empty(), "nothing is kept of who has nothing under way");
    }

    #[tokio::test]
    async fn the_system_has_a_thread_when_users_hold_all_others() {
        let pool = WorkPool::new(2);
        let (ann, bob) = (user("ann"), user("bob"));
        let ((open_one, one), (open_two, two)) = (gate(), gate());
        let mut one = Box::pin(pool.run(&ann, one));
        let mut two = Box::pin(pool.run(&bob, two));
        assert!((&mut one).now_or_never().is_none() && (&mut two).now_or_never().is_none());
        let admin = UserInfo::internal("admin");
        assert_eq!(pool.run(&admin, || "admin").await, Ok("admin"));
        drop((open_one, open_two));
        one.await.unwrap();
        two.await.unwrap();
    }

    #[tokio::test]
    async fn work_is_not_begun_when_its_client_has_gone() {
        let pool = WorkPool::new(2);
        let ann = user("ann");
        let (open, blocked) = gate();
        let mut first = Box::pin(pool.run(&ann, blocked));
        assert!((&mut first).now_or_never().is_none());
        let (told, begun) = mpsc::channel();
        let mut waits = Box::pin(pool.run(&ann, move || told.send(()).unwrap()));
        assert!((&mut waits).now_or_never().is_none());
        drop(waits);
        drop(open);
        first.await.unwrap();
        assert!(begun.recv().is_err(), "the work was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_to_come_again() {
        let pool = WorkPool::new(2);
        let ann = user("ann");
        let _held = Arc::clone(&pool.turn("ann").turns);
        let held = Arc::clone(&pool.threads).acquire_many_owned(2).await.unwrap();
        let refused = pool.run(&ann, || ()).await.unwrap_err();
        assert_eq!(refused.code(), 429);
        drop(held);
    }

    #[tokio::test]
    async fn a_panic_is_told_and_the_thread_is_free_again() {
        let pool = WorkPool::new(2);
        let failed: Result<(), ApiError> = pool.run(&user("ann"), || panic!("a bug")).await;
        assert_eq!(failed.unwrap_err().code(), 500);
        assert_eq!(pool.run(&user("ann"), || 1).await, Ok(1));
    }
}
