//! `handoff config`

use super::{Context, load, wrong};
use crate::cli::ConfigVerb;
use crate::config;
use crate::exit::{Exit, Failure};

/// Checks or shows the configuration.
pub(super) fn run(context: Context<'_>, verb: ConfigVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    match verb {
        ConfigVerb::Check { file } => {
            let inputs = context.surroundings.inputs(file, Vec::new());
            match config::load(&inputs) {
                Ok(config) if terminal.json => {
                    let file = config.file.map(|file| file.display().to_string());
                    terminal.print_json(&serde_json::json!({ "file": file, "problems": [] }))
                }
                Ok(config) => {
                    terminal.talk(&match config.file {
                        Some(file) => format!("{} is sound", file.display()),
                        None => format!(
                            "there is no file (looked for {}); the defaults and the environment are sound",
                            config::PLACES.join(" and ")
                        ),
                    });
                    Ok(())
                }
                Err(problems) if terminal.json => {
                    let problems: Vec<_> = problems
                        .iter()
                        .map(|problem| {
                            serde_json::json!({
                                "at": problem.at.as_ref().map(ToString::to_string),
                                "what": problem.what,
                                "help": problem.help,
                            })
                        })
                        .collect();
                    terminal.print_json(&serde_json::json!({ "problems": problems }))?;
                    Err(Failure::said(Exit::Failed))
                }
                Err(problems) => Err(Failure::new(Exit::Failed, wrong(&problems))),
            }
        }
        ConfigVerb::Show { defaults: true, .. } => terminal.print(&config::show::annotated()),
        ConfigVerb::Show { config: args, .. } => {
            let config = load(&context.surroundings.inputs(args.config.clone(), args.flags()))?;
            if terminal.json {
                terminal.print_json(&config::show::json(&config))
            } else {
                terminal.print(&config::show::text(&config))
            }
        }
    }
}
