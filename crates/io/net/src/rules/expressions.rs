//! The expressions that rules are made of (linux/netfilter/nf_tables.h), as nftables' virtual
//! machine has them. What crate netlink-packet-netfilter has no type for is encoded here.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::DefaultNla;
use netlink_packet_netfilter::nftables::{
    Bitwise, Cmp, DataAttribute, ExpressionAttribute, Expressions, Immediate, ListAttribute,
    Lookup, Meta, MetaKey, Operator, Payload, Register, Verdict, VerdictAttribute,
};
use rekindle_types::IpFamily;

/// One expression of a rule.
pub(super) type Expression = ListAttribute<ExpressionAttribute>;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const PORT_LENGTH: u32 = 2;
/// Of a port in the headers of TCP, UDP and SCTP alike.
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;
const INTERFACE_NAME: usize = 16;
/// `NF_DROP` and `NF_ACCEPT`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const CONNTRACK_STATE: u32 = 0;
const CONNTRACK_DIRECTION: u32 = 1;
const CONNTRACK_STATUS: u32 = 2;
/// `NFT_CT_PROTO_DST`.
const CONNTRACK_DESTINATION_PORT: u32 = 12;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const STATE_NEW: u32 = 8;
/// `NF_CT_STATE_BIT(IP_CT_RELATED)`.
const STATE_RELATED: u32 = 4;
/// `IPS_DST_NAT`.
const STATUS_DESTINATION_CHANGED: u32 = 1 << 5;
/// `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_DADDR`.
const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_DESTINATION: u32 = 2;
/// `RTN_LOCAL`.
const ADDRESS_LOCAL: u32 = 2;
/// `NFT_NG_RANDOM`.
const RANDOM: u32 = 1;
/// `NFT_NAT_DNAT`.
const DESTINATION_NAT: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const REJECT_TCP_RESET: u32 = 1;
/// `NFT_REJECT_ICMPX_PORT_UNREACH`.
const PORT_UNREACHABLE: u8 = 1;

/// What the kernel calls a family, and where a packet of it has its addresses.
struct FamilyNumbers {
    /// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
    protocol: u8,
    /// Where the header has the source and the destination.
    source: u32,
    destination: u32,
    /// `NFT_CT_DST_IP` and `NFT_CT_DST_IP6`.
    original_destination: u32,
}

const fn numbers(family: IpFamily) -> FamilyNumbers {
    match family {
        IpFamily::V4 => {
            FamilyNumbers { protocol: 2, source: 12, destination: 16, original_destination: 20 }
        }
        IpFamily::V6 => {
            FamilyNumbers { protocol: 10, source: 8, destination: 24, original_destination: 22 }
        }
    }
}

/// How many registers an address of this family takes.
pub(super) const fn words(family: IpFamily) -> u32 {
    family.bits() as u32 / 32
}

fn address_bytes(family: IpFamily) -> u32 {
    4 * words(family)
}

/// How a dynamic set is changed by a packet (`nft_dynset_ops`).
#[derive(Clone, Copy, Debug)]
pub(super) enum SetUpdate {
    /// Adds the element, or renews its timeout.
    Renew { timeout_ms: u64 },
    /// Removes it.
    Remove,
}

/// The register with this number, from 0 to 15; each has four bytes, and what needs more goes on in
/// the next ones.
pub(super) fn register(number: u32) -> Register {
    Register::from(u32::from(Register::Reg32_00) + number)
}

pub(super) fn is_of_family(family: IpFamily) -> Vec<Expression> {
    let protocol = vec![numbers(family).protocol];
    vec![meta(MetaKey::Nfproto, register(0)), equals(register(0), protocol)]
}

pub(super) fn is_new_connection() -> Vec<Expression> {
    has_bit(CONNTRACK_STATE, STATE_NEW)
}

/// The connection's destination was changed by NAT.
pub(super) fn is_redirected() -> Vec<Expression> {
    has_bit(CONNTRACK_STATUS, STATUS_DESTINATION_CHANGED)
}

/// An error that a connection causes (ICMP), or a connection that another one announced.
pub(super) fn is_related() -> Vec<Expression> {
    has_bit(CONNTRACK_STATE, STATE_RELATED)
}

/// The packet goes from the server of its connection to the client.
pub(super) fn is_answer() -> Vec<Expression> {
    const REPLY: u8 = 1;
    let load = other("ct", vec![number(1, register(0).into()), number(2, CONNTRACK_DIRECTION)]);
    vec![load, equals(register(0), vec![REPLY])]
}

fn has_bit(key: u32, bit: u32) -> Vec<Expression> {
    vec![
        other("ct", vec![number(1, register(0).into()), number(2, key)]),
        masked(register(0), &bit.to_ne_bytes()),
        compare(register(0), Operator::NotEqual, vec![0; 4]),
    ]
}

/// The packet's destination is an address of this machine.
pub(super) fn is_for_this_machine() -> Vec<Expression> {
    let to = register(0).into();
    let attributes = vec![number(1, to), number(2, FIB_ADDRESS_TYPE), number(3, FIB_DESTINATION)];
    vec![other("fib", attributes), equals(register(0), ADDRESS_LOCAL.to_ne_bytes().to_vec())]
}

pub(super) fn comes_in_by(interface: &str) -> Vec<Expression> {
    let name = meta(MetaKey::Iifname, Register::Reg1);
    vec![name, equals(Register::Reg1, interface_name(interface))]
}

pub(super) fn comes_in_not_by(interface: &str) -> Vec<Expression> {
    let name = meta(MetaKey::Iifname, Register::Reg1);
    vec![name, compare(Register::Reg1, Operator::NotEqual, interface_name(interface))]
}

pub(super) fn leaves_not_by(interface: &str) -> Vec<Expression> {
    let name = meta(MetaKey::Oifname, Register::Reg1);
    vec![name, compare(Register::Reg1, Operator::NotEqual, interface_name(interface))]
}

fn interface_name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(INTERFACE_NAME, 0);
    bytes
}

/// What lies in a subnet, or does not.
#[derive(Clone, Copy, Debug)]
pub(super) enum SubnetTest {
    Source,
    Destination,
    NotDestination,
}

pub(super) fn subnet(test: SubnetTest, subnet: IpNet) -> Vec<Expression> {
    let family = IpFamily::from_address(subnet.addr());
    let FamilyNumbers { source, destination, .. } = numbers(family);
    let (offset, operator) = match test {
        SubnetTest::Source => (source, Operator::Equal),
        SubnetTest::Destination => (destination, Operator::Equal),
        SubnetTest::NotDestination => (destination, Operator::NotEqual),
    };
    vec![
        payload(NETWORK_HEADER, offset, address_bytes(family), register(0)),
        masked(register(0), &octets(subnet.netmask())),
        compare(register(0), operator, octets(subnet.network())),
    ]
}

/// An address in network byte order.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn load_source(family: IpFamily, to: Register) -> Expression {
    payload(NETWORK_HEADER, numbers(family).source, address_bytes(family), to)
}

pub(super) fn load_destination(family: IpFamily, to: Register) -> Expression {
    payload(NETWORK_HEADER, numbers(family).destination, address_bytes(family), to)
}

pub(super) fn load_protocol(to: Register) -> Expression {
    meta(MetaKey::L4Proto, to)
}

pub(super) fn load_destination_port(to: Register) -> Expression {
    payload(TRANSPORT_HEADER, DESTINATION_PORT, PORT_LENGTH, to)
}

/// 0.0.0.0 or `::`, made of an address: `nft` shows a masked address, but no bare number.
pub(super) fn load_any_address(family: IpFamily, to: Register) -> Vec<Expression> {
    vec![load_destination(family, to), masked(to, &octets(family.unspecified()))]
}

/// The source as far as this mask goes.
pub(super) fn load_network_of_source(mask: IpAddr, to: Register) -> [Expression; 2] {
    [load_source(IpFamily::from_address(mask), to), masked(to, &octets(mask))]
}

/// The same, and the mask itself: a bare number could not be shown (see above).
pub(super) fn load_source_within(mask: IpAddr, to: [Register; 2]) -> Vec<Expression> {
    let family = IpFamily::from_address(mask);
    let [network, netmask] = to;
    let none = octets(family.unspecified());
    let itself = bitwise(netmask, &none, &octets(mask));
    let network = load_network_of_source(mask, network).into_iter();
    network.chain([load_source(family, netmask), itself]).collect()
}

pub(super) fn load_source_port(to: Register) -> Expression {
    payload(TRANSPORT_HEADER, SOURCE_PORT, PORT_LENGTH, to)
}

/// The destination that the connection had before NAT.
pub(super) fn load_original_destination(family: IpFamily, to: Register) -> Expression {
    of_connection(numbers(family).original_destination, to)
}

pub(super) fn load_original_destination_port(to: Register) -> Expression {
    of_connection(CONNTRACK_DESTINATION_PORT, to)
}

/// What [`load_any_address`] loads, when the destination is changed already.
pub(super) fn load_any_original_address(family: IpFamily, to: Register) -> Vec<Expression> {
    let none = octets(family.unspecified());
    vec![load_original_destination(family, to), masked(to, &none)]
}

fn of_connection(key: u32, to: Register) -> Expression {
    const ORIGINAL: u8 = 0;
    let direction = DefaultNla::new(3, vec![ORIGINAL]);
    other("ct", vec![number(1, to.into()), number(2, key), direction])
}

/// The packet's mark.
pub(super) fn load_mark(to: Register) -> Expression {
    meta(MetaKey::Mark, to)
}

/// One of so many numbers from `first` on.
pub(super) fn load_random(first: u32, count: u32, to: Register) -> Expression {
    let range = [number(2, count), number(3, RANDOM), number(4, first)];
    other("numgen", [vec![number(1, to.into())], range.to_vec()].concat())
}

/// The rule ends here unless the set has the key.
pub(super) fn is_in(set: &str, key: Register) -> Expression {
    Expressions::Lookup(vec![Lookup::Set(set.to_owned()), Lookup::SourceRegister(key)]).into()
}

/// Loads what the map has for the key; the rule ends here if there is none. With
/// [`Register::Verdict`] the map decides how the packet goes on.
pub(super) fn look_up(map: &str, key: Register, to: Register) -> Expression {
    Expressions::Lookup(vec![
        Lookup::Set(map.to_owned()),
        Lookup::SourceRegister(key),
        Lookup::DestinationRegister(to),
    ])
    .into()
}

/// The rule ends here if the set is full.
pub(super) fn update_map(
    map: &str,
    update: SetUpdate,
    key: Register,
    data: Register,
) -> Expression {
    let (operation, timeout) = match update {
        SetUpdate::Renew { timeout_ms } => {
            (1, Some(DefaultNla::new(6, timeout_ms.to_be_bytes().to_vec())))
        }
        SetUpdate::Remove => (2, None),
    };
    let mut attributes =
        vec![text(1, map), number(3, operation), number(4, key.into()), number(5, data.into())];
    attributes.extend(timeout);
    other("dynset", attributes)
}

/// The connection goes to this address and port from now on.
pub(super) fn redirect(family: IpFamily, address: Register, port: Register) -> Expression {
    let attributes = vec![
        number(1, DESTINATION_NAT),
        number(2, numbers(family).protocol.into()),
        number(3, address.into()),
        number(5, port.into()),
    ];
    other("nat", attributes)
}

pub(super) fn masquerade() -> Expression {
    other("masq", Vec::new())
}

/// TCP gets a reset, everything else an ICMP message. Two rules.
pub(super) fn reject() -> [Vec<Expression>; 2] {
    const TCP: u8 = 6;
    let is_tcp = vec![load_protocol(register(0)), equals(register(0), vec![TCP])];
    let reset = other("reject", vec![number(1, REJECT_TCP_RESET)]);
    let code = DefaultNla::new(2, vec![PORT_UNREACHABLE]);
    let unreachable = other("reject", vec![number(1, REJECT_ICMPX), code]);
    [[is_tcp, vec![reset]].concat(), vec![unreachable]]
}

/// The packet waits in this queue for the word of the process that has it, and goes on at once
/// where none has. By the target of x_tables (linux/netfilter/xt_NFQUEUE.h): kernels that have no
/// module for nftables' own `queue` have this one.
pub(super) fn wait_in_queue(queue: u16) -> Expression {
    const REVISION: u32 = 3;
    const QUEUES: u16 = 1;
    const GO_ON_WITHOUT_PROCESS: u16 = 1;
    const PADDING: u16 = 0;
    let info = [queue, QUEUES, GO_ON_WITHOUT_PROCESS, PADDING].map(u16::to_ne_bytes);
    let info = DefaultNla::new(3, info.as_flattened().to_vec());
    other("target", vec![text(1, "NFQUEUE"), number(2, REVISION), info])
}

pub(super) fn drop_packet() -> Expression {
    verdict(vec![VerdictAttribute::Code(Verdict::Other(DROP))])
}

/// The chains of later priorities decide.
pub(super) fn accept_packet() -> Expression {
    verdict(vec![VerdictAttribute::Code(Verdict::Other(ACCEPT))])
}

/// Back to the chain that called this one.
pub(super) fn return_packet() -> Expression {
    verdict(vec![VerdictAttribute::Code(Verdict::Return)])
}

pub(super) fn jump(chain: &str) -> Expression {
    let chain = VerdictAttribute::Chain(chain.to_owned());
    verdict(vec![VerdictAttribute::Code(Verdict::Jump), chain])
}

pub(super) fn go_to(chain: &str) -> Expression {
    verdict(verdict_go_to(chain))
}

/// The same as what a map says.
pub(super) fn verdict_go_to(chain: &str) -> Vec<VerdictAttribute> {
    vec![VerdictAttribute::Code(Verdict::Goto), VerdictAttribute::Chain(chain.to_owned())]
}

fn verdict(attributes: Vec<VerdictAttribute>) -> Expression {
    Expressions::Immediate(vec![
        Immediate::DestinationRegister(Register::Verdict),
        Immediate::Data(DataAttribute::Verdict(attributes)),
    ])
    .into()
}

fn meta(key: MetaKey, to: Register) -> Expression {
    Expressions::Meta(vec![Meta::DestinationRegister(to), Meta::Key(key)]).into()
}

fn payload(base: u32, offset: u32, length: u32, to: Register) -> Expression {
    Expressions::Payload(vec![
        Payload::DestinationRegister(to),
        Payload::Base(base),
        Payload::Offset(offset),
        Payload::Len(length),
    ])
    .into()
}

fn equals(register: Register, value: Vec<u8>) -> Expression {
    compare(register, Operator::Equal, value)
}

fn compare(register: Register, operator: Operator, value: Vec<u8>) -> Expression {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(register),
        Cmp::Op(operator),
        Cmp::Data(DataAttribute::Value(value)),
    ])
    .into()
}

fn masked(register: Register, mask: &[u8]) -> Expression {
    bitwise(register, mask, &vec![0; mask.len()])
}

/// Mask and XOR are of one length, and so much of the register is changed.
fn bitwise(register: Register, mask: &[u8], xor: &[u8]) -> Expression {
    let length = u32::try_from(mask.len()).expect("an address has 16 bytes at most");
    Expressions::Bitwise(vec![
        Bitwise::SourceRegister(register),
        Bitwise::DestinationRegister(register),
        Bitwise::Length(length),
        Bitwise::Mask(DataAttribute::Value(mask.to_vec())),
        Bitwise::Xor(DataAttribute::Value(xor.to_vec())),
    ])
    .into()
}

/// An expression that the library has no type for.
fn other(name: &str, attributes: Vec<DefaultNla>) -> Expression {
    Expressions::Other { expression_type: name.to_owned(), attributes }.into()
}

fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}

fn text(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), &[0]].concat())
}
