#![allow(clippy::disallowed_methods, reason = "a test reads its data file")]

use std::path::Path;

use clap::CommandFactory as _;
use clap_markdown::{MarkdownOptions, help_markdown_command_custom};

use super::Cli;

/// `UPDATE_EXPECT=1` writes it anew.
#[test]
fn the_book_has_the_command_line_as_it_is() {
    let options = MarkdownOptions::new()
        .title("Command line".to_owned())
        .show_footer(false)
        .show_table_of_contents(false);
    let now = help_markdown_command_custom(&Cli::command(), &options);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/command-line.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, &now).unwrap();
    }
    assert!(std::fs::read_to_string(page).unwrap() == now, "UPDATE_EXPECT=1 writes the page anew");
}
