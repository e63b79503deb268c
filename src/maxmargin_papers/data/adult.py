"""Adult, the census data, in the two codings of the papers."""

from __future__ import annotations

import io
from os import PathLike
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from maxmargin._validation import StrOptions, validate_params
from maxmargin_papers.data.data_files import (
    DATA_HOME,
    SUBSET,
    OnOpenML,
    Source,
    Table,
    cells,
    named_values,
)

NUMBERS = [0, 2, 4, 10, 11, 12]
"""The columns that are not categorical."""

COUNTS = {"train": {-1: 24720, 1: 7841}, "test": {-1: 12435, 1: 3846}}
SIGN = {"<=50K": -1, ">50K": 1}


def parse_binary(content: bytes) -> Table:
    X, y = load_svmlight_file(io.BytesIO(content), n_features=123)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # as LIBLINEAR asks
    return X, y.astype(int)


def parse_raw(content: bytes) -> Table:
    # The test part begins with a comment, and its labels end in a full stop.
    start = content.index(b"\n") + 1 if content.startswith(b"|") else 0
    table = cells(content[start:], ", ").astype(object)
    return raw_table(table[:, :-1], [label.rstrip(".") for label in table[:, -1]])


def raw_table(table: np.ndarray, labels: Any) -> Table:
    table[:, NUMBERS] = table[:, NUMBERS].astype(float)
    return table, np.array([SIGN[label] for label in labels])


def convert_raw(bunch: Bunch) -> Table:
    return raw_table(named_values(bunch), bunch.target)


BINARY = {
    subset: Source(
        files=(file,),
        parse=parse_binary,
        n_features=123,
        counts=COUNTS[subset],
        origin="the LIBSVM page of data sets (a9a and a9a.t)",
        openml=None,
    )
    for subset, file in (("train", "a9a/a9a"), ("test", "a9a/a9a.t"))
}

RAW = {
    subset: Source(
        files=(file,),
        parse=parse_raw,
        n_features=14,
        counts=COUNTS[subset],
        origin="the UCI Machine Learning Repository",
        openml=OnOpenML("adult", 2, convert_raw),
    )
    for subset, file in (("train", "adult/adult.data"), ("test", "adult/adult.test"))
}


@validate_params(
    {
        "subset": SUBSET,
        "encoding": [StrOptions({"binary", "integer"})],
        "drop_missing": ["boolean"],
        "scale": ["boolean"],
        "data_home": DATA_HOME,
    },
    prefer_skip_nested_validation=True,
)
def load_adult(
    subset: str = "train",
    *,
    encoding: str = "binary",
    drop_missing: bool = False,
    scale: bool = False,
    data_home: str | PathLike[str] | None = None,
) -> Table:
    """People in the census of 1994: whether they earn more than 50 000 dollars a year.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
    encoding : {"binary", "integer"}, default="binary"
        "binary" is the data set a9a of LIBSVM: 123 features, 0 or 1. "integer" is the 14 features
        as they are, where a categorical value is replaced by its place, from 0, among the values of
        the training part sorted as strings; an unknown value is '?', which sorts first.
    drop_missing : bool, default=False
        Leave out the rows with an unknown value; for "integer" only.
    scale : bool, default=False
        Map the smallest value of every feature in the training part, after `drop_missing`, to 0 and
        the largest to 1; for "integer" only. A test row may fall outside of [0, 1].
    data_home : str, path or None, default=None
        The folder with ``a9a/a9a`` and ``a9a/a9a.t``, or for "integer" with ``adult/adult.data``
        and ``adult/adult.test``, of which the first is always needed. None is the folder named by
        the environment variable ``MAXMARGIN_DATA``. If the file is not there, the data for
        "integer" are downloaded from OpenML, and are then as OpenML has them; there is no download
        for "binary".

    Returns
    -------
    X : CSR matrix of shape (n_samples, 123), or ndarray of shape (n_samples, 14) for "integer"
        The training part has 32561 rows, 30162 of them without unknown values; the test part has
        16281 and 15060.
    y : ndarray of shape (n_samples,), of -1 and +1
        +1 is more than 50 000 dollars.

    References
    ----------
    B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996.

    C.-C. Chang and C.-J. Lin, "LIBSVM: a library for support vector machines", ACM Transactions on
    Intelligent Systems and Technology 2, 2011.

    Examples
    --------
    >>> X, y = load_adult()  # doctest: +SKIP
    >>> X, y = load_adult(encoding="integer", drop_missing=True, scale=True)  # doctest: +SKIP
    """
    if encoding == "binary":
        if drop_missing or scale:
            raise ValueError("drop_missing and scale need encoding='integer'.")
        return BINARY[subset].load(data_home)
    train = RAW["train"].load(data_home)
    table, y = train if subset == "train" else RAW[subset].load(data_home)
    X = integer_codes(table, train[0])
    if drop_missing:
        known = complete(table)
        X, y = X[known], y[known]
    if scale:
        reference = integer_codes(train[0], train[0])
        if drop_missing:
            reference = reference[complete(train[0])]
        low, high = reference.min(axis=0), reference.max(axis=0)
        X = (X - low) / (high - low)
    return X, y


def complete(table: np.ndarray) -> np.ndarray:
    return ~(table == "?").any(axis=1)


def integer_codes(table: np.ndarray, train: np.ndarray) -> np.ndarray:
    X = np.empty(table.shape)
    for column in range(table.shape[1]):
        if column in NUMBERS:
            X[:, column] = table[:, column]
            continue
        codes = {value: code for code, value in enumerate(sorted(set(train[:, column])))}
        unknown = set(table[:, column]) - set(codes)
        if unknown:
            raise ValueError(
                f"adult.test has {sorted(unknown)} in column {column}, adult.data has not."
            )
        X[:, column] = [codes[value] for value in table[:, column]]
    return X
