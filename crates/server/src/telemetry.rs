//! Metrics and logs: what can be seen of a running server.
//!
//! Names of metrics and their help stand in one place ([`names`]). What a room owns is read when
//! somebody looks; nothing is counted twice.

mod calls;
mod exchange;
pub mod logs;
mod metrics;
pub mod names;
mod process;
mod relay;

pub use calls::CallsMetrics;
pub use exchange::{ExchangeMetrics, ExchangeOutcome, ExchangeStep, MessageOutcome, MessageWay};
pub use logs::{LogError, LogHandle, init};
pub use metrics::{Counted, DiskSpace, HttpMetrics, MEDIA_TYPE, Metrics, RequestLabels};
pub use relay::RelayMetrics;
