"""Figure 4 of Ishibashi, Hatano and Takeda: margin against time on r-of-k functions."""

from __future__ import annotations

from maxmargin.experiments.experiment import Claim, Experiment, Results, in_runs
from maxmargin.experiments.figures import Panel
from maxmargin.experiments.r_of_k import BIAS, NORMS, PAPER, cells, margin_panels, measure

DRAWN = {"2": ("PUMMA", "ROMMA"), "2 ln n": ("PUMMA", "ALMA")}
"""The paper leaves out ALMA at p = 2, “since the result is worse than the others”."""


def shorter_time(p: str, r: int, rival: str) -> Claim:
    def holds(results: Results) -> tuple[bool, str]:
        ours = results.mean("PUMMA seconds in all", p=p, r=r)
        theirs = results.mean(f"{rival} seconds in all", p=p, r=r)
        runs = len(results.values("best", p=p, r=r))
        said = f"{ours:.3g} s against {theirs:.3g} s ({theirs / ours:.1f} ×), {in_runs(runs)}"
        return ours < theirs, said

    text = f"PUMMA takes less time than {rival}"
    return Claim(f"p = {p}, bias {BIAS[r]}", text, holds, "section 4.1 and Figure 4")


def panels(results: Results) -> list[Panel]:
    return margin_panels(results, "time", "seconds", DRAWN)


EXPERIMENT = Experiment(
    name="pumma-figure4",
    title="PUMMA, ROMMA and ALMA on r-of-k functions: margin against time",
    paper=PAPER,
    place="Figure 4",
    claim="Although PUMMA uses Newton’s method in each update for p > 2, its computation time is "
    "much shorter than that of ALMA.",
    runs=10,
    cells=cells,
    measure=measure,
    compared=[shorter_time(p, r, rival) for p in NORMS for r in BIAS for rival in NORMS[p][1:]],
    panels=panels,
    cells_of="pumma-figure3",
    choices=("As for Figure 3.",),
    differences=(
        "The runs are those of Figure 3. Times are processor time of compiled code, the paper’s "
        "are of MATLAB; only their order is compared.",
    ),
)
