"""A small server for the site, on this machine only."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a page asks for dozens of files."""

    def end_headers(self) -> None:
        # A folder that was built anew is served anew: browsers ask whether a file has changed.
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


@contextlib.contextmanager
def serving(folder: str | Path, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve a folder in a thread while the block runs; yields its address. ``port=0`` takes a free one."""
    server = ThreadingHTTPServer((host, port), functools.partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
