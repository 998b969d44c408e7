//! Rooms on embedded storage.
