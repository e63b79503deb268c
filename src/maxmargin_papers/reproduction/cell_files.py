"""Results on disk: one file per cell, written at once or not at all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from maxmargin_papers.reproduction import provenance
from maxmargin_papers.reproduction.experiment import Cell, Numbers


class Place(NamedTuple):
    """Where the result of a cell is kept, and for which code it is good.

    Attributes
    ----------
    folder : Path
        That of the experiment.
    cell : Cell
    code : str
        The fingerprint of the code that measures.
    tiny : bool
        Whether it is the stand-in that is measured.
    """

    folder: Path
    cell: Cell
    code: str
    tiny: bool

    @property
    def path(self) -> Path:
        return self.folder / f"{file_name(self.cell)}.json"

    def load(self) -> dict[str, Any] | None:
        """The record, unless there is none or it is of other code or data."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        same = {"cell": dict(self.cell), "code": self.code, "tiny": self.tiny}
        return record if all(record.get(name) == one for name, one in same.items()) else None

    def save(self, numbers: Numbers, seconds: float, processor_seconds: float) -> dict[str, Any]:
        record = {
            "cell": dict(self.cell),
            "numbers": dict(numbers),
            "seconds": round(seconds, 3),
            "processor_seconds": round(processor_seconds, 3),
            "measured_on": provenance.today_and_commit(),
            "tiny": self.tiny,
            "code": self.code,
            "versions": provenance.versions(),
            "machine": provenance.machine(),
        }
        text = json.dumps(record, indent=1, default=_plain, allow_nan=False)
        write_whole(self.path, text + "\n")
        return json.loads(text)


def file_name(cell: Cell) -> str:
    text = ",".join(f"{name}={one}" for name, one in cell.items())
    return re.sub(r"[^\w.,=()+-]", "_", text)


def write_whole(path: Path, text: str) -> None:
    """Replace the file; whoever looks sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Workers never write the same file, but two runs of the command may.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist()
