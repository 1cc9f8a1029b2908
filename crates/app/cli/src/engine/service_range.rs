//! Which range the addresses of this engine's Services come from: what the user says, what the
//! engine had before, or the first of a few that nothing on this machine uses.
//!
//! The range is kept in the data directory, because Services hold addresses of it. Other engines on
//! the machine see it beside the run folders while the engine's node is not taken away.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use rekindle_api_server::pki::write_private;
use rekindle_encryption::Encryption;
use rekindle_kinds::service_range::{ServiceRange, ServiceRanges};
use rekindle_net::{Ipv4Net, routed_subnets};
use rekindle_store::StoredObject;
use rekindle_types::ObjectJson;

use super::data_dir::{DataDir, RUN_ROOT};

/// The file in the data directory.
pub const FILE: &str = "service-cidr";
/// Where the store has the range.
const RANGE_OBJECT: &str = "/servicecidrs.networking.k8s.io/kubernetes";
/// What the file beside the run folders has behind the engine's id.
const CLAIM_SUFFIX: &str = ".service-cidr";
/// The second numbers of the default ranges 10.96.0.0/16, 10.97.0.0/16, … in the order of trial.
const SECOND_NUMBERS: std::ops::RangeInclusive<u8> = 96..=127;

/// The range of an engine that is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenServiceRange {
    pub range: ServiceRange,
    /// The range of second addresses, where Services have them.
    pub second: Option<ServiceRange>,
    /// The range that the engine had before, if this is another one.
    pub replaces: Option<ServiceRange>,
}

impl ChosenServiceRange {
    /// Chooses it. Routes of the device `bridge` are the engine's own.
    ///
    /// # Errors
    /// When the range that the user wants is in use, or none is free.
    pub async fn choose(
        asked: Option<ServiceRange>,
        data_dir: &DataDir,
        bridge: &str,
    ) -> anyhow::Result<Self> {
        let kept = kept(data_dir)?;
        let routes = routed_subnets(bridge).await.context("read the routes of this machine")?;
        let Some(asked) = asked else {
            let of_others = claims(data_dir);
            let range = match kept {
                Some(kept) => kept,
                None => free_default(&routes, &of_others)?,
            };
            return Ok(Self { range, second: None, replaces: None });
        };
        if let Some(route) = routes.iter().find(|route| overlaps(asked, **route)) {
            bail!(
                "--service-cidr {asked} overlaps with the route {route} of this machine: give a range that no route uses"
            );
        }
        let replaces = kept.filter(|kept| *kept != asked);
        Ok(Self { range: asked, second: None, replaces })
    }

    /// The range that the engine of this data directory had; the first default if it had none.
    pub fn last(data_dir: &DataDir) -> anyhow::Result<Self> {
        let range = match kept(data_dir)? {
            Some(kept) => kept,
            None => default_range(*SECOND_NUMBERS.start())?,
        };
        Ok(Self { range, second: None, replaces: None })
    }

    /// The same, with second addresses of this range.
    ///
    /// # Errors
    /// When the first range is not one of IPv4.
    pub fn with_second(self, second: Option<ServiceRange>) -> anyhow::Result<Self> {
        if second.is_some() && !self.range.network().is_ipv4() {
            bail!(
                "--dual-stack: the first range of Services is of IPv4, and --service-cidr {} is not",
                self.range
            );
        }
        Ok(Self { second, ..self })
    }

    /// All of it.
    pub fn ranges(&self) -> ServiceRanges {
        match self.second {
            Some(second) => ServiceRanges::dual(self.range, second),
            None => ServiceRanges::single(self.range),
        }
    }

    /// Keeps it, and shows it to other engines.
    pub fn keep(&self, data_dir: &DataDir) -> anyhow::Result<()> {
        if kept(data_dir)? != Some(self.range) {
            let path = data_dir.join(FILE);
            write_private(&path, self.range.to_string().as_bytes())
                .with_context(|| format!("write {}", path.display()))?;
        }
        let (claim, text) = (claim(data_dir), self.range.to_string());
        let written = std::fs::create_dir_all(RUN_ROOT).and_then(|()| std::fs::write(&claim, text));
        written.with_context(|| format!("write {}", claim.display()))
    }

    /// Refuses a range that meets the pods' addresses.
    pub fn check_pods(&self, pods: Ipv4Net) -> anyhow::Result<()> {
        if overlaps(self.range, pods) {
            bail!(
                "the range of Services {} overlaps with the pods' subnet {pods}: give another one with --service-cidr or --pod-cidr",
                self.range
            );
        }
        Ok(())
    }
}

/// The range in the ServiceCIDR among these objects; none without one.
///
/// # Errors
/// When it cannot be read.
pub fn of_stored_cidr(
    objects: &[StoredObject],
    encryption: &Encryption,
) -> anyhow::Result<Option<ServiceRange>> {
    let Some(stored) = objects.iter().find(|object| object.key.as_str() == RANGE_OBJECT) else {
        return Ok(None);
    };
    let opened = encryption
        .open(&stored.key, &stored.value)
        .with_context(|| format!("read the range of Services: {:?}", stored.key.as_str()))?;
    let range = ServiceCIDR::from_json(&opened.value).context("read the range of Services")?;
    let cidrs = range.spec.and_then(|spec| spec.cidrs).unwrap_or_default();
    cidrs.first().map(|cidr| cidr.parse().context("read the range of Services")).transpose()
}

/// Other engines may use the range from now on.
pub fn withdraw(data_dir: &DataDir) {
    let claim = claim(data_dir);
    match std::fs::remove_file(&claim) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, file = %claim.display(), "failed to remove file"),
    }
}

fn claim(data_dir: &DataDir) -> PathBuf {
    Path::new(RUN_ROOT).join([data_dir.engine_id(), CLAIM_SUFFIX].concat())
}

fn kept(data_dir: &DataDir) -> anyhow::Result<Option<ServiceRange>> {
    let path = data_dir.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let range = text.trim().parse();
            range.with_context(|| format!("read {}: it is damaged", path.display())).map(Some)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// The ranges of the other engines on the machine. One that cannot be read takes nothing.
fn claims(data_dir: &DataDir) -> Vec<ServiceRange> {
    let own = claim(data_dir);
    let files = std::fs::read_dir(RUN_ROOT).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .filter(|path| *path != own && path.to_string_lossy().ends_with(CLAIM_SUFFIX))
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok())
        .collect()
}

/// The first default range that meets no route and no range of another engine. If other engines
/// have all of them, the first that meets no route: their rules are their own.
fn free_default(routes: &[Ipv4Net], of_others: &[ServiceRange]) -> anyhow::Result<ServiceRange> {
    let mut usable = Vec::new();
    for second in SECOND_NUMBERS {
        let range = default_range(second)?;
        if routes.iter().all(|route| !overlaps(range, *route)) {
            usable.push(range);
        }
    }
    let is_claimed = |range: &ServiceRange| {
        of_others.iter().any(|other| range.overlaps(other.network(), other.prefix()))
    };
    let free = usable.iter().find(|range| !is_claimed(range)).or_else(|| usable.first());
    free.copied().context(
        "every default range of Services overlaps with a route of this machine: give one with --service-cidr",
    )
}

fn default_range(second: u8) -> anyhow::Result<ServiceRange> {
    Ok(ServiceRange::new(Ipv4Addr::new(10, second, 0, 0).into(), 16)?)
}

fn overlaps(range: ServiceRange, net: Ipv4Net) -> bool {
    range.overlaps(IpAddr::V4(net.network()), net.prefix_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(list: &[&str]) -> Vec<Ipv4Net> {
        list.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_default_that_meets_nothing_is_chosen() {
        let cases: [(&[&str], &[&str], &str); 4] = [
            (&[], &[], "10.96.0.0/16"),
            (&["10.96.7.0/24"], &[], "10.97.0.0/16"),
            (&["10.97.0.0/16"], &["10.96.0.0/16", "10.98.0.0/20"], "10.99.0.0/16"),
            (&[], &["10.96.0.0/11"], "10.96.0.0/16"),
        ];
        for (routes, others, expected) in cases {
            let others: Vec<ServiceRange> = others.iter().map(|it| it.parse().unwrap()).collect();
            let chosen = free_default(&nets(routes), &others).unwrap();
            assert_eq!(chosen.to_string(), expected, "{routes:?} {others:?}");
        }
        let error = free_default(&nets(&["10.0.0.0/8"]), &[]).unwrap_err().to_string();
        assert!(error.ends_with("give one with --service-cidr"), "{error}");
    }

    #[test]
    fn a_range_that_meets_the_pods_is_refused() {
        let range = "10.96.0.0/16".parse().unwrap();
        let chosen = ChosenServiceRange { range, second: None, replaces: None };
        chosen.check_pods("10.88.0.0/16".parse().unwrap()).unwrap();
        let error = chosen.check_pods("10.96.1.0/24".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("10.96.1.0/24") && error.contains("--service-cidr"), "{error}");
    }

    #[test]
    fn a_second_range_goes_with_a_first_one_of_ipv4() {
        let second = "fd52:1:2:1::/112".parse().unwrap();
        let of = |range: &str| {
            let range = range.parse().unwrap();
            let chosen = ChosenServiceRange { range, second: None, replaces: None };
            chosen.with_second(Some(second))
        };
        assert_eq!(of("10.96.0.0/16").unwrap().second, Some(second));
        let error = of("fd00::/112").unwrap_err().to_string();
        assert!(error.contains("--dual-stack") && error.contains("--service-cidr"), "{error}");
    }
}
