//! What cells of server-side tables show: ages, counts, states.
//!
//! Cells look as those of kubectl's server-side printers (`pkg/printers/internalversion`), since
//! people and scripts know them.

mod age;
mod cells;
mod images;

pub use age::{age, created_at, human, translate};
pub use cells::{AGE, CREATED_AT, NAME, column, list_or_none, or_none, or_unset, wide};
pub use images::containers_and_images;
