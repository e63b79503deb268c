"""Digits without end: those of a data set, each time deformed in another way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_random_state, column_or_1d, gen_batches
from sklearn.utils.validation import check_consistent_length

from maxmargin._extras import is_on_device
from maxmargin._validation import Interval, StrOptions, validate_params
from maxmargin.kernels.cuda import cupy_library

# Places are whole multiples of 1 / FINE of a pixel, and are rounded to 1 / PARTS of a pixel before
# they are looked up. So all sums of a place are exact in float32, in whatever order a matrix
# product adds them, and so are those of grey levels up to 255: every machine makes the same digits.
FINE = 2.0**16
PARTS = 128

# Distance of the nodes of an elastic field, in widths of their Gaussians: the field has the same
# variance between nodes as at them to half a per cent, even before it is made exact.
SPACING = 1.25
# Numbers at the nodes are the odd ones from -255 to 255.
DEVIATION_AT_NODES = math.sqrt((256.0**2 - 1.0) / 3.0)

# Digits that are deformed together: few enough for the caches of a core, or many for a GPU.
TOGETHER = {"cpu": 512, "cuda": 8192}

# Words of random bits that a digit has: the source, then six numbers, then the elastic field.
SOURCE, SIX_NUMBERS, FIELD = 0, 1, 4

_AMOUNT = [Interval(Real, 0, 100, closed="both")]


@validate_params(
    {
        "X": ["array-like"],
        "y": ["array-like"],
        "n_samples": [Interval(Integral, 1, None, closed="left"), None],
        "start": [Interval(Integral, 0, None, closed="left")],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "rotation": [Interval(Real, 0, 180, closed="both")],
        "shift": _AMOUNT,
        "scale": _AMOUNT,
        "shear": _AMOUNT,
        "elastic": _AMOUNT,
        "smoothness": [Interval(Real, 1, None, closed="left")],
        "random_state": ["random_state"],
        "device": [StrOptions({"cpu", "cuda"})],
        "dtype": [type, str, np.dtype],
    },
    prefer_skip_nested_validation=True,
)
def make_endless_digits(
    X: Any,
    y: Any,
    *,
    n_samples: int | None = None,
    start: int = 0,
    block_size: int = 8192,
    rotation: float = 10.0,
    shift: float = 1.0,
    scale: float = 0.1,
    shear: float = 0.1,
    elastic: float = 1.0,
    smoothness: float = 4.5,
    random_state: Any = None,
    device: str = "cpu",
    dtype: Any = np.float32,
) -> Iterator[tuple[Any, np.ndarray]]:
    """An endless stream of deformed digits, in blocks, without repetition.

    Each is a digit of ``X``, drawn at random, that was turned, moved, stretched and slanted, and
    whose strokes were bent by a smooth random field. `fit_stream` takes the stream as it is, and
    `partial_fit` its blocks. It is an iterator: for other digits in a second pass make another one,
    which starts where this one ended.

    Digit number i depends on the seed and on i only, neither on the size of blocks nor on where the
    stream starts. Pictures of whole grey levels, such as those of MNIST, stay such, and are then
    the same on host and device.

    Parameters
    ----------
    X : array of shape (n_pictures, side * side)
        Square pictures, row by row; the smallest of all values is that of the paper. NumPy, or
        CuPy for ``device="cuda"``.
    y : array of shape (n_pictures,)
        Their labels.
    n_samples : int, default=None
        Number of digits; None for a stream without end.
    start : int, default=0
        Number of the first digit.
    block_size : int, default=8192
        Digits of a block; the last block may have fewer.
    rotation : float, default=10.0
        Largest angle, in degrees.
    shift : float, default=1.0
        Largest move along each axis, in pixels.
    scale : float, default=0.1
        Each axis is stretched or shrunk by a factor of at most ``1 + scale``.
    shear : float, default=0.1
        Largest slant: pixels to the side for each pixel up.
    elastic : float, default=1.0
        Root of the mean square of the random field along each axis, in pixels.
    smoothness : float, default=4.5
        Width of the Gaussians of which the field is made, in pixels, at least 1.
    random_state : int, RandomState instance or None, default=None
    device : {"cpu", "cuda"}, default="cpu"
        Where digits are made. ``"cuda"`` needs CuPy (``pip install 'maxmargin[gpu]'``), copies
        ``X`` there once, and gives CuPy arrays.
    dtype : {float32, float64}, default=float32
        Of the digits.

    Yields
    ------
    X : array of shape (block_size, side * side)
    y : ndarray of shape (block_size,)
        On the host always.

    References
    ----------
    P. Simard, D. Steinkraus and J. Platt, "Best practices for convolutional neural networks applied
    to visual document analysis", ICDAR 2003, has elastic fields of this kind.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from maxmargin import AMIRA
    >>> X, y = load_digits(return_X_y=True)
    >>> digits = make_endless_digits(
    ...     X[:1000], y[:1000], n_samples=5000, shift=0.5, elastic=0.3, smoothness=2, random_state=0
    ... )
    >>> clf = AMIRA(kernel="rbf", gamma=0.002).fit_stream(digits, classes=range(10))
    >>> clf.score(X[1000:], y[1000:]) > 0.95
    True
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"The 'dtype' parameter must be float32 or float64, got {dtype}.")
    xp = cupy_library().xp if device == "cuda" else np
    X = _pictures(X, xp)
    y = column_or_1d(y.get() if is_on_device(y) else y)
    check_consistent_length(X, y)
    side = math.isqrt(X.shape[1])
    if side * side != X.shape[1]:
        raise ValueError(f"X must have a row for each square picture, got {X.shape[1]} columns.")
    digits = Deformed(
        xp=xp,
        pictures=X,
        labels=y,
        paper=float(X.min()),
        ink=float(X.max()),
        is_whole=_is_whole(X, xp),
        # The only random number that does not come from hashes of it.
        key=np.uint64(check_random_state(random_state).randint(2**64, dtype=np.uint64)),
        most=Most(math.radians(rotation), shift, scale, shear),
        basis=xp.asarray(_basis(side, elastic, smoothness)),
        together=TOGETHER[device],
        dtype=dtype,
    )
    end = math.inf if n_samples is None else start + n_samples
    return digits.blocks(start, end, block_size)


@dataclass(frozen=True)
class Most:
    """The largest deformations: an angle, a move, a stretch, a slant."""

    angle: float
    shift: float
    scale: float
    shear: float


@dataclass(frozen=True, kw_only=True)
class Deformed:
    """Deformed pictures by their numbers, in the arrays of NumPy or CuPy (``xp``).

    Places in the source of a digit's pixels are one matrix product: the digit's affine map and its
    numbers at the nodes of the field, times ``basis``, which has the places of the pixels and the
    Gaussians of the nodes.
    """

    xp: Any
    pictures: Any
    labels: np.ndarray
    paper: float
    ink: float
    is_whole: bool
    key: np.uint64
    most: Most
    basis: Any
    together: int
    dtype: np.dtype

    def blocks(self, start: int, end: float, size: int) -> Iterator[tuple[Any, np.ndarray]]:
        while start < end:
            last = start + size if start + size < end else int(end)
            yield self.block(start, last)
            start = last

    def block(self, first: int, last: int) -> tuple[Any, np.ndarray]:
        numbers = np.arange(first, last, dtype=np.uint64)
        # Labels are on the host, so this is done there.
        drawn = _words(np, self.key, numbers, SOURCE, SOURCE + 1)[:, 0] >> np.uint64(32)
        source = (drawn * np.uint64(self.labels.size) >> np.uint64(32)).astype(np.intp)
        X = self.xp.empty((numbers.size, self.pictures.shape[1]), self.dtype)
        for some in gen_batches(numbers.size, self.together):
            X[some] = self._deformed(*map(self.xp.asarray, (numbers[some], source[some])))
        return X, self.labels[source]

    def _deformed(self, numbers: Any, source: Any) -> Any:
        xp, n = self.xp, numbers.size
        side = math.isqrt(self.pictures.shape[1])
        # A frame of paper: one pixel before the picture, two behind it.
        framed = xp.full((n, side + 3, side + 3), self.paper, self.dtype)
        framed[:, 1:-2, 1:-2] = self.pictures[source].reshape(n, side, side)

        place = (self._coefficients(numbers) @ self.basis).reshape(2, n, -1)
        xp.rint(place, out=place)
        xp.clip(place, 0, PARTS * (side + 1), out=place)
        whole = place.astype(np.int32)
        right, down = (whole & (PARTS - 1)).astype(self.dtype) / self.dtype.type(PARTS)
        whole >>= PARTS.bit_length() - 1
        x, y = whole

        framed = framed.ravel()
        at = xp.arange(n)[:, None] * (side + 3) ** 2 + y * np.int32(side + 3) + x
        upper = _between(framed.take(at), framed.take(at + 1), right)
        at += side + 3
        lower = _between(framed.take(at), framed.take(at + 1), right)
        pixels = _between(upper, lower, down)
        if self.is_whole:
            return xp.rint(pixels, out=pixels)
        return xp.clip(pixels, self.paper, self.ink, out=pixels)

    def _coefficients(self, numbers: Any) -> Any:
        """What the basis is to be multiplied with: first for x of all digits, then for y."""
        xp, most = self.xp, self.most
        nodes = self.basis.shape[0] - 3
        field = -(-nodes // 4)  # words for two numbers of 8 bits at each node
        words = _words(xp, self.key, numbers, SIX_NUMBERS, FIELD + field)
        six = xp.ascontiguousarray(words[:, : FIELD - SIX_NUMBERS]).view(np.uint32)
        angle, shear, x_scale, y_scale, x_shift, y_shift = six.T * 2.0**-31 - 1.0

        # The picture is turned after it was slanted and stretched; places go the other way.
        cos, sin = xp.cos(most.angle * angle), xp.sin(most.angle * angle)
        slant = most.shear * shear
        x_factor, y_factor = (xp.exp(math.log1p(most.scale) * s) for s in (x_scale, y_scale))
        side = math.isqrt(self.basis.shape[1])
        middle = (side - 1) / 2 + 1  # in the frame
        affine = (
            (x_factor * (cos - slant * sin), x_factor * (sin + slant * cos), x_shift),
            (-y_factor * sin, y_factor * cos, y_shift),
        )
        coefficients = xp.empty((2, numbers.size, 3 + nodes), np.float32)
        for axis, (of_x, of_y, move) in enumerate(affine):
            coefficients[axis, :, 0] = _rounded(xp, of_x, FINE / 2)  # pixels may be at halves
            coefficients[axis, :, 1] = _rounded(xp, of_y, FINE / 2)
            coefficients[axis, :, 2] = _rounded(xp, middle - most.shift * move, FINE)
        bits = xp.ascontiguousarray(words[:, FIELD - SIX_NUMBERS :]).view(np.int8)
        at_nodes = bits[:, : 2 * nodes].reshape(numbers.size, 2, nodes).swapaxes(0, 1)
        coefficients[:, :, 3:] = at_nodes
        coefficients[:, :, 3:] *= 2
        coefficients[:, :, 3:] += 1
        return coefficients.reshape(2 * numbers.size, -1)


def _basis(side: int, elastic: float, smoothness: float) -> np.ndarray:
    """Places of the pixels from the middle, a constant, and the nodes of the field.

    In units of 1 / PARTS of a pixel. At each pixel the Gaussians of all nodes have squares whose
    sum is one, so the field has the same variance everywhere.
    """
    pixels = np.arange(side) - (side - 1) / 2
    y, x = np.meshgrid(pixels, pixels, indexing="ij")
    affine = np.stack([x.ravel(), y.ravel(), np.ones(side * side)])
    if elastic == 0.0:
        return (PARTS * affine).astype(np.float32)
    spacing = SPACING * smoothness
    n_nodes = math.ceil((side - 1) / spacing) + 3  # at least one beyond each edge
    nodes = spacing * (np.arange(n_nodes) - (n_nodes - 1) / 2)
    weights = np.exp(-0.5 * ((nodes[:, None] - pixels) / smoothness) ** 2)
    weights /= np.linalg.norm(weights, axis=0)
    field = np.kron(weights, weights) * (elastic / DEVIATION_AT_NODES)
    return (PARTS * np.concatenate([affine, _rounded(np, field, FINE)])).astype(np.float32)


def _between(low: Any, high: Any, part: Any) -> Any:
    """``low + part * (high - low)``, in their place."""
    high -= low
    high *= part
    low += high
    return low


def _rounded(xp: Any, values: Any, per_unit: float) -> Any:
    return xp.rint(values * per_unit) / per_unit


def _words(xp: Any, key: np.uint64, numbers: Any, first: int, last: int) -> Any:
    """Random words ``first`` to ``last`` of each digit: those of SplitMix64 from a hashed start."""
    which = xp.arange(first + 1, last + 1, dtype=np.uint64) * GOLDEN
    starts = _mixed(numbers * GOLDEN + key)
    return _mixed(starts[:, None] + which)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: Any) -> Any:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _pictures(X: Any, xp: Any) -> Any:
    """``X``, checked, where ``xp`` has its arrays."""
    if not is_on_device(X):
        return xp.asarray(check_array(X))
    if xp is np:
        raise ValueError("X is on a device: device='cuda' is needed.")
    X = xp.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiu" or not bool(xp.isfinite(X).all()):
        raise ValueError("X must have finite numbers in two dimensions.")
    return X


def _is_whole(X: Any, xp: Any) -> bool:
    if X.dtype.kind != "f":
        return True
    pieces = (X[some] for some in gen_batches(X.shape[0], 1024))
    return all(bool((piece == xp.rint(piece)).all()) for piece in pieces)
