"""Real data: the radar returns, votes, digits and prices on which the learners are compared."""

from __future__ import annotations

import re
from os import PathLike

import numpy as np
from sklearn.utils import Bunch

from maxmargin._validation import validate_params
from maxmargin_papers.data.data_files import (
    DATA_HOME,
    SUBSET,
    OnOpenML,
    Source,
    Table,
    cells,
    named_values,
    names,
    numbers_and_label,
)

UCI = "the UCI Machine Learning Repository"
POSITION = {"y": 1.0, "n": -1.0, "?": 0.0}


def convert_numbers(bunch: Bunch) -> Table:
    return named_values(bunch).astype(float), names(bunch.target)


IONOSPHERE = Source(
    files=("ionosphere/ionosphere.data",),
    parse=numbers_and_label,
    n_features=34,
    counts={"b": 126, "g": 225},
    origin=UCI,
    openml=OnOpenML("ionosphere", 1, convert_numbers),
)


@validate_params({"data_home": DATA_HOME}, prefer_skip_nested_validation=True)
def load_ionosphere(*, data_home: str | PathLike[str] | None = None) -> Table:
    """Radar returns from the ionosphere: good or bad.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The folder with ``ionosphere/ionosphere.data``. None is the folder named by the environment
        variable ``MAXMARGIN_DATA``. If the file is not there, the data are downloaded from OpenML,
        and are then as OpenML has them.

    Returns
    -------
    X : ndarray of shape (351, 34)
        In [-1, 1]; the second feature is always 0.
    y : ndarray of shape (351,), of 'g' and 'b'

    References
    ----------
    V. Sigillito, S. Wing, L. Hutton and K. Baker, "Ionosphere", UCI Machine Learning Repository,
    1989.

    Examples
    --------
    >>> X, y = load_ionosphere()  # doctest: +SKIP
    """
    return IONOSPHERE.load(data_home)


def positions(votes: np.ndarray) -> np.ndarray:
    return np.array([[POSITION[vote] for vote in row] for row in votes.tolist()])


def parse_votes(content: bytes) -> Table:
    table = cells(content, ",")
    return positions(table[:, 1:]), names(table[:, 0])


def convert_votes(bunch: Bunch) -> Table:
    return positions(named_values(bunch)), names(bunch.target)


VOTES = Source(
    files=("house-votes-84/house-votes-84.data",),
    parse=parse_votes,
    n_features=16,
    counts={"democrat": 267, "republican": 168},
    origin=UCI,
    openml=OnOpenML("vote", 1, convert_votes),
)


@validate_params({"data_home": DATA_HOME}, prefer_skip_nested_validation=True)
def load_votes(*, data_home: str | PathLike[str] | None = None) -> Table:
    """Sixteen votes of every member of the U.S. House of Representatives in 1984: the party.

    The row ``X[248]`` has no known vote, so it is zero.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The folder with ``house-votes-84/house-votes-84.data``. None is the folder named by the
        environment variable ``MAXMARGIN_DATA``. If the file is not there, the data are downloaded
        from OpenML, and are then as OpenML has them.

    Returns
    -------
    X : ndarray of shape (435, 16)
        +1 for yea, -1 for nay, 0 if neither is known.
    y : ndarray of shape (435,), of 'democrat' and 'republican'

    References
    ----------
    "Congressional Voting Records", UCI Machine Learning Repository, 1987.

    Examples
    --------
    >>> X, y = load_votes()  # doctest: +SKIP
    """
    return VOTES.load(data_home)


def parse_usps(content: bytes) -> Table:
    table = np.array(content.split(), dtype=float).reshape(-1, 257)
    return table[:, 1:].copy(), table[:, 0].astype(int)


def convert_usps(bunch: Bunch) -> Table:
    # There the digits 0 to 9 are the classes 1 to 10.
    return bunch.data, bunch.target.astype(int) - 1


USPS = {
    subset: Source(
        files=(f"usps/zip.{subset}",),
        parse=parse_usps,
        n_features=256,
        counts=dict(enumerate(counts)),
        origin="the web page of the book 'The Elements of Statistical Learning'",
        openml=OnOpenML("USPS", 2, convert_usps),
    )
    for subset, counts in {
        "train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
        "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
    }.items()
}


@validate_params(
    {"subset": SUBSET, "data_home": DATA_HOME},
    prefer_skip_nested_validation=True,
)
def load_usps(subset: str = "train", *, data_home: str | PathLike[str] | None = None) -> Table:
    """Handwritten digits of ZIP codes, 16 by 16 pixels.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
    data_home : str, path or None, default=None
        The folder with ``usps/zip.train`` and ``usps/zip.test``. None is the folder named by the
        environment variable ``MAXMARGIN_DATA``. If the file is not there, the data are downloaded
        from OpenML, and are then as OpenML has them.

    Returns
    -------
    X : ndarray of shape (7291, 256), or (2007, 256) for "test"
        Grey values from -1 to 1, row by row.
    y : ndarray of shape (7291,) or (2007,), of 0 to 9

    References
    ----------
    T. Hastie, R. Tibshirani and J. Friedman, "The Elements of Statistical Learning", "ZIP code"
    data.

    Examples
    --------
    >>> X, y = load_usps("test")  # doctest: +SKIP
    """
    return USPS[subset].load(data_home)


def parse_idx(content: bytes, n_dimensions: int) -> np.ndarray:
    """An array of bytes in the IDX format: type and dimension, shape, values."""
    header = np.frombuffer(content, ">i4", 1 + n_dimensions)
    if header[0] != 0x0800 + n_dimensions:
        raise ValueError(f"no IDX file of {n_dimensions} dimensions")
    return np.frombuffer(content, np.uint8, offset=header.nbytes).reshape(header[1:])


def parse_mnist(images: bytes, labels: bytes) -> Table:
    pixels = parse_idx(images, 3)
    X = pixels.reshape(pixels.shape[0], -1).astype(np.float32)
    return X, parse_idx(labels, 1).astype(int)


def convert_mnist(bunch: Bunch) -> Table:
    return bunch.data.astype(np.float32), bunch.target.astype(int)


MNIST = {
    subset: Source(
        files=(f"mnist/{prefix}-images-idx3-ubyte", f"mnist/{prefix}-labels-idx1-ubyte"),
        parse=parse_mnist,
        n_features=784,
        counts=dict(enumerate(counts)),
        origin="the MNIST database of handwritten digits",
        openml=OnOpenML("mnist_784", 1, convert_mnist),
    )
    for subset, prefix, counts in (
        ("train", "train", (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("test", "t10k", (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
    )
}


@validate_params(
    {"subset": SUBSET, "data_home": DATA_HOME},
    prefer_skip_nested_validation=True,
)
def load_mnist(subset: str = "train", *, data_home: str | PathLike[str] | None = None) -> Table:
    """Handwritten digits, 28 by 28 pixels.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
    data_home : str, path or None, default=None
        The folder with ``mnist/train-images-idx3-ubyte``, ``mnist/train-labels-idx1-ubyte`` and
        the same for ``t10k``. None is the folder named by the environment variable
        ``MAXMARGIN_DATA``. If the files are not there, the data are downloaded from OpenML, and are
        then as OpenML has them.

    Returns
    -------
    X : ndarray of float32 of shape (60000, 784), or (10000, 784) for "test"
        Grey values from 0 to 255, row by row.
    y : ndarray of shape (60000,) or (10000,), of 0 to 9

    References
    ----------
    Y. LeCun, C. Cortes and C. Burges, "The MNIST database of handwritten digits".

    Examples
    --------
    >>> X, y = load_mnist("test")  # doctest: +SKIP
    """
    return MNIST[subset].load(data_home)


def parse_electricity(content: bytes) -> Table:
    mark = re.search(rb"^@data\s", content, re.IGNORECASE | re.MULTILINE)
    if mark is None:
        raise ValueError("no line @data")
    return numbers_and_label(content[mark.end() :])


ELECTRICITY = Source(
    files=("electricity/elecNormNew.arff",),
    parse=parse_electricity,
    n_features=8,
    counts={"DOWN": 26075, "UP": 19237},
    origin="MOA's page of data sets",
    openml=OnOpenML("electricity", 1, convert_numbers),
)


@validate_params({"data_home": DATA_HOME}, prefer_skip_nested_validation=True)
def load_electricity(*, data_home: str | PathLike[str] | None = None) -> Table:
    """Prices of electricity in New South Wales, every half hour, in the order of time.

    A price is UP if it is above the average of the last 24 hours. So neighbours tend to have the
    same label.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The folder with ``electricity/elecNormNew.arff``. None is the folder named by the
        environment variable ``MAXMARGIN_DATA``. If the file is not there, the data are downloaded
        from OpenML, and are then as OpenML has them.

    Returns
    -------
    X : ndarray of shape (45312, 8)
        date, day of the week (1 to 7), period, nswprice, nswdemand, vicprice, vicdemand, transfer;
        all but the day are scaled to [0, 1].
    y : ndarray of shape (45312,), of 'UP' and 'DOWN'

    References
    ----------
    M. Harries, "Splice-2 comparative evaluation: electricity pricing", University of New South
    Wales, 1999; the normalised version that comes with MOA.

    Examples
    --------
    >>> X, y = load_electricity()  # doctest: +SKIP
    """
    return ELECTRICITY.load(data_home)
