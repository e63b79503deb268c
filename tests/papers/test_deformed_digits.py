import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from scipy.stats import chisquare, kstest
from sklearn.datasets import load_digits

from maxmargin import AMIRA
from maxmargin.datasets import make_endless_digits
from maxmargin.kernels.cuda import cupy_library
from maxmargin_papers.data import deformed_digits as digits_module

NOTHING = {"rotation": 0, "shift": 0, "scale": 0, "shear": 0, "elastic": 0}
SMALL = {"shift": 0.5, "elastic": 0.3, "smoothness": 2}


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500]


def together(digits):
    blocks = list(digits)
    return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


def deformed(picture, n, side=28, **settings):
    """Many deformed copies of one picture."""
    X = np.asarray(picture, float).reshape(1, side * side)
    settings = {**NOTHING, "random_state": 0, "dtype": np.float64, **settings}
    return next(make_endless_digits(X, [0], n_samples=n, **settings))[0].reshape(n, side, side)


def places(n, side=28, **settings):
    """Where the pixels of ``n`` digits come from: y and x, from the middle."""
    axis = np.arange(side) + 0.25  # a ramp is interpolated exactly; no whole grey levels
    ramps = np.meshgrid(axis, axis, indexing="ij")
    return [deformed(ramp, n, side, **settings) - 0.25 - (side - 1) / 2 for ramp in ramps]


def maps(n, **settings):
    """The affine maps of places, as arrays (n, 2, 3), from pixels that are not near the paper."""
    y, x = places(n, **settings)
    inner = (slice(None), slice(9, 19), slice(9, 19))
    pixels = np.arange(9, 19) - 13.5
    py, px = np.meshgrid(pixels, pixels, indexing="ij")
    columns = np.column_stack([px.ravel(), py.ravel(), np.ones(100)])
    found = [np.linalg.lstsq(columns, a[inner].reshape(n, 100).T, rcond=None)[0] for a in (x, y)]
    return np.stack([f.T for f in found], axis=1)


def test_splitmix64_gives_its_published_numbers():
    words = digits_module._mixed(np.arange(1, 4, dtype=np.uint64) * digits_module.GOLDEN)
    assert [hex(word) for word in words] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 300), st.integers(0, 150), st.integers(1, 150))
def test_a_digit_depends_on_the_seed_and_its_number_only(block_size, start, n_samples):
    X, y = load_digits(return_X_y=True)
    whole, labels = together(
        make_endless_digits(X, y, n_samples=300, block_size=77, random_state=3)
    )
    part, some = together(
        make_endless_digits(
            X, y, start=start, n_samples=n_samples, block_size=block_size, random_state=3
        )
    )
    assert part.shape == (n_samples, 64)
    np.testing.assert_array_equal(part, whole[start : start + n_samples])
    np.testing.assert_array_equal(some, labels[start : start + n_samples])


def test_seeds(data):
    first, same, other = (
        next(make_endless_digits(*data, block_size=50, random_state=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first[0], same[0])
    assert not np.array_equal(first[1], other[1])
    state = np.random.RandomState(0)
    one, two = (make_endless_digits(*data, random_state=state, block_size=50) for _ in range(2))
    assert not np.array_equal(next(one)[0], next(two)[0])


def test_sources_are_uniform_and_labels_theirs():
    X = np.repeat(np.arange(20.0)[:, None], 16, axis=1) + 3.0
    y = np.array([f"label {n}" for n in range(20)])
    found, labels = next(
        make_endless_digits(X, y, block_size=20_000, random_state=0, **NOTHING, dtype=np.float64)
    )
    np.testing.assert_array_equal(found, X[[int(label[6:]) for label in labels]])
    assert chisquare(np.unique(labels, return_counts=True)[1]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("settings", "measured", "most"),
    [
        ({"rotation": 15}, lambda a: np.degrees(np.arctan2(a[:, 0, 1], a[:, 0, 0])), 15),
        ({"shift": 2.5}, lambda a: a[:, 0, 2], 2.5),
        ({"shift": 2.5}, lambda a: a[:, 1, 2], 2.5),
        ({"scale": 0.15}, lambda a: np.log(a[:, 0, 0]), np.log(1.15)),
        ({"scale": 0.15}, lambda a: np.log(a[:, 1, 1]), np.log(1.15)),
        ({"shear": 0.2}, lambda a: a[:, 0, 1], 0.2),
    ],
)
def test_deformations_are_uniform_up_to_their_largest(settings, measured, most):
    n = 1000
    values = measured(maps(n, **settings))
    assert np.abs(values).max() <= most + 0.01
    assert kstest(values, "uniform", (-most, 2 * most)).pvalue > 1e-3


def test_an_elastic_field_has_its_amplitude_and_its_width_everywhere():
    n, amplitude, width = 1000, 0.8, 3.0
    y, x = places(n, elastic=amplitude, smoothness=width)
    pixels = np.arange(28) - 13.5
    inner = slice(4, 24)  # nearer to the edge some come from the paper
    fields = [(x - pixels)[:, inner, inner], (y - pixels[:, None])[:, inner, inner]]
    for field in fields:
        deviations = np.sqrt(np.mean(field**2, axis=0))
        np.testing.assert_allclose(deviations, amplitude, rtol=5 / np.sqrt(2 * n))
        for distance in (2, 4, 8):
            products = field[:, :, :-distance] * field[:, :, distance:]
            expected = np.exp(-((distance / width) ** 2) / 4)
            assert products.mean() / amplitude**2 == pytest.approx(expected, abs=0.04)
    assert np.mean(fields[0] * fields[1]) / amplitude**2 == pytest.approx(0.0, abs=0.04)


def test_pictures_are_sampled_as_by_scipy():
    settings = {"rotation": 12, "shift": 1, "scale": 0.1, "shear": 0.1, "elastic": 1}
    picture = np.random.RandomState(0).uniform(size=(28, 28))
    found = deformed(picture, 20, **settings)
    y, x = (place + 13.5 for place in places(20, **settings))
    expected = np.array([map_coordinates(picture, at, order=1) for at in np.stack([y, x], axis=1)])
    inner = (slice(None), slice(6, 22), slice(6, 22))  # of others ramps do not say where they are
    np.testing.assert_allclose(found[inner], expected[inner], atol=1e-9)


def test_around_a_picture_there_is_paper():
    picture = np.full((16, 16), 0.5)
    picture[0, 0] = -1.0
    found = deformed(picture, 200, 16, shift=3)
    assert set(np.unique(found[:, 5:11, 5:11])) == {0.5}
    assert found.min() == -1.0
    assert found.max() == 0.5
    assert np.mean(found[:, 15] == -1.0) > 0.2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_grey_levels_stay_whole_and_others_need_not(data, dtype):
    X, y = data
    for whole in (X, X.astype(np.uint8)):
        found, _ = next(make_endless_digits(whole, y, random_state=0, dtype=dtype))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.rint(found))
        assert found.min() == 0.0
        assert found.max() <= 16.0
    fine, _ = next(make_endless_digits(X / 16, y, random_state=0, dtype=dtype))
    np.testing.assert_allclose(16 * fine, found, atol=0.5 + 1e-5)
    assert np.mean(fine == np.rint(16 * fine) / 16) < 0.9
    assert fine.max() <= 1.0


def test_streams_are_learned_from_as_they_are(data):
    def learner():
        return AMIRA(kernel="rbf", gamma=0.002, random_state=0)

    def stream(n_samples):
        settings = {"block_size": 300, "random_state": 0, "dtype": np.float64, **SMALL}
        return make_endless_digits(*data, n_samples=n_samples, **settings)

    streamed = learner().fit_stream(stream(900), classes=range(10))
    by_hand = learner()
    for X, y in islice(stream(None), 3):
        by_hand.partial_fit(X, y, classes=np.arange(10))
    np.testing.assert_array_equal(streamed.dual_coef_, by_hand.dual_coef_)
    X, y = load_digits(return_X_y=True)
    assert streamed.score(X[1000:], y[1000:]) > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "'n_samples' parameter"),
        ({"start": -1}, "'start' parameter"),
        ({"block_size": 0}, "'block_size' parameter"),
        ({"rotation": 181}, "'rotation' parameter"),
        ({"shift": -1}, "'shift' parameter"),
        ({"scale": "much"}, "'scale' parameter"),
        ({"shear": -0.1}, "'shear' parameter"),
        ({"elastic": -1}, "'elastic' parameter"),
        ({"smoothness": 0.5}, "'smoothness' parameter"),
        ({"random_state": "today"}, "'random_state' parameter"),
        ({"device": "tpu"}, "'device' parameter"),
        ({"dtype": np.int8}, "'dtype' parameter must be float32 or float64, got int8"),
        ({"X": np.ones((500, 63))}, "square picture, got 63 columns"),
        ({"X": np.full((500, 64), np.nan)}, "NaN"),
        ({"y": np.ones(499)}, "inconsistent numbers of samples"),
    ],
)
def test_errors(data, arguments, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        make_endless_digits(**{"X": X, "y": y, **arguments})


def test_without_cupy_the_error_names_the_extra(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cupy_library.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[gpu\]'"):
        make_endless_digits(*data, device="cuda")


def test_they_are_the_same_however_many_are_made_together(data, monkeypatch):
    numpy = SimpleNamespace(xp=np)
    monkeypatch.setattr(digits_module, "cupy_library", lambda: numpy)
    for pictures in (data[0], data[0] / 16):
        host, there = (
            next(make_endless_digits(pictures, data[1], random_state=5, device=device))
            for device in ("cpu", "cuda")
        )
        np.testing.assert_array_equal(there[0], host[0])
        np.testing.assert_array_equal(there[1], host[1])


def test_on_a_device_they_are_the_same(data):
    try:
        cupy = cupy_library().xp
    except (ImportError, RuntimeError) as error:
        pytest.skip(str(error))
    X, y = data
    for pictures in (X, X / 16):
        host, labels = next(make_endless_digits(pictures, y, random_state=5))
        for source in (pictures, cupy.asarray(pictures)):
            digits = make_endless_digits(source, y, random_state=5, device="cuda")
            there, labels_there = next(digits)
            assert isinstance(there, cupy.ndarray)
            np.testing.assert_array_equal(labels_there, labels)
            np.testing.assert_array_equal(there.get(), host)
    with pytest.raises(ValueError, match="X is on a device"):
        make_endless_digits(cupy.asarray(X), y)
