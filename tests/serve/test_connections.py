"""Clients that are slow, silent or too many do not keep a server from its work."""

import asyncio
from contextlib import closing, suppress

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")
pytest.importorskip("starlette")

import uvicorn
from uvicorn.server import ServerState

from maxmargin.serve import Limits
from maxmargin.serve.connections import limited_connections

LOOPS = [asyncio.new_event_loop]
with suppress(ImportError):
    import uvloop

    LOOPS.append(uvloop.new_event_loop)

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def slow_app(scope, receive, send):
    await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def tried(limits, talk, app=slow_app, new_loop=asyncio.new_event_loop):
    """What is found in a talk with a server that has these limits."""

    async def main():
        config = uvicorn.Config(app, http=limited_connections(limits), lifespan="off")
        config.load()
        talk.state = state = ServerState()
        made = config.http_protocol_class
        server = await asyncio.get_running_loop().create_server(
            lambda: made(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await asyncio.wait_for(talk(port), 60)
            finally:
                await asyncio.gather(*state.tasks)

    with closing(new_loop()) as loop:
        return loop.run_until_complete(main())


async def read_all(reader):
    """Until the other side closes."""
    return await reader.read(-1)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost:", REQUEST + b"GET / H"])
def test_headers_that_do_not_come_are_waited_for_only_so_long(begun):
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        found = await read_all(reader)
        writer.close()
        return found

    found = tried(Limits(header_seconds=0.1), talk)
    assert found.count(b"done") <= begun.startswith(REQUEST)


def test_a_request_may_take_longer_than_its_headers():
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found = []
        for _ in range(2):
            writer.write(REQUEST)
            found.append(await reader.readuntil(b"done"))
        writer.close()
        return found

    assert all(b"200 OK" in each for each in tried(Limits(header_seconds=0.1), talk))


def test_of_too_many_connections_the_last_are_refused():
    async def talk(port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        refused = await read_all(reader)
        writer.close()
        held[0][1].close()
        held[1][1].write(REQUEST)
        served = await held[1][0].readuntil(b"done")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        again = await reader.readuntil(b"done")
        for each in (held[1][1], writer):
            each.close()
        return refused, served, again

    refused, served, again = tried(Limits(connections=2), talk)
    assert b"503" in refused
    assert b"retry-after" in refused
    assert b"too many connections" in refused
    assert b"200 OK" in served
    assert b"200 OK" in again


ENDLESS = {
    "url": b"GET /" + b"a" * 1500,
    "header": b"GET / HTTP/1.1\r\nx: " + b"a" * 1500,
    "headers": b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200,
    "name": b"GET / HTTP/1.1\r\n" + b"x" * 1500,
    "finished": b"GET / HTTP/1.1\r\nhost: " + b"x" * 1500 + b"\r\n\r\n",
    "trailers": REQUEST[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 400,
    "trailer": REQUEST[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\nx: " + b"y" * 1500,
    "chunk": REQUEST[:-2] + b"transfer-encoding: chunked\r\n\r\n1;x=" + b"y" * 1500,
}


@pytest.mark.parametrize("what", ENDLESS)
def test_headers_and_trailers_have_a_limit(what):
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for k in range(0, len(ENDLESS[what]), 500):
            writer.write(ENDLESS[what][k : k + 500])
            await asyncio.sleep(0.01)  # so that it comes in several pieces
        found = await read_all(reader)
        writer.close()
        return found

    found = tried(Limits(header_bytes=1000), talk)
    assert found.startswith(b"HTTP/1.1 431 ")
    assert b"more than 1,000 bytes" in found


def test_chunks_of_a_body_are_not_headers():
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found = []
        for _ in range(2):
            writer.write(REQUEST[:-2] + b"transfer-encoding: chunked\r\n\r\n")
            for _ in range(20):
                writer.write(b"1\r\n.\r\n" * 100)
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
            found.append(await reader.readuntil(b"done"))
        writer.close()
        return found

    assert all(b"200 OK" in each for each in tried(Limits(header_bytes=1000), talk))


def test_requests_that_wait_on_a_connection_have_a_limit():
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST * 200)
        found = await read_all(reader)
        writer.close()
        return found

    found = tried(Limits(), talk)
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in found


LATER = {
    "newlines": (REQUEST, b"\r\n"),
    "an unread byte": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n", b"x"),
    "endless trailers": (
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        b"x: y\r\n",
    ),
}


@pytest.mark.parametrize("what", LATER)
def test_bytes_do_not_keep_a_connection_without_an_application(what):
    async def talk(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request, byte = LATER[what]
        writer.write(request)
        found = await reader.readuntil(b"done")
        while talk.state.connections:
            with suppress(OSError):
                writer.write(byte)
            await asyncio.sleep(0.02)
        writer.close()
        return found

    assert b"200 OK" in tried(Limits(header_seconds=0.1), talk)


async def large_app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(100 if "stream" in scope["path"] else 0):
        await send({"type": "http.response.body", "body": b"x" * 10**6, "more_body": True})
    await send({"type": "http.response.body", "body": b"x" * int(scope["path"].strip("/stream"))})


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("path", ["/30000000", "/stream0", "/stream30000000"])
@pytest.mark.parametrize("ends", [b"", b"connection: close\r\n"])
def test_clients_that_do_not_read_are_left(path, ends, loop):
    async def talk(port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.pause_reading()
        writer.write(b"GET %s HTTP/1.1\r\nhost: x\r\n%s\r\n" % (path.encode(), ends))
        while not talk.state.connections:
            await asyncio.sleep(0.01)
        while talk.state.connections:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        return talk.state.tasks

    assert not tried(Limits(write_seconds=0.1), talk, large_app, loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_answers_that_nobody_reads_are_limited_together(loop):
    size, most = 10**7, 35 * 10**6
    limits = Limits(write_seconds=1000.0, header_seconds=1000.0, unread_bytes=most)

    def unread(state):
        return sum(each.transport.get_write_buffer_size() for each in state.connections)

    async def talk(port):
        lines, found = [], []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.pause_reading()
            writer.write(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % size)
            lines.append((reader, writer))
            while talk.state.total_requests < len(lines):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            found.append(unread(talk.state))
        reader, writer = lines[-1]  # the last is whole
        writer.transport.resume_reading()
        last = await reader.readuntil(b"x" * 1000)
        while len(last) < size:
            last += await reader.read(2**16)
        left = len(talk.state.connections)
        for _, writer in lines:
            writer.transport.abort()
        return found, left

    found, left = tried(limits, talk, large_app, loop)
    assert max(found) <= most
    assert 1 < left < 8
