"""The page of an exported folder."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch_web.site.serving import serving

#: most bytes of all that an export brings beside plan, kernels and weights, as servers send it
MOST_OF_RUNNER = 30 << 10


def test_what_runs_exports_is_small() -> None:
    files = [each for each in resources.files("webgpu_torch_web").joinpath("runner").iterdir() if each.is_file()]
    sizes = {each.name: len(gzip.compress(each.read_bytes())) for each in files}
    assert {"runner.js", "text.js", "images.js", "tokenizer.js", "index.html"} <= set(sizes)
    assert sum(sizes.values()) <= MOST_OF_RUNNER, sizes


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    scale = torch.tensor([2.0, 3.0])
    torch.web.export(lambda x, flag: (x * scale, ~flag), (torch.ones(2), torch.tensor([True])), Path(folder))
    with serving(folder) as found:
        yield found


def test_page_runs_the_function(chromium: Any, address: str) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_function("document.getElementById('status').textContent.startsWith('Ready')", timeout=120_000)
    page.get_by_label("x: float32 [2]").fill("1.5, -4")
    page.get_by_label("flag: bool [1]").fill("false")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("pre:not(:empty)")
    shown = page.inner_text("pre")
    assert "output0: float32 [2]\n3, -12" in shown and "output1: bool [1]\n1" in shown
    page.get_by_label("x: float32 [2]").fill("1, two")
    page.get_by_role("button", name="Run").click()
    assert "'two' in x is no number" in page.inner_text("[role=alert]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The weights come from the cache the next time, and an earlier export's are gone.
    count = "caches.open('webgpu-torch').then((each) => each.keys()).then((keys) => keys.length)"
    assert page.evaluate(count) == 1
    page.evaluate("""caches.open('webgpu-torch').then(async (cache) => {
      const [key] = await cache.keys();
      await cache.delete(key);
      await cache.put(key.url.replace(/v=.*/, 'v=old'), new Response('old'));
    })""")
    page.reload()
    page.wait_for_function("document.getElementById('status').textContent.startsWith('Ready')", timeout=120_000)
    assert page.evaluate(count) == 1
    assert problems == []
    page.close()


def test_page_without_webgpu_says_so(chromium: Any, address: str) -> None:
    page = chromium.new_page()
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'gpu', { get: () => undefined })")
    page.goto(address)
    page.wait_for_selector("[role=alert]", timeout=60_000)
    said = page.inner_text("[role=alert]")
    assert "WebGPU is not available here" in said and "Chrome" in said and "Firefox" in said and "Safari" in said
    page.close()
