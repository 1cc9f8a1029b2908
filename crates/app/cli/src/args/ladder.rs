//! The limits over all RestartLadders.

use clap::Args;
use rekindle_operator::{RestartLimits, TokenBucket};

/// What all ladders together may restart. Restarts of the rung Container are the kubelet's own and
/// do not count; a ladder's own budget may be narrower.
#[derive(Args, Clone, Copy, Debug)]
pub struct LadderArgs {
    /// Restarts of ladders per minute in a namespace, in the long run
    #[arg(long, value_name = "NUMBER", default_value_t = 30, value_parser = positive())]
    pub ladder_namespace_per_minute: u32,
    /// Restarts of ladders at once in a namespace; not more than per minute
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = positive())]
    pub ladder_namespace_burst: u32,
    /// Restarts of ladders per minute in the cluster, in the long run
    #[arg(long, value_name = "NUMBER", default_value_t = 60, value_parser = positive())]
    pub ladder_cluster_per_minute: u32,
    /// Restarts of ladders at once in the cluster; not more than per minute
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = positive())]
    pub ladder_cluster_burst: u32,
    /// Pods of one Deployment, StatefulSet or the like that ladders restart at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = positive())]
    pub ladder_workload_concurrent: u32,
}

/// More than anybody needs; a minute in microseconds is divided by it.
const NUMBER_MAX: i64 = 100_000;

fn positive() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=NUMBER_MAX)
}

impl LadderArgs {
    /// As the ladders have them.
    ///
    /// # Errors
    /// When more may come at once than in a minute.
    pub fn limits(&self) -> anyhow::Result<RestartLimits> {
        let bucket = |burst: u32, per_minute: u32, of: &str| {
            anyhow::ensure!(
                burst <= per_minute,
                "--ladder-{of}-burst {burst} is more than --ladder-{of}-per-minute {per_minute}: what comes at once comes within the minute, too"
            );
            Ok(TokenBucket::new(burst, per_minute))
        };
        Ok(RestartLimits {
            namespace: bucket(
                self.ladder_namespace_burst,
                self.ladder_namespace_per_minute,
                "namespace",
            )?,
            cluster: bucket(self.ladder_cluster_burst, self.ladder_cluster_per_minute, "cluster")?,
            per_workload: usize::try_from(self.ladder_workload_concurrent)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        ladder: LadderArgs,
    }

    fn parse(words: &[&str]) -> Result<RestartLimits, String> {
        let words = ["rekindle"].iter().chain(words);
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.ladder.limits().map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_the_limits_are_those_of_the_ladder() {
        assert_eq!(parse(&[]), Ok(RestartLimits::default()));
    }

    #[test]
    fn each_limit_can_be_set_and_a_wrong_one_is_refused_by_name() {
        let limits = parse(&[
            "--ladder-namespace-per-minute=6",
            "--ladder-namespace-burst=2",
            "--ladder-cluster-per-minute=100",
            "--ladder-cluster-burst=50",
            "--ladder-workload-concurrent=1",
        ]);
        let expected = RestartLimits {
            namespace: TokenBucket::new(2, 6),
            cluster: TokenBucket::new(50, 100),
            per_workload: 1,
        };
        assert_eq!(limits, Ok(expected));
        for (words, said) in [
            (["--ladder-cluster-burst=0"].as_slice(), "--ladder-cluster-burst"),
            (&["--ladder-workload-concurrent=many"], "--ladder-workload-concurrent"),
            (&["--ladder-namespace-burst=31"], "more than --ladder-namespace-per-minute 30"),
        ] {
            let error = parse(words).expect_err("a wrong limit");
            assert!(error.contains(said), "{error}");
        }
    }
}
