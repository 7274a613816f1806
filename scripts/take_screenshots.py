"""Takes the pictures of the site's pages for docs/browser.md: a wide window, a phone's, and a dark one of each page.

    python scripts/take_screenshots.py [PAGE ...] [--docs build/docs]

Needs Chromium, Node.js and Pillow; pages of the documentation are taken from a folder that was built before.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import webgpu_torch as torch
from PIL import Image
from webgpu_torch import nn
from webgpu_torch_web.site.building import build

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks/browser"))
from driving import finished, opened, run_example

TARGET = Path(__file__).parents[1] / "docs/_static/pages"
#: what a picture is of: the width and height of its window, and the colours that the visitor prefers
MODES = {"wide": (1280, 800, "light"), "phone": (390, 844, "light"), "dark": (1280, 800, "dark")}
#: the page of which all is shown, but on phones: its plots are at the end
LONG = "benchmark"
MOST_BYTES = 60_000
#: of which a picture has as many as it has room for
COLOURS = (64, 32, 16)


def _exported(page: Any) -> None:
    page.wait_for_selector("button")
    page.click("button")
    page.wait_for_function("document.querySelector('pre').textContent.includes('ms')")


#: name -> (address, what a visitor does there)
PAGES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "playground": ("index.html", lambda page: run_example(page, "Training a network")),
    "conformance": ("conformance.html", finished),
    "benchmark": ("benchmark.html", finished),
    "export": ("export/index.html", _exported),
    "documentation": ("docs/index.html", lambda page: None),
}


def written(folder: Path, docs: Path) -> None:
    """Write everything that is visited into a folder."""
    build(folder, docs)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(-1))
    torch.web.export(net, torch.randn(2, 8), folder / "export")


def taken(page: Any, name: str) -> None:
    """Take a page's pictures.

    Raises:
        SystemExit: one is too large for the documentation.
    """
    for mode, (width, height, colours) in MODES.items():
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)
        picture = Image.open(io.BytesIO(page.screenshot(full_page=name == LONG and mode != "phone"))).convert("RGB")
        path = TARGET / f"{name}-{mode}.png"
        for colours_kept in COLOURS:
            picture.quantize(colours_kept).save(path, optimize=True)
            if path.stat().st_size <= MOST_BYTES:
                break
        print(f"{path}: {path.stat().st_size} bytes", flush=True)
        if path.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{path} is over {MOST_BYTES} bytes")


def main() -> None:
    """Visit the pages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="all, unless some are named")
    parser.add_argument("--docs", type=Path, default=Path("build/docs"), help="the folder of the built documentation")
    given = parser.parse_args()
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        written(Path(scratch), given.docs)
        for name in given.pages:
            address, visit = PAGES[name]
            with opened(scratch, address) as page:
                visit(page)
                taken(page, name)


if __name__ == "__main__":
    main()
