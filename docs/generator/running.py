"""Runs the blocks of pages, each page in a process of its own, and writes what they print and draw into folders.

    python running.py [--kind png] [--colours light] PAGE.md FOLDER [PAGE.md FOLDER …]

``FOLDER/printed.json`` is a list, one text for each block that runs; figures are ``FOLDER/NUMBER-light.svg`` and ``-dark.svg``, or
``.png``, or those in the colours that are named alone. (The picture of the README, docs/_static/diffusion.png, is 6-light.png of docs/tutorials/diffusion.md.)
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocks import DRAWN, Block, blocks_of

#: what the book is coloured in: text, grid, the ends of the scale of images, lines
PALETTES: dict[str, dict[str, Any]] = {
    "light": {
        "text": "#3b4252",
        "grid": "#d5dae1",
        "scale": ("#f5f8fb", "#7fb0d3", "#123a5a"),
        "lines": ("#23648f", "#d47a1e", "#3f8f5f", "#8a5aa8", "#b8433f", "#6b7280"),
    },
    "dark": {
        "text": "#cfd3da",
        "grid": "#3a3f47",
        "scale": ("#171b21", "#3f78a3", "#d6ebfa"),
        "lines": ("#8fc1e6", "#f2a33c", "#8fd0a0", "#c3a5e8", "#ef8a80", "#a3a9b3"),
    },
}


#: pages that run at once, each on a core of its own
WORKERS = 2


def style_of(name: str) -> dict[Any, Any]:
    """Return matplotlib's settings in the colours of the book."""
    from cycler import cycler

    palette = PALETTES[name]
    text = palette["text"]
    return {
        "figure.figsize": (7.2, 2.7), "figure.constrained_layout.use": True, "savefig.transparent": True,
        "font.size": 9, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=palette["lines"]), "image.cmap": f"book-{name}", "lines.linewidth": 1.6,
        "text.color": text, "axes.labelcolor": text, "axes.edgecolor": text, "xtick.color": text, "ytick.color": text,
        "axes.facecolor": "none", "grid.color": palette["grid"], "legend.frameon": False, "svg.hashsalt": "book",
    }  # fmt: skip


def draw(block: Block, scope: dict[str, Any], target: Path, kind: str, names: Iterable[str]) -> None:
    """Run a block that draws, once in each of some colours.

    Raises:
        ValueError: it draws no figure, or several.
    """
    import matplotlib
    from matplotlib import pyplot

    for name in names:
        with matplotlib.rc_context(style_of(name)):
            exec(compile(block.code, target.name, "exec"), scope)
            if len(pyplot.get_fignums()) != 1:
                raise ValueError(f"a drawn block makes one figure, got {len(pyplot.get_fignums())}")
            pyplot.savefig(f"{target}-{name}.{kind}", metadata={"Date": None} if kind == "svg" else {}, dpi=130)
            pyplot.close("all")


def run(page: str, target: str, kind: str, names: Iterable[str]) -> None:
    """Run a page."""
    folder, printed = Path(target), list[str]()
    scope: dict[str, Any] = {"__name__": "page"}
    blocks = [each for each in blocks_of(Path(page).read_text(encoding="utf-8")) if each.runs]
    for number, block in enumerate(blocks):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if block.language == DRAWN:
                draw(block, scope, folder / str(number), kind, names)
            else:
                exec(compile(block.code, f"{page} block {number}", "exec"), scope)
        printed.append(out.getvalue())
    (folder / "printed.json").write_text(json.dumps(printed), encoding="utf-8")


def prepare() -> None:
    """Import what every page takes, once for all, and register the colours of figures."""
    import matplotlib
    import webgpu_torch  # noqa: F401
    from matplotlib import pyplot  # noqa: F401
    from matplotlib.colors import LinearSegmentedColormap

    matplotlib.use("agg")
    for name, palette in PALETTES.items():
        matplotlib.colormaps.register(LinearSegmentedColormap.from_list(f"book-{name}", palette["scale"]))
    # Modules of the examples stand beside each other.
    sys.path.insert(0, "")


def apart(page: str, target: str, kind: str, names: Iterable[str]) -> int:
    """Begin to run a page in a copy of this process; return the copy's number."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        run(page, target, kind, names)
        status = 0
    except BaseException:
        print(f"{page} does not run:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def main() -> int:
    """Run pages, and return 1 where one does not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--kind", default="svg")
    parser.add_argument("--colours", nargs=1, default=list(PALETTES))
    options = parser.parse_args()
    prepare()
    waiting = list(zip(options.pages[::2], options.pages[1::2], strict=True))
    running = failed = 0
    while waiting or running:
        if waiting and running < WORKERS:
            apart(*waiting.pop(0), options.kind, options.colours)
            running += 1
        else:
            failed |= os.wait()[1]
            running -= 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
