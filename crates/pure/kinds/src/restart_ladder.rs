//! RestartLadder (rekindle.dev/v1alpha1).

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    API_VERSION, AVOID_NODE_DEFAULT, LADDER_WINDOW_DEFAULT, LadderScope, OnExhausted,
    RUNG_ATTEMPTS_DEFAULT, RestartLadder, Rung,
};
use rekindle_types::validation::field_error::FieldError;

use super::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, list_or_none};
use crate::validation::{Path, text};

impl ApiKind for RestartLadder {
    const NAMES: ResourceNames = ResourceNames {
        singular: "restartladder",
        short_names: &["rl"],
        categories: &["rekindle"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Rungs", "string", "What is tried one after the other, each with its attempts."),
        column("Window", "string", "Attempts count inside this window."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        API_VERSION.clone_into(&mut self.api_version);
        "RestartLadder".clone_into(&mut self.kind);
        let spec = &mut self.spec;
        spec.window.get_or_insert_with(|| LADDER_WINDOW_DEFAULT.to_owned());
        spec.on_exhausted.get_or_insert(OnExhausted::Hold);
        spec.scope.get_or_insert(LadderScope::Pod);
        for rung in &mut spec.rungs {
            rung.attempts.get_or_insert(RUNG_ATTEMPTS_DEFAULT);
            if rung.rung == Rung::Reschedule {
                rung.avoid_node_for.get_or_insert_with(|| AVOID_NODE_DEFAULT.to_owned());
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = None;
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        self.spec.faults()
    }

    fn warnings(&self) -> Vec<String> {
        let attempts = |index| Path::new("spec").child("rungs").index(index).child("attempts");
        let never = self.spec.never_climbs();
        let never = never.map(|(index, text)| format!("{}: {text}", attempts(index)));
        never.into_iter().collect()
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let rungs: Vec<String> = self
            .spec
            .rungs
            .iter()
            .map(|rung| format!("{}:{}", rung.rung, rung.attempts.unwrap_or(RUNG_ATTEMPTS_DEFAULT)))
            .collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            list_or_none(rungs.iter().map(String::as_str)).into(),
            text(self.spec.window.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for RestartLadder {
    preparation::updates_of_status!();
}
