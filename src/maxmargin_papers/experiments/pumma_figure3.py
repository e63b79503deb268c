"""Figure 3 of Ishibashi, Hatano and Takeda: margin against updates on r-of-k functions."""

from __future__ import annotations

from maxmargin_papers.experiments.r_of_k import (
    BIAS,
    CHOICES,
    NORMS,
    margin_panels,
    of_r_of_k,
    pumma_needs_less,
)
from maxmargin_papers.reproduction.experiment import Answer, Claim, Results
from maxmargin_papers.reproduction.figures import Panel
from maxmargin_papers.reproduction.significance import always

WHERE = "section 4.1 and Figure 3"


def fewer_updates(p: str, r: int, rival: str) -> Claim:
    return pumma_needs_less(p, r, rival, "updates", "converges faster", WHERE)


def margin_reached(p: str, r: int) -> Claim:
    def holds(results: Results) -> Answer:
        shares = {name: results.values(f"{name} share", p=p, r=r) for name in NORMS[p]}
        said = ", ".join(f"{name} {min(each):.3f}" for name, each in shares.items())
        runs = zip(*shares.values(), strict=True)
        return always([min(run) >= 0.9 for run in runs]), f"least share of all runs: {said}"

    text = "each algorithm achieves at least 0.9 times the maximum margin"
    return Claim(f"p = {p}, bias {BIAS[r]}", text, holds, WHERE)


def panels(results: Results) -> list[Panel]:
    return margin_panels(results, "updates", "updates", NORMS)


EXPERIMENT = of_r_of_k(
    name="pumma-figure3",
    title="PUMMA, ROMMA and ALMA on r-of-k functions: margin against updates",
    place="Figure 3",
    claim="PUMMA reaches 0.9 of the maximum margin in fewer updates than ROMMA, and in far fewer "
    "than ALMA, for every bias.",
    compared=[
        claim
        for p, names in NORMS.items()
        for r in BIAS
        for claim in (*(fewer_updates(p, r, rival) for rival in names[1:]), margin_reached(p, r))
    ],
    panels=panels,
    choices=CHOICES,
    differences=(
        "The figure has no numbers to read off, so its claims are tested instead. The paper hides "
        "the case p = 2, bias 9; here it is drawn.",
    ),
)
