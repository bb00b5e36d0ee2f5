//! The state that the engine gives to the hook.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = baton_hook::Container::from_state(data);
});
