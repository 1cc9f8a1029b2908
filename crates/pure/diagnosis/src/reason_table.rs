//! Reasons as enums: one table gives the variants, their texts and the list of all.

/// An enum of reasons. Each variant has its text; any other text is `Other` and is kept.
macro_rules! reason_table {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal;)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name<'a> {
            $($(#[$variant_doc])* $variant,)+
            /// A text that is not known here.
            Other(&'a str),
        }

        impl<'a> $name<'a> {
            /// All that are known.
            pub const KNOWN: &'static [$name<'static>] = &[$($name::$variant),+];

            /// What a text of the API says.
            pub fn parse(text: &'a str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other),
                }
            }

            /// The text of the API.
            pub fn as_str(&self) -> &'a str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// Whether the text says something that is known here.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }
    };
}
pub(crate) use reason_table;
