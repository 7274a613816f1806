"""Chromium, driven by programs: benchmarks, tests and pictures open the site's pages and start what they do in one way."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from webgpu_torch_web.site.serving import serving

#: root's Chromium
FLAGS = ("--no-sandbox",)
#: WebGPU without a graphics card
SOFTWARE = (*FLAGS, "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
ADVICE = "Chromium was not found: on Debian and Ubuntu 'apt-get install chromium'"
PATIENCE = 600_000


def chromium_path() -> str | None:
    """Return where Chromium is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextlib.contextmanager
def opened(folder: str | Path, name: str, gpu: bool = False) -> Iterator[Any]:
    """Serve a folder and open one of its pages, on the software adapter unless the graphics card is asked for."""
    # What waits and starts works without the driver, which some machines that test lack.
    from playwright.sync_api import sync_playwright

    found = chromium_path()
    if found is None:
        raise SystemExit(ADVICE)
    with sync_playwright() as playwright, serving(folder) as address:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS if gpu else SOFTWARE))
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}{name}")
        yield page
        browser.close()


def ready(page: Any, button: str = "start") -> None:
    """Wait until a button of the page can be used: Python and the library are there."""
    page.wait_for_function("(name) => !document.getElementById(name).disabled", arg=button)


def finished(page: Any) -> Any:
    """Start the conformance page or the benchmark page, and return what it found."""
    ready(page)
    page.click("#start")
    page.wait_for_function("globalThis.finished")
    return page.evaluate("finished")


def run_example(page: Any, name: str, *changed: str) -> str:
    """Run one of the playground's examples, with a part of its text replaced by another, and return its output."""
    ready(page, "run")
    page.select_option("#examples", name)
    if changed:
        page.evaluate("([old, other]) => editor.replace(editor.text().replace(old, other))", list(changed))
    page.click("#run")
    page.wait_for_function("globalThis.last")
    return page.inner_text("#output")
