"""The data of the papers: loaders of files, deformed digits, and artificial rows."""

from maxmargin_papers.data.adult import load_adult
from maxmargin_papers.data.benchmark_sets import (
    load_electricity,
    load_ionosphere,
    load_mnist,
    load_usps,
    load_votes,
)
from maxmargin_papers.data.deformed_digits import make_endless_digits
from maxmargin_papers.data.generated import (
    make_drifting,
    make_r_of_k,
    make_separable,
    make_switching,
)
from maxmargin_papers.data.vehicle import load_vehicle

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
