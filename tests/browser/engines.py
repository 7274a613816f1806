"""Where tests run outside of Python's own process: exported folders in Node (the npm package ``webgpu``, which is Dawn) and in a
page of Chromium, and Python in a page.

A job is the text of an ES module whose default export takes ``{base, gpu}`` (the address of the folders, where to ask for
an adapter) and returns what JSON can hold. Neither needs a GPU: both use the SwiftShader that comes with Chromium.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from webgpu_torch_web.site.registry import MissingTool, npm_package, tool

HERE = Path(__file__).parent
#: what the tests run in the page's Python
PROGRAMS = HERE / "programs"
#: Dawn for Node
WEBGPU = ("webgpu", "0.6.2")
_SOFTWARE = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")

_IN_PAGE = """async (name) => {
  try {
    const { default: run } = await import(`/${name}`);
    return { result: await run({ base: `${location.origin}/`, gpu: navigator.gpu }) };
  } catch (error) {
    return { error: `${error.name}: ${error.message}` };
  }
}"""


class Failed(Exception):
    """A job raised; the text is ``Name: message``."""


class Engine:
    """Something that runs jobs.

    Attributes:
        root: the folder whose files jobs may load.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0

    def run(self, job: str) -> Any:
        """Return what a job returns.

        Raises:
            Failed: it raised.
        """
        self.count += 1
        path = self.root / f"job{self.count}.mjs"
        path.write_text(job, encoding="utf-8")
        answer = self._answer(path)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def _answer(self, path: Path) -> dict[str, Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing running."""


class Node(Engine):
    """One process of Node.

    Raises:
        MissingTool: Node, npm or the software adapter is missing.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        icd = next((each for each in _SOFTWARE if Path(each, "vk_swiftshader_icd.json").is_file()), None)
        if icd is None:
            raise MissingTool("Dawn's software adapter was not found, it comes with Chromium: apt-get install chromium")
        command = [tool("node"), str(HERE / "driver.mjs"), str(npm_package(*WEBGPU)), f"{root.as_uri()}/"]
        environment = os.environ | {"VK_ICD_FILENAMES": f"{icd}/vk_swiftshader_icd.json", "XDG_RUNTIME_DIR": str(root)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=root
        )

    def _answer(self, path: Path) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"Node ended with {self.process.wait()}"
        return json.loads(line)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Page(Engine):
    """A page of a browser that Playwright drives."""

    def __init__(self, root: Path, browser: Any, address: str) -> None:
        super().__init__(root)
        (root / "blank.html").write_text("<!doctype html><title>Jobs</title>", encoding="utf-8")
        self.page = browser.new_page()
        self.page.set_default_timeout(600_000)
        self.page.goto(f"{address}blank.html")

    def _answer(self, path: Path) -> dict[str, Any]:
        return self.page.evaluate(_IN_PAGE, path.name)

    def close(self) -> None:
        self.page.close()


class Python:
    """Python of a page, in its worker."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.wait_for_function("globalThis.library", timeout=60_000)
        self.started = page.evaluate("library.ready")

    def run(self, code: str, keep: bool = False) -> str | None:
        """Run a program and return the text of its last expression.

        Raises:
            AssertionError: the program raised something.
        """
        done = self.page.evaluate("([code, keep]) => library.run(code, keep)", [code, keep])
        assert "error" not in done, done["error"]
        return done["value"]

    def run_file(self, name: str) -> str | None:
        """Run one of the programs beside the tests."""
        return self.run((PROGRAMS / name).read_text(encoding="utf-8"))
