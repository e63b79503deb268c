"""What Theorems 1 to 4 on moving targets have in common.

J. Kivinen, A. Smola and R. Williamson, "Large margin classification for moving targets", 2002. The
bounds compare a learner with any sequence of vectors u_t of norm at most B that has margin mu up to
hinge losses of sum K, on rows of norm at most X. All that they need to know of how u_t moves is one
constant C.
"""

from __future__ import annotations

import math


def best_gap(margin: float, losses: float, constant: float) -> float:
    """``h(x, K, C) = sqrt(C/K (x + C/K)) - C/K``, written without cancellation; x/2 for K = 0."""
    return margin / (1.0 + math.sqrt(1.0 + losses * margin / constant))


def error_bound(margin: float, losses: float, constant: float) -> float:
    """``K/m + 2 C/m**2 + 2 sqrt(C/m**2 (K/m + C/m**2))`` for ``m = margin``."""
    per_loss, per_move = losses / margin, constant / margin**2
    return per_loss + 2.0 * per_move + 2.0 * math.sqrt(per_move * (per_loss + per_move))
