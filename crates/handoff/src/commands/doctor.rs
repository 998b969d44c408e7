//! `handoff doctor`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use handoff_sdk::Options;
use handoff_server::auth::offline::apply_offline;
use handoff_server::house::{ActKind, Command};
use handoff_server::settings::Settings;
use handoff_types::Code;
use serde_json::json;

use super::token::{LOCAL, offline, one};
use super::{Context, version, wait, wrong};
use crate::cli::DoctorArgs;
use crate::config::{self, Config, Problem};
use crate::doctor::{
    Bundle, Directory, Examination, Finding, Journal, Running, Verdict, examine, repair,
};
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Looks at everything, and repairs if asked to.
pub(super) fn run(context: Context<'_>, args: DoctorArgs) -> Result<(), Failure> {
    let inputs = context.surroundings.inputs(args.config.config.clone(), args.config.flags());
    let loaded = config::load(&inputs);
    let settings = settings(&loaded, &args);
    let Some(settings) = settings else {
        let problems = loaded.err().unwrap_or_default();
        return show(context.terminal, &[configuration(&Err(problems))]);
    };
    if args.repair {
        // Limits of the journal decide what is read of it and kept: not a time to guess them.
        if let Err(problems) = &loaded {
            let words = format!(
                "{}\nnothing was repaired: the journal's limits are in it",
                wrong(problems)
            );
            return Err(Failure::code(Code::ConfigInvalid, words));
        }
        return mend(context, &settings);
    }
    let running = ask(context, &settings);
    let Examination { mut findings, journal } = examine(&settings, &running);
    findings.insert(0, configuration(&loaded));
    if let Some(path) = &args.bundle {
        let bundle = Bundle {
            config: match &loaded {
                Ok(config) => config::show::text(config),
                Err(problems) => wrong(problems),
            },
            findings: &findings,
            running: &running,
            journal: Some(&journal),
            version: format!("handoff {}\n", version::RELEASE),
        };
        write_bundle(context.terminal, &bundle, path)?;
    }
    show(context.terminal, &findings)
}

/// What to look at. With a broken configuration only a directory that was named can be looked at.
fn settings(loaded: &Result<Config, Vec<Problem>>, args: &DoctorArgs) -> Option<Settings> {
    match (loaded, &args.config.data_dir) {
        (Ok(config), _) => Some(config.settings.clone()),
        (Err(_), Some(dir)) => {
            let mut settings = Settings::default();
            settings.server.data_dir.clone_from(dir);
            Some(settings)
        }
        (Err(_), None) => None,
    }
}

fn configuration(loaded: &Result<Config, Vec<Problem>>) -> Finding {
    const CHECK: &str = "configuration";
    match loaded {
        Ok(Config { file: Some(file), .. }) => {
            Finding::ok(CHECK, format!("{} is sound", file.display()))
        }
        Ok(_) => Finding::ok(CHECK, "there is no file; the defaults hold"),
        Err(problems) => {
            let remedy =
                "mend it; other checks need it, or a --data-dir, and then go by the defaults";
            Finding::fail(CHECK, wrong(problems), remedy)
        }
    }
}

/// Asks the server that --url names, or the one that the settings would start.
fn ask(context: Context<'_>, settings: &Settings) -> Running {
    let said = context.global.url.is_some() || context.surroundings.is_set("HANDOFF_URL");
    if !said && settings.server.listen.port() == 0 {
        return Running::unasked("server.listen has port 0, and no --url says where the server is");
    }
    let url = if said { context.surroundings.url(context.global) } else { Ok(own_url(settings)) };
    // Something else may have the port and never answer.
    let client = url.and_then(|url| {
        let options = Options::new(url).request_timeout(PATIENCE).connect_timeout(PATIENCE);
        context.surroundings.client_with(options, context.global)
    });
    match client {
        Ok(client) => wait(async { Ok(Running::ask(&client).await) })
            .unwrap_or_else(|failure| Running::unasked(&failure.what)),
        Err(failure) => Running::unasked(&failure.what),
    }
}

fn own_url(settings: &Settings) -> String {
    let scheme = if settings.server.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}", reachable(settings.server.listen))
}

/// Where a listener is reached from this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn show(terminal: &Terminal, findings: &[Finding]) -> Result<(), Failure> {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (failed, warned) = (count(Verdict::Fail), count(Verdict::Warn));
    if terminal.json {
        let report = json!({ "failed": failed, "warned": warned, "findings": findings });
        terminal.print_json(&report)?;
    } else {
        terminal.print(&text(findings))?;
        terminal.talk(&match (failed, warned) {
            (0, 0) => "everything is as it should be".to_owned(),
            (0, warned) => format!("nothing failed, {} could be better", counted(warned, "thing")),
            (failed, _) => format!("{} must be mended", counted(failed, "thing")),
        });
    }
    if failed > 0 { Err(Failure::said(Exit::Failed)) } else { Ok(()) }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let what = finding.what.replace('\n', "\n        ");
        text += &format!("{:5} {:15} {what}\n", finding.verdict.word(), finding.check);
        if let Some(remedy) = &finding.remedy {
            text += &format!("{:21} → {remedy}\n", "");
        }
    }
    text
}

fn write_bundle(terminal: &Terminal, bundle: &Bundle<'_>, path: &Path) -> Result<(), Failure> {
    let names = bundle.write(path).map_err(|error| {
        Failure::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
            .remedy("name a file that is not there yet, in a directory this user may write")
    })?;
    terminal.talk(&format!("{} holds {}; it has no secrets", path.display(), names.join(", ")));
    Ok(())
}

/// Sets damaged ranges aside, after asking.
fn mend(context: Context<'_>, settings: &Settings) -> Result<(), Failure> {
    let terminal = context.terminal;
    let directory = Directory::look(&settings.server.data_dir);
    let path = settings.server.data_dir.display();
    if !directory.is_held() {
        let why = directory.obstacle();
        let exit = if directory.is_in_use() { Exit::Refused } else { Exit::Failed };
        return Err(Failure::new(exit, format!("{path} cannot be repaired: {why}"))
            .remedy("stop the server first, and check --data-dir"));
    }
    let journal = Journal::look(settings, &directory);
    let steps = journal.to_repair();
    if let Some(finding) = journal.beyond_repair().filter(|_| steps.is_empty()) {
        let what = format!("no repair can mend this: {}", finding.what);
        return Err(Failure { remedy: finding.remedy.clone(), ..Failure::new(Exit::Failed, what) });
    }
    if steps.is_empty() {
        if terminal.json {
            return terminal.print_json(&json!({ "setAside": [], "accepted": [] }));
        }
        terminal.talk(&format!("there is nothing to repair in {path}"));
        return Ok(());
    }
    for step in &steps {
        terminal.talk(&format!("  {step}"));
    }
    terminal.confirm(&format!("{path} will be repaired as said above"))?;
    let repaired = repair(settings, &directory).map_err(|error| {
        Failure::new(Exit::Failed, format!("the repair failed, nothing was accepted: {error}"))
    })?;
    let accepted: Vec<String> = repaired
        .accepted
        .iter()
        .map(|lost| format!("{} {} to {}", lost.room, lost.from, lost.to))
        .collect();
    // The act is noted by whoever opens the directory next; let that be us.
    drop(directory);
    let target = format!("journal: records lost and accepted: {}", accepted.join("; "));
    let note = Command::Note { kind: ActKind::Repaired, target, who: LOCAL.to_owned() };
    let noted = apply_offline(&settings.server.data_dir, &settings.log.limits, vec![note]);
    if let Err(failure) = noted.map_err(offline).and_then(one) {
        terminal.warn(&format!(
            "the repair is done, but could not be noted for the audit: {}",
            failure.what
        ));
    }
    if terminal.json {
        let report = json!({ "setAside": repaired.set_aside, "accepted": accepted });
        return terminal.print_json(&report);
    }
    for file in &repaired.set_aside {
        terminal.print(file)?;
    }
    terminal.talk(
        "repaired; the damaged bytes are in the files above, the rooms open at the next start",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_listener_everywhere_is_reached_on_loopback() {
        let check = |from: &str, to: &str| {
            assert_eq!(reachable(from.parse().unwrap()).to_string(), to);
        };
        check("0.0.0.0:7070", "127.0.0.1:7070");
        check("[::]:7070", "[::1]:7070");
        check("10.0.0.1:7070", "10.0.0.1:7070");
    }
}
