"""Learners behind an address: they learn from events, lose none of them, and say how they do.

`create_app` gives the ASGI application; ``maxmargin serve`` runs it.
"""

from __future__ import annotations

from maxmargin.serve.application import Application, create_app
from maxmargin.serve.limits import Limits

__all__ = ["Application", "Limits", "create_app"]
