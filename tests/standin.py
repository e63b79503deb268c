"""NumPy in the place of CuPy: the code for devices runs where there is none, and is checked.

Arrays of the device are of a class of their own that meets no array of the host, as on a device:
whoever mixes them has forgotten to carry one over.
"""

from contextlib import nullcontext

import numpy as np

from maxmargin.kernels import cuda


class OnDevice(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that is not on the host."""

    def __init__(self, array):
        self.array = array

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    size = property(lambda self: self.array.size)
    ndim = property(lambda self: self.array.ndim)
    strides = property(lambda self: self.array.strides)
    itemsize = property(lambda self: self.array.itemsize)
    nbytes = property(lambda self: self.array.nbytes)
    T = property(lambda self: OnDevice(self.array.T))
    __cuda_array_interface__ = property(lambda self: {})

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        outs = () if out is None else out
        inputs = [_inside(each) for each in inputs]
        if out is not None:
            kwargs["out"] = tuple(_inside(each) for each in outs)
        result = getattr(ufunc, method)(*inputs, **kwargs)
        return out[0] if out is not None else OnDevice(result)

    def __getitem__(self, which):
        return OnDevice(self.array[_index(which)])

    def __setitem__(self, which, value):
        self.array[_index(which)] = _inside(value)

    def __bool__(self):
        return bool(self.array)

    def __len__(self):
        return len(self.array)

    def __iter__(self):
        return (OnDevice(each) for each in self.array)

    def __float__(self):
        return float(self.array)

    def __int__(self):
        return int(self.array)

    def __deepcopy__(self, memo):
        return OnDevice(self.array.copy())

    def get(self):
        return self.array.copy()


for _name in ("sum", "copy", "astype", "view", "max", "min", "any", "all", "var", "mean", "clip"):

    def _method(self, *args, _name=_name, **kwargs):
        return OnDevice(np.asarray(getattr(self.array, _name)(*args, **kwargs)))

    setattr(OnDevice, _name, _method)


def _inside(value):
    if isinstance(value, OnDevice):
        return value.array
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _index(which):
    if isinstance(which, tuple):
        return tuple(_index(each) for each in which)
    return _inside(which)


class Functions:
    """What the code for devices asks of CuPy's module."""

    subtract, square = staticmethod(np.subtract), staticmethod(np.square)
    minimum, maximum = staticmethod(np.minimum), staticmethod(np.maximum)
    isfinite, sqrt = staticmethod(np.isfinite), staticmethod(np.sqrt)

    @staticmethod
    def asarray(array):
        return array if isinstance(array, OnDevice) else OnDevice(np.array(array))

    @staticmethod
    def ascontiguousarray(array, dtype=None):
        return OnDevice(np.ascontiguousarray(array.array, dtype))

    @staticmethod
    def zeros(shape, dtype=np.float64):
        return OnDevice(np.zeros(shape, dtype))

    @staticmethod
    def concatenate(arrays, axis=0):
        return OnDevice(np.concatenate([each.array for each in arrays], axis))

    @staticmethod
    def stack(arrays):
        return OnDevice(np.stack([each.array for each in arrays]))

    @staticmethod
    def where(condition, one, other):
        return OnDevice(np.where(*(_inside(each) for each in (condition, one, other))))

    @staticmethod
    def flatnonzero(array):
        return OnDevice(np.flatnonzero(array.array))

    @staticmethod
    def argmax(array):
        return OnDevice(np.argmax(array.array))


for _name in ("empty", "ones", "full", "arange"):

    def _made(*args, _name=_name, **kwargs):
        return OnDevice(getattr(np, _name)(*args, **kwargs))

    setattr(Functions, _name, staticmethod(_made))


class Library:
    """`cuda.Cupy`, by NumPy."""

    xp = Functions

    def __init__(self):
        self.products, self.fetched_values = 0, 0

    def fetched(self, array, out=None):
        self.fetched_values += array.size
        if out is None:
            return array.array.copy()
        out[...] = array.array
        return out

    def all_bits(self, factors):
        return int(np.bitwise_or.reduce(factors.array.view(np.uint32), axis=None, initial=0))

    def multiplied(self, left, right):
        assert left.kind == right.kind
        self.products += left.factors.size * right.factors.shape[0]
        left, right = (
            cuda._as_kind(each, cuda._wider(each.kind, "float32")) for each in (left, right)
        )
        return OnDevice(left.factors.array @ right.factors.array.T)

    def pairs(self, kernel):
        return self.distances if kernel.pairwise == "distances" else self.multiplied

    def distances(self, left, right):
        assert left.kind == right.kind == left.factors.dtype.name
        between = abs(left.factors.array[:, None] - right.factors.array)
        return OnDevice(between.sum(axis=2))

    def streams(self, count):
        return [nullcontext()] * count

    def solved(self, system, sides):
        try:
            np.linalg.cholesky(system.array)
        except np.linalg.LinAlgError:
            return OnDevice(np.full(sides.shape, np.nan))
        return OnDevice(np.linalg.solve(system.array, sides.array))

    def apply(self, kernel, values, own, other):
        array, real = values.array, values.dtype.type
        names = {"p": array, "own": own.array[:, None], "other": other.array, "exp": np.exp}
        names |= {"gamma": real(kernel.gamma), "coef0": real(kernel.coef0), "min": np.minimum}
        names |= {"raised": np.power, "degree": int(kernel.degree), "real": real}
        formula = kernel.formula.replace("(real)0", "real(0)")
        array[...] = eval(formula, {"__builtins__": {}}, names)

    def add_sums(self, kernel, values, own, other, weights, parts):
        self.apply(kernel, values, own, other)
        parts.array[0] += weights.array @ values.array.astype(np.float64)
