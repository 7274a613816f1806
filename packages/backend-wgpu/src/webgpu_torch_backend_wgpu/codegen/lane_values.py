"""What the lanes of a thread have in common: values that do not depend on the lane, or on some bits of its number only."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core.ir.expression import Expression, topological

from .traced import common_divisor

#: lanes from a multiple of which on a thread's first coordinate is
GROUP = 4
#: stands for what divides zero: every group's size divides it
ZERO = 1 << 16


def lane_bits(roots: Sequence[Expression], vector: int | None, apart: bool = False) -> dict[Expression, int]:
    """Return the bits of a lane's number that nodes depend on, for those that do not depend on all of them.

    Numbers, parameters, reductions, other coordinates and what is read at these depend on none. Lane ``i`` is ``i`` behind the first one in dimension ``vector``: where
    a position is a multiple of four and ``i``, its quotient by four depends on the higher bits, its rest on the lower two.
    ``apart``: each lane has reductions of its own.
    """
    bits: dict[Expression, int] = {}
    places: dict[Expression, tuple[int, int] | None] = {}
    for node in topological(*roots):
        places[node] = _place(node, vector, places)
        found = None if apart and node.step == "reduced" else _own_bits(node, vector, places)
        if found is None and node.arguments and all(each in bits for each in node.arguments):
            found = 0
            for each in node.arguments:
                found |= bits[each]
        if found is not None and found != -1:
            bits[node] = found
    return bits


def divisor(root: Expression, vector: int) -> int:
    """Return a number, 1 or more, that divides an integer wherever it is computed; 0 where that follows dimension ``vector``.

    Of what is no integer, 1 is known; sums and products that wrap keep powers of two.
    """
    found: dict[Expression, int] = {}
    for node in topological(root):
        own = [found[each] for each in node.arguments]
        if 0 in own or (node.step == "coordinate" and node.payload == vector):
            found[node] = 0
        elif node.step == "load" and any(node.payload[2][vector : vector + 1]):
            found[node] = 0
        elif node.step == "constant" and node.dtype.category == 1:
            found[node] = abs(node.payload) or ZERO
        elif node.step in ("add", "subtract") and node.dtype.category == 1:
            found[node] = common_divisor(*own)
        elif node.step == "multiply" and node.dtype.category == 1:
            found[node] = own[0] * own[1]
        elif node.step == "select" and node.dtype.category == 1:
            found[node] = common_divisor(*own[1:])
        elif node.step == "checked" or (node.step == "cast" and node.arguments[0].dtype.category == 1):
            found[node] = own[0]
        else:
            found[node] = 1
    return found[root]


def _own_bits(node: Expression, vector: int | None, places: dict[Expression, tuple[int, int] | None]) -> int | None:
    if node.step in ("constant", "parameter", "reduced"):
        return 0
    if node.step == "coordinate":
        return None if node.payload == vector else 0
    if node.step == "load":
        # One that moves with the lanes differs.
        return None if vector is None or any(node.payload[2][vector : vector + 1]) else 0
    if node.step not in ("shift_right", "bitwise_and") or node.arguments[1].step != "constant":
        return None
    place, amount = places[node.arguments[0]], node.arguments[1].payload
    if place is None or place[0] != 1 or place[1] % GROUP:
        return None
    if node.step == "bitwise_and":
        return amount if 0 < amount < GROUP else None
    return -(1 << amount) if 1 << amount <= GROUP else None


def _place(
    node: Expression, vector: int | None, places: dict[Expression, tuple[int, int] | None]
) -> tuple[int, int] | None:
    """Return (what a lane adds, a divisor of the rest) of a whole number that is a sum of coordinates' multiples, else None."""
    if node.step == "coordinate":
        return (1, GROUP) if node.payload == vector else (0, 1)
    if node.dtype.category != 1 or node.dtype.itemsize < 4:
        return None
    if node.step == "constant":
        return 0, node.payload
    known = [places[each] for each in node.arguments]
    if not known or any(each is None for each in known):
        return None
    inside = [each for each in known if each is not None]
    if node.step == "cast":
        return inside[0]
    if node.step == "add":
        return inside[0][0] + inside[1][0], common_divisor(inside[0][1], inside[1][1])
    if node.step == "multiply" and node.arguments[1].step == "constant":
        factor = node.arguments[1].payload
        return inside[0][0] * factor, inside[0][1] * factor
    return None
