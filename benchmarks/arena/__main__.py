"""``python -m benchmarks arena``: measure what is not kept yet, and render the page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.arena import cells, datasets
from benchmarks.arena.page import render, show

KEPT = Path("docs/arena.json")
QUICK_DATA = ("ionosphere", "votes", "phishing", "segments", "electricity", "a9a", "sms, hashed")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.render:
        render(cells.read(options.keep or KEPT))
        return
    own = [name for name in options.data or () if name not in datasets.DATA]
    file = options.keep or (None if options.quick or own else KEPT)
    extent = cells.QUICK if options.quick else cells.FULL
    names = options.data or (QUICK_DATA if options.quick else tuple(datasets.DATA))
    leagues = [options.league] if options.league else cells.LEAGUES
    kept = cells.read(file)
    if options.refresh:
        forget(kept, leagues, names, options.only)

    def loaded(name: str) -> datasets.DataSet:
        return datasets.load(name, options.label, options.ordered)

    # A data set that is not there is named, and left out.
    present = [name for name in names if is_there(name, loaded)]
    jobs = cells.plan(leagues, present, options.only, extent, loaded)
    cells.measure(jobs, extent, loaded, kept, file)
    show(kept)
    if file == KEPT:
        render(kept)


def is_there(name: str, loaded: Callable[[str], datasets.DataSet]) -> bool:
    try:
        loaded(name)
    except OSError as error:
        print(f"{name} is left out: {error}")
        return False
    return True


def forget(
    kept: cells.Kept, leagues: Sequence[str], names: Sequence[str], only: Sequence[str]
) -> None:
    """Cells that are to be measured anew."""
    for name in names:
        for league in leagues:
            kept["missing"].pop(f"{league}, {name}", None)
            found = kept[league].get(name, {})
            for contender in [each for each in found if cells.is_chosen(each, only)]:
                del found[contender]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks arena", description=__doc__)
    parser.add_argument(
        "--data",
        nargs="+",
        metavar="NAME|FILE",
        help=f"some of {datasets.listed(datasets.DATA)}; or files in svmlight or CSV format",
    )
    parser.add_argument("--label", metavar="NAME", help="the label's column of a CSV file")
    parser.add_argument(
        "--ordered", action="store_true", help="rows of own files are in the order of time"
    )
    parser.add_argument("--only", nargs="+", default=(), help="contenders whose names begin so")
    parser.add_argument("--league", choices=cells.LEAGUES)
    parser.add_argument("--quick", action="store_true", help="few rows of few data sets")
    parser.add_argument(
        "--refresh", action="store_true", help="measure anew what is kept, such as times"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE.json",
        help=f"results, also those of a run that was stopped; by default {KEPT}, and nothing with "
        "--quick or own files",
    )
    parser.add_argument(
        "--render", action="store_true", help=f"measure nothing: write {KEPT.with_suffix('.md')}"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
