"""How far a reader has to go who follows one call down: few files, and none of them twice."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import maxmargin
from maxmargin import PUMMA

pytestmark = pytest.mark.compiled

PACKAGE = Path(maxmargin.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def files_entered(call):
    """The files of the package in which a function was called."""
    entered = set()

    def trace(frame, event, argument):
        entered.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    ours = [Path(name) for name in entered if name.startswith(str(PACKAGE))]
    return {str(each.relative_to(PACKAGE)) for each in ours}


def test_a_fit_walks_few_files():
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = X[:, 0] > 0.1 * X[:, 1]
    learner = PUMMA(random_state=0)
    learner.fit(X, y)  # compiles; what compilers do is not on the way
    entered = files_entered(lambda: learner.fit(X, y))
    assert "estimator/__init__.py" in entered
    assert "models/linear_model.py" in entered
    assert len(entered) <= 15, entered


def test_learning_from_more_rows_walks_few_files():
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = X[:, 0] > 0.1 * X[:, 1]
    learner = PUMMA(random_state=0).partial_fit(X, y, classes=[False, True])
    entered = files_entered(lambda: learner.partial_fit(X, y))
    assert "training/online.py" in entered
    assert len(entered) <= 11, entered


def test_learning_from_single_dicts_walks_few_files():
    def learn_one_by_one():
        learner = PUMMA()
        for x, y in [({"a": 1.0}, True), ({"a": -1.0}, False), ({"a": 1.0, "b": 2.0}, True)]:
            learner.learn_one(x, y, classes=[False, True])

    learn_one_by_one()
    entered = files_entered(learn_one_by_one)
    assert "training/one_row.py" in entered
    assert len(entered) <= 22, entered


def test_few_modules_lie_flat():
    assert len(list(PACKAGE.glob("*.py"))) <= 7


def test_nobody_outside_the_shell_reaches_into_learners():
    """Protected methods of a learner are for `estimator` and its subclasses in `algorithms`."""
    reads = re.compile(r"\b(?:clf|learner|estimator|prover)\._[a-z]")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in SOURCES
        if path.parent.name not in ("estimator", "algorithms")
        for line in path.read_text().splitlines()
        if reads.search(line)
    ]
    assert found == []


def test_few_signatures_take_any_learner():
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg) and ast.unparse(node) == "clf: Any":
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert len(found) <= 8, found


def test_the_files_to_read_for_one_learner_are_four():
    """Those that CONTRIBUTING.md names."""
    root = PACKAGE.parents[1]
    if not (text := root / "CONTRIBUTING.md").exists():
        return  # installed without the sources
    named = re.search(r"read\s+four\s+files:\s+(.*?)\.\n", text.read_text(), flags=re.S)
    paths = re.findall(r"`([\w/]+\.py)`", named[1])
    assert len(paths) == 4
    assert sum(len((PACKAGE / path).read_text().splitlines()) for path in paths) <= 540


def test_private_validation_of_scikit_learn_is_used_in_one_place():
    users = [path for path in SOURCES if "_param_validation" in path.read_text()]
    assert [path.name for path in users] == ["_validation.py"]
