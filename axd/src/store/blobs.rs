//! Scripts and environments: each content is kept once, and deflated if that saves something.

use std::collections::HashMap;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::{DecompressError, decompress_to_vec_with_limit};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Speed counts here, not the last byte.
const LEVEL: u8 = 3;
/// Smaller contents are not worth it.
const SMALL: usize = 200;
/// So many contents are remembered.
const REMEMBERED: usize = 4096;

type Hash = [u8; 32];

/// A script or an environment, by what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Content {
    /// The first half of its SHA-256, which nobody finds twice.
    pub digest: [u8; 16],
    /// Its length in bytes, not packed.
    pub size: u64,
}

impl Content {
    pub(crate) fn of(content: &[u8]) -> Content {
        Content::known(&Sha256::digest(content), u64::try_from(content.len()).unwrap_or(u64::MAX))
    }

    /// From what the table of contents says.
    pub(crate) fn known(hash: &[u8], size: u64) -> Content {
        let mut digest = [0; 16];
        digest.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
        Content { digest, size }
    }
}

/// What a job has in the store, as far as its submitter says how much that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Script and environment: equal ones of several jobs are there once.
    pub contents: [Content; 2],
    /// Bytes of its options and arguments, which are its own.
    pub details: u64,
}

/// The contents that this connection knows to be there.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    known: HashMap<Hash, i64>,
}

impl Blobs {
    /// The number of a content, which is written if it is new.
    pub(crate) fn put(&mut self, connection: &Connection, content: &[u8]) -> rusqlite::Result<i64> {
        let hash: Hash = Sha256::digest(content).into();
        if let Some(id) = self.known.get(&hash) {
            return Ok(*id);
        }
        let found = connection
            .prepare_cached("SELECT id FROM blobs WHERE sha256 = ?1")?
            .query_row([&hash[..]], |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => insert(connection, &hash, content)?,
        };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(hash, id);
        Ok(id)
    }

    /// Removes a content that no job refers to any more.
    pub(crate) fn drop_unused(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<()> {
        let sql = "DELETE FROM blobs WHERE id = ?1
                     AND NOT EXISTS (SELECT 1 FROM details WHERE script = ?1)
                     AND NOT EXISTS (SELECT 1 FROM details WHERE environment = ?1)";
        if connection.prepare_cached(sql)?.execute([id])? > 0 {
            self.known.retain(|_, known| *known != id);
        }
        Ok(())
    }

    /// After a roll-back nothing is known to be there any more.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }
}

fn insert(connection: &Connection, hash: &Hash, content: &[u8]) -> rusqlite::Result<i64> {
    let packed = (content.len() >= SMALL).then(|| compress_to_vec(content, LEVEL));
    let packed = packed.filter(|p| p.len() < content.len());
    let stored = packed.as_deref().unwrap_or(content);
    let size = i64::try_from(content.len()).unwrap_or(i64::MAX);
    connection
        .prepare_cached("INSERT INTO blobs (sha256, size, packed, content) VALUES (?1, ?2, ?3, ?4)")?
        .execute((&hash[..], size, packed.is_some(), stored))?;
    Ok(connection.last_insert_rowid())
}

/// The content as it was, out of a row's `size`, `packed` and `content`.
pub(crate) fn unpack(size: i64, packed: bool, content: Vec<u8>) -> Result<Vec<u8>, Damaged> {
    let size = usize::try_from(size).map_err(|_| Damaged::Size)?;
    let content =
        if packed { decompress_to_vec_with_limit(&content, size).map_err(Damaged::Packed)? } else { content };
    if content.len() == size { Ok(content) } else { Err(Damaged::Length { has: content.len(), size }) }
}

/// Why a row is not the content that was put in.
#[derive(Debug, Error)]
pub(crate) enum Damaged {
    /// No content has such a size.
    #[error("a size below zero")]
    Size,
    /// It is not what packing makes.
    #[error("{0}")]
    Packed(DecompressError),
    /// It is shorter or longer.
    #[error("{has} bytes instead of {size}")]
    Length {
        /// Its length.
        has: usize,
        /// What it should be.
        size: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_as_they_were_whether_packed_or_not() {
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE blobs (id INTEGER PRIMARY KEY, sha256 BLOB UNIQUE, size, packed, content)";
        connection.execute_batch(table).unwrap();
        let random = ax_sys::random::bytes::<5000>().unwrap();
        let contents = [&b""[..], b"short", &[7; 100_000], &random];
        let mut blobs = Blobs::default();
        for content in contents {
            let id = blobs.put(&connection, content).unwrap();
            assert_eq!(blobs.put(&connection, content).unwrap(), id, "remembered");
            assert_eq!(Blobs::default().put(&connection, content).unwrap(), id, "looked up");
            let row = connection.query_row(
                "SELECT size, packed, content, length(content) FROM blobs WHERE id = ?1",
                [id],
                |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get::<_, i64>(3)?)),
            );
            let (size, packed, stored, length) = row.unwrap();
            assert!(length <= content.len() as i64);
            assert_eq!(unpack(size, packed, stored).unwrap(), content);
        }
    }

    #[test]
    fn what_claims_to_be_smaller_than_it_is_does_not_fill_the_memory() {
        let bomb = compress_to_vec(&vec![0; 10_000_000], LEVEL);
        assert!(unpack(100, true, bomb).is_err());
        assert!(unpack(-1, false, vec![]).is_err());
    }
}
