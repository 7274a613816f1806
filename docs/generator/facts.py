"""What an entry tells besides its text: shapes, types, derivatives, conformance, errors; from the record and from its example."""

from __future__ import annotations

import gzip
import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any

from webgpu_torch_core.tensors.read_only import Constant
from webgpu_torch_nn import Module

from .measured import TYPES
from .public_names import ROOT, Entry, parameters, types
from .raised import raised

RECORD = ROOT / "docs" / "compatibility.json.gz"
#: a docstring that says what is raised
_SAYS_RAISES = re.compile(r"^(Raises|Throws):", re.MULTILINE)


@cache
def _conformance() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(gzip.decompress(RECORD.read_bytes()))["results"]


def typed(entry: Entry) -> str:
    """Return the types of an entry in one line, nothing where they are not known."""
    if entry.kind == "data":
        return f"``{type(entry.value).__name__}``"
    if inspect.isclass(entry.value) and issubclass(entry.value, BaseException):
        return f"a kind of ``{entry.value.__mro__[1].__name__}``"
    if inspect.isclass(entry.value) and issubclass(entry.value, Enum):
        return "an enumeration of " + ", ".join(f"``{each}``" for each in entry.value.__members__)
    if entry.module == "webgpu_torch.multiprocessing" and not entry.value.__module__.startswith("webgpu_torch"):
        return f"those of Python's ``multiprocessing.{entry.name}``"
    if isinstance(entry.value, Constant):
        return f"``{type(entry.value.value).__name__}``"
    if entry.kind == "property":
        owner = getattr(getattr(entry.value, "__objclass__", None), "__annotations__", {})
        getter = getattr(getattr(entry.value, "fget", None), "__annotations__", {})
        returned = getter.get("return") or owner.get(entry.name)
        return f"``{returned}``" if returned else ""
    definition = getattr(entry.operation, "definition", None)
    given = types(entry.value, definition is not None, entry.kind == "method")
    if inspect.isclass(entry.value) and issubclass(entry.value, Module):
        forward = "" if entry.value.forward is Module.forward else types(entry.value.forward, False, True)
        if forward:
            return "; ".join([f"``{given}``"] * bool(given) + [f"called with ``{forward}``"])
    if given:
        return f"``{given}``"
    try:
        named = [f"{each.name}: Any" for each in parameters(entry.value, entry.kind == "method")]
    except (ValueError, TypeError):
        fields = getattr(entry.value, "__annotations__", {})
        return f"``{', '.join(f'{name}: {_plain(kind)}' for name, kind in fields.items())}``" if fields else ""
    return f"``{', '.join(named)}``" if named else "takes no arguments"


def _plain(kind: object) -> str:
    """Return an annotation as it is written."""
    return getattr(kind, "__forward_arg__", None) or getattr(kind, "__name__", None) or str(kind)


def facts(entry: Entry, sample: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of an entry that is described nowhere else."""
    if sample.get("shapes"):
        yield f":Shapes: {sample['shapes']}"
    given = typed(entry)
    if given:
        yield f":Types: {given}"
    elements = element_types(sample.get("types") or {})
    if elements:
        yield f":Element types: {elements}"
    key = entry.full_name.removeprefix("webgpu_torch.").removeprefix("Tensor.")
    passed, failed, differentiable = conformance_of(key)
    gradient = sample.get("gradient")
    if differentiable or gradient:
        checked = "; compared with PyTorch's" if differentiable else ""
        yield f":Gradient: {', '.join(gradient or ['yes'])}{checked}"
    elif gradient is not None:
        yield ":Gradient: none"
    if passed:
        yield f":Conformance: {'; '.join(passed)}"
    if failed:
        yield f":Differs from PyTorch: {'; '.join(failed)}: :doc:`the record </compatibility>`"
    yield from errors(entry, sample)


def element_types(found: dict[str, str]) -> str:
    """Return which element types an operation takes, keeps and changes."""
    kept = [name for name in TYPES if found.get(name) == name]
    refused = [name for name in TYPES if name in found and not found[name]]
    changed: dict[str, list[str]] = {}
    for name in TYPES:
        if found.get(name) not in (None, "", name):
            changed.setdefault(found[name], []).append(name)
    parts = [f"{' '.join(f'``{each}``' for each in kept)} kept"] if kept else []
    parts += [f"{' '.join(f'``{each}``' for each in names)} → ``{made}``" for made, names in changed.items()]
    parts += [f"{' '.join(f'``{each}``' for each in refused)} refused"] if refused else []
    return "; ".join(parts)


def conformance_of(key: str) -> tuple[list[str], list[str], bool]:
    """Return the devices and types whose samples agree with PyTorch, those that do not, and if gradients do."""
    passed, failed, differentiable = [], [], False
    for device in ("cpu", "webgpu"):
        agreed = []
        for dtype, results in sorted(_conformance()[device].items()):
            result = results.get(key)
            if result is None:
                continue
            amiss = [each for each in ("forward", "gradient") if isinstance(result, dict) and each in result]
            if amiss:
                failed.append(f"{device} {dtype} ({', '.join(amiss)})")
            else:
                agreed.append(dtype)
            differentiable |= result == "gradient" or (isinstance(result, dict) and bool(result.get("differentiable")))
        if agreed:
            passed.append(f"``{device}`` {', '.join(agreed)}")
    return passed, failed, differentiable


def errors(entry: Entry, sample: dict[str, Any]) -> Iterator[str]:
    """Yield what an entry raises: wrong calls that were made, or what its source says; a docstring's own list stands."""
    wrong = [(kind, f"{_literal(call)}: {_quoted(text)}") for kind, call, text in sample.get("wrong") or ()]
    says = says_errors(entry)
    found = wrong or ([] if says else [(kind, _quoted(text)) for kind, text in raised(entry.value)])
    if not found and not says:
        yield ":Raises: nothing of its own"
    for kind, text in found:
        yield f":raises {kind}: {text}"


def says_errors(entry: Entry) -> bool:
    """Return whether a docstring lists what is raised, or there is nothing that could: constants, exceptions."""
    return entry.kind in ("data", "exception", "property") or bool(_SAYS_RAISES.search(entry.documentation()))


def _literal(text: str) -> str:
    return f"``{text}``"


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return "“" + re.sub(r"([\\*`|_<>])", r"\\\1", text) + "”" if text else "as its source says"
