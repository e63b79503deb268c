"""What is answered instead of doing what was asked for."""

from __future__ import annotations


class HTTPError(Exception):
    """A request that is refused, with the status of HTTP and the reason.

    Attributes
    ----------
    status : int
    reason : str
    retry_after : int or None
        Seconds after which it may be tried again.
    """

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after


def bad_request(reason: str) -> HTTPError:
    return HTTPError(400, reason)


def unprocessable(reason: str) -> HTTPError:
    """The learner refuses it."""
    return HTTPError(422, reason)


def unavailable(reason: str) -> HTTPError:
    return HTTPError(503, reason, retry_after=1)


def no_memory(error: MemoryError) -> HTTPError:
    """The server has too little memory for it; nothing has changed."""
    why = f": {error}" if str(error) else ""
    return unavailable(
        f"the server does not have the memory for this request{why}. Send fewer rows or columns, "
        "or try again later."
    )
