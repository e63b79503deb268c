"""Learning from rows in many places: what each shard answers, and how the answers add up.

Nothing here knows an engine. An `Executor` asks all shards the same question and merges their
answers; `maxmargin.dask` has one for Dask, and ``docs/clusters.md`` shows those for Ray and Spark.
"""

from __future__ import annotations

from maxmargin.distributed.distributed_fit import fit
from maxmargin.distributed.executor import Executor, Plain, answer, derived, merged, tree
from maxmargin.distributed.shards import File, Held, files

__all__ = [
    "Executor",
    "File",
    "Held",
    "Plain",
    "answer",
    "derived",
    "files",
    "fit",
    "merged",
    "tree",
]
