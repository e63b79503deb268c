"""All benchmarks, by what their questions are about."""

from __future__ import annotations

from types import ModuleType

from benchmarks import (
    budgets,
    cache,
    cold_start,
    dense_pass,
    electricity,
    endless,
    events,
    exact,
    files,
    guarantees,
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
    serving,
    soft_margin,
    sparse_pass,
    svc,
    tables,
    text,
    usps,
    votes,
    which_lambda,
)

THEMES: dict[str, tuple[ModuleType, ...]] = {
    "Passes and single rows": (
        dense_pass,
        sparse_pass,
        pnorm_pass,
        peers,
        one_row,
        events,
    ),
    "Files, streams and tables": (files, tables),
    "Servers": (serving,),
    "Certified margins and exact solvers": (
        soft_margin,
        exact,
        which_lambda,
        svc,
        text,
        r_of_k,
        schedule,
    ),
    "Kernels and budgets": (usps, mnist, cache, k_best, noca, budgets, endless),
    "Moving targets and probabilities": (moving, electricity, votes, guarantees),
    "Start-up and memory": (cold_start, memory),
}
BENCHMARKS = {module.NAME: module for modules in THEMES.values() for module in modules}
