//! What classification looks at.

/// A request, as FlowSchemas see it.
#[derive(Clone, Copy, Debug)]
pub struct RequestDigest<'a> {
    /// The name of the user that it acts as.
    pub user: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// What it asks for.
    pub target: RequestTarget<'a>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum RequestTarget<'a> {
    /// Something with a resource.
    Resource {
        /// `get`, `list`, …
        verb: &'a str,
        /// The API group; empty for the core group.
        group: &'a str,
        /// The plural resource.
        resource: &'a str,
        /// The subresource; may be empty.
        subresource: &'a str,
        /// The namespace; empty at cluster scope.
        namespace: &'a str,
    },
    /// Something with a path that is no resource.
    Path {
        /// `get`, …
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}
