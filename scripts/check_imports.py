"""Refuses imports inside core's functions that do not say why they are there, and more of them than there were."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

CORE = Path("packages/core/src/webgpu_torch_core")
#: how many there are; lower it when one goes
LIMIT = 39


def inner_imports(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Return the import statements inside the functions of a file, each once."""
    found = {
        (node.lineno, node.col_offset): node
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    yield from found.values()


def unexplained(path: Path, imports: list[ast.Import | ast.ImportFrom]) -> list[str]:
    """Return the imports that neither follow a comment nor carry one."""
    lines = path.read_text().splitlines()
    return [
        f"{path}:{each.lineno}: an import inside a function without its reason: {ast.unparse(each)}"
        for each in imports
        if not lines[each.lineno - 2].lstrip().startswith("#") and "#" not in lines[each.lineno - 1]
    ]


def main() -> int:
    """Print what is wrong; the exit status tells whether something was."""
    found = {path: list(inner_imports(path)) for path in sorted(CORE.rglob("*.py"))}
    problems = [problem for path, imports in found.items() for problem in unexplained(path, imports)]
    count = sum(map(len, found.values()))
    if count > LIMIT:
        problems.append(f"core has {count} imports inside functions; at most {LIMIT} are left: import at the top")
    elif count < LIMIT:
        problems.append(f"core has {count} imports inside functions: lower LIMIT in {__file__} to it")
    print("\n".join(problems) or f"{count} imports inside functions of core, each with its reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
