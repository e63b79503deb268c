"""Handwritten digits with kernels: what the two tables of the paper have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits

from maxmargin import AMIRA, ROMMA, Perceptron
from maxmargin_papers.experiments.training_passes import shuffled_passes
from maxmargin_papers.reproduction.experiment import (
    BY_CHANCE,
    Answer,
    Claim,
    DataHome,
    Kind,
    Measure,
    NotComparable,
    NoVerdict,
    Printed,
    Results,
    Tolerance,
    at,
    measured,
)
from maxmargin_papers.reproduction.figures import COLOURS, Panel
from maxmargin_papers.reproduction.significance import all_hold, less

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""X, y, and the same for testing."""

BEST = 0
OTHER_LEARNER = NotComparable(
    "as many updates as ROMMA makes on mistakes alone, but aggressive ROMMA corrects every margin "
    "below 1: which learner this was is not known"
)


def data_of(load: Callable[..., Any], tiny: bool, data_home: DataHome) -> Data:
    """What ``load`` gives, or a stand-in: scikit-learn's digits, from 0 to 1."""
    if tiny:
        X, y = load_digits(return_X_y=True)
        return X[:300] / 16.0, y[:300], X[300:400] / 16.0, y[300:400]
    return (*load(data_home=data_home), *load("test", data_home=data_home))


def usual_learner(name: str, **settings: Any) -> Any:
    """The learners that both tables have."""
    if "MIRA" in name:
        epsilon = 1.0 if name.endswith(" MIRA") else float(name.partition("(")[2][:-1])
        multiclass = name.partition(" ")[0].replace("bin", "ovr")
        return AMIRA(epsilon=epsilon, multiclass=multiclass, **settings)
    if "ROMMA" in name:
        return ROMMA(delta=1.0 if name == "ROMMA" else 0.0, **settings)
    return Perceptron(average=name == "Avg. Perceptron", **settings)


def errors_by_pass(
    clf: ClassifierMixin, data: Data, passes: int, random_state: int | np.random.RandomState
) -> dict[str, Any]:
    """Test errors in per cent after each pass, and the updates of all classes in the end."""
    X, y, X_test, y_test = data
    errors = [
        100.0 * np.mean(clf.predict(X_test) != y_test)
        for _ in shuffled_passes(clf, X, y, passes, random_state)
    ]
    return {"errors": errors, "updates": clf.n_updates_}


def after(passes: int, name: str) -> Measure:
    return at("errors", passes - 1, learner=name)


def best_pass(name: str) -> Measure:
    """The errors after the pass with the lowest mean."""

    def values(results: Results) -> Sequence[float]:
        best = 1 + int(np.argmin(results.curve("errors", learner=name)))
        return after(best, name)(results)

    return values


def table_lines(
    table: Mapping[str, str],
    looks: Sequence[int],
    passes: int,
    where: str,
    *,
    fitted: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
) -> Iterator[Printed]:
    """A table with errors after some passes, `BEST` being the best of them, and all updates.

    ``fitted`` has the learners that were chosen for their numbers; ``notes`` what there is to know
    about single numbers.
    """
    for name, line in table.items():
        kind: Kind = "fitted" if name in fitted else "strict"
        columns = [
            (f"error %, {look} pass{'es' if look > 1 else ''}", after(look, name))
            if look != BEST
            else (f"error %, best of {passes}", best_pass(name))
            for look in looks
        ]
        columns.append((f"updates in {passes} passes", measured("updates", learner=name)))
        for (column, ours), text in zip(columns, line.split(), strict=True):
            rule: Tolerance | NoVerdict = OTHER_LEARNER if name == "Aggr. ROMMA" else BY_CHANCE
            note = (notes or {}).get(f"{name}, {column}", "")
            yield Printed(name, column, text, ours, rule, where, note, kind=kind)


def lowest(
    name: str, others: Collection[str], passes: Sequence[int], text: str, where: str
) -> Claim:
    """The claim that a learner has fewer errors than each of the others after these passes."""

    def holds(results: Results) -> Answer:
        answers, said = [], []
        for look in passes:
            errors = {each: after(look, each)(results) for each in (name, *others)}
            means = {each: np.mean(values) for each, values in errors.items()}
            rival = min(others, key=means.__getitem__)
            answers += [less(errors[name], errors[each]) for each in others]
            said.append(f"pass {look}: {means[name]:.2f} %, {rival} {means[rival]:.2f} %")
        return all_hold(answers), "; ".join(said)

    return Claim(name, text, holds, where)


def panel(caption: str, results: Results, names: Sequence[str], **legend: Any) -> Panel:
    """The mean test errors after each pass, for learners that were run."""
    settings = {"xlabel": "passes", "ylabel": "test error, %"}
    return Panel(caption, partial(_draw, results=results, names=names), settings, legend)


def _draw(axes: Any, results: Results, names: Sequence[str]) -> None:
    run = {cell["learner"] for cell, _ in results.records}
    for name, colour in zip(names, COLOURS, strict=False):
        if name in run:
            curve = results.curve("errors", learner=name)
            passes = range(1, len(curve) + 1)
            axes.plot(passes, curve, "o-", color=colour, markersize=3, label=name)
            axes.set_xticks(passes)
