//! Destinations inside TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use handoff_tests::relay::Manner;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::world::World;

/// Whoever comes inside TLS is led to a plain listener. Gives its address and its certificate.
pub(crate) fn front(runtime: &Runtime, behind: SocketAddr) -> (SocketAddr, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut inside) = acceptor.accept(stream).await else { return };
                let Ok(mut plain) = TcpStream::connect(behind).await else { return };
                drop(copy_bidirectional(&mut inside, &mut plain).await);
            });
        }
    });
    (address, cert.pem())
}

#[test]
fn a_destination_inside_tls_is_believed_by_its_certificate_and_nobody_else_is() {
    let mut world = World::before_an_agent(1);
    let runtime = Runtime::new().unwrap();
    let (address, pem) = front(&runtime, world.centres[0].address);
    let ca_file = world.place.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    let believed = format!("ca_file = \"{}\"\n", ca_file.display());
    let url = format!("handoffs://{address}");
    // Somebody whom nobody vouches for gets nothing, and what is for it is kept.
    world.den.send_by(&[("one", url.as_str(), "")]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.send(100);
    let lost = "handoff_relay_destination_lost_total{destination=\"one\"}";
    assert!(world.agent().metric(lost).unwrap() > Some(0.0));
    assert_eq!(world.centres[0].met(), (0, 0), "not a word was said");
    world.agent.take().unwrap().stop().unwrap();
    world.den.send_by(&[("one", url.as_str(), believed.as_str())]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.send(100);
    world.assert_delivered();
    // It breaks and comes back, as without TLS.
    world.centres[0].behave(Manner::Gone);
    world.send(100);
    world.centres[0].behave(Manner::Takes);
    world.send(100);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
}
