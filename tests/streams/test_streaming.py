"""`fit_stream` is `partial_fit` over the rows of a source, whatever the blocks."""

import contextlib
import gzip
import io
import threading

import numpy as np
import pytest
from common.estimators import ALL_ESTIMATORS, ESTIMATORS, assert_same_model
from extent import everything_or
from problems import kinds_of_learners, separable, three_classes
from scipy import sparse
from sklearn.base import clone
from streamed import Breaking, saved_bytes, svmlight_text

import maxmargin
from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    PUMMA,
    ROMMA,
    BisectionPerceptron,
    Forgetron,
    Perceptron,
    RandomBudgetPerceptron,
    certify,
    streams,
)
from maxmargin.streams import StreamError

ROWS = 60
# One row, a few rows, and all rows in a block.
BLOCK_SIZES = (1, 400, 2**21)


def two_classes():
    X, y = separable(ROWS, 5, gap=0.2)
    X[:, 3] *= np.arange(ROWS) % 2  # rows of different lengths
    return X, y


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A file with two classes."""
    path = tmp_path_factory.mktemp("data") / "two.svm"
    path.write_text(svmlight_text(*two_classes()))
    return path


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A file with three classes."""
    path = tmp_path_factory.mktemp("data") / "three.svm"
    path.write_text(svmlight_text(*three_classes(ROWS, 5)))
    return path


def rounds(learner, X, y, times=1):
    """What `partial_fit` makes of all rows, presented so many times."""
    clf, X = clone(learner), sparse.csr_matrix(X)
    for _ in range(times):
        clf.partial_fit(X, y, classes=np.unique(y))
    return clf


def assert_same(clf, expected):
    if not isinstance(expected, NOCA):
        assert_same_model(clf, expected)
        return
    for name in ("means_", "variances_", "weights_", "components_"):
        np.testing.assert_array_equal(getattr(clf, name), getattr(expected, name))
    assert clf.rho_ == expected.rho_
    assert clf.n_mistakes_ == expected.n_mistakes_


LEARNERS = [
    *everything_or(kinds_of_learners(), [each(random_state=0) for each in ESTIMATORS]),
    NOCA(random_state=0),
    Perceptron(average=True),
    Forgetron(budget=7, random_state=0),
    RandomBudgetPerceptron(budget=7, random_state=0),
]
every_learner = pytest.mark.parametrize(
    "learner", LEARNERS, ids=lambda each: "".join(repr(each).split())
)


# -------------------------------------------------------------------------------- as by partial_fit
@every_learner
def test_passes_are_rounds_of_partial_fit(learner, tmp_path):
    """Of rows that cannot be separated, so that no pass is without an update."""
    X, y = two_classes()
    y[::10] *= -1
    path = tmp_path / "noisy.svm"
    path.write_text(svmlight_text(X, y))
    for size in BLOCK_SIZES:
        clf = clone(learner).fit_stream(streams.open(path, block_size=size), passes=3)
        assert_same(clf, rounds(learner, X, y, 3))
        assert clf.n_iter_ == 3
        assert clf.classes_.tolist() == [-1, 1]


@pytest.mark.parametrize("Learner", [AMIRA, Perceptron, PUMMA, NOCA])
def test_several_classes(Learner, three):
    X, y = three_classes(ROWS, 5)
    for size in BLOCK_SIZES:
        clf = Learner().fit_stream(streams.open(three, block_size=size))
        assert_same(clf, rounds(Learner(), X, y))
        assert clf.classes_.tolist() == [0, 1, 2]


def test_a_path_and_its_text_are_sources(two):
    expected = AMIRA().fit_stream(two)
    assert_same(AMIRA().fit_stream(str(two)), expected)
    assert_same(AMIRA().fit_stream(io.BytesIO(two.read_bytes())), expected)


def test_a_clone_begins_anew(two):
    clf = AMIRA().fit_stream(two)
    assert_same(clone(clf).fit_stream(two), clf)


def test_works_in_other_threads(two):
    """Where Ctrl-C never comes, and handlers for it cannot be set."""
    clf = AMIRA()
    thread = threading.Thread(target=clf.fit_stream, args=(two,))
    thread.start()
    thread.join()
    assert_same(clf, AMIRA().fit_stream(two))


def test_the_only_learner_without_streams_says_so():
    without = [each for each in ALL_ESTIMATORS if not hasattr(each(), "fit_stream")]
    assert without == [BisectionPerceptron]
    with pytest.raises(AttributeError, match="all rows at once"):
        BisectionPerceptron().fit_stream  # noqa: B018


# -------------------------------------------------------------------------------------- how it ends
def test_ends_when_a_pass_brings_no_update(two):
    clf = Perceptron().fit_stream(two, passes=1000)
    assert clf.converged_
    assert 1 < clf.n_iter_ < 1000
    before = rounds(Perceptron(), *two_classes(), clf.n_iter_ - 2)
    assert before.n_updates_ < clf.n_updates_, "the pass before the last brought updates"
    assert_same(clf, rounds(Perceptron(), *two_classes(), clf.n_iter_))


def test_does_not_end_early_where_a_quiet_pass_means_nothing(two):
    clf = maxmargin.Pegasos(lambda_=0.1).fit_stream(two, passes=20)
    assert clf.n_iter_ == 20
    assert not clf.converged_


@pytest.mark.parametrize("Learner", [AMIRA, PUMMA])
def test_ends_when_the_margin_is_certified(Learner, two):
    X, y = two_classes()
    clf = Learner(tol=0.3).fit_stream(streams.open(two, block_size=400), passes=1000)
    assert clf.converged_
    certificate = clf.certificate_
    assert certificate.ratio >= 0.7
    np.testing.assert_allclose(certificate.margin, certify(clf, X, y).margin, rtol=1e-9)
    assert certificate.bound >= PUMMA(delta=0.01, random_state=0).fit(X, y).certificate_.margin
    fewer = Learner(tol=0.3).fit_stream(two, passes=clf.n_iter_ - 1)
    assert not fewer.converged_
    assert fewer.certificate_.ratio < 0.7


def test_tol_does_not_take_a_useless_margin_for_a_good_one(tmp_path):
    path = tmp_path / "mixed.svm"
    path.write_text("1 1:1\n0 1:2\n1 1:3\n0 1:4\n")
    assert not AMIRA(tol=1.0).fit_stream(path, passes=3).converged_


# --------------------------------------------------------------------------------- several streams
@pytest.mark.parametrize("learner", [AMIRA(), PUMMA(), Forgetron(budget=7)], ids=repr)
def test_a_learner_goes_on(learner, two):
    clf = clone(learner)
    clf.fit_stream(two).fit_stream(two)
    assert clf.n_iter_ == 1
    assert_same(clf, rounds(learner, *two_classes(), 2))


def test_the_next_rows_may_be_narrower_or_wider(tmp_path):
    files = {}
    for name, text in {
        "first": "0 1:1 5:2\n1 2:1\n",
        "narrow": "0 1:1\n1 3:2\n",
        "wide": "1 7:2\n0 1:1\n",
    }.items():
        files[name] = tmp_path / name
        files[name].write_text(text)
    clf = AMIRA()
    for path in files.values():
        clf.fit_stream(path)
    together = tmp_path / "together"
    together.write_text("".join(path.read_text() for path in files.values()))
    assert_same(clf, AMIRA().fit_stream(together))
    assert clf.n_features_in_ == 7


# -------------------------------------------------------------------------------------------- pipes
PIPED = b"1 1:2\n0 2:2\n0 4:2\n1 7:1\n1 1:1\n0 3:1\n"


def pipe(text=PIPED, block_size=12):
    return streams.open(io.BytesIO(text), block_size=block_size)


@pytest.mark.parametrize(
    "learner",
    [AMIRA(), PUMMA(), Perceptron(average=True), RandomBudgetPerceptron(random_state=0)],
    ids=lambda each: type(each).__name__,
)
def test_rows_of_a_pipe_may_become_wider(learner):
    whole = clone(learner).fit_stream(pipe(block_size=2**20))
    clf = clone(learner).fit_stream(pipe())
    assert clf.n_features_in_ == whole.n_features_in_ == 7
    assert_same(clf, whole)


def test_a_learner_that_cannot_grow_says_so():
    with pytest.raises(StreamError, match="wider, and NOCA must know"):
        NOCA().fit_stream(pipe())
    assert NOCA().fit_stream(streams.open(io.BytesIO(PIPED), n_features=7)).n_features_in_ == 7


@pytest.mark.parametrize(("learner", "passes"), [(AMIRA(), 2), (AMIRA(tol=0.1), 1)], ids=repr)
def test_a_pipe_is_read_once(learner, passes):
    with pytest.raises(ValueError, match="a source that can be read again"):
        learner.fit_stream(pipe(), passes=passes)


def test_classes_of_a_pipe_are_those_of_its_first_block():
    text = b"1 1:2\n0 2:2\n2 1:2\n"
    with pytest.raises(StreamError, match=r"rows 2 to 2: the labels \[2.0\] .* \[0, 1\]"):
        AMIRA().fit_stream(pipe(text))
    clf = AMIRA().fit_stream(pipe(text), classes=[2, 1, 0])
    assert clf.classes_.tolist() == [0, 1, 2]
    message = r"only one class, \[1\], in its first block; list all classes with classes="
    with pytest.raises(ValueError, match=message):
        AMIRA().fit_stream(pipe(text, block_size=6))


# ----------------------------------------------------------------------------- what a glance misses
@pytest.mark.parametrize("block_size", [1, 12, 2**20])
@pytest.mark.parametrize(
    "text",
    [
        "0 1:1\n0 2:1\n1 1:2\n1 2:3\n",  # sorted by label
        "0 1:1\n1 2:1\n0 3:1\n2 1:2\n",  # a label that comes late
        "0 1:1\n1 2:1\n0 9:1\n1 4:2\n",  # a column that comes late
        "0 1:1\n1 2:1\n0 0:1\n1 4:2\n",  # columns that begin with 0, as the third row shows
    ],
)
def test_the_first_rows_may_mislead(tmp_path, text, block_size):
    path = tmp_path / "late.svm"
    path.write_text(text)
    source = streams.open(path)
    source.survey()
    (block,) = source.blocks()
    clf = AMIRA().fit_stream(streams.open(path, block_size=block_size), passes=2)
    assert_same(clf, rounds(AMIRA(), block.X.toarray(), block.y.astype(int), 2))
    assert clf.n_features_in_ == block.X.shape[1]


# ------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no rows"),
        ("# nothing\n\n", "there are no rows"),
        ("1 1:2\n1 2:2\n", r"only one class, \[1\]\."),
    ],
)
def test_nothing_to_learn_from(tmp_path, text, message):
    path = tmp_path / "poor.svm"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"poor.svm.*{message}"):
        AMIRA().fit_stream(path)
    with pytest.raises(ValueError, match=message):
        AMIRA().fit_stream(io.BytesIO(text.encode()) if text != "1 1:2\n1 2:2\n" else path)


def test_no_rows_but_known_classes(tmp_path):
    path = tmp_path / "empty.svm"
    path.write_text("")
    with pytest.raises(StreamError, match="there are no rows"):
        AMIRA().fit_stream(path, classes=[0, 1])


def test_a_row_without_a_label():
    source = streams.open([(np.eye(2), None)])
    with pytest.raises(ValueError, match="no labels"):
        AMIRA().fit_stream(source)
    with pytest.raises(ValueError, match="no labels"):
        AMIRA().fit_stream(source, classes=[0, 1])


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_bad_line_is_named_and_changes_nothing(two, tmp_path, block_size, warm_start):
    lines = two.read_text().splitlines(keepends=True)
    path = tmp_path / "bad.svm"
    path.write_text("".join([*lines[:40], "1 1:0.5 2:oops\n", *lines[40:]]))
    clf = AMIRA(warm_start=warm_start).fit_stream(two)
    before = saved_bytes(clf, tmp_path)
    with pytest.raises(StreamError, match=r"bad.svm, line 41, column 11: .*'oops'"):
        clf.fit_stream(streams.open(path, block_size=block_size))
    assert saved_bytes(clf, tmp_path) == before
    fresh = AMIRA()
    with pytest.raises(StreamError, match="line 41"):
        fresh.fit_stream(streams.open(path, block_size=block_size))
    assert not hasattr(fresh, "classes_")


def test_bad_lines_can_be_skipped(two, tmp_path):
    lines = two.read_text().splitlines(keepends=True)
    path = tmp_path / "bad.svm"
    path.write_text("".join([*lines[:40], "1 1:0.5 2:oops\n", *lines[40:]]))
    source = streams.open(path, on_error="skip", block_size=400)
    assert_same(AMIRA().fit_stream(source, passes=2), rounds(AMIRA(), *two_classes(), 2))
    assert source.skipped == 1


@pytest.mark.parametrize("error", [OSError("the cable is out"), MemoryError()])
def test_a_source_that_breaks_off_changes_nothing(two, tmp_path, error):
    clf = AMIRA().fit_stream(two)
    before = saved_bytes(clf, tmp_path)
    with pytest.raises(type(error)):
        clf.fit_stream(Breaking(streams.open(two, block_size=400), 3, error))
    assert saved_bytes(clf, tmp_path) == before


def test_labels_that_are_not_among_the_classes(two):
    with pytest.raises(StreamError, match=r"two.svm, in rows 0 to 59: the labels \[-1.0\]"):
        AMIRA().fit_stream(two, classes=[0, 1])


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        (AMIRA(epsilon=-3), {}, "The 'epsilon' parameter"),
        (AMIRA(), {"passes": 0}, "passes must be a whole number"),
        (AMIRA(), {"passes": 1.5}, "passes must be a whole number"),
        (AMIRA(), {"every": 0}, "every must be a whole number"),
        (AMIRA(soft_margin=1.0), {"passes": 2}, "soft_margin > 0 .* passes=1"),
        (AMIRA(soft_margin=1.0, tol=0.1), {}, "soft_margin > 0 .* tol=None"),
        (Forgetron(tol=0.1), {}, "tol with a kernel"),
        (AMIRA(intercept_scaling="max"), {}, 'intercept_scaling="max" needs all rows'),
        (AMIRA(kernel="rbf"), {}, 'gamma="scale" needs all rows'),
        (AMIRA(kernel="precomputed"), {}, "kernel='precomputed'"),
    ],
    ids=repr,
)
def test_what_cannot_be_done(learner, options, message, two):
    with pytest.raises(ValueError, match=message):
        learner.fit_stream(two, **options)
    assert not hasattr(learner, "classes_")


# ---------------------------------------------------------------------------------------- the bar
@pytest.fixture
def bars(monkeypatch):
    """What bars were shown: title, total, unit, whether at all, and all steps."""
    shown = []

    @contextlib.contextmanager
    def recorded(title, total, unit, enabled=True):
        steps = []
        shown.append((title, total, unit, enabled, steps))
        yield lambda amount, note="": steps.append(amount)

    monkeypatch.setattr("maxmargin.training.stream_run.bar", recorded)
    return shown


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("suffix", ["svm", "svm.gz"])
def test_the_bar_is_full_at_the_end_of_a_pass_and_not_before(
    suffix, block_size, two, tmp_path, bars
):
    path = tmp_path / f"rows.{suffix}"
    text = two.read_bytes()
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    source = streams.open(path, block_size=block_size)
    AMIRA(epsilon=0.01).fit_stream(source, passes=2, progress=True)
    assert [title for title, *_ in bars] == ["AMIRA, pass 1", "AMIRA, pass 2"]
    for _, total, unit, enabled, steps in bars:
        assert enabled
        assert unit == "MB"
        assert total == pytest.approx(path.stat().st_size / 1e6)
        assert sum(steps) == pytest.approx(total)
        assert len(steps) == len(list(source.blocks()))
        assert min(steps) >= 0.0


def test_the_bar_of_a_run_that_goes_on_begins_where_it_was(two, tmp_path, bars):
    source = streams.open(two, block_size=400)
    with pytest.raises(OSError, match="cable"):
        AMIRA().fit_stream(Breaking(source, 3), checkpoint=tmp_path / "c", every=1)
    AMIRA().fit_stream(source, checkpoint=tmp_path / "c", every=1)
    (_, total, _, _, first), (_, _, _, _, rest) = bars
    assert sum(rest) == pytest.approx(total)
    assert rest[0] > sum(first)


def test_the_bar_of_a_pipe_has_no_total(two, bars):
    AMIRA().fit_stream(io.BytesIO(two.read_bytes()), classes=[-1.0, 1.0], progress=True)
    (_, total, unit, _, steps) = bars[0]
    assert total is None
    assert unit == "MB"
    assert sum(steps) == pytest.approx(two.stat().st_size / 1e6)


@pytest.mark.parametrize(("verbose", "progress"), [(0, None), (1, None), (0, True), (1, False)])
def test_the_bar_is_asked_for(verbose, progress, two, bars):
    AMIRA(verbose=verbose).fit_stream(two, progress=progress)
    assert bars[0][3] is (bool(verbose) if progress is None else progress)


def test_a_soft_margin_in_one_pass(two):
    assert_same(
        AMIRA(soft_margin=1.0).fit_stream(two), rounds(AMIRA(soft_margin=1.0), *two_classes())
    )


@pytest.mark.parametrize(
    "clf", [ROMMA(delta=0.1), AMIRA(), PUMMA(), ALMA(p=3.0)], ids=lambda clf: repr(clf)
)
def test_columns_that_appear_late(clf, tmp_path):
    """As if all had been known, though the learner grows several times.

    Many updates, so that norms are summed up anew on the way.
    """
    random, lines = np.random.default_rng(1), []
    for i in range(6000):
        columns = np.unique(np.minimum(random.zipf(1.3, 12), 50 + i // 4)).tolist()
        values = random.standard_normal(len(columns)).tolist()
        entries = " ".join(f"{c}:{v!r}" for c, v in zip(columns, values, strict=True))
        lines.append(f"{i % 3} {entries}\n")
    path = tmp_path / "late.svm"
    path.write_text("".join(lines))
    models = []
    for whole in (True, False):
        source = streams.open(path, block_size=2**13)
        if whole:
            source.survey()
        models.append(clone(clf).fit_stream(source))
    assert_same_model(*models)


def test_messages_list_the_first_labels_only():
    """Of many classes nobody wants to read all."""
    X, many = np.ones((40, 1)), np.arange(40)
    with pytest.raises(StreamError) as caught:
        Perceptron().fit_stream([(X, many)], classes=np.arange(100, 1_100))
    said = str(caught.value)
    assert "the labels [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... and 30 more] are not among" in said
    assert "classes [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, ... and 990 more]" in said
    with pytest.raises(StreamError, match=r"the labels \[2\] are not among the classes \[0, 1\];"):
        Perceptron().fit_stream([(X[:3], np.arange(3))], classes=[0, 1])
