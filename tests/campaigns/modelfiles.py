"""Model files that something has changed: they are refused, or hold a learner that works."""

import hashlib
import json
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from persistence.states import VARIANTS, X, _learners, fitted, made, streamed, two

from maxmargin import NOCA, PUMMA, MaxMargin, Perceptron
from maxmargin.persistence import ModelFileError, load, save

EVIL = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**63,
    2**70,
    -(2**63),
    0.5,
    1e300,
    "",
    "rbf",
    "log",
    [],
    {},
]
EVIL += [{"float": "nan"}, {"array": 0}, {"array": 10**9}, {"same": 0}, {"tuple": []}, [[]] * 3]
EVIL_BYTES = [struct.pack("<q", n) for n in (-(2**63), -3, -1, 0, 1, 5, 10**6, 2**31, 2**63 - 1)]
EVIL_BYTES += [struct.pack("<d", x) for x in (np.nan, np.inf, -np.inf, 0.0, 1e308, -1.0, 5e-324)]


def taken_apart(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the bytes of the arrays, by the description of the format alone."""
    length = struct.unpack("<I", data[12:16])[0]
    header, at, chunks = json.loads(data[16 : 16 + length]), 16 + length, []
    for entry in header["arrays"]:
        at += -at % 64
        size = _item_size(entry.get("stored", entry["dtype"]))
        for extent in entry["shape"]:
            size *= extent
        chunks.append(data[at : at + size])
        at += size
    return header, chunks


def _item_size(dtype: Any) -> int:
    if isinstance(dtype, list):
        return sum(_item_size(field) for _, field in dtype)
    return int(dtype[2:])


def put_together(header: dict[str, Any], chunks: list[bytes], version: int = 3) -> bytes:
    """The other way round, with the right checksum."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    data = b"\x89MXM\r\n\x1a\n" + struct.pack("<II", version, len(text)) + text
    for chunk in chunks:
        data += bytes(-len(data) % 64) + chunk
    return summed(data + bytes(-len(data) % 64))


def summed(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


# ------------------------------------------------------------------------------------- mutations
Mutation = Callable[[bytes, np.random.Generator], bytes]


def flip(data: bytes, random: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(random.integers(1, 4)):
        changed[random.integers(len(data))] ^= 1 << random.integers(8)
    return bytes(changed)


def truncate(data: bytes, random: np.random.Generator) -> bytes:
    return data[: random.integers(len(data))]


def splice(data: bytes, random: np.random.Generator) -> bytes:
    start, to = random.integers(len(data), size=2)
    piece = data[start : start + random.integers(1, 200)]
    if random.random() < 0.5:
        return data[:to] + piece + data[to:]
    return data[:to] + piece + data[to + len(piece) :]


def with_right_sum(mutation: Mutation) -> Mutation:
    return lambda data, random: summed(mutation(data[:-32], random))


def edit_header(data: bytes, random: np.random.Generator) -> bytes:
    header, chunks = taken_apart(data)
    for _ in range(random.integers(1, 3)):
        places = list(_places(header))
        holder, key = places[random.integers(len(places))]
        if random.random() < 0.1:
            del holder[key]
        elif random.random() < 0.4:
            other, its_key = places[random.integers(len(places))]
            holder[key] = json.loads(json.dumps(other[its_key]))
        elif isinstance(holder[key], int) and random.random() < 0.5:
            holder[key] += int(random.integers(-2, 3))
        else:
            holder[key] = EVIL[random.integers(len(EVIL))]
    return put_together(header, chunks)


def _places(tree: Any) -> Any:
    """All containers with all their keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def edit_arrays(data: bytes, random: np.random.Generator) -> bytes:
    header, chunks = taken_apart(data)
    filled = [k for k, chunk in enumerate(chunks) if chunk]
    for _ in range(random.integers(1, 3)):
        k = filled[random.integers(len(filled))] if filled else 0
        if filled and len(chunks[k]) >= 8:
            at = 8 * random.integers(len(chunks[k]) // 8)
            evil = EVIL_BYTES[random.integers(len(EVIL_BYTES))]
            chunks[k] = chunks[k][:at] + evil + chunks[k][at + 8 :]
    return put_together(header, chunks)


MUTATIONS: list[Mutation] = [
    flip,
    truncate,
    splice,
    with_right_sum(flip),
    with_right_sum(truncate),
    with_right_sum(splice),
    edit_header,
    edit_header,
    edit_arrays,
    edit_arrays,
]


# ----------------------------------------------------------------------------------------- fuzzing
def samples() -> list[Any]:
    """Learners of all kinds of spaces, as small as they can be."""
    variants = ("p-norm", "k-best", "poly, sparse", "kernel, in pairs", "random", "project")
    found = [
        fitted(made(Perceptron)),
        streamed(made(PUMMA)),
        streamed(made(NOCA, max_components=6)),
    ]
    for variant in variants:
        parameters, rows, labels = VARIANTS[variant]
        found.append(streamed(made(_learners(parameters)[0], **parameters), rows, labels))
    found.append(fitted(made(MaxMargin)))
    return found


def fuzz_model_files(count: int, seed: int = 0) -> dict[str, int]:
    """Change model files ``count`` times; AssertionError if one is taken that does not work."""
    random = np.random.default_rng(seed)
    outcomes = {"refused": 0, "loaded": 0}
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.mm"
        files = []
        for clf in samples():
            save(clf, path)
            files.append(path.read_bytes())
        for _ in range(count):
            data = files[random.integers(len(files))]
            changed = MUTATIONS[random.integers(len(MUTATIONS))](data, random)
            path.write_bytes(changed)
            outcomes[_outcome(path, changed == data)] += 1
    return outcomes


def _outcome(path: Path, is_the_same: bool) -> str:
    refusal = None
    try:
        clf = load(path)
    except ModelFileError as problem:
        refusal = str(problem)
    except BaseException as problem:
        raise AssertionError(f"loading raised {problem!r}") from problem
    if refusal is None:
        _use(clf)
        return "loaded"
    assert not is_the_same, refusal
    assert refusal.startswith(str(path)), refusal
    return "refused"


def _use(clf: Any) -> None:
    """A learner that was loaded does its work, or says why it does not."""
    rows = X[:5, : getattr(clf, "n_features_in_", 3)]
    classes = getattr(clf, "classes_", two)
    labels = classes[np.array([0, 1, 0, 1, 1]) % classes.size]
    learn = lambda: clf.partial_fit(rows, labels, classes=np.unique(labels))  # noqa: E731
    if not hasattr(clf, "partial_fit"):
        learn = lambda: clf.fit(rows, labels)  # noqa: E731
    for use in (
        lambda: clf.predict(rows),
        learn,
        lambda: clf.predict(rows),
    ):
        try:
            use()
        except ValueError:
            continue
        except BaseException as problem:
            raise AssertionError(f"a learner that was loaded raised {problem!r}") from problem
