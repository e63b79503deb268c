"""Two ways to use Numba: the same bits by both, and who decides between them."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from backends import only_full
from extent import EVERYTHING
from scipy import sparse

import maxmargin
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.numba_backend.contract import DOCUMENTED, FULL, TESTED, VARIABLE, is_tested
from maxmargin.streams.text.decimals import read_number

UNTESTED = f"{TESTED[1][0]}.{TESTED[1][1]}.0"


def fits():
    """Digests of what learners of each kind learn, by the name of the kind."""
    chance = np.random.default_rng(0)
    X = chance.normal(size=(60, 11))
    y = (X[:, 0] + 0.3 * chance.normal(size=60) > 0).astype(int)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    once = {"max_iter": 2, "random_state": 0}
    found = {
        "dense": digest(maxmargin.Perceptron(**once).fit(X, y).coef_),
        "text": digest(numbers_in("3 -0.25 1e5 12345678901234567 0.1234567890123456789 7e-300 ")),
    }
    if EVERYTHING:  # each takes some ten seconds to compile
        by_dicts = maxmargin.Perceptron()
        for row, label in zip(X[:20], y[:20], strict=True):
            named = {f"x{j}": value for j, value in enumerate(row)}
            by_dicts.learn_one(named, label, classes=[0, 1])
        found |= {
            "joint": digest(maxmargin.AMIRA(**once).fit(X, three).coef_),
            "sparse": digest(maxmargin.Perceptron(**once).fit(sparse.csr_matrix(X), y).coef_),
            "kernel": digest(maxmargin.Perceptron(kernel="rbf", **once).fit(X, y).dual_coef_),
            "budget": digest(maxmargin.Forgetron(budget=10, **once).fit(X, y).decision_function(X)),
            "dicts": digest(by_dicts.coef_),
        }
    return found


@Compiled
def read_numbers(text, numbers):
    at = 0
    for k in range(numbers.size):
        numbers[k], at, _ = read_number(text, at)
        at += 1


def numbers_in(text):
    numbers = np.zeros(len(text.split()))
    read_numbers(np.frombuffer(text.encode(), dtype=np.uint8), numbers)
    assert numbers.tolist() == [float(number) for number in text.split()]
    return numbers


def digest(numbers):
    assert np.any(numbers)
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()


FITS = """
import json, sys, warnings
sys.path += {path!r}
warnings.simplefilter("ignore")
from core.test_backends import fits
print(json.dumps(fits()))
"""


def run(program, backend=None):
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if backend is not None:
        environment[VARIABLE] = backend
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )


@pytest.mark.slow
@only_full
def test_both_backends_learn_the_same_to_the_bit():
    program = FITS.format(path=sys.path)
    full, documented = (run(program, backend) for backend in (FULL, DOCUMENTED))
    assert (full.returncode, documented.returncode) == (0, 0), full.stderr + documented.stderr
    assert json.loads(documented.stdout) == json.loads(full.stdout)


@pytest.mark.parametrize("version", ["0.62.0", "0.62.1rc1", "0.68.1", "0.69.0"])
def test_tested_versions(version):
    assert is_tested(version)


@pytest.mark.parametrize("version", ["0.61.2", UNTESTED, "0.70.0rc1", "1.0.0", "unknown"])
def test_untested_versions(version):
    assert not is_tested(version)


# Which backend is behind the door, and the warnings that were given on the way.
CHOOSE = """
import json, sys, warnings
import numba
numba.__version__ = {version!r}
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    from maxmargin.core import numba_backend
    import maxmargin.core.loop, maxmargin.training.one_row
print(json.dumps({{
    "backend": "full" if numba_backend.IS_FULL else "documented",
    "cache": "maxmargin.core.numba_backend.cache" in sys.modules,
    "warnings": [[each.category.__name__, str(each.message)] for each in given],
}}))
"""


def choice(version, backend=None):
    done = run(CHOOSE.format(version=version), backend)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@only_full
def test_a_tested_version_has_the_full_backend():
    assert choice("0.69.9") == {"backend": FULL, "cache": True, "warnings": []}


def test_an_untested_version_has_the_documented_backend_and_one_warning():
    found = choice(UNTESTED)
    assert (found["backend"], found["cache"]) == (DOCUMENTED, False)
    [(category, message)] = found["warnings"]
    assert category == "RuntimeWarning"
    for part in (f"Numba {UNTESTED}", "compiled anew", "on disk", f"{VARIABLE}={DOCUMENTED}"):
        assert part in message


@only_full
@pytest.mark.parametrize("backend", [FULL, DOCUMENTED])
def test_the_variable_decides_without_a_warning(backend):
    found = choice(UNTESTED, backend)
    assert (found["backend"], found["warnings"]) == (backend, [])


def test_a_wrong_value_of_the_variable_is_an_error():
    done = run("import maxmargin; maxmargin.Perceptron", "fast")
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error == f'ValueError: {VARIABLE} must be "full" or "documented", not \'fast\'.'
