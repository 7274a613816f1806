"""Writes docs/pytorch-names.md: which of PyTorch's names are here, and which only stand for what is not."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from pathlib import Path

import webgpu_torch

TARGET = Path("docs/pytorch-names.md")
INTRODUCTION = """# PyTorch's names

This page is generated from the record of PyTorch {version}'s names (`scripts/generate_names.py`) and from this library.

Where `import torch` is this library ([](huggingface.md)), every name of PyTorch can be imported, asked about with `hasattr` and
`isinstance`, used in annotations and subclassed: its {modules:,} modules with {names:,} functions, classes, enumerations, constants and
objects, private ones included. Exceptions, enumerations and named tuples that this library does not use are there with their members, and
questions such as `torch.mtia.is_available()` are answered no. Everything else on the list below raises `NotImplementedError`, which says
what to use instead, when it is called or instantiated.

Under `import webgpu_torch as torch` only what is here exists.

| modules | names | here | stand for what is not |
| --- | --- | --- | --- |
{counts}

Names that are constants or enumerations, and PyTorch's references to Python's own modules, are not counted. The tables name what only
stands for something in public modules; in private modules and packages ({private:,} more) nothing is for programs to use.
"""


def is_public(path: str) -> bool:
    """Return whether no part of a dotted name is private."""
    return not any(part.startswith("_") for part in path.split("."))


def main() -> None:
    """Write the page."""
    warnings.simplefilter("ignore")
    webgpu_torch.install_as_torch()
    from webgpu_torch_drop_in import records, stubs

    counts: Counter[tuple[str, bool]] = Counter()
    missing: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {}
    for path in records.modules():
        record = records.record(path)
        assert record is not None, path
        module = importlib.import_module(path)
        for name, kind in record.kinds.items():
            borrowed = kind == "@" and not record.borrowed[name].startswith("torch")
            if kind in "ml=" or borrowed or name.startswith("__"):
                continue
            value = getattr(module, name, None)
            absent = stubs.is_stub(value)
            public = is_public(f"{path}.{name}")
            counts["public" if public else "private", absent] += 1
            if public and absent and kind != "@":
                missing.setdefault(path, []).append(name)
            if public and kind == "c" and isinstance(value, type) and not absent:
                inner = [
                    each for each in dir(value) if not each.startswith("_") and stubs.is_stub(value.__dict__.get(each))
                ]
                if inner:
                    members[f"{path}.{name}"] = inner
    rows = [
        f"| {kind} | {counts[kind, False] + counts[kind, True]:,} | {counts[kind, False]:,} | {counts[kind, True]:,} |"
        for kind in ("public", "private")
    ]
    page = INTRODUCTION.format(
        version=records.version(), modules=len(records.modules()), names=counts.total(), counts="\n".join(rows),
        private=counts["private", True],
    )  # fmt: skip
    for title, found in (
        ("Functions, classes and objects", missing),
        ("Methods and attributes of classes that are here", members),
    ):
        page += f"\n## {title}\n\n| of | stand-ins |\n| --- | --- |\n"
        page += "".join(
            f"| `{path}` | {', '.join(f'`{each}`' for each in names)} |\n" for path, names in sorted(found.items())
        )
    TARGET.write_text(page)


if __name__ == "__main__":
    main()
