"""Refuses files over 500 lines and functions over 50 (docstrings not counted), except generated ones."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

FILE_LINES, FUNCTION_LINES = 500, 50


def problems(path: Path) -> list[str]:
    """Return what is too long in a file."""
    text = path.read_text()
    lines = text.splitlines()
    if any("GENERATED" in line for line in lines[:3]):
        return []
    found = [f"{path}: {len(lines)} lines (at most {FILE_LINES})"] if len(lines) > FILE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
            text_lines = first.end_lineno - first.lineno + 1 if documented and first.end_lineno is not None else 0
            length = node.end_lineno - node.lineno + 1 - text_lines
            if length > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines (at most {FUNCTION_LINES})")
    return found


def main() -> int:
    """Print every problem; the exit status tells whether there was one."""
    found = [each for path in sorted(Path("packages").glob("*/src/**/*.py")) for each in problems(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
