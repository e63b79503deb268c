"""The log of a server, read by the description of its format alone.

A file begins with a magic, a version, the number of its first event and a checksum of these. Frames
follow: length, checksum, number of the first event; then events, each with its length in front. An
event is a letter, the length of its head, the head in JSON, and bytes of rows that are not in it.
"""

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HEADER, FRAME, EVENT = struct.Struct("<8sIQI"), struct.Struct("<IIQ"), struct.Struct("<cI")


class Learned(NamedTuple):
    """Rows under one id, as they stand in the log."""

    sequence: int
    id: str
    rows: list[Any]
    labels: list[str]
    weights: list[float]

    def equals(self, event: Any) -> bool:
        """Is this what was sent?"""
        rows = self.rows
        if isinstance(rows[0], dict) and not isinstance(event.rows[0], dict):
            rows = [list(row.values()) for row in rows]
        sent = event.rows, event.labels, event.all_weights()
        return (rows, self.labels, self.weights) == sent


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.log"), key=lambda path: int(path.stem))


def learned(folder: Path) -> Iterator[Learned]:
    """All events with rows and labels, in order."""
    for sequence, payload in records(folder):
        kind, size = EVENT.unpack_from(payload)
        if kind == b"L":
            head = json.loads(payload[EVENT.size : EVENT.size + size])
            yield from _learned(sequence, head, payload[EVENT.size + size :])


def _learned(sequence: int, head: dict[str, Any], rest: bytes) -> Iterator[Learned]:
    labels = head["y"]
    if "n" in head:
        rows = np.frombuffer(rest, "<f8").reshape(head["n"]).tolist()
    elif "x" in head:
        rows = head["x"]
    else:
        import pyarrow as pa

        rows = pa.ipc.open_stream(rest).read_all().to_pylist()
    weights = head.get("w") or [1.0] * len(labels)
    ids = [head["p"]] if head.get("p") is not None else head["i"]
    assert len(rows) == len(labels) == len(weights)
    if len(ids) == 1:
        yield Learned(sequence, ids[0], rows, labels, weights)
        return
    assert len(ids) == len(labels)
    for id_, row, label, weight in zip(ids, rows, labels, weights, strict=True):
        yield Learned(sequence, id_, [row], [label], [weight])


def records(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Numbers and bytes of all events; AssertionError if anything is not as it should be."""
    expected = None
    for path in segments(folder):
        data = path.read_bytes()
        magic, version, first, check = HEADER.unpack_from(data)
        assert (magic, version, first) == (b"MMEVENTS", 1, int(path.stem)), path
        assert check == zlib.crc32(data[: HEADER.size - 4]), path
        assert expected in (None, first), f"{path}: {expected} is missing"
        expected, at = first, HEADER.size
        while at < len(data):
            size, check, first = FRAME.unpack_from(data, at)
            at += FRAME.size
            body = data[at : at + size]
            assert first == expected, f"{path}: {first} for {expected}"
            assert len(body) == size, f"{path} is torn at {at}"
            assert check == zlib.crc32(struct.pack("<Q", first) + body), f"{path}, {at}"
            at += size
            place = 0
            while place < size:
                (length,) = struct.unpack_from("<I", body, place)
                yield expected, body[place + 4 : place + 4 + length]
                expected, place = expected + 1, place + 4 + length


def tear(folder: Path, chance: random.Random) -> None:
    """Put the beginning of a frame, or what never was one, behind the last."""
    path = segments(folder)[-1]
    data = path.read_bytes()
    frame = struct.pack("<IIQ", 400, chance.getrandbits(32), 10**6) + data[-300:]
    torn = (frame[: chance.randint(1, len(frame))], bytes(chance.randint(1, 5000)))
    with path.open("ab") as file:
        file.write(chance.choice(torn))
