//! The kinds of resource.k8s.io/v1 (dynamic resource allocation, KEP-4381). They are stored for
//! drivers that a user installs; nothing here allocates devices.
//!
//! ```text
//!   DeviceClass             selectors, configuration
//!   ResourceClaim           requests, constraints, configuration; status: what is allocated
//!   ResourceClaimTemplate   the spec of a claim
//!   ResourceSlice           the devices of a node or of several
//! ```

mod allocation;
mod bounded_lists;
mod claim_status;
mod device;
mod device_attribute;
mod device_capacity;
mod device_class;
mod device_configuration;
mod device_constraint;
mod device_request;
mod device_selector;
mod device_taint;
mod qualified_name;
mod request_names;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
mod shared_counters;

/// The most requests of a claim, and the most devices of an allocation.
const REQUESTS_MAX: usize = 32;

/// The warning of a kind of this group.
fn stored_only(kind: &str) -> Vec<String> {
    super::storage::stored_only(kind, "devices are not allocated")
}
