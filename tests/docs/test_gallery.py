"""The examples of the gallery run without a warning, draw pictures, and hold what they claim."""

import itertools
import os
import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import sklearn.ensemble  # noqa: F401 (whose first import makes a generator without a seed)
from scipy.optimize import nnls

from maxmargin import AMIRA

pyplot = pytest.importorskip("matplotlib.pyplot")

GALLERY = Path(__file__).parents[2] / "examples"
EXAMPLES = {path.stem: path for path in sorted(GALLERY.glob("*/plot_*.py"))}
needs_real_data = pytest.mark.skipif(
    "MAXMARGIN_DATA" not in os.environ, reason="MAXMARGIN_DATA names no folder"
)
needs_river = pytest.mark.skipif(find_spec("river") is None, reason="there is no river")
NEEDED = {
    "plot_electricity": needs_real_data,
    "plot_label_queries": needs_real_data,
    "plot_river": needs_river,
}
# What the variables of an example must say in the end.
CLAIMS = {}


def claims(example):
    CLAIMS[example.__name__] = example
    return example


@pytest.fixture(autouse=True)
def _no_windows_and_no_figures_are_left(monkeypatch):
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    yield
    pyplot.close("all")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=NEEDED[name]) if name in NEEDED else name for name in EXAMPLES],
)
def test_example(name):
    facts = runpy.run_path(str(EXAMPLES[name]))
    assert pyplot.get_fignums()
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        figure.draw_without_rendering()
        assert all(ax.has_data() for ax in figure.axes)
    CLAIMS[name](facts)


def test_claims_are_about_examples():
    assert not EXAMPLES or set(CLAIMS) == set(EXAMPLES)


# ------------------------------------------------------------------------ margins and certificates
@claims
def plot_certificate(facts):
    margins, bounds = np.array(facts["margins"]), np.array(facts["bounds"])
    assert margins.max() <= bounds.min()  # the best margin is between them at all times
    assert facts["ratio"] >= 0.99


@claims
def plot_certify_linearsvc(facts):
    loose, strict = facts["margins"][1e-4], facts["margins"][1e-9]
    assert max(loose + strict) <= facts["bound"]
    assert strict == sorted(strict)
    assert loose[-1] < max(loose) < strict[-1]
    shares = facts["shares"]
    assert shares["maxmargin.PUMMA(delta=0.01)"] >= 0.99
    assert shares["maxmargin.MaxMargin(soft_margin=0)"] >= 0.998


@claims
def plot_kernels(facts):
    assert min(facts["agreement"]) > 0.99
    assert min(facts["ratios"]) > 0.99


@claims
def plot_exact_kernels(facts):
    assert facts["hinge"].certificate_.ratio >= 0.999
    assert facts["agreement"] > 0.995
    auto, path, errors = facts["auto"], facts["path"], facts["errors"]
    assert auto.soft_margin_ == path.soft_margin
    assert errors[path.best] < min(errors) + 2.0
    assert abs(facts["left_out"] - errors[path.best]) < 6.0  # two standard errors of 200 rows


@claims
def plot_noisy_rows(facts):
    hard, firm, soft, without = facts["turned"].values()
    assert hard > firm > soft > without
    right = facts["right"]
    last, mean = right["Perceptron(), one pass"], right["Perceptron(average=True), one pass"]
    noisy = slice(1, None)
    assert np.all(np.array(mean[noisy]) > np.array(last[noisy]) + 5.0)
    for name in ("MaxMargin()", "PUMMA(soft_margin=1.0)"):
        assert np.all(np.array(right[name]) > mean)


@claims
def plot_which_lambda(facts):
    path, errors = facts["path"], facts["errors"]
    fitted, kept = errors(facts["X"], facts["y"]), errors(facts["X_test"], facts["y_test"])
    smaller = slice(path.best + 1)
    assert np.all(fitted[smaller] < 100.0 * path.loo_error[smaller])
    smallest, best = 0, path.best
    assert kept[best] < kept[smallest]
    assert abs(facts["promised"] - facts["kept"]) < 10.0  # two standard errors of 80 rows
    assert facts["clf"].soft_margin_ == path.soft_margin


# ----------------------------------------------------------------------------------------- papers
@claims
def plot_pumma(facts):
    ends, updates = facts["ends"], facts["updates"]
    assert ends["PUMMA"].updates < ends["ROMMA"].updates < ends["ALMA"].updates / 10
    best = min(end.bound for end in ends.values())
    assert min(end.margin for end in ends.values()) >= 0.9 * best
    romma, plain, log = (np.array(each) for each in updates.values())
    assert np.all(plain < romma)
    assert np.all(log[:2] < plain[:2])
    assert log[-1] > plain[-1]
    plain, fewer, fewest = facts["used"].values()
    assert plain > fewer > fewest


@claims
def plot_amira(facts):
    assert np.all(np.array(facts["reached"]) >= facts["promised"])
    assert np.all(np.array(facts["made"]) <= facts["allowed"])
    assert facts["reached"] == sorted(facts["reached"])
    assert facts["reached"][-1] > 0.95


@claims
def plot_noca(facts):
    noca, perceptron = facts["noca"], facts["perceptron"]
    assert noca.mistakes[-1] < perceptron.mistakes[-1]
    assert noca.wrong[100:].sum() == 0
    assert max(facts["components"]) < 80


@claims
def plot_directional_margin(facts):
    best, found = facts["best"], facts["found"]
    assert 0.99 * best <= found <= best * 1.0001
    for one in facts["clf"].rounds_:
        assert one.outcome != "hopeless" or one.beta > best
        assert one.outcome != "reached" or one.found >= one.beta
    directional = facts["directional"] / facts["geometric"]
    assert np.all(np.diff(directional) > 0.0)
    assert np.all(directional >= facts["least"])


@claims
def plot_moving_targets(facts):
    for mistakes in facts["mistakes"].values():
        perceptron, norma_0, alma_0, norma, alma = mistakes.values()
        assert max(norma, alma) < min(norma_0, alma_0)
        assert max(norma_0, alma_0) < perceptron


# --------------------------------------------------------------------------------------- practice
@claims
def plot_clusters(facts):
    best = facts["whole"].certificate_
    for count, clf in facts["models"].items():
        assert facts["ratios"][count][-1] >= 1.0 - 1e-6
        assert len(facts["ratios"][count]) <= 6
        assert best.margin <= clf.certificate_.bound
        assert clf.certificate_.margin <= best.bound
        assert np.mean(clf.predict(facts["X"]) == facts["whole"].predict(facts["X"])) > 0.999


@claims
def plot_imbalanced_table(facts):
    plain, balanced = (facts["table"][name] for name in facts["table"])
    assert plain["accuracy"] > balanced["accuracy"]
    assert plain["recall of cancellations"] < 0.05
    assert balanced["recall of cancellations"] > 0.6
    assert balanced["balanced accuracy"] > plain["balanced accuracy"] + 0.2
    kinds = [column["kind"] for column in facts["clf"].recipe_.columns_]
    assert kinds == ["drop", "date", "category", "number", "number", "number"]


@claims
def plot_probabilities(facts):
    online, plain = facts["scores"].values()
    assert facts["error"] < 0.03
    assert online < facts["best"] + 0.002
    assert plain > facts["best"] + 0.01


@claims
def plot_sequences(facts):
    margins, bounds = facts["margins"], facts["bounds"]
    assert facts["planted_margin"] <= margins[-1] <= min(bounds)
    assert margins[-1] >= AMIRA.margin_fraction(0.1) * bounds[-1]
    assert 50 < facts["clf"].n_updates_ <= facts["most"]
    assert facts["errors"][-1] < 0.01 < 0.1 < facts["single_errors"]
    assert_best_answers_are_the_best(facts)
    assert_steps_are_projections(facts)


def assert_steps_are_projections(facts):
    """After a step the constraints that came too close hold, and those that it uses are met."""
    random = np.random.default_rng(1)
    for x, y in facts["train"][:10]:
        w = 0.1 * random.normal(size=facts["planted"].size)
        D = facts["differences"](w, x, y)
        close = D[D @ w <= 0.9]
        (row,) = facts["mixture"](w, D)
        step = (1.0 - w @ row) / (row @ row)
        leads, (steps, rest) = close @ (w + step * row), nnls(close.T, step * row)
        assert step > 0.0
        assert rest < 1e-9
        assert (leads > 1.0 - 1e-9).all()
        np.testing.assert_allclose(leads[steps > 1e-9], 1.0, rtol=1e-9)


def assert_best_answers_are_the_best(facts):
    """Viterbi's algorithm against all 3^6 label sequences of short rows, with every output."""
    random = np.random.default_rng(0)
    for _ in range(5):
        w, x = random.normal(size=facts["planted"].size), random.integers(6, size=6)
        answers = list(itertools.product(range(3), repeat=6))
        outputs = np.array([w @ facts["joint_features"](x, y) for y in answers])
        expected = [answers[i] for i in np.argsort(-outputs)[:4]]
        assert facts["best_answers"](w, x, 4) == expected


@claims
def plot_table_in_memory(facts):
    errors, losses = facts["errors"], facts["losses"]
    assert min(losses, key=losses.get) == 'MaxMargin(kernel="auto")'
    assert max(errors.values()) < min(errors.values()) + 0.03
    scales = facts["clf"][-1].column_scales_
    names = facts["clf"][:-1].get_feature_names_out()
    assert names[np.argsort(-scales)[:2]].tolist() == ["usage_gb", "calls"]


@claims
def plot_scikit_learn(facts):
    assert facts["accuracy"] > 0.95
    assert facts["clf"].certificate_.ratio > 0.999
    best = facts["search"].best_params_["maxmargin__soft_margin"]
    assert facts["softness"].min() < best < facts["softness"].max()


# ---------------------------------------------------------------------------------------- streams
@claims
def plot_budget(facts):
    oldest, at_random, projected, small_steps = facts["errors"].values()
    free = 100 * (1 - facts["free"].accuracy)
    for errors in (oldest, at_random, projected, small_steps):
        assert errors[0] > errors[2] > errors[-1]
    assert max(projected[3], small_steps[3]) < min(oldest[-1], at_random[-1])
    assert small_steps[-1] < free + 1.0
    assert facts["free"].supports[-1] > 1000
    assert facts["last"].supports.max() == 80


@claims
def plot_electricity(facts):
    passive, perceptron, frozen, repeating = facts["accuracy"].values()
    assert passive > perceptron > repeating > frozen


@claims
def plot_endless_digits(facts):
    assert facts["errors"][-1] < 0.8 * facts["plain_error"]
    assert facts["picture"].shape == (7 * (facts["side"] + 2), 10 * (facts["side"] + 2))


@claims
def plot_fixed_share(facts):
    experts, vote = facts["experts"], facts["clf"].n_mistakes_
    assert vote < 1.02 * experts.min()
    assert vote < 0.9 * np.median(experts)
    looks, leaders = facts["looks"], np.array(facts["leaders"])
    turning = (looks > 1.5 * facts["PART"]) & (looks < 2 * facts["PART"])
    resting = (looks > 0.5 * facts["PART"]) & (looks < facts["PART"])
    assert np.bincount(leaders[turning]).argmax() != np.bincount(leaders[resting]).argmax()


@claims
def plot_growing(facts):
    assert facts["same"]
    assert facts["between"] > facts["before"] + 0.3
    assert facts["behind"] > 0.95


@claims
def plot_label_queries(facts):
    found, everything = facts["found"], facts["everything"]
    for name in ("Adult", "electricity"):
        near, random = found[name, "near_the_margin"], found[name, "at_random"]
        assert (near[:, 0] > random[:, 0]).all()
        assert (near[:, 1] < np.array(facts["shares"]) + 0.004).all()
    lost = everything["Adult"] - found["Adult", "near_the_margin"][1, 0]
    assert lost < 0.007
    assert lost < 0.6 * (everything["Adult"] - found["Adult", "at_random"][1, 0])


@claims
def plot_log(facts):
    assert facts["died"].returncode == -9
    assert facts["same"]
    assert facts["clf"].n_mistakes_ == facts["whole"].n_mistakes_
    begun = facts["begun"]
    assert (begun > 0).any()
    assert (begun < facts["ends"]).all()
    assert begun.sum() % 100 == 0  # at the end of a block


@claims
def plot_river(facts):
    accuracy = {name: result.accuracy for name, result in facts["results"].items()}
    goes_on = accuracy.pop("goes on")
    assert min(accuracy.values()) > goes_on + 0.03
    assert facts["found"].get() > goes_on + 0.03


@claims
def plot_text_stream(facts):
    before, after = facts["before"], facts["after"]
    assert after[:100].sum() > before[-100:].sum()
    assert after[-500:].mean() < 0.01
    scores = dict(zip(facts["words"], facts["scores"], strict=True))
    assert all(scores[word] < 0.0 for word in facts["HAM"].split())
    assert all(scores[word] > 0.0 for word in facts["SPAM_LATER"].split())
