"""Optional dependencies, and `Self`, which Python has from 3.11 on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self as Self
else:
    Self = Any


def onnx(module: str = "") -> Any:
    """Import a module of onnx, or raise an error that explains how to install it."""
    try:
        return importlib.import_module(f"onnx.{module}" if module else "onnx")
    except ModuleNotFoundError:
        raise ImportError("exporting to ONNX needs onnx: pip install 'maxmargin[onnx]'") from None


def plotting(module: str) -> Any:
    """Import a module of matplotlib, or raise an error that explains how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError("plotting needs matplotlib: pip install 'maxmargin[plots]'") from None


def is_on_device(array: Any) -> bool:
    """Is it an array of CuPy, or one that CuPy takes without copying it?"""
    return hasattr(array, "__cuda_array_interface__")
