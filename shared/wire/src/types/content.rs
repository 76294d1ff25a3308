//! Conversations and message parts (section 15).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::ConversationId;
use crate::shape::{tagged_union, wire_enum};
use crate::types::{ExternalRef, IdentityContext, Principal};

/// A message that came in through a channel (15.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelMessage {
    pub conversation: Conversation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    pub message: Value,
    pub sender: Principal,
    pub parts: Vec<MessagePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_payload: Option<Value>,
}

/// A conversation in some channel (15.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    pub id: ConversationId,
    pub channel: Value,
    pub status: ConversationStatus,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_refs: Vec<ExternalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

wire_enum! {
    /// Where a conversation stands (15.1).
    pub enum ConversationStatus {
        Open = "open",
        Pending = "pending",
        Resolved = "resolved",
        Snoozed = "snoozed",
        Archived = "archived",
    }
}

/// Says which members of a conversation changed (15.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConversationUpdated {
    pub conversation: Conversation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    pub changed_fields: Vec<String>,
}

/// A typed part of a message (15.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
#[schemars(rename = "MessagePart")]
pub enum MessagePart {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<String>,
    },
    Image {
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        mime_type: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        alt: Option<String>,
    },
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        mime_type: String,
        filename: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        size_bytes: Option<u64>,
    },
    Audio {
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        mime_type: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        transcript: Option<String>,
    },
    Form {
        fields: Vec<Value>,
        actions: Vec<Value>,
    },
    Card {
        title: String,
        body: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        actions: Vec<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        media: Option<Value>,
    },
    Json {
        data: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
    },
    ToolResult {
        tool_call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
    },
}

tagged_union!(MessagePart, "type");

wire_enum! {
    /// How urgent a conversation is (15.1).
    pub enum Priority {
        Low = "low",
        Medium = "medium",
        High = "high",
        Urgent = "urgent",
    }
}
