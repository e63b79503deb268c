"""What a user may write, for type checkers: `test_types.py` has it checked, nobody runs it."""

import numpy as np
from typing_extensions import assert_type

import maxmargin
from maxmargin import (
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    AutoMargin,
    Certificate,
    FixedShare,
    MaxMargin,
    Perceptron,
)
from maxmargin.datasets import make_separable
from maxmargin.evaluate import (
    MarginDisplay,
    Progress,
    ProgressiveDisplay,
    WeightsDisplay,
    progressive,
)
from maxmargin.streams import Block, Recipe, Source

X, y = make_separable(1000, gap=0.25, random_state=0)

# Fit, predict, certify.
clf = PUMMA(delta=0.01, random_state=0).fit(X, y)
assert_type(clf, PUMMA)
assert_type(clf.predict(X), np.ndarray)
assert_type(clf.decision_function(X), np.ndarray)
assert_type(clf.coef_, np.ndarray)
assert_type(clf.classes_, np.ndarray)
assert_type(clf.n_updates_, int)
assert_type(clf.converged_, bool)
assert_type(clf.delta, float)
assert_type(clf.certificate_, Certificate)
assert_type(clf.certificate_.ratio, float)
assert_type(maxmargin.certify(clf, X, y), Certificate)
assert_type(MaxMargin(soft_margin=0.1).fit(X, y, sample_weight=np.ones(1000)), MaxMargin)
assert_type(NOCA().fit(X, y).predict_proba(X), np.ndarray)
assert_type(FixedShare().fit(X, y).weights_, np.ndarray)
assert_type(Certificate.merge([clf.certificate_]), Certificate)

# Streams.
source = maxmargin.streams.open("rows.csv", label="churned", recipe=Recipe(drop=["id"]))
assert_type(source, Source)
for block in source.blocks():
    assert_type(block, Block)
learner = AMIRA().fit_stream(source, passes=2, checkpoint="run.mm")
assert_type(learner, AMIRA)
assert_type(learner.without_recipe(), AMIRA)
assert_type(learner.partial_fit(X, y, classes=[-1, 1], grow=True), AMIRA)
assert_type(Recipe().fit([{"age": 20.0}]), Recipe)
online = Perceptron().learn_one({"height": 2.0}, "tall", grow=True)
assert_type(online, Perceptron)
label = online.predict_one({"height": 1.9})
assert_type(AutoMargin().predict_proba(X), np.ndarray)
assert_type(NORMA.tuned(radius=1.0, norm=1.0, margin=1.0, trials=1000), NORMA)

# Progressive evaluation.
progress = progressive(NORMA(), X, y, step=100)
assert_type(progress, Progress)
assert_type(progress.accuracy, float)
assert_type(progressive([NORMA(), Perceptron()], X, y), list[Progress])

# Files.
maxmargin.save(clf, "model.mm")
again: PUMMA = maxmargin.load("model.mm")

# Pictures.
assert_type(ProgressiveDisplay.from_estimator([NORMA(), Perceptron()], X, y), ProgressiveDisplay)
assert_type(ProgressiveDisplay.from_results(progress), ProgressiveDisplay)
assert_type(MarginDisplay.from_estimator(PUMMA(), X, y), MarginDisplay)
WeightsDisplay.from_estimator(clf).figure_.savefig("weights.png")

# Slips that a type checker notices: it complains of an "ignore" that is not needed.
maxmargin.streams.opne("rows.csv")  # type: ignore[attr-defined]
AMIRA().fit_stream("rows.csv", pases=2)  # type: ignore[arg-type]
progressive(NORMA(), X, y, widow=100)  # type: ignore[call-overload]
ratio: str = clf.certificate_.ratio  # type: ignore[assignment]
