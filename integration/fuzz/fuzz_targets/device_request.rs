//! A request for devices, as a value and inside a config.json.
#![no_main]

use baton_devices::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(Some(Request::Cards(cards))) = Request::parse(text)
    {
        assert!(!cards.is_empty() && cards.len() <= 64);
    }
    if let Ok(config) = serde_json::from_slice(data) {
        let _ = Request::from_config(&config);
    }
});
