"""``docs/arena.md`` and the tables on the terminal, from what was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from jinja2 import Environment, FileSystemLoader

from benchmarks.arena import batch, streams
from benchmarks.arena.cells import LEAGUES, Kept
from benchmarks.arena.datasets import DATA
from benchmarks.arena.ranks import Ranking, ranking
from benchmarks.report import Table, print_table

PAGE = Path("docs/arena.md")
OURS = "AutoMargin"
BUSY = 0.7  # processes that wanted to run for each core, beyond which times are not to be quoted
TIMED_ON = ("electricity", "a9a", "sms, hashed", "mnist")
WITH_TIME = ("electricity", "outdoor", "chess", "rbf")
IN_A_TABLE = 9  # data sets
SHOWN_RANKS = 15
WIDTH = 100

Scores = dict[str, dict[str, float]]
"""By data set and contender, larger is better."""


# ------------------------------------------------------------------------------------ what was kept
def scores(kept: Kept, league: str, number: str, sign: float = 1.0) -> Scores:
    return {
        data: {name: sign * fmean(cell[number]) for name, cell in cells.items() if number in cell}
        for data, cells in kept[league].items()
    }


def names(kind: str, is_slow: bool | None = None, variants: bool = False) -> list[str]:
    """Contenders of streams; those that differ from others in a parameter only on demand."""
    return [
        one.name
        for one in streams.contenders()
        if one.kind == kind and is_slow in (None, one.is_slow) and (variants or not one.family)
    ]


def is_text(kept: Kept, data: str) -> bool:
    return kept["data"][data]["columns"] > 10_000


def whole_streams(kept: Kept) -> Ranking | None:
    """Linear contenders that run through whole streams."""
    return ranking(scores(kept, "streams", "accuracy"), names("linear", is_slow=False))


def first_rows(kept: Kept) -> Ranking | None:
    """All linear contenders, on the first rows, which the slow ones get too."""
    return ranking(scores(kept, "streams", "first"), names("linear"))


def with_trees(kept: Kept) -> Ranking | None:
    """The same with trees, forests, neighbours and kernels, on data that are not text."""
    found = scores(kept, "streams", "first")
    dense = {data: each for data, each in found.items() if not is_text(kept, data)}
    return ranking(dense, [*names("linear"), *names("curved")])


def in_batches(kept: Kept, kinds: Sequence[str] = ("linear",)) -> Ranking | None:
    chosen = [one.name for one in batch.contenders() if one.kind in kinds]
    found = scores(kept, "batch", "error", -1.0)
    if "curved" in kinds:
        found = {data: each for data, each in found.items() if not is_text(kept, data)}
    return ranking(found, chosen)


# ------------------------------------------------------------------------------------------- tables
def ranks_table(found: Ranking) -> Table:
    best = next(iter(found.ranks.values()))
    body = [
        [str(place), name, f"{rank:.2f}", "" if rank - best > found.critical else "yes"]
        for place, (name, rank) in enumerate(list(found.ranks.items())[:SHOWN_RANKS], 1)
    ]
    return Table(
        "", ["", "contender", "mean rank", "within the critical difference of the first"], body
    )


def ranks_text(found: Ranking, whose: str) -> str:
    text = f"{len(found.ranks)} contenders on {len(found.data)} data sets. "
    if whose in found.ranks:
        place, first = list(found.ranks).index(whose) + 1, next(iter(found.ranks))
        text += f"`{whose}` is number {place}" + (f", behind {first}. " if place > 1 else ". ")
    text += f"Mean ranks differ at the 5 % level if they are {found.critical:.1f} apart (Nemenyi)"
    return fill(f"{text}; p = {found.p_value:.1g} in Friedman's test.", WIDTH)


def matrix(
    kept: Kept, league: str, number: str, chosen: Iterable[str], form: str = ".1f"
) -> list[Table]:
    """A line for each contender, a column for each data set; the best of a column is bold."""
    means = scores(kept, league, number)
    of_all = {  # who got fewer rows is not compared with the others
        data: [value for name, value in each.items() if not is_part(kept, league, data, name)]
        for data, each in means.items()
    }
    best: Callable[..., float] = max if number == "accuracy" else min
    found = []
    data = [name for name in kept["data"] if means.get(name)]
    for begin in range(0, len(data), IN_A_TABLE):
        part = data[begin : begin + IN_A_TABLE]
        body = []
        for name in chosen:
            values = [means[each].get(name) for each in part]
            if any(value is not None for value in values):
                cells = [
                    cell(
                        value,
                        best(of_all[each], default=None),
                        form,
                        is_part(kept, league, each, name),
                    )
                    for value, each in zip(values, part, strict=True)
                ]
                body.append([name, *cells])
        found.append(Table("", ["", *part], body))
    return found


def cell(value: float | None, best: float | None, form: str, is_partial: bool) -> str:
    if value is None:
        return ""
    text = f"{value:{form}}"
    if is_partial:
        return f"{text}†"
    return f"**{text}**" if best is not None and text == f"{best:{form}}" else text


def is_part(kept: Kept, league: str, data: str, name: str) -> bool:
    """Did the contender get fewer rows than others?"""
    cells = kept[league][data]
    return name in cells and cells[name]["rows"] < max(each["rows"] for each in cells.values())


def duels(kept: Kept) -> Table:
    """AutoMargin beside the best of the others, data set by data set, on the first rows."""
    found = scores(kept, "streams", "first")
    head = ["", "rows", OURS, "best other linear", "best of three values", "AutoMargin, rbf"]
    head += ["best tree or neighbours", "same as last"]
    variants = [one.name for one in streams.contenders() if one.family]
    trees = [name for name in names("curved") if name.startswith(("river", "CapyMOA"))]
    body = []
    for data, each in found.items():
        star = "*" if kept["data"][data]["chosen_on"] else ""
        line = [data + star, f"{kept['data'][data]['few']:,}", number(each, OURS)]
        line.append(best_of(each, [name for name in names("linear") if name != OURS]))
        line += [best_of(each, variants), number(each, "AutoMargin, rbf")]
        line += [best_of(each, trees), number(each, "same as last")]
        body.append(line)
    return Table("", head, body)


def number(values: dict[str, float], name: str) -> str:
    return f"{values[name]:.1f}" if name in values else ""


def best_of(values: dict[str, float], chosen: Sequence[str]) -> str:
    there = [name for name in chosen if name in values]
    if not there:
        return ""
    name = max(there, key=values.__getitem__)
    return f"{values[name]:.1f} ({name})"


def losses(kept: Kept) -> list[str]:
    """Where somebody else is better, and by how much."""
    found, lines = scores(kept, "streams", "first"), []
    groups = {
        "another linear learner with default parameters": names("linear"),
        "a tree, a forest or neighbours": [
            name for name in names("curved") if name.startswith(("river", "CapyMOA"))
        ],
    }
    for words, chosen in groups.items():
        lost = []
        for data, each in found.items():
            mine = max(each.get(OURS, 0.0), each.get("AutoMargin, rbf", 0.0))
            if "linear" in words:
                mine = each.get(OURS, 0.0)
            there = [name for name in chosen if name in each]
            best = max(there, key=each.__getitem__, default=None)
            if best is not None and each[best] > mine + 0.05:
                lost.append((each[best] - mine, f"{data} ({best}: {each[best] - mine:.1f} points)"))
        lost.sort(reverse=True)
        text = "; ".join(each for _, each in lost) if lost else "nowhere"
        lines.append(fill(f"Where {words} is better: {text}.", WIDTH))
    return lines


def batch_losses(kept: Kept) -> str:
    """Where boosted trees have a lower error than the best of MaxMargin, and by how much."""
    lost, won = [], []
    for data, each in scores(kept, "batch", "error").items():
        mine = [each[name] for name in each if name.startswith("MaxMargin")]
        if "HistGradientBoosting" in each and mine:
            gap = min(mine) - each["HistGradientBoosting"]
            (lost if gap > 0.0 else won).append(f"{data} ({abs(gap):.1f} points)")
    return fill(
        f"Boosted trees have a lower error than the best `MaxMargin` on {', '.join(lost) or 'none'}"
        f"; a higher one on {', '.join(won) or 'none'}.",
        WIDTH,
    )


def by_data(
    kept: Kept, league: str, number: str, chosen: Sequence[str], sets: Sequence[str]
) -> Table:
    """A line for each contender and a column for each of a few data sets."""
    head = ["", *(name for name in sets if name in kept[league])]
    body = []
    for name in chosen:
        cells = [kept[league][data].get(name, {}) for data in head[1:]]
        if any(number in each for each in cells):
            body.append(
                [name, *(f"{fmean(each[number]):.1f}" if number in each else "" for each in cells)]
            )
    return Table("", head, body)


def times(kept: Kept) -> Table:
    """Processor time and memory of a pass."""
    head = ["", *(f"{name}, µs a row" for name in TIMED_ON if name in kept["streams"])]
    head.append("most memory, MB")
    body = []
    for one in streams.contenders():
        if one.family or one.kind == "baseline":
            continue
        cells = [
            kept["streams"][data].get(one.name) for data in TIMED_ON if data in kept["streams"]
        ]
        everywhere = [each[one.name] for each in kept["streams"].values() if one.name in each]
        if everywhere:
            micro = [
                "" if c is None else f"{1e6 * min(c['seconds']) / c['rows']:.3g}" for c in cells
            ]
            memory = max(each["memory"] for each in everywhere) / 1e6
            body.append([one.name, *micro, f"{memory:,.0f}"])
    return Table("", head, body)


def fits(kept: Kept) -> Table:
    """Processor time of a fit, tuning included, and the least certified part of the best margin."""
    head = ["", "tuned by", *kept["batch"], "least certificate"]
    body = []
    for one in batch.contenders():
        cells = [each.get(one.name) for each in kept["batch"].values()]
        seconds = ["" if c is None else f"{fmean(c['seconds']):.3g}" for c in cells]
        certified = [value for c in cells if c for value in c.get("certified", [])]
        if any(cells):
            least = f"{min(certified):.4f}" if certified else ""
            body.append([one.name, one.tuning, *seconds, least])
    return Table("", head, body)


def data_table(kept: Kept) -> Table:
    head = ["", "rows", "columns", "classes", "order", "orders run", "first rows"]
    body = []
    for name, one in kept["data"].items():
        cell = kept["streams"].get(name, {}).get(OURS, {})
        star = "*" if one["chosen_on"] else ""
        order = "of time" if one["ordered"] else "shuffled"
        orders = len(cell.get("seconds", []))
        line = [name + star, f"{one['rows']:,}", f"{one['columns']:,}", str(one["classes"])]
        body.append([*line, order, str(orders), f"{one['few']:,}"])
    return Table("", head, body)


def to_come(kept: Kept) -> str:
    """How many cells of each league there are, if not all."""
    words = []
    for league, everyone in (("streams", streams.contenders()), ("batch", batch.contenders())):
        sets = [name for name in DATA if league == "streams" or name not in WITH_TIME]
        done = sum(len(kept[league].get(name, {})) for name in sets)
        there = done + sum(len(kept["missing"].get(f"{league}, {name}", {})) for name in sets)
        if there < len(sets) * len(everyone):
            words.append(f"{len(sets) * len(everyone) - there} of the {league} cells")
    return " and ".join(words)


def missing(kept: Kept) -> list[str]:
    """Who did not take part where, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for data, each in kept["missing"].items():
        for name, reason in each.items():
            reasons.setdefault((name, reason), []).append(data)
    return [f"{name}: {reason} ({', '.join(data)})" for (name, reason), data in reasons.items()]


# --------------------------------------------------------------------------------------------- page
def show(kept: Kept) -> None:
    """On the terminal: accuracies, errors, and who was missing."""
    everyone = [one.name for one in streams.contenders()]
    for table in matrix(kept, "streams", "accuracy", everyone):
        print_table(
            table._replace(title="Streams: accuracy in %, each row predicted, then learned")
        )
    for table in matrix(kept, "batch", "error", [one.name for one in batch.contenders()]):
        print_table(table._replace(title="Batch: errors on test rows in %"))
    for line in missing(kept):
        print(f"left out: {line}")


def render(kept: Kept) -> None:
    """Write the page; ``python docs/pictures`` and the site draw its pictures."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["table"] = as_markdown
    environment.filters["item"] = as_item
    environment.filters["wrapped"] = partial(fill, width=WIDTH, break_on_hyphens=False)
    template = environment.get_template("arena.md.jinja")
    PAGE.write_text(template.render(**facts(kept)), "utf-8")
    print(PAGE)


def facts(kept: Kept) -> dict[str, Any]:
    """All that the page shows."""
    linear, curved = names("linear"), names("curved")
    baselines = names("baseline")
    rankings = {
        "whole_streams": (whole_streams(kept), OURS),
        "first_rows": (first_rows(kept), OURS),
        "with_trees": (with_trees(kept), "AutoMargin, rbf"),
        "linear_batches": (in_batches(kept), "MaxMargin, auto"),
        "all_batches": (in_batches(kept, ("linear", "curved")), "MaxMargin, rbf, auto"),
    }
    return {
        "data": data_table(kept),
        "to_come": to_come(kept),
        "rankings": {
            name: (ranks_text(found, whose), ranks_table(found))
            for name, (found, whose) in rankings.items()
            if found
        },
        "duels": duels(kept),
        "losses": losses(kept),
        "batch_losses": batch_losses(kept),
        "accuracies": matrix(kept, "streams", "accuracy", [*baselines, *linear, *curved]),
        "variants": matrix(
            kept, "streams", "accuracy", [one.name for one in streams.contenders() if one.family]
        ),
        "log_losses": matrix(kept, "streams", "log_loss", [*baselines, *linear, *curved], ".3f"),
        "kappas": by_data(kept, "streams", "kappa", [*linear, *curved], WITH_TIME),
        "temporal": by_data(kept, "streams", "kappa_temporal", [*linear, *curved], WITH_TIME),
        "times": times(kept),
        "errors": matrix(kept, "batch", "error", [one.name for one in batch.contenders()], ".2f"),
        "fits": fits(kept),
        "missing": missing(kept),
        "sessions": sessions(kept),
        "busy": measured_on_busy_machine(kept),
    }


def measured_on_busy_machine(kept: Kept) -> str:
    """The data sets with a cell that was measured beside other work, by leagues."""
    busy = {
        number
        for number, one in enumerate(kept["sessions"])
        if (one["load"] or 0.0) > BUSY * int(float(one["machine"].get("cores", 1)))
    }
    found = []
    for league in LEAGUES:
        cells = kept[league]
        names = [
            name for name in cells if any(cell["session"] in busy for cell in cells[name].values())
        ]
        if names:
            which = "all data sets" if len(names) == len(cells) else "; ".join(names)
            found.append(f"{league} ({which})")
    return " and ".join(found)


def sessions(kept: Kept) -> list[str]:
    """When, at which commit and on which machine cells were measured."""
    return [
        f"{one['date']}, commit {one['commit']}, load {one['load']}: "
        + ", ".join(f"{name} {value}" for name, value in one["machine"].items())
        for one in kept["sessions"]
    ]


def as_item(text: str) -> str:
    """An item of a list, wrapped."""
    return fill(f"- {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def as_markdown(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
