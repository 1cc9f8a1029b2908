//! Whether another process has the machine give packets its own address, as Docker does: then that
//! process needs the machine to forward packets.

use std::io;

use rekindle_types::IpFamily;

use crate::rules::error::RuleError;
use crate::rules::failed;
use crate::rules::listed_rules::{
    HookPoint, RuleExpression, TableFamily, TableName, TableRules, list_chains,
};
use crate::rules::owned_table::NAME_BEGIN;
use crate::rules::socket::NetfilterSocket;

/// A table that is no engine's and gives packets of this family another source.
pub(crate) fn table_with_source_nat(family: IpFamily) -> Result<Option<TableName>, RuleError> {
    find(family).map_err(|source| failed("look for source NAT of other processes", source))
}

fn find(family: IpFamily) -> io::Result<Option<TableName>> {
    let mut socket = NetfilterSocket::open()?;
    for chain in list_chains(&mut socket)? {
        let table = chain.table;
        let is_engines = table.family == TableFamily::Inet && table.name.starts_with(NAME_BEGIN);
        let sees_leaving =
            chain.base.is_some_and(|base| base.is_nat && base.hook == HookPoint::Postrouting);
        if is_engines || !sees_leaving || !table.family.sees(family) {
            continue;
        }
        // the kernel takes such rules only in chains that packets come to from there
        let rules = TableRules::list(&mut socket, &table)?;
        if rules.expressions().any(|expression| *expression == RuleExpression::SourceNat) {
            return Ok(Some(table));
        }
    }
    Ok(None)
}
