"""The checkpoint of a run: one SQLite file that a killed process can't leave half-written.

Each save is one transaction. Arrays are stored as NumPy archives without pickling.
"""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measurebayes.errors import CheckpointError

_TABLES = """
CREATE TABLE IF NOT EXISTS run (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pilot (id INTEGER PRIMARY KEY, steps INTEGER, arrays BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS chain
    (chain INTEGER PRIMARY KEY, done INTEGER, warmup_steps INTEGER, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS draws
    (chain INTEGER, part INTEGER, arrays BLOB NOT NULL, PRIMARY KEY (chain, part));
"""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Saved:
    """A chain as it was saved: number of draws done, state, and parts of its records."""

    done: int
    warmup_steps: int
    state: dict[str, np.ndarray]
    parts: list[dict[str, np.ndarray]]


class Checkpoint:
    """Progress of a run in a file.

    Parameters
    ----------
    path
        The file; it is made if it does not exist.
    settings
        What the run depends on: model, data, priors, sampler settings, seed and versions.
    resume
        Go on from the file if it is there.

    Raises
    ------
    CheckpointError
        The file is there and `resume` is false; or it belongs to another run; or it is none.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any], resume: bool) -> None:
        self.path = Path(path)
        wanted = json.loads(json.dumps(dict(settings)))
        try:
            if self.path.is_dir():
                raise sqlite3.DatabaseError("it is a folder")
            found, begun = self._begun(wanted)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} can't be used: {error}",
                where="the checkpoint",
                expected="a checkpoint that measurebayes wrote, in a folder that can be written",
                remedy="delete or rename the file, then run again",
            ) from error
        if begun and not resume:
            raise CheckpointError(
                f"{self.path} holds a run that was interrupted",
                where="the checkpoint",
                expected="no checkpoint, or the wish to go on from it",
                remedy="add --resume (in Python resume=True) to go on, or delete the file",
            )
        if begun:
            self._same_run(found, wanted)

    def _begun(self, wanted: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the settings in the file, and whether a chain was saved.

        Where none was, there is nothing to lose: another run that failed before its first draw
        gives way to this one.
        """
        with self._open() as db:
            db.executescript(_TABLES)
            begun = db.execute("SELECT count(*) FROM chain").fetchone()[0] > 0
            rows = dict(db.execute("SELECT key, value FROM run"))
            found = {k: json.loads(v) for k, v in rows.items()}
            if not begun and found != wanted:
                db.execute("DELETE FROM run")
                db.execute("DELETE FROM pilot")
                new = [(k, json.dumps(v)) for k, v in wanted.items()]
                db.executemany("INSERT INTO run VALUES (?, ?)", new)
        return found, begun

    def _same_run(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        for key in wanted:
            if found.get(key) != wanted[key]:
                raise CheckpointError(
                    f"{key} is {_short(found.get(key))} there and {_short(wanted[key])} here",
                    where=f"the checkpoint {self.path}",
                    expected="the same model, data, settings and versions as when it was begun",
                    remedy="repeat the first command with --resume, or delete the file",
                )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # One connection a save: chains save from threads and processes of their own.
        with closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            yield db

    def save_pilot(self, arrays: Arrays, steps: int) -> None:
        """Save the result of the pilot run."""
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO pilot VALUES (0, ?, ?)", (steps, _pack(arrays)))

    def pilot(self) -> tuple[dict[str, np.ndarray], int] | None:
        """Return the result of the pilot run, if it got so far."""
        with self._open() as db:
            row = db.execute("SELECT arrays, steps FROM pilot").fetchone()
        return None if row is None else (_unpack(row[0]), int(row[1]))

    def save_chain(
        self, chain: int, done: int, warmup_steps: int, state: Arrays, draws: Arrays | None
    ) -> None:
        """Save where a chain is, and what it drew since the last save."""
        with self._open() as db:
            db.execute(
                "INSERT OR REPLACE INTO chain VALUES (?, ?, ?, ?)",
                (chain, done, warmup_steps, _pack(state)),
            )
            if draws is not None:
                db.execute("INSERT INTO draws VALUES (?, ?, ?)", (chain, done, _pack(draws)))

    def chain(self, chain: int) -> Saved | None:
        """Return a chain as it was saved last, if it was."""
        with self._open() as db:
            row = db.execute(
                "SELECT done, warmup_steps, state FROM chain WHERE chain = ?", (chain,)
            ).fetchone()
            parts = db.execute("SELECT arrays FROM draws WHERE chain = ? ORDER BY part", (chain,))
            drawn = [_unpack(part[0]) for part in parts]
        if row is None:
            return None
        if not all(isinstance(number, int) and number >= 0 for number in row[:2]):
            raise damaged()
        return Saved(row[0], row[1], _unpack(row[2]), drawn)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _unpack(blob: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(blob), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise damaged() from error


def damaged() -> CheckpointError:
    """Return the error for a checkpoint whose content can't be what was saved."""
    return CheckpointError(
        "what was saved can't be read back",
        where="the checkpoint",
        expected="a checkpoint as measurebayes wrote it",
        remedy="delete the file, and run without --resume",
    )
