"""Versions of files, of the same size in all formats, and what may happen to a file."""

import gzip
import importlib
import io
import os
import shutil
from pathlib import Path

import numpy as np
from scipy import sparse

pa = importlib.import_module("pyarrow")
feather = importlib.import_module("pyarrow.feather")
parquet = importlib.import_module("pyarrow.parquet")

ROWS, COLUMNS = 600, 5


def rows_of(version):
    rng = np.random.default_rng([7, version])
    return rng.integers(10, 100, (ROWS, COLUMNS)), rng.permutation(np.arange(ROWS) % 2) * 2 - 1


def csv_text(version):
    X, y = rows_of(version)
    lines = ["a,b,c,d,e,label"]
    lines += [",".join(map(str, row)) + f",{label:+d}" for row, label in zip(X, y, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def svmlight_text(version):
    X, y = rows_of(version)
    rows = (" ".join(f"{k + 1}:{value}" for k, value in enumerate(row)) for row in X)
    return "".join(f"{label:+d} {row}\n" for row, label in zip(rows, y, strict=True)).encode()


def table(version):
    X, y = rows_of(version)
    return pa.table({**{f"x{k}": X[:, k].astype(float) for k in range(COLUMNS)}, "label": y})


def written(write, *content, **options):
    file = io.BytesIO()
    write(*content, file, **options)
    return file.getvalue()


def archived(version):
    X, y = rows_of(version)
    file = io.BytesIO()
    np.savez(file, X=X.astype(float), y=y)
    return file.getvalue()


def matrix(version, order="C"):
    X, _ = rows_of(version)
    file = io.BytesIO()
    np.save(file, np.array(X, np.float64, order=order))
    return file.getvalue()


def sparse_matrix(version):
    X, y = rows_of(version)
    file, found = io.BytesIO(), sparse.csr_matrix(X.astype(float))
    parts = {name: getattr(found, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(file, format=np.array(b"csr"), y=y, **parts)
    return file.getvalue()


PLAIN = {"compression": "none", "use_dictionary": False, "write_statistics": False}
FORMATS = {
    "rows.csv": csv_text,
    "rows.csv.gz": lambda version: gzip.compress(csv_text(version), 0, mtime=0),
    "rows.svm": svmlight_text,
    "rows.svm.gz": lambda version: gzip.compress(svmlight_text(version), 0, mtime=0),
    "rows.npy": matrix,
    "columns.npy": lambda version: matrix(version, "F"),
    "rows.npz": archived,
    "sparse.npz": sparse_matrix,
    "rows.parquet": lambda version: written(
        parquet.write_table, table(version), row_group_size=100, **PLAIN
    ),
    "rows.arrow": lambda version: written(
        feather.write_feather, table(version), chunksize=100, compression="uncompressed"
    ),
}
FOLDER = "folder"  # of Parquet files
PARTS = ("part-0.parquet", "part-1.parquet")


def write(path, name, version):
    """A version of a file, or of a folder, last written to some time ago; the file to change."""
    if name == FOLDER:
        path.mkdir()
        for k, part in enumerate(PARTS):
            write(path / part, "rows.parquet", 2 * version + k)
        return path / PARTS[-1]
    path.write_bytes(FORMATS[name](version))
    os.utime(path, ns=(10**18, 10**18))
    return path


def replacement(path, name, version):
    """What comes in place of the file at ``path``; of the same size."""
    is_part = path.name in PARTS
    content = FORMATS["rows.parquet" if is_part else name](2 * version + 1 if is_part else version)
    assert len(content) == path.stat().st_size
    return content


def truncate(path, content):
    os.truncate(path, 2 * len(content) // 3)


def rewrite(path, content):
    with open(path, "r+b") as file:
        file.write(content)


def rewrite_end(path, content):
    with open(path, "r+b") as file:
        file.seek(len(content) // 2)
        file.write(content[len(content) // 2 :])


def replace(path, content):
    """By another file, with the time of the old one."""
    other = path.with_name("other")
    other.write_bytes(content)
    shutil.copystat(path, other)
    os.replace(other, path)


def append(path, content):
    with open(path, "ab") as file:
        file.write(content[-50:])


def delete(path, content):
    path.unlink()


CHANGES = (truncate, rewrite, rewrite_end, replace, append, delete)


def options_for(path: Path) -> dict:
    """For `streams.open`: the labels beside a matrix."""
    if path.suffix != ".npy":
        return {}
    labels = path.with_suffix(".labels.npy")
    if not labels.exists():
        np.save(labels, rows_of(0)[1])
        os.utime(labels, ns=(10**18, 10**18))
    return {"y": labels}


def read(source):
    """All rows, with their labels behind them."""
    blocks = list(source.blocks())
    X = [each.X.toarray() if sparse.issparse(each.X) else each.X for each in blocks]
    return np.hstack([np.vstack(X), np.concatenate([each.y for each in blocks])[:, None]])
