"""An HTTP server of a learner that predicts and learns, and stores every event.

`create_app` gives the ASGI application; ``maxmargin serve`` runs it.
"""

from __future__ import annotations

try:
    from maxmargin.serve.application import Application, create_app
except ModuleNotFoundError as missing:
    if missing.name not in ("starlette", "msgspec"):
        raise
    raise ImportError(f"serving needs {missing.name}: pip install 'maxmargin[serve]'") from None

__all__ = ["Application", "create_app"]
