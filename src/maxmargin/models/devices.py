"""Where kernel values are made."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from maxmargin.kernels.cuda import CudaProducts
from maxmargin.kernels.functions import KERNELS
from maxmargin.kernels.products import NARROW_TYPES, Products
from maxmargin.models.base import Model
from maxmargin.models.spec import ModelSpec


def products_on(device: str) -> Products:
    """What makes kernel values."""
    return CudaProducts() if device == "cuda" else Products()


def on_device(model: Model, device: str) -> Model:
    """A model that knows the same, and whose kernel values are made on another device."""
    if model.spec.device == device:
        return model
    check(replace(model.spec, device=device), model if model.has_supports else None)
    if not model.has_supports:
        return model
    other = copy.copy(model)
    other.spec, other.products = replace(model.spec, device=device), products_on(device)  # type: ignore[attr-defined]
    return other


def check(spec: ModelSpec, eviction: Any) -> None:
    """Raise where there is nothing that the device could do."""
    if spec.device == "cpu":
        if spec.kernel_dtype in NARROW_TYPES:
            raise ValueError(f"kernel_dtype={spec.kernel_dtype!r} is for device='cuda' only.")
        return
    if spec.kernel == "linear" and eviction is None:
        raise ValueError("device='cuda' is for kernels: kernel='linear' learns on the host.")
    if not (isinstance(spec.kernel, str) and KERNELS[spec.kernel].formula):
        raise ValueError("device='cuda' computes the kernels 'linear', 'poly' and 'rbf' only.")
