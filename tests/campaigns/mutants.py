"""Does the suite notice broken code? Break it in many small ways, one at a time, and see.

    python tests/campaigns/mutants.py                run all mutants
    python tests/campaigns/mutants.py --list         list, and check that each can still be made
    python tests/campaigns/mutants.py pairs budget   only those with such a word in their name

Each mutant is one snippet of a source file, which occurs once in the package, and what stands there
instead. It is made in a copy of the tree. First the tests run that should notice it, then, in two
processes, all that `make test` runs beside each other; the first that fails has caught it. One that
runs for half an hour is caught, too: it does not end.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src") / "maxmargin"
LEFT_OUT = (".git", ".venv", "__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-m", "not serial")
MOST_SECONDS = 1800


class Mutant(NamedTuple):
    """What is broken, and where the tests are that should notice first."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]


ALGORITHMS = "tests/algorithms"
KERNELS = (f"{ALGORITHMS}/test_kernel_learners.py", "tests/kernels")
BUDGETS = (f"{ALGORITHMS}/test_budgets.py",)
CERTIFICATES = ("tests/certificates", "tests/spaces/test_certificate_vectors.py")
LOOPS = (
    "tests/core/test_loop.py",
    "tests/core/test_row_scans.py",
    f"{ALGORITHMS}/test_perceptron.py",
    f"{ALGORITHMS}/test_norma.py",
)
MULTICLASS = (f"{ALGORITHMS}/test_multiclass.py", "tests/core/test_joint_loop.py")
PAIRS = (f"{ALGORITHMS}/test_pumma.py",)
PNORMS = (f"{ALGORITHMS}/test_pnorm.py", "tests/spaces")
SOFT = ("tests/certificates/test_soft_margin.py",)
WEIGHTS = (f"{ALGORITHMS}/test_weights.py",)
EXACT = (f"{ALGORITHMS}/test_maxmargin.py",)

MUTANTS = (
    # ------------------------------------------------------------------------- loops and passes
    Mutant(
        "loop: a tie with the highest rival is no mistake",
        "return own <= (rival if rival > -np.inf else 0.0)",
        "return own < (rival if rival > -np.inf else 0.0)",
        LOOPS,
    ),
    Mutant(
        "loop: rows that bring no update make w shrink no more",
        "shrink = own_rule.rest(trial)\n            if shrink != 1.0:",
        "shrink = 1.0\n            if shrink != 1.0:",
        LOOPS,
    ),
    Mutant(
        "loop: rows that are only looked at are trials",
        "if learning:\n            trials += 1\n            if rule.needs_norm():",
        "if True:\n            trials += 1\n            if rule.needs_norm():",
        ("tests/evaluate/test_evaluate.py", *LOOPS),
    ),
    Mutant(
        "loop: rows on the wrong side have a positive margin",
        "f = targets.sign(i, c) * (rows.dot(i, weights, c) + bias[c])",
        "f = abs(rows.dot(i, weights, c) + bias[c])",
        CERTIFICATES,
    ),
    Mutant(
        "passes: a pass of which nothing was learned does not end the fit",
        "converged = options.settles and updates == 0",
        "converged = options.settles and updates < 0",
        ("tests/common/test_fitting.py",),
    ),
    Mutant(
        "passes: the fit takes one pass too many",
        "if self.converged or self.n_iter >= self.plan.options.max_iter:",
        "if self.converged or self.n_iter > self.plan.options.max_iter:",
        ("tests/common/test_fitting.py",),
    ),
    Mutant(
        "passes: no room is left for a full pass at the end",
        "most = (options.max_iter - self.n_iter - 1) * self.count",
        "most = (options.max_iter - self.n_iter + 1) * self.count",
        ("tests/estimator/test_passes.py", "tests/common/test_fitting.py"),
    ),
    Mutant(
        "schedule: rows that matter are forgotten one pass too soon",
        "np.flatnonzero(self._last_pass > self._passes - MEMORY)",
        "np.flatnonzero(self._last_pass > self._passes - 1)",
        ("tests/estimator/test_passes.py",),
    ),
    # ------------------------------------------------------------------------------ linear weights
    Mutant(
        "linear: a step is not divided by the scale",
        "scaled_step = step / record.scale\n        self.geometry.push",
        "scaled_step = step * 1.0\n        self.geometry.push",
        (f"{ALGORITHMS}/test_romma.py", f"{ALGORITHMS}/test_pegasos.py"),
    ),
    Mutant(
        "linear: the norm forgets that w shrank before the step",
        "return self.record_step(c, step, shrink * margin, xx) or must_maintain",
        "return self.record_step(c, step, margin, xx) or must_maintain",
        (f"{ALGORITHMS}/test_romma.py", f"{ALGORITHMS}/test_pegasos.py"),
    ),
    Mutant(
        "linear: the squares of the soft margin's coordinates are folded once",
        "record.hidden_positive *= factor * factor\n"
        "        record.hidden_negative *= factor * factor\n        record.mark_positive",
        "record.hidden_positive *= factor\n"
        "        record.hidden_negative *= factor * factor\n        record.mark_positive",
        ("tests/spaces/test_linear_space.py::test_growth_past_the_largest_scale", *SOFT),
    ),
    Mutant(
        "rows: a private coordinate is that of the row before",
        "total = self.offset * weights[c, width]\n        column = width + 1 + i",
        "total = self.offset * weights[c, width]\n        column = width + i",
        SOFT,
    ),
    Mutant(
        "rows: x.x without the square of the soft margin",
        "return self.offset * self.offset + self.private_of(i) * self.private_of(i)",
        "return self.offset * self.offset",
        SOFT,
    ),
    Mutant(
        "models: the average is taken over one trial less",
        "[:, None] - average / trials",
        "[:, None] - average / max(1, trials - 1)",
        (f"{ALGORITHMS}/test_perceptron.py",),
    ),
    Mutant(
        "witness: a change of scale counts its own trial, too",
        "self.past[c].trial = trial - 1",
        "self.past[c].trial = trial",
        (f"{ALGORITHMS}/test_averages.py",),
    ),
    Mutant(
        "kernel fit: rows outside the block keep no mean of weights that are folded",
        "self.averages -= self.block.take_closed(self.coefs)",
        "self.block.take_closed(self.coefs)",
        (f"{ALGORITHMS}/test_averages.py",),
    ),
    Mutant(
        "growth: the intercept stays in the old last column",
        "wider[:, width] = vectors[:, before]",
        "wider[:, before] = vectors[:, before]",
        ("tests/estimator/test_growing.py",),
    ),
    Mutant(
        "growth: vectors of a single problem share memory with their snapshots",
        "return cut.copy()",
        "return np.ascontiguousarray(cut)",
        ("tests/models/test_growth.py",),
    ),
    Mutant(
        "growth: arrays that stay as they are share memory with the model before",
        "return new.copy() if new is array else new",
        "return new",
        ("tests/models/test_growth.py",),
    ),
    # -------------------------------------------------------------------------------- certificates
    Mutant(
        "merge: masses are counted once too often",
        "masses=tuple(np.sum([part.masses for part in parts], axis=0).tolist())",
        "masses=tuple((1.1 * np.sum([part.masses for part in parts], axis=0)).tolist())",
        ("tests/certificates",),
    ),
    Mutant(
        "merge: the soft margin of all parts but the first is forgotten",
        "hidden=tuple(np.sum([part.hidden for part in parts], axis=0).tolist())",
        "hidden=parts[0].hidden",
        ("tests/certificates",),
    ),
    Mutant(
        "witness: the split bound forgets the half",
        "return 0.5 * self.norm(c, since, positive, negative, unseen)",
        "return 0.25 * self.norm(c, since, positive, negative, unseen)",
        CERTIFICATES,
    ),
    Mutant(
        "witness: the mass of one class counts for both",
        "both = own / positive - (own - both) / negative",
        "both = own / positive - (own - both) / positive",
        CERTIFICATES,
    ),
    Mutant(
        "witness: an excess of one class costs nothing",
        "return (abs(scalars.scale) * norm + self.radius * excess) / (mass + excess)",
        "return abs(scalars.scale) * norm / (mass + excess)",
        CERTIFICATES,
    ),
    Mutant(
        "witness: the weights at the snapshot are counted with the recent ones",
        "both = self.weights[c, here] - (self.mark[c, here] if since > 0.0 else 0.0)",
        "both = self.weights[c, here].copy()",
        CERTIFICATES,
    ),
    Mutant(
        "witness: negative steps can be certified",
        "if step < 0.0:\n            record.certifiable = 0.0\n        record.updates",
        "if step < -1e300:\n            record.certifiable = 0.0\n        record.updates",
        CERTIFICATES,
    ),
    Mutant(
        "certificates: the masses of the two classes are less than 1 together",
        "mixture = 0.5 * (positive / masses[0][:, None] - negative / masses[1][:, None])",
        "mixture = 0.4 * (positive / masses[0][:, None] - negative / masses[1][:, None])",
        (*KERNELS, "tests/certificates/test_certify.py"),
    ),
    Mutant(
        "certificates: the norm of the weights includes the intercept",
        "features, q = np.delete(weights, width, axis=1), p / (p - 1.0)",
        "features, q = weights, p / (p - 1.0)",
        CERTIFICATES,
    ),
    Mutant(
        "joint bound: intercepts differ by less than they may",
        "excess = radius * np.abs(imbalance).sum() / np.sqrt(2.0) if intercept else 0.0",
        "excess = radius * np.abs(imbalance).sum() / 8.0 if intercept else 0.0",
        MULTICLASS,
    ),
    # ------------------------------------------------------------------- pairs, classes, p-norms
    Mutant(
        "pairs: the intercept forgets the soft margin",
        "self.bias[c] = y - self.linear.output(rows, i, c) - self.hidden_output(rows, c, side)",
        "self.bias[c] = y - self.linear.output(rows, i, c)",
        (*SOFT, *PAIRS),
    ),
    Mutant(
        "pairs: the squared length of half a difference is halved once",
        "return 0.25 * distance2, 0.5 * math.sqrt(distance2)",
        "return 0.5 * distance2, 0.5 * math.sqrt(distance2)",
        PAIRS,
    ),
    Mutant(
        "joint: the next rival is active one too soon",
        "if not gap > total / (count + 1.0):",
        "if not gap > total / (count + 2.0):",
        MULTICLASS,
    ),
    Mutant(
        "joint: the norm grows by the step along the own class alone",
        "cross, squares = 0.0, total * total",
        "cross, squares = 0.0, 0.0",
        MULTICLASS,
    ),
    Mutant(
        "p-norm: the gain of the dual has a power too much",
        "self.gains[c] = size * size / self.sums[c] / self.units[c]",
        "self.gains[c] = size / self.sums[c] / self.units[c]",
        PNORMS,
    ),
    Mutant(
        "p-norm: a negative coordinate has a positive power",
        "self.powers[c, j] = raised if weights[c, j] >= 0.0 else -raised\n        return before",
        "self.powers[c, j] = raised\n        return before",
        PNORMS,
    ),
    # ------------------------------------------------------------------------- kernels and budgets
    Mutant(
        "kernels: an update does not reach the outputs by the shift",
        "for k in range(self.outputs.shape[1]):\n            self.outputs[c, k] += amount * "
        "(float(self.products[i, k]) + self.shift)",
        "for k in range(self.outputs.shape[1]):\n            self.outputs[c, k] += amount * "
        "float(self.products[i, k])",
        KERNELS,
    ),
    Mutant(
        "kernels: a waiting row's product with itself lacks the soft margin",
        "correction = self.diagonal[changed[at]] - shift - values",
        "correction = 0.0 * values",
        (*KERNELS, *SOFT),
    ),
    Mutant(
        "kernels: the intercept's share of the length is left in",
        "squares -= shift * intercepts**2",
        "squares -= 0.0 * intercepts",
        KERNELS,
    ),
    Mutant(
        "kernels: nothing is learned between the two snapshots",
        "self.marks = np.stack([self.marks[1], self.coefs])\n\n    def leave",
        "self.marks = np.stack([self.coefs, self.coefs])\n\n    def leave",
        KERNELS,
    ),
    Mutant(
        "budget: the row that leaves stays in the outputs of the next",
        "for k in range(i + 1, self.outputs.shape[1]):\n            self.outputs[c, k] -= coef",
        "for k in range(i + 2, self.outputs.shape[1]):\n            self.outputs[c, k] -= coef",
        BUDGETS,
    ),
    Mutant(
        "budget: the second oldest row goes",
        "return stored % capacity",
        "return (stored + 1) % capacity",
        BUDGETS,
    ),
    Mutant(
        "budget: forgetting may cost a little more than its share",
        "SHARE_TO_LOSE = 15.0 / 32.0",
        "SHARE_TO_LOSE = 17.0 / 32.0",
        BUDGETS,
    ),
    Mutant(
        "budget: a row at the threshold takes a slot",
        "far = distance > self.threshold and taken < self.inverse.shape[1]",
        "far = distance > 0.0 and taken < self.inverse.shape[1]",
        BUDGETS,
    ),
    Mutant(
        "budget: what projections cut off is not counted",
        "self.slack[c] += step / record.scale * math.sqrt(cut)",
        "self.slack[c] += 0.0 * math.sqrt(cut)",
        BUDGETS,
    ),
    # ------------------------------------------------------------------------ the exact margin
    Mutant(
        "newton: the weight of a row counts twice in its loss",
        "totals[side, 1] += mass * (2.0 * slack[c, n] - within)",
        "totals[side, 1] += sample_weight[i] * mass * (2.0 * slack[c, n] - within)",
        EXACT,
    ),
    Mutant(
        "newton: bounds forget the coordinates that rows have of their own",
        "hidden=(penalty * float(own[1]), penalty * float(rest[1])),",
        "hidden=(0.0, 0.0),",
        EXACT,
    ),
    Mutant(
        "newton: margins are a little larger than they are",
        "lost = np.sqrt(losses * rounded_up) + error * np.sqrt(total_weight)",
        "lost = 0.99 * np.sqrt(losses)",
        EXACT,
    ),
    Mutant(
        "newton: goals do not rise",
        "raised = 1.0 + after.penalty * (slack.clip(0.0, stage.limit) / stage.penalty)",
        "raised = 1.0 + 0.0 * slack",
        EXACT,
    ),
    # ------------------------------------------------------------------------ weights of rows
    Mutant(
        "weights: a row is learned from once too often",
        "needed = max(1.0, np.floor(gap / gain) + 1.0)",
        "needed = max(1.0, np.floor(gap / gain) + 2.0)",
        WEIGHTS,
    ),
    Mutant(
        "weights: a slack costs less than the row counts",
        "return self.private / np.sqrt(self.sample_weight[i])",
        "return self.private / np.sqrt(0.9 * self.sample_weight[i])",
        WEIGHTS,
    ),
    Mutant(
        "weights: streams are balanced without the row itself",
        "sample_weight[i] *= totals[classes] / (seen * totals[c])",
        "sample_weight[i] *= (totals[classes] - sample_weight[i]) / (seen * totals[c])",
        WEIGHTS,
    ),
    Mutant(
        "weights: a row of weight 0 is learned from",
        "counts = (order < 0) | (weights[order] > 0.0)",
        "counts = (order < 0) | (weights[order] >= 0.0)",
        WEIGHTS,
    ),
)


def home_of(snippet: str) -> Path:
    """The one file that holds the snippet, relative to the root."""
    found = [path for path in sorted((ROOT / PACKAGE).rglob("*.py")) if snippet in path.read_text()]
    times = sum(path.read_text().count(snippet) for path in found)
    if times != 1:
        raise SystemExit(f"This occurs {times} times in {PACKAGE}, not once:\n{snippet}")
    return found[0].relative_to(ROOT)


def is_caught(mutant: Mutant) -> str:
    """By which test, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        broken = tree / home_of(mutant.old)
        broken.write_text(broken.read_text().replace(mutant.old, mutant.new))
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Compiled code is kept by the hash of its sources, so mutants may share a folder.
            "MAXMARGIN_CACHE_DIR": os.environ.get("MAXMARGIN_CACHE_DIR", f"{folder}/cache"),
        }
        for tests in (mutant.tests, ("-n", "2")):
            if caught_by := first_failure((*PYTEST, *tests), tree, environment):
                return caught_by
    return ""


def first_failure(command: tuple[str, ...], tree: Path, environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode not in (0, 1) and not failures:
        raise SystemExit(f"pytest itself failed ({done.returncode}):\n{done.stdout[-3000:]}")
    return "" if done.returncode == 0 else failures[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutants with one of these in their name")
    parser.add_argument("--list", action="store_true", help="run nothing")
    asked = parser.parse_args()
    chosen = [
        each
        for each in MUTANTS
        if not asked.words or any(word in each.name for word in asked.words)
    ]
    for each in chosen:
        home = home_of(each.old)
        if asked.list:
            print(f"{home}: {each.name}")
    if asked.list:
        return 0
    survivors = []
    for each in chosen:
        began = time.monotonic()
        caught_by = is_caught(each)
        if not caught_by:
            survivors.append(each.name)
        verdict = f"caught by {caught_by[:100]}" if caught_by else "SURVIVED"
        print(f"{time.monotonic() - began:6.0f} s  {each.name}: {verdict}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught.")
    return len(survivors) > 0


if __name__ == "__main__":
    sys.exit(main())
