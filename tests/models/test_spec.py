"""Models from specifications alone: what makes two alike, and that growth leaves no trace."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from extent import everything_or
from models.kinds import (
    ON_FULL,
    RBF,
    SPECS,
    Data,
    begun,
    changed,
    content_of,
    data,
    fitted,
    learn_all,
    rule_for,
)
from scipy import sparse

from maxmargin.core.rows import Tail
from maxmargin.kernels.products import Products
from maxmargin.models.base import OnlineModel, build
from maxmargin.models.budget_model import BudgetModel
from maxmargin.models.kernel_model import JointKernelModel, KernelModel, PairKernelModel
from maxmargin.models.linear_model import JointModel, LinearModel, PairModel
from maxmargin.models.spec import (
    BudgetSpec,
    DiagonalSpec,
    ExpansionSpec,
    KernelSpec,
    LinearSpec,
    MixtureSpec,
    Regularization,
    VoteSpec,
)

every_kind = pytest.mark.parametrize("name", SPECS)
every_form = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])

KINDS = {
    "linear": LinearModel,
    "linear, pairs": PairModel,
    "linear, joint": JointModel,
    "kernel": KernelModel,
    "kernel, pairs": PairKernelModel,
    "kernel, joint": JointKernelModel,
    "budget, oldest": BudgetModel,
    "linear budget, project": BudgetModel,
}


def classes_for(name: str) -> int:
    return 3 if "joint" in name else 2


# ---------------------------------------------------------------------------- building and learning
@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_the_kind_of_a_model(name, kind):
    model = begun(SPECS[name], data(3))
    assert type(model) is kind
    assert (model.problems(), model.width()) == (3, 4)
    assert model.spec is SPECS[name]


@pytest.mark.parametrize("name", ["linear, joint", "kernel, joint"])
def test_two_classes_are_never_learned_jointly(name):
    assert begun(SPECS[name], data(2)).n_margins() == 1
    assert type(begun(SPECS[name], data(2))) in (LinearModel, KernelModel)


@every_kind
@every_form
def test_a_model_learns_without_an_estimator(name, form):
    given = data(classes_for(name))
    given = given._replace(X=form(given.X))
    model, outcome = fitted(SPECS[name], given)
    assert isinstance(model, OnlineModel)
    assert outcome.n_iter >= 1
    assert outcome.margins.shape == (model.n_margins(),)
    assert (model.bounds() >= outcome.margins).all()
    outputs = model.outputs(given.X)
    assert outputs.shape == (60, given.problems())
    guesses = outputs.argmax(axis=1) if given.classes == 3 else outputs[:, 0] >= 0.0
    assert model.is_full() == ("budget" in name)
    assert model.is_full() or np.mean(guesses == given.codes) > 0.7
    if "p-norm" in name:
        assert model.p == 3.0


@every_kind
def test_the_same_specification_gives_the_same_model(name):
    given = data(classes_for(name))
    models = [fitted(replace(SPECS[name]), given)[0] for _ in "12"]
    assert changed(content_of(models[0]), models[1]) == []


def test_nothing_is_left_to_chance_in_tails():
    spec = LinearSpec(intercept_scaling="max", soft_margin=4.0)
    assert spec.tail(3.0) == Tail(3.0, 2.0)
    assert spec.tail(None) == Tail(1.0, 2.0)
    assert replace(spec, fit_intercept=False).tail(3.0) == Tail(0.0, 2.0)
    assert LinearSpec(intercept_scaling=0.5).tail(3.0) == Tail(0.5, 0.0)


def test_the_radius_is_measured_in_the_space_of_the_rows():
    given = data()
    spec = LinearSpec(intercept_scaling="max")
    X = np.abs(given.X)
    far = np.linalg.norm(X, axis=1).max()
    assert build(spec, 1, X, radius=far).model.tail.offset == far
    cubic = build(replace(spec, p=3.0), 1, X, radius=far)
    assert cubic.radius == pytest.approx(np.linalg.norm(X, ord=3, axis=1).max())
    assert cubic.model.tail.offset == cubic.radius
    gaussian = build(ExpansionSpec(**RBF, intercept_scaling="max"), 1, X, radius=far)
    assert gaussian.radius == gaussian.model.tail.offset == 1.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (LinearSpec(multiclass="k-best", p=3.0), "'p' parameter must be 2 unless multiclass='ovr'"),
        (LinearSpec(average=True, p=3.0), "'average' parameter needs p=2"),
        (ExpansionSpec(**RBF, p=3.0), "'p' parameter must be 2 with a kernel, got 3.0"),
        (BudgetSpec(budget=5, on_full="oldest", p=3.0), "'p' parameter cannot be 3.0 on a budget"),
        (
            BudgetSpec(budget=5, on_full="oldest", average=True),
            "'average' parameter cannot be True on a budget",
        ),
        (
            BudgetSpec(budget=5, on_full="oldest", intercept="pair"),
            "'intercept' parameter cannot be 'pair' on a budget",
        ),
    ],
)
def test_what_does_not_go_together(spec, message):
    given = data(3)
    with pytest.raises(ValueError, match=message):
        build(spec, 3, given.X)


# ---------------------------------------------------------------------------------- same structure
# A legal change of each field that counts in comparisons, and of each that does not.
OF_WEIGHTS = {
    "fit_intercept": False,
    "intercept_scaling": 2.0,
    "soft_margin": 1.0,
    "p": 3.0,
    "intercept": "pair",
    "average": True,
    "multiclass": "k-best",
    "k": 2,
}
OTHERS = {
    LinearSpec: OF_WEIGHTS,
    DiagonalSpec: {
        **OF_WEIGHTS,
        "scaling": "columns",
        "metric": "confidence",
        "regularization": Regularization(),
    },
    ExpansionSpec: {**OF_WEIGHTS, "kernel": KernelSpec("rbf")},
    BudgetSpec: {
        **OF_WEIGHTS,
        "kernel": KernelSpec("rbf"),
        "budget": 10,
        "on_full": "random",
        "threshold": 0.5,
        "careful": True,
        "plus": True,
    },
    VoteSpec: {"experts": (LinearSpec(),)},
    MixtureSpec: {
        "fit_intercept": False,
        "kernel": "rbf",
        "n_components": 8,
        "full_matrix_columns": 8,
        "mixture": ("by column",),
    },
}
SETTINGS = {"lengths": False, "in_plane": True, "smallest": 0.1, "certified": None}
every_spec = pytest.mark.parametrize("kind", OTHERS)


@every_spec
def test_what_makes_a_difference(kind):
    plain, others = kind(), OTHERS[kind]
    assert {each.name for each in fields(kind)} - {*SETTINGS} == {*others}
    for name, value in others.items():
        other = kind(**{name: value})
        assert plain != other
        if not is_dataclass(value):
            assert plain.difference(other) == (name, getattr(plain, name), value)
            assert other.difference(plain) == (name, value, getattr(plain, name))


@every_spec
def test_what_makes_none(kind):
    plain = kind()
    for name in {each.name for each in fields(kind)} & {*SETTINGS}:
        other = kind(**{name: SETTINGS[name]})
        assert plain == other
        assert hash(plain) == hash(other)
        assert plain.difference(other) is None


def test_a_kernel_may_move_to_another_device():
    plain, moved = KernelSpec("rbf"), KernelSpec("rbf", device="cuda", cache_size=1.0)
    assert ExpansionSpec(kernel=plain).difference(ExpansionSpec(kernel=moved)) is None
    wide = ExpansionSpec(kernel=KernelSpec("rbf", gamma=2.0))
    assert ExpansionSpec(kernel=plain).difference(wide) == ("gamma", "scale", 2.0)


def test_parameters_of_one_kind_are_unset_in_others():
    kernel = KernelSpec("rbf")
    assert LinearSpec().difference(ExpansionSpec(kernel=kernel)) == ("kernel", "linear", "rbf")
    assert LinearSpec().difference(BudgetSpec(budget=5)) == ("budget", None, 5)
    mild, strict = (DiagonalSpec(regularization=Regularization(l1=l1)) for l1 in (0.5, 2.0))
    assert mild.difference(strict) == ("l1", 0.5, 2.0)
    scaled = DiagonalSpec(scaling="columns", metric="confidence")
    assert scaled.difference(LinearSpec()) == ("scaling", "columns", None)


def test_of_several_differences_the_first_is_named():
    assert LinearSpec().difference(LinearSpec(p=3.0, average=True)) == ("p", 2.0, 3.0)
    assert LinearSpec().difference(LinearSpec()) is None


def test_a_kernel_of_the_user_is_the_same_if_it_is_the_same_object():
    def one(some, others):
        return some @ others.T

    def two(some, others):
        return some @ others.T

    first, second = (ExpansionSpec(kernel=KernelSpec(each)) for each in (one, two))
    assert first == ExpansionSpec(kernel=KernelSpec(one))
    assert first.difference(second) == ("kernel", one, two)


def test_a_specification_cannot_change():
    with pytest.raises(AttributeError):
        LinearSpec().p = 3.0


@pytest.mark.parametrize("width", [1, 2, 3, 10, 100, 50_000])
def test_the_exponent_for_log(width):
    p = LinearSpec(p="log").exponent(width)
    assert p >= 2.0
    assert 4 * p == round(4 * p)
    assert p == 2.0 or abs(p - 2 * np.log(width)) <= 0.125
    assert LinearSpec(p=9.21).exponent(width) == 9.21


def test_the_exponent_for_log_in_numbers():
    log = LinearSpec(p="log")
    assert [log.exponent(width) for width in (2, 3, 100)] == [2.0, 2.25, 9.25]
    wide = Data(np.eye(20), np.arange(20, dtype=np.int32) % 2, 2)
    assert fitted(log, wide)[0].p == 6.0


# ------------------------------------------------------------------ other models that know the same
MORE = slice(60, 90)


def old_and_more(name):
    """A fitted model, and rows that it has not seen."""
    everything = data(classes_for(name), n=90)
    return fitted(SPECS[name], everything.part(slice(0, 60)))[0], everything.part(MORE)


@every_kind
def test_a_twin_learns_by_itself(name):
    model, more = old_and_more(name)
    before, other = content_of(model), model.copy()
    assert changed(before, other) == []
    if other.p != 2.0 and other.tail.private > 0.0:
        return
    learn_all(other.streaming(2), more)
    assert changed(before, model) == []


@every_kind
def test_growth_leaves_the_old_model_whole(name):
    model, more = old_and_more(name)
    model = model.streaming(2)
    before, outputs = content_of(model), model.outputs(more.X)
    codes = np.arange(more.classes)
    wider = model.grown(7, range(model.problems()), codes)
    assert wider.width() == 7
    assert model.width() == 4
    assert changed(before, model) == []
    X = np.pad(more.X, ((0, 0), (0, 3)))
    np.testing.assert_allclose(wider.outputs(X), outputs, rtol=1e-12, atol=1e-12)
    X[:, 4:] = more.X[:, :3]
    learn_all(wider, more._replace(X=X))
    assert wider.updates() > model.updates()
    assert changed(before, model) == []
    np.testing.assert_array_equal(model.outputs(more.X), outputs)


# Several problems of p-norms are compiled for seconds; their arrays grow as those of other spaces.
FEW_SPECS = [name for name in SPECS if "joint" not in name and "p-norm" not in name]
ALL_SPECS = [name for name in SPECS if "joint" not in name]


@pytest.mark.parametrize("name", everything_or(FEW_SPECS, ALL_SPECS))
def test_several_problems_that_continue_one(name):
    """Each goes its own way, and none changes the old one."""
    model, more = old_and_more(name)
    model = model.streaming(2)
    before, outputs = content_of(model), model.outputs(more.X)
    three = model.grown(4, [0, 0, 0], np.arange(2))
    assert three.problems() == 3
    np.testing.assert_allclose(three.outputs(more.X), np.repeat(outputs, 3, axis=1), rtol=1e-12)
    codes = np.random.default_rng(0).integers(3, size=30).astype(np.int32)
    learn_all(three, Data(more.X, codes, 3))
    each = three.outputs(more.X).T
    assert not np.allclose(each[0], each[1])
    assert not np.allclose(each[1], each[2])
    assert changed(before, model) == []


@pytest.mark.parametrize("on_full", ON_FULL)
def test_growth_before_the_first_row(on_full):
    spec, given = SPECS[f"budget, {on_full}"], data(n=90)
    model = begun(spec, given)
    before = content_of(model)
    wider = model.grown(7, [0], np.arange(2))
    learn_all(wider, given._replace(X=np.pad(given.X, ((0, 0), (0, 3)))))
    assert wider.updates() > 0
    assert changed(before, model) == []


@every_kind
def test_streaming_leaves_the_old_model_whole(name):
    """It may be the same model where nothing has to change; its rows are then numbered anew."""
    model, more = old_and_more(name)
    before, outputs, bounds = content_of(model), model.outputs(more.X), model.bounds()
    stream = model.streaming(1000)
    np.testing.assert_array_equal(stream.outputs(more.X), outputs)
    assert (stream.bounds() >= bounds * (1.0 - 1e-6)).all()
    assert stream.private_coordinates() == 0
    if stream is model:
        assert model.private_coordinates() == 0
        assert set(changed(before, model)) <= {".pair.numbers"}
        return
    assert changed(before, model) == []
    learn_all(stream, more)
    assert stream.updates() > model.updates()
    assert changed(before, model) == []
    np.testing.assert_array_equal(model.outputs(more.X), outputs)


@every_kind
def test_continuing_leaves_the_old_model_whole(name):
    everything = data(classes_for(name), n=60)
    model, _ = fitted(SPECS[name], everything, max_iter=1)
    before, outputs = content_of(model), model.outputs(everything.X)
    after = model.continued()
    np.testing.assert_array_equal(after.outputs(everything.X), outputs)
    rows = after.fit_rows(everything.X)
    after.begin_fit(rows)
    other = everything._replace(codes=np.roll(everything.codes, 1))  # there is more to learn
    if name == "kernel, pairs":  # whose partners must be what they were
        other = everything
    for _ in range(2):
        order = np.arange(60, dtype=np.int32)
        after.learn_from(rows, other.targets(), order, rule_for(after.spec))
    after.end_fit()
    assert after.updates() > model.updates()
    assert changed(before, model) == []
    np.testing.assert_array_equal(model.outputs(everything.X), outputs)


def test_products_are_those_that_were_given():
    mine = Products()
    assert begun(SPECS["kernel"], data(), products=mine).products is mine
    assert begun(SPECS["budget, oldest"], data(), products=mine).products is mine
