"""``python -m benchmarks [NAME ...] [--quick] [--out FILE.md] [--json FILE.json]``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    budgets,
    calibration,
    cold_start,
    dense_pass,
    electricity,
    endless,
    events,
    exact,
    files,
    k_best,
    memory,
    mnist,
    moving,
    noca,
    one_row,
    peers,
    pnorm_pass,
    r_of_k,
    schedule,
    soft_margin,
    sparse_pass,
    tables,
    usps,
    votes,
)
from benchmarks.harness import FULL, QUICK, Scale
from benchmarks.machine import facts
from benchmarks.report import as_json, markdown, show

BENCHMARKS = {
    module.NAME: module
    for module in (
        dense_pass,
        sparse_pass,
        pnorm_pass,
        peers,
        cold_start,
        one_row,
        events,
        files,
        tables,
        memory,
        schedule,
        soft_margin,
        exact,
        r_of_k,
        k_best,
        usps,
        mnist,
        noca,
        budgets,
        endless,
        moving,
        electricity,
        votes,
        calibration,
    )
}


def main(arguments: Sequence[str] | None = None, scale: Scale = FULL) -> None:
    options = parse(arguments)
    if options.quick:
        scale = QUICK
    machine = facts()
    print("\n".join(f"{name}: {value}" for name, value in machine.items()))
    reports = []
    for name in options.names or BENCHMARKS:
        print(f"\n{name} ...", file=sys.stderr, flush=True)
        reports.append(BENCHMARKS[name].run(scale))
        show(reports[-1])
    if scale.share < 1.0:
        print("The floors are asked at full size; this run was smaller.")
    if options.out:
        options.out.write_text(markdown(machine, reports))
    if options.json:
        options.json.write_text(as_json(machine, reports))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, fewer rounds")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the tables as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE.json", help="write every number")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(
            f"no benchmark called {', '.join(sorted(unknown))}: use {', '.join(BENCHMARKS)}"
        )
    return options


if __name__ == "__main__":
    main()
