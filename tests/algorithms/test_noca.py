import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import joblib
import numpy as np
import pytest
import reference_budget as reference
from algorithms.agreement import magnitudes
from extent import EVERYTHING
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import chunk_sizes, three_classes
from scipy import sparse
from sklearn.base import clone

from maxmargin import NOCA
from maxmargin.algorithms import noca
from maxmargin.core.rows import NO_TAIL
from maxmargin.models.linear_model import as_rows
from maxmargin.spaces.gaussian_mixture import class_logs, learn_mixture, new_mixture
from maxmargin.training.protocol import state_of, trainer_of

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
seeds = st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------------------------ the streams
class Stream(NamedTuple):
    """Rows in the order in which they come, and class numbers from 0."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: int


def _stream(rows, features, classes, clouds, late, density, seed) -> Stream:
    random = np.random.default_rng(seed)
    centres = 2 * random.normal(size=(classes, clouds, features))
    y = random.integers(classes, size=rows)
    y = np.sort(y) if late else y
    X = centres[y, random.integers(clouds, size=rows)] + random.normal(size=(rows, features))
    X *= random.uniform(size=X.shape) < density
    return Stream(X, y, classes)


def streams(densities=(0.7, 1.0)) -> st.SearchStrategy[Stream]:
    """Strategy for streams, some of them with zeros, or with classes that come one by one."""
    return st.builds(
        _stream,
        rows=st.integers(2, 30),
        features=st.integers(1, 10),
        classes=st.integers(2, 4),
        clouds=st.integers(1, 3),
        late=st.booleans(),
        density=st.sampled_from(densities),
        seed=seeds,
    )


def settings_of_all_kinds(most=(1, 2, 3, 5, 8, 100)):
    """Strategy for all parameters that change what is learned from a stream."""
    return st.fixed_dictionaries(
        {
            "rho": st.sampled_from([0.0, 0.5]) | st.floats(0.0, 0.5),
            "tau": st.floats(0.01, 0.99),
            "rho_min": st.just(0.0) | st.floats(0.0, 0.5),
            "epsilon": magnitudes(0.1, 10.0),
            "width": st.none() | magnitudes(0.1, 10.0),
            "floor": magnitudes(1e-3, 3.0),
            "max_components": st.sampled_from(most),
        }
    )


def is_clear(trace, rho) -> bool:
    """Is no margin, and no lead of a class over the next, in reach of rounding?"""
    known = trace.scores.max(axis=1) > -np.inf
    away = np.abs(trace.margins - [rho, *trace.rhos[:-1]])[known]
    best, second = -np.sort(-trace.scores[known], axis=1)[:, :2].T
    lead = best - second
    return bool(np.all(away > 1e-9 * np.maximum(1, trace.rhos[known])) and np.all(lead > 1e-9))


def sizes_of(learner):
    """Rows in each component, where all rows count."""
    return state_of(learner).model.mixture.sizes[: len(learner.components_)]


def play(learner, stream, form=np.asarray):
    """The learner after each row, fed one by one."""
    for x, label in zip(stream.X, stream.y, strict=True):
        yield learner.partial_fit(form(x[None]), [label], classes=range(stream.classes))


def assert_same(mine, other) -> None:
    """All that was learned, to the bit."""
    for name in ("components_", "means_", "variances_", "weights_"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), err_msg=name)
    for name in ("rho_", "n_mistakes_", "n_margin_errors_"):
        assert getattr(mine, name) == getattr(other, name), name


def three(rows=60, features=3, seed=0):
    return Stream(*three_classes(n=rows, d=features, spread=1.5, seed=seed), 3)


# ------------------------------------------------------------------------ the reference, and plain
@every_form
@settings(max_examples=60 if EVERYTHING else 25, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds())
def test_follows_the_reference_row_by_row(form, stream, parameters):
    trace = reference.noca(*stream, **parameters, keep=True)
    assume(is_clear(trace, parameters["rho"]))
    mistakes, errors = np.cumsum(trace.predictions != stream.y), np.cumsum(trace.errors)
    for i, learner in enumerate(play(NOCA(**parameters), stream, form)):
        expected = trace.history[i]
        np.testing.assert_array_equal(learner.components_, expected.labels)
        np.testing.assert_array_equal(sizes_of(learner), expected.counts)
        np.testing.assert_allclose(learner.means_, expected.means, **TOLERANCE)
        np.testing.assert_allclose(learner.variances_, expected.variances, **TOLERANCE)
        np.testing.assert_allclose(learner.rho_, trace.rhos[i], rtol=1e-10)
        assert (learner.n_mistakes_, learner.n_margin_errors_) == (mistakes[i], errors[i])
        if i + 1 < len(stream.X):
            following = form(stream.X[i + 1 : i + 2])
            logs, probabilities = learner._class_logs(following), learner.predict_proba(following)
            scores = trace.scores[i + 1]
            np.testing.assert_allclose(logs[0], scores, **TOLERANCE)
            np.testing.assert_allclose(
                probabilities[0], reference.probabilities(scores), **TOLERANCE
            )
            assert learner.predict(following) == trace.predictions[i + 1]


def test_full_set_makes_room_for_a_new_class():
    """The smallest component gives way, of those whose class has another."""
    learner = NOCA(epsilon=1.0, rho=0.0, max_components=3, shuffle=False)
    stream = np.array([[0.0], [0.1], [5.0], [9.0], [20.0], [20.1], [30.0]])
    labels = [0, 0, 0, 1, 2, 2, 3]
    learner.partial_fit(stream[:4], labels[:4], classes=range(4))
    assert learner.components_.tolist() == [0, 0, 1]
    assert sizes_of(learner).tolist() == [2, 1, 1]
    learner.partial_fit(stream[4:6], labels[4:6])
    assert learner.components_.tolist() == [0, 2, 1]
    learner.partial_fit(stream[6:], labels[6:])
    assert learner.components_.tolist() == [0, 2, 3]
    assert learner.means_[:, 0] == pytest.approx([0.05, 20.05, 30.0])
    assert learner.weights_ == pytest.approx([0.4, 0.4, 0.2])


@pytest.mark.parametrize("rho_min", [0.2, 0.01, 1e-4])
def test_below_the_smallest_margin_no_error_founds_a_component(rho_min):
    """Section 3.1: log_tau(rho_min / rho) components, where none is founded for its distance."""
    random = np.random.default_rng(0)
    stream = Stream(random.normal(size=(200, 3)), random.integers(3, size=200), 3)  # no pattern
    settings_ = {"rho": 0.3, "tau": 0.8, "epsilon": 1e3, "width": 0.5, "max_components": 200}
    limited, free = NOCA(rho_min=rho_min, **settings_), NOCA(**settings_)
    errors = before = 0
    for learner in play(limited, stream):
        errors += learner.rho_ >= rho_min and learner.n_margin_errors_ > before
        before = learner.n_margin_errors_
    assert errors == int(NOCA.max_founding_errors(rho_min, rho=0.3, tau=0.8))
    assert errors <= len(limited.components_) <= errors + 3
    free.partial_fit(stream.X, stream.y, classes=range(3))
    assert len(free.components_) > len(limited.components_)


def test_the_first_row_of_each_class_founds_a_component_below_the_smallest_margin():
    """Four founding errors, where one error brings the margin to `rho_min`."""
    clf = NOCA(rho=0.1, rho_min=0.09)
    X, y = [[0.0], [5.0], [10.0], [15.0]], [0, 1, 2, 3]
    clf.partial_fit(X, y, classes=range(4))
    assert clf.n_margin_errors_ == len(clf.components_) == 4
    assert NOCA.max_founding_errors(0.09) == pytest.approx(1.0)


@settings(max_examples=60 if EVERYTHING else 25, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds(most=(100,)))
def test_founding_errors_stay_below_the_bound(stream, parameters):
    """Apart from the first row of each class."""
    founded = errors = size = 0
    seen = set()
    for label, learner in zip(stream.y, play(NOCA(**parameters), stream), strict=True):
        is_error, grows = learner.n_margin_errors_ > errors, len(learner.components_) > size
        assert grows or label in seen
        founded += is_error and grows and label in seen
        errors, size = learner.n_margin_errors_, len(learner.components_)
        seen.add(label)
    named = {name: parameters[name] for name in ("rho_min", "rho", "tau")}
    assert founded <= NOCA.max_founding_errors(**named) + 1e-9


def test_founding_errors_in_numbers():
    assert NOCA.max_founding_errors(0.025, rho=0.1, tau=0.5) == pytest.approx(2.0)
    assert NOCA.max_founding_errors(0.2, rho=0.1, tau=0.5) == 0.0
    assert NOCA.max_founding_errors(0.0) == np.inf
    assert NOCA.max_founding_errors(0.1, rho=0.0) == 0.0


def test_one_component_is_that_of_the_last_class():
    stream = three()
    for i, learner in enumerate(play(NOCA(max_components=1), stream)):
        assert learner.components_.tolist() == [stream.y[i]]


def test_of_two_nearest_components_the_first_is_taken():
    learner = NOCA(epsilon=3.0, rho=0.5, max_components=3)
    learner.partial_fit([[0.0], [-1.0], [1.0]], ["a", "b", "b"], classes=["a", "b"])
    learner.partial_fit([[0.0]], ["b"])
    assert learner.means_[:, 0].tolist() == [0.0, -0.5, 1.0]


@pytest.mark.parametrize(
    ("classes", "first", "second"), [(["a", "b"], "b", "b"), (["a", "b", "c"], "a", "b")]
)
def test_of_equal_classes_the_positive_or_the_first_is_predicted(classes, first, second):
    """Before anything is known, and at a point with two labels."""
    for label in classes:
        learner = NOCA(rho=0.0).partial_fit([[0.0]], [label], classes=classes)
        assert learner.n_mistakes_ == (label != first)
        assert learner.n_margin_errors_ == 0
    learner = NOCA(rho=0.0).partial_fit([[0.0], [0.0]], classes[-2:], classes=classes)
    assert learner.predict([[7.0]]) == [second]


def assert_compiled_is_plain(learner, X, y, classes) -> None:
    learner = clone(learner).partial_fit(X, y, classes=range(classes))
    trainer = trainer_of(learner)
    mixture = new_mixture(trainer.kind, classes, X.shape[1], learner.max_components, learner.rho)
    rows = as_rows(X, NO_TAIL)
    labels, order = y.astype(np.int32), np.arange(y.size)
    mistakes = learn_mixture.plain(rows, labels, order, trainer.rule, mixture, np.empty((0, 0)))
    assert mistakes == learner.n_mistakes_
    for name, mine in mixture._asdict().items():
        np.testing.assert_array_equal(
            mine, getattr(state_of(learner).model.mixture, name), err_msg=name
        )
    logs = np.full((y.size, classes), np.nan)
    class_logs.plain(rows, mixture, logs)
    np.testing.assert_array_equal(learner._class_logs(X), logs)


@every_form
@settings(max_examples=20, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds())
def test_compiled_is_plain_to_the_bit(form, stream, parameters):
    assert_compiled_is_plain(NOCA(**parameters), form(stream.X), stream.y, stream.classes)


# -------------------------------------------------------------------------------- what is promised
@settings(max_examples=40, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds(most=[30]))
def test_components_are_what_their_rows_are(stream, parameters):
    parameters |= {"floor": 1e-8}
    width = parameters["width"] or parameters["epsilon"] / 2
    members: list[list[int]] = []
    for i, learner in enumerate(play(NOCA(**parameters), stream)):
        members += [[] for _ in range(len(learner.components_) - len(members))]
        (grown,) = np.flatnonzero(sizes_of(learner) != [len(rows) for rows in members])
        members[grown].append(i)
    for k, rows in enumerate(members):
        assert set(stream.y[rows]) == {learner.components_[k]}
        mean = stream.X[rows].mean(axis=0)
        squares = np.sum((stream.X[rows] - mean) ** 2, axis=0)
        np.testing.assert_allclose(learner.means_[k], mean, **TOLERANCE)
        np.testing.assert_allclose(
            learner.variances_[k], (width**2 + squares) / len(rows), **TOLERANCE
        )
    expected = [len(rows) / len(stream.X) for rows in members]
    np.testing.assert_allclose(learner.weights_, expected)


def test_variances_stop_at_the_floor():
    X = np.repeat([[0.0, 1.0], [9.0, 1.0]], 50, axis=0)
    learner = NOCA(epsilon=2.0, width=0.8, floor=0.5, rho=0.0, random_state=0).fit(X, X[:, 0])
    np.testing.assert_allclose(learner.variances_, 0.16)


@settings(max_examples=40, deadline=None)
@given(
    stream=streams(densities=[1.0]),
    parameters=settings_of_all_kinds(),
    scale=magnitudes(0.01, 100.0),
    seed=seeds,
)
def test_shift_and_scale_of_the_data_change_nothing(stream, parameters, scale, seed):
    trace = reference.noca(*stream, **parameters, keep=True)
    assume(is_clear(trace, parameters["rho"]))
    shift = scale * np.random.default_rng(seed).normal(scale=10.0, size=stream.X.shape[1])
    moved = stream._replace(X=scale * stream.X + shift)
    width = parameters["width"] and scale * parameters["width"]
    one, other = NOCA(**parameters), NOCA(**parameters)
    other.set_params(epsilon=scale * parameters["epsilon"], width=width)
    for learner, (X, y, classes) in ((one, stream), (other, moved)):
        learner.partial_fit(X, y, classes=range(classes))
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_allclose(scale * one.means_ + shift, other.means_, atol=1e-10 * scale)
    np.testing.assert_allclose(scale**2 * one.variances_, other.variances_, rtol=1e-9)
    assert (one.n_mistakes_, one.n_margin_errors_) == (other.n_mistakes_, other.n_margin_errors_)
    assert one.rho_ == other.rho_
    probabilities = one.predict_proba(stream.X), other.predict_proba(moved.X)
    np.testing.assert_allclose(*probabilities, rtol=0, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds(), rest=st.floats(0.01, 0.99))
def test_margin_shrinks_with_each_error(stream, parameters, rest):
    learner = NOCA(**parameters).partial_fit(stream.X, stream.y, classes=range(stream.classes))
    expected = parameters["rho"] * parameters["tau"] ** learner.n_margin_errors_
    assert learner.rho_ == pytest.approx(expected, rel=1e-12, abs=1e-300)
    if learner.rho_ >= rest * parameters["rho"] > 0:
        assert learner.n_margin_errors_ <= np.log(rest) / np.log(parameters["tau"]) + 1e-9


# ------------------------------------------------------------------------------- calls and passes
@every_form
@settings(max_examples=25, deadline=None)
@given(sizes=chunk_sizes(40), most=st.sampled_from([1, 4, 100]), seed=seeds)
def test_any_chunking_is_one_pass(form, sizes, most, seed):
    X, y, classes = three(rows=40, seed=seed)
    expected = NOCA(max_components=most, shuffle=False, max_iter=1).fit(form(X), y)
    learner = NOCA(max_components=most)
    for start, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        part = slice(start, start + size)
        learner.partial_fit(form(X[part]), y[part], classes=range(classes))
        learner = pickle.loads(pickle.dumps(learner))
    assert_same(learner, expected)


def test_interruptions_change_nothing(monkeypatch):
    X, y, _ = three()
    expected = NOCA(shuffle=False).fit(X, y)
    monkeypatch.setattr(noca, "VALUES_PER_CALL", 7 * X.shape[1] * 100)
    assert_same(NOCA(shuffle=False, verbose=1).fit(X, y), expected)


# ------------------------------------------------------------------------------------- predicting
@settings(max_examples=30, deadline=None)
@given(stream=streams(), parameters=settings_of_all_kinds(), far=magnitudes(1e-3, 1e6))
def test_outputs_belong_together(stream, parameters, far):
    labels = np.array(["a", "b", "c", "d"])[stream.y]
    learner = NOCA(**parameters).partial_fit(
        stream.X, labels, classes=["a", "b", "c", "d"][: stream.classes]
    )
    probabilities = learner.predict_proba(far * stream.X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert probabilities.min() >= 0.0
    outputs = learner.decision_function(far * stream.X)
    expected = probabilities[:, 1] - 0.5 if stream.classes == 2 else probabilities
    np.testing.assert_array_equal(outputs, expected)
    best = np.sort(probabilities, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-12
    predicted = learner.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(learner.predict(far * stream.X)[clear], predicted[clear])


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_many_dimensions(epsilon, scale):
    """Densities far from any number; warnings are errors here."""
    random = np.random.default_rng(0)
    X, y = scale * random.normal(size=(80, 784)), random.integers(3, size=80)
    X[:, :3] += 10 * scale * np.eye(3)[y]
    stream = Stream(X, y, 3)
    parameters = NOCA(epsilon=epsilon, max_components=30).get_params()
    for name in ("max_iter", "shuffle", "random_state", "verbose"):
        del parameters[name]
    trace = reference.noca(*stream, **parameters, keep=True)
    learner = NOCA(**parameters).partial_fit(X, y, classes=range(3))
    np.testing.assert_array_equal(learner.components_, trace.components.labels)
    assert learner.n_margin_errors_ == trace.errors.sum()
    assert learner.n_mistakes_ == np.sum(trace.predictions != y)
    np.testing.assert_allclose(learner.means_, trace.components.means, rtol=1e-10)
    np.testing.assert_allclose(learner.variances_, trace.components.variances, rtol=1e-10)
    for far in (1.0, 1e3, 1e40, 1e200):
        probabilities = learner.predict_proba(far * X)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        assert np.isfinite(learner.decision_function(far * X)).all()
    assert np.isfinite(learner.rho_)


def test_where_no_density_is_a_number_nothing_is_known():
    learner = NOCA(random_state=0).fit([[0.0], [3.0]], [0, 1])
    assert learner.predict_proba([[1e200]]).tolist() == [[0.5, 0.5]]
    learner = NOCA(random_state=0).fit([[0.0], [3.0], [6.0]], ["a", "b", "c"])
    np.testing.assert_allclose(learner.predict_proba([[1e200]]), 1 / 3)


def test_threads_can_predict_at_the_same_time():
    X, y, _ = three(rows=2000, features=20)
    learner = NOCA(epsilon=3.0, random_state=0).fit(X, y)
    expected = learner.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: learner.predict_proba(X), range(12)):
            np.testing.assert_array_equal(found, expected)


def test_predicts_from_memory_that_is_read_only(tmp_path):
    X, y, _ = three()
    learner = NOCA(random_state=0).fit(X, y)
    joblib.dump(learner, tmp_path / "learner")
    loaded = joblib.load(tmp_path / "learner", mmap_mode="r")
    np.testing.assert_array_equal(loaded.predict_proba(X), learner.predict_proba(X))
    assert_same(loaded, learner)


def test_what_is_read_is_a_copy():
    X, y, _ = three()
    learner = NOCA(random_state=0).fit(X, y)
    before = learner.predict_proba(X)
    for name in ("components_", "means_", "variances_", "weights_"):
        getattr(learner, name)[...] = 0
    np.testing.assert_array_equal(learner.predict_proba(X), before)


# ---------------------------------------------------------------------------------- memory, copies
@every_form
def test_memory_does_not_grow(form):
    X, y, classes = three(rows=3000, features=5)
    learner = NOCA(max_components=7).partial_fit(form(X[:1]), y[:1], classes=range(classes))
    size = len(pickle.dumps(learner))
    for part in np.array_split(np.arange(1, 3000), 9):
        learner.partial_fit(form(X[part]), y[part])
    arrays = state_of(learner).model.mixture
    assert len(learner.components_) == len(learner.means_) == 7
    assert sum(array.nbytes for array in arrays) <= 8 * (7 * (2 * 5 + 5) + 5 + 3 + 4)
    assert len(pickle.dumps(learner)) <= size + 16  # integers are longer when larger
    assert sizes_of(learner).sum() == 3000


def test_parameters_can_change_on_a_stream():
    """The margin of the start does not matter any more, the others do from now on."""
    X, y, classes = three()
    new = {"tau": 0.5, "epsilon": 0.4, "width": 0.3, "floor": 0.9}
    learner = NOCA().partial_fit(X[:30], y[:30], classes=range(classes))
    rho, errors = learner.rho_, learner.n_margin_errors_
    learner.set_params(**new, rho=0.4).partial_fit(X[30:], y[30:])
    assert learner.rho_ == pytest.approx(rho * 0.5 ** (learner.n_margin_errors_ - errors))
    assert learner.variances_.min() >= (0.9 * 0.3) ** 2 - 1e-15
    assert learner.get_params() == NOCA(**new, rho=0.4).get_params()


# --------------------------------------------------------------------------------------- bad input
GOOD = three(rows=12, features=4)


@pytest.fixture
def fitted():
    return NOCA(max_components=8, random_state=0).fit(GOOD.X, GOOD.y)


def test_margins_of_probabilities_are_at_most_a_half():
    with pytest.raises(ValueError, match=r"'rho' parameter of NOCA must be .* \[0\.0, 0\.5\]"):
        NOCA(rho=0.6).partial_fit([[0.0]], [1], classes=[0, 1])


@pytest.mark.parametrize("size", [1e-49, 1e49])
@pytest.mark.parametrize("length", [1e-50, 1e50])
def test_extremes_that_are_allowed(size, length):
    X = size * GOOD.X / np.linalg.norm(GOOD.X, axis=1, keepdims=True)
    learner = NOCA(epsilon=length, width=length, floor=length, random_state=0)
    learner.fit(X, GOOD.y)
    assert np.isfinite(learner.predict_proba(X)).all()
    assert np.isfinite(learner.variances_).all()
    assert learner.variances_.min() > 0.0


@pytest.mark.parametrize("most", [7, 9])
def test_number_of_components_is_fixed_on_a_stream(fitted, most):
    before = pickle.loads(pickle.dumps(fitted))
    fitted.set_params(max_components=most)
    with pytest.raises(ValueError, match="'max_components' parameter of NOCA cannot change"):
        fitted.partial_fit(GOOD.X, GOOD.y)
    assert_same(fitted, before)
    fitted.fit(GOOD.X, GOOD.y)  # which starts anew
    fitted.partial_fit(GOOD.X, GOOD.y)


def test_a_column_that_has_no_number_is_named():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"height": [1.0, 2.0], "width": [1.0, np.nan]})
    for learn in (NOCA().fit, NOCA(max_iter=2).fit):
        with pytest.raises(ValueError, match=r"row 1, column 'width'"):
            learn(table, [0, 1])
    with pytest.raises(ValueError, match=r"row 1, column 'width'"):
        NOCA().partial_fit(table, [0, 1], classes=[0, 1])
