//! Whether controllers run the ladders as well.

use clap::Args;
use rekindle_operator::PlannerRole;

/// What runs beside the API.
#[derive(Args, Clone, Copy, Debug)]
pub struct ControllersRole {
    /// Controllers and scheduler without the ladders: an engine plays a cluster that is not ours,
    /// and `rekindle operator --on-engine` runs the ladders
    #[arg(long, hide = true)]
    pub no_ladders: bool,
}

impl ControllersRole {
    /// As the operator has it.
    pub fn role(self) -> PlannerRole {
        if self.no_ladders { PlannerRole::EngineWithoutLadders } else { PlannerRole::Engine }
    }
}
