//! A file is put where it belongs.
//!
//! ```text
//!  where it was   where it belongs
//!  the message    nothing            moved
//!  nothing        a file             done
//!  the message    the message        the one where it was is removed
//!  the message    something else     that is set aside, the message moved
//!  something else the message        that is set aside
//!  nothing        nothing            looked for nearby; else written from the journal; else looked for in
//!                                    folders of other days; else lost
//! ```

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

use handoff_exchange::Spot;
use handoff_log::disk::remove_if_there;

use super::files::{Content, content, is_there, nearby, other_days};
use super::known::Filed;
use super::name::{has_days, spot_dir};
use super::{Folders, Report};

impl Folders {
    /// Puts the file of a message where it belongs, from wherever it is.
    pub(super) fn set_right(&mut self, filed: &Filed, from: Option<Spot>) -> io::Result<()> {
        let here = spot_dir(&filed.database, filed.spot);
        let name = filed.name.text();
        let from = from.map(|from| spot_dir(&filed.database, from)).filter(|from| *from != here);
        if let Some(from) = from
            && self.move_to((&here, &name), &[&from, "/", &name].concat(), filed)?
        {
            return Ok(());
        }
        if is_there(&*self.files.disk, &format!("{here}/{name}"))? {
            return Ok(());
        }
        if self.move_from(nearby(filed), filed)? || self.restore(filed)? {
            return Ok(());
        }
        if !self.move_from(other_days(&*self.files.disk, filed)?, filed)? {
            let words = "it is in no folder and no longer in the journal";
            let words = format!("the body of {here}/{name} is lost: {words}").into();
            self.reports.push(Report::Damaged { seq: filed.name.seq, words });
        }
        Ok(())
    }

    /// Moves a file to where it belongs from one of some folders. Gives whether it was there.
    fn move_from(&mut self, dirs: Vec<String>, filed: &Filed) -> io::Result<bool> {
        for dir in dirs {
            if self.move_here(&format!("{dir}/{}", filed.name), filed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a file from the journal. Gives whether the journal has the body.
    fn restore(&mut self, filed: &Filed) -> io::Result<bool> {
        let here = spot_dir(&filed.database, filed.spot);
        let name = filed.name.to_string();
        match self.bodies.in_journal(filed.name.seq) {
            Ok(Some(body)) => match self.files.write(&here, &name, &body) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
                other => {
                    self.unsynced = true;
                    other.map(|()| true)
                }
            },
            Ok(None) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Moves a file to where it belongs, unless there is none. Gives whether there was one.
    pub(super) fn move_here(&mut self, from: &str, filed: &Filed) -> io::Result<bool> {
        let (here, name) = (spot_dir(&filed.database, filed.spot), filed.name.text());
        self.move_to((&here, &name), from, filed)
    }

    /// The same by whoever knows the folder and the name already.
    fn move_to(
        &mut self,
        (here, name): (&str, &str),
        from: &str,
        filed: &Filed,
    ) -> io::Result<bool> {
        let moving = self.bodies.desk.moving();
        match self.files.shift(from, here, name) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            // A folder under the name of a file: somebody made it.
            Err(error) if error.kind() == ErrorKind::IsADirectory => return Ok(false),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.choose(from, &format!("{here}/{name}"), filed)?;
            }
            Err(error) => return Err(error),
        }
        drop(moving);
        self.unsynced = true;
        Ok(true)
    }

    /// Of two files under the name of a message keeps the message, and what is not it aside.
    fn choose(&mut self, from: &str, to: &str, filed: &Filed) -> io::Result<()> {
        let disk = &*self.files.disk;
        let (old, new) = (content(disk, from, filed)?, content(disk, to, filed)?);
        let (path, words) = match (old, new) {
            (Content::Nothing, _) => return Ok(()),
            (Content::Right, Content::Right) => return disk.remove(from),
            (Content::Wrong(length), _) => {
                self.files.set_aside(from, length)?;
                (from, "another file had the name of a message and was set aside")
            }
            (Content::Right, Content::Wrong(length)) => {
                self.files.set_aside(to, length)?;
                disk.rename_new(from, to)?;
                (to, "another file was in the place of a message and was set aside")
            }
            // Something that is no file: it is in the way until somebody removes it.
            (Content::Right, Content::Nothing) => return Err(ErrorKind::AlreadyExists.into()),
        };
        self.reports.push(Report::Mended { path: path.to_owned(), words });
        Ok(())
    }

    /// Removes the file of a message that is gone, wherever it is.
    pub(super) fn remove(&mut self, was: &Filed, emptied: &mut BTreeSet<String>) -> io::Result<()> {
        let here = spot_dir(&was.database, was.spot);
        let name = was.name.to_string();
        match self.files.disk.remove(&format!("{here}/{name}")) {
            Ok(()) => {
                if has_days(was.spot.place) {
                    emptied.insert(here);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut dirs = nearby(was);
                if has_days(was.spot.place) {
                    dirs.extend(other_days(&*self.files.disk, was)?);
                }
                for dir in dirs {
                    remove_if_there(&*self.files.disk, &format!("{dir}/{name}"))?;
                }
            }
            Err(error) => return Err(error),
        }
        self.unsynced = true;
        Ok(())
    }

    /// Removes a file that was taken in.
    pub(super) fn discard(&mut self, path: &str) -> io::Result<()> {
        self.unsynced = true;
        remove_if_there(&*self.files.disk, path)
    }
}
