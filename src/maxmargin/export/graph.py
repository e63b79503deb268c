"""An ONNX graph built node by node; arrays among the inputs of a node become constants."""

from __future__ import annotations

from typing import Any

import numpy as np

import maxmargin
from maxmargin._extras import onnx

# Of onnx 1.10 (2021), which most runtimes read.
IR_VERSION = 8
OPSET = 15
ML_OPSET = 2
ML = "ai.onnx.ml"
# The limit of protocol buffers, less some space for nodes.
MOST_BYTES = 2**31 - 2**20
ROWS = "N"


class Graph:
    """A graph; values are identified by names, which methods return."""

    def __init__(self) -> None:
        self._nodes, self._constants = list[Any](), list[Any]()
        self._inputs, self._outputs = list[Any](), list[Any]()
        self._names, self._bytes = set[str](), 0

    def input(self, name: str, dtype: Any, width: int) -> str:
        """An input matrix with any number of rows."""
        if not name or name in self._names:
            raise ValueError(f"No input can have the name {name!r}: rename the column.")
        self._names.add(name)
        self._inputs.append(_described(name, dtype, [ROWS, width]))
        return name

    def output(self, name: str, value: Any, dtype: Any, *widths: int) -> None:
        """Make a value an output of this name."""
        if name in self._names:
            raise ValueError(f"The output {name!r} has the name of a column: rename the column.")
        self._names.add(name)
        self._nodes.append(onnx("helper").make_node("Identity", [value], [name]))
        self._outputs.append(_described(name, dtype, [ROWS, *widths]))

    def __call__(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node of this kind."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        name = self._fresh(kind)
        make_node = onnx("helper").make_node
        self._nodes.append(make_node(kind, names, [name], domain=domain, **attributes))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self("Cast", value, to=_number_of(dtype))

    def claim(self, size: int) -> None:
        """Raise if an array of so many bytes would exceed the limit."""
        if self._bytes + size > MOST_BYTES:
            raise ValueError(
                f"The graph would have {(self._bytes + size) / 2**30:.1f} GiB, and ONNX files hold "
                "2 at most: use fewer features, or a budget."
            )

    def _constant(self, array: Any) -> str:
        array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        self.claim(array.nbytes)
        self._bytes += array.nbytes
        name = self._fresh("constant")
        self._constants.append(onnx("numpy_helper").from_array(array, name))
        return name

    def _fresh(self, kind: str) -> str:
        k = len(self._names)
        while (name := f"/{kind}_{k}") in self._names:
            k += 1
        self._names.add(name)
        return name

    def model(self, name: str, doc: str) -> Any:
        helper = onnx("helper")
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, self._constants, doc_string=doc
        )
        versions = {"": OPSET} | {node.domain: ML_OPSET for node in self._nodes if node.domain}
        return helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid(*each) for each in versions.items()],
            producer_name="maxmargin",
            producer_version=maxmargin.__version__,
        )


def _number_of(dtype: Any) -> int:
    """The code of a data type in ONNX; `str` means strings."""
    if dtype is str:
        return int(onnx().TensorProto.STRING)
    return int(onnx("helper").np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _described(name: str, dtype: Any, shape: list[Any]) -> Any:
    return onnx("helper").make_tensor_value_info(name, _number_of(dtype), shape)
