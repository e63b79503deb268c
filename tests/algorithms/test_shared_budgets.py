"""Several classes that are learned together over one set of stored rows."""

import pickle

import numpy as np
import pytest
import reference_budget as reference
import reference_kernel as kernels
import reference_multiclass as multiclass
from extent import everything_or
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import chunk_sizes, label, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

import maxmargin
from maxmargin import (
    AMIRA,
    Forgetron,
    PassiveAggressive,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
)
from maxmargin.models import budget_model, budget_policies
from maxmargin.training.protocol import state_of

ROWS, SEED = 60, 3
RBF = {"kernel": "rbf", "gamma": 0.5}
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
COSTS = np.array([[0.0, 2.0, 0.5], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
X, y = three_classes(n=ROWS, d=4, spread=1.5)

FORGETRON = Forgetron(budget=7, multiclass="1-best")
AT_RANDOM = RandomBudgetPerceptron(budget=7, multiclass="1-best", random_state=SEED)
PROJECTRON = Projectron(threshold=0.3, budget=7, multiclass="1-best")
K_BEST = AMIRA(epsilon=0.3, budget=7)
PASSIVE = PassiveAggressive(C=0.5, budget=7, multiclass="1-best", on_full="project")
LEARNERS = [FORGETRON, AT_RANDOM, PROJECTRON, K_BEST, PASSIVE]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=label)


def follow(clf, K, labels, classes):
    """What the reference does with the rows, once each."""
    given = {"budget": clf.budget, "on_full": getattr(clf, "on_full", "project")}
    if isinstance(clf, RandomBudgetPerceptron):
        seed = check_random_state(clf.random_state).randint(2**31 - 1)
        given |= {"on_full": "random", "draws": np.random.default_rng(seed).random(len(K))}
    if isinstance(clf, AMIRA):
        rule = multiclass.amira_kbest_rule(clf.epsilon, None, None)
    elif isinstance(clf, PassiveAggressive):
        rule = multiclass.passive_aggressive_rule(clf.C, "hinge")
    elif isinstance(clf, Projectron):
        rule = reference.projectron_rule(clf.plus)
        given |= {"threshold": clf.threshold, "plus": clf.plus}
    else:
        rule = multiclass.perceptron_rule(1.0, 0.0)
    return reference.shared_budget(K, labels, np.arange(len(K)), classes, rule, **given)


def clear_trials(clf, trace, K, labels):
    """How many trials there are until rounding might decide."""
    scores, rows = trace.scores, np.arange(len(labels))
    own = scores[rows, labels][:, None]
    differences = np.concatenate([own - scores, 1.0 - own + scores], axis=1)
    epsilon = getattr(clf, "epsilon", 0.0)
    differences = np.concatenate([differences, own - scores - (1 - epsilon)], axis=1)
    for c in range(scores.shape[1]):
        differences = np.concatenate([differences, scores - scores[:, c : c + 1]], axis=1)
    unclear = ((differences != 0.0) & (np.abs(differences) < 1e-8)).any(axis=1)
    for t, store in enumerate([None, *trace.history[:-1]]):
        if store is not None and getattr(clf, "on_full", "project") == "project":
            distance = reference.projection(K, store, t, 1e-8)[1] / K[t, t]
            unclear[t] |= 0.0 < distance < 1e-4 or distance > 1 - 1e-9
            if isinstance(clf, Projectron):
                spare = 1.0 - (own[t, 0] - np.delete(scores[t], labels[t]).max())
                unclear[t] |= abs(K[t, t] * distance - clf.threshold) < 1e-8
                unclear[t] |= abs(spare - K[t, t] * distance / clf.threshold) < 1e-8
    # Coefficients of short projections are so large that rounding shows.
    unclear |= np.abs(scores).max(axis=1, initial=0.0) > 1e4
    return int(np.argmax(unclear)) if unclear.any() else len(labels)


def assert_follows(clf, trace, t, tolerance=1e-8):
    store = trace.history[t]
    mine, others = np.argsort(clf.support_), np.argsort(store.ids)
    np.testing.assert_array_equal(clf.support_[mine], store.ids[others])
    expected = store.coefficients[others].T
    size = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(clf.dual_coef_[:, mine], expected, rtol=0, atol=tolerance * size)
    assert clf.n_updates_ == trace.updated[: t + 1].sum()
    assert clf.n_mistakes_ == trace.mistakes[: t + 1].sum()


def _stream(rows, classes, repeated, seed):
    random = np.random.default_rng(seed)
    A = random.normal(size=(rows, 3))
    labels = np.argmax(A @ random.normal(size=(3, classes)), axis=1)
    labels = np.where(random.uniform(size=rows) < 0.3, random.integers(classes, size=rows), labels)
    for i in np.flatnonzero(random.uniform(size=rows) < repeated):
        A[i] = A[random.integers(i + 1)]
    labels[:classes] = np.arange(classes)
    return A, labels


streams = st.builds(
    _stream,
    rows=st.integers(12, 40),
    classes=st.integers(3, 4),
    repeated=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)


@every_learner
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_follows_the_reference_row_by_row(learner, data):
    rows, labels = data.draw(streams)
    classes, form = int(labels.max()) + 1, FORMS[data.draw(st.sampled_from(sorted(FORMS)))]
    offset, ridge = data.draw(st.sampled_from([(0.0, 0.0), (0.7, 0.0), (0.7, 0.4)]))
    clf = clone(learner).set_params(
        **RBF,
        budget=data.draw(st.sampled_from([1, 2, 3, 5, 100])),
        fit_intercept=offset > 0,
        intercept_scaling=offset or 1.0,
        soft_margin=ridge,
        shuffle=False,
        max_iter=1,
    )
    K = kernels.rbf(rows, rows, 0.5) + offset**2 + ridge * np.eye(len(rows))
    trace = follow(clf, K, labels, classes)
    size = clear_trials(clf, trace, K, labels)
    assume(size > 0)
    sizes = data.draw(chunk_sizes(size)) if size > 1 else [1]
    stop = 0
    for chunk in sizes:
        start, stop = stop, stop + chunk
        if start > 0:
            outputs = clf.decision_function(form(rows[start : start + 1]))[0]
            expected = trace.scores[start]
            span = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-8 * span)
        clf.partial_fit(form(rows[start:stop]), labels[start:stop], classes=range(classes))
        assert_follows(clf, trace, stop - 1)
    if np.unique(labels[:size]).size == classes:
        assert_follows(clone(clf).fit(rows[:size], labels[:size]), trace, size - 1)


def assert_same_model(first, second, tolerance=1e-10):
    np.testing.assert_array_equal(first.support_, second.support_)
    size = max(1.0, np.abs(first.dual_coef_).max())
    np.testing.assert_allclose(first.dual_coef_, second.dual_coef_, rtol=0, atol=tolerance * size)
    assert (first.n_updates_, first.n_mistakes_) == (second.n_updates_, second.n_mistakes_)


@every_learner
@pytest.mark.parametrize("block", everything_or([7], [1, 3, 7]))
def test_blocks_are_row_by_row(monkeypatch, learner, block):
    plain = clone(learner).set_params(
        **RBF, soft_margin=0.4, fit_intercept=True, random_state=SEED, max_iter=3
    )
    expected = clone(plain).fit(X, y)
    for module in (budget_model, budget_policies):
        monkeypatch.setattr(module, "BLOCK", block)
    clf = clone(plain).fit(X, y)
    assert_same_model(clf, expected)
    for name in ("margin", "bound"):
        of_both = [getattr(one.certificate_, name) for one in (clf, expected)]
        np.testing.assert_allclose(*of_both, rtol=1e-9)


@every_learner
def test_rows_one_by_one_and_in_files(learner, tmp_path):
    """`learn_one`, pickles and files go on to the bit."""
    plain = clone(learner).set_params(**RBF, random_state=SEED)
    whole = clone(plain).partial_fit(X, y, classes=range(3))
    assert whole.support_.size <= 7
    assert whole.dual_coef_.shape[0] == 3
    clf = clone(plain).partial_fit(X[:20], y[:20], classes=range(3))
    path = tmp_path / "model"
    maxmargin.save(clf, path)
    copies = [clf, pickle.loads(pickle.dumps(clf)), maxmargin.load(path)]
    for each in copies:
        for row, one in zip(X[20:40], y[20:40], strict=True):
            each.learn_one(row, one)
        each.partial_fit(X[40:], y[40:])
        np.testing.assert_array_equal(each.dual_coef_, copies[0].dual_coef_)
        np.testing.assert_array_equal(each.support_, copies[0].support_)
        assert each.certificate_.bound == copies[0].certificate_.bound
    assert_same_model(clf, whole)


NEVER_FULL = [
    Perceptron(margin=0.2, rate=0.5, multiclass="1-best"),
    AMIRA(epsilon=0.3),
    AMIRA(epsilon=0.3, costs=COSTS.tolist()),
]


@pytest.mark.parametrize("learner", NEVER_FULL, ids=["Perceptron", "k-best", "costs"])
@pytest.mark.parametrize("on_full", ["oldest", "project"])
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_a_budget_that_is_never_reached(learner, on_full, ridge):
    plain = clone(learner).set_params(**RBF, soft_margin=ridge, max_iter=3, shuffle=False)
    expected = clone(plain).fit(X, y)
    clf = clone(plain).set_params(budget=3 * ROWS + 1, on_full=on_full).fit(X, y)
    summed = np.zeros((3, ROWS))
    np.add.at(summed.T, clf.support_, clf.dual_coef_.T)
    outputs = clf.decision_function(X), expected.decision_function(X)
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-8)
    assert (clf.n_updates_, clf.n_mistakes_) == (expected.n_updates_, expected.n_mistakes_)
    margins = [one.certificate_.margin for one in (clf, expected)]
    np.testing.assert_allclose(*margins, rtol=1e-8)
    if on_full == "oldest":
        full = np.zeros((3, ROWS))
        full[:, expected.support_] = expected.dual_coef_
        np.testing.assert_allclose(summed, full, rtol=0, atol=1e-9)


@pytest.mark.parametrize("on_full", ["oldest", "project"])
@pytest.mark.parametrize("offset", [0.0, 0.7])
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_the_length_is_known_on_a_full_budget(on_full, offset, ridge):
    clf = Perceptron(margin=0.2, rate=0.5, multiclass="1-best", budget=5, on_full=on_full, **RBF)
    clf.set_params(soft_margin=ridge, fit_intercept=offset > 0, intercept_scaling=offset or 1.0)
    K = kernels.rbf(X, X, 0.5) + offset**2 + ridge * np.eye(ROWS)
    for stop in range(15, ROWS + 1, 15):
        clf.partial_fit(X[stop - 15 : stop], y[stop - 15 : stop], classes=range(3))
        weights = np.zeros((3, ROWS))
        np.add.at(weights.T, clf.support_, clf.dual_coef_.T)
        norm2 = state_of(clf).model.scalars.table.norm2[0]
        np.testing.assert_allclose(norm2, np.sum(weights * (weights @ K)), rtol=1e-9, atol=1e-12)
    assert clf.support_.size == 5
    assert clf.n_updates_ > 5


@pytest.mark.parametrize("learner", [FORGETRON, PROJECTRON, K_BEST], ids=label)
@pytest.mark.parametrize("costs", [None, COSTS], ids=["equal", "costs"])
@pytest.mark.parametrize("seed", range(4))
def test_certificates_are_sound(learner, costs, seed):
    if costs is not None and not isinstance(learner, AMIRA):
        learner = clone(K_BEST).set_params(on_full="project", budget=3)
    rows, labels = three_classes(n=25, d=3, spread=0.5, seed=seed)
    best = multiclass.max_joint_margin(rows, labels, 3, costs)[0]
    given = {"kernel": "linear", "fit_intercept": False, "max_iter": 5, "random_state": seed}
    clf = clone(learner).set_params(**given)
    if costs is not None:
        clf.set_params(costs=costs.tolist())
    clf.fit(rows, labels)
    certificate = clf.certificate_
    assert best <= certificate.bound
    reached = multiclass.joint_margin(clf.coef_, rows, labels, costs)
    assert certificate.margin <= reached * (1 + 1e-9) + 1e-12
    assert certificate.margin == pytest.approx(reached, rel=1e-6, abs=1e-9)


# ------------------------------------------------------------------------------------------ theory
def comparisons(K, labels, longest, random):
    """Norms, and losses ``max(0, 1 - lead)``, of functions in the span of the rows."""
    signs = 1.5 * np.eye(3)[labels] - 0.5
    for weights in (signs, *(signs * random.uniform(size=(len(K), 1)) for _ in range(3))):
        length = np.sqrt(np.sum(weights * (K @ weights)))
        outputs = K @ weights
        own = outputs[np.arange(len(K)), labels]
        outputs[np.arange(len(K)), labels] = -np.inf
        leads = own - outputs.max(axis=1)
        for norm in np.linspace(0.05, 1.0, 12) * longest:
            yield norm, np.maximum(0.0, 1.0 - leads * norm / length).sum()


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.6, 1.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_mistake_bounds(spread, seed):
    """Over sqrt(2), constraint vectors are as long as rows: norms count sqrt(2) times."""
    rows, labels = three_classes(n=400, d=2, spread=spread, seed=seed)
    K, random, root = kernels.rbf(rows, rows, 0.5), np.random.default_rng(seed), np.sqrt(2.0)
    for budget in (84, 120):
        clf = Forgetron(budget=budget, multiclass="1-best", **RBF)
        clf.partial_fit(rows, labels, classes=range(3))
        for norm, losses in comparisons(K, labels, Forgetron.max_norm(budget) / root, random):
            assert clf.n_mistakes_ <= Forgetron.max_mistakes(root * norm, losses, budget=budget)
    for threshold in (0.001, 0.1):
        clf = Projectron(threshold=threshold, plus=False, multiclass="1-best", **RBF)
        clf.partial_fit(rows, labels, classes=range(3))
        for norm, losses in comparisons(K, labels, 0.49 / np.sqrt(2.0 * threshold), random):
            most = Projectron.max_mistakes(root * norm, losses, threshold=threshold)
            assert clf.n_mistakes_ <= most


@pytest.mark.parametrize("budget", [1, 4, 20])
def test_forgetting_costs_no_more_than_its_share(budget):
    rows, labels = three_classes(n=200, d=2, spread=2.0, seed=1)
    labels = np.random.default_rng(0).permutation(labels)
    clf = Forgetron(budget=budget, multiclass="1-best", **RBF)
    for i in range(200):
        clf.partial_fit(rows[i : i + 1], labels[i : i + 1], classes=range(3))
        kept = state_of(clf).model.eviction
        assert kept.gained[0] == clf.n_mistakes_
        assert kept.lost[0] <= 15 / 32 * kept.gained[0] + 1e-12
    assert clf.n_mistakes_ > 50


# ------------------------------------------------------------------------------------------ limits
def test_two_classes_have_one_weight_vector():
    signs = np.where(y == 0, 1, -1)
    for learner in (FORGETRON, PROJECTRON, K_BEST):
        clf = clone(learner).set_params(**RBF)
        expected = clone(clf).set_params(multiclass="ovr").partial_fit(X, signs, classes=[-1, 1])
        assert_same_model(clf.partial_fit(X, signs, classes=[-1, 1]), expected, 0.0)


def test_memory_does_not_grow():
    random = np.random.default_rng(0)
    for learner in (FORGETRON, PROJECTRON):
        clf = clone(learner).set_params(**RBF)
        clf.partial_fit(random.normal(size=(300, 3)), random.integers(3, size=300), range(3))
        assert clf.support_.size == 7
        size = len(pickle.dumps(clf))
        clf.partial_fit(random.normal(size=(1500, 3)), random.integers(3, size=1500))
        assert clf.support_.size == 7
        assert len(pickle.dumps(clf)) <= size + 64  # integers are longer when larger


def test_weights_of_rows():
    weighted = clone(PASSIVE).set_params(**RBF, C=0.1)
    weighted.partial_fit(X, y, classes=range(3), sample_weight=np.full(ROWS, 3.0))
    heavier = clone(PASSIVE).set_params(**RBF, C=0.3).partial_fit(X, y, classes=range(3))
    lighter = clone(PASSIVE).set_params(**RBF, C=0.1).partial_fit(X, y, classes=range(3))
    assert_same_model(weighted, heavier, 1e-12)
    assert np.abs(lighter.dual_coef_ - heavier.dual_coef_).max() > 0.01
    with pytest.raises(ValueError, match="use soft_margin=0, or no budget"):
        weighted.set_params(soft_margin=1.0).fit(X, y, sample_weight=np.full(ROWS, 3.0))


def test_new_classes_need_one_against_the_rest():
    clf = clone(FORGETRON).set_params(**RBF)
    with pytest.raises(ValueError, match="grow=True needs multiclass='ovr'"):
        clf.partial_fit(X, y, grow=True)
