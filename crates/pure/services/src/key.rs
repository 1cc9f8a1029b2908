/// Namespace and name of a Service or an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}
