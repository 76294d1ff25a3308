//! How the command line speaks: to people by default, in JSON to programs; errors on standard error with a hint.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: Option<String>,
    /// Programs asked for JSON.
    json: bool,
    exit: u8,
}

// === impl Failure ===

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, code: None, json: false, exit: 1 }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Failure {
        self.code = Some(code.into());
        self
    }

    #[must_use]
    pub fn json(mut self, json: bool) -> Failure {
        self.json = json;
        self
    }

    /// What the process says to whoever started it.
    #[must_use]
    pub fn exit(mut self, code: u8) -> Failure {
        self.exit = code;
        self
    }
}

/// Any error with all its causes.
pub fn because(what: &str, error: &dyn std::error::Error) -> Failure {
    let mut message = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Failure::new(message)
}

pub fn fail(failure: &Failure) -> ExitCode {
    if failure.json {
        let error = json!({"code": failure.code, "message": failure.message, "hint": failure.hint});
        eprintln!("{}", json!({ "error": error }));
    } else {
        eprintln!("error: {}", failure.message);
        if let Some(hint) = &failure.hint {
            eprintln!("hint:  {hint}");
        }
    }
    ExitCode::from(failure.exit)
}

/// As a shell says of a program whose reader went away.
const EXIT_PIPE: i32 = 141;

/// Writes a line to standard output. A reader that has gone away (`aip … | head`) ends the program quietly.
pub fn line(text: std::fmt::Arguments<'_>) {
    let written = writeln!(std::io::stdout().lock(), "{text}");
    if written.is_err() {
        std::process::exit(EXIT_PIPE);
    }
}

/// `println!` for a reader that may go away.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// One value on standard output, for programs on one line.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| because("can't write JSON", &error))?;
    say!("{text}");
    Ok(())
}

/// A value for people: indented.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Says that something is waited for, unless programs listen.
pub fn progress(json: bool, text: &str) {
    if !json {
        eprintln!("{text}");
    }
}
