//! Which paths the port takes.
//!
//! A path is one or more names joined by `/`. A name is neither empty nor `.` nor `..` and holds
//! no NUL, so no path leaves the tree and each place has one spelling. The empty path names the
//! root, where a directory is asked for.

use std::io;

/// Refuses what cannot name a file.
pub(super) fn check_file(path: &str) -> io::Result<()> {
    let names = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    if path.split('/').all(names) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("not a path in the tree: {path:?}")))
}

/// Refuses what cannot name a directory.
pub(super) fn check_dir(path: &str) -> io::Result<()> {
    if path.is_empty() { Ok(()) } else { check_file(path) }
}

/// The directory a path lies in.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The directories above a path, outermost first, without the root.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| path.split_at(at).0)
}

#[cfg(test)]
mod tests {
    use super::{ancestors, parent};

    #[test]
    fn ancestors_come_outermost_first_and_without_the_root() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(ancestors("a").count(), 0);
        assert_eq!(parent("a/b/c"), "a/b");
        assert_eq!(parent("a"), "");
    }
}
