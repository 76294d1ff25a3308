//! Writes reports: an output of some size, with a part that is not for everybody, streamed section by section.

use aip_names::limits::SANDBOX_REPORT_SECTIONS_MAX;
use aip_sdk::{ActionError, CapabilitySpec, Chunks, Context, WorkerBuilder};
use aip_wire::{DataSensitivity, IdempotencyRequirement, RetrySafety, SideEffect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::book::{Book, Draft};

const REPORT: &str = "report";
/// The words of a section; what they say does not matter.
const WORDS: [&str; 12] = [
    "the", "quarter", "closed", "with", "orders", "above", "plan", "while", "costs", "stayed", "level",
    "again",
];
/// About a kilobyte.
const WORDS_PER_SECTION: usize = 170;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    #[schemars(length(min = 1, max = 200))]
    title: String,
    #[schemars(range(min = 1, max = SANDBOX_REPORT_SECTIONS_MAX))]
    sections: u16,
    #[schemars(length(max = 200), extend("x-aip-redact" = true))]
    author_email: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Report {
    report_id: String,
    title: String,
    #[schemars(extend("x-aip-redact" = true))]
    author_email: String,
    sections: Vec<Section>,
    words: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Section {
    heading: String,
    text: String,
}

/// What is kept of a report: the text can be written again.
#[derive(Serialize, Deserialize)]
struct Kept {
    report_id: String,
    title: String,
    sections: u16,
}

pub fn offer(worker: WorkerBuilder, book: &Book) -> WorkerBuilder {
    let write = CapabilitySpec::write(
        "cap:report:write",
        "Write a report",
        "Writes a report of up to some hundred kilobytes.",
        SideEffect::Write,
        RetrySafety::Safe,
    )
    .key(IdempotencyRequirement::Optional)
    .data(DataSensitivity::Confidential, true)
    .streaming();
    let book = book.clone();
    worker.capability(write, move |context, order| compose(book.clone(), context, order))
}

pub fn seed(_: &mut Draft<'_>) -> Result<(), ActionError> {
    Ok(())
}

pub async fn compose(book: Book, context: Context, order: Order) -> Result<Report, ActionError> {
    if order.sections == 0 || order.sections > SANDBOX_REPORT_SECTIONS_MAX {
        return Err(ActionError::permanent(
            "sandbox.report.too_long",
            "a report does not have so many sections",
        ));
    }
    let report_id = format!("report_{}", context.effect_id().trim_start_matches("act_"));
    let kept = Kept { report_id, title: order.title, sections: order.sections };
    let kept = book
        .once(&context, move |draft| {
            draft.put(REPORT, &kept.report_id, &kept)?;
            Ok(kept)
        })
        .await?;
    let sections: Vec<Section> = (1..=kept.sections).map(section).collect();
    stream(context.chunks(), &sections).await;
    Ok(Report {
        report_id: kept.report_id,
        title: kept.title,
        author_email: order.author_email,
        words: sections.len() as u64 * WORDS_PER_SECTION as u64,
        sections,
    })
}

/// The report itself says all of it again, so it does not depend on its stream.
async fn stream(chunks: &Chunks, sections: &[Section]) {
    let of = sections.len() as u64;
    for (done, section) in (1..).zip(sections) {
        let told = async {
            chunks.data(section.text.as_str()).await?;
            chunks.progress(done, of, &section.heading).await
        };
        if let Err(error) = told.await {
            tracing::info!(%error, "a report is written without streaming the rest of it");
            return;
        }
    }
}

fn section(number: u16) -> Section {
    let from = usize::from(number);
    let words: Vec<&str> =
        WORDS.iter().copied().cycle().skip(from % WORDS.len()).take(WORDS_PER_SECTION).collect();
    Section { heading: format!("Section {number}"), text: words.join(" ") }
}
