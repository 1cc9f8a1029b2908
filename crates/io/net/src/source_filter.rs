//! Which frames a pod may send: IPv4 to the gateway and ARP, under its own hardware address and its
//! own IPv4 address. If it has a second address, also IPv6 to the gateway from that one, but
//! nothing about neighbours and routers: the agent tells them. Such messages can hide behind
//! options, so packets with options of IPv6 are dropped, too. All else is dropped where it enters
//! the host, so that no pod can speak for another one or for the gateway (forged ARP, router
//! advertisements, VLAN tags), and none reaches another one past the node's rules, whatever routes
//! it gives itself.
//!
//! The filter is a classic BPF program on the ingress hook of the veth's host end (`cls_bpf`,
//! direct action). It goes in by netlink and needs neither nf_tables nor the bpf(2) system call.
//! Source: tc-bpf(8), `net/sched/cls_bpf.c`.

use std::net::{Ipv4Addr, Ipv6Addr};

use futures::StreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};

use crate::links::{EEXIST, ENOENT, errno};

/// The kernel has no traffic control at all.
const EOPNOTSUPP: i32 = 95;

/// linux/if_ether.h
const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u32 = 0x0800;
const ETH_P_ARP: u32 = 0x0806;
const ETH_P_IPV6: u32 = 0x86dd;
/// Headers that a packet of IPv6 may not begin with: options for each hop, routes, options for the
/// destination (IANA).
const OPTIONS_OF_IPV6: [u32; 3] = [0, 43, 60];
const ICMPV6: u32 = 58;
/// Of ICMPv6: solicitations and advertisements of routers and neighbours, and redirects (RFC 4861).
const NEIGHBOUR_DISCOVERY: (u32, u32) = (133, 137);
/// Bytes of an Ethernet header and that of IPv6, and of those with the type of ICMPv6.
const IPV6_BYTES_MIN: u32 = 14 + 40;
const ICMPV6_BYTES_MIN: u32 = IPV6_BYTES_MIN + 1;
/// Bytes of an Ethernet header and the shortest IPv4 header.
const IPV4_BYTES_MIN: u32 = 14 + 20;
/// Bytes of an Ethernet header and an ARP packet of Ethernet and IPv4.
const ARP_BYTES: u32 = 14 + 28;

/// linux/pkt_cls.h: go on, with the filters of others if there are any.
const TC_ACT_UNSPEC: u32 = u32::MAX;
/// linux/pkt_cls.h: drop.
const TC_ACT_SHOT: u32 = 2;
/// linux/pkt_cls.h: attributes that carry a classic program.
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
/// linux/filter.h: whether the frame has a VLAN tag, which the kernel has taken off by then.
const VLAN_TAG_PRESENT: u32 = u32::MAX - 0x1000 + 1 + 48;

/// How the filter of one port is found again.
const PRIORITY: u32 = 1;
const FILTER: TcHandle = TcHandle { major: 0, minor: 1 };

/// Whether the kernel took the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterSupport {
    /// It did.
    Present,
    /// It knows no such filter.
    Missing,
}

/// One instruction of classic BPF (linux/filter.h, `struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BpfInstruction {
    code: u16,
    /// Instructions to skip when a test holds, and when it does not.
    skip: (u8, u8),
    operand: u32,
}

/// BPF_LD with BPF_ABS: a byte, a half word, a word of the frame.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
/// BPF_LD with BPF_LEN: the length of the frame.
const LOAD_LENGTH: u16 = 0x80;
/// BPF_JMP with a constant.
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
/// BPF_RET with a constant.
const RETURN: u16 = 0x06;

/// What a pod may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedFrames {
    /// Its hardware address.
    pub(crate) mac: [u8; 6],
    /// Its address.
    pub(crate) address: Ipv4Addr,
    /// Its second one.
    pub(crate) second_address: Option<Ipv6Addr>,
    /// Where its packets go.
    pub(crate) gateway_mac: [u8; 6],
}

/// Something that must hold of a frame: what is loaded, the test, and the constant.
type Check = (u16, u32, u16, u32);

/// The program for a pod that may send these.
fn program(allowed: AllowedFrames) -> Vec<BpfInstruction> {
    let halves = |[a, b, c, d, e, f]: [u8; 6]| {
        (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
    };
    let ((mac_head, mac_tail), (to_head, to_tail)) =
        (halves(allowed.mac), halves(allowed.gateway_mac));
    let address = allowed.address.to_bits();
    // A load beyond the frame's end would let it pass, so the length comes first.
    let any: [Check; 4] = [
        (LOAD_LENGTH, 0, IF_AT_LEAST, IPV4_BYTES_MIN),
        (LOAD_BYTE, VLAN_TAG_PRESENT, IF_EQUAL, 0),
        (LOAD_HALF, 6, IF_EQUAL, mac_head.into()),
        (LOAD_WORD, 8, IF_EQUAL, mac_tail),
    ];
    let arp: [Check; 6] = [
        (LOAD_LENGTH, 0, IF_AT_LEAST, ARP_BYTES),
        (LOAD_WORD, 14, IF_EQUAL, 0x0001_0800), // of Ethernet and IPv4
        (LOAD_HALF, 18, IF_EQUAL, 0x0604),      // and so long are their addresses
        (LOAD_HALF, 22, IF_EQUAL, mac_head.into()),
        (LOAD_WORD, 24, IF_EQUAL, mac_tail),
        (LOAD_WORD, 28, IF_EQUAL, address),
    ];
    let ipv4: [Check; 3] = [
        (LOAD_HALF, 0, IF_EQUAL, to_head.into()),
        (LOAD_WORD, 2, IF_EQUAL, to_tail),
        (LOAD_WORD, 26, IF_EQUAL, address),
    ];
    let to_gateway = [(LOAD_HALF, 0, IF_EQUAL, to_head.into()), (LOAD_WORD, 2, IF_EQUAL, to_tail)];
    let mut code = Vec::new();
    let mut jumps = Vec::new();
    require(&mut code, &mut jumps, &any);
    case(&mut code, &mut jumps, ETH_P_ARP, &arp, &[]);
    case(&mut code, &mut jumps, ETH_P_IP, &ipv4, &[]);
    if let Some(second) = allowed.second_address {
        let words = second.octets();
        let words = words.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word));
        let source = (22..).step_by(4).zip(words);
        let source = source.map(|(at, word)| (LOAD_WORD, at, IF_EQUAL, word));
        let length = [(LOAD_LENGTH, 0, IF_AT_LEAST, IPV6_BYTES_MIN)];
        let ipv6: Vec<Check> = length.into_iter().chain(to_gateway).chain(source).collect();
        case(&mut code, &mut jumps, ETH_P_IPV6, &ipv6, &beyond_neighbours());
    }
    let drop_at = code.len();
    code.push(plain(RETURN, TC_ACT_SHOT));
    for (at, when) in jumps {
        let distance = skip(drop_at - at - 1);
        let (holds, fails) = &mut code[at].skip;
        *(if when == JumpWhen::Holds { holds } else { fails }) = distance;
    }
    code
}

/// When an instruction leads to the one that drops the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JumpWhen {
    Holds,
    Fails,
}

/// Where such instructions are.
type DropJumps = Vec<(usize, JumpWhen)>;

/// Frames of this type pass if all of these checks hold, and what comes next does not forbid them.
fn case(
    code: &mut Vec<BpfInstruction>,
    jumps: &mut DropJumps,
    kind: u32,
    checks: &[Check],
    rest: &[(BpfInstruction, Option<JumpWhen>)],
) {
    code.push(plain(LOAD_HALF, 12));
    let begin = code.len();
    code.push(BpfInstruction { code: IF_EQUAL, skip: (0, 0), operand: kind });
    require(code, jumps, checks);
    for (instruction, jump) in rest {
        jumps.extend(jump.map(|when| (code.len(), when)));
        code.push(*instruction);
    }
    code.push(plain(RETURN, TC_ACT_UNSPEC));
    code[begin].skip.1 = skip(code.len() - begin - 1);
}

/// What else is asked of a packet of IPv6.
fn beyond_neighbours() -> Vec<(BpfInstruction, Option<JumpWhen>)> {
    let (first, last) = NEIGHBOUR_DISCOVERY;
    let test = |code, skip, operand| BpfInstruction { code, skip, operand };
    let mut rest = vec![(plain(LOAD_BYTE, 20), None)];
    for header in OPTIONS_OF_IPV6 {
        rest.push((test(IF_EQUAL, (0, 0), header), Some(JumpWhen::Holds)));
    }
    rest.extend([
        // another protocol: past all of the next five
        (test(IF_EQUAL, (0, 5), ICMPV6), None),
        (plain(LOAD_LENGTH, 0), None),
        (test(IF_AT_LEAST, (0, 0), ICMPV6_BYTES_MIN), Some(JumpWhen::Fails)),
        (plain(LOAD_BYTE, 54), None),
        (test(IF_AT_LEAST, (0, 1), first), None),
        (test(IF_AT_LEAST, (0, 0), last + 1), Some(JumpWhen::Fails)),
    ]);
    rest
}

/// Goes on if all of these hold, else drops the frame.
fn require(code: &mut Vec<BpfInstruction>, jumps: &mut DropJumps, checks: &[Check]) {
    for (load, from, test, operand) in checks.iter().copied() {
        code.push(plain(load, from));
        jumps.push((code.len(), JumpWhen::Fails));
        code.push(BpfInstruction { code: test, skip: (0, 0), operand });
    }
}

fn plain(code: u16, operand: u32) -> BpfInstruction {
    BpfInstruction { code, skip: (0, 0), operand }
}

fn skip(instructions: usize) -> u8 {
    u8::try_from(instructions).expect("the program has fewer than 256 instructions")
}

/// Lets only these frames in from the interface. One that has the filter gets it anew.
/// Everything is asked for before the first answer is awaited.
pub(crate) async fn install(
    handle: &Handle,
    interface: u32,
    allowed: AllowedFrames,
) -> Result<FilterSupport, rtnetlink::Error> {
    let index = interface.cast_signed();
    let (hook, filter) = futures::join!(
        handle.qdisc().add(index).ingress().execute(),
        send(handle.clone(), filter_request(index, &program(allowed)))
    );
    match hook {
        Err(error) if is_missing(&error) => return Ok(FilterSupport::Missing),
        Err(error) if errno(&error) != Some(EEXIST) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    match filter {
        Ok(()) => Ok(FilterSupport::Present),
        Err(error) if is_missing(&error) => Ok(FilterSupport::Missing),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &rtnetlink::Error) -> bool {
    matches!(errno(error), Some(ENOENT | EOPNOTSUPP))
}

fn filter_request(index: i32, program: &[BpfInstruction]) -> RouteNetlinkMessage {
    let mut operations = Vec::with_capacity(8 * program.len());
    for BpfInstruction { code, skip, operand } in program {
        operations.extend(code.to_ne_bytes());
        operations.extend([skip.0, skip.1]);
        operations.extend(operand.to_ne_bytes());
    }
    let count = u16::try_from(program.len()).expect("the program has fewer than 256 instructions");
    let raw = |kind, value: Vec<u8>| TcFilterBpfOption::Other(DefaultNla::new(kind, value));
    let options = [
        raw(TCA_BPF_OPS_LEN, count.to_ne_bytes().to_vec()),
        raw(TCA_BPF_OPS, operations),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    let mut message = TcMessage::with_index(index);
    message.header.handle = FILTER;
    message.header.parent = TcHandle { major: u16::MAX, minor: TcHandle::MIN_INGRESS };
    message.header.info = PRIORITY << 16 | u32::from(ETH_P_ALL.to_be());
    message.attributes = vec![
        TcAttribute::Kind(TcFilterBpf::KIND.to_owned()),
        TcAttribute::Options(options.into_iter().map(TcOption::Bpf).collect()),
    ];
    RouteNetlinkMessage::NewTrafficFilter(message)
}

async fn send(mut handle: Handle, request: RouteNetlinkMessage) -> Result<(), rtnetlink::Error> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    let mut answers = handle.request(message)?;
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload {
            return Err(rtnetlink::Error::NetlinkError(error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [0x0a, 0x58, 10, 88, 0, 2];
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
    const OTHER: [u8; 6] = [0x0a, 0x58, 10, 88, 0, 3];
    const GATEWAY: [u8; 6] = [0x0a, 0x58, 10, 88, 0, 1];

    /// What the kernel makes of the program: pass or not.
    fn passes(frame: &[u8], is_tagged: bool, second: Option<Ipv6Addr>) -> bool {
        let allowed = AllowedFrames {
            mac: MAC,
            address: ADDRESS,
            second_address: second,
            gateway_mac: GATEWAY,
        };
        let program = program(allowed);
        let (mut at, mut loaded) = (0, 0u32);
        loop {
            let BpfInstruction { code, skip, operand } = program[at];
            at += 1;
            let bytes = |count: usize| {
                let from = operand as usize;
                frame[from..from + count].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
            };
            let holds = match code {
                LOAD_LENGTH => {
                    loaded = u32::try_from(frame.len()).unwrap();
                    continue;
                }
                LOAD_BYTE if operand == VLAN_TAG_PRESENT => {
                    loaded = is_tagged.into();
                    continue;
                }
                LOAD_BYTE => {
                    loaded = bytes(1);
                    continue;
                }
                LOAD_HALF => {
                    loaded = bytes(2);
                    continue;
                }
                LOAD_WORD => {
                    loaded = bytes(4);
                    continue;
                }
                IF_EQUAL => loaded == operand,
                IF_AT_LEAST => loaded >= operand,
                RETURN => return operand == TC_ACT_UNSPEC,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { skip.0 } else { skip.1 });
        }
    }

    fn frame(source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
        frame_to(GATEWAY, source, kind, payload)
    }

    fn frame_to(target: [u8; 6], source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
        [&target[..], &source, &kind.to_be_bytes(), payload].concat()
    }

    fn ipv4(source: Ipv4Addr) -> Vec<u8> {
        [&[0x45; 12][..], &source.octets(), &[10, 88, 0, 1]].concat()
    }

    fn arp(hardware: [u8; 6], sender: Ipv4Addr) -> Vec<u8> {
        let head = [0, 1, 8, 0, 6, 4, 0, 2];
        [&head[..], &hardware, &sender.octets(), &[0; 6], &[10, 88, 0, 1]].concat()
    }

    #[test]
    fn only_frames_of_the_pods_own_addresses_pass() {
        let other = Ipv4Addr::new(10, 88, 0, 3);
        let mut long_arp = arp(MAC, ADDRESS);
        long_arp[4] = 8;
        for (case, frame, expected) in [
            ("IPv4", frame(MAC, 0x0800, &ipv4(ADDRESS)), true),
            ("IPv4 to another pod", frame_to(OTHER, MAC, 0x0800, &ipv4(ADDRESS)), false),
            ("IPv4 to all pods", frame_to([0xff; 6], MAC, 0x0800, &ipv4(ADDRESS)), false),
            ("ARP", frame(MAC, 0x0806, &arp(MAC, ADDRESS)), true),
            ("ARP to all", frame_to([0xff; 6], MAC, 0x0806, &arp(MAC, ADDRESS)), true),
            ("IPv4 under another's hardware address", frame(OTHER, 0x0800, &ipv4(ADDRESS)), false),
            ("IPv4 of another address", frame(MAC, 0x0800, &ipv4(other)), false),
            ("IPv4 of no address", frame(MAC, 0x0800, &ipv4(Ipv4Addr::UNSPECIFIED)), false),
            ("half of an IPv4 header", frame(MAC, 0x0800, &ipv4(ADDRESS)[..19]), false),
            ("ARP for another address", frame(MAC, 0x0806, &arp(MAC, other)), false),
            ("ARP for another's hardware address", frame(MAC, 0x0806, &arp(OTHER, ADDRESS)), false),
            ("ARP of other lengths", frame(MAC, 0x0806, &long_arp), false),
            ("half of an ARP packet", frame(MAC, 0x0806, &arp(MAC, ADDRESS)[..24]), false),
            ("IPv6", frame(MAC, 0x86dd, &ipv4(ADDRESS)), false),
            ("spanning tree", frame(MAC, 38, &ipv4(ADDRESS)), false),
            ("nothing", frame(MAC, 0x0800, &[]), false),
        ] {
            for second in [None, Some(SECOND)] {
                assert_eq!(passes(&frame, false, second), expected, "{case}");
                assert!(!passes(&frame, true, second), "{case} with a VLAN tag");
            }
        }
    }

    const SECOND: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x0a58, 2);

    fn ipv6(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
        let head = [0x60, 0, 0, 0, 0, 0, next, 255];
        [&head[..], &source.octets(), &Ipv6Addr::LOCALHOST.octets(), payload].concat()
    }

    #[test]
    fn packets_of_ipv6_pass_from_the_second_address_but_say_nothing_of_neighbours() {
        let other = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x0a58, 3);
        let link_local: Ipv6Addr = "fe80::2".parse().unwrap();
        let tcp = ipv6(SECOND, 6, &[0; 20]);
        for (case, frame, expected) in [
            ("TCP", frame(MAC, 0x86dd, &tcp), true),
            ("TCP to another pod", frame_to(OTHER, MAC, 0x86dd, &tcp), false),
            ("TCP to all", frame_to([0x33, 0x33, 0, 0, 0, 1], MAC, 0x86dd, &tcp), false),
            ("another's hardware address", frame(OTHER, 0x86dd, &tcp), false),
            ("another address", frame(MAC, 0x86dd, &ipv6(other, 6, &[0; 20])), false),
            ("a link-local address", frame(MAC, 0x86dd, &ipv6(link_local, 6, &[0; 20])), false),
            ("no address", frame(MAC, 0x86dd, &ipv6(Ipv6Addr::UNSPECIFIED, 6, &[])), false),
            ("UDP", frame(MAC, 0x86dd, &ipv6(SECOND, 17, &[0; 8])), true),
            ("a fragment", frame(MAC, 0x86dd, &ipv6(SECOND, 44, &[0; 8])), true),
            ("an echo request", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[128, 0])), true),
            ("too big", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[2, 0])), true),
            ("a listener report", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[143, 0])), true),
            ("a router solicitation", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[133, 0])), false),
            ("a router advertisement", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[134, 0])), false),
            ("a neighbour solicitation", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[135, 0])), false),
            ("a neighbour advertisement", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[136, 0])), false),
            ("a redirect", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[137, 0])), false),
            ("half of ICMPv6", frame(MAC, 0x86dd, &ipv6(SECOND, 58, &[])), false),
            ("options for each hop", frame(MAC, 0x86dd, &ipv6(SECOND, 0, &[58, 0])), false),
            ("a route", frame(MAC, 0x86dd, &ipv6(SECOND, 43, &[58, 0])), false),
            ("options for the destination", frame(MAC, 0x86dd, &ipv6(SECOND, 60, &[58])), false),
            ("half of a header", frame(MAC, 0x86dd, &tcp[..39]), false),
        ] {
            assert_eq!(passes(&frame, false, Some(SECOND)), expected, "{case}");
            assert!(!passes(&frame, false, None), "{case} of a pod without a second address");
            assert!(!passes(&frame, true, Some(SECOND)), "{case} with a VLAN tag");
        }
    }
}
