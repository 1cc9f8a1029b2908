//! From counts of pods to the points of nodes, as upstream's scoring has them: the fewer pods of
//! its kind, the better.

use super::super::candidate::SCORE_MAX;

/// What the pods of one domain count. The greater the skew that is let be, the less they make a
/// difference.
pub(super) fn points(pods: i64, max_skew: i32, weight: f64) -> f64 {
    as_float(pods) * weight + f64::from(max_skew - 1)
}

/// The more domains there are, the more a pod in one of them counts, so that few zones do not drown
/// many hosts.
pub(super) fn weight(domains: usize) -> f64 {
    (as_float(i64::try_from(domains).unwrap_or(i64::MAX)) + 2.0).ln()
}

/// Points of each node as a score of 0..=100: that with the fewest has most, and one that does not
/// count has none.
pub(super) fn normalized(points: Vec<Option<f64>>) -> Vec<i64> {
    let points: Vec<Option<i64>> =
        points.into_iter().map(|points| points.map(|points| whole(points.round()))).collect();
    let most = points.iter().flatten().copied().max().unwrap_or(0);
    let least = points.iter().flatten().copied().min().unwrap_or(0);
    let normal = |points: Option<i64>| match points {
        None => 0,
        Some(_) if most == 0 => SCORE_MAX,
        Some(points) => SCORE_MAX * (most + least - points) / most,
    };
    points.into_iter().map(normal).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of pods and domains are far below 2^52")]
fn as_float(count: i64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "pods times a weight of 9 at most")]
fn whole(points: f64) -> i64 {
    points as i64
}
