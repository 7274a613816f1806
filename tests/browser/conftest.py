"""One Chromium for each file, one built site for all; and a clear word where the machine has none."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/browser"))
from engines import Node, Page, Python

REQUIRED = os.environ.get("WEBGPU_TORCH_REQUIRE_BROWSER") == "1"


def _absent(reason: str) -> None:
    if REQUIRED:
        pytest.fail(f"WEBGPU_TORCH_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


def tiny_model(folder: Path) -> Path:
    """Save a drawn GPT-2 and a tokenizer of bytes, as ``make demo`` saves what it trains."""
    import tokenizers
    import webgpu_torch as torch
    from tokenizers import decoders, models, pre_tokenizers
    from webgpu_torch_models import GPT2Config, GPT2LMHeadModel, Tokenizer

    end, alphabet = "<|endoftext|>", sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(models.BPE({each: at for at, each in enumerate([end, *alphabet])}, []))
    backend.add_special_tokens([end])
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=257, n_positions=48, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    with torch.device("cpu"):
        model = GPT2LMHeadModel(config)
    for each in model.parameters():
        # Answers of a network of small random weights repeat one token.
        each.data.mul_(4.0)
    model.save_pretrained(folder)
    Tokenizer(backend, {"bos_token": end, "eos_token": end}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; skip with advice where Node.js or npm is missing."""
    from webgpu_torch_web.site.building import build
    from webgpu_torch_web.site.registry import MissingTool

    try:
        # The processes that share the tests make the library's memory once: the others find it in the cache.
        with FileLock(tmp_path_factory.getbasetemp().parent / "site.lock"):
            documentation = tmp_path_factory.mktemp("documentation")
            (documentation / "index.html").write_text("<h1>Written</h1>", encoding="utf-8")
            model = tiny_model(tmp_path_factory.mktemp("model"))
            return build(tmp_path_factory.mktemp("site"), documentation, model)
    except MissingTool as error:
        _absent(str(error))
        raise


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start Chromium, headless; a file's fixture, for no other test can run an event loop while Playwright runs its own."""
    driver = pytest.importorskip("playwright.sync_api", reason="install the test's driver: make setup")
    from driving import ADVICE, SOFTWARE, chromium_path

    found = chromium_path()
    if found is None:
        _absent(f"{ADVICE}. Nothing of the browser is tested.")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(SOFTWARE))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Serve the site."""
    from webgpu_torch_web.site.serving import serving

    with serving(site) as found:
        yield found


@pytest.fixture(scope="module")
def opened(chromium: Any, address: str) -> Callable[[str], Any]:
    """Return a function that opens one of the site's pages, of which no error may stay unseen.

    ``script`` runs before the page's own; ``instead``: the text of scripts that are served in place of the site's.
    """

    def open_page(name: str, script: str = "", instead: dict[str, str] | None = None, **options: Any) -> Any:
        from driving import PATIENCE

        page = chromium.new_page(**options)
        page.set_default_timeout(PATIENCE)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("requestfailed", lambda request: page.problems.append(f"{request.url}: {request.failure}"))
        page.on(
            "response", lambda answer: answer.status >= 400 and page.problems.append(f"{answer.status} {answer.url}")
        )
        # The page may ask nobody but the server that it came from.
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        for each, text in (instead or {}).items():
            page.route(address + each, functools.partial(_answer_with, text))
        page.add_init_script(script)
        page.goto(address + name)
        return page

    return open_page


def _answer_with(text: str, route: Any, request: Any) -> None:
    del request
    route.fulfill(body=text, headers={"Content-Type": "text/javascript"})


@pytest.fixture(scope="module")
def python(opened: Callable[[str], Any]) -> Iterator[Python]:
    """Start Python in a page, once for a file."""
    page = opened("index.html")
    yield Python(page)
    assert page.problems == []


@pytest.fixture(scope="module", params=["chromium", pytest.param("node", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start what runs exported folders: a page of Chromium, and in the long run Node, too."""
    yield from _engine(request.param, request, tmp_path_factory)


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Node for one test."""
    yield from _engine("node", request, tmp_path_factory)


def _engine(name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from webgpu_torch_web.site.registry import MissingTool
    from webgpu_torch_web.site.serving import serving

    root = tmp_path_factory.mktemp(f"exports-{name}")
    with serving(root) as address:
        try:
            made = Node(root) if name == "node" else Page(root, request.getfixturevalue("chromium"), address)
        except MissingTool as error:
            _absent(str(error))
            raise
        yield made
        made.close()
