"""SensIT Vehicle: what a network of sensors hears and feels of passing vehicles."""

from __future__ import annotations

import io
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from maxmargin._validation import StrOptions, validate_params
from maxmargin_papers.data.data_files import DATA_HOME, SUBSET, OnOpenML, Source, Table

FEATURES, LABELS = 100, [1, 2, 3]
PARTS = {"train": slice(0, 78_823), "test": slice(78_823, 98_528)}
COLUMNS = {"combined": slice(0, 100), "acoustic": slice(0, 50), "seismic": slice(50, 100)}


def parse(content: bytes) -> Table:
    X, y = load_svmlight_file(io.BytesIO(content), n_features=FEATURES)
    return X.toarray(), whole_labels(y)


def whole_labels(y: np.ndarray) -> np.ndarray:
    if not np.isin(y, LABELS).all():
        raise ValueError(f"labels are {np.unique(y).tolist()}, not {LABELS}")
    return y.astype(int)


def convert(part: slice) -> Any:
    """From both parts, the training rows first, to one of them."""

    def one_part(bunch: Bunch) -> Table:
        X = bunch.data.toarray() if sparse.issparse(bunch.data) else bunch.data
        return X[part].astype(float), whole_labels(bunch.target[part].astype(float))

    return one_part


VEHICLE = {
    subset: Source(
        files=(file,),
        parse=parse,
        n_features=FEATURES,
        counts=PARTS[subset].stop - PARTS[subset].start,
        origin="the LIBSVM page of data sets (SensIT Vehicle, combined)",
        openml=OnOpenML("SensIT-Vehicle-Combined", 1, convert(PARTS[subset])),
        compression=".bz2",
    )
    for subset, file in (("train", "vehicle/combined"), ("test", "vehicle/combined.t"))
}


@validate_params(
    {
        "subset": SUBSET,
        "sensors": [StrOptions(set(COLUMNS))],
        "scale": ["boolean"],
        "data_home": DATA_HOME,
    },
    prefer_skip_nested_validation=True,
)
def load_vehicle(
    subset: str = "train",
    *,
    sensors: str = "combined",
    scale: bool = False,
    data_home: str | PathLike[str] | None = None,
) -> Table:
    """Vehicles that pass a network of sensors: one of two kinds, or none.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
    sensors : {"combined", "acoustic", "seismic"}, default="combined"
        All 100 features; those of microphones, the first 50; or those of geophones, the last 50.
    scale : bool, default=False
        Map the smallest value of every feature in the training part to 0 and the largest to 1. A
        test row may fall outside of [0, 1].
    data_home : str, path or None, default=None
        The folder with ``vehicle/combined`` and ``vehicle/combined.t``, of which the first is
        always needed with ``scale``; names may end in ``.bz2``. None is the folder named by the
        environment variable ``MAXMARGIN_DATA``. If the file is not there, the data are downloaded
        from OpenML, and are then as OpenML has them.

    Returns
    -------
    X : ndarray of shape (78823, n_features), or (19705, n_features) for "test"
    y : ndarray of shape (78823,) or (19705,), of 1, 2 and 3

    References
    ----------
    M. Duarte and Y. Hu, "Vehicle classification in distributed sensor networks", Journal of
    Parallel and Distributed Computing 64, 2004; the data set "SensIT Vehicle (combined)" of LIBSVM.

    Examples
    --------
    >>> X, y = load_vehicle(sensors="acoustic")  # doctest: +SKIP
    """
    X, y = VEHICLE[subset].load(data_home)
    X = X[:, COLUMNS[sensors]]
    if scale:
        train = X if subset == "train" else VEHICLE["train"].load(data_home)[0][:, COLUMNS[sensors]]
        low, high = train.min(axis=0), train.max(axis=0)
        X = (X - low) / np.where(high > low, high - low, 1.0)
    return X, y
