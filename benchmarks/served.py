"""Peers behind addresses: ``python -m benchmarks.served starlette`` or ``vowpal``.

The port is a free one, and the first line on stdout. ``starlette`` has a route that does nothing
and one where river learns; ``vowpal`` is the daemon of Vowpal Wabbit, by way of its library: the
package has no executable.
"""

from __future__ import annotations

import socket
import sys
from typing import Any


def free_socket() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


def starlette() -> None:
    import msgspec
    import uvicorn
    from river import linear_model, preprocessing
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    model = preprocessing.StandardScaler() | linear_model.PAClassifier(C=1.0, mode=1)

    def answer(content: Any) -> Response:
        return Response(msgspec.json.encode(content), media_type="application/json")

    async def empty(request: Request) -> Response:
        await request.body()
        return answer({"learned": 0})

    async def learn(request: Request) -> Response:
        told = msgspec.json.decode(await request.body())
        if "row" in told:
            model.learn_one(told["row"], told["label"] == "yes")
            return answer({"learned": 1})
        for row, label in zip(told["rows"], told["labels"], strict=True):
            model.learn_one(dict(enumerate(row)), label == "yes")
        return answer({"learned": len(told["labels"])})

    async def predict(request: Request) -> Response:
        row = msgspec.json.decode(await request.body())["row"]
        return answer({"prediction": "yes" if model.predict_one(row) else "no"})

    routes = [
        Route("/empty", empty, methods=["POST"]),
        Route("/learn", learn, methods=["POST"]),
        Route("/predict", predict, methods=["POST"]),
    ]
    listening = free_socket()
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(Starlette(routes=routes), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def vowpal(children: str) -> None:
    import pylibvw
    from vowpalwabbit import Workspace

    with free_socket() as found:
        port = found.getsockname()[1]
    print(port, flush=True)
    options = ["--daemon", "--foreground", "--quiet", "--loss_function", "hinge"]
    # Each child talks with one client at a time; they share the weights.
    workspace = Workspace(arg_list=[*options, "--num_children", children, "--port", str(port)])
    pylibvw.vw.run_parser(workspace)


if __name__ == "__main__":
    {"starlette": starlette, "vowpal": vowpal}[sys.argv[1]](*sys.argv[2:])
