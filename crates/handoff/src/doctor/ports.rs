//! The ports: free, or held, and by whom.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use handoff_server::settings::Settings;

use super::{Directory, Finding};

/// Whether each listener could be bound. A server that runs on this directory holds them itself.
pub(super) fn check(settings: &Settings, directory: &Directory) -> Vec<Finding> {
    let mut findings = vec![port("server.listen", settings.server.listen, directory)];
    if settings.events.enabled {
        findings.push(port("events.listen", settings.events.listen, directory));
    }
    if settings.relay.enabled {
        findings.push(port("relay.listen", settings.relay.listen, directory));
    }
    findings
}

fn port(key: &'static str, address: SocketAddr, directory: &Directory) -> Finding {
    if address.port() == 0 {
        return Finding::ok(key, "port 0: a free one is picked at start");
    }
    let error = match TcpListener::bind(address) {
        Ok(_) => return Finding::ok(key, format!("{address} is free")),
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder = holder(address.port());
            let by = holder.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            if let Some(server) = &directory.holder {
                return Finding::ok(
                    key,
                    format!("{address} is held{by}; the data directory is in use by {server}"),
                );
            }
            let what = format!("{address} is held{by}");
            let remedy = match holder {
                Some(_) => "stop it, or listen elsewhere",
                None => "`ss -ltnp` as root says by whom; stop it, or listen elsewhere",
            };
            Finding::fail(key, what, remedy)
        }
        io::ErrorKind::PermissionDenied => {
            let remedy = "ports below 1024 need the right to bind them (AmbientCapabilities=CAP_NET_BIND_SERVICE); choose a higher one";
            Finding::fail(key, format!("{address} may not be bound: {error}"), remedy)
        }
        io::ErrorKind::AddrNotAvailable => {
            let remedy = "no interface of this machine has the address; `ip address` lists them";
            Finding::fail(key, format!("{address}: {error}"), remedy)
        }
        _ => Finding::fail(key, format!("{address}: {error}"), "choose another address"),
    }
}

/// The process that listens on a port, as far as this user may see it.
pub(crate) fn holder(port: u16) -> Option<String> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| {
            table.lines().filter_map(|line| listening(line, port)).collect::<Vec<_>>()
        })
        .collect();
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .find(|entry| has_open(&entry.path(), &sockets))
        .map(|entry| {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            format!("process {} ({})", entry.file_name().to_string_lossy(), name.trim())
        })
}

fn has_open(process: &Path, sockets: &[String]) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| {
        let target = target.to_string_lossy();
        sockets.iter().any(|socket| **socket == *target)
    })
}

/// The inode of a socket that listens on a port, from a line of `/proc/net/tcp`.
fn listening(line: &str, port: u16) -> Option<u64> {
    let mut words = line.split_whitespace();
    let local = words.nth(1)?;
    let state = words.nth(1)?;
    let inode = words.nth(5)?;
    let (_, hex) = local.rsplit_once(':')?;
    let listens = state == "0A" && u16::from_str_radix(hex, 16) == Ok(port);
    if listens { inode.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{holder, listening};
    use std::net::TcpListener;

    #[test]
    fn a_line_of_the_kernel_s_table_is_understood() {
        let line = "   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0";
        assert_eq!(listening(line, 7070), Some(4711));
        assert_eq!(listening(line, 7071), None);
        assert_eq!(listening(&line.replace(" 0A ", " 01 "), 7070), None);
        assert_eq!(listening("  sl  local_address rem_address", 7070), None);
    }

    #[test]
    fn whoever_holds_a_port_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let found = holder(listener.local_addr().unwrap().port());
        if std::path::Path::new("/proc/net/tcp").exists() {
            let words = found.unwrap();
            assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
        }
    }
}
