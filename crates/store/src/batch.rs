//! Changes of the file one by one, or many in one transaction.

use rusqlite::{Connection, Transaction};
use std::cell::Cell;
use std::ops::Deref;

/// Changes of a batch before it is committed.
pub(crate) const BATCH: u32 = 500;

/// Changes in one transaction.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) on: Cell<bool>,
    pub(crate) open: Cell<bool>,
    pub(crate) changes: Cell<u32>,
}

/// A change of the file: a transaction of its own, or a part of the batch.
pub(crate) struct Change<'c> {
    connection: &'c Connection,
    own: Option<Transaction<'c>>,
    batch: &'c Batch,
}

impl<'c> Change<'c> {
    pub(crate) fn open(
        connection: &'c Connection,
        batch: &'c Batch,
    ) -> rusqlite::Result<Change<'c>> {
        let own = match batch.on.get() {
            false => Some(connection.unchecked_transaction()?),
            true => None,
        };
        if own.is_none() && !batch.open.replace(true) {
            connection.execute_batch("BEGIN")?;
        }
        Ok(Change { connection, own, batch })
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        if let Some(own) = self.own {
            return own.commit();
        }
        self.batch.changes.set(self.batch.changes.get() + 1);
        if self.batch.changes.get() >= BATCH {
            self.batch.changes.set(0);
            self.batch.open.set(false);
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }
}

impl Deref for Change<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}
