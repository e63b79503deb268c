"""`AutoMargin` in plain NumPy and SciPy, one expert after another."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

# Loss, parameter, and the kind of the matrix.
EXPERTS = [
    ("newton", 1.0, "standardized full"),
    ("hinge", 1.0, "column"),
    ("hinge", 1.0, "all"),
    ("hinge", 1.0, "raw"),
    ("arow", 10.0, "column"),
    ("arow", 1.0, "all"),
    ("newton", 3.0, "column"),
    ("hinge", 0.1, "root"),
    ("logistic", 2.0, "root"),
    ("hinge", 0.1, "standardized"),
    ("hinge", 1.0, "standardized"),
    ("arow", 1.0, "standardized"),
    ("newton", 0.3, "standardized"),
    ("newton", 1.0, "standardized"),
    ("newton", 3.0, "standardized"),
    ("logistic", 0.5, "standardized root"),
    ("logistic", 2.0, "standardized root"),
]
# Of those on random features: loss, parameter, the width in terms of the median distance, and
# whether the ranges of columns are joined. With 2 they are, and features are those of landmarks.
CURVED = [
    (loss, parameter, *measure)
    for loss, parameter in [("hinge", 1.0), ("hinge", 10.0), ("arow", 0.1), ("newton", 1.0)]
    for measure in [
        (1.0, 0),
        (0.5, 0),
        (0.25, 0),
        (0.125, 0),
        (0.5, 1),
        (0.25, 1),
        (0.5, 2),
        (1.0, 2),
    ]
]


FIRST_ROWS = 32  # that decide on the widths


def implicit(margin, most, v):
    """The step d = most * sigmoid(-(margin + d v))."""
    if v == 0.0:
        return most * expit(-margin)
    return brentq(lambda d: d - most * expit(-(margin + d * v)), 0.0, most, xtol=1e-15, rtol=1e-14)


class Expert:
    def __init__(self, loss, parameter, kind, width):
        self.loss, self.parameter, self.kind = loss, parameter, kind
        self.w, self.G = np.zeros(width + 1), np.zeros(width + 1)
        self.peaks, self.known, self.highest = np.zeros(width + 1), np.zeros(width + 1), 0.0
        self.slope, self.offset, self.slope_squares, self.offset_squares = 2.0, 0.0, 1e-8, 1e-8
        self.follow, self.follow_squares = 0.0, 1.0

    def variances(self, peaks, known):
        s = {"all": known, "column": peaks, "root": peaks}.get(self.kind, np.ones_like(peaks))
        s = np.where(peaks > 0.0, s, 1.0)
        if self.kind.endswith("root"):
            return 1.0 / (s * np.sqrt(0.1 * s**2 + self.G))
        return 1.0 / (s**2 + self.G)

    def chance(self, x, surprise):
        self.f = float(self.w @ x)
        largest = math.log(1e6 - 1)
        odds = self.slope * self.f + self.offset + self.follow * surprise
        return expit(np.clip(odds, -largest, largest))

    def take_in(self, x):
        """Peaks follow the row, and weights the roots of variances."""
        self.highest = max(self.highest, np.abs(x[:-1]).max(initial=0.0))
        peaks, known, there = self.peaks.copy(), self.known.copy(), x != 0.0
        peaks[there] = np.maximum(peaks, np.abs(x))[there]
        known[there] = self.highest
        known[-1] = abs(x[-1])
        old = self.peaks > 0.0
        part = self.variances(peaks, known) / self.variances(self.peaks, self.known)
        self.w[old] *= np.sqrt(part[old])
        self.peaks, self.known = peaks, known

    def learn(self, x, y, p, surprise, weight):
        self.bend(y, p, surprise, weight)
        self.step(x, y, weight)

    def bend(self, y, p, surprise, weight):
        error = weight * (p - (y > 0))
        self.follow_squares += (error * surprise) ** 2
        self.follow -= 0.2 * error * surprise / math.sqrt(self.follow_squares)
        self.offset_squares += error**2
        self.offset -= 0.2 * error / math.sqrt(self.offset_squares)
        self.slope_squares += (error * self.f) ** 2
        self.slope = max(0.0, self.slope - 0.2 * error * self.f / math.sqrt(self.slope_squares))

    def step(self, x, y, weight):
        self.take_in(x)
        there = x != 0.0
        along = np.zeros_like(x)
        along[there] = self.variances(self.peaks, self.known)[there] * x[there]
        v, margin, a = float(x @ along), y * float(self.w @ x), self.parameter
        step = gain = 0.0
        if self.loss == "newton":
            step = implicit(margin, weight / a, v)
            q = step * a / weight
            gain = weight * q * (1.0 - q) / a
        elif self.loss == "logistic":
            step = implicit(margin, a * weight, v)
            gain = (step / a) ** 2
        elif margin < 1.0 and self.loss == "arow":
            step, gain = (1.0 - margin) / (v + a / weight), weight / a
        elif 1.0 - margin > 1e-12:
            step = min(a * weight, (1.0 - margin) / v) if v > 0.0 else a * weight
            gain = (step / a) ** 2 if self.kind.endswith("root") else 0.0
        self.w += step * y * along
        self.G += gain * x**2


class FullExpert(Expert):
    """An extended Kalman filter for logistic regression."""

    def __init__(self, loss, parameter, kind, width):
        super().__init__(loss, parameter, kind, width)
        self.P, self.slope = np.eye(width + 1), 1.0

    def chance(self, z, surprise):
        z = np.clip(z, -10.0, 10.0)
        moderated = self.w @ z / math.sqrt(1.0 + math.pi / 8.0 * (z @ self.P @ z))
        self.f, largest = float(moderated), math.log(1e6 - 1)
        odds = self.slope * self.f + self.offset + self.follow * surprise
        return expit(np.clip(odds, -largest, largest))

    def step(self, z, y, weight):
        z = np.clip(z, -10.0, 10.0)
        along = self.P @ z
        v = float(z @ along)
        wrong = implicit(y * float(self.w @ z), weight, v) / weight
        curvature = weight * wrong * (1.0 - wrong)
        self.w += weight * wrong * y * along
        self.P -= curvature / (1.0 + curvature * v) * np.outer(along, along)


class Standardizer:
    """Columns in units of their standard deviations, from all rows so far and the one at hand."""

    def __init__(self, width, may_center):
        self.rows, self.may_center = np.zeros((0, width)), may_center
        self.centered = np.zeros(width, bool)

    def of(self, x):
        z = np.zeros_like(x)
        z[-1] = x[-1]
        for j, column in enumerate(np.vstack([self.rows, x[:-1]]).T):
            if self.centered[j]:
                apart = column - column.mean()
                z[j] = apart[-1] / apart.std() if apart.std() > 0.0 else 0.0
            elif x[j] != 0.0:
                z[j] = x[j] / math.sqrt(np.mean(column[column != 0.0] ** 2))
        return z

    def learn(self, x):
        """A column is centered from 1/2 of values other than 0 on, down to 1/4."""
        self.rows = np.vstack([self.rows, x[:-1]])
        part = (self.rows != 0.0).mean(axis=0)
        enters = (part >= 0.5) & (x[:-1] != 0.0) & self.may_center
        self.centered = np.where(self.centered, part >= 0.25, enters)


def median_widths(rows, joined):
    """The median distance of rows, in units of their columns, and these."""
    spread = np.ptp(rows, axis=0)
    varies = spread > 0.0
    if joined:
        spread = np.sqrt(spread**2 + np.mean(spread[varies] ** 2))
    spread[~varies] = np.inf
    scaled = rows / spread
    apart = [np.linalg.norm(a - b) for k, a in enumerate(scaled) for b in scaled[:k]]
    return np.median([d for d in apart if d > 0.0]), spread


class Curved:
    """An expert on the cosines and sines of random angles, from row 33 on."""

    def __init__(self, loss, parameter, part, joined):
        self.expert, self.part, self.directions = Expert(loss, parameter, "raw", 0), part, None
        self.kind = "on features"
        self.joined = joined
        self.expert.take_in = lambda z: None
        self.resize(0)

    def resize(self, components):
        one = self.expert
        one.w, one.G = np.zeros(components), np.zeros(components)
        one.known = one.peaks = np.ones(components)

    def begin(self, rows, seed, components):
        median, spread = median_widths(rows, self.joined)
        drawn = np.random.RandomState(seed).normal(size=(rows.shape[1], components // 2))
        self.directions = drawn / spread[:, None] / (self.part * median)
        self.resize(components)

    def features(self, x):
        if self.directions is None:
            return np.zeros(0)
        angles = x[:-1] @ self.directions
        return np.concatenate([np.cos(angles), np.sin(angles)]) / math.sqrt(len(angles))

    def chance(self, x, surprise):
        return self.expert.chance(self.features(x), surprise)

    def learn(self, x, y, p, surprise, weight):
        self.expert.learn(self.features(x), y, p, surprise, weight)

    def catch_up(self, rows, y, counts):
        for x, sign, weight in zip(rows, y, counts, strict=True):
            self.learn(x, sign, self.chance(x, 0.0), 0.0, weight)


class OnLandmarks(Curved):
    """An expert on ``L**-1 k(x)``, where ``L L'`` are the kernel values between landmarks."""

    def begin(self, rows, seed, components):
        median, spread = median_widths(rows, True)
        self.units, self.landmarks = 1.0 / (spread * self.part * median), []
        self.directions = True
        self.resize(components)

    def alike(self, rows, x):
        return np.array([math.exp(-0.5 * ((a - x) @ (a - x))) for a in rows])

    def features(self, x):
        found = np.zeros(len(self.expert.w))
        if self.directions is not None and self.landmarks:
            K = np.array([self.alike(self.landmarks, a) for a in self.landmarks])
            k = self.alike(self.landmarks, self.units * x[:-1])
            found[: len(k)] = np.linalg.solve(np.linalg.cholesky(K), k)
        return found

    def keep(self, x):
        f = self.features(x)
        if len(self.landmarks) < len(f) and 1.0 - f @ f > 0.1:
            self.landmarks.append(self.units * x[:-1])


def mixture(X, y, sample_weight=None, experts=EXPERTS, offset=1.0, curved=(), seed=0, components=0):
    """Log-odds of each row before it is learned from, the weights of experts at the end, and the
    log losses of all experts on the way, by their own probabilities."""
    rows = np.column_stack([X, np.full(len(X), offset)])
    kinds = {"standardized full": FullExpert}
    members = [kinds.get(each[2], Expert)(*each, X.shape[1]) for each in experts]
    standardizer = Standardizer(X.shape[1], offset > 0.0)
    members += [(OnLandmarks if each[3] == 2 else Curved)(*each) for each in curved]
    N, shares = len(members), np.full(len(members), 1.0 / len(members))
    odds, losses, surprise = [], [], 0.0
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    for t, (x, sign, weight) in enumerate(zip(rows, y, counts, strict=True), 1):
        awake = len(members) if t > FIRST_ROWS + 1 else len(experts)
        z = standardizer.of(x)
        own = [z if one.kind.startswith("standardized") else x for one in members]
        chances = np.array(
            [one.chance(row, surprise) for one, row in zip(members, own, strict=True)]
        )
        chances[awake:] = shares[:awake] @ chances[:awake] / shares[:awake].sum()
        p = shares @ chances
        odds.append(math.log(p / (1.0 - p)))
        likelihood = chances if sign > 0 else 1.0 - chances
        losses.append(-np.log(likelihood))
        shares = shares * likelihood**weight
        shares = (1.0 - 1.0 / (t + 1)) * shares / shares.sum() + 1.0 / ((t + 1) * N)
        for member, row, chance in zip(members[:awake], own, chances, strict=False):
            member.learn(row, sign, chance, surprise, weight)
        standardizer.learn(x)
        surprise = (sign > 0) - p
        if t == FIRST_ROWS + 1:
            for member in members[len(experts) :]:
                member.catch_up(rows[:FIRST_ROWS], y[:FIRST_ROWS], counts[:FIRST_ROWS])
                member.expert.step(member.features(x), sign, weight)
        for member in members:
            if isinstance(member, OnLandmarks) and t > FIRST_ROWS:
                member.keep(x)
        if t == FIRST_ROWS:
            for member in members[len(experts) :]:
                member.begin(X[:FIRST_ROWS], seed, components)
    return np.array(odds), shares, np.array(losses)
