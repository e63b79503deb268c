"""One pass over real data, each row predicted before it is learned from: all contenders.

``python -m benchmarks.arena FILE.json [--data NAME ...] [--seeds N]`` measures each cell (data set,
order, contender) that is not in the file yet, and ``--show`` prints the table of means. Data sets
marked in `CHOSEN_ON` are those on which the experts of `AutoMargin` were chosen.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stream_contenders import Missing, Outcome, contenders
from benchmarks.stream_data import DATA, DataSet, load

CHOSEN_ON = {"a9a", "electricity", "sms, counts", "phishing", "usps"}  # of electricity, one half
LEAST_CHANCE = 1e-6

Cells = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arena", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=DATA)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="contenders whose name begins so")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    cells: Cells = json.loads(options.file.read_text()) if options.file.exists() else {}
    if options.show:
        show(cells)
        return
    warnings.simplefilter("ignore")
    for name in options.data:
        measure(name, options.seeds, options.only, cells, options.file)


def measure(name: str, seeds: int, only: str, cells: Cells, file: Path) -> None:
    whole = load(name)
    for seed in range(1 if whole.ordered else seeds):
        data = whole.shuffled(seed)
        for contender in contenders(data.classes()):
            key = f"{name} | {seed} | {contender.name}"
            if key in cells or not contender.name.startswith(only):
                continue
            try:
                cells[key] = scored(contender.run(data), data)
            except Missing as reason:
                print(f"{contender.name}: {reason}")
                continue
            print(key, cells[key], flush=True)
            written = file.with_suffix(".part")
            written.write_text(json.dumps(cells, indent=1))
            os.replace(written, file)


def scored(outcome: Outcome, data: DataSet) -> dict[str, Any]:
    """Accuracy in %, log loss if there are probabilities, and microseconds a row."""
    found = {
        "accuracy": round(100.0 * float((outcome.predicted == data.y).mean()), 3),
        "microseconds": round(1e6 * outcome.seconds / data.y.size, 3),
    }
    if outcome.probability is not None:
        own = outcome.probability[np.arange(data.y.size), data.y]
        found["log_loss"] = round(float(-np.log(np.maximum(own, LEAST_CHANCE)).mean()), 4)
    return found


def show(cells: Cells) -> None:
    """The means over the orders, a line for each data set."""
    for name in DATA:
        found: dict[str, list[dict[str, Any]]] = {}
        for key, cell in cells.items():
            data, _, contender = key.split(" | ", 2)
            if data == name:
                found.setdefault(contender, []).append(cell)
        if not found:
            continue
        print(f"\n{name}{' (chosen on)' if name in CHOSEN_ON else ''}")
        for contender, each in found.items():
            accuracy = np.mean([cell["accuracy"] for cell in each])
            losses = [cell["log_loss"] for cell in each if "log_loss" in cell]
            loss = f"{np.mean(losses):.4f}" if losses else ""
            print(f"  {contender:45} {accuracy:6.2f} {loss:>7}  ({len(each)})")


if __name__ == "__main__":
    main()
