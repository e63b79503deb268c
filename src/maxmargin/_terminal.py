"""A bar for long work: on a terminal, with rate and time left; silent in a pipe."""

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
    """Show a bar while the block runs; uses ``rich`` if it is installed, else one plain line.

    ``total`` is None if it is unknown.
    """
    if not (enabled and sys.stderr.isatty()):
        yield quiet
        return
    try:
        from rich import progress
        from rich.console import Console, RenderableType
        from rich.text import Text
    except ModuleNotFoundError:
        with _plain_line(title, total, unit) as advance:
            yield advance
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit}, {{task.fields[rate]}}/s"),
        progress.TimeRemainingColumn(),
    )

    class TwoLines(progress.Progress):
        """The note has a line of its own, which is cut off where the terminal ends."""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            for each in self.tasks:
                yield Text(each.fields["note"], no_wrap=True, overflow="ellipsis")

    with TwoLines(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=total, note="", rate="0")
        began, done = time.perf_counter(), 0.0

        def advance(amount: float, note: str = "") -> None:
            nonlocal done
            done += amount
            rate = done / max(time.perf_counter() - began, 1e-9)
            shown.update(task, advance=amount, note=note, rate=f"{rate:,.3g}")

        yield advance


@contextlib.contextmanager
def _plain_line(title: str, total: float | None, unit: str) -> Iterator[Advance]:
    began, done = time.perf_counter(), 0.0

    def advance(amount: float, note: str = "") -> None:
        nonlocal done
        done += amount
        spent = max(time.perf_counter() - began, 1e-9)
        left, of = "", ""
        if total is not None:
            of = f"/{total:g}"
            left = f", {spent / max(done, 1e-9) * (total - done):.0f} s left"
        line = f"{title} {done:g}{of} {unit}, {done / spent:,.3g}/s{left} {note}"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    try:
        yield advance
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
