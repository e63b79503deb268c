"""The core needs no extra, and who misses one is told its name."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import maxmargin

HERE = Path(__file__).parent

# What the core can do, in dense rows and one kind of sparse ones.
CORE = """
import numpy as np
import maxmargin
from maxmargin import AMIRA, MaxMargin, Perceptron, certify, load, save, streams
from maxmargin.datasets import make_separable
from maxmargin.evaluate import progressive

X, y = make_separable(50, 3, gap=1.0, random_state=0)
clf = Perceptron(random_state=0, verbose=1).fit(X, y)
assert clf.score(X, y) == 1.0
assert 0.0 < clf.certificate_.margin <= certify(MaxMargin(soft_margin=0).fit(X, y), X, y).bound
assert progressive(Perceptron(), X, y).wrong.size == 50
clf.learn_one(X[0], y[0])
save(clf, "model.mm")
assert np.array_equal(load("model.mm").coef_, clf.coef_)
assert load("model.mm").predict_one(X[0]) == y[0]

open("rows.svm", "w").write("+1 1:0.5 3:2\\n-1 2:1\\n" * 5)
np.save("rows.npy", np.column_stack([X, y]))
assert Perceptron().fit_stream("rows.svm").classes_.tolist() == [-1.0, 1.0]
assert next(streams.open("rows.npy").blocks()).X.shape[0] == 50
dicts = [({"height": 2.0, "colour": "red"}, "tall"), ({"height": -1.0}, "small")] * 5
assert Perceptron().fit_stream(dicts).predict_one({"height": 3.0}) == "tall"
print("done")
"""

# By the extra that brings it: what cannot be done without.
MISSING = {
    "plots, from a display": "evaluate.ProgressiveDisplay([]).plot()",
    "streams, from CSV": "streams.open('rows.csv', label='y').glance()",
    "streams, from Parquet": "streams.open('rows.parquet', label='y').glance()",
    "streams, from a recipe": "streams.Recipe().fit([{'age': 20.0}])",
    "streams, from zstd": "streams.open('rows.svm.zst').glance()",
    "remote, from an address": "streams.open('s3://bucket/rows.svm')",
    "river, from its bridge": "__import__('maxmargin.river')",
    "onnx, from a learner": "to_onnx(Perceptron().fit([[0.0], [1.0]], [0, 1]))",
    "serve, from the application": "__import__('maxmargin.serve')",
    "cli,plots, from the demo": "__import__('maxmargin_papers.demo')",
    "cli, from the command": "runpy.run_module('maxmargin', run_name='__main__')",
}
ERRORS = """
import json, runpy, sys
from maxmargin import FixedShare, Perceptron, evaluate, streams, to_onnx

open("rows.csv", "w").write("x,y\\n1,no\\n2,yes\\n")
open("rows.parquet", "wb").write(b"PAR1")
open("rows.svm.zst", "wb").write(b"\\x28\\xb5\\x2f\\xfd")
said = {}
for what, code in json.loads(sys.argv[1]).items():
    try:
        eval(code)
        said[what] = "nothing"
    except (ImportError, ValueError, SystemExit) as error:
        said[what] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


def run_without_extras(folder, program, *arguments):
    (folder / "program.py").write_text(program, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, str(HERE / "no_extras.py"), "program.py", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(maxmargin.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_core_needs_no_extra(tmp_path):
    assert run_without_extras(tmp_path, CORE) == "done\n"


def test_errors_name_the_extra(tmp_path):
    asked = dict(MISSING)
    if sys.version_info >= (3, 14):  # whose standard library has zstd
        del asked["streams, from zstd"]
    said = json.loads(run_without_extras(tmp_path, ERRORS, json.dumps(asked)))
    for what, message in said.items():
        extra = what.partition(", ")[0]
        assert message.endswith(f"pip install 'maxmargin[{extra}]'"), f"{what}: {message}"


WITHOUT_PAPERS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "maxmargin_papers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from maxmargin import datasets

for name in ("load_adult", "make_endless_digits"):
    assert name in dir(datasets)
    try:
        getattr(datasets, name)
    except ImportError as error:
        print(error)
try:
    datasets.load_adults
except AttributeError as error:
    print(error)
"""


def test_without_the_papers_data_sets_say_what_is_missing(tmp_path):
    adult, digits, unknown = run_without_extras(tmp_path, WITHOUT_PAPERS).splitlines()
    missing = " needs the package maxmargin_papers, which comes with maxmargin and is missing here"
    assert adult.startswith(f"maxmargin.datasets.load_adult{missing}")
    assert digits.startswith(f"maxmargin.datasets.make_endless_digits{missing}")
    assert unknown == "module 'maxmargin.datasets' has no attribute 'load_adults'"


def test_the_core_asks_for_four_libraries():
    asked = [each for each in requires("maxmargin") if "extra ==" not in each]
    names = {re.split(r"[^\w-]", each)[0] for each in asked}
    assert names == {"numpy", "scipy", "scikit-learn", "numba"}
