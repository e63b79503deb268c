"""Versions of files, of the same size in all formats, and what may happen to a file."""

import importlib
import io
import os
import shutil

import numpy as np
from scipy import sparse

from maxmargin import streams

pa = importlib.import_module("pyarrow")
parquet = importlib.import_module("pyarrow.parquet")

CHANGED = "changed while it was being read"
ROWS, COLUMNS = 600, 5


def rows_of(version):
    """Rows, with their labels behind them."""
    rng = np.random.default_rng([7, version])
    X = rng.integers(10, 100, (ROWS, COLUMNS))
    return np.column_stack([X, rng.permutation(np.arange(ROWS) % 2) * 2 - 1])


def csv_text(version):
    lines = [",".join(map(str, row[:-1])) + f",{row[-1]:+d}" for row in rows_of(version)]
    return ("\n".join(["a,b,c,d,e,label", *lines]) + "\n").encode()


def svmlight_text(version):
    lines = []
    for *row, label in rows_of(version):
        lines.append(f"{label:+d} " + " ".join(f"{k}:{value}" for k, value in enumerate(row, 1)))
    return ("\n".join(lines) + "\n").encode()


def archived(version):
    rows, file = rows_of(version), io.BytesIO()
    np.savez(file, X=rows[:, :-1].astype(float), y=rows[:, -1])
    return file.getvalue()


def in_parquet(version):
    rows, file = rows_of(version), io.BytesIO()
    columns = {f"x{k}": rows[:, k].astype(float) for k in range(COLUMNS)}
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    parquet.write_table(pa.table({**columns, "label": rows[:, -1]}), file, **plain)
    return file.getvalue()


FORMATS = {
    "rows.csv": csv_text,
    "rows.svm": svmlight_text,
    "rows.npz": archived,
    "rows.parquet": in_parquet,
}


def write(path, version):
    """A version of a file, last written to some time ago."""
    path.write_bytes(FORMATS[f"rows{path.suffix}"](version))
    os.utime(path, ns=(10**18, 10**18 + version * 10**9))
    return path


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def rewrite(path):
    write(path, 1)


def replace(path):
    """By another file of the same size, with a later time."""
    other = path.with_name(f"other{path.suffix}")
    shutil.copy(path, other)
    os.utime(other, ns=(10**18, 2 * 10**18))
    os.replace(other, path)


def append(path):
    with open(path, "ab") as file:
        file.write(b"1 2")


def delete(path):
    path.unlink()


CHANGES = (truncate, rewrite, replace, append, delete)


def opened(place):
    return streams.open(place, block_size=1500)


def read(source):
    """All rows, with their labels behind them."""
    blocks = list(source.blocks())
    X = [each.X.toarray() if sparse.issparse(each.X) else each.X for each in blocks]
    return np.column_stack([np.vstack(X), np.concatenate([each.y for each in blocks])])
