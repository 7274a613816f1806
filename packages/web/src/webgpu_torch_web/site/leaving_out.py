"""Which modules no page ever runs: what only native runtimes import, and what only type checkers read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum


class Reach(Enum):
    """Who comes to a statement."""

    PAGES = "pages"
    TYPES = "type checkers alone"
    NATIVE = "programs outside of pages"


#: conditions that say where the program is -> who comes to the two branches
_CONDITIONS = {
    "TYPE_CHECKING": (Reach.TYPES, Reach.PAGES),
    "_TYPE_CHECKING": (Reach.TYPES, Reach.PAGES),
    "not TYPE_CHECKING": (Reach.PAGES, Reach.TYPES),
    "sys.platform == 'emscripten'": (Reach.PAGES, Reach.NATIVE),
    "sys.platform != 'emscripten'": (Reach.NATIVE, Reach.PAGES),
}
Imports = ast.Import | ast.ImportFrom


def _imports(body: Sequence[ast.stmt], reach: Reach = Reach.PAGES) -> Iterator[tuple[Imports, Reach]]:
    """Yield the imports of some statements, and who comes to each."""
    for each in body:
        if isinstance(each, Imports):
            yield each, reach
            continue
        found = _CONDITIONS.get(ast.unparse(each.test)) if isinstance(each, ast.If) else None
        then, otherwise = found or (Reach.PAGES, Reach.PAGES)
        for name in ("body", "orelse", "finalbody"):
            here = then if name == "body" else otherwise
            yield from _imports(getattr(each, name, ()), here if reach is Reach.PAGES else reach)
        for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
            yield from _imports(part.body, reach)
        # What follows a branch that ends the function is the other one.
        if reach is Reach.PAGES and isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return | ast.Raise):
            reach = otherwise


def _declares(body: Sequence[ast.stmt], within: bool = False) -> bool:
    """Return whether a module, or what is within one, is declarations without programs, as type checkers read them."""
    found = within
    for each in body:
        match each:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()) | ast.Assign([ast.Name("__all__")]):
                pass
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if _declares(each.body, within=True):
                found = True
            case _:
                return False
    # A module that only imports gives names to programs.
    return found


def _named(statement: Imports, package: str) -> Iterator[str]:
    """Yield the full names of what a statement in a module of a package may import, packages around it included."""
    if isinstance(statement, ast.Import):
        found = [each.name for each in statement.names]
    else:
        parts = package.split(".")
        around = ".".join(parts[: len(parts) + 1 - statement.level]) if statement.level else ""
        base = ".".join(filter(None, (around, statement.module)))
        found = [f"{base}.{each.name}" for each in statement.names]
    for name in found:
        while name:
            yield name
            name = name.rpartition(".")[0]


def never_run(programs: Mapping[str, str]) -> set[str]:
    """Return which files of a library, path -> source, no page runs.

    These are the modules that are imported where ``sys.platform`` is another than a page's, with what they import, and those of
    declarations that are imported for type checkers, unless programs of pages import them, too. Whatever is imported nowhere or
    by a computed name stays.
    """
    paths, trees = dict[str, str](), dict[str, ast.Module]()
    imported: dict[str, dict[Reach, set[str]]] = {}
    for path, source in programs.items():
        name = path.removesuffix(".py").replace("/", ".")
        package, name = name.rpartition(".")[0], name.removesuffix(".__init__")
        paths[name], trees[name] = path, ast.parse(source)
        imported[name] = {reach: set() for reach in Reach}
        for statement, reach in _imports(trees[name].body):
            imported[name][reach] |= set(_named(statement, package))
    every = {reach: set[str]().union(*(each[reach] for each in imported.values())) for reach in Reach}
    declared = {name for name in every[Reach.TYPES] & paths.keys() if _declares(trees[name].body)}
    apart = _reached(every[Reach.NATIVE] | declared, imported)
    kept = _reached(paths.keys() - apart, imported)
    return {paths[name] for name in paths.keys() - kept}


def _reached(names: set[str], imported: Mapping[str, Mapping[Reach, set[str]]]) -> set[str]:
    """Return modules and all that importing them imports."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in imported and name not in found:
            found.add(name)
            waiting += [name.rpartition(".")[0], *imported[name][Reach.PAGES]]
    return found
