//! Fields that an apply would change while another owner has them.

use std::fmt;

use crate::field_owners::FieldOwner;
use crate::field_set::FieldSet;
use crate::path_element::FieldPath;

/// One field, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// Who has it.
    pub owner: FieldOwner,
    /// The field.
    pub path: FieldPath,
}

/// All conflicts of one apply, by owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FieldConflicts(pub Vec<FieldConflict>);

impl FieldConflicts {
    /// The fields.
    pub fn fields(&self) -> FieldSet {
        FieldSet::from_paths(self.0.iter().map(|conflict| conflict.path.clone()))
    }

    /// The conflicts over other fields.
    pub fn without(self, fields: &FieldSet) -> Self {
        Self(self.0.into_iter().filter(|conflict| !fields.has(&conflict.path)).collect())
    }
}

impl fmt::Display for FieldConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            let FieldConflict { owner, path } = conflict;
            return write!(f, "Apply failed with 1 conflict: conflict with {owner}: {path}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for FieldConflict { owner, path } in &self.0 {
            if last != Some(owner) {
                let line = if last.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {owner}:")?;
                last = Some(owner);
            }
            write!(f, "\n- {path}")?;
        }
        Ok(())
    }
}
