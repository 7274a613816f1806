"""Runs the blocks of a page in a process of its own, and writes what they print and draw into a folder.

    python running.py PAGE.md FOLDER [svg|png [light]]

``FOLDER/printed.json`` is a list, one text for each block that runs; figures are ``FOLDER/NUMBER-light.svg`` and ``-dark.svg``, or
``.png``, or those in the colours that are named alone. (The picture of the README, docs/_static/diffusion.png, is 6-light.png of docs/tutorials/diffusion.md.)
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
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


def main(page: str, target: str, kind: str = "svg", *names: str) -> None:
    """Run a page."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    matplotlib.use("agg")
    for name, palette in PALETTES.items():
        matplotlib.colormaps.register(LinearSegmentedColormap.from_list(f"book-{name}", palette["scale"]))
    # Modules of the examples stand beside each other.
    sys.path.insert(0, "")
    folder, printed = Path(target), list[str]()
    scope: dict[str, Any] = {"__name__": "page"}
    blocks = [each for each in blocks_of(Path(page).read_text(encoding="utf-8")) if each.runs]
    for number, block in enumerate(blocks):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if block.language == DRAWN:
                draw(block, scope, folder / str(number), kind, names or PALETTES)
            else:
                exec(compile(block.code, f"{page} block {number}", "exec"), scope)
        printed.append(out.getvalue())
    (folder / "printed.json").write_text(json.dumps(printed), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
