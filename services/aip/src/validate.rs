//! `aip validate`: envelopes as JSON lines on standard input, one verdict a line; exit 1 if any was refused.

use std::io::{BufWriter, Write, stdin, stdout};
use std::process::ExitCode;

use crate::output::{Failure, because};

pub fn run() -> Result<ExitCode, Failure> {
    let mut output = BufWriter::new(stdout().lock());
    let judged = aip_wire::validate::lines(stdin().lock(), &mut output)
        .and_then(|all_valid| output.flush().map(|()| all_valid));
    match judged {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => Err(because("can't read or write", &error)),
    }
}
