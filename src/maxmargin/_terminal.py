"""A bar for long work, with rate and time left, by ``rich``; silent in a pipe."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol


class Advance(Protocol):
    """Say that ``amount`` more is done, and what there is to tell about it."""

    def __call__(self, amount: float, note: str = "") -> None: ...


def quiet(amount: float, note: str = "") -> None:
    pass


@contextlib.contextmanager
def bar(title: str, total: float | None, unit: str, enabled: bool = True) -> Iterator[Advance]:
    """Show a bar while the block runs, on a terminal where ``rich`` is installed.

    ``total`` is None if it is unknown.
    """
    if not (enabled and sys.stderr.isatty()):
        yield quiet
        return
    try:
        from rich import progress
        from rich.console import Console
    except ModuleNotFoundError:
        yield quiet
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=20),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit}, {{task.fields[rate]}}/s"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=total, note="", rate="0")
        began, done = time.perf_counter(), 0.0

        def advance(amount: float, note: str = "") -> None:
            nonlocal done
            done += amount
            rate = done / max(time.perf_counter() - began, 1e-9)
            shown.update(task, advance=amount, note=note, rate=f"{rate:,.3g}")

        yield advance
