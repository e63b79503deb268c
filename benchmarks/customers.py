"""A table as people have it: who will cancel?

Identifiers, dates, free text, categories, amounts, a third of the columns with
gaps, and one customer in forty who cancels. Everything is drawn from a seed.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

PLANS = ("basic", "family", "student", "business", "premium", "trial")
CHANNELS = ("web", "phone", "shop", "partner", "app")
CITIES = 300
GOOD = "thanks great service works fine happy friendly quick helpful recommend love perfect"
BAD = "slow broken refund waiting complaint cancel twice wrong bill angry outage never answer"
FILLER = (
    "the a my is was and to of on for with it in at by from this that since have had been got "
    "phone internet contract router invoice support line monday month week agent letter email "
    "account order number house office new old second first still again yesterday today"
)
HEADER = (
    "customer_id,signed_up,age,city,plan,channel,tenure_months,monthly_spend,calls,usage_gb,"
    "autopay,currency,comment,churned"
)
SHARE = 0.026


def write(path: Path, rows: int = 200_000, seed: int = 0) -> Path:
    """The table as CSV; the label is the column ``churned``, yes or no."""
    rng = np.random.default_rng(seed)
    tenure = rng.gamma(2.0, 18.0, rows)
    spend = np.exp(rng.normal(3.4, 0.8, rows))
    calls = rng.poisson(1.2, rows).astype(float)
    usage = rng.normal(50.0, 20.0, rows) + 0.1 * spend
    age = rng.normal(44.0, 15.0, rows).clip(18, 95).round()
    plan = rng.choice(len(PLANS), rows, p=(0.4, 0.2, 0.12, 0.1, 0.1, 0.08))
    channel = rng.choice(len(CHANNELS), rows)
    city = (CITIES * rng.random(rows) ** 2).astype(int)
    day = rng.integers(0, 1460, rows)
    autopay = rng.random(rows) < 0.6
    gaps = {name: rng.random(rows) < share for name, share in (("usage", 0.08), ("age", 0.05))}
    effect = np.random.default_rng(CITIES).normal(0.0, 0.5, CITIES)  # in every table the same
    mood = rng.normal(0.0, 1.0, rows)
    score = (
        -0.9 * (tenure - 36.0) / 25.0
        + 0.8 * (np.log(spend) - 3.4)
        + 0.9 * (calls - 1.2)
        - 0.5 * (usage - 53.0) / 20.0
        + np.array([0.0, -0.5, 0.3, -0.8, 0.4, 1.4])[plan]
        + np.array([0.0, 0.2, -0.3, 0.6, 0.0])[channel]
        + effect[city]
        - 0.6 * autopay
        + 0.7 * (day % 365 > 330)
        + 0.5 * gaps["usage"]
        - 0.9 * mood
        + rng.logistic(0.0, 1.0, rows)
    )
    churned = score > np.quantile(score, 1.0 - SHARE)
    dates = (np.datetime64("2021-01-01") + day).astype(str)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(HEADER.split(","))
        for i in range(rows):
            out.writerow(
                (
                    f"C{seed:02d}{i:07d}",
                    dates[i],
                    "" if gaps["age"][i] else int(age[i]),
                    f"city {city[i]}",
                    PLANS[plan[i]],
                    CHANNELS[channel[i]],
                    round(float(tenure[i]), 1),
                    f"{spend[i]:.2f}",
                    int(calls[i]),
                    "NA" if gaps["usage"][i] else round(float(usage[i]), 2),
                    "true" if autopay[i] else "false",
                    "USD",
                    _comment(rng, float(mood[i])),
                    "yes" if churned[i] else "no",
                )
            )
    return path


def _comment(rng: np.random.Generator, mood: float) -> str:
    filler, feelings = FILLER.split(), (GOOD if mood > 0.0 else BAD).split()
    length = int(rng.integers(4, 13))
    words = [filler[k] for k in rng.integers(0, len(filler), length)]
    for place in np.flatnonzero(rng.random(length) < min(0.6, 0.35 * abs(mood))):
        words[place] = feelings[rng.integers(len(feelings))]
    return " ".join(words)
