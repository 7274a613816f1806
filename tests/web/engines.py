"""Where exported folders run in tests: Node with the npm package ``webgpu`` (Dawn), and headless Chromium.

A job is the text of an ES module whose default export takes ``{base, gpu}`` (the address of the folders, where to ask for
an adapter) and returns what JSON can hold. Neither needs a GPU: both use the SwiftShader that comes with Chromium.
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PACKAGES = HERE.parent.parent / "build" / "npm"
#: Dawn for Node
WEBGPU = "webgpu@0.6.2"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_DRIVERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium() -> str:
    """Return Chromium's command; skip the test where there is none."""
    found = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if found is None:
        pytest.skip("Chromium is not installed, so nothing was tried in a browser: apt-get install chromium")
    return found


def packages() -> Path:
    """Return the folder with the npm package ``webgpu``, installed there once; skip the test where that is impossible."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node is not installed, so nothing was tried in it: apt-get install nodejs npm")
    if not (PACKAGES / "node_modules" / "webgpu").is_dir():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(PACKAGES), WEBGPU]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"{' '.join(command)} failed, so nothing was tried in Node: {done.stderr[-400:]}")
    return PACKAGES


class Failed(Exception):
    """A job raised; the text is ``Name: message``."""


def _result(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        raise Failed(answer["error"])
    return answer["result"]


class Node:
    """Runs each job in a process of Node."""

    name = "node"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = packages()
        self.environment = dict(os.environ)
        icd = next((each for each in map(Path, _DRIVERS) if (each / "vk_swiftshader_icd.json").is_file()), None)
        if icd is None:
            pytest.skip("Dawn's software adapter comes with Chromium: apt-get install chromium")
        self.environment["VK_ICD_FILENAMES"] = str(icd / "vk_swiftshader_icd.json")

    def run(self, job: str) -> Any:
        """Return what a job returns."""
        path = self.root / "job.mjs"
        path.write_text(job, encoding="utf-8")
        command = ["node", str(HERE / "driver.mjs"), str(self.packages), str(path), f"{self.root.as_uri()}/"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, env=self.environment, cwd=self.root
        )
        assert "\n@@" in done.stdout, f"Node ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return _result(json.loads(done.stdout.rpartition("\n@@")[2]))

    def close(self) -> None:
        """Nothing is left running."""


class Chromium:
    """One page of headless Chromium that runs jobs one after another."""

    name = "chromium"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs: queue.Queue[str] = queue.Queue()
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.count = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.profile = tempfile.TemporaryDirectory(prefix="webgpu-torch-chromium-", ignore_cleanup_errors=True)
        address = f"http://127.0.0.1:{self.server.server_port}/driver.html"
        self.process = subprocess.Popen(
            [chromium(), *_FLAGS, f"--user-data-dir={self.profile.name}", address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def run(self, job: str) -> Any:
        """Return what a job returns."""
        self.count += 1
        name = f"job{self.count}.mjs"
        (self.root / name).write_text(job, encoding="utf-8")
        self.jobs.put(f"/{name}")
        return _result(self.answers.get(timeout=600))

    def close(self) -> None:
        """End the browser and the server."""
        os.killpg(self.process.pid, 15)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.server.shutdown()
        self.server.server_close()
        self.profile.cleanup()

    def _handler(self) -> type[http.server.SimpleHTTPRequestHandler]:
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

            def __init__(self, *given: Any) -> None:
                super().__init__(*given, directory=str(outer.root))

            def do_GET(self) -> None:
                if self.path == "/driver.html":
                    self._answer((HERE / "driver.html").read_bytes(), "text/html")
                elif self.path == "/next":
                    try:
                        job = outer.jobs.get(timeout=5)
                    except queue.Empty:
                        job = ""
                    self._answer(job.encode(), "text/plain")
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                outer.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._answer(b"", "text/plain")

            def _answer(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
