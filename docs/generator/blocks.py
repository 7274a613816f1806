"""The code of a page: which blocks it has, in which language, and what a page says about a block that is not run."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: an optional reason why the block is not run, the fence with what stands after it, the code
FENCE = re.compile(r"(?:^<!-- not run: (.+?) -->\n)?^(```+)(\S*) ?([^\n]*)\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
#: the fence of a block whose figures are shown in its place; its caption stands after it
DRAWN = "{drawn}"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Fields:
        language: what stands right after the fence.
        title: the rest of that line: the caption of a figure.
        code: its lines.
        excuse: why it is not run; empty where it is.
        start: where its fence begins in the page's text.
        end: where it ends.
    """

    language: str
    title: str
    code: str
    excuse: str
    start: int
    end: int

    @property
    def runs(self) -> bool:
        """Whether it is Python that is run."""
        return self.language in ("python", DRAWN) and not self.excuse


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(found[3], found[4], found[5], found[1] or "", found.start(2), found.end())
        for found in FENCE.finditer(text)
    ]


def is_built(text: str) -> bool:
    """Return whether the build runs a page's blocks, because it shows the figures that they draw."""
    return any(each.language == DRAWN for each in blocks_of(text))
