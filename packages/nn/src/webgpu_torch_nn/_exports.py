"""The public names of a package whose families are imported with stars: nobody lists them a second time."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any


def public_names(
    namespace: dict[str, Any], shared: Mapping[str, Any] | None = None, leave_out: tuple[str, ...] = ()
) -> list[str]:
    """Return the public names that a package's files define, and forget what else their star imports brought.

    Args:
        namespace: the ``globals()`` of the package's ``__init__`` after ``from .family import *`` of every family.
        shared: objects of another package that count, too, where a family imports them under their own names.
        leave_out: names that users import from their family.
    """
    package = namespace["__name__"]
    names: list[str] = []
    for name, value in list(namespace.items()):
        if name.startswith("_") or (isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}"):
            continue
        home, _, family = str(getattr(value, "__module__", "")).rpartition(".")
        own = callable(value) and home == package and not family.startswith("_")
        known = shared is not None and name in shared and shared[name] is value
        if (own or known) and name not in leave_out:
            names.append(name)
        else:
            del namespace[name]
    return sorted(names)


def exported(namespace: dict[str, object], *modules: str) -> list[str]:
    """Return the public names that a module's imports, ``from .family import name as name``, bring for others.

    Args:
        namespace: the ``globals()`` of the module after these imports.
        modules: the names of its own modules that count, too.
    """
    values = {name: value for name, value in namespace.items() if not name.startswith("_") and name != "annotations"}
    return sorted([*modules, *(name for name, value in values.items() if not isinstance(value, ModuleType))])
