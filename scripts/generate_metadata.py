"""Writes what all distributions have in common into each: version, licence, addresses, classifiers, the licence's text.

They come from the table ``[tool.release]`` of pyproject.toml, so version and repository are said in one place. The façade's README is
the repository's, with addresses in full; the others end in a picture and where they belong. ``__version__`` of core and CITATION.cff
are written too.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

COMMON = re.compile(r'^license = "MIT"\n.*?(?=^(?:dependencies|keywords) = )', re.MULTILINE | re.DOTALL)
FOOT = re.compile(r"^(?:!\[[^]]*\]\(.*\)\n\n)?Part of \[webgpu-torch\].*\n", re.MULTILINE)
END = """![Ten digits appear out of noise, from top to bottom](docs/_static/diffusion.png)

Part of [webgpu-torch]({repository}), PyTorch's API in Python on any GPU that speaks WebGPU. MIT licence.
"""
ADDRESSES = re.compile(r"\n\[project\.urls\]\n(?:.+\n)*", re.MULTILINE)


def common(release: dict[str, Any]) -> str:
    """Return the lines that every package's ``[project]`` has."""
    classifiers = "".join(f'  "{each}",\n' for each in release["classifiers"])
    return (
        'license = "MIT"\nlicense-files = ["LICENSE"]\nauthors = [{ name = "webgpu-torch contributors" }]\n'
        f"classifiers = [\n{classifiers}]\n"
    )


def addresses(repository: str) -> str:
    """Return the table of addresses."""
    return (
        f'\n[project.urls]\nRepository = "{repository}"\nDocumentation = "{repository}/tree/main/docs"\n'
        f'Changelog = "{repository}/blob/main/CHANGELOG.md"\nIssues = "{repository}/issues"\n'
    )


def rewritten(text: str, release: dict[str, Any]) -> str:
    """Return a package's pyproject.toml with what is common."""
    version = release["version"]
    text = re.sub(r'^version = ".*"$', f'version = "{version}"', text, count=1, flags=re.MULTILINE)
    text = re.sub(r'("webgpu-torch[\w\[\]-]*==)[^";]+', rf"\g<1>{version}", text)
    text = COMMON.sub(lambda _: common(release), text, count=1)
    # The table goes before the first of those of tools.
    text = ADDRESSES.sub("\n", text, count=1)
    head, sources, rest = text.partition("\n[tool.")
    return head.rstrip("\n") + "\n" + addresses(release["repository"]) + sources + rest


def for_index(readme: str, repository: str) -> str:
    """Return the README with the addresses of its files in full, as package indexes need them."""
    readme = re.sub(r"!\[([^]]*)\]\((?!https?:)([^)]+)\)", rf"![\1]({repository}/raw/main/\2)", readme)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({repository}/blob/main/\1)", readme)


def with_end(readme: str, repository: str) -> str:
    """Return a package's README with the end that all have."""
    return FOOT.sub("", readme).rstrip("\n") + "\n\n" + for_index(END.format(repository=repository), repository)


def write(path: Path, text: str) -> None:
    """Write a file where its text differs."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Write everything."""
    release = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["release"]
    licence = Path("LICENSE").read_text(encoding="utf-8")
    for path in Path("packages").glob("*/pyproject.toml"):
        write(path, rewritten(path.read_text(encoding="utf-8"), release))
        write(path.parent / "LICENSE", licence)
        own = path.with_name("README.md")
        facade = path.parent.name == "webgpu-torch"
        readme = (Path("README.md") if facade else own).read_text(encoding="utf-8")
        write(own, (for_index if facade else with_end)(readme, release["repository"]))
    for name, pattern, value in (
        ("packages/core/src/webgpu_torch_core/__init__.py", r'^(__version__ = ")[^"]+', "version"),
        ("CITATION.cff", r'^(version: ")[^"]+', "version"),
        ("CITATION.cff", r'^(repository-code: ")[^"]+', "repository"),
        ("pyproject.toml", r'(?<=name = "webgpu-torch")(\nversion = ")[^"]+', "version"),
    ):
        text = Path(name).read_text(encoding="utf-8")
        write(Path(name), re.sub(pattern, rf"\g<1>{release[value]}", text, flags=re.MULTILINE))


if __name__ == "__main__":
    main()
