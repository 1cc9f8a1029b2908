//! What a whole-pod restart makes new, as ladders and requests say it.

use rekindle_types::v1alpha1::Refresh;

use crate::validation::Path;

/// What belongs to the sandbox is made new as a whole; only the contents of emptyDir volumes can be
/// kept.
pub(super) fn warning(refresh: Option<&[Refresh]>, field: &Path) -> Option<String> {
    let refresh = refresh.filter(|refresh| !refresh.is_empty())?;
    let sandbox = [Refresh::Network, Refresh::Ipc, Refresh::Cgroup];
    let left_out: Vec<&str> =
        sandbox.into_iter().filter(|part| !refresh.contains(part)).map(Refresh::name).collect();
    (!left_out.is_empty()).then(|| {
        format!(
            "{field}: {} will be made new, too: this version of Rekindle always makes the whole sandbox new, and keeps emptyDir \
             volumes when EmptyDir is left out",
            left_out.join(", ")
        )
    })
}
