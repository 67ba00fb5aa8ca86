//! The word that a node's processes share in memory: the fence.
//!
//! A mapped file of one page. The word only grows. Reading it is a load, without a system call, and works
//! in a child after fork. Supervisors and their children read it; it is raised where several machines share a spool,
//! which is to come. The file must lie on a local file system, belong to root and never be truncated: a
//! missing page would kill every process that reads it.

use crate::error::{Doing, Result, SysError};
use crate::path::{Dir, Meta, OFlag};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const SIZE: usize = 4096;

/// "axfence" and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"axfence\x01");

#[repr(C)]
struct Words {
    magic: AtomicU64,
    lowest_node_epoch: AtomicU64,
}

/// The shared page, for reading.
#[derive(Debug)]
pub struct Fence {
    words: NonNull<Words>,
}

/// The shared page, for whoever makes it or raises the fence.
#[derive(Debug)]
pub struct FenceWriter {
    fence: Fence,
}

// SAFETY: the mapping belongs to the value alone and everything in it is atomic.
unsafe impl Send for Fence {}
// SAFETY: as above; no method needs exclusive access.
unsafe impl Sync for Fence {}

impl Fence {
    /// Maps the existing page `name` in `dir`, for reading only.
    ///
    /// # Errors
    /// When it is missing or no page of this form.
    pub fn open(dir: &Dir, name: &str) -> Result<Fence> {
        let file = dir.open_file(name)?;
        Fence::map(&file, dir, name, ProtFlags::PROT_READ)?.checked(dir, name)
    }

    /// The lowest node epoch that may still start something.
    pub fn lowest_node_epoch(&self) -> u64 {
        self.words().lowest_node_epoch.load(Ordering::SeqCst)
    }

    fn map(file: &File, dir: &Dir, name: &str, access: ProtFlags) -> Result<Fence> {
        let what = dir.show(name);
        if Meta::of(file)?.size < SIZE as u64 {
            return Err(SysError::found("map", what.display(), "it is too short"));
        }
        let size = NonZeroUsize::MIN.saturating_add(SIZE - 1);
        // SAFETY: a new shared mapping at an address of the kernel's choice touches nothing that exists; the
        // file was just seen to be long enough.
        let mapped = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) };
        Ok(Fence { words: mapped.doing("map", what.display())?.cast() })
    }

    fn checked(self, dir: &Dir, name: &str) -> Result<Fence> {
        if self.words().magic.load(Ordering::Acquire) == MAGIC {
            return Ok(self);
        }
        Err(SysError::found("map", dir.show(name).display(), "it is no fence of this version"))
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping is page-aligned, larger than `Words`, valid for every bit pattern and lives as
        // long as `self`. Readers map it without write access and only load.
        unsafe { self.words.as_ref() }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.words.cast(), SIZE) };
    }
}

impl FenceWriter {
    /// Maps the page `name` in `dir`, making it with zeroes (mode 0644, less the umask) if it is missing.
    ///
    /// # Errors
    /// When it is no page of this form, or what the system says.
    pub fn open(dir: &Dir, name: &str) -> Result<FenceWriter> {
        let file = File::from(dir.open_beneath(name, OFlag::O_RDWR | OFlag::O_CREAT, 0o644)?);
        // Whoever comes first makes it long enough; it never gets shorter.
        if Meta::of(&file)?.size < SIZE as u64 {
            file.set_len(SIZE as u64).doing("make", dir.show(name).display())?;
        }
        let fence = Fence::map(&file, dir, name, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        // A file that was just made is all zeroes; of several makers one writes, all the same.
        let _ = fence.words().magic.compare_exchange(0, MAGIC, Ordering::AcqRel, Ordering::Acquire);
        Ok(FenceWriter { fence: fence.checked(dir, name)? })
    }

    /// The page as readers see it.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Raises the fence to `epoch`; a lower one changes nothing. Returns what holds now.
    pub fn raise_fence(&self, epoch: u64) -> u64 {
        self.fence.words().lowest_node_epoch.fetch_max(epoch, Ordering::SeqCst).max(epoch)
    }
}
