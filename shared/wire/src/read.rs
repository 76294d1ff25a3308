//! Strict reading of JSON (sections 5.1 and 22.8): bytes become a value that says exactly what they said, within bounds,
//! or are refused. Knows nothing of the protocol's types.

use std::fmt;
use std::io;

use aip_names::limits::{
    ENVELOPE_BYTES_MAX, JSON_COLLECTION_ITEMS_MAX, JSON_DEPTH_MAX, JSON_NODES_MAX, JSON_STRING_BYTES_MAX,
    TRANSPORT_EXTRA_NODES_MAX, TRANSPORT_MESSAGE_BYTES_MAX, WORKER_ANSWER_BYTES_MAX,
};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::codes::{self, Code};
use crate::refusal::{Refusal, push_step};
use crate::scan::scan;

/// What one document may cost its reader.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub bytes_max: usize,
    pub depth_max: usize,
    pub nodes_max: usize,
    /// The code for a document of too many bytes.
    pub too_large: &'static Code,
}

impl Bounds {
    /// An envelope on its own.
    pub const ENVELOPE: Bounds = Bounds {
        bytes_max: ENVELOPE_BYTES_MAX,
        depth_max: JSON_DEPTH_MAX,
        nodes_max: JSON_NODES_MAX,
        too_large: codes::LIMIT_ENVELOPE_BYTES,
    };

    /// An envelope in its NATS frame: one level more, and room for what the sending service adds.
    pub const FRAME: Bounds = Bounds {
        bytes_max: TRANSPORT_MESSAGE_BYTES_MAX,
        depth_max: JSON_DEPTH_MAX + 1,
        nodes_max: JSON_NODES_MAX + TRANSPORT_EXTRA_NODES_MAX,
        too_large: codes::LIMIT_ENVELOPE_BYTES,
    };

    /// A worker's answer in its frame.
    pub const WORKER_ANSWER: Bounds =
        Bounds { bytes_max: WORKER_ANSWER_BYTES_MAX, too_large: codes::WORKER_TOO_LARGE, ..Bounds::FRAME };
}

/// Reads one JSON document within the bounds of an envelope. Refuses invalid UTF-8, members named twice, halves of
/// surrogate pairs, numbers that a value cannot keep, and whatever exceeds a bound; also inside open places.
pub fn strict(bytes: &[u8]) -> Result<Value, Refusal> {
    strict_within(bytes, &Bounds::ENVELOPE)
}

/// The same within bounds that the caller names.
pub fn strict_within(bytes: &[u8], bounds: &Bounds) -> Result<Value, Refusal> {
    if bytes.len() > bounds.bytes_max {
        return Err(Refusal::of(bounds.too_large));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::of(codes::JSON_UTF8))?;
    let found = scan(text);
    let mut reader = Reader {
        bounds: *bounds,
        bad_number: found.bad_number,
        numbers: 0,
        doubles: false,
        nodes: 0,
        refused: None,
        steps: Vec::new(),
    };
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = Node { reader: &mut reader, depth: 1 }.deserialize(&mut parser);
    let value = match read.and_then(|value| parser.end().map(|()| value)) {
        Ok(value) => value,
        Err(error) => return Err(reader.refusal(&error, found.lone_surrogate)),
    };
    // a double may be written longer than it was read: 1e15 comes out with sixteen digits
    if reader.doubles && written_bytes(&value) > bounds.bytes_max {
        return Err(Refusal::of(bounds.too_large));
    }
    Ok(value)
}

/// How many bytes this value has as compact JSON.
pub fn written_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // writing a value to memory has no way to fail
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

struct Reader {
    bounds: Bounds,
    bad_number: Option<usize>,
    numbers: usize,
    doubles: bool,
    nodes: usize,
    refused: Option<&'static Code>,
    /// Steps to the place of the refusal, the innermost first.
    steps: Vec<String>,
}

impl Reader {
    fn refuse<E: Error>(&mut self, code: &'static Code) -> E {
        self.refused = Some(code);
        E::custom(code.name)
    }

    fn refusal(self, error: &serde_json::Error, lone_surrogate: bool) -> Refusal {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            push_step(&mut path, step);
        }
        if let Some(code) = self.refused {
            return Refusal::new(code, path, code.meaning);
        }
        let code = if lone_surrogate {
            codes::JSON_LONE_SURROGATE
        } else if self.bad_number == Some(self.numbers) {
            // the parser gave up at this very number: it is out of a double's range
            codes::JSON_NUMBER
        } else {
            codes::JSON_MALFORMED
        };
        Refusal::new(code, path, format!("{}, line {} column {}", code.meaning, error.line(), error.column()))
    }
}

/// Reads one value.
struct Node<'a> {
    reader: &'a mut Reader,
    depth: usize,
}

impl Node<'_> {
    fn number<E: Error>(&mut self) -> Result<(), E> {
        if self.reader.bad_number == Some(self.reader.numbers) {
            return Err(self.reader.refuse(codes::JSON_NUMBER));
        }
        self.reader.numbers += 1;
        Ok(())
    }

    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.depth > self.reader.bounds.depth_max {
            Err(self.reader.refuse(codes::LIMIT_DEPTH))
        } else {
            Ok(())
        }
    }

    fn room<E: Error>(&mut self, items: usize) -> Result<(), E> {
        if items >= JSON_COLLECTION_ITEMS_MAX {
            Err(self.reader.refuse(codes::LIMIT_COLLECTION_ITEMS))
        } else {
            Ok(())
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.reader.nodes += 1;
        if self.reader.nodes > self.reader.bounds.nodes_max {
            return Err(self.reader.refuse(codes::LIMIT_NODES));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<Value, E> {
        self.number()?;
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<Value, E> {
        self.number()?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<Value, E> {
        self.number()?;
        self.reader.doubles = true;
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        if value.len() > JSON_STRING_BYTES_MAX {
            return Err(self.reader.refuse(codes::LIMIT_STRING_BYTES));
        }
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut items = Vec::new();
        loop {
            let item = Node { reader: &mut *self.reader, depth: self.depth + 1 };
            match list.next_element_seed(item) {
                Ok(Some(value)) => {
                    self.room(items.len())?;
                    items.push(value);
                }
                Ok(None) => return Ok(Value::Array(items)),
                Err(error) => {
                    self.reader.steps.push(items.len().to_string());
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut members = Map::new();
        while let Some(name) = object.next_key_seed(Name { reader: &mut *self.reader })? {
            if members.contains_key(&name) {
                self.reader.steps.push(name);
                return Err(self.reader.refuse(codes::JSON_DUPLICATE_MEMBER));
            }
            self.room(members.len())?;
            let member = Node { reader: &mut *self.reader, depth: self.depth + 1 };
            match object.next_value_seed(member) {
                Ok(value) => {
                    members.insert(name, value);
                }
                Err(error) => {
                    self.reader.steps.push(name);
                    return Err(error);
                }
            }
        }
        Ok(Value::Object(members))
    }
}

/// Reads one member name.
struct Name<'a> {
    reader: &'a mut Reader,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        if name.len() > JSON_STRING_BYTES_MAX {
            return Err(self.reader.refuse(codes::LIMIT_STRING_BYTES));
        }
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests;
