//! The time as nvidia-smi writes it.

use time::OffsetDateTime;
use time::macros::format_description;

/// `Tue Dec  1 11:32:31 2026`, UTC.
pub fn now() -> String {
    let format = format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    OffsetDateTime::now_utc().format(&format).unwrap_or_default()
}
