"""What may not be there: libraries of extras, and `Self`, which Python has from 3.11 on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self as Self
else:
    Self = Any


def plotting(module: str) -> Any:
    """A module of matplotlib, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: pip install 'maxmargin[plots]'") from None


def on_cuda() -> Any:
    """CuPy, or an error that says how to install it, or that there is no device."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise ImportError("device='cuda' needs CuPy: pip install 'maxmargin[gpu]'") from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device='cuda' needs a CUDA device, and there is none: {error}"
        ) from None
    return cupy
