"""Model files that something has changed: they are refused, or hold a learner that works."""

import base64
import copy
import io
import json
import struct
import tempfile
import warnings
import zipfile
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
EVIL += [{"float": "nan"}, {"array": "classes"}, {"array": "no"}, {"tuple": []}, [[]] * 3]
EVIL_BYTES = [struct.pack("<q", n) for n in (-(2**63), -3, -1, 0, 1, 5, 10**6, 2**31, 2**63 - 1)]
EVIL_BYTES += [struct.pack("<d", x) for x in (np.nan, np.inf, -np.inf, 0.0, 1e308, -1.0, 5e-324)]


def taken_apart(data: bytes, *, small: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays; ``small`` ones leave the header, too."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("maxmargin.json"))
    if small:
        _take_small(header["content"], "", arrays)
    return header, arrays


def _take_small(tree: Any, path: str, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(tree, dict) and "bytes" in tree:
        columns = tree["dtype"]
        dtype = np.dtype(columns if isinstance(columns, str) else [tuple(each) for each in columns])
        found = np.frombuffer(base64.b64decode(tree.pop("bytes")), dtype)
        arrays[path] = found.reshape(tree["shape"], order=tree.get("order", "C")).copy(order="K")
        tree["array"] = path
    elif isinstance(tree, dict | list):
        names = tree if isinstance(tree, dict) else range(len(tree))
        for name in names:
            inside = name in ("model", "attributes") and not path.startswith("model.")
            _take_small(tree[name], path if inside else f"{path}.{name}".strip("."), arrays)


def put_together(
    header: dict[str, Any], arrays: dict[str, np.ndarray], compression: int = zipfile.ZIP_STORED
) -> bytes:
    """The other way round, with the right checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(zipfile.ZipInfo("maxmargin.json"), json.dumps(header))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    return file.getvalue()


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


def edit_header(data: bytes, random: np.random.Generator) -> bytes:
    header, arrays = taken_apart(data, small=bool(random.random() < 0.5))
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
            holder[key] = copy.deepcopy(EVIL[random.integers(len(EVIL))])
    return put_together(header, arrays)


def _places(tree: Any) -> Any:
    """All containers with all their keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def edit_arrays(data: bytes, random: np.random.Generator) -> bytes:
    """Write numbers into arrays, or give them another shape, data type or place."""
    header, arrays = taken_apart(data)
    for _ in range(random.integers(1, 3)):
        names = [name for name, array in arrays.items() if array.nbytes >= 8]
        if not names:
            break
        name, other = names[random.integers(len(names))], names[random.integers(len(names))]
        kind = random.random()
        if kind < 0.6:
            flat = bytearray(arrays[name].tobytes())
            at = 8 * random.integers(len(flat) // 8)
            flat[at : at + 8] = EVIL_BYTES[random.integers(len(EVIL_BYTES))]
            arrays[name] = np.frombuffer(flat, arrays[name].dtype).reshape(arrays[name].shape)
        elif kind < 0.8:
            arrays[name], arrays[other] = arrays[other], arrays[name]
        else:
            dtype = ("<f8", "<f4", "<i8", "<i4", "|b1", "|S8", ">f8", "<U2")[random.integers(8)]
            shape = tuple(random.integers(0, 5, size=random.integers(0, 4)).tolist())
            arrays[name] = np.zeros(shape, dtype)
            for holder, key in list(_places(header)) if random.random() < 0.8 else ():
                if key == "array" and holder[key] == name:
                    holder |= {"dtype": dtype, "shape": list(shape)}
    return put_together(header, arrays)


MUTATIONS: list[Mutation] = [flip, truncate, splice, *[edit_header] * 3, *[edit_arrays] * 3]


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
