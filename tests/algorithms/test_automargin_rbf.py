"""`AutoMargin(kernel="rbf")`: against a naive mixture, whatever the chunking, and never far behind.

All tests take contiguous rows and the same few types, so that few loops are compiled.
"""

import numpy as np
import pytest
from reference_mixture import CURVED, EXPERTS, mixture
from scipy import sparse

import maxmargin
from maxmargin import AutoMargin
from maxmargin.evaluate import Drift, DriftAlarm, progressive
from maxmargin.evaluate.nonconformity import fixed_copy
from maxmargin.experts.expert_loop import learn_rows
from maxmargin.experts.random_features import FIRST_ROWS, WIDTHS
from maxmargin.models.expert_model import MOST_COLUMNS
from maxmargin.training.protocol import state_of

COMPONENTS = 16


def rings(rows=260, width=4, classes=2, seed=0, density=1.0):
    """Classes by the distance from the origin, in columns of other units; one never varies."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width)) * (random.uniform(size=(rows, width)) < density)
    codes = np.floor(classes * np.argsort(np.argsort((X[:, :2] ** 2).sum(axis=1))) / rows)
    X *= 10.0 ** random.integers(-3, 4, size=width)
    X[:, -1] = 5.0
    return X, codes.astype(int)


def learner(**parameters):
    return AutoMargin(kernel="rbf", n_components=COMPONENTS, random_state=3, **parameters)


def seed_of(clf):
    return np.random.RandomState(clf.random_state).randint(2**31 - 1)


def foretold(clf, X, codes, classes=2, sample_weight=None):
    """The log-odds of each row before it is learned from."""
    order = np.arange(len(codes), dtype=np.int32)
    return clf.score_then_learn(
        X, codes, order, classes=range(classes), sample_weight=sample_weight
    )[0]


def arrays_of(clf):
    """All that the learner knows, by the names in files."""
    return maxmargin.persistence.model_tree.leaves_of(state_of(clf).model)


def assert_same(one, other):
    ours, theirs = arrays_of(one), arrays_of(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@pytest.mark.parametrize("density", [1.0, 0.6])
def test_it_is_the_naive_mixture(density):
    X, codes = rings(density=density)
    clf = learner()
    odds = foretold(clf, X if density == 1.0 else sparse.csr_matrix(X), codes)
    wanted, shares, _ = mixture(
        X, 2 * codes - 1, curved=CURVED, seed=seed_of(clf), components=COMPONENTS
    )
    np.testing.assert_allclose(odds[:, 0], wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(clf.weights_[0], shares, rtol=1e-6, atol=1e-9)


def test_several_classes_share_the_features():
    X, codes = rings(rows=160, classes=3)
    clf = learner()
    weight = np.random.default_rng(1).choice([0.25, 1.0, 3.5], size=codes.size)
    odds = foretold(clf, X, codes, classes=3, sample_weight=weight)
    for c in range(3):
        given = {"curved": CURVED, "seed": seed_of(clf), "components": COMPONENTS}
        wanted, _, _ = mixture(X, np.where(codes == c, 1, -1), weight, **given)
        np.testing.assert_allclose(odds[:, c], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.compiled
def test_compiled_and_plain_loops_agree_to_the_bit(monkeypatch):
    X, codes = rings(rows=FIRST_ROWS + 12, classes=3)
    compiled = learner().partial_fit(X, codes, classes=range(3))
    plain = learner()
    monkeypatch.setattr("maxmargin.models.expert_model.run_loop", _plainly)
    assert_same(compiled, plain.partial_fit(X, codes, classes=range(3)))


def _plainly(rows, targets, order, table, experts, tally, trace, learn, maintain):
    done = 0
    while done < order.size:
        done, is_due = learn_rows.plain(rows, targets, order, done, table, experts, tally, trace)
        if is_due:
            maintain(experts)


@pytest.mark.parametrize("cuts", [(FIRST_ROWS,), (1, 31, 32, 33), (20, 150)])
def test_one_pass_over_rows_of_any_size_gives_the_same_bits(cuts, tmp_path):
    X, codes = rings(classes=3)
    whole = learner(shuffle=False).fit(X, codes)
    parts = learner()
    for start, stop in zip((0, *cuts), (*cuts, len(X)), strict=True):
        parts.partial_fit(X[start:stop], codes[start:stop], classes=range(3))
        maxmargin.save(parts, tmp_path / "model.mm")
        parts = maxmargin.load(tmp_path / "model.mm")
    assert_same(whole, parts)


def test_single_rows_with_new_names_and_labels_give_the_same_bits():
    """Columns that come late have no part in features, however they come."""
    X, codes = rings(classes=3)
    rows = [{j: x for j, x in enumerate(row) if j < 3 or k >= 200} for k, row in enumerate(X)]
    Z = X.copy()
    Z[:200, 3] = 0.0
    one_by_one = learner()
    for row, code in zip(rows, codes.tolist(), strict=True):
        one_by_one.learn_one(row, code, grow=True)
    at_once = learner().partial_fit(Z, codes, grow=True)
    np.testing.assert_array_equal(one_by_one.decision_function(Z), at_once.decision_function(Z))
    assert [one_by_one.predict_one(row) for row in rows] == at_once.predict(Z).tolist()
    np.testing.assert_array_equal(state_of(at_once).model.experts.curves.directions[0, 3], 0.0)


def test_rows_are_predicted_before_the_widths_are_known():
    X, codes = rings(rows=FIRST_ROWS - 1)
    clf = learner().partial_fit(X, codes, classes=[0, 1])
    assert not hasattr(clf, "widths_")
    assert np.isfinite(clf.decision_function(X)).all()
    clf.partial_fit(*rings(rows=100, seed=1))
    assert clf.widths_.shape == (len(WIDTHS),)
    np.testing.assert_allclose(clf.widths_[:4] / clf.widths_[0], WIDTHS[:4])
    np.testing.assert_allclose(clf.widths_[4:] / clf.widths_[4], [1.0, 0.5, 1.0, 2.0])
    assert "experts.curves.kept" not in arrays_of(clf)


def test_rows_that_are_all_equal_have_no_width():
    X, codes = np.ones((FIRST_ROWS + 20, 2)), np.arange(FIRST_ROWS + 20) % 2
    clf = learner().partial_fit(X, codes, classes=[0, 1])
    assert clf.widths_[0] == 1.0
    assert np.isfinite(clf.decision_function(X)).all()


def test_a_linear_problem_loses_no_more_than_the_theorem_allows():
    """Against each linear expert, by the bound of `max_log_loss` for all experts."""
    random = np.random.default_rng(5)
    X = random.normal(size=(600, 4))
    codes = (X @ [1.0, -2.0, 0.5, 0.0] + 0.2 * random.normal(size=600) > 0.0).astype(int)
    odds = foretold(learner(), X, codes)[:, 0]
    loss = np.logaddexp(0.0, np.where(codes == 1, -odds, odds)).sum()
    linear = mixture(X, 2 * codes - 1)[2].sum(axis=0)
    experts = len(EXPERTS) + len(CURVED)
    assert loss <= AutoMargin.max_log_loss(linear.min(), 0, experts, len(X))


def test_curved_boundaries_are_learned():
    random = np.random.default_rng(6)
    X = random.uniform(size=(4000, 2))
    codes = (np.floor(3.0 * X).sum(axis=1) % 2).astype(int)
    X *= [1e4, 1e-3]
    odds = foretold(AutoMargin(kernel="rbf", random_state=0), X, codes)[:, 0]
    late = slice(2000, None)
    assert ((odds >= 0.0) == codes)[late].mean() > 0.85
    linear = foretold(AutoMargin(), X, codes)[:, 0]
    assert ((linear >= 0.0) == codes)[late].mean() < 0.7


def test_too_many_columns_are_refused():
    wide = sparse.csr_matrix(([1.0, 1.0], [0, MOST_COLUMNS], [0, 1, 2]), (2, MOST_COLUMNS + 1))
    with pytest.raises(ValueError, match="Use kernel='linear'"):
        learner().partial_fit(wide, [0, 1], classes=[0, 1])
    clf = learner().partial_fit(wide[:, :2], [0, 1], classes=[0, 1], grow=True)
    with pytest.raises(ValueError, match="Use kernel='linear'"):
        clf.partial_fit(wide, [0, 1], grow=True)
    assert clf.predict(wide[:, :2].toarray()).shape == (2,)


def test_components_come_in_pairs():
    with pytest.raises(ValueError, match="'n_components' parameter of AutoMargin must be even"):
        AutoMargin(kernel="rbf", n_components=5).fit([[0.0], [1.0]], [0, 1])


def test_the_seed_decides_on_the_features():
    X, codes = rings(rows=150)
    ours, same = (learner().partial_fit(X, codes, classes=[0, 1]) for _ in range(2))
    assert_same(ours, same)
    other = AutoMargin(kernel="rbf", n_components=COMPONENTS, random_state=4)
    other.partial_fit(X, codes, classes=[0, 1])
    assert (other.decision_function(X) != ours.decision_function(X)).any()


def test_graphs_compute_the_same():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, codes = rings(classes=3)
    clf = learner().partial_fit(X, codes, classes=range(3))
    graph = maxmargin.to_onnx(clf, dtype="float64").SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"X": X})
    np.testing.assert_allclose(scores, clf.decision_function(X), rtol=1e-9, atol=1e-9)


def test_the_bridge_to_river_learns_the_same_bits():
    pytest.importorskip("river")
    from maxmargin.river import classifier

    X, codes = rings(rows=150)
    clf, bridged = learner(), classifier(learner(), classes=[0, 1])
    for row, code in zip(X, codes.tolist(), strict=True):
        names = dict(enumerate(row))
        clf.learn_one(names, code, classes=[0, 1])
        bridged.learn_one(names, code)
    rows = [dict(enumerate(row)) for row in X]
    assert [bridged.predict_one(row) for row in rows] == [clf.predict_one(row) for row in rows]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_that_are_no_numbers_are_refused(kernel, bad):
    X, codes = rings(rows=140)
    clf = learner().set_params(kernel=kernel)
    for row, code in zip(X, codes.tolist(), strict=True):
        clf.learn_one(dict(enumerate(row)), code, classes=[0, 1])
    before = {name: np.copy(array) for name, array in arrays_of(clf).items()}
    for call in (clf.predict_one, lambda row: clf.learn_one(row, 0)):
        with pytest.raises(ValueError, match="expected a finite number"):
            call({**dict(enumerate(X[0])), 1: bad})
    for name, array in arrays_of(clf).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_frozen_copy_watches_its_stream():
    """Its experts on random features have no weights of columns, so the whole learner is copied."""
    X, codes = rings(rows=1500)
    drift = Drift(DriftAlarm(0.05, warm_up=400), "alarm")
    clf = learner()
    found = progressive(clf, X, np.where(np.arange(1500) < 900, codes, 1 - codes), on_drift=drift)
    assert found.drifts.size >= 1
    assert found.drifts[0] > 900
    np.testing.assert_array_equal(fixed_copy(clf).decision_function(X), clf.decision_function(X))
