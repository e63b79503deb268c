"""A run that is stopped and taken up again ends with the model of a run never stopped."""

import bz2
import gzip
import io
import os
import signal
from itertools import product

import numpy as np
import pytest
from extent import everything_or
from problems import label
from sklearn.base import clone
from streamed import (
    BLOCK_SIZE,
    PASSES,
    ROWS,
    Breaking,
    noisy,
    opened,
    resumed,
    saved_bytes,
    stopped,
)

from maxmargin import (
    AMIRA,
    NOCA,
    PUMMA,
    AutoMargin,
    ConformalClassifier,
    Forgetron,
    LabelQueries,
    Perceptron,
    RandomBudgetPerceptron,
    persistence,
    streams,
)
from maxmargin.persistence import ModelFileError
from maxmargin.persistence.checkpoints import KIND, CheckpointFile
from maxmargin.training.online import OnlineTrainer
from maxmargin.training.stream_run import RunProgress

LEARNERS = [
    AMIRA(),
    PUMMA(),
    AMIRA(tol=0.01),
    Perceptron(average=True),
    NOCA(),
    Forgetron(budget=5, random_state=0),
    RandomBudgetPerceptron(budget=5, random_state=0),
    RandomBudgetPerceptron(budget=5, random_state=np.random.RandomState(0)),
]
# Where only the source, or only the file, matters.
FEW = [AMIRA(), RandomBudgetPerceptron(budget=5, random_state=0)]


# ------------------------------------------------------------------------------ stopped and resumed
NO_CABLE, CTRL_C = OSError("the cable is out"), KeyboardInterrupt()


@pytest.mark.parametrize(
    ("learner", "error"),
    [*product(LEARNERS, [NO_CABLE]), *product(everything_or(FEW, LEARNERS), [CTRL_C])],
    ids=label,
)
def test_stopped_at_any_block(learner, error, data, tmp_path):
    expected = saved_bytes(clone(learner).fit_stream(opened(data), passes=PASSES), tmp_path)
    # With `tol` all blocks are looked at once more after each pass.
    looks = 2 if getattr(learner, "tol", None) else 1
    blocks = PASSES * looks * len(list(opened(data).blocks()))
    assert blocks >= 8
    # Of each learner at the first blocks, at the last, and at some between.
    for after in everything_or([0, 1, *range(3, blocks - 1, 3), blocks - 1], list(range(blocks))):
        checkpoint = tmp_path / f"checkpoint {after}"
        stopped(learner, opened(data), after, checkpoint, error)
        clf = resumed(learner, opened(data), checkpoint)
        assert saved_bytes(clf, tmp_path) == expected, after


@pytest.mark.parametrize("learner", [AutoMargin(), AMIRA(), NOCA()], ids=label)
def test_prediction_sets_go_on_to_the_bit(learner, data, tmp_path):
    """In the only pass that they allow."""
    learner = ConformalClassifier(learner, coverage=0.8)
    whole = clone(learner).fit_stream(opened(data))
    assert whole.coverage_.rows == ROWS
    for after in (1, len(list(opened(data).blocks())) - 1):
        checkpoint = tmp_path / f"checkpoint {after}"
        stopped(learner, opened(data), after, checkpoint, passes=1)
        clf = resumed(learner, opened(data), checkpoint, passes=1)
        assert saved_bytes(clf, tmp_path) == saved_bytes(whole, tmp_path)


@pytest.mark.parametrize("learner", [AutoMargin(), AMIRA(), NOCA()], ids=label)
def test_questions_go_on_to_the_bit(learner, data, tmp_path):
    learner = LabelQueries(learner, budget=0.3, random_state=0)
    whole = clone(learner).fit_stream(opened(data))
    assert whole.n_rows_ == ROWS
    assert whole.n_queries_ < ROWS
    for after in (1, len(list(opened(data).blocks())) - 1):
        checkpoint = tmp_path / f"checkpoint {after}"
        stopped(learner, opened(data), after, checkpoint, passes=1)
        clf = resumed(learner, opened(data), checkpoint, passes=1)
        assert saved_bytes(clf, tmp_path) == saved_bytes(whole, tmp_path)


@pytest.fixture
def sigint():
    """Lets a test say what is done on Ctrl-C, which the tests themselves may have been told."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.serial
def test_ignored_ctrl_c_stays_ignored(data, tmp_path, monkeypatch, sigint):
    """As behind `nohup`, and of a shell's background jobs."""
    expected, learn = saved_bytes(AMIRA().fit_stream(opened(data)), tmp_path), OnlineTrainer.learn

    def interrupted(self, *args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return learn(self, *args, **kwargs)

    sigint(signal.SIG_IGN)
    monkeypatch.setattr(OnlineTrainer, "learn", interrupted)
    assert saved_bytes(AMIRA().fit_stream(opened(data)), tmp_path) == expected
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.serial
def test_ctrl_c_waits_for_the_end_of_a_block(data, tmp_path, monkeypatch, sigint):
    sigint(signal.default_int_handler)
    handler, learn = signal.getsignal(signal.SIGINT), OnlineTrainer.learn

    def interrupted(self, *args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return learn(self, *args, **kwargs)

    clf = AMIRA()
    with monkeypatch.context() as patch:
        patch.setattr(OnlineTrainer, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.fit_stream(opened(data), checkpoint=tmp_path / "c", passes=PASSES)
    assert signal.getsignal(signal.SIGINT) is handler
    first = next(iter(opened(data).blocks()))
    found = CheckpointFile(tmp_path / "c").read(RunProgress.of)
    assert found.position == first.end
    assert found.place() == f"row {first.end} of pass 1"
    assert not hasattr(clf, "classes_")
    expected = saved_bytes(AMIRA().fit_stream(opened(data), passes=PASSES), tmp_path)
    assert saved_bytes(resumed(AMIRA(), opened(data), tmp_path / "c"), tmp_path) == expected


@pytest.mark.parametrize("every", [1, 13, 30, 10**6, None])
@pytest.mark.parametrize("learner", FEW, ids=repr)
def test_stopped_again_and_again(learner, every, data, tmp_path):
    """Each time after one block; however seldom checkpoints are written, stopping writes one."""
    expected = saved_bytes(clone(learner).fit_stream(opened(data), passes=PASSES), tmp_path)
    clf, times = clone(learner), 0
    while True:
        try:
            source = Breaking(opened(data), 1)
            clf.fit_stream(source, checkpoint=tmp_path / "c", every=every, passes=PASSES)
            break
        except OSError:
            times += 1
    assert times >= 8
    assert saved_bytes(clf, tmp_path) == expected


def as_npy(text, folder):
    X, _ = noisy()
    np.save(folder / "rows.npy", X)
    return folder / "rows.npy"


def as_csv(text, folder):
    X, y = noisy()
    lines = [",".join(map(repr, row)) for row in np.column_stack([y, X]).tolist()]
    path = folder / "rows.csv"
    path.write_text("\n".join(["label,a,b,c,d,e", *lines]) + "\n")
    return path


def few_at_a_time():
    X, y = noisy()
    return ((X[start : start + 8], y[start : start + 8]) for start in range(0, ROWS, 8))


def compressed(suffix, compress):
    def write(text, folder):
        path = folder / f"rows.svm{suffix}"
        path.write_bytes(compress(text))
        return path

    return write


SOURCES = {
    "gzip": (compressed(".gz", lambda text: gzip.compress(text, mtime=0)), {}),
    "bzip2": (compressed(".bz2", bz2.compress), {}),
    "csv": (as_csv, {"label": "label", "block_size": 400}),
    "pipe": (lambda text, folder: io.BytesIO(text), {}),
    "list": (lambda text, folder: list(few_at_a_time()), {}),
    "generator": (lambda text, folder: few_at_a_time(), {}),
    "dicts": (
        lambda text, folder: [
            ({f"x{place}": value for place, value in enumerate(row)}, label)
            for row, label in zip(*(each.tolist() for each in noisy()), strict=True)
        ],
        {"block_size": 400},
    ),
    "npy": (as_npy, {"y": noisy()[1], "block_size": 400}),
    "array": (lambda text, folder: noisy()[0], {"y": noisy()[1], "block_size": 400}),
}


@pytest.mark.parametrize("learner", everything_or(FEW[1:], FEW), ids=repr)
@pytest.mark.parametrize("kind", SOURCES)
def test_any_source_can_be_taken_up_again(kind, learner, text, tmp_path):
    make, options = SOURCES[kind]

    def new_source():
        return streams.open(make(text, tmp_path), **{"block_size": BLOCK_SIZE, **options})

    passes = PASSES if new_source().repeatable else 1
    whole = clone(learner).fit_stream(new_source(), passes=passes, classes=[-1, 1])
    expected = saved_bytes(whole, tmp_path)
    blocks = passes * len(list(new_source().blocks()))
    assert blocks >= 4
    for after in range(0, blocks, max(1, blocks // 8)):
        how = {"checkpoint": tmp_path / f"checkpoint {after}", "every": 1, "passes": passes}
        with pytest.raises(OSError, match="cable"):
            clone(learner).fit_stream(Breaking(new_source(), after), classes=[-1, 1], **how)
        clf = clone(learner).fit_stream(new_source(), classes=[-1, 1], **how)
        assert saved_bytes(clf, tmp_path) == expected, after


def test_a_pipe_whose_rows_become_wider(tmp_path):
    text = b"1 1:2\n0 2:2\n0 4:2\n1 7:1\n1 1:1\n0 3:1\n"

    def pipe():
        return streams.open(io.BytesIO(text), block_size=12)

    expected = saved_bytes(AMIRA().fit_stream(pipe()), tmp_path)
    for after in range(3):
        stopped(AMIRA(), pipe(), after, tmp_path / f"c{after}", passes=1)
        clf = resumed(AMIRA(), pipe(), tmp_path / f"c{after}", passes=1)
        assert saved_bytes(clf, tmp_path) == expected


@pytest.mark.parametrize(
    "late", ["2 1:1\n", "1 9:1\n", "1 0:1\n"], ids=["label", "column", "column 0"]
)
def test_stopped_before_and_after_a_surprise(late, tmp_path):
    data = tmp_path / "late.svm"
    data.write_text("1 1:2\n0 2:2\n0 3:2\n1 4:1\n" + late)

    def source():
        return streams.open(data, block_size=12)

    expected = saved_bytes(AMIRA().fit_stream(source(), passes=PASSES), tmp_path)
    after = 0
    while True:
        try:
            AMIRA().fit_stream(
                Breaking(source(), after), checkpoint=tmp_path / f"c{after}", every=1, passes=PASSES
            )
            break
        except OSError:
            clf = resumed(AMIRA(), source(), tmp_path / f"c{after}")
            assert saved_bytes(clf, tmp_path) == expected, after
        after += 1
    assert after >= 6


def test_warm_starts_can_be_taken_up_again(data, tmp_path):
    begun = AMIRA(warm_start=True).fit_stream(data)
    first = tmp_path / "first.mm"
    persistence.save(begun, first)
    expected = saved_bytes(begun.fit_stream(opened(data), passes=PASSES), tmp_path)
    source, checkpoint = Breaking(opened(data), 3), tmp_path / "c"
    with pytest.raises(OSError, match="cable"):
        persistence.load(first).fit_stream(source, checkpoint=checkpoint, passes=PASSES)
    clf = persistence.load(first).fit_stream(opened(data), checkpoint=checkpoint, passes=PASSES)
    assert saved_bytes(clf, tmp_path) == expected


def test_every_counts_the_rows_of_all_passes(data, tmp_path, monkeypatch):
    positions = []
    monkeypatch.setattr(
        CheckpointFile,
        "write",
        lambda self, content, place: positions.append((content["passes"], content["position"])),
    )
    AMIRA().fit_stream(
        streams.open(data, block_size=1), checkpoint=tmp_path / "c", every=15, passes=3
    )
    assert ROWS == 40
    assert positions == [
        *[(0, 0), (0, 15), (0, 30)],
        *[(1, 5), (1, 20), (1, 35)],
        *[(2, 10), (2, 25), (2, 40), (3, 0)],
    ]


def test_without_a_number_of_rows_time_decides(data, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(CheckpointFile, "write", lambda self, *_: written.append(1))
    AMIRA().fit_stream(opened(data), checkpoint=tmp_path / "c")
    assert len(written) == 2, "at the beginning and at the end"
    monkeypatch.setattr("maxmargin.training.stream_run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    AMIRA().fit_stream(opened(data), checkpoint=tmp_path / "c")
    assert len(written) == 2 + 2 + len(list(opened(data).blocks()))


# ------------------------------------------------------------------------------- what is at its end
def test_a_finished_run_returns_at_once(data, tmp_path):
    checkpoint = tmp_path / "c"
    expected = AMIRA().fit_stream(opened(data), checkpoint=checkpoint, passes=PASSES)
    before = checkpoint.read_bytes()
    clf = resumed(AMIRA(), Breaking(opened(data), 0), checkpoint)
    assert saved_bytes(clf, tmp_path) == saved_bytes(expected, tmp_path)
    assert checkpoint.read_bytes() == before


def test_more_passes_go_on_from_a_finished_run(data, tmp_path):
    checkpoint = tmp_path / "c"
    for passes in (1, 2, 5):
        clf = AMIRA().fit_stream(opened(data), checkpoint=checkpoint, passes=passes)
        expected = AMIRA().fit_stream(opened(data), passes=passes)
        assert saved_bytes(clf, tmp_path) == saved_bytes(expected, tmp_path)


def test_a_run_that_has_settled_stays_so(tmp_path):
    data, checkpoint = tmp_path / "easy.svm", tmp_path / "c"
    data.write_text("1 1:1\n0 1:-1\n")
    clf = Perceptron().fit_stream(data, checkpoint=checkpoint, passes=10)
    assert clf.converged_
    again = Perceptron().fit_stream(
        Breaking(streams.open(data), 0), checkpoint=checkpoint, passes=20
    )
    assert again.converged_
    assert again.n_iter_ == clf.n_iter_


@pytest.mark.parametrize("after", [0, 3])
def test_fewer_passes_than_were_made_are_refused(data, tmp_path, after):
    checkpoint, blocks = tmp_path / "c", len(list(opened(data).blocks()))
    stopped(AMIRA(), opened(data), blocks + 1 + after, checkpoint, passes=5)
    with pytest.raises(ValueError, match="farther on than passes=1: 1 passes and"):
        resumed(AMIRA(), opened(data), checkpoint, passes=1)


# --------------------------------------------------------------------------------- what is refused
def test_another_file_under_the_same_name(data, text, tmp_path):
    checkpoint = tmp_path / "c"
    stopped(AMIRA(), opened(data), 3, checkpoint)
    before = checkpoint.read_bytes()
    for other in (text + text, text[:-1] + b"1\n", text.replace(b"-1 ", b"+1 ", 1)):
        data.write_bytes(other)
        with pytest.raises(ValueError, match=r"another source than .*rows.svm"):
            resumed(AMIRA(), opened(data), checkpoint)
    assert checkpoint.read_bytes() == before
    data.write_bytes(text)
    resumed(AMIRA(), opened(data), checkpoint)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (AMIRA(epsilon=0.2), "made with epsilon=0.1, not 0.2"),
        (AMIRA(random_state=np.random.RandomState(0)), "made with random_state=None"),
        (PUMMA(), "one of AMIRA, not PUMMA"),
    ],
    ids=label,
)
def test_another_learner(other, message, data, tmp_path):
    stopped(AMIRA(), opened(data), 3, tmp_path / "c")
    with pytest.raises(ValueError, match=message):
        resumed(other, opened(data), tmp_path / "c")
    assert not hasattr(other, "classes_")


def test_parameters_are_compared_by_value(data, tmp_path):
    stopped(AMIRA(epsilon=np.float64(0.1)), opened(data), 3, tmp_path / "c")
    resumed(AMIRA(epsilon=0.1), opened(data), tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"1 1:2\n", b"\x80\x04 pickle"])
def test_a_file_that_is_no_checkpoint_is_left_alone(content, data, tmp_path):
    checkpoint = tmp_path / "c"
    checkpoint.write_bytes(content)
    with pytest.raises(ModelFileError, match="use another file"):
        resumed(AMIRA(), opened(data), checkpoint)
    assert checkpoint.read_bytes() == content


def test_a_model_is_no_checkpoint(data, tmp_path):
    persistence.save(AMIRA().fit_stream(data), tmp_path / "model.mm")
    with pytest.raises(ModelFileError, match="holds a model, not a checkpoint"):
        resumed(AMIRA(), opened(data), tmp_path / "model.mm")


def test_a_sound_file_with_other_content(data, tmp_path):
    persistence.write_file(tmp_path / "c", KIND, {"unknown": 1})
    with pytest.raises(ModelFileError, match="inconsistent"):
        resumed(AMIRA(), opened(data), tmp_path / "c")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": 3}, "it contains no learner"),
        ({"learner": AMIRA()}, "its learner has learned nothing"),
        ({"classes": np.array([-1.0, 0.0, 1.0])}, "its learner has other classes"),
        ({"classes": np.array([1.0])}, "its classes are not at least two"),
        ({"classes": None}, "its classes are not at least two"),
        ({"position": [0, 0, -1]}, "its counts are not whole numbers"),
        ({"position": [0]}, "inconsistent"),
        ({"position": ["0", 0, 0]}, "its counts are not whole numbers"),
        ({"passes": -1}, "its counts are not whole numbers"),
        ({"width": 2.0}, "its counts are not whole numbers"),
        ({"updates": 2**62}, "its counts are not whole numbers"),
        ({"settled": 1}, "it does not describe a source"),
        ({"source": None}, "it does not describe a source"),
        ({"schema": []}, "the schema is damaged"),
        ({"state": None}, "inconsistent"),
        ({"note": 1}, "inconsistent"),
    ],
    ids=repr,
)
def test_content_that_no_run_could_go_on_from(changes, message, data, tmp_path):
    stopped(AMIRA(), opened(data), 3, tmp_path / "c")
    content = persistence.read_file(tmp_path / "c", KIND)
    persistence.write_file(tmp_path / "c", KIND, content)
    resumed(AMIRA(), opened(data), tmp_path / "c")
    persistence.write_file(tmp_path / "c", KIND, content | changes)
    with pytest.raises(ModelFileError, match=message):
        resumed(AMIRA(), opened(data), tmp_path / "c")


def test_a_missing_folder_is_found_at_once(data, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        resumed(AMIRA(), Breaking(opened(data), 0), tmp_path / "nowhere" / "c")
    with pytest.raises(OSError, match=r"(?i)directory"):
        resumed(AMIRA(), Breaking(opened(data), 0), tmp_path)


def test_a_learner_that_cannot_be_saved_is_found_at_once(data, tmp_path):
    with pytest.raises(TypeError, match="parameter 'kernel' of AMIRA"):
        resumed(AMIRA(kernel=np.dot), Breaking(opened(data), 0), tmp_path / "c")


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may read everything")
def test_an_unreadable_checkpoint(data, tmp_path):
    stopped(AMIRA(), opened(data), 3, tmp_path / "c")
    (tmp_path / "c").chmod(0)
    with pytest.raises(PermissionError):
        resumed(AMIRA(), opened(data), tmp_path / "c")


def test_other_ways_to_read_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    table = tmp_path / "two.csv"
    lines = [f"{i % 5},{i % 3},{i % 2},{1 - i % 2}" for i in range(20)]
    table.write_text("a,b,one,other\n" + "\n".join(lines) + "\n")
    first, checkpoint = streams.open(table, label="one"), tmp_path / "c"
    AMIRA().fit_stream(first, checkpoint=checkpoint)
    for other in (
        streams.open(table, label="other"),
        streams.open(table, label="one", columns=["a"]),
        streams.open(table, label="one", kinds={"a": "boolean"}),
    ):
        with pytest.raises(streams.StreamError, match="read differently before"):
            AMIRA().fit_stream(other, checkpoint=checkpoint, passes=2)
    with pytest.raises(ValueError, match="made for the classes"):
        AMIRA().fit_stream(first, classes=[0, 1, 2], checkpoint=checkpoint, passes=2)


@pytest.mark.parametrize("options", [{"zero_based": True}, {"n_features": 50}])
def test_other_ways_to_read_svmlight_are_refused(options, data, tmp_path):
    AMIRA().fit_stream(data, checkpoint=tmp_path / "c")
    with pytest.raises(streams.StreamError, match="read differently before"):
        AMIRA().fit_stream(streams.open(data, **options), checkpoint=tmp_path / "c", passes=2)


def test_other_labels_are_another_source(tmp_path):
    X, checkpoint = tmp_path / "X.npy", tmp_path / "c"
    np.save(X, np.eye(4))
    AMIRA().fit_stream(streams.open(X, [0, 1, 0, 1]), checkpoint=checkpoint)
    with pytest.raises(ValueError, match="another source"):
        AMIRA().fit_stream(streams.open(X, [1, 1, 0, 0]), checkpoint=checkpoint)
