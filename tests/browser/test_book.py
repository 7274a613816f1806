"""The built book in a browser: three clicks to what people come for, the search, and pages that fit a phone."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parent.parent.parent
PAGES = (
    "index", "quickstart", "tutorials/digits-cnn", "tutorials/diffusion", "compatibility", "reference/torch.nn.functional",
    "reference/torch.optim", "command-line", "writing-a-backend",
)  # fmt: skip

#: seconds that building the book may take
PATIENCE = 2400

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE + 300)]


@pytest.fixture(scope="module")
def book() -> Path:
    """Build the book; what was built before is kept."""
    built = ROOT / "build" / "docs"
    command = [str(Path(sys.executable).with_name("sphinx-build")), "-q", "-W", "-n", "-j", "2", "-b", "html", "docs"]
    subprocess.run([*command, str(built)], cwd=ROOT, check=True, timeout=PATIENCE)
    return built


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """Open an empty page of a desktop."""
    found = chromium.new_page(viewport={"width": 1280, "height": 900})
    yield found
    found.close()


def test_links_lead_somewhere(book: Path) -> None:
    """Every link inside of the book leads to a page that is there, and to a place on it."""
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in book.rglob("*.html")}
    places = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    broken = set()
    for path, text in texts.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            target, _, place = unquote(html.unescape(link)).partition("#")
            if ":" in target.partition("/")[0] or target.startswith("//"):
                continue
            found = (path.parent / target).resolve() if target else path
            if not found.exists() or (place and place not in places.get(found, {place})):
                broken.add(f"{path.relative_to(book)}: {link}")
    assert not broken


def test_inventory_has_both_names(book: Path) -> None:
    """Other projects may refer to an object by this library's name and by PyTorch's."""
    with (book / "objects.inv").open("rb") as stream:
        found = InventoryFile.load(stream, "", lambda base, place: place)
    names = {name for objects in found.values() for name in objects}
    for each in ("relu", "nn.Linear", "Tensor.view", "optim.AdamW", "nn.functional.softmax", "webgpu.is_available"):
        assert {f"webgpu_torch.{each}", f"torch.{each}"} <= names


@pytest.mark.parametrize(
    ("clicks", "found"),
    [
        (("Run your Hugging Face code on WebGPU",), "import webgpu_torch.as_torch"),
        (("Writing a backend",), "webgpu_torch_backends"),
        (("the reference", "torch.nn.functional", "scaled_dot_product_attention"), "RuntimeError"),
    ],
)
def test_three_clicks(book: Path, page: Any, clicks: tuple[str, ...], found: str) -> None:
    page.goto((book / "index.html").as_uri())
    for each in clicks:
        page.locator("article").get_by_role("link", name=each, exact=True).first.click()
    place = page.evaluate("location.hash.slice(1)")
    shown = page.locator(f"[id='{place}'] + dd" if place else "article").first
    assert found in shown.inner_text()


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("torch.nn.functional.softmax", "torch.nn.functional.softmax"),
        ("softmax", "torch.softmax"),
        ("Tensor.view", "torch.Tensor.view"),
        ("nn.Linear", "torch.nn.Linear"),
    ],
)
def test_search_finds_names_first(book: Path, page: Any, asked: str, first: str) -> None:
    page.goto(f"{(book / 'search.html').as_uri()}?q={asked}")
    result = page.locator("#search-results li").first
    result.wait_for()
    assert result.locator("a").first.inner_text() == first


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit(book: Path, chromium: Any, name: str, width: int, scheme: str) -> None:
    """No page is wider than its window, and every picture that is shown was loaded."""
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems = list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((book / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    broken = "[...document.images].filter((each) => each.offsetParent && !each.naturalWidth).map((each) => each.src)"
    assert page.evaluate(broken) == [] and not problems
    page.close()
