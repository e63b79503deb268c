"""Run the cells of experiments, those that are not on disk yet, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from maxmargin._terminal import bar
from maxmargin_papers.reproduction.cell_files import Place
from maxmargin_papers.reproduction.experiment import (
    DataHome,
    Experiment,
    Missing,
    Numbers,
    Results,
    Scale,
)
from maxmargin_papers.reproduction.fingerprint import fingerprint
from maxmargin_papers.reproduction.verdicts import Line, judge


@dataclass(frozen=True)
class Outcome:
    """An experiment after its cells were run.

    Attributes
    ----------
    experiment : Experiment
    records : list of dict
        One for each cell, as on disk.
    lines : list of Line
    missing : list of str
        Why cells could not be run: what is missing.
    """

    experiment: Experiment
    records: list[dict[str, Any]]
    lines: list[Line]
    missing: list[str]

    @property
    def results(self) -> Results:
        return results_of(self.records)

    @property
    def measured_on(self) -> list[str]:
        """Dates and commits of the cells, each once."""
        found = (record.get("measured_on") for record in self.records)
        return list(dict.fromkeys(one for one in found if one))

    @property
    def found(self) -> Sequence[str]:
        """What came out, in sentences, if that is not said by a comparison."""
        return self.experiment.found(self.results) if self.experiment.found else ()


class Task(NamedTuple):
    """What a worker needs in order to measure a cell."""

    measure: Callable[..., Numbers]
    place: Place
    data_home: DataHome
    title: str


class Done(NamedTuple):
    """What it sends back: a record, or what is missing."""

    record: dict[str, Any] | None
    missing: str


def run_all(
    experiments: Sequence[Experiment], scale: Scale, out: Path, data_home: DataHome, jobs: int
) -> list[Outcome]:
    """Measure what is not on disk yet; all outcomes, in order."""
    tasks = [list(tasks_of(one, scale, out, data_home)) for one in experiments]
    left = {task.place.path: task for each in tasks for task in each}
    done: dict[Path, Done] = {}
    with bar("reproduce", len(left), "cells") as advance:
        for path, task in list(left.items()):
            if record := task.place.load():
                done[path] = Done(record, "")
                del left[path]
                advance(1)
        for task, result in measure_all(list(left.values()), jobs):
            done[task.place.path] = result
            advance(1, note=task.title)
    return [
        outcome(one, scale, [done[task.place.path] for task in each])
        for one, each in zip(experiments, tasks, strict=True)
    ]


def tasks_of(
    experiment: Experiment, scale: Scale, out: Path, data_home: DataHome
) -> Iterator[Task]:
    code = fingerprint(experiment.measure)
    folder = out / "cells" / (experiment.cells_of or experiment.name)
    for cell in experiment.cells(scale):
        place = Place(folder, cell, code, scale == "tiny")
        yield Task(experiment.measure, place, data_home, experiment.name)


def outcome(experiment: Experiment, scale: Scale, done: Sequence[Done]) -> Outcome:
    records = [one.record for one in done if one.record]
    missing = list(dict.fromkeys(one.missing for one in done if one.missing))
    return Outcome(experiment, records, judge(experiment, results_of(records), scale), missing)


def results_of(records: Sequence[dict[str, Any]]) -> Results:
    return Results([(record["cell"], record["numbers"]) for record in records])


def measure_all(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Done]]:
    """Each task with its result, as they are finished."""
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, measure_one(task)
        return
    jobs = min(jobs, len(tasks))
    threads = max(1, (os.cpu_count() or 1) // jobs)
    others = set(multiprocessing.active_children())
    # Spawned, not forked: threads of BLAS and Numba do not survive a fork.
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=prepare_worker, initargs=(threads,)
    )
    try:
        futures = {pool.submit(measure_one, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    pool.shutdown()


def prepare_worker(threads: int) -> None:
    """The workers share the cores, and leave Ctrl-C to the process that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(threads)


def measure_one(task: Task) -> Done:
    began, began_working = time.perf_counter(), time.process_time()
    try:
        numbers = task.measure(task.place.cell, task.place.tiny, task.data_home)
    except (FileNotFoundError, Missing) as error:
        return Done(None, str(error))
    seconds, working = time.perf_counter() - began, time.process_time() - began_working
    return Done(task.place.save(numbers, seconds, working), "")
