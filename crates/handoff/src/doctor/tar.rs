//! A tar file, written by hand: POSIX ustar, plain files only.
//!
//! ```text
//!  header 512 │ content, zeros up to 512 │ header │ … │ two blocks of zeros
//!
//!  name 100 │ mode 8 │ uid 8 │ gid 8 │ size 12 │ mtime 12 │ checksum 8 │ type 1 │ link 100
//!  │ "ustar\0" 6 │ "00" 2 │ user 32 │ group 32 │ device 16 │ prefix 155 │ zeros 12
//! ```

use std::io::{self, Write};

const BLOCK: usize = 512;

/// Writes files into an archive.
#[derive(Debug)]
pub(super) struct Tar<W> {
    out: W,
    /// Seconds since 1970, of every file.
    time: u64,
}

impl<W: Write> Tar<W> {
    /// An archive that nothing is in yet.
    pub(super) fn new(out: W, time: u64) -> Self {
        Self { out, time }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// `InvalidInput` for a name above 100 bytes; whatever the writer answers.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.out.write_all(&header(name, content.len() as u64, self.time)?)?;
        self.out.write_all(content)?;
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        self.out.write_all([0; BLOCK].get(..rest).unwrap_or_default())
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// Whatever the writer answers.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn header(name: &str, size: u64, time: u64) -> io::Result<Vec<u8>> {
    if name.len() > 100 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name} is too long a name"),
        ));
    }
    let fields = |checksum: &[u8]| {
        let mut block = Vec::with_capacity(BLOCK);
        put(&mut block, name.as_bytes(), 100);
        put(&mut block, b"0000600", 8);
        put(&mut block, b"0000000", 8);
        put(&mut block, b"0000000", 8);
        put(&mut block, format!("{size:011o}").as_bytes(), 12);
        put(&mut block, format!("{time:011o}").as_bytes(), 12);
        put(&mut block, checksum, 8);
        put(&mut block, b"0", 1);
        put(&mut block, b"", 100);
        put(&mut block, b"ustar", 6);
        put(&mut block, b"00", 2);
        put(&mut block, b"", BLOCK - 265);
        block
    };
    // The sum counts its own field as spaces.
    let sum: u64 = fields(b"        ").iter().map(|byte| u64::from(*byte)).sum();
    Ok(fields(format!("{sum:06o}\0 ").as_bytes()))
}

fn put(block: &mut Vec<u8>, field: &[u8], width: usize) {
    let end = block.len() + width;
    block.extend(field.iter().take(width));
    block.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Tar};
    use std::process::{Command, Stdio};

    #[test]
    fn every_part_is_a_whole_number_of_blocks_and_the_sum_is_right() {
        let mut tar = Tar::new(Vec::new(), 1_800_000_000);
        tar.add("a/b.txt", b"hello").unwrap();
        tar.add("empty", b"").unwrap();
        tar.add("full", &[7; BLOCK]).unwrap();
        assert!(tar.add(&"x".repeat(101), b"").is_err());
        let bytes = tar.finish().unwrap();
        assert_eq!(bytes.len(), BLOCK * (2 + 1 + 2 + 2));
        let header = &bytes[..BLOCK];
        let told = std::str::from_utf8(&header[148..154]).unwrap();
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
            .sum();
        assert_eq!(u64::from_str_radix(told, 8), Ok(sum));
        assert_eq!(&header[257..265], b"ustar\x0000");
    }

    #[test]
    fn the_system_s_tar_reads_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = Tar::new(Vec::new(), 1_800_000_000);
        tar.add("handoff/doctor.json", b"{}\n").unwrap();
        tar.add("handoff/long.txt", &[b'x'; 1500]).unwrap();
        let path = dir.path().join("x.tar");
        std::fs::write(&path, tar.finish().unwrap()).unwrap();
        let read = Command::new("tar")
            .arg("-xf")
            .arg(&path)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output();
        let Ok(read) = read else { return };
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        let text = std::fs::read(dir.path().join("handoff/long.txt")).unwrap();
        assert_eq!(text, vec![b'x'; 1500]);
    }
}
