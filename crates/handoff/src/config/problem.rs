//! What is wrong with a configuration, where, and what to do.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use handoff_types::Code;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where it was written; none if it is between keys.
    pub(crate) at: Option<At>,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) help: Option<String>,
    /// What programs match on.
    pub(crate) code: Code,
}

impl Problem {
    /// Something that is wrong with what was written.
    pub(crate) fn new(at: Option<At>, what: String, help: Option<String>) -> Self {
        Self { at, what, help, code: Code::ConfigInvalid }
    }
}

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A file as a whole.
    File(PathBuf),
    /// A place in a file.
    Line {
        /// The file.
        file: PathBuf,
        /// Counts from 1.
        line: usize,
        /// Counts characters, from 1.
        column: usize,
        /// The whole line.
        text: String,
        /// How many characters it is about.
        width: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl At {
    /// The place of a span of bytes in a file's text.
    pub(crate) fn span(file: &Path, text: &str, span: Range<usize>) -> Self {
        let start = (0..=span.start.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let (before, behind) = text.split_at(start.unwrap_or(0));
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let lead = before.get(line_start..).unwrap_or_default();
        let tail = behind.lines().next().unwrap_or_default();
        let inside = text.get(span).map_or(1, |inside| inside.chars().count());
        Self::Line {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: lead.chars().count() + 1,
            text: format!("{lead}{tail}"),
            width: inside.clamp(1, tail.chars().count().max(1)),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Line { file, line, column, .. } => {
                write!(f, "{}:{line}:{column}", file.display())
            }
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.what)?;
        if let Some(At::Line { column, text, width, .. }) = &self.at {
            let text: String =
                text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
            if column + width <= 200 {
                write!(f, "\n  | {text}\n  | {:column$}{:^<width$}", "", "", column = column - 1)?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\n  = {help}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Problem};
    use std::path::Path;

    #[test]
    fn a_problem_points_at_its_place() {
        let text = "# ä\n[server]\nlisten = 5\n";
        let start = text.find('5').unwrap();
        let at = At::span(Path::new("x.toml"), text, start..start + 1);
        let problem = Problem::new(Some(at), "bad".to_owned(), Some("mend".to_owned()));
        assert_eq!(
            problem.to_string(),
            "x.toml:3:10: bad\n  | listen = 5\n  |          ^\n  = mend"
        );
    }

    #[test]
    fn a_place_behind_the_end_or_inside_a_letter_is_a_place_all_the_same() {
        for (text, span) in [("", 0..0), ("ä", 1..2), ("a\n", 9..12), ("a\nb", 2..3)] {
            drop(At::span(Path::new("x"), text, span).to_string());
        }
    }
}
