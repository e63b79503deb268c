"""Errors that requests are answered with."""

from __future__ import annotations

import msgspec


class HTTPError(Exception):
    """A request that is refused; after ``retry_after`` seconds, the same one may succeed."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after

    def at(self, where: str) -> HTTPError:
        """The same error, with its place in the request, if there are several."""
        place = f"{where}: " if where else ""
        return HTTPError(self.status, place + self.reason, self.retry_after)

    def body(self) -> bytes:
        return msgspec.json.encode({"error": self.reason})


def bad_request(reason: str) -> HTTPError:
    return HTTPError(400, reason)


def unprocessable(reason: str) -> HTTPError:
    """The learner refuses the request."""
    return HTTPError(422, reason)


def busy(reason: str, retry_after: int = 1) -> HTTPError:
    return HTTPError(429, reason, retry_after)


def unavailable(reason: str) -> HTTPError:
    return HTTPError(503, reason, retry_after=1)


def no_memory(error: MemoryError) -> HTTPError:
    """The server has too little memory for the request; nothing has changed."""
    why = f": {error}" if str(error) else ""
    return unavailable(
        f"the server does not have the memory for this request{why}. Send fewer rows or columns, "
        "or try again later."
    )
