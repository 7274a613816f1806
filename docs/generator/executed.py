"""The Sphinx extension of pages that run: what their blocks print stands below them, figures in place of what draws them.

Results are kept in ``build/pages`` until the page or a source changes.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from .blocks import DRAWN, Block, blocks_of, is_built
from .public_names import ROOT, sources_digest

CACHE = ROOT / "build" / "pages"
EXAMPLES = ROOT / "examples"
RUNNER = Path(__file__).with_name("running.py")
#: seconds after which pages are taken to hang
LONGEST = 1200
#: pages run beside each other: threads of BLAS that wait for one another would slow all
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LP_NUM_THREADS": "1"}


def run(pages: list[Path], sources: str, *options: str) -> dict[str, Path]:
    """Run pages whose results are not kept, and return names and the folders with what they printed and drew.

    ``options`` are the runner's.

    Raises:
        ExtensionError: a block fails.
    """
    found: dict[str, Path] = {}
    waiting: list[str] = []
    for page in pages:
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        digest = hashlib.sha256(" ".join((sources, *options)).encode() + page.read_bytes()).hexdigest()[:16]
        folder = found[name] = CACHE / name.replace("/", "-") / digest
        if not (folder / "printed.json").exists():
            shutil.rmtree(folder.parent, ignore_errors=True)
            folder.mkdir(parents=True)
            waiting += (str(page), str(folder))
    if waiting:
        done = subprocess.run(
            [sys.executable, str(RUNNER), *options, *waiting],
            cwd=EXAMPLES, capture_output=True, text=True, timeout=LONGEST, check=False, env=os.environ | ONE_THREAD,
        )  # fmt: skip
        if done.returncode:
            raise ExtensionError(done.stderr)
    return found


def start_pages(app: Sphinx) -> None:
    """Begin to run the pages that show figures; the reference is written meanwhile."""
    sources = sources_digest(*EXAMPLES.glob("*.py"), RUNNER)
    pages = [each for each in Path(app.srcdir).glob("**/*.md") if is_built(each.read_text(encoding="utf-8"))]
    # Where nobody sees them, figures are drawn to find out that they can be: drawing them again in other colours tells nothing more.
    options = [] if app.builder.format else ["--colours=light"]
    pool = ThreadPoolExecutor(1)
    app.config.pages_that_ran = pool.submit(run, pages, sources, *options)  # type: ignore[attr-defined]
    pool.shutdown(wait=False)


def outdated(app: Sphinx, *_: Any) -> list[str]:
    """Put the figures beside the other files of the book; return the pages that ran, which Sphinx would not read again."""
    found: dict[str, Path] = app.config.pages_that_ran.result()  # type: ignore[attr-defined]
    target = Path(app.outdir) / "_static" / "figures"
    target.mkdir(parents=True, exist_ok=True)
    for name, folder in found.items():
        for figure in folder.glob("*.svg"):
            shutil.copyfile(figure, target / f"{name.replace('/', '-')}-{figure.name}")
    app.config.pages_that_ran = {name: str(folder) for name, folder in found.items()}  # type: ignore[attr-defined]
    return list(found)


def show_results(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write what the blocks of a page printed below them, and figures in place of blocks that draw."""
    folder = app.config.pages_that_ran.get(docname)  # type: ignore[attr-defined]
    if folder is None:
        return
    text = source[0]
    printed = json.loads((Path(folder) / "printed.json").read_text(encoding="utf-8"))
    blocks = [each for each in blocks_of(text) if each.runs]
    for number, (block, said) in reversed(list(enumerate(zip(blocks, printed, strict=True)))):
        shown = text[block.start : block.end] + (f"\n\n```text\n{said}```" if said else "")
        if block.language == DRAWN:
            shown = figure_of(docname, number, block)
        text = text[: block.start] + shown + text[block.end :]
    source[0] = text


def figure_of(docname: str, number: int, block: Block) -> str:
    """Return the text of a figure: its pictures by day and by night, its caption, and how it is drawn, folded."""
    base = "../" * docname.count("/") + f"_static/figures/{docname.replace('/', '-')}-{number}"
    caption = html.escape(block.title)
    pictures = "".join(
        f'<img class="only-{name}" src="{base}-{name}.svg" alt="{caption}">' for name in ("light", "dark")
    )
    return (
        f'<figure class="drawn">{pictures}<figcaption>{caption}</figcaption></figure>\n\n'
        f'<details class="drawing"><summary>how it is drawn</summary>\n\n```python\n{block.code}```\n\n</details>\n'
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("pages_that_ran", {}, "", dict)
    app.connect("builder-inited", start_pages, priority=400)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", show_results)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
