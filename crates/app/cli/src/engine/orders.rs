//! What the arguments of `up` say, read and checked before anything is begun.

use rekindle_node::NodeSettings;
use rekindle_operator::{Candidacy, RestartLimits, Webhook};

use super::data_dir::DataDir;
use super::node_config;
use super::service_range::ChosenServiceRange;
use super::settings::EngineSettings;
use crate::args::Up;
use crate::exhausted_webhook::webhook;

/// What an engine is to be.
pub struct EngineOrders {
    /// What `down` needs to know, too.
    pub settings: EngineSettings,
    /// How nodes behave when they run out of something, and when they are shut down.
    pub node: NodeSettings,
    /// The limits over all ladders.
    pub limits: RestartLimits,
    /// Under which name, and with which periods, controllers and ladders stand for election.
    pub candidacy: Candidacy,
    /// Who is told of exhausted ladders.
    pub webhook: Option<Webhook>,
    /// Where the addresses of Services come from.
    pub services: ChosenServiceRange,
}

impl EngineOrders {
    /// # Errors
    /// When an argument, or a file that one names, cannot be followed.
    pub async fn read(args: &Up, data_dir: &DataDir) -> anyhow::Result<Self> {
        let settings = EngineSettings::new(args, data_dir);
        // Its data directory is this engine's alone: what an earlier one with this name held is
        // nobody's any more.
        let identity = format!("{}_engine", settings.node_name);
        let bridge = &settings.bridge;
        let services = ChosenServiceRange::choose(args.service_cidr, data_dir, bridge).await?;
        let second = match settings.ipv6_range(data_dir)? {
            Some(range) => {
                range.check_routes(bridge).await?;
                Some(range.services()?)
            }
            None => None,
        };
        Ok(Self {
            node: node_config::read(&args.node)?,
            limits: args.ladder.limits()?,
            candidacy: args.election.candidacy(identity)?,
            webhook: webhook(&args.exhausted)?,
            services: services.with_second(second)?,
            settings,
        })
    }
}
