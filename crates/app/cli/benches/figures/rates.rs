//! Rates at a server's own address, and on a way that leads there.

use std::time::{Duration, Instant};

use rekindle_testkit::load::Load;

const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(2);
/// Of the answers whose throughput is measured. An argument of a program may be somewhat longer.
pub const ANSWER_BYTES: usize = 100_000;

/// What was measured at a server's own address, and on a way that leads there.
pub struct Rates {
    direct: f64,
    through: f64,
}

impl Rates {
    pub fn share(&self) -> f64 {
        self.through / self.direct
    }

    pub fn in_words(&self, unit: &str) -> String {
        let Self { direct, through } = self;
        format!("{through:.0} of {direct:.0}{unit}: {:.0} %", 100.0 * self.share())
    }
}

/// The rate on both ways, which take turns.
pub async fn beside(
    rate: impl AsyncFn((&str, u16)) -> anyhow::Result<f64>,
    direct: (&str, u16),
    through: (&str, u16),
) -> anyhow::Result<Rates> {
    let mut rates = Rates { direct: 0.0, through: 0.0 };
    for _ in 0..ROUNDS {
        rates.direct += rate(direct).await? / ROUNDS as f64;
        rates.through += rate(through).await? / ROUNDS as f64;
    }
    Ok(rates)
}

/// On kept connections, of answers of [`ANSWER_BYTES`].
pub async fn megabytes_per_second((host, port): (&str, u16)) -> anyhow::Result<f64> {
    let answers = answers_per_second(Load::start_kept_at_full_speed(host, port)).await?;
    Ok(answers * ANSWER_BYTES as f64 / 1e6)
}

/// New ones.
pub async fn connections_per_second((host, port): (&str, u16)) -> anyhow::Result<f64> {
    answers_per_second(Load::start_at_full_speed(host, port)).await
}

async fn answers_per_second(load: Load) -> anyhow::Result<f64> {
    let begun = Instant::now();
    tokio::time::sleep(ROUND).await;
    let result = tokio::task::spawn_blocking(|| load.stop()).await?;
    anyhow::ensure!(result.lost.is_empty(), "{:?}", result.lost.first());
    Ok(result.answered as f64 / begun.elapsed().as_secs_f64())
}
