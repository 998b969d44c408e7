//! A disk on which some folders cannot be written to, one has more files than can be held, and whoever
//! reads can be held up.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use handoff_log::disk::{Disk, File, Found, FoundWhat, Open, Walk};

/// Who reads below a folder, and where it waits.
type Held = (&'static str, Arc<Barrier>);

/// A disk that refuses to make or move anything below some folders.
#[derive(Clone, Debug)]
pub struct Locked {
    inner: Arc<dyn Disk>,
    locked: Arc<Mutex<Vec<String>>>,
    /// So many files in this folder, made up while it is walked.
    crowded: Option<(&'static str, usize)>,
    /// How many of them were given.
    pub given: Arc<AtomicUsize>,
    /// The next who reads below this folder waits here twice before it does.
    held: Arc<Mutex<Option<Held>>>,
    /// How often a folder was listed.
    pub walks: Arc<AtomicUsize>,
}

impl Locked {
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        let (locked, held) = (Arc::default(), Arc::default());
        let (given, walks) = (Arc::default(), Arc::default());
        Self { inner, locked, crowded: None, given, held, walks }
    }

    pub fn crowded(self, dir: &'static str, files: usize) -> Self {
        Self { crowded: Some((dir, files)), ..self }
    }

    pub fn lock(&self, dir: &str) {
        self.locked.lock().unwrap().push(dir.to_owned());
    }

    pub fn unlock(&self) {
        self.locked.lock().unwrap().clear();
    }

    /// Holds up the next who reads below a folder: it has come when the barrier lets go once, and goes on
    /// when it lets go again.
    pub fn hold(&self, dir: &'static str) -> Arc<Barrier> {
        let barrier = Arc::new(Barrier::new(2));
        *self.held.lock().unwrap() = Some((dir, Arc::clone(&barrier)));
        barrier
    }

    fn check(&self, path: &str) -> io::Result<()> {
        match self.locked.lock().unwrap().iter().any(|dir| path.starts_with(dir.as_str())) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }
}

impl Disk for Locked {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        if how == Open::Create {
            self.check(path)?;
        }
        let held = |(dir, _): &mut (&str, _)| how == Open::Read && path.starts_with(*dir);
        let held = self.held.lock().unwrap().take_if(held);
        if let Some((_, barrier)) = held {
            barrier.wait();
            barrier.wait();
        }
        self.inner.open(path, how)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.walks.fetch_add(1, Ordering::Relaxed);
        let Some((_, files)) = self.crowded.filter(|(crowded, _)| *crowded == dir) else {
            return self.inner.walk(dir);
        };
        let given = Arc::clone(&self.given);
        Ok(Box::new((1..=files).map(move |seq| {
            given.fetch_add(1, Ordering::Relaxed);
            let name = format!("{seq:016x}-m{seq}_from_a_to_db.json");
            Ok(Found { name, what: FoundWhat::File })
        })))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.check(dir)?;
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.check(path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.check(dir)?;
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}
