"""Serving until a signal: what runs then may finish, and nothing new begins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from webgpu_torch_serve.application import application
from webgpu_torch_serve.engine import Engine
from webgpu_torch_serve.models import Served

#: seconds between looks at whether all have finished
LOOK = 0.05


class _Server(uvicorn.Server):
    """Ends in two steps: at the first signal new requests get 503 and running ones go on, at the second all end.

    Args:
        config: of uvicorn.
        engine: whose requests are waited for.
        patience: how many seconds they have.
    """

    def __init__(self, config: uvicorn.Config, engine: Engine, patience: float) -> None:
        super().__init__(config)
        self.engine, self.patience = engine, patience
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.engine.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self.engine.draining = True
        self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        end = asyncio.get_running_loop().time() + self.patience
        while self.engine.outstanding and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(LOOK)
        # Those that are left hear of it; their answers end before the connections do.
        await asyncio.to_thread(self.engine.stop)
        self.should_exit = True


def serve(
    load: Callable[[], Served], *, host: str = "127.0.0.1", port: int = 8000, api_key: str | None = None,
    queue_size: int = 64, patience: float = 30.0, started: Callable[[Served, str], None] | None = None,
) -> None:  # fmt: skip
    """Serve a model until SIGINT or SIGTERM.

    Args:
        load: returns the model; it is called in the thread that computes.
        host, port: where to listen; port 0 takes a free one.
        api_key: what clients must send; None asks for nothing.
        queue_size: how many requests may wait beside those that run.
        patience: how many seconds running requests have after the signal.
        started: called with what is served and its address, once it is reachable.

    Raises:
        OSError: the port cannot be listened to.
        Exception: what loading raises.
    """
    # Whoever has to wait for the model wants to know first that the port is free.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        engine = Engine(load, queue_size).start()
        config = uvicorn.Config(
            application(engine, api_key), log_level="warning", lifespan="off", timeout_graceful_shutdown=5
        )
        if started is not None:
            shown = f"[{host}]" if ":" in host else host
            started(engine.served, f"http://{shown}:{listening.getsockname()[1]}/")
        try:
            _Server(config, engine, patience).run(sockets=[listening])
        finally:
            engine.stop()
