"""Files are written all or nothing, and refused with a clear error unless they are whole."""

import contextlib
import errno
import io
import json
import os
import pickle
import resource
import stat
import zipfile

import numpy as np
import pytest
from campaigns.modelfiles import put_together, taken_apart
from persistence.states import X, fitted, known_to, made, streamed, three

import maxmargin
from maxmargin import AMIRA, PUMMA, Forgetron, MaxMargin, Perceptron
from maxmargin.persistence import (
    ModelFileError,
    container,
    describe,
    load,
    read_file,
    save,
    write_file,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mm"


@pytest.fixture(scope="module")
def clf():
    return fitted(made(Perceptron))


def refused(path, data, match):
    path.write_bytes(data)
    for read in (load, describe):
        with pytest.raises(ModelFileError, match=match) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))


def test_open_files(clf, path):
    save(clf, path)
    with io.BytesIO() as file:
        save(clf, file)
        assert file.getvalue() == path.read_bytes()
        assert load(file).predict(X).tolist() == clf.predict(X).tolist()
        assert describe(file) == describe(path)
        file.truncate(100)
        with pytest.raises(ModelFileError, match="The file: not a maxmargin file, or truncated"):
            load(file)


# ---------------------------------------------------------------------------------- the format
def test_numpy_reads_the_arrays(clf, path):
    rows = np.hstack([X] * 300)
    wide = fitted(made(Perceptron), rows)
    save(wide, path)
    with np.load(path) as arrays:
        found = arrays["model.linear.weights"]
    scale = taken_apart(path.read_bytes())[1]["model.linear.scalars.table"]["scale"]
    np.testing.assert_array_equal(scale * found[:, :-1], wide.coef_)
    save(clf, path)
    header, arrays = taken_apart(path.read_bytes())
    path.write_bytes(put_together(header, arrays))
    assert known_to(load(path)) == known_to(clf)


@pytest.mark.parametrize(
    "learned",
    [
        lambda: streamed(made(Perceptron), labels=three),
        lambda: streamed(made(PUMMA)),
        lambda: streamed(made(AMIRA, multiclass="k-best"), labels=three),
        lambda: Perceptron().partial_fit(X, three, grow=True),
    ],
    ids=["Perceptron", "PUMMA", "k-best", "growing"],
)
def test_predicting_as_the_page_says(learned, path):
    learner = learned()
    save(learner, path)
    header, arrays = taken_apart(path.read_bytes())
    learned = header["content"]["model"]["attributes"]
    width = learned["width"]
    weights = arrays["model.linear.weights"]
    scale = arrays["model.linear.scalars.table"]["scale"][:, None]
    scale = scale[:1] if dict(learned["structure"]["dict"]).get("multiclass") == "k-best" else scale
    w = scale * weights[:, :width]
    b = (scale * weights[:, width:] * learned["model.tail.offset"])[:, 0]
    b = arrays.get("model.pair.bias", b)
    scores = X @ w.T + b
    scores = scores[:, :-1] if learned["unseen"] else scores
    scores = scores.ravel() if scores.shape[1] == 1 else scores
    np.testing.assert_allclose(scores, learner.decision_function(X), atol=1e-12)


def test_a_file_describes_itself(clf, path):
    save(clf, path)
    words = describe(path)
    assert words["format"] == 5
    assert words["kind"] == "model"
    assert words["library"] == maxmargin.__version__
    assert words["bytes"] == path.stat().st_size
    assert words["estimator"] == "Perceptron"
    assert words["parameters"]["max_iter"] == 3
    assert words["classes"] == ["no", "yes"]
    assert words["n_features"] == 3
    assert words["updates"] == clf.n_updates_
    assert words["mistakes"] == clf.n_mistakes_
    assert words["certificate"]["bound"] == clf.certificate_.bound


def test_a_file_of_a_kernel_model_counts_supports(path):
    clf = streamed(made(Forgetron, budget=4))
    save(clf, path)
    assert describe(path)["supports"] == clf.support_.size
    assert "certificate" not in describe(path)  # of a stream nobody knows the margin


def test_memory_order_is_kept(path):
    cube = np.arange(24.0).reshape(2, 3, 4)
    content = {"a": cube.T, "b": np.asfortranarray(cube[0]), "c": cube[:, 1]}
    content["d"] = cube.astype(">f8")
    content["e"] = np.arange(1000, dtype=">i8")
    write_file(path, "checkpoint", content)
    again = read_file(path, "checkpoint")
    for name, array in content.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].flags.aligned
        assert again[name].flags.writeable
    assert again["a"].flags.f_contiguous
    assert again["b"].flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_large_arrays_are_compressed_if_they_shrink(share, order, path):
    random = np.random.default_rng(0)
    rows = np.where(random.random((100, 3000)) < share, random.normal(size=(100, 3000)), 0.0)
    content = {"rows": np.asarray(rows, order=order)}
    write_file(path, "checkpoint", content)
    assert path.stat().st_size < (0.05 + share) * rows.nbytes + 1000
    again = read_file(path, "checkpoint")["rows"]
    assert again.tobytes() == rows.tobytes()
    assert again.strides == content["rows"].strides


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -(2**80), 0.1, -0.0, np.inf, -np.inf, "täxt \ud800", [1, [2.0]], (1, "a")),
        {"a": 1, 2: {"b": None}, (1, 2): "c", None: []},
    ],
    ids=repr,
)
def test_values_come_back(value, path):
    write_file(path, "checkpoint", {"value": value})
    again = read_file(path, "checkpoint")["value"]
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize("weights", [{0: 0.5, 1: 3.0}, {"spam": 5, "ham": 1.5}, {True: 2.0}])
def test_weights_of_classes_come_back(weights, path):
    save(MaxMargin(class_weight=weights), path)
    assert repr(load(path).class_weight) == repr(weights)


# ------------------------------------------------------------------------- what cannot be saved
@pytest.mark.parametrize(
    ("learner", "name"),
    [
        (Perceptron(kernel=lambda a, b: a @ b.T), "The parameter 'kernel' of Perceptron"),
        (Perceptron(random_state=object()), "The parameter 'random_state' of Perceptron"),
        (MaxMargin(class_weight={0: len}), "The parameter 'class_weight' of MaxMargin"),
    ],
)
def test_code_is_not_saved(learner, name, path):
    with pytest.raises(TypeError, match=name):
        save(learner, path)
    assert not list(path.parent.iterdir())


def test_code_of_a_learner_that_has_learned_is_not_saved(path):
    with pytest.raises(TypeError, match="The parameter 'kernel'"):
        save(fitted(made(Perceptron, kernel=lambda a, b: a @ b.T)), path)
    assert not list(path.parent.iterdir())


def test_attributes_of_somebody_else_are_named(path):
    clf = fitted(made(Perceptron))
    clf.note = "mine"
    with pytest.raises(TypeError, match="'note'"):
        save(clf, path)


def test_only_learners_of_this_library_are_saved(path):
    from sklearn.linear_model import LogisticRegression

    class Mine(Perceptron):
        pass

    for other in (LogisticRegression(), Mine(), 3):
        with pytest.raises(TypeError, match=r"Only learners of maxmargin.* by skops\.io\.dump"):
            save(other, path)


def test_content_that_cannot_be_stored_is_named(path):
    with pytest.raises(TypeError, match="'thing' cannot be saved"):
        write_file(path, "checkpoint", {"thing": {"a": object()}})


# ------------------------------------------------------------------------------ all or nothing
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "broken"), KeyboardInterrupt()], ids=repr)
def test_a_failure_leaves_the_old_file(call, failure, clf, path, monkeypatch):
    path.write_bytes(b"old")

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(failure)):
        save(clf, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_a_full_disk_leaves_the_old_file(clf, path):
    """The limit on the size of files stands for a disk that is full."""
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            save(clf, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_bytes_are_on_the_disk_before_the_name_is(clf, path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, name=name, real=real: (calls.append(name), real(*given))[1]
        )
    save(clf, path)
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, and the folder


def test_links_are_followed(clf, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "real.mm", tmp_path / "link.mm"
    link.symlink_to(target)
    save(clf, link)
    assert link.is_symlink()
    assert load(target).n_updates_ == clf.n_updates_


def test_permissions_are_those_of_an_ordinary_file(clf, path):
    plain = path.with_name("plain")
    plain.write_bytes(b"")
    save(clf, path)
    assert path.stat().st_mode == plain.stat().st_mode
    for mode in (0o640, 0o600, 0o444):
        path.chmod(mode)
        save(clf, path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_nobody_else_can_open_a_private_file_while_it_is_written(clf, path, monkeypatch):
    path.write_bytes(b"")
    path.chmod(0o600)
    modes = []

    def look(*_):
        modes.extend(
            stat.S_IMODE(os.stat(path.parent / each).st_mode) for each in os.listdir(path.parent)
        )

    monkeypatch.setattr(os, "chmod", look)
    save(clf, path)
    assert set(modes) == {0o600}


def test_only_plain_files_are_replaced(clf, tmp_path):
    with pytest.raises(IsADirectoryError):
        save(clf, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        save(clf, tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        save(clf, tmp_path / "nowhere" / "model.mm")


# ---------------------------------------------------------------------------------- bad files
def test_flipped_bytes_are_found_or_do_not_matter(path):
    """Dates and attributes of entries, for example, are not used."""
    clf = made(Perceptron)
    save(clf, path)  # as small as it can be
    data, accepted = path.read_bytes(), 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x41
        path.write_bytes(changed)
        with contextlib.suppress(ModelFileError):
            assert known_to(load(path)) == known_to(clf)
            accepted += 1
    assert accepted < 60


def test_every_truncation_is_found(path):
    save(made(Perceptron), path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="truncated"):
            load(path)


def test_damaged_arrays_are_found(clf, path):
    save(clf, path)
    path.write_bytes(put_together(*taken_apart(path.read_bytes())))
    data = bytearray(path.read_bytes())
    data[data.index(clf.coef_.tobytes())] ^= 1
    refused(path, bytes(data), "damaged or truncated")


def test_foreign_files(clf, path):
    refused(path, b"", "not a maxmargin file")
    for data in (b"1 1:0.5\n-1 2:3\n", pickle.dumps(clf), b"PK\x03\x04" + bytes(99)):
        refused(path, data, "not a maxmargin file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")
    refused(path, path.read_bytes(), "not a maxmargin file")


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_missing_folder_is_named(clf, path):
    inside = f"{path}/model.mm"
    with pytest.raises(FileNotFoundError, match="The folder does not exist") as caught:
        save(clf, inside)
    assert caught.value.filename == inside


def test_neither_a_path_nor_a_file(clf):
    for value in (5, None):
        with pytest.raises(TypeError, match="expected a path or an open binary file, got"):
            load(value)
        with pytest.raises(TypeError, match="expected a path or an open binary file, got"):
            save(clf, value)


def test_other_formats_are_refused(clf, path):
    save(clf, path)
    header, arrays = taken_apart(path.read_bytes())
    for other in (4, 6):
        words = f"version {other}, and this version of maxmargin reads 5: .*fit the model again"
        refused(path, put_together({**header, "format": other}, arrays), words)


def test_another_kind_is_refused(path):
    write_file(path, "checkpoint", {"row": 3})
    with pytest.raises(ModelFileError, match="holds a checkpoint, not a model"):
        load(path)


def test_additional_and_missing_arrays(clf, path):
    save(clf, path)
    header, arrays = taken_apart(path.read_bytes())
    more = {**arrays, "more": np.zeros(3)}
    path.write_bytes(put_together(header, more))
    with pytest.raises(ModelFileError, match="nothing uses its arrays more"):
        load(path)
    del arrays["model.linear.weights"]
    path.write_bytes(put_together(header, arrays))
    with pytest.raises(ModelFileError, match=r"'model\.linear\.weights' is missing"):
        load(path)


@pytest.mark.parametrize(
    "place", [(container.StoredArray, "__array__"), (json, "loads")], ids=["arrays", "header"]
)
def test_lack_of_memory_is_not_damage(place, clf, path, monkeypatch):
    save(clf, path)
    monkeypatch.setattr(*place, out_of_memory)
    for read in (load, lambda path: read_file(path, "model")):
        with pytest.raises(MemoryError, match="no room"):
            read(path)


def out_of_memory(*_, **__):
    raise MemoryError("no room")


def test_deep_nesting_is_refused(clf, path):
    save(clf, path)
    header, arrays = taken_apart(path.read_bytes())
    nest = []
    for _ in range(900):
        nest = [nest]
    header["content"]["model"] = nest
    path.write_bytes(put_together(header, arrays))
    with pytest.raises(ModelFileError, match="inconsistent"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("maxmargin.json", "[" * 100_000)
    with pytest.raises(ModelFileError, match="inconsistent"):
        load(path)
