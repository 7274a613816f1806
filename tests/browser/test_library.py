"""The library under Pyodide in Chromium: the same Python over ``navigator.gpu``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driving import finished
from engines import PROGRAMS, Python

#: run in one page by the quick test: starting Python takes longer than they do
QUICK = ("tensors.py", "errors.py", "turns.py")
LONG = ("training.py", "large.py", "device_loss.py")
#: of the recorded expectations, every so many are tried by the quick test; the slow one takes all
SAMPLE = 80


def test_the_library_computes_in_the_browser(python: Any) -> None:
    failed = {}
    for name in QUICK:
        try:
            python.run_file(name)
        except AssertionError as error:
            failed[name] = str(error)
    expectations = (
        "import webgpu_torch\nfrom webgpu_torch_web.site.expectations import Expectations\n"
        f"found = Expectations(webgpu_torch)\noutcomes = [each async for each in found.run(found.all[::{SAMPLE}])]\n"
        "repr([(each.expectation.text, each.problem) for each in outcomes if each.problem] if outcomes else None)"
    )
    assert python.run(expectations) == "[]"
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


def test_starting_goes_on_where_the_site_was_built(python: Any) -> None:
    assert python.run("import os; os.environ['_']") == "python"
    # What is imported later has its compiled file, what was imported its source, for tracebacks.
    program = """
import importlib.util, inspect, webgpu_torch_core, webgpu_torch_nn.functional, webgpu_torch_models
from pathlib import Path
assert not Path(webgpu_torch_core.__cached__).exists()
assert "def linear" in inspect.getsource(webgpu_torch_nn.functional.linear)
Path(importlib.util.find_spec("webgpu_torch_models.gpt2").cached).exists()
"""
    assert python.run(program) == "true"


#: most seconds from the runtime's start to the first tensor's elements, and pages of which the quickest counts: others' work
#: makes pages slower and none quicker
MOST_SECONDS, PAGES = 2.0, 5


@pytest.mark.slow
def test_the_library_starts_quickly(opened: Callable[[str], Any]) -> None:
    took: list[float] = []
    while len(took) < PAGES and min(took, default=MOST_SECONDS + 1) > MOST_SECONDS:
        page = opened("index.html")
        page.wait_for_function("globalThis.library")
        took.append(page.evaluate("library.ready"))
        assert page.problems == []
        page.close()
    assert min(took) <= MOST_SECONDS, took


WITHOUT_JSPI = "delete WebAssembly.Suspending; delete WebAssembly.promising;"


@pytest.mark.slow
def test_without_jspi_results_are_fetched(opened: Callable[..., Any], site: Path) -> None:
    """No flag of Chromium takes it away: its names are gone before Pyodide looks for them."""
    page = opened_without_jspi(opened, site, "index.html")
    Python(page).run_file("awaiting.py")
    assert "await tensor.fetch()" in page.inner_text("#notice")
    assert page.problems == []
    page.close()


def opened_without_jspi(opened: Callable[..., Any], site: Path, name: str) -> Any:
    worker = 'import "./without.js";\n' + (site / "worker.js").read_text(encoding="utf-8")
    return opened(name, script=WITHOUT_JSPI, instead={"worker.js": worker, "without.js": WITHOUT_JSPI})


@pytest.mark.slow
def test_without_jspi_the_pages_compute(opened: Callable[..., Any], site: Path) -> None:
    page = opened_without_jspi(opened, site, "conformance.html?every=8")
    found = finished(page)
    assert found["missed"] == 0 and found["done"] > 90 and found["waiting"] < 10, found
    assert page.problems == []
    page.close()
    page = opened_without_jspi(opened, site, "benchmark.html")
    assert len(finished(page)["rows"]) >= 7
    assert page.problems == []
    page.close()


#: Python in the page itself, not in a worker: started anew, not from the memory that the site brings
MAIN_THREAD = """async () => {
  const { install, unpack } = await import("/archive.js");
  const { loadPyodide } = await import("/pyodide/pyodide.mjs");
  const python = await loadPyodide({ indexURL: "/pyodide/" });
  const archive = await fetch("/library.tar.gz");
  install(await unpack(archive.body), python.FS, python.runPython("import site; site.getsitepackages()[0]"));
  globalThis.python = python;
}"""
IN_MAIN_THREAD = """async (code) => {
  try {
    return { value: await python.runPythonAsync(code, { globals: python.toPy({ __name__: "__main__" }) }) };
  } catch (error) {
    return { error: error.message };
  }
}"""


@pytest.mark.slow
def test_the_main_thread_computes(opened: Callable[..., Any]) -> None:
    # Without its own script the page starts no worker.
    page = opened("index.html", instead={"playground.js": ""})
    page.evaluate(MAIN_THREAD)
    assert page.evaluate("globalThis.library === undefined && globalThis.document !== undefined")
    for name in (*QUICK, "training.py"):
        done = page.evaluate(IN_MAIN_THREAD, (PROGRAMS / name).read_text(encoding="utf-8"))
        assert "error" not in done, f"{name}: {done['error']}"
    assert page.problems == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_programs(python: Any, name: str) -> None:
    python.run_file(name)


@pytest.mark.slow
def test_two_tabs_compute_at_once(opened: Callable[[str], Any]) -> None:
    pages = [opened("index.html") for _ in range(2)]
    for page in pages:
        page.wait_for_function("globalThis.library")
        page.evaluate("library.ready")
    # Both are at work before either is asked what came of it.
    for number, page in enumerate(pages):
        program = (
            "import random, webgpu_torch as torch\nx = torch.eye(64) * 2\nfor _ in range(20): x = (x @ x).clamp(max=3)\n"
            f"str([x.diagonal().sum().item() + {number}, random.random()])"
        )
        page.evaluate("(code) => { globalThis.pending = library.run(code); }", program)
    found = [json.loads(page.evaluate("pending.then((done) => done.value ?? done.error)")) for page in pages]
    assert [sums for sums, _ in found] == [192.0, 193.0]
    # They took up one memory, and draw different numbers.
    assert found[0][1] != found[1][1]
    for page in pages:
        assert page.problems == []
        page.close()


@pytest.mark.slow
def test_training_leaves_memory_flat(python: Any) -> None:
    found = json.loads(python.run_file("memory.py"))
    assert found["last"] < 0.5 * found["first"]
    (allocated, reserved, table, objects), (*after, objects_after) = found["before"], found["after"]
    assert after == [allocated, reserved, table], found
    assert objects_after < objects * 1.01, found
