//! Metadata of resources that are embedded in a custom resource.

mod coerce;
mod validate;
