"""Mean ranks over data sets, and how far apart they must be.

J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.05


class Ranking(NamedTuple):
    """Contenders from the best mean rank to the worst.

    Attributes
    ----------
    data : names of the data sets
    ranks : mean rank of each contender
    critical : mean ranks differ at the 5 % level if they are that far apart (Nemenyi)
    p_value : of Friedman's test of no differences at all
    """

    data: list[str]
    ranks: dict[str, float]
    critical: float
    p_value: float


def ranking(scores: Mapping[str, Mapping[str, float]], chosen: Sequence[str]) -> Ranking | None:
    """Of the chosen contenders, by scores (larger is better) that ``scores[data]`` has.

    A contender counts if it ran on at least nine tenths of the data sets, and a data set if all of
    these contenders ran on it. None if fewer than two contenders or data sets remain.
    """
    sets = list(scores)
    often = [c for c in chosen if sum(c in scores[name] for name in sets) >= 0.9 * len(sets)]
    whole = [name for name in sets if all(c in scores[name] for c in often)]
    if len(often) < 2 or len(whole) < 2:
        return None
    table = np.array([[scores[name][c] for c in often] for name in whole])
    ranks = stats.rankdata(-table, axis=1)
    means = dict(sorted(zip(often, ranks.mean(axis=0).tolist(), strict=True), key=lambda x: x[1]))
    p_value = 1.0
    if len(often) > 2 and np.ptp(ranks.mean(axis=0)) > 0.0:
        p_value = float(stats.friedmanchisquare(*table.T).pvalue)
    return Ranking(whole, means, critical_difference(len(often), len(whole)), p_value)


def critical_difference(contenders: int, sets: int) -> float:
    quantile = stats.studentized_range.ppf(1.0 - LEVEL, contenders, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(contenders * (contenders + 1) / (6.0 * sets)))
