"""Connections: how many there are at a time, how much they send, and how long they may stall."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from maxmargin.serve.http_errors import HTTPError
from maxmargin.serve.limits import Limits

# Requests that wait on one connection while another is answered. A segment of the network holds
# thousands of small ones, and each takes kilobytes.
PIPELINED = 100


def limited_connections(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of uvicorn with limits on what one client can hold.

    While an application runs, it limits the time and the bytes of the body. All other limits are
    kept here: headers and trailers, time between requests, and answers that are not read.
    """

    class Connection(HttpToolsProtocol):
        _timer: TimerHandle | None = None
        _write_timer: TimerHandle | None = None
        _idle_since = _unread_since = 0.0
        _bytes = 0  # received since the last headers that were complete, or the last part of a body
        _refusal: HTTPError | None = None

        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._cycles: list[RequestResponseCycle] = []  # requests without a complete answer
            self._idle_since = self.loop.time()
            self._timer = self.loop.call_later(limits.header_seconds, self._check_idle)
            if len(self.connections) > limits.connections:
                self._refuse(HTTPError(503, "there are too many connections.", retry_after=1))

        def connection_lost(self, exc: Exception | None) -> None:
            self._drop_answers()
            for timer in (self._timer, self._write_timer):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        # ------------------------------------------------------------------------------- time
        def _check_idle(self) -> None:
            """Abort the connection if no application has run for so long.

            Received bytes do not count, or a client could keep the connection for ever. The time is
            checked now and then instead of setting a timer for each request.
            """
            now, seconds = self.loop.time(), limits.header_seconds
            if self.flow.write_paused or self._application_runs():
                self._idle_since = now
            if (left := self._idle_since + seconds - now) > 0:
                self._timer = self.loop.call_later(left, self._check_idle)
            else:
                self._abort()  # closing would wait until all is read

        def _abort(self) -> None:
            self._drop_answers()
            self.transport.abort()

        def _drop_answers(self) -> None:
            """Let applications that still answer on this connection answer to no one.

            uvicorn does that when the connection is lost, but uvloop refuses writes before, and of
            pipelined requests uvicorn knows the last one only.
            """
            for cycle in self._cycles:
                cycle.disconnected = True
                cycle.message_event.set()

        def _application_runs(self) -> bool:
            if self.cycle is None or self.transport.is_closing():
                return False
            return not self.cycle.response_complete

        def on_response_complete(self) -> None:
            self._idle_since = self.loop.time()
            self._cycles = [each for each in self._cycles if not each.response_complete]
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            seconds = limits.write_seconds
            self._write_timer = self.loop.call_later(seconds, self._abort)
            self._unread_since = self.loop.time()
            self._limit_unread()

        def _limit_unread(self) -> None:
            """Abort the connections that have stalled longest while too much is unread in all.

            The last one stays, whatever its size, so that any answer can be sent.
            """
            connections = (each for each in self.connections if isinstance(each, Connection))
            stalled = [each for each in connections if each.flow.write_paused]
            stalled.sort(key=lambda each: each._unread_since)
            sizes = [each.transport.get_write_buffer_size() for each in stalled]
            unread = sum(sizes)
            for each, size in zip(stalled[:-1], sizes, strict=False):
                if unread <= limits.unread_bytes:
                    break
                each._abort()
                unread -= size

        def resume_writing(self) -> None:
            super().resume_writing()
            self._idle_since = self.loop.time()
            if self._write_timer is not None:
                self._write_timer.cancel()

        # ------------------------------------------------------------------------------ bytes
        def data_received(self, data: bytes) -> None:
            self._bytes += len(data)
            super().data_received(data)
            # The parser keeps a header to itself until it is complete.
            if self._bytes > limits.header_bytes and not self.transport.is_closing():
                self._refuse(self._too_long())

        def on_headers_complete(self) -> None:
            if self._bytes > limits.header_bytes:  # of which some may be other requests, or a body
                size = sum(len(name) + len(value) + 4 for name, value in self.headers)
                if size + len(self.url) > limits.header_bytes:
                    self._refusal = self._too_long()
            if len(self.pipeline) >= PIPELINED:
                self._refusal = HTTPError(503, "too many requests wait for answers.", retry_after=1)
            if self._refusal is not None:
                raise self._refusal
            self._bytes = 0
            super().on_headers_complete()
            if self.cycle is not None:  # as of a request to upgrade
                self._cycles.append(self.cycle)

        def on_body(self, body: bytes) -> None:
            self._bytes = 0
            super().on_body(body)

        def _too_long(self) -> HTTPError:
            return HTTPError(431, f"the headers have more than {limits.header_bytes:,} bytes.")

        def send_400_response(self, msg: str) -> None:
            """Answer what the parser cannot read, or what a callback has refused."""
            if self._refusal is None:
                super().send_400_response(msg)
                self._drop_answers()
            else:
                self._refuse(self._refusal)

        def _refuse(self, refusal: HTTPError) -> None:
            body = refusal.body()
            head = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
            if refusal.retry_after is not None:
                head += f"retry-after: {refusal.retry_after}\r\n"
            head += "connection: close\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)
            self.transport.close()
            self._drop_answers()

    return Connection
