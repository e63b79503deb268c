"""Access: by a token, or without one from this machine only, and not by pages of other sites."""

from __future__ import annotations

import functools
import hmac
import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from maxmargin.serve.http_errors import HTTPError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Is a server at this address reachable from this machine only?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Lets requests through that bring the ``token``, or refuses them.

    Without a token, ``hosts`` are the names by which the server may be called: a page from
    elsewhere that a browser on this machine has opened could reach it by another name (DNS
    rebinding), or send a form to it. None lets all through, for applications that check themselves.
    """

    def __init__(self, token: str | None, hosts: Collection[str] | None) -> None:
        self.token = None if token is None else token.encode()
        self.hosts = None if hosts is None else set(hosts)

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        if self.token is not None:
            self._check_token(headers)
        elif self.hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1")
            if _name_of(f"//{host}") not in self.hosts:
                raise HTTPError(403, f"the server is not called {host!r:.80}.")
            self._check_origin(headers, host)

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        assert self.token is not None
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        # Of the same length in time, whatever is wrong.
        if not hmac.compare_digest(given.strip(), self.token) or kind.lower() != b"bearer":
            raise HTTPError(401, "the header Authorization must be Bearer, with the token.")

    def _check_origin(self, headers: Mapping[bytes, bytes], host: str) -> None:
        origin = headers.get(b"origin")
        if origin is not None:
            found = origin.decode("latin-1")
            if found not in (f"http://{host}", f"https://{host}"):
                raise HTTPError(403, f"pages of {found!r:.80} may not use this server.")
        # Browsers leave Origin out of some requests, such as those for images and scripts.
        site = headers.get(b"sec-fetch-site", b"none").strip().lower()
        if site not in (b"none", b"same-origin"):
            raise HTTPError(403, "pages of other sites may not use this server.")


@functools.lru_cache(100)
def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
