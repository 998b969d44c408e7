//! A link that can be made a hole.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::lasts;

/// A link that can be made a hole: bytes go in, nothing comes out, and no socket is closed. A
/// connection that has lost a byte stays silent for ever.
#[derive(Debug)]
pub struct Link {
    /// Where it begins, as clients of Redis write it.
    pub address: String,
    hole: Arc<watch::Sender<bool>>,
}

impl Link {
    /// A link to a server.
    ///
    /// # Panics
    /// When there is no port for it.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("there are free ports");
        let address = listener.local_addr().expect("it has an address");
        let hole = Arc::new(watch::Sender::new(false));
        let of_connections = Arc::clone(&hole);
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                let there = TcpStream::connect(server).await;
                let hole = of_connections.subscribe();
                if let Ok(there) = there {
                    tokio::spawn(carry(here, there, hole));
                }
            }
        });
        Self { address: format!("redis://{address}"), hole }
    }

    /// Is a hole for so long.
    pub async fn is_a_hole_for(&self, time: Duration) {
        self.hole.send_replace(true);
        lasts(time).await;
        self.hole.send_replace(false);
    }
}

async fn carry(here: TcpStream, there: TcpStream, hole: watch::Receiver<bool>) {
    let ((mut from_here, mut to_here), (mut from_there, mut to_there)) =
        (here.into_split(), there.into_split());
    let lost = Arc::new(watch::Sender::new(false));
    let one_way = async |from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf| {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from.read(&mut bytes).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            if *hole.borrow() {
                lost.send_replace(true);
            }
            let read = bytes.get(..count).unwrap_or_default();
            if !*lost.borrow() && to.write_all(read).await.is_err() {
                return;
            }
        }
    };
    // Whichever side closes takes the other along.
    tokio::select! {
        () = one_way(&mut from_here, &mut to_there) => {}
        () = one_way(&mut from_there, &mut to_here) => {}
    }
}
