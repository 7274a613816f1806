"""Examples of the reference: written ones from the tables in ``examples``, run as a reader would, with what they print.

A table is a text of blocks that blank lines divide. A block is a program and, after ``--``, the names it is an example of::

    x = torch.tensor([-1.0, 0.5, 2.0])
    THIS(x)
    -- nn.ReLU(); nn.ELU(0.5)

``THIS`` stands for each of them in turn as it is written there; a name without arguments may stand in several blocks of no
table. Names are those of a namespace of the reference, without ``torch.``. What is printed is not written down: it is what
the program prints when the documentation is built; a program that fails, prints nothing, or prints an address is refused by
its name. A statement with the comment ``# raises`` shows the error that it raises.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import webgpu_torch as torch

TABLES = Path(__file__).parent / "examples"
MOST_LINES = 8
RAISES = "# raises"
#: what a program may print differs between runs
_FLEETING = re.compile(r"0x[0-9a-f]{5,}|/tmp/|object at ")

Ran = list[tuple[str, str]]


class ExampleError(Exception):
    """An example that cannot be shown, and why."""


@cache
def written() -> dict[str, str]:
    """Return full name -> program of every written example.

    Raises:
        ExampleError: a name has two, or a block has no names.
    """
    found: dict[str, str] = {}
    for path in sorted(TABLES.glob("*.txt")):
        for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
            program, dashes, names = block.partition("\n-- ")
            if not dashes:
                raise ExampleError(f"{path.name}: a block without names: {block[:60]}")
            for item in " ".join(names.split()).split("; "):
                full, text = _named(item.strip().rstrip(";"), program)
                if full in found:
                    raise ExampleError(f"{path.name}: a second example of {full}")
                found[full] = text
    return found


def _named(item: str, program: str) -> tuple[str, str]:
    """Return the full name that an item of a block means, and the block's program for it."""
    name = item.partition("(")[0]
    if name.startswith("webgpu_torch_"):
        module, _, last = name.rpartition(".")
        text = re.sub(r"\bTHIS\b", item[len(module) + 1 :].replace("\\", r"\\"), program)
        brought = re.search(rf"import .*\b{last}\b", text)
        return name, text if brought else f"from {module} import {last}\n{text}"
    return f"webgpu_torch.{name}", re.sub(r"\bTHIS\b", lambda _: shown(item), program)


def shown(item: str) -> str:
    """Return how a program writes a public name: methods of a tensor without the class."""
    return item.removeprefix("Tensor.") if item.startswith("Tensor.") else f"torch.{item}"


def statements(program: str) -> list[str]:
    """Return the statements of a program as they are written."""
    program = textwrap.dedent(program)
    lines = program.splitlines()
    nodes = ast.parse(program).body
    first = [min([each.lineno, *(d.lineno for d in getattr(each, "decorator_list", ()))]) for each in nodes]
    return ["\n".join(lines[start - 1 : each.end_lineno]) for start, each in zip(first, nodes, strict=True)]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder that examples run in, until the process ends: making one for each waits for the disk thousands of times."""
    return tempfile.TemporaryDirectory()


@contextlib.contextmanager
def _in_an_empty_folder() -> Iterator[None]:
    here, folder = Path.cwd(), Path(_folder().name)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        for each in folder.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def run(program: list[str], scope: dict[str, Any]) -> Ran:
    """Run statements one by one in an empty folder; return each with what it prints.

    Raises:
        Exception: what a statement raises.
    """
    ran: Ran = []
    usual = sys.displayhook
    with _in_an_empty_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hidden = _this_as_torch(program)
        sys.displayhook = lambda value: None if value is None else print(repr(value))
        try:
            for each in program:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    _executed(each, scope)
                ran.append((each.removesuffix(RAISES).rstrip(), printed.getvalue().rstrip("\n")))
        finally:
            sys.displayhook = usual
            for name, module in hidden.items():
                sys.modules.pop(name)
                if module is not None:
                    sys.modules[name] = module
    return ran


def _this_as_torch(program: list[str]) -> dict[str, ModuleType | None]:
    """Let what a program imports of ``torch`` be this library's; return what had these names."""
    nodes = [each for text in program for each in ast.walk(ast.parse(text))]
    wanted = [one.name for each in nodes if isinstance(each, ast.Import) for one in each.names]
    wanted += [each.module for each in nodes if isinstance(each, ast.ImportFrom) and each.module]
    paths = [each.split(".") for each in wanted if each.partition(".")[0] == "torch"]
    names = {".".join(parts[: count + 1]) for parts in paths for count in range(len(parts))}
    hidden = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: import_module(f"webgpu_{name}") for name in names})
    return hidden


def _executed(statement: str, scope: dict[str, Any]) -> None:
    """Run a statement; print the error of one that should raise.

    Raises:
        ExampleError: it does not.
    """
    code = compile(statement + "\n", "<example>", "single")
    if not statement.endswith(RAISES):
        exec(code, scope)
        return
    try:
        exec(code, scope)
    except Exception as error:
        print(f"Traceback (most recent call last):\n{type(error).__name__}: {error}")
    else:
        raise ExampleError(f"{statement} raises nothing")


def run_example(name: str, program: list[str], scope: dict[str, Any]) -> Ran:
    """Run an example from a known state; one that draws random numbers says from which seed.

    ``scope`` holds the program's names afterwards.

    Raises:
        ExampleError: it fails, prints nothing, too much, or what another run would not print.
    """
    try:
        ran, draws = _seeded(program, scope, 0)
        if draws and not any("seed" in each for each in program) and _seeded(program, {}, 1)[0] != ran:
            ran = [("torch.manual_seed(0)", ""), *_seeded(program, scope, 0)[0]]
    except ExampleError:
        raise
    except Exception as error:
        raise ExampleError(f"the example of {name} fails: {type(error).__name__}: {error}") from error
    ran = [(code, "" if code.startswith("torch.manual_seed(") else printed) for code, printed in ran]
    complaint = amiss(ran)
    if complaint:
        raise ExampleError(f"the example of {name} {complaint}")
    return ran


def _seeded(program: list[str], scope: dict[str, Any], seed: int) -> tuple[Ran, bool]:
    """Run a program from a seed; return what it printed, and whether it drew random numbers."""
    torch.manual_seed(seed)
    before = torch.get_rng_state().tolist()
    scope["torch"] = torch
    return run(program, scope), torch.get_rng_state().tolist() != before


def amiss(ran: Ran) -> str:
    """Return what keeps a run from being shown, or nothing."""
    printed = "\n".join(text for _, text in ran if text)
    if not printed:
        return "prints nothing"
    if printed.count("\n") >= MOST_LINES:
        return f"prints {printed.count(chr(10)) + 1} lines, at most {MOST_LINES}"
    fleeting = _FLEETING.search(printed)
    return f"prints what differs between runs: {fleeting[0]}" if fleeting else ""


def doctest(ran: Ran) -> list[str]:
    """Return a run as an interactive session."""
    lines: list[str] = []
    for code, printed in ran:
        head, *rest = code.splitlines()
        lines += [f">>> {head}", *(f"... {each}".rstrip() for each in rest), *printed.splitlines()]
    return lines
