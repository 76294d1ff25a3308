//! A booking office for a few restaurants: tables are free or taken, and nobody gets one that is taken.

use aip_sdk::{ActionError, CapabilitySpec, Context, WorkerBuilder};
use aip_wire::{DataSensitivity, IdempotencyRequirement, RetrySafety, SideEffect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::Date;
use time::macros::format_description;

use crate::book::{Book, Draft};

const TABLE: &str = "table";
const BOOKING: &str = "booking";
/// A booked slot of a table, so that it is taken by one booking only.
const SLOT: &str = "slot";
/// When a table may be booked for; each sitting takes it for its slot.
const TIMES: [&str; 4] = ["18:00", "19:00", "20:00", "21:00"];

#[derive(Clone, Serialize, Deserialize)]
struct Place {
    restaurant: String,
    city: String,
    table: String,
    seats: u8,
}

/// Which tables are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Any city if left out.
    #[schemars(length(max = 200))]
    city: Option<String>,
    /// `2027-03-14`
    #[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}$"))]
    date: String,
    /// `18:00`, `19:00`, `20:00` or `21:00`
    #[schemars(regex(pattern = r"^\d{2}:\d{2}$"))]
    time: String,
    #[schemars(range(min = 1, max = 12))]
    party: u8,
}

#[derive(Serialize, JsonSchema)]
pub struct Found {
    tables: Vec<Free>,
}

/// A table that was free when asked.
#[derive(Serialize, JsonSchema)]
pub struct Free {
    restaurant: String,
    city: String,
    table: String,
    seats: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    #[schemars(length(max = 200))]
    restaurant: String,
    #[schemars(length(max = 200))]
    table: String,
    #[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}$"))]
    date: String,
    #[schemars(regex(pattern = r"^\d{2}:\d{2}$"))]
    time: String,
    #[schemars(range(min = 1, max = 12))]
    party: u8,
    #[schemars(length(min = 1, max = 200), extend("x-aip-redact" = true))]
    guest_name: String,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Booking {
    booking_id: String,
    restaurant: String,
    table: String,
    date: String,
    time: String,
    party: u8,
    #[schemars(extend("x-aip-redact" = true))]
    guest_name: String,
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Confirmed,
    Cancelled,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    #[schemars(length(max = 200))]
    booking_id: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    booking_id: String,
    status: Status,
}

pub fn offer(worker: WorkerBuilder, book: &Book) -> WorkerBuilder {
    let search = CapabilitySpec::read(
        "cap:restaurant:table:search",
        "Search tables",
        "Finds tables that are free for a party at a date and time.",
    );
    let create = CapabilitySpec::write(
        "cap:restaurant:booking:create",
        "Book a table",
        "Books a table for one sitting. A table that is taken is refused.",
        SideEffect::Write,
        RetrySafety::SafeWithIdempotencyKey,
    )
    .data(DataSensitivity::Confidential, true);
    let cancel = CapabilitySpec::write(
        "cap:restaurant:booking:cancel",
        "Cancel a booking",
        "Frees the table of a booking. Cancelling twice is cancelling once.",
        SideEffect::Write,
        RetrySafety::Safe,
    )
    .key(IdempotencyRequirement::Optional);
    let (searching, creating, cancelling) = (book.clone(), book.clone(), book.clone());
    worker
        .capability(search, move |context, input| find(searching.clone(), context, input))
        .capability(create, move |context, input| reserve(creating.clone(), context, input))
        .capability(cancel, move |context, input| free(cancelling.clone(), context, input))
}

pub fn seed(draft: &mut Draft<'_>) -> Result<(), ActionError> {
    let restaurants = [("trattoria-roma", "Helsinki"), ("sushi-kai", "Helsinki"), ("chez-nous", "Tampere")];
    for (restaurant, city) in restaurants {
        for (table, seats) in [("t1", 2), ("t2", 2), ("t3", 4), ("t4", 6)] {
            let place = Place {
                restaurant: restaurant.to_owned(),
                city: city.to_owned(),
                table: table.to_owned(),
                seats,
            };
            draft.put(TABLE, &format!("{restaurant}/{table}"), &place)?;
        }
    }
    Ok(())
}

pub async fn find(book: Book, context: Context, wanted: Search) -> Result<Found, ActionError> {
    check(&wanted.date, &wanted.time)?;
    book.look(&context, move |rows| {
        let mut tables = Vec::new();
        for place in rows.list::<Place>(TABLE)? {
            let fits =
                place.seats >= wanted.party && wanted.city.as_ref().is_none_or(|city| *city == place.city);
            let slot = slot(&place.restaurant, &place.table, &wanted.date, &wanted.time);
            if fits && rows.get::<String>(SLOT, &slot)?.is_none() {
                let Place { restaurant, city, table, seats } = place;
                tables.push(Free { restaurant, city, table, seats });
            }
        }
        Ok(Found { tables })
    })
    .await
}

pub async fn reserve(book: Book, context: Context, wanted: Reserve) -> Result<Booking, ActionError> {
    check(&wanted.date, &wanted.time)?;
    let booking_id = format!("book_{}", context.effect_id().trim_start_matches("act_"));
    book.once(&context, move |draft| {
        let place = draft.get::<Place>(TABLE, &format!("{}/{}", wanted.restaurant, wanted.table))?;
        let refused = |code: &str, message: &str| ActionError::permanent(code.to_owned(), message.to_owned());
        let place =
            place.ok_or_else(|| refused("sandbox.restaurant.table_unknown", "there is no such table"))?;
        if place.seats < wanted.party {
            return Err(refused("sandbox.restaurant.table_too_small", "the table has too few seats"));
        }
        let slot = slot(&wanted.restaurant, &wanted.table, &wanted.date, &wanted.time);
        if draft.get::<String>(SLOT, &slot)?.is_some() {
            return Err(refused("sandbox.restaurant.table_taken", "the table is taken at that time"));
        }
        let booking = Booking {
            booking_id,
            restaurant: wanted.restaurant,
            table: wanted.table,
            date: wanted.date,
            time: wanted.time,
            party: wanted.party,
            guest_name: wanted.guest_name,
            status: Status::Confirmed,
        };
        draft.put(SLOT, &slot, &booking.booking_id)?;
        draft.put(BOOKING, &booking.booking_id, &booking)?;
        Ok(booking)
    })
    .await
}

pub async fn free(book: Book, context: Context, wanted: Cancel) -> Result<Cancelled, ActionError> {
    book.once(&context, move |draft| {
        let Some(mut booking) = draft.get::<Booking>(BOOKING, &wanted.booking_id)? else {
            return Err(ActionError::permanent(
                "sandbox.restaurant.booking_unknown",
                "there is no such booking",
            ));
        };
        if booking.status == Status::Confirmed {
            booking.status = Status::Cancelled;
            draft.put(BOOKING, &booking.booking_id, &booking)?;
            draft.remove(SLOT, &slot(&booking.restaurant, &booking.table, &booking.date, &booking.time))?;
        }
        Ok(Cancelled { booking_id: booking.booking_id, status: Status::Cancelled })
    })
    .await
}

fn slot(restaurant: &str, table: &str, date: &str, time: &str) -> String {
    format!("{restaurant}/{table}/{date}/{time}")
}

fn check(date: &str, time: &str) -> Result<(), ActionError> {
    if Date::parse(date, format_description!("[year]-[month]-[day]")).is_err() {
        return Err(ActionError::permanent("sandbox.restaurant.date_invalid", "there is no such date"));
    }
    if !TIMES.contains(&time) {
        let message = format!("tables are booked for {}", TIMES.join(", "));
        return Err(ActionError::permanent("sandbox.restaurant.time_invalid", message));
    }
    Ok(())
}
