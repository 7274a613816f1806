"""Compresses wheels as well as the format allows, so that browsers and installers fetch fewer bytes.

    python scripts/pack_wheels.py dist/*.whl

Python loses what only readers of the repository need: comments, the docstrings that ``help`` shows to nobody, which are those of
modules that are no packages, and of names that the reference does not have, types of such names' results, of variables within
functions, and of what methods of classes take that the reference does not have.
What is left is the same program, each statement on its own line as before, so tracebacks name the lines of the repository; a level
of indentation is one space, and around operators there is none. Zopfli then searches for the shortest stream of deflate, which every reader of ZIP files understands.

Beside the wheels, in a folder ``pages``, are those for pages: without the modules that no page runs
(:mod:`webgpu_torch_web.site.leaving_out`).
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import zopfli.zlib
from webgpu_torch_web.site.leaving_out import never_run

#: of headers in a ZIP file: version 2.0; Unix, version 2.0
NEEDED, MADE_BY = 20, 3 << 8 | 20
#: how a name that is not ASCII is marked
UTF8 = 0x800
#: zlib's header and check sum around the stream
HEADER, CHECK = 2, 4
#: what has docstrings
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Shown(NamedTuple):
    """Names of functions and classes.

    Fields:
        listed: those that the reference has an entry of, and those that stand behind them.
        bases: those of classes that others of the reference have their members from.
    """

    listed: frozenset[str]
    bases: frozenset[str]


def shown() -> Shown:
    """Return the names that readers of the reference, and of what ``help`` shows of it, are shown."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
    from generator.public_names import NAMESPACES, entries, unwrapped

    listed, bases = set[str](), set[str]()
    for entry in (each for namespace in NAMESPACES for module in namespace.modules for each in entries(module)):
        value = unwrapped(entry.value)
        listed |= {entry.name, getattr(value, "__name__", entry.name), *(each for each, _ in entry.more)}
        bases |= {each.__name__ for each in getattr(value, "__mro__", ())}
    return Shown(frozenset(listed), frozenset(bases))


def owners(tree: ast.Module, names: Container[str], shown: bool) -> Iterator[tuple[Documented, bool]]:
    """Yield a module, which is shown or not, and the classes and functions in it, each with whether nobody is shown it."""

    def visited(owner: Documented, hidden: bool) -> Iterator[tuple[Documented, bool]]:
        yield owner, hidden
        known = isinstance(owner, ast.ClassDef) and not hidden
        for each in owner.body:
            if isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                listed = each.name in names or each.name.rstrip("_") in names
                # Members of a class are shown with it, and what a function makes may get a name that is shown.
                member = known and (not each.name.startswith("_") or each.name.endswith("__"))
                made = isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef))
                yield from visited(each, not (listed or member or made))

    yield from visited(tree, not shown)


def unseen(owned: list[tuple[Documented, bool]]) -> Iterator[tuple[Documented, ast.Expr]]:
    """Yield what has a docstring that nobody is shown, and the docstring."""
    for owner, hidden in owned:
        first = owner.body[0] if owner.body else None
        if hidden and isinstance(first, ast.Expr) and ast.get_docstring(owner, clean=False) is not None:
            yield owner, first


def unread(owned: list[tuple[Documented, bool]]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the types that only this project's own checks read, and what is in front of each."""
    functions = [(each, hidden) for each, hidden in owned if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    yield from ((each.returns, "->") for each, hidden in functions if hidden and each.returns is not None)
    local = {id(each): each for owner, _ in functions for each in within(owner)}
    yield from ((each.annotation, ":") for each in local.values())
    # Types of operations' parameters tell what they take; operations are no methods of a class that nobody is shown.
    members = {each for owner, hidden in owned if hidden and isinstance(owner, ast.ClassDef) for each in owner.body}
    for each in (each for each, hidden in functions if hidden and each in members):
        parameters = [one.annotation for one in ast.walk(each.args) if isinstance(one, ast.arg)]
        yield from ((one, ":") for one in parameters if one is not None)


def is_private(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr.startswith("_")


def within(function: ast.AST) -> Iterator[ast.AnnAssign]:
    """Yield where variables of a function get a type and a value."""
    for each in ast.iter_child_nodes(function):
        # Classes keep their types, as records need.
        if isinstance(each, ast.AnnAssign) and each.value is not None and (each.simple or is_private(each.target)):
            yield each
        elif not isinstance(each, ast.ClassDef):
            yield from within(each)


def untyped(source: str, types: Iterable[tuple[ast.expr, str]]) -> str:
    """Return a program without some types, where each stands on the line of what is in front of it."""
    lines = source.encode().splitlines(keepends=True)
    for each, mark in sorted(types, key=lambda pair: (pair[0].lineno, pair[0].col_offset), reverse=True):
        line = lines[each.lineno - 1]
        before = line[: each.col_offset].rstrip()
        if each.lineno == each.end_lineno and before.endswith(mark.encode()):
            lines[each.lineno - 1] = before.removesuffix(mark.encode()).rstrip() + line[each.end_col_offset :]
    return b"".join(lines).decode()


def unspaced(source: str) -> str:
    """Return a program without spaces around operators; what is within strings stays as it is."""
    lines, within = source.splitlines(keepends=True), 0
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    # From the end of a line on, so that columns further left stay right.
    for left, right in reversed(list(pairwise(tokens))):
        (row, first), (other, last) = left.end, right.start
        if not within and row == other and tokenize.OP in (left.type, right.type) and last > first:
            lines[row - 1] = lines[row - 1][:first] + lines[row - 1][last:]
        # From Python 3.12 on a string with expressions in it is several tokens.
        kind = tokenize.tok_name[left.type]
        within += kind.endswith("STRING_END") - kind.endswith("STRING_START")
    return "".join(lines)


def indented(source: str) -> str:
    """Return a program whose levels of indentation are one space each; what is within strings stays as it is."""
    lines, level, opened = source.splitlines(keepends=True), 0, list[int]()
    levels: dict[int, int] = {}
    for each in tokenize.generate_tokens(io.StringIO(source).readline):
        kind, (first, _), (last, _) = tokenize.tok_name[each.type], each.start, each.end
        level += (kind == "INDENT") - (kind == "DEDENT")
        if kind.endswith("STRING_START"):
            opened.append(first)
        elif kind.endswith("STRING_END"):
            first = opened.pop()
        # The last of the tokens where a line begins tells its level: those of indentation come first.
        if kind in ("INDENT", "DEDENT") or first not in levels:
            levels[first] = level
        levels |= dict.fromkeys(range(first + 1, last + 1), -1)
    rows = enumerate(lines, 1)
    begun = {row: level for row, level in levels.items() if level >= 0}
    # A line of which nothing is left needs no level.
    return "".join(
        " " * (begun[row] if each.strip() else 0) + each.lstrip(" ") if row in begun else each for row, each in rows
    )


def shortened(source: str, path: str, names: Shown) -> str:
    """Return the program of a wheel's file without what only readers of the repository need, its statements on the same lines."""
    tree = ast.parse(source)
    read = any(isinstance(each, ast.Name) and each.id == "__doc__" for each in ast.walk(tree))
    whole = read or path.endswith("/__init__.py")
    types = unread(list(owners(tree, names.listed | names.bases, whole)))
    lines = untyped(source, types).splitlines(keepends=True)
    for each in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
        if each.type == tokenize.COMMENT:
            row, column = each.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for owner, docstring in unseen(list(owners(tree, names.listed, whole))):
        first, last = docstring.lineno - 1, docstring.end_lineno or docstring.lineno
        # A body of nothing else keeps a statement.
        lines[first] = " " * docstring.col_offset + "...\n" if len(owner.body) == 1 else "\n"
        lines[first + 1 : last] = ["\n"] * (last - first - 1)
    return indented(unspaced("".join(lines)))


def contents(
    archive: zipfile.ZipFile, names: Shown, without: Container[str]
) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """Yield what a wheel's packed twin has: its files but some, and RECORD last, which holds their hashes and lengths."""
    rows = []
    for entry in archive.infolist():
        if entry.filename in without:
            continue
        data = archive.read(entry)
        if entry.filename.endswith(".py"):
            data = shortened(data.decode(), entry.filename, names).encode()
        if entry.filename.endswith(".dist-info/RECORD"):
            rows.append(f"{entry.filename},,\n")
            yield entry, "".join(rows).encode()
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{entry.filename},sha256={digest},{len(data)}\n")
        yield entry, data


@cache
def compressed(data: bytes) -> tuple[int, bytes]:
    """Return the method of storing data that takes the least, and the stored bytes."""
    stream = zopfli.zlib.compress(data)[HEADER:-CHECK]
    return (zipfile.ZIP_DEFLATED, stream) if len(stream) < len(data) else (zipfile.ZIP_STORED, data)


def stamp(moment: tuple[int, int, int, int, int, int]) -> tuple[int, int]:
    """Return a time and date as ZIP files have them."""
    year, month, day, hour, minute, second = moment
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def packed(wheel: Path, names: Shown, without: Container[str] = ()) -> bytes:
    """Return a wheel with the same files but some in the same order, packed well."""
    body, directory = bytearray(), bytearray()
    with zipfile.ZipFile(wheel) as archive:
        entries = list(contents(archive, names, without))
    for entry, data in entries:
        name = entry.filename.encode()
        method, stored = compressed(data)
        flags = 0 if name.isascii() else UTF8
        common = struct.pack(
            "<5H3I2H",
            NEEDED,
            flags,
            method,
            *stamp(entry.date_time),
            zlib.crc32(data),
            len(stored),
            len(data),
            len(name),
            0,
        )
        directory += b"PK\1\2" + struct.pack("<H", MADE_BY) + common
        directory += struct.pack("<3H2I", 0, 0, 0, entry.external_attr, len(body)) + name
        body += b"PK\3\4" + common + name + stored
    count = len(entries)
    end = struct.pack("<4H2IH", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + b"PK\5\6" + end)


def programs(wheels: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the path and the source of each module in some wheels."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            yield from ((name, archive.read(name).decode()) for name in archive.namelist() if name.endswith(".py"))


def main() -> None:
    """Pack the wheels that are named, each in its place, and its twin for pages beside it."""
    names, wheels = shown(), [Path(each) for each in sys.argv[1:]]
    without = never_run(dict(programs(wheels)))
    for path in wheels:
        data, twin = packed(path, names), packed(path, names, without)
        print(f"{path.name}: {path.stat().st_size} -> {len(data)} bytes, in pages {len(twin)}", flush=True)
        path.write_bytes(data)
        beside = path.parent / "pages" / path.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(twin)


if __name__ == "__main__":
    main()
