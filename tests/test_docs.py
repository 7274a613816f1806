"""Every python block of the README and the guides runs, in order, in one namespace per page; so does the walk-through."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from webgpu_torch_core.dispatch.registry import OPERATIONS
from webgpu_torch_core.tensors.tensor import Tensor

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/coming-from-pytorch.md",
    "docs/how-fast-and-why.md",
    "docs/memory.md",
    "docs/numerics.md",
    "docs/publishing-a-plugin.md",
    "docs/training.md",
    "docs/networks.md",
    "docs/export.md",
    "docs/models.md",
    "docs/serve.md",
    "docs/adding-an-op.md",
    "docs/debugging.md",
    "docs/kernels.md",
    "docs/writing-a-kernel.md",
]


def blocks_of(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def declarations() -> Iterator[None]:
    """Forget what a page declares, so that other tests see the library as it is."""
    operations, attributes = dict(OPERATIONS), dict(vars(Tensor))
    yield
    OPERATIONS.clear()
    OPERATIONS.update(operations)
    for name in set(vars(Tensor)) - set(attributes):
        delattr(Tensor, name)


@pytest.mark.usefixtures("declarations")
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks run, and print what the block of text right after them says."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.MULTILINE | re.DOTALL)
    assert blocks
    scope: dict[str, object] = {"__name__": "page"}
    for number, (block, printed) in enumerate(blocks):
        capsys.readouterr()
        exec(compile(block, f"{page} block {number}", "exec"), scope)
        assert not printed or capsys.readouterr().out == printed


def test_stepping_through_a_kernel(tmp_path: Path) -> None:
    """What the page says the debugger answers is what it answers, in that order."""
    script = tmp_path / "script.py"
    script.write_text(blocks_of("docs/debugging.md", "python")[0], encoding="utf-8")
    lines = blocks_of("docs/debugging.md", "console")[0].splitlines()[1:]
    typed = [each.removeprefix("(Pdb) ") for each in lines if each.startswith("(Pdb) ")]
    answers = [each for each in lines if not each.startswith("(Pdb) ")]
    done = subprocess.run(
        [sys.executable, "-m", "pdb", str(script)],
        input="\n".join([*typed, "quit", ""]), capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    said = [each.removeprefix("(Pdb) ") for each in done.stdout.splitlines()]
    position = 0
    for each in answers:
        assert each in said[position:], f"expected {each!r} after line {position} of:\n{done.stdout}\n{done.stderr}"
        position = said.index(each, position) + 1


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = " ".join(
        re.findall(r"^```\{toctree\}.*?^```", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.M | re.S)
    )
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages == pages & set(listed.split())


def test_local_links_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page} links to {target}"
