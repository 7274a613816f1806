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
