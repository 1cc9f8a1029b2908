//! Who has figures to tell.

use super::Text;

/// Tells its figures whenever somebody asks.
pub trait MetricsSource: Send + Sync {
    /// Writes them. Must not wait for anything.
    fn write(&self, text: &mut Text);
}
