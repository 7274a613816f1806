"""The server's routes: OpenAI's interface, the chat page, health and metrics."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from webgpu_torch_serve.completions import chat, complete
from webgpu_torch_serve.engine import Engine
from webgpu_torch_serve.errors import RequestError
from webgpu_torch_serve.models import EMBEDDINGS, IMAGES, TEXT
from webgpu_torch_serve.parameters import Fields
from webgpu_torch_serve.single import draw, embed

#: bytes of the longest body that is read
LONGEST_BODY = 16 << 20
Endpoint = Callable[[Request], Awaitable[Response]]
Answer = Callable[[Request, Engine, Fields], Awaitable[Response]]


async def _body(request: Request) -> object:
    """Return the JSON of a request.

    Raises:
        RequestError: it is none, or too long.
    """
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > LONGEST_BODY:
            raise RequestError(f"the body is longer than {LONGEST_BODY} bytes", 413)
        parts.append(part)
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from error


class _Routes:
    """What the routes of one server do."""

    def __init__(self, engine: Engine, api_key: str | None) -> None:
        self.engine, self.served, self.api_key = engine, engine.served, api_key
        self.described = {
            "id": self.served.name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "webgpu-torch",
        }

    def _check_key(self, request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and not hmac.compare_digest(given.encode(), self.api_key.encode()):
            raise RequestError("the API key is missing or wrong", 401, code="invalid_api_key")

    def _check_model(self, name: str) -> None:
        if name != self.served.name:
            raise RequestError(
                f"there is no model {name!r:.200}; served is {self.served.name}", 404, "model", "model_not_found"
            )

    def guarded(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        """Return a route that needs the key, says its errors as OpenAI's interface does, and is counted."""

        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                self._check_key(request)
                response = await endpoint(request)
            except RequestError as error:
                response = error.response()
            except Exception as error:
                response = RequestError(f"{type(error).__name__}: {error}", 500).response()
            metrics = self.engine.metrics
            metrics.answers.labels(path, str(response.status_code)).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - started)
            return response

        return Route(path, answer, methods=[method])

    def posted(self, path: str, kind: str, answer: Answer) -> Route:
        """Return a route that takes the fields of a request to a kind of model."""

        async def endpoint(request: Request) -> Response:
            fields = Fields(await _body(request))
            self._check_model(fields.text("model"))
            if self.served.kind != kind:
                raise RequestError(f"{self.served.name} is for {self.served.kind}, not for {kind}", 400, "model")
            return await answer(request, self.engine, fields)

        return self.guarded(path, endpoint, "POST")

    async def models(self, request: Request) -> Response:
        """List the model."""
        return JSONResponse({"object": "list", "data": [self.described]})

    async def model(self, request: Request) -> Response:
        """Describe the model."""
        self._check_model(request.path_params["name"])
        return JSONResponse(self.described)

    async def health(self, request: Request) -> Response:
        """Say whether requests are answered."""
        state = "draining" if self.engine.draining else "ok" if self.engine.is_alive else "failed"
        return JSONResponse({"status": state, "model": self.served.name}, 200 if state == "ok" else 503)

    async def metrics(self, request: Request) -> Response:
        """Give Prometheus its numbers."""
        return Response(self.engine.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _page(_: Request) -> Response:
    return HTMLResponse(files("webgpu_torch_serve").joinpath("chat.html").read_text("utf-8"))


async def _unknown(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return RequestError(str(error.detail), error.status_code).response()


def application(engine: Engine, api_key: str | None = None) -> Starlette:
    """Return the ASGI application of an engine that has been started.

    Args:
        engine: computes.
        api_key: what clients must send as their bearer token to use /v1; None asks for nothing.
    """
    does = _Routes(engine, api_key)
    routes = [
        does.posted("/v1/completions", TEXT, complete), does.posted("/v1/chat/completions", TEXT, chat),
        does.posted("/v1/embeddings", EMBEDDINGS, embed), does.posted("/v1/images/generations", IMAGES, draw),
        does.guarded("/v1/models", does.models), does.guarded("/v1/models/{name:path}", does.model),
        Route("/health", does.health), Route("/metrics", does.metrics), Route("/", _page),
    ]  # fmt: skip
    return Starlette(routes=routes, exception_handlers={HTTPException: _unknown})
