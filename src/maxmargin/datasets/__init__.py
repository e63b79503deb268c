"""Data of the papers: artificial data, and loaders of the real data."""

from maxmargin.datasets.adult import load_adult
from maxmargin.datasets.digits import make_endless_digits
from maxmargin.datasets.generated import (
    make_drifting,
    make_r_of_k,
    make_separable,
    make_switching,
)
from maxmargin.datasets.real import (
    load_electricity,
    load_ionosphere,
    load_mnist,
    load_usps,
    load_votes,
)
from maxmargin.datasets.vehicle import load_vehicle

__all__ = [
    "load_adult",
    "load_electricity",
    "load_ionosphere",
    "load_mnist",
    "load_usps",
    "load_vehicle",
    "load_votes",
    "make_drifting",
    "make_endless_digits",
    "make_r_of_k",
    "make_separable",
    "make_switching",
]
