"""The experiments of the papers, and one of our own, and the command that runs them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from maxmargin_papers.reproduction.experiment import DataHome, Experiment, Scale

__all__ = ["find", "listing", "reproduce"]

EXPERIMENTS = "maxmargin_papers.experiments"
NAMES = (
    "pumma-figure3",
    "pumma-figure4",
    "pumma-table1",
    "amira-figure2",
    "amira-figure3",
    "amira-table2",
    "amira-table3",
    "noca-table1",
    "noca-table2",
    "noca-table3",
    "noca-figure2",
    "tracking-figure1",
    "directional-margin",
    "libol",
    "libsol",
    "endless-digits",
)


def find(name: str) -> Experiment:
    """The experiment of that name; ValueError if there is none."""
    if name not in NAMES:
        raise ValueError(f"There is no experiment {name!r}; there are {', '.join(NAMES)}.")
    return import_module(f"{EXPERIMENTS}.{name.replace('-', '_')}").EXPERIMENT


def listing() -> list[tuple[str, str]]:
    """Name and title of every experiment."""
    return [(name, find(name).title) for name in NAMES]


def reproduce(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    out: Path = Path("reproduction"),
    data: DataHome = None,
    jobs: int | None = None,
) -> str:
    """Run experiments and write cells, CSV, JSON and the page into ``out``.

    Cells that are in ``out`` already are not run again. Those of a quick run count for a full one.

    Parameters
    ----------
    names : sequence of str, default=()
        None of them means all.
    quick : bool, default=False
        Fewer runs: all experiments together in minutes.
    out : Path
        A folder, made if it is not there.
    data : str, path or None, default=None
        The folder with the real data; None is the one named by ``MAXMARGIN_DATA``.
    jobs : int, default=None
        Number of processes; None is one for each core.

    Returns
    -------
    str
        What came out, a line for each experiment.
    """
    experiments = [find(name) for name in names or NAMES]
    return run(experiments, "quick" if quick else "full", out, data, jobs or os.cpu_count() or 1)


def run(
    experiments: Sequence[Experiment], scale: Scale, out: Path, data: DataHome, jobs: int
) -> str:
    """The same for any experiments, at any scale."""
    from maxmargin_papers.reproduction.report import in_words, write_all
    from maxmargin_papers.reproduction.runner import run_all

    outcomes = run_all(experiments, scale, out, data, jobs)
    write_all(outcomes, scale, out)
    return in_words(outcomes)
