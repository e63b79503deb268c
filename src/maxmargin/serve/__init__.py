"""HTTP servers of learners that learn from events and log every one of them.

`create_app` gives the ASGI application; ``maxmargin serve`` runs it.
"""

from __future__ import annotations

from maxmargin.serve.limits import Limits

try:
    from maxmargin.serve.application import Application, create_app
except ModuleNotFoundError as missing:
    if missing.name not in ("starlette", "msgspec", "jinja2"):
        raise
    raise ImportError(f"serving needs {missing.name}: pip install 'maxmargin[serve]'") from None

__all__ = ["Application", "Limits", "create_app"]
