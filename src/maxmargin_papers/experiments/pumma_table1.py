"""Table 1 of Ishibashi, Hatano and Takeda: the 2-norm soft margin on real data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import linear_kernel
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.extmath import row_norms

from maxmargin import MICRA, PUMMA, ROMMA
from maxmargin.datasets import load_adult, load_ionosphere, load_votes, make_separable
from maxmargin_papers.experiments.r_of_k import PAPER
from maxmargin_papers.experiments.training_passes import fit_until_converged, fit_until_stopped
from maxmargin_papers.reproduction.experiment import (
    Answer,
    Cell,
    Claim,
    DataHome,
    Experiment,
    Kind,
    NotComparable,
    NoVerdict,
    Printed,
    Results,
    Scale,
    Tolerance,
    measured,
)
from maxmargin_papers.reproduction.significance import always, less

LEARNERS = ("SVM", "PUMMA", "ROMMA", "MICRA")
MICRAS = {"MICRA": 10.0, "MICRA(3)": 3.0, "MICRA(1)": 1.0}
"""Their β, in units of the largest norm of a row."""
FAST = "PUMMA(0.1)"
"""With δ = 0.1; the text says something about it, the table does not."""
TABLE = {  # seconds and 100 x margin of each
    "ionosphere": ("0.06 10.55", "0.54 10.49", "3.12 10.50", "0.48 10.04"),
    "house-votes": ("0.03 17.42", "0.26 17.31", "0.62 17.36", "0.09 16.51"),
    "adult-1k": ("0.47 4.95", "5.40 4.50", "15.83 4.91", "2.34 4.03"),
    "adult-2k": ("2.13 3.40", "25.38 3.37", "82.70 3.38", "5.61 2.81"),
    "adult-4k": ("9.33 2.40", "159.54 2.38", "496.52 2.38", "55.91 2.00"),
    "adult-8k": ("232.42 1.69", "807.46 1.67", "2167.40 1.67", "189.13 1.46"),
    "adult-16k": ("1271.06 1.20", "3365.47 1.18", "12503.62 1.18", "2050.84 1.13"),
    "adult-full": ("5893.20 0.83", "44480.59 0.82", "71296.34 0.82", "12394.86 0.79"),
}
LAMBDA, DELTA = 1.0, 0.01
ALL_MISSING = 248  # the voter of whom nothing is known
MOST_GRAM_ROWS = 8000
QUICK = ("ionosphere", "house-votes", "adult-1k", "adult-2k", "adult-4k")

SVM_PRECISION = Tolerance(
    "0.1 %: SVM-light stops when margins are within 0.001 of what they should be",
    by_chance=False,
    part=0.001,
)
ONE_PER_CENT = Tolerance(
    "1 %: proved for δ = 0.01, whatever the order of the rows", by_chance=False, part=DELTA
)
CHOICE_OF_ROWS = {
    "adult-1k": 0.084,
    "adult-2k": 0.055,
    "adult-4k": 0.035,
    "adult-8k": 0.021,
    "adult-16k": 0.013,
}
"""How far the optima of two choices of so many rows are apart by chance, as a part of them: 95 %.

From the standard deviation of our optimum over 100 random choices each; printed numbers are no part
of it.
"""
NO_TIMES = NoVerdict("seconds of other code on another machine")
NO_MICRA = NotComparable("MICRA’s parameters were tuned for each set and are not printed")
MISPRINT = NotComparable("4.50 contradicts the proved 99 % of 4.95; most likely a misprint of 4.90")


def cells(scale: Scale) -> Sequence[Cell]:
    names = {"full": tuple(TABLE), "quick": QUICK, "tiny": ("ionosphere",)}[scale]
    learners = list(dict.fromkeys([*LEARNERS, FAST, *MICRAS]))
    return [{"data": data, "learner": name} for data in names for name in learners]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    X, y = make_separable(60, 4, random_state=0) if tiny else load(str(cell["data"]), data_home)
    name = str(cell["learner"])
    if name == "SVM":
        exact = gram_margin if y.size <= MOST_GRAM_ROWS else primal_margin
        return timed(lambda: exact(X, y))
    radius = float(np.sqrt(row_norms(X, squared=True).max()))
    fit_until_stopped(learner(name, radius).set_params(max_iter=1), X[:50], y[:50])  # compile
    clf = learner(name, radius)
    numbers = timed(lambda: fit_until_converged(clf, X, y).certificate_.margin)
    return {**numbers, "updates": clf.n_updates_, "certified": clf.certificate_.ratio}


def load(name: str, data_home: DataHome) -> tuple[Any, np.ndarray]:
    if name == "ionosphere":
        X, y = load_ionosphere(data_home=data_home)
        return X, np.where(y == "g", 1, -1)
    if name == "house-votes":
        X, y = load_votes(data_home=data_home)
        known = np.arange(y.size) != ALL_MISSING
        return X[known], np.where(y == "democrat", 1, -1)[known]
    X, y = load_adult(data_home=data_home)
    rows = y.size if name == "adult-full" else 1000 * int(name[6:-1])
    return X[:rows], y[:rows]


def learner(name: str, radius: float) -> Any:
    """``radius`` is the largest norm of a row."""
    shared: dict[str, Any] = {"soft_margin": LAMBDA, "max_iter": 10**6, "random_state": 0}
    if name == "ROMMA":
        return ROMMA(delta=DELTA, intercept_scaling="max", **shared)
    if name in MICRAS:
        return MICRA(beta=MICRAS[name] * radius, intercept_scaling="max", **shared)
    return PUMMA(delta=0.1 if name == FAST else DELTA, **shared)


def timed(margin: Any) -> dict[str, float]:
    began = time.process_time()
    return {"margin": 100.0 * margin(), "seconds": time.process_time() - began}


def gram_margin(X: Any, y: np.ndarray) -> float:
    """1 / |w| of LIBSVM, without slack, on the kernel K + I."""
    gram = linear_kernel(X)
    gram[np.diag_indices_from(gram)] += LAMBDA
    clf = SVC(kernel="precomputed", C=1e10, tol=1e-4).fit(gram, y)
    coefs, at = clf.dual_coef_.ravel(), clf.support_
    return float(1.0 / np.sqrt(coefs @ gram[np.ix_(at, at)] @ coefs))


def primal_margin(X: Any, y: np.ndarray) -> float:
    """The same by LIBLINEAR: what a row lacks to margin 1 is made up for by its own coordinate."""
    clf = LinearSVC(C=0.5 / LAMBDA, dual=False, tol=1e-8, intercept_scaling=100.0, max_iter=10**5)
    clf.fit(X, y)
    w = clf.coef_.ravel()
    lack = np.maximum(0.0, 1.0 - y * clf.decision_function(X))
    return float(1.0 / np.sqrt(w @ w + lack @ lack / LAMBDA))


def compared() -> Iterator[Printed]:
    where = "Table 1"
    for data in TABLE:
        for name in LEARNERS:
            ours, text = measured("margin", data=data, learner=name), printed(data, name)[1]
            column = f"{name}, 100 × margin"
            yield Printed(data, column, text, ours, rule(data, name), where, kind=kind_of(data))
    for data in TABLE:
        for name in LEARNERS:
            ours, text = measured("seconds", data=data, learner=name), printed(data, name)[0]
            yield Printed(data, f"{name}, seconds", text, ours, NO_TIMES, where)
        for above, below in (("ROMMA", "PUMMA"), ("PUMMA", "MICRA")):
            text = f"{float(printed(data, above)[0]) / float(printed(data, below)[0]):.2f}"
            what = f"time of {above} / {below}"
            yield Printed(data, what, text, ratio(data, above, below), NO_TIMES, where)


def rule(data: str, name: str) -> Tolerance | NoVerdict:
    if name == "MICRA":
        return NO_MICRA
    if (data, name) == ("adult-1k", "PUMMA"):
        return MISPRINT
    usual = SVM_PRECISION if name == "SVM" else ONE_PER_CENT
    if data not in CHOICE_OF_ROWS:
        return usual
    why = f"{usual.why}; and the spread over choices of so many rows, which are not said"
    return Tolerance(why, by_chance=False, part=usual.part + CHOICE_OF_ROWS[data])


def kind_of(data: str) -> Kind:
    """Only adult-full is used as printed.

    What the margin is was read so that the optimum of ionosphere comes out. Of the others it is
    not printed which rows were taken: one was left out, or their choice is allowed for.
    """
    return "strict" if data == "adult-full" else "fitted"


def printed(data: str, name: str) -> list[str]:
    """Seconds and margin."""
    return TABLE[data][LEARNERS.index(name)].split()


def ratio(data: str, above: str, below: str) -> Any:
    def values(results: Results) -> list[float]:
        one, other = (results.mean("seconds", data=data, learner=n) for n in (above, below))
        return [one / other]

    return values


def of_sets(
    number: str, above: str, below: str, answer: Callable[[list[float]], bool | None]
) -> Callable[[Results], Answer]:
    """An answer that follows from the quotients of a number of two learners, one of each set."""

    def holds(results: Results) -> Answer:
        sides = (results.values(number, learner=each) for each in (above, below))
        quotients = [one / other for one, other in zip(*sides, strict=True)]
        said = f"{above} / {below}: {min(quotients):.3g} to {max(quotients):.3g}"
        return answer(quotients), f"{said}; data sets: {len(quotients)}"

    return holds


def attainable(results: Results) -> Answer:
    """Whether MICRA reaches the printed margins with some parameters, if not with which."""
    sets = [str(cell["data"]) for cell, _ in results.records if cell["learner"] == "MICRA"]
    reached = zip(*(results.values("margin", learner=name) for name in MICRAS), strict=True)
    answers, said = [], []
    for data, margins in zip(sets, reached, strict=True):
        text = printed(data, "MICRA")[1]
        answers.append(min(margins) <= float(text) <= max(margins))
        said.append(f"{data}, {text}: {min(margins):.2f} to {max(margins):.2f}")
    return always(answers), "; ".join(said)


def on_every_set(least: float) -> Callable[[list[float]], bool | None]:
    return lambda quotients: always([one >= least for one in quotients])


def on_the_whole(quotients: list[float]) -> bool | None:
    """Above 1 in the geometric mean, by more than the spread between sets explains."""
    return less([0.0] * len(quotients), np.log(quotients).tolist())


def on_a_par(quotients: list[float]) -> bool | None:
    """Within a factor of two in the geometric mean over several sets."""
    return 0.5 <= geometric_mean(quotients) <= 2.0 if len(quotients) > 1 else None


def svm_is_fastest(results: Results) -> Answer:
    times = (results.values("seconds", learner=name) for name in ("SVM", "PUMMA", "ROMMA"))
    quotients = [min(others) / svm for svm, *others in zip(*times, strict=True)]
    said = f"the faster one of PUMMA and ROMMA / SVM: {min(quotients):.3g} to {max(quotients):.3g}"
    return on_every_set(1.0)(quotients), f"{said}; data sets: {len(quotients)}"


OTHER_SVM = NotComparable("SVM-light was not run: ours is LIBSVM and LIBLINEAR")
CLAIMS = (
    Claim(
        "PUMMA against SVM",
        "comes within 1 % of the maximum margin",
        of_sets("margin", "PUMMA", "SVM", on_every_set(1.0 - DELTA)),
        "section 4.2 and Theorem 2",
        kind="theorem",
    ),
    Claim(
        "PUMMA against ROMMA",
        "converges quite faster",
        of_sets("seconds", "ROMMA", "PUMMA", on_the_whole),
        "section 4.2",
    ),
    Claim(
        "PUMMA against MICRA",
        "has larger margins on every set",
        of_sets("margin", "PUMMA", "MICRA", on_every_set(1.0)),
        "Table 1",
        no_verdict=NO_MICRA,
    ),
    Claim(
        "PUMMA against MICRA",
        "converges slower",
        of_sets("seconds", "PUMMA", "MICRA", on_the_whole),
        "section 4.2",
        no_verdict=NO_MICRA,
    ),
    Claim(
        "SVM",
        "is the fastest on every set",
        svm_is_fastest,
        "section 4.2",
        no_verdict=OTHER_SVM,
    ),
    Claim(
        "PUMMA with δ = 0.1 against SVM",
        "takes a comparable time (taken as: within a factor of two in the geometric mean)",
        of_sets("seconds", FAST, "SVM", on_a_par),
        "section 4.2",
        no_verdict=OTHER_SVM,
    ),
    Claim(
        "PUMMA with δ = 0.1 against δ = 0.01",
        "has lower margins",
        of_sets("margin", "PUMMA", FAST, on_every_set(1.0)),
        "section 4.2",
    ),
    Claim(
        "MICRA",
        "its printed margins are attainable (taken as: between those with β of 1 and of 10 times "
        "the largest norm)",
        attainable,
        "Table 1",
        kind="fitted",
    ),
)


EXPERIMENT = Experiment(
    name="pumma-table1",
    title="The 2-norm soft margin on ionosphere, house votes and Adult",
    paper=PAPER,
    place="Table 1",
    claim="PUMMA comes within 1 % of the maximum margin, in less time than ROMMA.",
    runs=1,
    cells=cells,
    measure=measure,
    compared=(*compared(), *CLAIMS),
    choices=(
        "The margin is 1/‖w‖ in the extended space, where λ = 1 is added to the diagonal of the "
        "kernel, with a bias that costs nothing: so the printed optimum of ionosphere comes out "
        "within 0.1 %, and its lines count as fitted.",
        "SVM is LIBSVM without slack on K + I up to 8000 rows; beyond, LIBLINEAR with a squared "
        "hinge, which is the same problem without the Gram matrix.",
        "House votes: without the one voter of whom nothing is known, whose row is zero; with that "
        "row the optimum is 16.85 instead of the printed 17.42, so these lines are fitted.",
        "Adult: the first rows of the file a9a of LIBSVM. Which rows were taken is not said, so "
        "the spread of the optimum over 100 random choices is allowed for, and these lines count "
        "as fitted; all rows of adult-full are given.",
        "MICRA’s parameters are not printed. Its numbers here are those with β ten times the "
        "largest norm of a row, and are not comparable; that the printed margins are attainable is "
        "tested with β from one to ten times that norm.",
    ),
    differences=(
        "Adult’s optimum comes out 1 to 5 % above print for every number of rows. The choice of "
        "rows can explain that for up to 16 000 of them one by one, but not for the whole set, nor "
        "that all are above. Other codings of the features, other ways to learn the bias and "
        "leaving out rows with unknown values do not explain it either; without the feature "
        "capital-gain the numbers would fit.",
        "Rows that still bring updates are presented more often than others, so our times are not "
        "those of plain passes.",
        "What is said of SVM-light’s times is not tested, and depends on the program: LIBSVM, "
        "which stands for it up to 8000 rows, takes longer than PUMMA from 2000 rows on; "
        "LIBLINEAR, beyond, takes less.",
    ),
)
