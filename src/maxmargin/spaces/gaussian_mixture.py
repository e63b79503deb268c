"""Gaussian components with diagonal variances, each with the label of a class, in fixed memory."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, blank
from maxmargin.core.numba_backend import Compiled, bridge

COUNTS = np.dtype(
    [("components", "i8"), ("rows", "i8"), ("errors", "i8"), ("rho", "f8")], align=True
)


class Mixture(NamedTuple):
    """The components of all classes; those in use are the first ones.

    ``owners`` are their classes, ``sizes`` their numbers of rows, and ``levels`` the logs of their
    unweighted densities at the mean. The buffers have a dense row, its log-density and squared
    distance for each component, and its log-density for each class.
    """

    owners: Annotated[np.ndarray, Array("components", dtype=np.int32, below="classes")]
    means: Annotated[np.ndarray, Array("components", "features")]
    variances: Annotated[np.ndarray, Array("components", "features")]
    sizes: Annotated[np.ndarray, Array("components", dtype=np.int64)]
    levels: Annotated[np.ndarray, Array("components")]
    state: Annotated[np.recarray, Array(1, dtype=COUNTS)]
    logs: Annotated[np.ndarray, Buffer("components")]
    row: Annotated[np.ndarray, Buffer("features")]
    distances: Annotated[np.ndarray, Buffer("components")]
    outputs: Annotated[np.ndarray, Buffer("classes")]

    def read(self, rows, i):
        """Copy a row, with its zeros; repeated entries add up."""
        for j in range(self.row.size):
            self.row[j] = 0.0
        for k in range(rows.own_entries(i)):
            j, x = rows.entry(i, k)
            self.row[j] += x

    def weigh(self):
        """Log-densities of the row for each component and each class, and squared distances."""
        used = self.state[0].components
        total = math.log(max(self.state[0].rows, 1))
        for k in range(used):
            square, distance = 0.0, 0.0
            for j in range(self.row.size):
                gap = self.row[j] - self.means[k, j]
                distance += gap * gap
                square += gap * gap / self.variances[k, j]
            self.distances[k] = distance
            self.logs[k] = self.levels[k] - 0.5 * square
            self.logs[k] += math.log(self.sizes[k]) - total
        for c in range(self.outputs.size):
            top = -math.inf
            for k in range(used):
                if self.owners[k] == c:
                    top = max(top, self.logs[k])
            below = 0.0
            if top > -math.inf:
                for k in range(used):
                    if self.owners[k] == c:
                        below += math.exp(self.logs[k] - top)
                top += math.log(below)
            self.outputs[c] = top

    def lead(self, own):
        """The margin of class ``own`` over the others: half a difference of probabilities."""
        rival = -math.inf
        for c in range(self.outputs.size):
            if c != own:
                rival = max(rival, self.outputs[c])
        top = max(self.outputs[own], rival)
        if top == -math.inf:
            return 0.0
        total = 0.0
        for c in range(self.outputs.size):
            total += math.exp(self.outputs[c] - top)
        return 0.5 * (math.exp(self.outputs[own] - top) - math.exp(rival - top)) / total

    def winner(self):
        """The class with the highest density; of two equal ones the positive, else the first."""
        best = 0
        for c in range(1, self.outputs.size):
            if self.outputs[c] > self.outputs[best]:
                best = c
        if self.outputs.size == 2 and self.outputs[1] >= self.outputs[0]:
            return 1
        return best

    def nearest(self, own):
        """The nearest component of class ``own``, or -1."""
        best = -1
        for k in range(self.state[0].components):
            if self.owners[k] == own and (best < 0 or self.distances[k] < self.distances[best]):
                best = k
        return best

    def free_place(self):
        """The place of a new component, which may replace the one with the fewest rows.

        Components of classes with several of them are replaced first, so that no class is lost.
        """
        used = self.state[0].components
        if used < self.owners.size:
            self.state[0].components += 1
            return used
        best, best_is_spare = -1, False
        for k in range(used):
            spare = False
            for other in range(used):
                spare |= other != k and self.owners[other] == self.owners[k]
            fewer = best < 0 or self.sizes[k] < self.sizes[best]
            if (spare and not best_is_spare) or (spare == best_is_spare and fewer):
                best, best_is_spare = k, spare
        self.state[0].rows -= self.sizes[best]
        return best

    def establish(self, k, own, width):
        """A component of the row alone, at place ``k``."""
        self.owners[k] = own
        self.sizes[k] = 1
        self.state[0].rows += 1
        for j in range(self.row.size):
            self.means[k, j] = self.row[j]
            self.variances[k, j] = width * width
        self.set_level(k)

    def join_in(self, k, least):
        """Let the row join component ``k``, whose variances stay above ``least``."""
        size = self.sizes[k]
        for j in range(self.row.size):
            mean = self.means[k, j]
            moved = (size * mean + self.row[j]) / (size + 1.0)
            spread = (self.row[j] - mean) * (self.row[j] - moved)
            self.means[k, j] = moved
            variance = (size * self.variances[k, j] + spread) / (size + 1.0)
            self.variances[k, j] = max(least, variance)
        self.sizes[k] = size + 1
        self.state[0].rows += 1
        self.set_level(k)

    def set_level(self, k):
        total = 0.0
        for j in range(self.row.size):
            total += math.log(2.0 * math.pi * self.variances[k, j])
        self.levels[k] = -0.5 * total


bridge("read", "weigh", "lead", "winner", "nearest")
bridge("free_place", "establish", "join_in", "set_level", inline=False)


def new_mixture(kind: type[Mixture], classes: int, width: int, most: int, rho: float) -> Mixture:
    """A mixture without components, with memory for ``most`` of them."""
    mixture = blank(kind, {"components": most, "features": width, "classes": classes})
    mixture.state.rho = rho
    return mixture


@Compiled
def learn_mixture(rows, labels, order, rule, mixture, logs):  # type: ignore[no-untyped-def]
    """Learn from the rows ``order``, in that order; returns the number of mistakes.

    Put the log-densities of the classes before each is learned into ``logs``, unless it is empty.
    """
    mistakes, state = 0, mixture.state
    for n in range(order.size):
        own = labels[order[n]]
        mixture.read(rows, order[n])
        mixture.weigh()
        mistakes += mixture.winner() != own
        if n < logs.shape[0]:
            for c in range(logs.shape[1]):
                logs[n, c] = mixture.outputs[c]
        error = mixture.lead(own) < state[0].rho
        if error:
            state[0].errors += 1
            state[0].rho *= rule.tau
        k = mixture.nearest(own)
        full = state[0].components == mixture.owners.size or state[0].rho < rule.rho_min
        far = k >= 0 and math.sqrt(mixture.distances[k]) > rule.epsilon
        if k < 0 or (not full and (error or far)):
            mixture.establish(mixture.free_place(), own, rule.width)
        else:
            mixture.join_in(k, rule.least)
    return mistakes


@Compiled
def class_logs(rows, mixture, logs):  # type: ignore[no-untyped-def]
    """Put the log-density of each row and each class into ``logs``."""
    for i in range(rows.size()):
        mixture.read(rows, i)
        mixture.weigh()
        for c in range(mixture.outputs.size):
            logs[i, c] = mixture.outputs[c]
