"""Writes the names of PyTorch that the drop-in knows of: every module, function, class, enumeration and constant.

Needs the PyTorch that the tests compare with. Everything that can be imported is looked at; what needs another library to
be imported is read from its source. ``torch.testing._internal`` is left out: it is PyTorch's own test suite.
"""

from __future__ import annotations

import ast
import builtins
import enum
import importlib
import importlib.util
import json
import logging
import lzma
import math
import pkgutil
import re
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: what programs can reach by public modules, and the rest of private ones, which those who count bytes do without
TARGET = Path("packages/drop-in/src/webgpu_torch_drop_in/names.xz")
PRIVATE_TARGET = Path("packages/tools/src/webgpu_torch_tools/private_names.xz")
#: private modules that libraries name: transformers, diffusers and accelerate import some of each kind
NAMED = r"torch\._C\b|torch\.(utils|distributed|fx|export)\._\w+"
LEFT_OUT = ("torch.testing._internal", "torch.utils.benchmark.examples")
#: names that Python gives every module, and PyTorch's own copies of them
OF_MODULES = frozenset(vars(types.ModuleType("")).keys() | {"__builtins__", "__file__", "__cached__", "__path__"})
LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "typing_extensions", "torch"}
CONSTANTS = (bool, int, float, str, type(None))


def modules() -> tuple[dict[str, types.ModuleType], dict[str, Path]]:
    """Return PyTorch's modules by name, and the sources of those that cannot be imported here."""
    import torch

    found: dict[str, types.ModuleType] = {"torch": torch}
    sources: dict[str, Path] = {}

    def walk(path: Any, prefix: str) -> None:
        for each in pkgutil.iter_modules(path, prefix):
            if each.name.startswith(LEFT_OUT) or each.name.endswith("__main__"):
                continue
            try:
                module = importlib.import_module(each.name)
            except (Exception, SystemExit):
                specification = each.module_finder.find_spec(each.name, None)  # type: ignore[call-arg]
                sources[each.name] = Path(specification.origin)  # type: ignore[union-attr,arg-type]
                if each.ispkg:
                    walk([str(sources[each.name].parent)], f"{each.name}.")
                continue
            found[each.name] = module
            if each.ispkg:
                walk([str(Path(each.module_finder.path) / each.name.rpartition(".")[2])], f"{each.name}.")  # type: ignore[union-attr]

    walk(torch.__path__, "torch.")
    for name, module in sorted(sys.modules.items()):
        ours = name.startswith("torch.") and not name.startswith(LEFT_OUT) and isinstance(module, types.ModuleType)
        if (
            ours
            and name not in sources
            and not name.startswith(("torch.ops.", "torch.classes."))
            and name != "torch.ops"
        ):
            found.setdefault(name, module)
    return found, sources


def stated(module: str, path: Path) -> dict[str, Any]:
    """Return the functions and classes that a source file defines at its top, and what it takes from other modules of PyTorch."""
    kinds: dict[str, set[str]] = {"f": set(), "c": set()}
    taken: dict[str, str] = {}
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kinds["f"].add(each.name)
        elif isinstance(each, ast.ClassDef):
            kinds["c"].add(each.name)
        elif isinstance(each, ast.ImportFrom):
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            home = importlib.util.resolve_name("." * each.level + (each.module or ""), package)
            if home != module and home.partition(".")[0] == "torch":
                taken |= {name.asname or name.name: f"{home}:{name.name}" for name in each.names if name.name != "*"}
    return {"f": " ".join(sorted(kinds["f"])), "c": {name: {} for name in sorted(kinds["c"])}} | (
        {"@": taken} if taken else {}
    )


def read(value: Any, name: str) -> Any:
    """Return an attribute; None where there is none, or where asking for it needs a device."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


class Namer:
    """Says where else an object is found."""

    def __init__(self, found: dict[str, types.ModuleType]) -> None:
        self.found = found
        self.homes: dict[int, tuple[str, str]] = {}
        # The shortest path is where a program would look for an object that does not know its own.
        for path in sorted(found, key=lambda name: (name.count("."), "._" in name, name)):
            for name, value in self.items(path):
                if not isinstance(value, CONSTANTS):
                    self.homes.setdefault(id(value), (path, name))

    def items(self, path: str) -> list[tuple[str, Any]]:
        """Return a module's names and values."""
        module = self.found[path]
        names = set(vars(module))
        if type(module) is not types.ModuleType:
            names |= {name for name in dir(module) if not name.startswith("_")}
        result = []
        for name in sorted(names - OF_MODULES):
            try:
                result.append((name, getattr(module, name)))
            except Exception:
                continue
        return result

    def home(self, value: Any) -> str | None:
        """Return ``module:name`` of a function, class or module, or of an object that a module of PyTorch holds."""
        if isinstance(value, types.ModuleType):
            name = value.__name__
            return name if sys.modules.get(name) is value and name.partition(".")[0] in LIBRARIES else None
        module, name = read(value, "__module__"), read(value, "__qualname__")
        if isinstance(module, str) and isinstance(name, str) and module.partition(".")[0] in LIBRARIES:
            reached: Any = sys.modules.get(module)
            for part in name.split("."):
                reached = getattr(reached, part, None)
            if reached is value and not module.startswith(LEFT_OUT):
                return f"{module}:{name}"
        for place in (typing, builtins):
            known = read(value, "_name") or read(value, "__name__")
            if isinstance(known, str) and getattr(place, known, None) is value:
                return f"{place.__name__}:{known}"
        path = self.homes.get(id(value))
        return ":".join(path) if path else None


def enumerators(kind: type) -> dict[str, Any] | None:
    """Return an enumeration's members with values that can be written down, of Python's kind or of a C++ extension's."""
    members = getattr(kind, "__members__", None)
    if not (issubclass(kind, enum.Enum) or (isinstance(members, dict) and hasattr(kind, "__entries"))):
        return None
    values = {}
    for place, (name, each) in enumerate(sorted(members.items(), key=lambda item: str(item[0])) if members else ()):
        value = getattr(each, "value", place)
        values[name] = value if isinstance(value, (int, str)) and not isinstance(value, enum.Enum) else place
    return values


def described(kind: type, namer: Namer) -> dict[str, Any]:
    """Return what the stand-in for a class has: bases, members, and what it is if it is more than a class."""
    record: dict[str, Any] = {}
    bases = [namer.home(each) for each in kind.__bases__ if each is not object and each.__name__ != "pybind11_object"]
    if any(bases):
        record["bases"] = [each for each in bases if each]
    values = enumerators(kind)
    if values is not None:
        record["enum"] = values
        return record
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        record["fields"] = list(kind._fields)  # type: ignore[attr-defined]
        return record
    called, read, nested = [], [], {}
    for name, value in sorted(vars(kind).items()):
        if (name.startswith("__") and name.endswith("__")) or name.startswith(f"_{kind.__name__.lstrip('_')}__"):
            continue
        if isinstance(value, type) and value.__qualname__ == f"{kind.__qualname__}.{name}":
            nested[name] = described(value, namer)
        elif callable(value) or isinstance(value, (staticmethod, classmethod)):
            called.append(name)
        elif not name.startswith("_"):
            read.append(name)
    for key, value in (("f", " ".join(called)), ("p", " ".join(read)), ("c", nested)):
        if value:
            record[key] = value
    return record


def portable(value: Any) -> bool:
    """Return whether a constant is the same on every machine, and small."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or (
        len(value) <= 60 and "/" not in value and not re.search(r"0x[0-9a-f]{6}", value)
    )


def record_of(path: str, namer: Namer) -> dict[str, Any]:
    """Return what a module has, by kind: functions, classes, modules, constants, names of others, loggers, objects."""
    lists: dict[str, list[str]] = {"f": [], "m": [], "l": [], "o": []}
    classes, aliases, constants = {}, {}, {}
    for name, value in namer.items(path):
        if isinstance(value, CONSTANTS) and portable(value) and not isinstance(value, enum.Enum):
            constants[name] = value
            continue
        home = namer.home(value)
        if isinstance(value, float):
            home = "math:nan" if math.isnan(value) else "math:inf"
        if name == "__all__":
            continue
        if isinstance(value, types.ModuleType):
            if home == f"{path}.{name}" and not f"{path}.{name}".startswith(LEFT_OUT):
                lists["m"].append(name)
            elif home:
                aliases[name] = home
        elif home and home != f"{path}:{name}":
            aliases[name] = home
        elif isinstance(value, type):
            classes[name] = described(value, namer)
        elif isinstance(value, logging.Logger):
            lists["l"].append(name)
        elif callable(value) and isinstance(read(value, "__name__"), str):
            lists["f"].append(name)
        else:
            lists["o"].append(name)
    record: dict[str, Any] = {key: " ".join(names) for key, names in lists.items() if names}
    listed = read(namer.found[path], "__all__")
    public = " ".join(sorted(map(str, listed))) if isinstance(listed, (list, tuple)) else ""
    return record | {
        key: value for key, value in (("c", classes), ("@", aliases), ("=", constants), ("all", public)) if value
    }


def add_other_places(records: dict[str, dict[str, Any]]) -> None:
    """Note with every definition where else programs find it: its most public path, if that is not where it is."""
    places: dict[str, list[str]] = {}
    for path, record in records.items():
        for name, home in record.get("@", {}).items():
            if home.startswith("torch") and ":" in home:
                places.setdefault(home, []).append(f"{path}:{name}")
    for home, found in places.items():
        path, _, name = home.partition(":")
        record = records.get(path, {})
        if name in record.get("c", {}) or name in record.get("f", "").split() or name in record.get("o", "").split():
            best = min(found, key=lambda place: ("._" in place, place.count("."), len(place), place))
            if best.partition(":")[2] == name and ("._" in path, path.count(".")) > ("._" in best, best.count(".")):
                record.setdefault("also", {})[name] = best.partition(":")[0]


def collected() -> dict[str, Any]:
    """Return all names, as they are written."""
    import torch

    found, sources = modules()
    namer = Namer(found)
    records = {path: record_of(path, namer) for path in found}
    records |= {path: stated(path, source) for path, source in sources.items()}
    add_other_places(records)
    operations: dict[str, set[str]] = {}
    for each in torch._C._dispatch_get_all_op_names():
        namespace, _, name = each.partition("::")
        if namespace in ("aten", "prim", "prims", "quantized", "profiler"):
            operations.setdefault(namespace, set()).add(name.partition(".")[0])
    return {
        "version": str(torch.__version__).partition("+")[0],
        "modules": dict(sorted(records.items())),
        "operations": {name: " ".join(sorted(each)) for name, each in sorted(operations.items())},
    }


def by_module(places: dict[str, str]) -> dict[str, str]:
    """Return places of names as they are written: the names of each module, ``name=other`` if it has another name there."""
    found: dict[str, list[str]] = {}
    for name, home in sorted(places.items()):
        module, separator, other = home.partition(":")
        if not separator:
            module, other = "", home
        found.setdefault(module, []).append(name if other == name else f"{name}={other}")
    return {module: " ".join(names) for module, names in found.items()}


def packed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a module's record as it is written, without the module's path at each name."""
    also: dict[str, list[str]] = {}
    for name, path in sorted(record.get("also", {}).items()):
        also.setdefault(path, []).append(name)
    changed = {"@": by_module(record.get("@", {})), "also": {path: " ".join(names) for path, names in also.items()}}
    return record | {key: value for key, value in changed.items() if value}


def is_private(path: str) -> bool:
    """Return whether a module is one that neither programs nor libraries have a reason to name."""
    return "._" in path and re.match(NAMED, path) is None


def reached(modules: dict[str, dict[str, Any]]) -> dict[str, set[str]]:
    """Return, of private modules, what public ones borrow, and the bases of classes among it."""
    found: dict[str, set[str]] = {}

    def needed(content: dict[str, Any]) -> Iterator[str]:
        yield from content.get("bases", ())
        for each in content.get("c", {}).values():
            yield from needed(each)

    waiting = [
        place
        for path, record in modules.items()
        if not is_private(path)
        for place in (*record.get("@", {}).values(), *needed(record))
    ]
    while waiting:
        path, _, name = waiting.pop().partition(":")
        if path in modules and is_private(path) and name not in found.setdefault(path, set()):
            found[path].add(name)
            waiting += needed(modules[path].get("c", {}).get(name.partition(".")[0], {}))
            waiting += [place for key, place in modules[path].get("@", {}).items() if key == name]
            # What a module is in is there, too.
            waiting.append(path.rpartition(".")[0])
    return found


def divided(record: dict[str, Any], chosen: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a module's record of some names, and that of the others and of what belongs to the module as a whole."""
    chosen = {name.partition(".")[0] for name in chosen}
    here: dict[str, Any] = {}
    rest = dict(record)
    for key in "flo":
        names = record.get(key, "").split()
        here[key] = " ".join(name for name in names if name in chosen)
        rest[key] = " ".join(name for name in names if name not in chosen)
    for key in ("c", "=", "@", "also"):
        here[key] = {name: value for name, value in record.get(key, {}).items() if name in chosen}
        rest[key] = {name: value for name, value in record.get(key, {}).items() if name not in chosen}
    return {key: value for key, value in here.items() if value}, {key: value for key, value in rest.items() if value}


def archives(names: dict[str, Any]) -> dict[Path, dict[str, Any]]:
    """Return what each file holds, by line: the modules below one module of ``torch``, so that few are read."""
    public: dict[str, Any] = {"about": {"version": names["version"], "operations": names["operations"]}}
    private: dict[str, Any] = {}
    chosen = reached(names["modules"])
    for path, record in names["modules"].items():
        line, here = ".".join(path.split(".")[:2]), record
        if is_private(path):
            here, rest = divided(record, chosen.get(path, set()))
            private.setdefault(line, {})[path] = packed(rest)
        if path in chosen or not is_private(path):
            public.setdefault(line, {})[path] = packed(here)
    return {TARGET: public, PRIVATE_TARGET: private}


def write(target: Path, lines: dict[str, Any]) -> None:
    """Write a file that is the same for the same names: compressed as a whole, which is half as long as each part by itself."""
    text = "\n".join(
        f"{name} {json.dumps(content, separators=(',', ':'), sort_keys=True, allow_nan=False, default=str)}"
        for name, content in lines.items()
    )
    # Text is of bytes, not of words that are aligned.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
    target.write_bytes(lzma.compress(text.encode(), filters=filters))


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for target, lines in archives(collected()).items():
        write(target, lines)


if __name__ == "__main__":
    main()
