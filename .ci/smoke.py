"""An installed package without extras: a fit works, and what needs an extra names it."""

import subprocess
import sys

from maxmargin import AutoMargin, MaxMargin, __version__
from maxmargin.datasets import make_separable

X, y = make_separable(200, 5, gap=0.5, random_state=0)
print(MaxMargin(soft_margin=0.0).fit(X, y).certificate_)
clf = AutoMargin()
for row, label in zip(X, y, strict=True):
    clf.learn_one(row, label, classes=[-1, 1])
print(f"maxmargin {__version__}, Python {sys.version.split()[0]}: {clf.score(X, y):.3f}")

run = subprocess.run([sys.executable, "-m", "maxmargin", "--help"], capture_output=True, text=True)
assert run.returncode == 0 or "pip install 'maxmargin[cli]'" in run.stderr, run.stderr
print(run.stdout or run.stderr)
