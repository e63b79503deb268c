"""A new array is declared once, and all else follows: shown by a space that nobody knows."""

from contextlib import contextmanager
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from maxmargin.core import array_fields
from maxmargin.core.array_fields import Array, Buffer, Saved, blank
from maxmargin.core.rows import Tail
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import LinearSpec
from maxmargin.persistence import model_tree, write_file
from maxmargin.persistence.container import opened
from maxmargin.persistence.json_values import loaded
from maxmargin.persistence.model_tree import Misfit
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pnorm_plane import PlaneSpace

PROBLEMS, WIDTH, PRIVATE = 3, 4, 2


class ToySpace(NamedTuple):
    """A linear space with arrays that no other space has."""

    linear: Annotated[LinearSpace, Saved()]
    corners: Annotated[np.ndarray, Array("problems * 2", "coordinates", name="ends")]
    streaks: Annotated[np.ndarray, Array("problems", dtype=np.int64, fill=7, below="coordinates")]
    rates: Annotated[np.ndarray, Array("problems", at_least=0.0, finite=True)]
    sketch: Annotated[np.ndarray, Buffer("coordinates + 1")]


class ToyModel(LinearModel):
    toy: Annotated[ToySpace, Saved()]

    def __init__(self, private: int = PRIVATE) -> None:
        spec = LinearSpec(soft_margin=0.5)
        super().__init__(spec, PROBLEMS, WIDTH, private, Tail(1.0, 0.7), 2.0)
        sizes = {"problems": PROBLEMS, "coordinates": WIDTH + 1 + private}
        self.toy = blank(ToySpace, sizes, linear=self.linear)


@pytest.fixture
def model():
    """A model in whose arrays all numbers differ."""
    random, model = np.random.default_rng(3), ToyModel()
    for each, array in array_fields.walk(model):
        if array.dtype == np.float64:
            array[...] = random.uniform(1.0, 2.0, array.shape)
        elif each.below == "coordinates":
            array[...] = random.permutation(PROBLEMS)
    return model


def arrays_of(model):
    return [array for _, array in array_fields.walk(model)]


def assert_disjoint(one, other):
    for mine in arrays_of(one):
        assert not any(np.shares_memory(mine, theirs) for theirs in arrays_of(other))


def test_new_arrays_are_as_declared():
    toy = ToyModel().toy
    assert toy.corners.shape == (2 * PROBLEMS, WIDTH + 1 + PRIVATE)
    assert toy.streaks.tolist() == [7] * PROBLEMS
    assert toy.sketch.shape == (WIDTH + PRIVATE + 2,)
    assert toy.corners.ctypes.data % 64 == 0


def test_a_copy(model):
    copied = model.copy()
    assert_disjoint(model, copied)
    assert copied.toy.linear is copied.linear
    for mine, theirs in zip(arrays_of(model), arrays_of(copied), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_growth(model):
    model = model._without_private_coordinates()
    assert model.toy.corners.shape == (2 * PROBLEMS, WIDTH + 1)
    which = [0, 2, 2, 1]
    more = model.grown(6, which, np.arange(PROBLEMS))
    assert_disjoint(model, more)
    assert (more.width(), more.problems(), more.linear.geometry.width) == (6, 4, 6)
    assert more.toy.linear is more.linear
    assert more.toy.sketch.shape == (8,)
    np.testing.assert_array_equal(more.toy.rates, model.toy.rates[which])
    for new, old in enumerate(which):
        mine, theirs = more.toy.corners[2 * new : 2 * new + 2], model.toy.corners[2 * old :][:2]
        np.testing.assert_array_equal(mine[:, :WIDTH], theirs[:, :WIDTH])
        np.testing.assert_array_equal(mine[:, WIDTH:6], 0.0)
        np.testing.assert_array_equal(mine[:, 6], theirs[:, WIDTH])  # the intercept's


@contextmanager
def in_a_file(leaves, path):
    """The leaves as they are read from a file that holds them."""
    write_file(path, "toy", {"model": leaves})
    with opened(path) as container:
        yield loaded(container.header["content"]["model"], container)


def test_files(model, tmp_path):
    with in_a_file(model_tree.leaves_of(model), tmp_path / "toy.mm") as leaves:
        assert "toy.ends" in leaves
        assert not any("sketch" in path or "toy.linear" in path for path in leaves)
        again = model_tree.filled(ToyModel(), leaves, classes=PROBLEMS)
        assert not leaves
        assert again.toy.linear is again.linear
        for name in ("corners", "streaks", "rates"):
            np.testing.assert_array_equal(getattr(again.toy, name), getattr(model.toy, name))


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("toy.ends", np.zeros((5, 7)), "shape"),
        ("toy.ends", np.zeros((6, 7), np.float32), "float32"),
        ("toy.ends", None, "missing"),
        ("toy.streaks", np.array([0, 1, 7]), "beyond 0 to 6"),
        ("toy.streaks", np.array([0, -1, 2]), "beyond 0 to 6"),
        ("toy.rates", np.array([0.0, np.inf, 1.0]), "not finite"),
        ("toy.rates", np.array([0.0, -1.0, 1.0]), "below 0"),
    ],
)
def test_what_is_out_of_range_is_refused(model, path, value, why, tmp_path):
    leaves = model_tree.leaves_of(model)
    leaves[path] = value
    with (
        in_a_file(leaves, tmp_path / "toy.mm") as leaves,
        pytest.raises(Misfit, match=rf"{path}.*{why}"),
    ):
        model_tree.filled(ToyModel(), leaves, classes=PROBLEMS)


def test_planes_have_the_fields_of_a_linear_space():
    mine, theirs = (array_fields.declared(kind) for kind in (PlaneSpace, LinearSpace))
    assert {name: vars(each) for name, each in mine.items()} == {
        name: vars(each) for name, each in theirs.items()
    }
    assert PlaneSpace._fields == LinearSpace._fields == tuple(mine)


class Table(NamedTuple):
    """What has slots, as the models on a budget have."""

    inner: Annotated[np.ndarray, Array("problems * slots", "slots")]
    labels: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int32, below="classes")]
    kept: Annotated[np.ndarray, Array("problems", dtype=np.int64, below="slots + 1")]


def test_more_slots_and_other_codes():
    table = blank(Table, {"problems": 2, "slots": 2})
    table.inner[:] = np.arange(8.0).reshape(4, 2)
    table.labels[:] = [[0, 1], [1, 0]]
    larger = array_fields.resized(table, slots=3)
    assert larger.inner.shape == (6, 3)
    np.testing.assert_array_equal(larger.inner[3:5, :2], table.inner[2:])
    np.testing.assert_array_equal(larger.inner[[2, 5]], 0.0)
    more = array_fields.grown(table, [1, 0, 1], 0, codes=np.array([5, 9]))
    assert more.labels.tolist() == [[9, 5], [5, 9], [9, 5]]
    assert more.labels.dtype == np.int32
    np.testing.assert_array_equal(more.inner[:2], table.inner[2:])
