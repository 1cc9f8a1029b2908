//! A transaction: what the kernel is to do to the table, all or nothing.

use std::collections::BTreeMap;

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE};
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, DataAttribute, Hook, HookNumber, InetHookNumber, ListAttribute,
    NfTablesMessage, RuleAttribute, RuleMessage, SetAttribute, SetDescription, SetElementAttribute,
    SetElementList, SetElementMessage, SetFlags, SetMessage, TableAttribute, TableFlags,
    TableMessage,
};
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
    NetfilterSubsystem,
};
use rekindle_services::RuleElement;
use rustix::io::Errno;

use crate::rules::elements::{EncodedElement, encode, encode_sticky, family_of, key_only, set_of};
use crate::rules::error::RuleError;
use crate::rules::expressions::verdict_go_to;
use crate::rules::needed_chains::NeededChain;
use crate::rules::schema::{
    ChainDefinition, ChainHook, PartType, STICKY, SetData, SetDefinition, SetGrowth,
};
use crate::rules::socket::{NetfilterSocket, RefusedTransaction};

/// Bytes of elements in one message: the length of their list has 16 bits.
const ELEMENT_BYTES_MAX: usize = 32 << 10;
/// Type of a map to verdicts (`NFT_DATA_VERDICT`).
const VERDICT_DATA: u32 = 0xffff_ff00;
/// Bits of a part in the number that `nft` knows a concatenation by.
const PART_TYPE_BITS: u32 = 6;
const PART_BYTES: u32 = 4;
/// `NFTA_SET_DESC_SIZE` and others are in the library; of comments only nft knows.
const COMMENT: u8 = 0;

/// What a message does, for the error when it is refused.
#[derive(Debug)]
enum BatchedObject {
    Object(String),
    /// Elements, each with where it begins in the message.
    Elements {
        operation: &'static str,
        elements: Vec<(usize, RuleElement)>,
    },
}

/// Whether elements come or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementChange {
    Add,
    Remove,
}

/// See the module.
#[derive(Debug)]
pub(super) struct RuleBatch {
    table: String,
    messages: Vec<(NfTablesMessage, u16, BatchedObject)>,
}

impl RuleBatch {
    pub(super) fn new(table: &str) -> Self {
        Self { table: table.to_owned(), messages: Vec::new() }
    }

    /// `description` is for people, and tells a later engine of what version the table is.
    pub(super) fn add_table(&mut self, flags: TableFlags, description: &str) {
        let attributes = vec![
            TableAttribute::Name(self.table.clone()),
            TableAttribute::Flags(flags),
            TableAttribute::UserData(comment(description)),
        ];
        let message = NfTablesMessage::NewTable(TableMessage { attributes });
        self.push(message, NLM_F_CREATE, "the table".to_owned());
    }

    /// Removes the rules of all chains.
    pub(super) fn flush_rules(&mut self) {
        let attributes = vec![RuleAttribute::Table(self.table.clone())];
        let message = NfTablesMessage::DeleteRule(RuleMessage { attributes });
        self.push(message, 0, "the removal of all rules".to_owned());
    }

    /// Removes all elements of a set.
    pub(super) fn flush_set(&mut self, set: &str) {
        let table = SetElementList::Table(self.table.clone());
        let attributes = vec![table, SetElementList::Set(set.to_owned())];
        let message = NfTablesMessage::DeleteSetElement(SetElementMessage { attributes });
        self.push(message, 0, format!("the removal of all elements of {set}"));
    }

    /// Of elements that are there already: what leads to the chain that remembers their clients.
    pub(super) fn add_sticky<'a>(&mut self, elements: impl IntoIterator<Item = &'a RuleElement>) {
        let with_sticky = |element: &RuleElement| Some((encode_sticky(element)?, *element));
        let mut by_set: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for sticky in elements.into_iter().filter_map(with_sticky) {
            by_set.entry(STICKY.of(family_of(&sticky.1))).or_default().push(sticky);
        }
        for (set, sticky) in by_set {
            self.change_set(ElementChange::Add, set, sticky);
        }
    }

    pub(super) fn delete_table(&mut self) {
        let attributes = vec![TableAttribute::Name(self.table.clone())];
        let message = NfTablesMessage::DeleteTable(TableMessage { attributes });
        self.push(message, 0, "the removal of the table".to_owned());
    }

    pub(super) fn add_set(&mut self, id: u32, set: &SetDefinition) {
        let type_of = |parts: &[PartType]| {
            parts.iter().fold(0, |number, part| number << PART_TYPE_BITS | *part as u32)
        };
        let length_of = |parts: &[PartType]| -> u32 {
            parts.iter().map(|part| part.bytes().next_multiple_of(PART_BYTES)).sum()
        };
        let mut flags = SetFlags::empty();
        let mut attributes = vec![
            SetAttribute::Table(self.table.clone()),
            SetAttribute::Name(set.name.to_owned()),
            SetAttribute::Id(id),
            SetAttribute::KeyType(type_of(&set.key)),
            SetAttribute::KeyLen(length_of(&set.key)),
        ];
        match &set.data {
            SetData::None => {}
            SetData::Parts(parts) => {
                flags |= SetFlags::Map;
                attributes.push(SetAttribute::DataType(type_of(parts)));
                attributes.push(SetAttribute::DataLen(length_of(parts)));
            }
            SetData::Verdict => {
                flags |= SetFlags::Map;
                attributes.push(SetAttribute::DataType(VERDICT_DATA));
            }
        }
        match set.growth {
            SetGrowth::Static => {}
            SetGrowth::Ranges => {
                flags |= SetFlags::Interval | SetFlags::Concat;
                let lengths = part_lengths(set.key.iter().map(|part| part.bytes()));
                attributes.push(SetAttribute::Description(vec![SetDescription::Concat(lengths)]));
            }
            SetGrowth::Dynamic { size } => {
                flags |= SetFlags::Timeout | SetFlags::Eval;
                attributes.push(SetAttribute::Description(vec![SetDescription::Size(size)]));
            }
        }
        attributes.push(SetAttribute::Flags(flags));
        let message = NfTablesMessage::NewSet(SetMessage { attributes });
        self.push(message, NLM_F_CREATE, format!("set {}", set.name));
    }

    /// The chain with its rules, which may jump to chains that are there already.
    pub(super) fn add_chain(&mut self, chain: &ChainDefinition) {
        self.add_chain_only(chain);
        self.add_rules(chain);
    }

    /// The chain as it is, or without rules.
    pub(super) fn add_chain_only(&mut self, chain: &ChainDefinition) {
        let mut attributes = vec![
            ChainAttribute::Table(self.table.clone()),
            ChainAttribute::Name(chain.name.clone()),
        ];
        if let Some((kind, hook, priority)) = chain.base {
            let hook = match hook {
                ChainHook::Prerouting => InetHookNumber::PreRouting,
                ChainHook::Forward => InetHookNumber::Forward,
                ChainHook::Output => InetHookNumber::LocalOut,
                ChainHook::Postrouting => InetHookNumber::PostRouting,
            };
            let hook = Hook::Number(HookNumber::Inet(hook));
            let priority = Hook::Priority(priority.cast_unsigned());
            attributes.push(ChainAttribute::Hook(vec![hook, priority]));
            attributes.push(ChainAttribute::Type(kind.to_owned()));
        }
        let message = NfTablesMessage::NewChain(ChainMessage { attributes });
        self.push(message, NLM_F_CREATE, format!("chain {}", chain.name));
    }

    pub(super) fn add_rules(&mut self, chain: &ChainDefinition) {
        for (number, rule) in chain.rules.iter().enumerate() {
            let attributes = vec![
                RuleAttribute::Table(self.table.clone()),
                RuleAttribute::Chain(chain.name.clone()),
                RuleAttribute::Expressions(rule.clone()),
            ];
            let message = NfTablesMessage::NewRule(RuleMessage { attributes });
            let object = format!("rule {} of chain {}", number + 1, chain.name);
            self.push(message, NLM_F_CREATE | netlink_packet_core::NLM_F_APPEND, object);
        }
    }

    /// The chain, and the element that leads to it.
    pub(super) fn add_needed_chain(&mut self, chain: NeededChain) {
        self.add_chain(&chain.definition());
        let Some((map, key)) = chain.map() else {
            return;
        };
        let key = key.map(u32::to_ne_bytes).as_flattened().to_vec();
        let verdict = verdict_go_to(&chain.name());
        let element = ListAttribute::Element(vec![
            SetElementAttribute::Key(DataAttribute::Value(key)),
            SetElementAttribute::Data(DataAttribute::Verdict(verdict)),
        ]);
        let message = NfTablesMessage::NewSetElement(self.element_message(map, vec![element]));
        self.push(message, NLM_F_CREATE, format!("the way to chain {}", chain.name()));
    }

    pub(super) fn remove_elements<'a>(
        &mut self,
        elements: impl IntoIterator<Item = &'a RuleElement>,
    ) -> Result<(), RuleError> {
        self.change_elements(ElementChange::Remove, elements)
    }

    pub(super) fn add_elements<'a>(
        &mut self,
        elements: impl IntoIterator<Item = &'a RuleElement>,
    ) -> Result<(), RuleError> {
        self.change_elements(ElementChange::Add, elements)
    }

    /// Elements as they are.
    pub(super) fn add_encoded(&mut self, set: &str, elements: Vec<EncodedElement>) {
        self.change_encoded(ElementChange::Add, set, elements);
    }

    /// Elements as they are, without what they map to.
    pub(super) fn remove_encoded(&mut self, set: &str, elements: Vec<EncodedElement>) {
        self.change_encoded(ElementChange::Remove, set, elements);
    }

    fn change_encoded(&mut self, change: ElementChange, set: &str, elements: Vec<EncodedElement>) {
        let mut rest = elements.into_iter().peekable();
        while rest.peek().is_some() {
            let mut bytes = 0;
            let some: Vec<_> = std::iter::from_fn(|| {
                rest.next_if(|next| {
                    bytes += next.buffer_len();
                    bytes <= ELEMENT_BYTES_MAX
                })
            })
            .collect();
            let message = self.element_message(set, some);
            let (message, flags) = match change {
                ElementChange::Add => (NfTablesMessage::NewSetElement(message), NLM_F_CREATE),
                ElementChange::Remove => (NfTablesMessage::DeleteSetElement(message), 0),
            };
            self.push(message, flags, format!("elements of {set}"));
        }
    }

    fn change_elements<'a>(
        &mut self,
        change: ElementChange,
        elements: impl IntoIterator<Item = &'a RuleElement>,
    ) -> Result<(), RuleError> {
        let mut by_set: BTreeMap<&str, Vec<(EncodedElement, RuleElement)>> = BTreeMap::new();
        for element in elements {
            let family = family_of(element);
            let set = set_of(element).name(family);
            by_set.entry(set).or_default().push((encode(element)?, *element));
            if let Some(sticky) = encode_sticky(element) {
                by_set.entry(STICKY.of(family)).or_default().push((sticky, *element));
            }
        }
        for (set, elements) in by_set {
            self.change_set(change, set, elements);
        }
        Ok(())
    }

    fn change_set(
        &mut self,
        change: ElementChange,
        set: &str,
        elements: Vec<(EncodedElement, RuleElement)>,
    ) {
        let prefix = self.element_message(set, Vec::new()).attributes.as_slice().buffer_len();
        let begin = MESSAGE_HEADERS + prefix;
        let (mut encoded, mut named, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (element, name) in elements {
            let element = match change {
                ElementChange::Add => element,
                ElementChange::Remove => key_only(element),
            };
            named.push((begin + bytes, name));
            bytes += element.buffer_len();
            encoded.push(element);
            if bytes > ELEMENT_BYTES_MAX {
                let (encoded, named) = (std::mem::take(&mut encoded), std::mem::take(&mut named));
                self.push_elements(change, set, encoded, named);
                bytes = 0;
            }
        }
        if !encoded.is_empty() {
            self.push_elements(change, set, encoded, named);
        }
    }

    fn push_elements(
        &mut self,
        change: ElementChange,
        set: &str,
        encoded: Vec<EncodedElement>,
        elements: Vec<(usize, RuleElement)>,
    ) {
        let message = self.element_message(set, encoded);
        let (message, flags, operation) = match change {
            ElementChange::Add => (NfTablesMessage::NewSetElement(message), NLM_F_CREATE, "add"),
            ElementChange::Remove => (NfTablesMessage::DeleteSetElement(message), 0, "remove"),
        };
        self.messages.push((message, flags, BatchedObject::Elements { operation, elements }));
    }

    fn element_message(&self, set: &str, elements: Vec<EncodedElement>) -> SetElementMessage {
        SetElementMessage {
            attributes: vec![
                SetElementList::Table(self.table.clone()),
                SetElementList::Set(set.to_owned()),
                SetElementList::Elements(elements),
            ],
        }
    }

    fn push(&mut self, message: NfTablesMessage, flags: u16, object: String) {
        self.messages.push((message, flags, BatchedObject::Object(object)));
    }

    /// Returns when the kernel has made all of it, or nothing.
    pub(super) fn commit(self, socket: &mut NetfilterSocket) -> Result<(), RuleError> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let mut objects = Vec::with_capacity(self.messages.len());
        let mut messages = Vec::with_capacity(self.messages.len() + 2);
        messages.push((control(ControlMessage::BatchBegin), 0));
        for (message, flags, object) in self.messages {
            messages.push((of_table(message), flags));
            objects.push(object);
        }
        if let Some((_, flags)) = messages.last_mut() {
            *flags |= NLM_F_ACK;
        }
        messages.push((control(ControlMessage::BatchEnd), 0));
        socket.transact(messages).map_err(|refused| refusal(self.table, &objects, refused))
    }
}

/// Headers of netlink and of netfilter before the attributes.
const MESSAGE_HEADERS: usize = 20;

fn refusal(table: String, objects: &[BatchedObject], refused: RefusedTransaction) -> RuleError {
    let source = refused.source;
    let object = refused.message.and_then(|index| objects.get(index));
    match Errno::from_io_error(&source) {
        // the process may change rules, or the batch as a whole would have failed
        Some(Errno::PERM) if object.is_some() => return RuleError::TableBusy { table },
        Some(Errno::PERM) => return RuleError::NoPermission { source },
        Some(Errno::OPNOTSUPP) if object.is_none() => return RuleError::Unsupported { source },
        _ => {}
    }
    match object {
        Some(BatchedObject::Elements { operation, elements }) => {
            let at = refused.offset.unwrap_or(0);
            // without an offset: the first of the message
            let named = elements.iter().rev().find(|(begin, _)| *begin <= at).or(elements.first());
            let (_, element) = named.expect("a message of elements has one");
            let element = Box::new(*element);
            RuleError::ElementRefused { operation, element, table, source }
        }
        Some(BatchedObject::Object(object)) => {
            RuleError::Refused { object: object.clone(), table, source }
        }
        None => RuleError::Refused { object: "a change".to_owned(), table, source },
    }
}

/// A message about tables of family inet.
pub(super) fn of_table(message: NfTablesMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(NetfilterProtoFamily::Inet, 0, 0), message)
}

fn control(message: ControlMessage) -> NetfilterMessage {
    let subsystem = u16::from(u8::from(NetfilterSubsystem::NfTables));
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, subsystem);
    NetfilterMessage::new(header, NetfilterMessageInner::None(message))
}

/// A comment as `nft` stores it: type, length, text with a zero at its end.
pub(super) fn comment(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).expect("comments are a few words");
    [&[COMMENT, length], text.as_bytes(), &[0]].concat()
}

/// `NFTA_SET_DESC_CONCAT`: how many bytes count of each part of a key.
fn part_lengths(lengths: impl Iterator<Item = u32>) -> Vec<DefaultNla> {
    const LIST_ELEMENT: u16 = 1;
    const FIELD_LENGTH: u16 = 1;
    const LENGTH_OF_LENGTH: u16 = 8;
    let field = |length: u32| {
        let [size, kind] = [LENGTH_OF_LENGTH, FIELD_LENGTH].map(u16::to_ne_bytes);
        let value = [&size[..], &kind, &length.to_be_bytes()].concat();
        DefaultNla::new(LIST_ELEMENT | NLA_F_NESTED, value)
    };
    lengths.map(field).collect()
}
