//! The store in memory keeps the port's promises.

use handoff_streams::conformance;
use handoff_streams::memory::Memory;

#[test]
fn the_store_in_memory_keeps_every_promise_of_the_port() {
    conformance::all(|| {
        let memory = Memory::default();
        memory.set_now(conformance::noon());
        memory
    });
}
