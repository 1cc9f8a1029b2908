//! One file a subcommand.

pub mod agent;
pub mod backup;
pub mod controllers;
pub mod crds;
pub mod down;
pub mod image;
pub mod image_pull;
pub mod kubeconfig;
pub mod node;
pub mod operator;
pub mod report;
pub mod restart;
pub mod restore;
pub mod sim;
pub mod status;
pub mod store_check;
pub mod token_key;
pub mod up;
pub mod why;
