//! A disk that is looked at and not touched.
//!
//! Recovery makes directories, removes leftovers and syncs what it finds. Here all of that is said
//! to have happened and nothing does, so a damaged directory can be read as it is, by somebody who
//! has no right to write.

use std::io;
use std::sync::Arc;

use handoff_log::disk::{Disk, File, Open, Walk};

/// Reads another disk and changes nothing on it.
#[derive(Debug)]
pub(super) struct Looking(pub(super) Arc<dyn Disk>);

impl Disk for Looking {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        if how == Open::Create {
            return Err(refused());
        }
        Ok(Arc::new(Looked(self.0.open(path, Open::Read)?)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        match self.0.list(dir) {
            // It would have been made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        match self.0.walk(dir) {
            // It would have been made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Box::new(std::iter::empty()))
            }
            other => other,
        }
    }

    fn create_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn rename_new(&self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Looked(Arc<dyn File>);

impl File for Looked {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(refused())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the doctor changes nothing")
}

#[cfg(test)]
mod tests {
    use super::Looking;
    use handoff_log::disk::{Disk, Memory, Open, replace_small, write_all_at};
    use std::sync::Arc;

    #[test]
    fn nothing_can_be_changed_through_it() {
        let memory = Memory::new();
        memory.create_dir("journal").unwrap();
        replace_small(&memory, "journal/a", b"abc").unwrap();
        let looking = Looking(Arc::new(memory.clone()));
        let file = looking.open("journal/a", Open::Write).unwrap();
        assert!(write_all_at(&*file, b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        looking.remove("journal/a").unwrap();
        assert!(looking.rename("journal/a", "journal/b").is_err());
        assert!(looking.open("journal/c", Open::Create).is_err());
        assert!(replace_small(&looking, "journal/a", b"x").is_err());
        assert_eq!(memory.list("journal").unwrap(), ["a"]);
        assert_eq!(memory.open("journal/a", Open::Read).unwrap().len().unwrap(), 3);
        assert_eq!(looking.list("nowhere").unwrap(), [] as [String; 0]);
    }
}
