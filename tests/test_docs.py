"""Every Python block of the READMEs and the guides runs, in order, in one namespace per page; so does the walk-through."""

from __future__ import annotations

import importlib
import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from webgpu_torch_core import overrides
from webgpu_torch_core.dispatch.registry import OPERATIONS
from webgpu_torch_core.tensors.tensor import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
from generator.blocks import Block, blocks_of, is_built

ROOT = Path(__file__).parent.parent

#: every page that is written by hand
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
}
#: those whose blocks run here: the build runs those that show figures, and shows what they print
TESTED = [name for name, text in PAGES.items() if not is_built(text) and any(each.runs for each in blocks_of(text))]
#: languages of blocks that are no program
PLAIN = ("text", "{toctree}", "{raw}", "{literalinclude}")


def code_of(page: str, language: str) -> list[str]:
    return [each.code for each in blocks_of(PAGES[page]) if each.language == language]


@pytest.fixture
def declarations() -> Iterator[None]:
    """Forget what a page declares, so that other tests see the library as it is."""
    importlib.import_module("webgpu_torch._ops")  # which gives tensors methods of its own, for good
    operations, attributes = dict(OPERATIONS), dict(vars(Tensor))
    yield
    OPERATIONS.clear()
    OPERATIONS.update(operations)
    # Classes that override have put properties in the place of the tensors' own.
    overrides.forget_classes()
    for name in set(vars(Tensor)) - set(attributes):
        delattr(Tensor, name)


@pytest.mark.usefixtures("declarations")
@pytest.mark.parametrize("page", TESTED)
def test_blocks_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks run, and print what the block of text right after them says."""
    monkeypatch.chdir(tmp_path)
    blocks, text = blocks_of(PAGES[page]), PAGES[page]
    scope: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        if not block.runs:
            continue
        capsys.readouterr()
        exec(compile(block.code, f"{page} block {number}", "exec"), scope)
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        if after and after.language == "text" and not text[block.end : after.start].strip():
            assert capsys.readouterr().out == after.code


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs_or_says_why_not(page: str) -> None:
    """Python runs, commands are checked against what takes them, and of any other program the page says why it is not run."""
    for block in blocks_of(PAGES[page]):
        if block.language == "console":
            check_commands(block)
        else:
            assert block.runs or block.excuse or block.language in PLAIN, block.code
    assert not re.search(r"^    (import|from) ", re.sub(r"^```.*?^```", "", PAGES[page], flags=re.M | re.S), re.M)


def check_commands(block: Block) -> None:
    """Check that what a page tells to type exists: commands and their options, targets, files, extras."""
    from webgpu_torch_cli import build_parser

    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    extras = tomllib.loads((ROOT / "packages/webgpu-torch/pyproject.toml").read_text(encoding="utf-8"))
    lines = block.code.replace("\\\n", "").splitlines()
    commands = [shlex.split(each[2:], comments=True) for each in lines if each.startswith("$ ")]
    assert commands
    for program, *words in commands:
        if program == "webgpu-torch":
            build_parser().parse_args(list(itertools.takewhile(lambda each: not each.startswith(">"), words)))
        elif program == "make":
            assert set(words) <= set(targets)
        elif program == "python" and words[0].startswith("examples/"):
            assert (ROOT / words[0]).exists()
        elif program == "pip":
            asked = re.findall(r"webgpu-torch\[(.*?)\]", words[-1])
            assert set(",".join(asked).split(",")) - {""} <= set(extras["project"]["optional-dependencies"])


def test_stepping_through_a_kernel(tmp_path: Path) -> None:
    """What the page says the debugger answers is what it answers, in that order."""
    script = tmp_path / "script.py"
    script.write_text(code_of("docs/debugging.md", "python")[0], encoding="utf-8")
    lines = code_of("docs/debugging.md", "console")[0].splitlines()[1:]
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


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {"docs/index.md"}
    for name, text in PAGES.items():
        for block in blocks_of(text):
            if block.language == "{toctree}":
                listed |= {str(Path(name).parent / f"{each}.md") for each in block.code.splitlines()}
    assert {name for name in PAGES if name.startswith("docs/")} <= listed


def test_local_links_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page} links to {target}"


def test_files_that_a_stranger_touches_are_there() -> None:
    """The table of tasks on the architecture's page names files of the repository or of a package's sources."""
    page = PAGES["docs/architecture.md"]
    table = page[page.index("## What a stranger touches") : page.index("## Decisions")]
    tasks = [line for line in table.splitlines() if line.startswith("| a")]
    assert len(tasks) == 6
    for task in tasks:
        named = [each for each in re.findall(r"`([^`]+)`", task) if "/" in each]
        assert named, task
        for each in named:
            assert (ROOT / each).exists() or [
                *ROOT.glob(f"packages/*/src/{each}"),
                *ROOT.glob(f"packages/*/src/*/{each}"),
            ], each
