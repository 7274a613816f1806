"""The site: what it is made of, and each page as a visitor has it."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import webgpu_torch
from driving import finished, ready, run_example
from webgpu_torch_models import AutoModelForCausalLM, AutoTokenizer
from webgpu_torch_web.site import library
from webgpu_torch_web.site.building import build
from webgpu_torch_web.site.expectations import FILE, Expectation, Expectations, Outcome
from webgpu_torch_web.site.library import DISTRIBUTIONS, source_archive
from webgpu_torch_web.site.page import plot
from webgpu_torch_web.site.registry import EDITOR

PAGES = ("index.html", "conformance.html", "benchmark.html")
NARROW = {"width": 390, "height": 844}


def outcomes_of(expectations: Expectations, chosen: list[Expectation] | None = None) -> list[Outcome]:
    async def collected() -> list[Outcome]:
        return [each async for each in expectations.run(chosen)]

    return asyncio.run(collected())


def test_expectations_are_many_and_met_on_the_cpu() -> None:
    with webgpu_torch.device("cpu"):
        expectations = Expectations(webgpu_torch)
        outcomes = outcomes_of(expectations)
    assert len(outcomes) >= 800 and len(expectations.operations()) >= 290
    assert {each.kind for each in expectations.all} == {"float32", "float16", "int32", "int64", "bool"}
    assert [(each.expectation, each.problem) for each in outcomes if each.problem or each.waits] == []
    assert FILE.stat().st_size < 150_000


def test_an_expectation_that_is_not_met_is_noticed() -> None:
    with webgpu_torch.device("cpu"):
        expectations = Expectations(webgpu_torch)
        case = next(each for each in expectations.all if each.text == "torch.tanh(x)")
        for wrong, said in (
            ("torch.tanh(x) + 0.0001", "element 0 is"),
            ("torch.tanh(x).half()", "the type is float16"),
            ("torch.tanh(x)[0]", "the shape is [4]"),
            ("torch.nothing(x)", "AttributeError"),
            ("(x, x)", "2 results"),
        ):
            (outcome,) = outcomes_of(expectations, [case._replace(text=wrong)])
            assert said in outcome.problem


def test_the_archive_holds_every_distribution() -> None:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(source_archive()))) as archive:
        names = set(archive.getnames())
    for each in DISTRIBUTIONS:
        module = each.replace("-", "_")
        assert f"{module}/__init__.py" in names
        assert any(name.startswith(f"{module}-") and name.endswith(".dist-info/METADATA") for name in names)
    assert any(name.endswith("entry_points.txt") for name in names)
    assert "webgpu_torch_backend_wgpu/gpu/browser.js" in names and "webgpu_torch_web/site/expectations.json" in names


def test_what_another_site_was_made_of_lately_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, other, target = tmp_path / "cache", b"another state of the files", tmp_path / "site"
    for each in (kept, target):
        each.mkdir()

    def snapshot(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        Path(command[-1], "python.gz").write_bytes(Path(command[-2]).read_bytes())
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(library, "cache_folder", lambda: kept)
    monkeypatch.setattr(library, "tool", str)
    monkeypatch.setattr(library, "npm_package", lambda *_: tmp_path)
    monkeypatch.setattr(library.subprocess, "run", snapshot)
    for source in (b"one", other, b"one"):
        monkeypatch.setattr(library, "source_archive", lambda source=source: source)
        library.started(target)
        assert (target / "python.gz").read_bytes() == source
    assert len(list(kept.iterdir())) == 2
    for each in kept.iterdir():
        os.utime(each, (0, 0))
    monkeypatch.setattr(library, "source_archive", lambda: b"third")
    library.started(target)
    (only,) = kept.iterdir()
    assert (only / "python.gz").read_bytes() == b"third"


def test_plots_need_a_page() -> None:
    with pytest.raises(RuntimeError, match="web serve"):
        plot([1.0, 2.0])
    with pytest.raises(ValueError, match="2 values at 1 places"):
        plot([1.0, 2.0], x=[0.0])


def test_the_editor_brings_what_it_imports(site: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (site / "editor").glob("*.js"))
    imported = set(re.findall(r"^(?:import|export)\b[^;'\"]*?from ['\"]([^'\"]+)['\"]", text, re.MULTILINE))
    assert imported and {each for each in imported if not each.startswith(".")} <= set(EDITOR)
    for page in PAGES:
        text = (site / page).read_text(encoding="utf-8")
        assert not re.search(r"(?:src|href)=['\"]?https?:", text), "everything is served from one place"


def test_every_page_leads_to_the_documentation(site: Path) -> None:
    assert (site / "docs/index.html").read_text(encoding="utf-8") == "<h1>Written</h1>"
    for page in PAGES:
        assert '<a href="./docs/index.html">Documentation</a></nav>' in (site / page).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command_serves_the_site(site: Path) -> None:
    """The site's fixture comes first: the command finds what building takes time for."""
    program = Path(sys.executable).with_name("webgpu-torch")
    command = [program, "web", "serve", "--port", "0", "--json", "--model", site / "model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = json.loads(process.stdout.readline())["address"]
            for name in ("index.html", "python.gz", "pyodide/pyodide.asm.wasm", "model/config.json"):
                with urlopen(address + name, timeout=60) as answer:
                    served = answer.read()
                assert served == (site / name).read_bytes() or name == "index.html" and b"Playground" in served
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.slow
def test_the_conformance_page_passes_whole(opened: Callable[..., Any]) -> None:
    page = opened("conformance.html")
    found = finished(page)
    failed = page.evaluate("[...document.querySelectorAll('td.text div')].map(each => each.textContent)")
    assert failed == [] and found["missed"] == found["waiting"] == 0
    assert found["done"] >= 800 and found["operations"] >= 290
    assert "(100 %)" in page.inner_text("#state")
    with page.expect_download() as download:
        page.click("#save")
    report = Path(download.value.path()).read_text(encoding="utf-8")
    assert '"adapter 0"' in report and report.count('"problem": ""') == found["done"]
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_the_playground_trains_and_shares(opened: Callable[..., Any]) -> None:
    page = opened("index.html", viewport=NARROW)
    text = run_example(page, "Training a network")
    found = re.search(r"loss ([\d.]+) -> ([\d.]+), ([\d.]+)% right", text)
    assert found, text
    assert float(found[2]) < 0.3 * float(found[1]) and float(found[3]) > 90
    captions = page.eval_on_selector_all("figcaption", "all => all.map(each => each.textContent)")
    assert captions == ["loss", "what it learned"]
    for low, high, ticks in ((0, 199, [0, 50, 100, 150]), (-6, 6, [-6, -4, -2, 0, 2, 4, 6]), (0.3, 0.31, [0.3, 0.302])):
        found = page.evaluate("async ([low, high]) => (await import('/drawing.js')).ticks(low, high)", [low, high])
        assert found[: len(ticks)] == pytest.approx(ticks) and low <= found[0] and found[-1] <= high and len(found) <= 7
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    # A link holds the program; an exception is shown, and the next program runs.
    page.evaluate("editor.replace('print(6 * 7)\\n1 / 0')")
    page.click("#share")
    page.wait_for_function("location.hash")
    again = opened(page.url.removeprefix(page.url.split("index.html")[0]))
    again.wait_for_function("globalThis.editor")
    assert again.evaluate("editor.text()") == "print(6 * 7)\n1 / 0"
    ready(again, "run")
    again.keyboard.press("Tab")
    again.click(".cm-content")
    again.keyboard.press("Control+Enter")
    again.wait_for_function("globalThis.last")
    assert "42" in again.inner_text("#output") and "ZeroDivisionError" in again.inner_text("#output")
    again.evaluate("editor.replace('while True: pass')")
    again.click("#run")
    again.click("#stop")
    again.wait_for_function("document.getElementById('state').textContent.startsWith('Ready')")
    assert page.problems == again.problems == []
    page.close()
    again.close()


@pytest.mark.slow
def test_the_editor_completes_names(opened: Callable[..., Any]) -> None:
    page = opened("index.html")
    # Programs run one after another: the names are there when this one is done.
    page.wait_for_function("globalThis.library")
    page.evaluate("library.ready.then(() => library.run('1', true))")
    for typed, label in (
        ("torch.log_soft", "log_softmax"),
        ("import webgpu_torch as torch\nx = torch.ones(2)\nx.resha", "reshape"),
    ):
        page.evaluate("editor.replace('')")
        page.click(".cm-content")
        page.keyboard.type(typed)
        page.wait_for_selector(f".cm-tooltip-autocomplete li:has-text('{label}')")
        page.keyboard.press("Control+Space")
        page.wait_for_selector(".cm-tooltip-autocomplete li[aria-selected]")
        # What was just shown is not taken yet: a key that was meant for the text must not choose.
        page.wait_for_timeout(200)
        page.keyboard.press("Enter")
        assert page.evaluate("editor.text()").endswith(f".{label}")
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_the_playground_trains_a_gpt_that_writes(opened: Callable[..., Any]) -> None:
    page = opened("index.html")
    text = run_example(page, "A tiny GPT", "STEPS = 200", "STEPS = 40")
    found = re.search(r"loss ([\d.]+) -> ([\d.]+)\n'Twas ", text)
    assert found and float(found[2]) < 0.75 * float(found[1]), text
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_the_playground_lets_a_trained_model_write(opened: Callable[..., Any], site: Path) -> None:
    page = opened("index.html")
    drawn = "do_sample=True, temperature=0.8, top_k=40"
    text = run_example(page, "Text of a trained network", drawn, "do_sample=False")
    with webgpu_torch.device("cpu"):
        tokenizer = AutoTokenizer.from_pretrained(site / "model")
        model = AutoModelForCausalLM.from_pretrained(site / "model")
        tokens = webgpu_torch.tensor([tokenizer.encode("A tensor is")])
        written = model.generate(tokens, max_new_tokens=48 - tokens.shape[1], do_sample=False)[0]
    expected = tokenizer.decode(written, skip_special_tokens=True)
    assert len(set(written.tolist())) > 8 and text.rstrip("\n").endswith(expected.rstrip("\n")), text
    assert page.problems == []
    page.close()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no config\.json: it is no model's folder"):
        build(tmp_path / "site", model=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("given", [[], [{"name": "another", "date": "2026-01-02", "rows": []}]], ids=["none", "empty"])
def test_the_benchmark_page_needs_no_recorded_devices(opened: Callable[..., Any], given: list[Any]) -> None:
    page = opened("benchmark.html", instead={"devices.json": json.dumps(given)})
    page.wait_for_selector(f"text=Recorded: {len(given)}")
    assert page.eval_on_selector_all("#comparison section", "all => all.length") == 0
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_the_benchmark_page_measures(opened: Callable[..., Any], site: Path) -> None:
    page = opened("benchmark.html")
    rows = finished(page)["rows"]
    assert len(rows) == 8 and all(each["seconds"] > 0 and each["rate"] > 0 for each in rows)
    # Each program has a bar for this device and one for each recorded one, the fastest as long as the row.
    recorded = json.loads((site / "devices.json").read_text(encoding="utf-8"))
    shown = page.eval_on_selector_all(
        "#comparison .bars",
        "all => all.map(each => [...each.querySelectorAll('i')].map(bar => parseFloat(bar.style.width)))",
    )
    assert [each["name"] for each in rows] == [each["name"] for each in recorded[0]["rows"]]
    assert [len(each) for each in shown] == [1 + len(recorded)] * 8 and {max(each) for each in shown} == {100.0}
    with page.expect_download() as download:
        page.click("#save")
    report = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert report["rows"] == rows and "adapter 0" in report["device"] and report["date"] >= "2026"
    assert page.problems == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_without_webgpu_the_pages_say_so(opened: Callable[..., Any], chromium: Any, address: str, name: str) -> None:
    page = chromium.new_page(viewport=NARROW)
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})")
    page.goto(address + name)
    page.wait_for_selector("#notice:not([hidden])")
    said = page.inner_text("#notice")
    assert all(each in said for each in ("Chrome", "Edge", "Safari", "Firefox"))
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.close()
