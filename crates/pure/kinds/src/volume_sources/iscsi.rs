//! iSCSI: a block device of another machine.

use rekindle_types::validation::field_error::FieldError;

use super::{logical_unit, required};
use crate::validation::{Path, text};

/// The total of names that an initiator may have.
const SESSION_NAME_MAX: usize = 64;
const TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                        characters if iscsi.initiatorName is specified.";
const NO_PREFIX: &str = "must be valid format starting with iqn, eui, or naa";
const NO_FORMAT: &str = "must be valid format";

/// What pods and PersistentVolumes say of a target.
pub(super) struct IscsiTarget<'s> {
    pub(super) portal: &'s str,
    pub(super) iqn: &'s str,
    pub(super) lun: i32,
    pub(super) initiator: Option<&'s String>,
    pub(super) authenticates: bool,
    pub(super) has_secret: bool,
}

impl IscsiTarget<'_> {
    pub(super) fn errors(&self, field: &Path, holder: IscsiHolder) -> Vec<FieldError> {
        let no_prefix = match holder {
            IscsiHolder::Pod => NO_PREFIX,
            IscsiHolder::PersistentVolume => NO_FORMAT,
        };
        let mut errors = required(field, &[("targetPortal", self.portal), ("iqn", self.iqn)]);
        if !self.iqn.is_empty() {
            errors.extend(name_error(self.iqn, no_prefix, &field.child("iqn")));
        }
        errors.extend(logical_unit(self.lun, &field.child("lun")));
        if self.authenticates && !self.has_secret {
            errors.push(FieldError::required(field.child("secretRef"), ""));
        }
        let initiator = self.initiator;
        errors.extend(
            initiator.and_then(|name| name_error(name, no_prefix, &field.child("initiatorname"))),
        );
        errors
    }

    /// What is wrong with the names of a session, if an initiator is named.
    pub(super) fn session_name_error(&self, volume: &str) -> Option<&'static str> {
        self.initiator?;
        let length = volume.len() + 1 + self.portal.len();
        (length > SESSION_NAME_MAX).then_some(TOO_LONG)
    }
}

/// Who refers to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IscsiHolder {
    Pod,
    PersistentVolume,
}

fn name_error(name: &str, no_prefix: &str, field: &Path) -> Option<FieldError> {
    let is_valid = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => is_identifier(name, 16),
        Some("naa") => is_identifier(name, 32),
        Some(_) | None => return Some(FieldError::invalid(field, name, no_prefix)),
    };
    (!is_valid).then(|| FieldError::invalid(field, name, NO_FORMAT))
}

/// `iqn.2026-11.org.example:disk`: a month, a domain backwards, and any name.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let bytes = date.as_bytes();
    let is_month = bytes.len() == 7
        && bytes[4] == b'-'
        && bytes[..4].iter().chain(&bytes[5..]).all(u8::is_ascii_digit);
    let Some((domain, own)) = rest.split_once(':') else { return false };
    let in_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let in_own = |letter: char| !letter.is_ascii_whitespace() && !",;*&$|".contains(letter);
    is_month
        && !domain.is_empty()
        && domain.bytes().all(in_domain)
        && !own.is_empty()
        && own.chars().all(in_own)
}

/// A prefix, a letter between, and so many digits and letters.
fn is_identifier(name: &str, length: usize) -> bool {
    let mut letters = name.chars().skip(3);
    let between = letters.next().is_some();
    let rest: Vec<char> = letters.collect();
    between && rest.len() == length && rest.iter().all(char::is_ascii_alphanumeric)
}

/// The interface that upstream takes.
pub(super) fn set_defaults(interface: &mut Option<String>) {
    if text(interface.as_ref()).is_empty() {
        *interface = Some("default".to_owned());
    }
}
