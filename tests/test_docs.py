"""Every python block of the README and the guides runs, in order, in one namespace per page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/quickstart.md", "docs/adding-an-op.md", "docs/debugging.md"]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    scope: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page} block {number}", "exec"), scope)
