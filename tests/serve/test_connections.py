"""Connections that say nothing, or are too many, do not keep a server from its work."""

import asyncio

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")
pytest.importorskip("starlette")

import uvicorn
from uvicorn.server import ServerState

from maxmargin.serve import Limits
from maxmargin.serve.connections import limited_connections

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def slow_app(scope, receive, send):
    await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def tried(limits, talk):
    """What is found in a talk with a server that has these limits."""

    async def main():
        config = uvicorn.Config(slow_app, http=limited_connections(limits), lifespan="off")
        config.load()
        state = ServerState()
        made = config.http_protocol_class
        server = await asyncio.get_running_loop().create_server(
            lambda: made(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.wait_for(talk(port), 60)

    return asyncio.run(main())


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
