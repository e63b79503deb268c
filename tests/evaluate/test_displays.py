"""Pictures of streams, fits and weights: what they show, and where they draw it."""

import re

import numpy as np
import pytest
from problems import overlapping, three_classes
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    AutoMargin,
    ConformalClassifier,
    FixedShare,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
    Projectron,
)
from maxmargin.datasets import make_separable
from maxmargin.evaluate import (
    AbstentionDisplay,
    MarginDisplay,
    PathDisplay,
    ProgressiveDisplay,
    ScalesDisplay,
    WeightsDisplay,
    progressive,
)
from maxmargin.streams import Recipe

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_figures_are_left():
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def texts(labels):
    return [label.get_text() for label in labels]


# --------------------------------------------------------------------------------------- of streams
def test_mistakes_and_recent_accuracy_of_several_learners():
    X, y = overlapping(n=600, d=3)
    learners = [Perceptron(), ALMA()]
    display = ProgressiveDisplay.from_estimator(learners, X, y, step=50, window=100)
    above, below = display.ax_
    assert display.figure_ is above.figure
    assert not any(hasattr(clf, "classes_") for clf in learners)  # copies have learned
    for clf, mistakes, recent in zip(learners, above.get_lines(), below.get_lines(), strict=True):
        expected = progressive(clf, X, y, step=50)
        np.testing.assert_array_equal(mistakes.get_ydata(), expected.mistakes)
        np.testing.assert_array_equal(recent.get_ydata(), 100 * expected.recent_accuracy(100))
    display.figure_.canvas.draw()
    assert [text.split(":")[0] for text in texts(above.get_legend().get_texts())] == [
        "Perceptron",
        "ALMA",
    ]


def test_learners_go_on_from_what_they_know():
    X, y = overlapping(n=300, d=3)
    clf = Perceptron().partial_fit(X[:200], y[:200], [-1, 1])
    display = ProgressiveDisplay.from_estimator(clf, X[200:], y[200:])
    assert clf.n_updates_ < display.results[0].updates[-1]
    expected = progressive(clf, X[200:], y[200:])
    np.testing.assert_array_equal(display.results[0].wrong, expected.wrong)


def test_one_picture_has_recent_accuracy_alone():
    X, y = overlapping(n=300, d=3)
    result = progressive(Perceptron(), X, y, step=50)
    _, ax = pyplot.subplots()
    display = ProgressiveDisplay.from_results(result, names=["mine"], window=70, ax=ax)
    assert display.ax_ is ax
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), 100 * result.recent_accuracy(70))
    assert texts(ax.get_legend().get_texts()) == ["mine"]
    with pytest.raises(ValueError, match="a pair of them, got 3"):
        display.plot(pyplot.subplots(3)[1])
    with pytest.raises(ValueError, match="names has 2 of 1 results"):
        ProgressiveDisplay.from_results(result, names=["a", "b"])


# ------------------------------------------------------------------------------------------ of fits
@pytest.fixture(scope="module")
def separable():
    return make_separable(150, 4, gap=1.0, random_state=0)


@pytest.mark.parametrize("clf", [PUMMA(delta=0.1), Perceptron(), ALMA(p=4.0)], ids=str)
def test_a_run_ends_where_the_fit_ends(separable, clf):
    X, y = separable
    display = MarginDisplay.from_estimator(clf, X, y)
    fitted = clf.set_params(shuffle=False).fit(X, y)
    last = display.moments[-1]
    assert last.updates == fitted.n_updates_
    assert last.bound == fitted.certificate_.bound
    assert last.margin == pytest.approx(fitted.certificate_.margin)
    bound, margin = display.lines_
    np.testing.assert_array_equal(margin.get_ydata(), [each.margin for each in display.moments])
    np.testing.assert_array_equal(bound.get_xdata(), [each.updates for each in display.moments])
    low, high = display.ax_.get_ylim()
    assert low <= last.margin <= last.bound <= high


def test_the_weakest_of_several_classes():
    X, y = three_classes(n=60, d=3)
    clf = Perceptron(max_iter=5, shuffle=False)
    last = MarginDisplay.from_estimator(clf, X, y).moments[-1]
    certificate = clf.fit(X, y).certificate_
    assert last.bound == certificate.bound
    assert last.margin == pytest.approx(certificate.margin)


def test_two_learners_in_one_picture(separable):
    X, y = separable
    first = MarginDisplay.from_estimator(Perceptron(), X, y)
    second = MarginDisplay.from_estimator(PUMMA(delta=0.1), X, y, name="mine", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert first.lines_[0].get_color() != second.lines_[0].get_color()
    high = first.ax_.get_ylim()[1]
    assert max(display.moments[-1].bound for display in (first, second)) < high
    assert sum("mine" in text for text in texts(first.ax_.get_legend().get_texts())) == 2


def test_rows_that_cannot_be_separated():
    X, y = overlapping(n=100, d=3, distance=0.5)
    display = MarginDisplay.from_estimator(Perceptron(max_iter=5), X, y)
    last = display.moments[-1]
    assert last.margin < 0.0
    assert display.ax_.get_ylim()[0] < last.margin


@pytest.mark.parametrize(
    ("clf", "error", "message"),
    [
        (NOCA(), TypeError, "needs a learner with partial_fit and a certificate, .* got NOCA"),
        (MaxMargin(), TypeError, "such as PUMMA; got MaxMargin"),
        (LogisticRegression(), TypeError, "got LogisticRegression"),
        (Perceptron(kernel="rbf"), ValueError, "needs kernel='linear', got 'rbf'"),
        (Perceptron(soft_margin=1.0), ValueError, "needs soft_margin=0.0, got 1.0"),
        (AMIRA(), ValueError, "needs multiclass='ovr' for several classes, got 'k-best'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fits_that_have_no_picture(clf, error, message):
    X, y = three_classes(n=30, d=3)
    with pytest.raises(error, match=message):
        MarginDisplay.from_estimator(clf, X, y)


def test_a_pipeline_shows_the_space_of_its_last_step(separable):
    X, y = separable
    scaler, clf = StandardScaler(), PUMMA(delta=0.1)
    pipeline = make_pipeline(scaler, clf)
    display = MarginDisplay.from_estimator(pipeline, 100.0 * X, y)
    assert not hasattr(scaler, "mean_")  # copies were fitted
    expected = MarginDisplay.from_estimator(clf, StandardScaler().fit_transform(100.0 * X), y)
    assert display.moments == expected.moments
    assert display.name == type(clf).__name__


def test_the_last_step_of_a_pipeline_on_a_stream():
    X, y = overlapping(n=300, d=3)
    X = X * [1.0, 100.0, 0.01]
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(scaler, Perceptron())
    display = ProgressiveDisplay.from_estimator([pipeline, Perceptron()], X, y)
    for result, rows in zip(display.results, [scaler.transform(X), X], strict=True):
        np.testing.assert_array_equal(result.wrong, progressive(Perceptron(), rows, y).wrong)
    assert not hasattr(pipeline[-1], "classes_")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ProgressiveDisplay.from_estimator(make_pipeline(StandardScaler(), Perceptron()), X, y)
    with pytest.raises(ValueError, match=r"needs X and y for pipelines.*recipe="):
        ProgressiveDisplay.from_estimator(pipeline, [(X, y)])


# --------------------------------------------------------------------------------------- of weights
def bars(axes):
    """Names and lengths, from top to bottom."""
    return list(
        zip(
            texts(axes.get_yticklabels())[::-1],
            [bar.get_width() for bar in axes.patches][::-1],
            strict=True,
        )
    )


def test_largest_weights_come_first():
    display = WeightsDisplay(
        np.array([0.5, -2.0, 0.0, 1.0]), names=["a", "b", "c", "d"], classes=["no", "yes"]
    ).plot()
    assert bars(display.ax_) == [("b", -2.0), ("d", 1.0), ("a", 0.5)]  # and none that is 0
    assert "← no" in display.ax_.get_title()
    assert "yes →" in display.ax_.get_title()
    assert bars(display.plot(n=1).ax_) == [("b", -2.0)]
    assert bars(display.plot(class_="no").ax_)[0] == ("b", 2.0)


def test_a_panel_for_each_class_or_one_class():
    X, y = three_classes(n=60, d=5)
    clf = AMIRA(max_iter=3, random_state=0).fit(X, np.array(["x", "y", "z"])[y])
    display = WeightsDisplay.from_estimator(clf, n=2)
    assert [axes.get_title() for axes in display.ax_] == ["x", "y", "z"]
    for axes, weights in zip(display.ax_, clf.coef_, strict=True):
        largest = np.argsort(-np.abs(weights))[:2]
        assert bars(axes) == [(f"x{k}", weights[k]) for k in largest]
    one = WeightsDisplay.from_estimator(clf, n=2, class_="z", ax=pyplot.subplots()[1])
    assert bars(one.ax_) == bars(display.ax_[2])
    with pytest.raises(ValueError, match="ax must have 3 axes, one for each class, got 1"):
        WeightsDisplay.from_estimator(clf, ax=pyplot.subplots()[1])
    with pytest.raises(ValueError, match=r"class_ must be one of \['x', 'y', 'z'\], got 'w'"):
        WeightsDisplay.from_estimator(clf, class_="w")


def test_names_are_those_of_tables_dicts_and_pipelines():
    pandas = pytest.importorskip("pandas")
    X, y = overlapping(n=50, d=3)
    table = pandas.DataFrame(X, columns=["size", "age", "height"])
    of_table = WeightsDisplay.from_estimator(Perceptron(random_state=0).fit(table, y))
    assert {name for name, _ in bars(of_table.ax_)} == {"size", "age", "height"}
    pipeline = make_pipeline(StandardScaler(), Perceptron(random_state=0)).fit(table, y)
    of_pipeline = WeightsDisplay.from_estimator(pipeline)
    assert {name for name, _ in bars(of_pipeline.ax_)} == {"size", "age", "height"}
    clf = Perceptron().learn_one({"cheap": 1.0}, True, classes=[False, True])
    clf.learn_one({"hello": 2.0}, False)
    assert {name for name, _ in bars(WeightsDisplay.from_estimator(clf).ax_)} == {"cheap", "hello"}


def test_hashed_features_have_the_names_of_their_columns():
    rows = [
        ({"size": 1.0, "comment": "cheap winner", "city": "Ulm"}, "spam"),
        ({"size": -1.0, "comment": "hello friend", "city": "Bern"}, "ham"),
    ]
    names = {}
    for bare, kinds in {
        "words": {"comment": "text", "city": "drop"},
        "values": {"comment": "text", "city": "hashed"},
    }.items():
        clf = Perceptron().fit_stream(rows, recipe=Recipe(kinds, hash_bits=5))
        names[bare] = {name for name, _ in bars(WeightsDisplay.from_estimator(clf).ax_)}
    places = FeatureHasher(2**5, alternate_sign=False).transform(
        [{"comment": word} for word in ("cheap", "winner", "hello", "friend")]
    )
    expected = {f"comment: hashed word {k}" for k in places.nonzero()[1]}
    assert names["words"] == {"size"} | expected
    assert all(
        re.fullmatch(r"size|comment, city: hashed value \d+", one) for one in names["values"]
    )
    table = [{"size": 1.0, "city": "Ulm"}, {"size": 2.0, "city": "Bern"}]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table).assign(label=["no", "yes"])
    clf = Perceptron().fit_stream(frame, recipe=Recipe({"city": "category"}))
    expected = ["size", "city is missing", "city is another", "city=Ulm", "city=Bern"]
    assert clf.feature_names_in_.tolist() == expected


def test_other_linear_classifiers_and_names_that_are_given():
    X, y = overlapping(n=50, d=2)
    clf = LogisticRegression().fit(X, y)
    display = WeightsDisplay.from_estimator(clf, feature_names=["left", "x" * 60])
    assert sorted(map(len, dict(bars(display.ax_)))) == [4, 40]  # long ones are cut
    with pytest.raises(ValueError, match="There are 1 names of 2 features"):
        WeightsDisplay.from_estimator(clf, feature_names=["left"])


def test_weights_that_have_no_picture():
    X, y = overlapping(n=50, d=2)
    kernel = Perceptron(kernel="rbf", gamma=1.0, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="needs a linear classifier with coef_, got Perceptron"):
        WeightsDisplay.from_estimator(kernel)
    clf = Perceptron(random_state=0).fit(X, y)
    for n in (0, 2.5):
        with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
            WeightsDisplay.from_estimator(clf, n=n)
    many = WeightsDisplay(np.eye(10), names=list("abcdefghij"), classes=np.arange(10))
    with pytest.raises(ValueError, match="There are 10 classes: choose one of them by class_"):
        many.plot()
    assert bars(many.plot(class_=3).ax_) == [("d", 1.0)]


# ----------------------------------------------------------------------------------------- of paths
def test_error_and_loss_are_drawn():
    X, y = load_iris(return_X_y=True)
    display = PathDisplay.from_estimator(make_pipeline(StandardScaler(), MaxMargin()), X, y)
    path = MaxMargin().path(StandardScaler().fit_transform(X), y)
    error, loss = display.lines_
    np.testing.assert_array_equal(error.get_xdata(), path.lambdas)
    np.testing.assert_allclose(error.get_ydata(), 100.0 * path.loo_error)
    np.testing.assert_array_equal(loss.get_ydata(), path.loo_loss)
    assert f"soft_margin={path.soft_margin:.3g}" in display.ax_[0].get_title()
    assert display.figure_ is display.ax_[1].figure


def test_one_pair_of_axes_has_the_error():
    clf = MaxMargin(soft_margin="auto").fit(*load_iris(return_X_y=True))
    _, axes = pyplot.subplots()
    display = PathDisplay.from_path(clf.path_, ax=axes)
    assert display.ax_ is axes
    assert len(display.lines_) == 1
    with pytest.raises(ValueError, match="axes or a pair of them, got 3"):
        display.plot(pyplot.subplots(3)[1])


def test_other_learners_have_no_path():
    with pytest.raises(TypeError, match="PathDisplay needs MaxMargin, got Perceptron"):
        PathDisplay.from_estimator(Perceptron(), *load_iris(return_X_y=True))


# ------------------------------------------------------------- every display, every recommendation
RECOMMENDED = {
    "MaxMargin": MaxMargin(soft_margin="auto", calibration="loo"),
    "MaxMargin, rbf": MaxMargin(soft_margin="auto", kernel="rbf"),
    "AutoMargin": AutoMargin(),
    "AutoMargin, rbf": AutoMargin(kernel="rbf"),
    "PUMMA": PUMMA(),
    "NORMA": NORMA(),
    "NOCA": NOCA(max_components=5),
    "FixedShare": FixedShare(),
    "Projectron": Projectron(kernel="rbf", gamma=0.5),
    "PassiveAggressive": PassiveAggressive(C=0.1),
    "ConformalClassifier": ConformalClassifier(PassiveAggressive(C=0.1)),
}
DRAWN = {
    ProgressiveDisplay: set(RECOMMENDED) - {"MaxMargin", "MaxMargin, rbf"},
    MarginDisplay: {"PUMMA", "NORMA", "PassiveAggressive"},
    WeightsDisplay: {"MaxMargin", "PUMMA", "NORMA", "PassiveAggressive", "AutoMargin"},
    PathDisplay: {"MaxMargin", "MaxMargin, rbf"},
    AbstentionDisplay: set(RECOMMENDED) - {"MaxMargin", "MaxMargin, rbf"},
}


@pytest.mark.parametrize("before", [StandardScaler, Recipe, None])
@pytest.mark.parametrize("name", RECOMMENDED)
def test_displays_draw_recommended_estimators_or_say_what_they_need(name, before):
    X, y = overlapping(n=120, d=3)
    clf = clone(RECOMMENDED[name])
    seeds = {each: 0 for each in clf.get_params() if each.split("__")[-1] == "random_state"}
    clf.set_params(**seeds)
    clf = (make_pipeline(before(), clf) if before else clf).fit(X, y)
    for display, drawn in DRAWN.items():
        given = (X, y) if display is not WeightsDisplay else ()
        if name in drawn:
            display.from_estimator(clf, *given).figure_.canvas.draw()
        else:
            with pytest.raises((TypeError, ValueError), match=f"{display.__name__} needs|clf must"):
                display.from_estimator(clf, *given)


def test_scales_of_columns():
    table, y = load_iris(return_X_y=True, as_frame=True)
    clf = MaxMargin(kernel="auto").fit(table, y)
    display = ScalesDisplay.from_estimator(clf, n=2)
    named = dict(zip(table.columns, clf.column_scales_, strict=True))
    assert dict(bars(display.ax_)) == dict(sorted(named.items(), key=lambda each: -each[1])[:2])
    piped = make_pipeline(Recipe(), MaxMargin(kernel="auto")).fit(table, y)
    assert {name for name, _ in bars(ScalesDisplay.from_estimator(piped).ax_)} == set(named)
    with pytest.raises(TypeError, match="column_scales_"):
        ScalesDisplay.from_estimator(MaxMargin().fit(table, y))
    with pytest.raises(ValueError, match="names"):
        ScalesDisplay(np.ones(2), names=["one"])
    with pytest.raises(ValueError, match="n must be"):
        display.plot(n=0)
