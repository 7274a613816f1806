"""What configures the library is declared in one place of each package and is on one page, and nothing else is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from webgpu_torch_core.backend.plugins import HookSpecifications
from webgpu_torch_core.config import Variable

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
#: variables of others that are set for them
FOREIGN = {
    "processes.py": "a folder that a driver needs to start",
    "hub.py": "PyTorch's folder for downloads",
    "models.py": "how much transformers says",
    "run.py": "what a launcher tells the programs that it starts",
}


def sources() -> list[Path]:
    return sorted((ROOT / "packages").glob("*/src/**/*.py"))


def declared() -> dict[str, str]:
    """Return the variables that the packages' config modules declare."""
    found: dict[str, str] = {}
    for path in sources():
        if path.name == "config.py" and "Variable(" in path.read_text(encoding="utf-8"):
            module = ".".join(path.relative_to(ROOT / "packages").with_suffix("").parts[2:])
            values = vars(importlib.import_module(module)).values()
            found |= {each.name: each.meaning for each in values if isinstance(each, Variable)}
    return found


def test_page_has_every_variable_with_its_meaning() -> None:
    assert dict(re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", PAGE, re.MULTILINE)) == declared()


def test_page_has_every_hook() -> None:
    hooks = {name for name in vars(HookSpecifications) if not name.startswith("_")}
    assert set(re.findall(r"^\| `(webgpu_torch_\w+)` \|", PAGE, re.MULTILINE)) == hooks


def test_environment_is_read_in_one_place_of_each_package() -> None:
    for path in sources():
        if re.search(r"\.\s*(environ|getenv)\b", path.read_text(encoding="utf-8")):
            assert path.name == "config.py" or path.name in FOREIGN, f"{path} reads the environment"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_pages_name_only_variables_that_exist(page: Path) -> None:
    named = set(re.findall(r"WEBGPU_TORCH_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))
    # What builds a wheel reads those of its own.
    builds = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "packages").glob("*/hatch_build.py"))
    built = set(re.findall(r'environ\.get\("(WEBGPU_TORCH_[A-Z_]+)"', builds))
    assert named <= {*declared(), *built, "WEBGPU_TORCH_TEST_DEVICES"}


def test_numbers_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = Variable("WEBGPU_TORCH_X", "")
    monkeypatch.setenv("WEBGPU_TORCH_X", "many")
    with pytest.raises(ValueError, match="WEBGPU_TORCH_X must be a whole number, got 'many'"):
        variable.number(1)
    assert variable.is_on() and variable.text() == "many"
    monkeypatch.setenv("WEBGPU_TORCH_X", "")
    assert not variable.is_on() and variable.number(7) == 7
