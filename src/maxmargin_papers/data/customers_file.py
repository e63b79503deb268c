"""A small raw table to try the command on: ``maxmargin demo --files``."""

from __future__ import annotations

import csv
import random
from pathlib import Path

ROWS = 2000
COLUMNS = ["id", "since", "plan", "spent", "comment", "churned"]
UNHAPPY = ["slow", "support", "never", "bill"]
HAPPY = ["fine", "works", "easy", "bill"]


def write_customers(path: Path) -> None:
    """Write a CSV file with an identifier, dates, categories, prices, text and missing values.

    A file that exists is not overwritten.
    """
    dice = random.Random(0)
    with path.open("x", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number in range(ROWS):
            plan, spent = dice.choice(["basic", "family", "pro"]), dice.uniform(0.0, 90.0)
            unhappy = dice.random() < (0.6 if plan == "basic" and spent < 40.0 else 0.1)
            comment = " ".join(dice.choices(UNHAPPY if unhappy else HAPPY, k=5))
            price = f"{spent:.2f}" if dice.random() < 0.9 else ""
            churned = "yes" if unhappy and dice.random() < 0.8 else "no"
            date = f"2024-{1 + number % 12:02d}-15"
            rows.writerow([number, date, plan, price, comment, churned])
