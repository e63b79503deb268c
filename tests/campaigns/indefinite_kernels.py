"""Random kernels that are indefinite or asymmetric: no certificate claims more than there is.

``python tests/campaigns/indefinite_kernels.py 10000 --seed 1``

Margins and bounds mean nothing with such a kernel. What a learner can notice is a negative square,
a margin above its bound, or an asymmetry; then it must claim nothing. So no ratio is above 1.
"""

import argparse
import re
import sys
import traceback
import warnings
from collections import Counter

import numpy as np
from threadpoolctl import threadpool_limits

import maxmargin

LEARNERS = (
    *("ALMA", "AMIRA", "BisectionPerceptron", "DirectionalPerceptron", "Forgetron", "MICRA"),
    *("NORMA", "PUMMA", "PassiveAggressive", "Pegasos", "Perceptron", "Projectron", "ROMMA"),
    *("RandomBudgetPerceptron", "Relaxation"),
)
REFUSALS = re.compile(
    r"The kernel of row \d+ with itself is .* negative there"
    r"|diverged: its weights are not finite any more"
    r"|The kernel is not symmetric"
    r"|needs a symmetric matrix of kernel values, but X\[\d+, \d+\]"
    r"|cannot be (True|'pair'|'project') on a budget"
)


def draw_function(random):
    """A function of two arrays of rows, as few of which are kernels as possible."""
    a, b = random.uniform(0.0, 5.0), 10.0 ** random.uniform(-2, 1)
    skew = random.normal() * 10.0 ** random.uniform(-8, 0) if random.random() < 0.3 else 0.0

    def function(some, others):
        products, gaps = some @ others.T, ((some[:, None] - others[None]) ** 2).sum(axis=2)
        values = (
            a - gaps,
            np.tanh(b * products - a),
            (products - a) ** 2,
            np.exp(-b * gaps) - 0.5 * np.exp(-0.1 * b * gaps),
            np.cos(gaps),
            a * products + b * np.sin(products),
        )[which]
        return values + skew * (some.sum(axis=1)[:, None] - others.sum(axis=1)[None])

    which = random.integers(6)
    return function


def draw_matrix(random, size):
    """A matrix with positive and negative eigenvalues, and mostly a positive diagonal."""
    vectors, _ = np.linalg.qr(random.normal(size=(size, size)))
    values = random.exponential(size=size) * np.where(random.random(size) < 0.3, -1.0, 1.0)
    matrix = vectors * values @ vectors.T
    matrix = 0.5 * (matrix + matrix.T) + random.choice([0.0, 0.5, 2.0]) * np.eye(size)
    if random.random() < 0.2:
        i, j = random.integers(size, size=2)
        matrix[i, j] += 10.0 ** random.uniform(-6, 1)
    return matrix


def draw_case(random, names=LEARNERS):
    """A learner, rows or kernel values, labels, and the method to call."""
    classes = int(random.choice([2, 2, 3]))
    size, features = int(random.integers(max(3, classes), 13)), int(random.integers(1, 4))
    X = random.normal(size=(size, features)) * random.choice([0.3, 1.0, 3.0])
    y = random.permutation(np.arange(size) % classes)
    kind = getattr(maxmargin, names[random.integers(len(names))])
    known = kind().get_params()
    given = {
        "fit_intercept": bool(random.random() < 0.5),
        "soft_margin": float(random.choice([0.0, 0.0, 0.1, 1.0])),
        "max_iter": int(random.choice([2, 10, 100])),
        "tol": random.choice([None, None, 0.1]),
        "random_state": int(random.integers(1000)),
        "multiclass": str(random.choice(["ovr", "1-best"])),
        "budget": random.choice([None, None, 2, 5] if known.get("budget") is None else [2, 5]),
        "on_full": str(random.choice(["oldest", "random", "project"])),
        "max_checks": 200,
    }
    method = "fit"
    if random.random() < 0.3:
        given["kernel"] = "precomputed"
        X = draw_matrix(random, size)
    elif random.random() < 0.2:
        given |= {"kernel": "poly", "degree": int(random.integers(1, 4)), "gamma": 1.0}
        given["coef0"] = -random.exponential()
    else:
        given["kernel"] = draw_function(random)
    if given["kernel"] != "precomputed" and "Bisection" not in kind.__name__:
        method = str(random.choice(["fit", "fit", "partial_fit"]))
    return kind(**{name: given[name] for name in given if name in known}), X, y, method


def check(case):
    """What is wrong, or "", and why the learner refuses, or ""."""
    learner, X, y, method = case
    try:
        options = {"classes": np.unique(y)} if method == "partial_fit" else {}
        certificate = getattr(learner, method)(X, y, **options).certificate_
    except Exception as error:
        refusal = REFUSALS.search(str(error))
        if isinstance(error, ValueError) and refusal:
            return "", refusal[0]
        return traceback.format_exc(), ""
    if getattr(learner, "kernel", "linear") == "precomputed" and not np.allclose(
        X, X.T, rtol=1e-3, atol=1e-3
    ):
        return "an asymmetric matrix is accepted", ""
    for each in (certificate, *certificate.classes):
        if each.ratio > 1.0:
            return f"{each} (ratio {each.ratio!r})", ""
    return "", ""


def check_number(number, seed, names=LEARNERS):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return check(draw_case(np.random.default_rng([seed, number]), names))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first fit")
    given = parser.parse_args()
    found, refused = 0, Counter()
    with threadpool_limits(1):
        for number in range(given.first, given.first + given.count):
            finding, refusal = check_number(number, given.seed)
            refused[re.sub(r"-?\d[\d.e+-]*", "0", refusal)] += bool(refusal)
            if finding:
                found += 1
                learner, X, y, method = draw_case(np.random.default_rng([given.seed, number]))
                print(f"1 --seed {given.seed} --first {number}: {learner}.{method}({X}, {y})")
                print(f"  {finding}", flush=True)
    print(f"{given.count:,} kernels, {given.count - refused.total():,} learned; found: {found}")
    for reason, times in refused.most_common():
        if reason:
            print(f"{times:6} refused: {reason}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
