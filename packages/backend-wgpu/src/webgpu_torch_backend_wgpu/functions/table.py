"""The record of one WGSL helper function, and the table that the other files of this folder fill."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from string import Template

FUNCTIONS: dict[str, Function] = {}

_HELPER = re.compile(r"wt_\w*")


class Function:
    """One WGSL helper: its name, source text, the helpers its text calls, and its documented largest error in ULP.

    ``accuracy`` is ``None`` where the function is exact or where "ULP" has no meaning (integers, bit tests); the
    measure is relative to the exact real result rounded to float32, over all arguments with a normal result.
    """

    __slots__ = ("accuracy", "name", "requires", "source")

    def __init__(self, name: str, source: str, requires: tuple[str, ...], accuracy: float | None) -> None:
        self.name = name
        self.source = source
        self.requires = requires
        self.accuracy = accuracy

    def __repr__(self) -> str:
        return f"Function(name={self.name!r}, requires={self.requires!r}, accuracy={self.accuracy!r})"


def polynomial(variable: str, coefficients: Iterable[float]) -> str:
    """Return WGSL text of ``c0 + v * (c1 + v * (c2 + ...))`` (Horner), lowest coefficient first."""
    *lower, text = [repr(float(value)) + "f" for value in coefficients]
    for coefficient in reversed(lower):
        text = f"({coefficient} + {variable} * {text})"
    return text


def define(source: str, *, accuracy: float | None = None, **replacements: str) -> Function:
    """Add one WGSL function or module-scope declaration to the table and return its record.

    The name and the required helpers are read from the text, so they cannot disagree with it. ``$key`` in the text is
    replaced by the keyword argument ``key``. Raises ValueError where the text declares no new ``wt_`` name.
    """
    source = (Template(source).substitute(replacements) if replacements else source).strip()
    function = described(source, accuracy)
    if function.name in FUNCTIONS:
        raise ValueError(f"expected WGSL text that declares one new wt_ name, got {source[:60]!r}")
    FUNCTIONS[function.name] = function
    return function


def described(source: str, accuracy: float | None = None) -> Function:
    """Return the record of one WGSL function, outside the table; ValueError where the text declares no ``wt_`` name."""
    words = _helper_names(source)
    if not words:
        raise ValueError(f"expected WGSL text that declares a wt_ name, got {source[:60]!r}")
    return Function(words[0], source, tuple(dict.fromkeys(word for word in words if word != words[0])), accuracy)


@functools.cache
def printed_length(name: str) -> int:
    """Return how many statements a helper is where everything it calls is written out, as drivers' compilers do."""
    code = _code(FUNCTIONS[name].source)
    return code.count(";") + sum(printed_length(each) for each in _helper_names(code)[1:] if each in FUNCTIONS)


def _code(source: str) -> str:
    """Return WGSL text without comments."""
    return "\n".join(line.partition("//")[0] for line in source.splitlines())


def _helper_names(source: str) -> list[str]:
    return _HELPER.findall(_code(source))


def prelude(names: Iterable[str], instead: Mapping[str, Function] | None = None) -> str:
    """Return the WGSL text of the named helpers and all they require, dependencies first, in a fixed order.

    ``instead`` has functions that stand for those of the table. Raises KeyError for a name that is not in the table.
    """
    ordered: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        function = (instead or {}).get(name) or FUNCTIONS.get(name)
        if function is None:
            raise KeyError(f"no WGSL function named {name!r}; the table has {len(FUNCTIONS)} functions, see FUNCTIONS")
        for required in function.requires:
            visit(required)
        ordered[name] = function.source

    for name in sorted(set(names)):
        visit(name)
    return "".join(source + "\n" for source in ordered.values())
