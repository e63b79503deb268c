"""Addresses of fsspec such as ``s3://bucket/rows.csv``, and their errors.

The parts before an @ and after a question mark or a # may be credentials: names and messages omit
them.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from maxmargin.streams.source import StreamError

Result = TypeVar("Result")

ADDRESS = re.compile(r"([a-z][\w+.-]+::)*[a-z][\w+.-]+://", re.IGNORECASE)
URL = re.compile(r"[a-z][\w+.-]+://[^\s'\"<>]+", re.IGNORECASE)
PASSWORD = re.compile(r"[^@/]*:[^@]*@")
ATTEMPTS, FIRST_PAUSE_SECONDS = 5, 0.2
# Status codes; among client errors, the last ones may be transient.
NOT_FOUND, FORBIDDEN, TRANSIENT = (404, 410), (401, 403), (408, 425, 429)
PERMANENT = (
    *(FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError),
    *(ValueError, TypeError, LookupError, NotImplementedError, ImportError),
)


class Address:
    """The address of a file, for fsspec."""

    def __init__(self, text: str) -> None:
        self.text = text
        links = [_split(link) for link in text.split("::")]
        self.name = "::".join(name for name, _ in links)  # for messages, without credentials
        hidden = [secret for _, secrets in links for secret in secrets]
        self._secrets = {form for secret in hidden for form in (secret, unquote(secret)) if form}

    def file_system(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path of the file in it."""
        try:
            core = importlib.import_module("fsspec.core")
        except ModuleNotFoundError:
            raise StreamError(
                f"{self.name}: addresses need fsspec: pip install 'maxmargin[remote]'"
            ) from None
        try:
            return self.tried(lambda: core.url_to_fs(self.text))
        except ImportError as error:  # fsspec names the package
            hint = ": pip install 'maxmargin[remote]'" if "aiohttp" in str(error) else ""
            raise StreamError(f"{self.name}: {self.message_of(error)}{hint}") from None

    def tried(self, action: Callable[[], Result], at: int | None = None) -> Result:
        """The result of an idempotent action, which is repeated after transient errors.

        Errors name the address, and the byte offset ``at``.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return action()
            except (StreamError, ImportError):
                raise
            except Exception as error:
                # For HTTP, fsspec raises FileNotFoundError whatever the cause is.
                is_not_there = isinstance(error, FileNotFoundError)
                cause = (is_not_there and error.__cause__) or error
            # Raised outside of the handler: the message of a cause may contain credentials.
            if not _is_transient(cause):
                raise self._error(cause, at, self.message_of(cause))
            if attempt == ATTEMPTS:
                raise self._error(cause, at, f"{self.message_of(cause)} (tried {ATTEMPTS} times)")
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    def _error(self, cause: BaseException, at: int | None, message: str) -> Exception:
        if at is not None:
            return StreamError(f"{self.name}, at byte {at:,}: {message}.")
        if isinstance(cause, FileNotFoundError) or _status(cause) in NOT_FOUND:
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name)
        if isinstance(cause, PermissionError) or _status(cause) in FORBIDDEN:
            return PermissionError(errno.EACCES, message, self.name)
        return StreamError(f"{self.name}: {message}.")

    def message_of(self, error: BaseException) -> str:
        """The message of an error, without credentials."""
        if (status := _status(error)) is not None:
            reason = getattr(error, "message", "")
            return f"{status} {reason}" if isinstance(reason, str) and reason else str(status)
        text = shown(str(getattr(error, "strerror", None) or error)).rstrip(".")
        return type(error).__name__ if not text or any(s in text for s in self._secrets) else text


def is_address(place: Any) -> bool:
    return isinstance(place, str) and ADDRESS.match(place) is not None


def is_web(files: Any) -> bool:
    protocols = files.protocol
    return "http" in ((protocols,) if isinstance(protocols, str) else protocols)


def shown(text: str) -> str:
    """A text without the credentials of the addresses in it."""
    return URL.sub(lambda found: Address(found[0]).name, text)


def without_credentials(place: str) -> str:
    """A path, or an address without credentials."""
    return Address(place).name if is_address(place) else place


def local_path(address: str) -> Path | None:
    """The path of an address that begins with ``file:///``; None for other addresses."""
    scheme, _, path = address.partition("://")
    return Path(unquote(path)) if scheme.lower() == "file" and path.startswith("/") else None


def _split(link: str) -> tuple[str, list[str]]:
    """A link of a chain without credentials, and the possible credentials."""
    scheme, is_complete, place = link.partition("://")
    if not is_complete:
        return link, []
    place, *queries = re.split(r"[?#]", place, maxsplit=1)
    # Some passwords contain a slash, although it is not allowed.
    host_end = len(place) if PASSWORD.match(place) else len(place.partition("/")[0])
    user, is_there, _ = place[:host_end].rpartition("@")
    name = f"{scheme}://{place[len(user) + len(is_there) :]}{'?...' if queries else ''}"
    values = [value.partition("=")[2] for query in queries for value in query.split("&")]
    return name, [user, user.partition(":")[2], *queries, *values]


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def _is_transient(error: BaseException) -> bool:
    if (status := _status(error)) is None:
        return not isinstance(error, PERMANENT)
    return not 400 <= status < 500 or status in TRANSIENT
