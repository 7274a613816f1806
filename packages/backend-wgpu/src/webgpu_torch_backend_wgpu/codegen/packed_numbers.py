"""Numbers of a few bits in words: cut out where they lie, by one mask and one conversion each, instead of byte by byte.

An encoding says what a number is as an expression over its byte. Where that is the number's bits, or these as a signed integer,
which is found out by computing it for every byte, the expression need not be followed.
"""

from __future__ import annotations

from functools import lru_cache

from webgpu_torch_core.ir.dtypes import float32, int32, uint8
from webgpu_torch_core.ir.expression import Expression, argument, rewrite, topological
from webgpu_torch_core.ir.interpreter import Environment, evaluate

from .ir import Literal, Node, convert_to, fixed

#: bits of a byte, and of a word
_BYTE, _WORD = 8, 32


def plain_numbers(
    root: Expression, load: Expression, dimension: int | None, lanes: int
) -> tuple[Expression, int] | None:
    """Return the part of an expression that is a number of a loaded byte, and what its bits are turned by; None where none is.

    Args:
        root: the expression.
        load: of bytes.
        dimension: whose coordinate tells which of a byte's numbers it is; None where a byte holds one.
        lanes: how many numbers a byte holds.
    """
    if load.dtype is not uint8:
        return None
    for node in topological(root):
        if node.step != "cast" or node.dtype is not float32:
            continue
        leaves = [each for each in topological(node) if not each.arguments and each.step != "constant"]
        places = [each for each in leaves if each.step == "coordinate" and each.payload == dimension]
        if load in leaves and len(leaves) == 1 + len(places):
            turned = _turned_by(rewrite(node, lambda each, _: _ARGUMENTS.get(each.step)), lanes)
            if turned is not None:
                return node, turned
    return None


_ARGUMENTS = {"load": argument(0, uint8), "coordinate": argument(1, int32)}


@lru_cache(256)
def _turned_by(value: Expression, lanes: int) -> int | None:
    """Return the t with which ``(bits ^ t) - t`` is the value of every byte ``argument(0)`` at every place ``argument(1)``."""
    bits = _BYTE // lanes
    for turned in (0, 1 << bits - 1):
        if all(
            evaluate(value, (), Environment((), (), [byte, lane]))
            == ((byte >> lane * bits & (1 << bits) - 1) ^ turned) - turned
            for byte in range(1 << _BYTE)
            for lane in range(lanes)
        ):
            return turned
    return None


def cut_out(words: list[Node], number: int, bits: int, turned: int) -> Node:
    """Return a number of neighbouring words, whose highest bits are turned already where those of numbers are to be."""
    at, place = divmod(number * bits, _WORD)
    found = convert_to("f32", words[at] & fixed(((1 << bits) - 1) << place))
    if place:
        found = found * Literal(2.0**-place, "f32")
    return found - Literal(float(turned), "f32") if turned else found


def turning(bits: int, turned: int) -> int:
    """Return the word that turns every number of a word."""
    return sum(turned << place for place in range(0, _WORD, bits))
