"""What is wrong with a request, in the form in which OpenAI's interface says it."""

from __future__ import annotations

from starlette.responses import JSONResponse

#: seconds after which a client that was turned away may try again
RETRY_AFTER = 1


class RequestError(Exception):
    """A request that is not answered.

    Args:
        message: what is wrong.
        status: of HTTP.
        param: the field that is wrong, if it is one.
        code: a word for programs.
    """

    def __init__(self, message: str, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, object]:
        """Return the error as JSON."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Return the answer."""
        headers = {"Retry-After": str(RETRY_AFTER)} if self.status in (429, 503) else None
        return JSONResponse(self.body(), self.status, headers=headers)


class Busy(RequestError):
    """The queue is full."""

    def __init__(self, outstanding: int, most: int) -> None:
        super().__init__(
            f"the server has {outstanding} requests and takes {most} at once: try again later", 429, None, "busy"
        )


class Draining(RequestError):
    """The server is about to end."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down and takes no new requests", 503, None, "shutting_down")
