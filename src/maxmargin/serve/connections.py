"""Connections: how many there are at a time, and how long they may say nothing."""

from __future__ import annotations

from asyncio import TimerHandle, Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from maxmargin.serve.limits import Limits

TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)
REASON = b'{"error":"there are too many connections."}'


def limited_connections(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of uvicorn, for connections that must not be too many, nor keep silent.

    The time for the body of a request is the application's to limit, and that between two requests
    uvicorn's; neither sees a connection whose headers do not come.
    """

    class Connection(HttpToolsProtocol):
        _deadline: TimerHandle | None = None

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(TOO_MANY % (len(REASON), REASON))
                transport.close()
            else:
                self._expect_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            self._expect_nothing()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            super().connection_lost(exc)

        def _expect_headers(self) -> None:
            if self._deadline is None:
                seconds = limits.header_seconds
                self._deadline = self.loop.call_later(seconds, self.transport.close)

        def _expect_nothing(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Connection
