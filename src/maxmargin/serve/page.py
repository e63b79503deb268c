"""The live page: one document, which loads nothing from elsewhere."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

HERE = Path(__file__).parent


@functools.cache
def live() -> tuple[bytes, dict[str, str]]:
    """The page and its headers; its policy allows only the script and the style that it has."""
    text, policy = (HERE / "page.html").read_text("utf-8"), "default-src 'none'; connect-src 'self'"
    for name, directive in (("page.css", "style-src"), ("page.js", "script-src")):
        part = (HERE / name).read_text("utf-8")
        text = text.replace(f"/* {name} */", part)
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        policy += f"; {directive} 'sha256-{digest}'"
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": f"{policy}; base-uri 'none'; frame-ancestors 'none'",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return text.encode(), headers
