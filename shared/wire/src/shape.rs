//! Macros that give wire types their closed shape: enums are plain strings, tagged unions are objects, nothing else
//! is taken for either. No rule about values belongs here.

/// Declares an enum whose values are strings on the wire, case-sensitive and closed.
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            const NAMES: &'static [&'static str] = &[$($text),+];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // a derived enum would also take a one-member object, which is not this protocol
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                $name::from_name(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, $name::NAMES))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": $name::NAMES })
            }
        }
    };
}

/// Finishes a union derived with `remote = "Self"`: it is read from an object only, never from a list led by its tag, and
/// its tag is a name, never the number of a variant.
macro_rules! tagged_union {
    ($name:ident, $tag:literal) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = serde_json::Map::<String, serde_json::Value>::deserialize(deserializer)?;
                if !object.get($tag).is_some_and(serde_json::Value::is_string) {
                    return Err(serde::de::Error::custom(concat!("expected a name as ", $tag)));
                }
                let value = serde_json::Value::Object(object);
                $name::deserialize($crate::decode::Strict(&value)).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {tagged_union, wire_enum};
