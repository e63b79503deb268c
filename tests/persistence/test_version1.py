"""Files of format version 1 are read, and learners in them go on, as if written today."""

import shutil

import numpy as np
import pytest
from persistence.states import known_to
from persistence.version1 import learners as then
from sklearn.base import clone
from streamed import saved_bytes

from maxmargin.persistence import ModelFileError, describe, load, save
from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.persistence.container import PREAMBLE
from maxmargin.training.stream_run import Checkpoint

FILES = sorted(path.stem for path in then.HERE.glob("*.mm"))
every_file = pytest.mark.parametrize("name", FILES)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def kept(name):
    return then.HERE / f"{name}.mm"


def in_numbers(clf, rows):
    """What a learner has to say about rows."""
    return clf.predict(rows), clf.decision_function(rows)


def assert_the_same(one, other, rows, exactly):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    assert one.n_mistakes_ == other.n_mistakes_
    (mine, scores), (theirs, expected) = in_numbers(one, rows), in_numbers(other, rows)
    np.testing.assert_array_equal(mine, theirs)
    if exactly:
        np.testing.assert_array_equal(scores, expected)
    else:
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


def test_there_is_a_file_of_each_learner():
    assert sorted(then.LEARNERS) == FILES
    for name in FILES:
        assert PREAMBLE.unpack(kept(name).read_bytes()[: PREAMBLE.size])[1] == 1
        assert describe(kept(name))["format"] == 1


@every_file
def test_predictions_and_going_on_are_those_of_today(name):
    fresh, go_on = then.LEARNERS[name]()
    again = load(kept(name))
    # Kernel values are sums that other libraries compute, in an order that is their own.
    exactly = not name.startswith(("kernel", "budget"))
    rows = then.X @ then.X.T if name == "kernel-precomputed" else then.X
    assert type(again) is type(fresh)
    assert again.get_params() == fresh.get_params()
    if name == "bisection":  # it searches in other steps now, and cannot go on
        assert (again.predict(rows) == fresh.predict(rows)).all()
        assert again.certificate_.ratio > 0.99
        return
    assert_the_same(again, fresh, rows, exactly)
    for _ in range(2):
        assert_the_same(go_on(again), go_on(fresh), rows, exactly)
    if exactly:
        assert known_to(again) == known_to(fresh)


@every_file
def test_a_learner_is_saved_anew_in_the_present_format(name, tmp_path):
    clf = load(kept(name))
    save(clf, tmp_path / "now.mm")
    assert describe(tmp_path / "now.mm")["format"] == 2
    assert known_to(load(tmp_path / "now.mm")) == known_to(clf)
    before, now = describe(kept(name)), describe(tmp_path / "now.mm")
    for words in ("estimator", "classes", "n_features", "updates", "supports"):
        assert before.get(words) == now.get(words)
    assert before["parameters"].items() <= now["parameters"].items()  # some came later


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    expected = clone(then.RUN).fit_stream(then.source(tmp_path), passes=then.PASSES)
    shutil.copy(then.HERE / "run.checkpoint", tmp_path / "run")
    assert describe(tmp_path / "run")["format"] == 1
    reached = CheckpointFile(tmp_path / "run").read(Checkpoint.of).reached
    assert reached.passes == 1
    assert 0 < reached.position.row < then.X.shape[0]
    clf = clone(then.RUN).fit_stream(
        then.source(tmp_path), checkpoint=tmp_path / "run", passes=then.PASSES
    )
    assert saved_bytes(clf, tmp_path) == saved_bytes(expected, tmp_path)
    assert describe(tmp_path / "run")["format"] == 2


def test_damaged_files_are_refused(tmp_path):
    data = kept("pairs").read_bytes()
    for place in range(0, len(data), 97):
        (tmp_path / "model.mm").write_bytes(
            data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        )
        with pytest.raises(ModelFileError):
            load(tmp_path / "model.mm")
