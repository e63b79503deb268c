"""One pass over millions of deformed digits: how far does it get?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin import AMIRA
from maxmargin.datasets import load_mnist, make_endless_digits
from maxmargin.kernels.cuda import cupy_library
from maxmargin_papers.experiments.digit_learners import data_of
from maxmargin_papers.experiments.one_pass import one_pass
from maxmargin_papers.reproduction.experiment import (
    Cell,
    DataHome,
    Experiment,
    Missing,
    Results,
    Scale,
)

if TYPE_CHECKING:
    from maxmargin_papers.reproduction.figures import Panel

SEEDS = 3
# Digits of a pass, of a block, and to test on.
SIZES = {"cuda": (8_100_000, 65_536, 10_000), "cpu": (20_480, 1024, 2_000)}
TINY = (400, 100, 100)
# Of deformations of pictures of 8 by 8 pixels.
SMALL: dict[str, Any] = {"shift": 0.3, "elastic": 0.3, "smoothness": 1.5}
GAMMA, SMALL_GAMMA = 0.04, 0.5  # for pixels from 0 to 1
WORDS = {"cuda": "on a GPU", "cpu": "on the host"}


def cells(scale: Scale) -> Sequence[Cell]:
    devices = ("cuda", "cpu") if scale == "full" else ("cpu",)
    return [{"device": device, "seed": seed} for device in devices for seed in range(SEEDS)]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    """Errors against digits seen, of the last weights and of their average, and seconds."""
    device = str(cell["device"])
    xp, wait = array_library(device)
    X, y, X_test, y_test = data_of(load_mnist, tiny, data_home)
    rows, block_size, tests = TINY if tiny else SIZES[device]
    blocks = make_endless_digits(
        X,
        y,
        n_samples=rows,
        block_size=block_size,
        random_state=int(cell["seed"]),
        device=device,
        **(SMALL if tiny else {}),
    )
    curves = one_pass(
        learner(SMALL_GAMMA if tiny else GAMMA / 255.0**2, device),
        blocks,
        np.unique(y),
        xp.asarray(X_test[:tests]),
        y_test[:tests],
        wait=wait,
    )
    ends = {f"{name} in the end": curve[-1] for name, curve in curves.items()}
    return {**curves, **ends}


def learner(gamma: float, device: str) -> AMIRA:
    return AMIRA(epsilon=0.5, kernel="rbf", gamma=gamma, fit_intercept=False, device=device)


def array_library(device: str) -> tuple[Any, Any]:
    """NumPy or CuPy, and how to wait for what was started there."""
    if device == "cpu":
        return np, lambda: None
    try:
        cupy = cupy_library().xp
    except (ImportError, RuntimeError) as error:
        raise Missing(f"It needs a GPU and CuPy: {error}") from error
    return cupy, cupy.cuda.Stream.null.synchronize


def found(results: Results) -> list[str]:
    return [line for device in devices_of(results) for line in lines_of(results, device)]


def lines_of(results: Results, device: str) -> list[str]:
    def ends(name: str) -> list[Any]:
        return results.values(f"{name} in the end", device=device)

    seconds = [a + b for a, b in zip(ends("making"), ends("learning"), strict=True)]
    last, averaged = (", ".join(f"{e:.2f}" for e in ends(name)) for name in ("last", "averaged"))
    means = (
        results.mean("last in the end", device=device),
        results.mean("averaged in the end", device=device),
    )
    return [
        f"{ends('seen')[0]:,} digits {WORDS[device]}: {means[1]:.2f} % of the test digits are "
        f"wrong by the average of the last weights ({averaged}), {means[0]:.2f} % by the last "
        f"ones ({last}).",
        f"A pass took {min(seconds):.0f} to {max(seconds):.0f} s and kept "
        f"{min(ends('supports')):,} to {max(ends('supports')):,} supports.",
    ]


def devices_of(results: Results) -> list[str]:
    run = {cell["device"] for cell, _ in results.records}
    return [device for device in SIZES if device in run]


def panels(results: Results) -> list[Panel]:
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    from maxmargin_papers.reproduction.figures import COLOURS, Panel

    def draw(axes: Any, device: str) -> None:
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(LogLocator(subs=()))
        runs = (results.values(name, device=device) for name in ("seen", "last", "averaged"))
        for run, (seen, last, averaged) in enumerate(zip(*runs, strict=True)):
            labels = ("last weights", "average of the last") if run == 0 else (None, None)
            axes.plot(seen, last, color=COLOURS[1], linewidth=0.8, label=labels[0])
            axes.plot(seen, averaged, color=COLOURS[0], label=labels[1])

    labels = {"xlabel": "digits seen", "ylabel": "test error, %"}
    caption = "Test errors of single runs, {}."
    return [
        Panel(caption.format(WORDS[device]), partial(draw, device=device), labels)
        for device in devices_of(results)
    ]


EXPERIMENT = Experiment(
    name="endless-digits",
    title="One pass over millions of deformed MNIST digits with a Gaussian kernel",
    paper="",
    place="",
    claim="The error goes on falling with the digits seen, and the average of the last weights "
    "errs less than the last ones.",
    runs=SEEDS,
    cells=cells,
    measure=measure,
    compared=(),
    found=found,
    panels=panels,
    choices=(
        "AMIRA with ε = 0.5 and the kernel exp(−0.04 ‖x − x′‖²) of pixels from 0 to 1; digits as "
        "make_endless_digits deforms them by default.",
        "Weights are averaged over the ends of blocks in the last quarter of the digits seen so "
        "far: the mean of their outputs is the output of their mean.",
        "Seconds are those of making digits and learning from them, not those of testing. Runs "
        "that share a GPU take longer: --jobs 1 makes one after the other.",
        "The host sees 20,480 digits and is tested on the first 2,000 test digits.",
    ),
)
