"""The data folder: a SQLite database of events, known ids, waiting predictions and snapshots.

Anything can read it with SQL while a server runs: the body of an event is the JSON that
``POST /learn`` takes, and a snapshot holds a model file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maxmargin import __version__

FILE, LOCK = "maxmargin.db", "lock"
# The version of the tables, in SQLite's user_version; a newer one cannot be opened.
SCHEMA = 1
# Marks the file as ours, in SQLite's application_id: "mxmg".
APPLICATION = 0x6D786D67
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    body TEXT NOT NULL,
    prediction TEXT,
    answer TEXT,
    refused TEXT
);
CREATE TABLE ids (id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, label TEXT) WITHOUT ROWID;
CREATE TABLE predictions (
    id TEXT PRIMARY KEY, time REAL NOT NULL, row TEXT NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE snapshots (
    sequence INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    version TEXT NOT NULL,
    learner BLOB NOT NULL,
    frozen BLOB,
    counts TEXT NOT NULL
);
"""
SECONDS_TO_WAIT = 7 * 24 * 3600.0  # for the label of a prediction


class Event(NamedTuple):
    """Rows to learn from, as they are stored.

    ``prediction`` is the id of the prediction that the label belongs to, and ``answer`` the JSON of
    the class that it gave to the caller.
    """

    sequence: int
    time: float
    body: str
    prediction: str | None = None
    answer: str | None = None
    refused: str | None = None


class Waiting(NamedTuple):
    """A prediction that waits for its label, with its row and its answer in JSON."""

    id: str
    time: float
    row: str
    answer: str


class Snapshot(NamedTuple):
    """The model after an event."""

    sequence: int
    time: float
    version: str
    learner: bytes
    frozen: bytes | None
    counts: str


class Database:
    """The database in a folder, for one writer and any number of readers.

    Parameters
    ----------
    folder : Path
    read_only : bool, default=False
        Leave the folder as it is; a server may write to it meanwhile.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder, self.path = folder, folder / FILE
        self._lock: sqlite3.Connection | None = None
        if read_only and not self.path.exists():
            raise ValueError(f"{folder} is not the folder of a server: it has no {FILE}.")
        if not read_only:
            self._prepare_folder()
        address = f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        try:
            self._connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False, timeout=30.0
            )
            if not read_only:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            self._check()
        except sqlite3.Error as error:
            self.close()
            raise ValueError(f"{self.path} cannot be opened: {error}.") from error
        except ValueError:
            self.close()
            raise

    def _prepare_folder(self) -> None:
        """Make a folder for its owner alone, and keep other servers out of it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.exists() and set(os.listdir(self.folder)) - {LOCK}:
            raise ValueError(f"{self.folder} has files, but no {FILE}: name an empty folder.")
        for name in (FILE, LOCK):
            os.close(os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600))
        self._lock = sqlite3.connect(self.folder / LOCK, timeout=0.0, check_same_thread=False)
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self.close()
            why = (
                "another server uses it"
                if "locked" in str(error)
                else f"it cannot be used: {error}"
            )
            raise ValueError(f"{self.folder}: {why}.") from error

    def _check(self) -> None:
        ((application,),) = self._connection.execute("PRAGMA application_id")
        ((schema,),) = self._connection.execute("PRAGMA user_version")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_master")
        if not tables:
            self.is_new = True
            return
        self.is_new = False
        if application != APPLICATION:
            raise ValueError(f"{self.path} is not the database of a server.")
        if schema > SCHEMA:
            raise ValueError(
                f"{self.path} was written by maxmargin {self.about()['version']}, which is newer "
                f"than this version, {__version__}: install that version or a newer one."
            )

    def close(self) -> None:
        for connection in (getattr(self, "_connection", None), self._lock):
            if connection is not None:
                connection.close()

    # ------------------------------------------------------------------------------------ writing
    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written meanwhile is on the disk afterwards; after an error, none of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
                self._connection.execute("ROLLBACK")
            raise

    def begin(self, about: dict[str, str], snapshot: Snapshot) -> None:
        """Make the tables of a new database, with the model before its first event."""
        with self.transaction():
            for statement in filter(str.strip, TABLES.split(";")):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
            about = {**about, "version": __version__}
            self._connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            self._insert_snapshot(snapshot)
        self.is_new = False

    def name_version(self) -> None:
        """Note which version has the folder open."""
        with self.transaction():
            self._connection.execute(
                "UPDATE about SET value = ? WHERE name = 'version'", (__version__,)
            )

    def append(self, event: Event, ids: list[str], label: str | None = None) -> None:
        """Add an event with its ids; one with a ``label`` takes its prediction from the waiting."""
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", event)
        known = ((each, event.sequence, label) for each in ids)
        self._connection.executemany("INSERT INTO ids VALUES (?, ?, ?)", known)
        if event.prediction is not None:
            self._connection.execute("DELETE FROM predictions WHERE id = ?", (event.prediction,))

    def refuse(self, event: Event, ids: list[str], waiting: Waiting | None) -> None:
        """Mark an event that could not be learned; its ids are free, its prediction waits again."""
        self._connection.execute(
            "UPDATE events SET refused = ? WHERE sequence = ?", (event.refused, event.sequence)
        )
        self._connection.executemany("DELETE FROM ids WHERE id = ?", ((each,) for each in ids))
        if waiting is not None:
            self.await_label(waiting)

    def await_label(self, waiting: Waiting) -> bool:
        """Keep a prediction, unless its id is known; the first answer under an id counts."""
        done = self._connection.execute(
            "INSERT OR IGNORE INTO predictions SELECT ?, ?, ?, ? "
            "WHERE NOT EXISTS (SELECT 1 FROM ids WHERE id = ?)",
            (*waiting, waiting.id),
        )
        return done.rowcount > 0

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the model after its last event; the one before the first event stays."""
        with self.transaction():
            self._connection.execute("DELETE FROM snapshots WHERE sequence > 0")
            self._insert_snapshot(snapshot)
            since = time.time() - SECONDS_TO_WAIT
            self._connection.execute("DELETE FROM predictions WHERE time < ?", (since,))

    def _insert_snapshot(self, snapshot: Snapshot) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", snapshot
        )

    # ------------------------------------------------------------------------------------ reading
    def about(self) -> dict[str, str]:
        return dict(self._connection.execute("SELECT name, value FROM about").fetchall())

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events that were learned, in their order."""
        while True:
            found = self._connection.execute(
                "SELECT * FROM events WHERE sequence > ? ORDER BY sequence LIMIT 100", (after,)
            ).fetchall()
            if not found:
                return
            for event in map(Event._make, found):
                if event.refused is None:
                    yield event
            after = found[-1][0]

    def last_sequence(self) -> int:
        ((found,),) = self._connection.execute("SELECT coalesce(max(sequence), 0) FROM events")
        return int(found)

    def known(self, key: str) -> tuple[int, str | None] | None:
        """The event that an id belongs to, and the JSON of its label, if it labels a prediction."""
        return self._connection.execute(
            "SELECT sequence, label FROM ids WHERE id = ?", (key,)
        ).fetchone()

    def waiting(self, key: str) -> Waiting | None:
        found = self._connection.execute(
            "SELECT * FROM predictions WHERE id = ?", (key,)
        ).fetchone()
        return None if found is None else Waiting._make(found)

    def count_waiting(self) -> int:
        ((found,),) = self._connection.execute("SELECT count(*) FROM predictions")
        return int(found)

    def snapshots(self) -> list[Snapshot]:
        """The last one first, that before the first event last."""
        found = self._connection.execute("SELECT * FROM snapshots ORDER BY sequence DESC")
        return [Snapshot._make(each) for each in found]

    def bytes(self) -> int:
        """The size of the database and of what is not merged into it yet."""
        files: list[Any] = [self.path, f"{self.path}-wal"]
        return sum(os.stat(each).st_size for each in files if os.path.exists(each))
