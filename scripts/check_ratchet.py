"""Counts signatures that say Any, and public functions and classes whose documentation lacks something, by package.

The numbers in scripts/ratchet.json may only fall: more is refused, and fewer is written down, to be committed.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

RECORD = Path("scripts/ratchet.json")
Function = ast.FunctionDef | ast.AsyncFunctionDef
#: packages whose public functions and classes users read about
DOCUMENTED = ("core", "nn", "tools", "models")
#: words that tell of shapes: ``[n, c, length]``, "element by element", "along ``dim``" …
SHAPES = ("[", "shape", "size", "element", "dimension", "along", "scalar", "matri", "vector", "broadcast", "like ")


def sources() -> Iterator[tuple[str, Path, ast.Module]]:
    """Yield (package's folder, file, tree) of every file that people wrote."""
    for path in sorted(Path("packages").glob("*/src/**/*.py")):
        text = path.read_text(encoding="utf-8")
        if "GENERATED" not in text[:200]:
            yield path.parts[1], path, ast.parse(text)


def says_any(function: Function) -> bool:
    """Return whether an annotation of a signature mentions Any, or a parameter has none."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    given = [each for each in every if each is not None and each.arg not in ("self", "cls")]
    if any(each.annotation is None for each in given):
        return True
    annotations = [each.annotation for each in given if each.annotation is not None]
    return any(
        isinstance(node, ast.Name) and node.id == "Any"
        for each in (*annotations, function.returns) if each is not None
        for node in ast.walk(each)
    )  # fmt: skip


def public(tree: ast.Module) -> Iterator[Function | ast.ClassDef]:
    """Yield the public functions and classes at the top of a file."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def amiss(node: Function | ast.ClassDef) -> bool:
    """Return whether documentation is missing, does not start with one sentence, or hides an error that is raised."""
    text = ast.get_docstring(node)
    if not text or not text.split("\n\n")[0].rstrip().endswith((".", "::", ":")):
        return True
    raised = isinstance(node, Function) and any(isinstance(each, ast.Raise) and each.exc for each in ast.walk(node))
    return raised and "Raises" not in text and "raise" not in text.lower()


def shapeless(node: Function | ast.ClassDef) -> bool:
    """Return whether the documentation of a function from tensors to tensors tells nothing of their shapes."""
    returns = isinstance(node, Function) and node.returns is not None and "Tensor" in ast.unparse(node.returns)
    text = (ast.get_docstring(node) or "").lower()
    return returns and not any(word in text for word in SHAPES)


def counted() -> dict[str, dict[str, int]]:
    """Return the numbers of today."""
    signatures: Counter[str] = Counter()
    documentation: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    for folder, path, tree in sources():
        signatures[folder] += sum(says_any(each) for each in ast.walk(tree) if isinstance(each, Function))
        if folder in DOCUMENTED and not any(part.startswith("_") for part in path.parts[4:]):
            documentation[folder] += sum(map(amiss, public(tree)))
            shapes[folder] += sum(map(shapeless, public(tree)))
    found = {"signatures with Any": signatures, "documentation amiss": documentation, "no shapes": shapes}
    return {name: {key: count for key, count in sorted(each.items()) if count} for name, each in found.items()}


def main() -> int:
    """Compare with the record, and lower it where there are fewer."""
    now = counted()
    kept = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else now
    status = 0
    for name, counts in now.items():
        for folder, count in counts.items():
            before = kept.get(name, {}).get(folder, 0)
            if count > before:
                print(f"{name}, packages/{folder}: {count}, at most {before}: declare types, or document what is new")
                status = 1
    if not status and now != kept:
        RECORD.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        print(f"{RECORD} is lower now: commit it")
    return status


if __name__ == "__main__":
    sys.exit(main())
