//! What becomes of packets of pods in a table of others, as far as their interfaces say. A
//! condition about anything else (addresses, ports, connections) may hold or not.

use crate::rules::listed_rules::{InterfaceSide, RuleExpression, RuleVerdict, TableRules};

/// `IFNAMSIZ`: as long are names of interfaces in rules, with zeros behind them.
const INTERFACE_NAME_BYTES: usize = 16;
/// `NFT_JUMP_STACK_SIZE`: the kernel lets no chain lead on further.
const DEPTH_MAX: u32 = 16;

/// Packets of pods that a firewall may drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodTraffic {
    /// From pods to the node itself.
    ForNode,
    /// Forwarded from pods.
    FromPods,
    /// Forwarded to pods.
    ToPods,
}

/// Packets of one kind on their way through a table.
pub(super) struct PacketPath<'a> {
    rules: &'a TableRules,
    bridge: BridgeName,
    traffic: PodTraffic,
}

/// The name of the pods' bridge, as rules compare it.
#[derive(Clone, Copy)]
pub(super) struct BridgeName([u8; INTERFACE_NAME_BYTES]);

/// What becomes of packets that come into a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainFate {
    Accepted,
    /// Some may be accepted, all others are dropped.
    Filtered,
    Dropped,
    /// They come out at the end, and perhaps not all.
    Returned,
}

/// A rule that concerns a packet.
struct MatchingRule<'a> {
    verdict: &'a RuleVerdict,
    /// It has no condition that may not hold.
    is_certain: bool,
    /// One of its conditions is that this is the interface.
    names_bridge: bool,
}

impl BridgeName {
    pub(super) fn new(bridge: &str) -> Self {
        let mut name = [0; INTERFACE_NAME_BYTES];
        for (byte, of_bridge) in name.iter_mut().zip(bridge.bytes()) {
            *byte = of_bridge;
        }
        Self(name)
    }

    /// Whether it is compared with this, which may be the beginning of a name only.
    fn begins_with(&self, value: &[u8]) -> bool {
        self.0.starts_with(value)
    }

    /// Whether any rule names the bridge, or a set or map in which interfaces are looked up.
    pub(super) fn is_named_in(&self, rules: &TableRules) -> bool {
        let is_compared = |parts: &[RuleExpression]| match parts {
            [
                RuleExpression::LoadInterface { .. },
                RuleExpression::Compare { value, is_negated, .. },
            ] => !is_negated && self.begins_with(value),
            _ => false,
        };
        let mut compared = rules.chains.values().flatten().flat_map(|rule| rule.windows(2));
        let mut members = rules.sets.values().flatten();
        compared.any(is_compared) || members.any(|it| it.key.starts_with(&self.0))
    }
}

impl<'a> PacketPath<'a> {
    pub(super) const fn new(
        rules: &'a TableRules,
        bridge: BridgeName,
        traffic: PodTraffic,
    ) -> Self {
        Self { rules, bridge, traffic }
    }

    /// Whether a base chain lets the packets go on, or has a rule for this bridge that decides.
    pub(super) fn is_let_through(&self, base_chain: &str) -> bool {
        match self.fate(base_chain, 0) {
            ChainFate::Accepted => true,
            ChainFate::Filtered | ChainFate::Dropped | ChainFate::Returned => false,
        }
    }

    fn fate(&self, chain: &str, depth: u32) -> ChainFate {
        let Some(rules) = self.rules.chains.get(chain).filter(|_| depth < DEPTH_MAX) else {
            return ChainFate::Returned;
        };
        let (mut may_be_accepted, mut may_be_returned) = (false, false);
        for rule in rules.iter().filter_map(|rule| self.matching(rule)) {
            let fate = match rule.verdict {
                RuleVerdict::Accept => ChainFate::Accepted,
                RuleVerdict::Drop => ChainFate::Dropped,
                RuleVerdict::Return => ChainFate::Returned,
                RuleVerdict::Jump(_) | RuleVerdict::Goto(_) if !rule.is_certain => {
                    ChainFate::Filtered
                }
                RuleVerdict::Jump(next) | RuleVerdict::Goto(next) => self.fate(next, depth + 1),
            };
            let leaves = matches!(rule.verdict, RuleVerdict::Return | RuleVerdict::Goto(_));
            if !rule.is_certain {
                may_be_accepted |= matches!(fate, ChainFate::Accepted | ChainFate::Filtered);
                may_be_returned |= leaves;
                continue;
            }
            let leads_on = matches!(rule.verdict, RuleVerdict::Jump(_) | RuleVerdict::Goto(_));
            match fate {
                ChainFate::Accepted => return ChainFate::Accepted,
                // a chain for this bridge decides: its owner knows of the bridge
                ChainFate::Filtered | ChainFate::Returned if leads_on && rule.names_bridge => {
                    return ChainFate::Accepted;
                }
                ChainFate::Filtered | ChainFate::Dropped if may_be_returned => {
                    return ChainFate::Returned;
                }
                ChainFate::Filtered => return ChainFate::Filtered,
                ChainFate::Dropped if may_be_accepted => return ChainFate::Filtered,
                ChainFate::Dropped => return ChainFate::Dropped,
                ChainFate::Returned if leaves => return ChainFate::Returned,
                ChainFate::Returned => {}
            }
        }
        ChainFate::Returned
    }

    /// The rule, if it has a verdict and none of its conditions fails.
    fn matching(&self, rule: &'a [RuleExpression]) -> Option<MatchingRule<'a>> {
        let (mut is_certain, mut names_bridge) = (true, false);
        let mut loaded = None;
        for expression in rule {
            match expression {
                RuleExpression::LoadInterface { register, side } => {
                    loaded = Some((*register, *side));
                }
                RuleExpression::LoadOther => loaded = None,
                RuleExpression::Compare { register, value, is_negated } => {
                    match self.has_bridge(loaded, *register) {
                        true if self.bridge.begins_with(value) == *is_negated => return None,
                        true => names_bridge |= !is_negated,
                        false => is_certain = false,
                    }
                }
                RuleExpression::Lookup { register, set, is_negated } => {
                    match self.has_bridge(loaded, *register) {
                        true if self.is_in(set) == *is_negated => return None,
                        true => names_bridge |= !is_negated,
                        false => is_certain = false,
                    }
                }
                RuleExpression::LookupVerdict { register, map } => {
                    if !self.has_bridge(loaded, *register) {
                        let verdict = &RuleVerdict::Accept; // perhaps
                        return Some(MatchingRule { verdict, is_certain: false, names_bridge });
                    }
                    let mut members = self.rules.sets.get(map)?.iter();
                    let verdict = members.find(|it| it.key == self.bridge.0)?.verdict.as_ref()?;
                    return Some(MatchingRule { verdict, is_certain, names_bridge: true });
                }
                RuleExpression::OtherCondition => is_certain = false,
                RuleExpression::Verdict(verdict) => {
                    return Some(MatchingRule { verdict, is_certain, names_bridge });
                }
                RuleExpression::SourceNat => {}
            }
        }
        None
    }

    /// Whether the bridge is what was loaded into this register.
    fn has_bridge(&self, loaded: Option<(u32, InterfaceSide)>, register: u32) -> bool {
        let side = match self.traffic {
            PodTraffic::FromPods | PodTraffic::ForNode => InterfaceSide::Input,
            PodTraffic::ToPods => InterfaceSide::Output,
        };
        loaded == Some((register, side))
    }

    fn is_in(&self, set: &str) -> bool {
        let members = self.rules.sets.get(set);
        members.is_some_and(|members| members.iter().any(|member| member.key == self.bridge.0))
    }
}
