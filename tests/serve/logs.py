"""The log of a server, read by the description of its format alone."""

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Learnt(NamedTuple):
    """An event as it stands in the log."""

    sequence: int
    id: str
    rows: list[Any]
    labels: list[str]
    weights: list[float]

    def equals(self, event: Any) -> bool:
        weights = event.weights or [1.0] * len(event.rows)
        return (self.rows, self.labels, self.weights) == (event.rows, event.labels, weights)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def learnt(folder: Path) -> Iterator[Learnt]:
    sequence = 0
    for path in segments(folder):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size, check = struct.unpack_from("<II", data, at)
            payload = data[at + 8 : at + 8 + size]
            assert (len(payload), zlib.crc32(payload)) == (size, check), (path, at)
            at += 8 + size
            told = json.loads(payload)
            sequence += 1
            if told["kind"] == "learn":
                yield Learnt(sequence, told["id"], told["rows"], told["labels"], told["weights"])


def tear(folder: Path, chance: random.Random) -> None:
    """Put the beginning of a record, or what is none, behind the last."""
    path = segments(folder)[-1]
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(data[: chance.randint(1, min(len(data), 20))] if data else b"\0\0")
