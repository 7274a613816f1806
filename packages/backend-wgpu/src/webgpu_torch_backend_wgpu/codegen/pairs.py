"""Numbers of float32 as pairs of halves: one that is near, and what is left of the number.

Numbers are scaled by a power of two before, so that the largest is a large half (H. Ootomo and R. Yokota, "Recovering single
precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022, https://arxiv.org/abs/2203.03341).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webgpu_torch_core.ir.expression import Expression

from ..gpu.interface import MatrixUnit
from ..program import Capabilities
from .contraction_magnitudes import FLAG, INFINITY, magnitude
from .ir import Call, Literal, Node, bitcast, choose, fixed, minimum, vector
from .module import Module
from .statements import Return

#: exponents: of the largest half that numbers are scaled to, of the smallest half, of float32
_LARGEST, _SMALLEST, _BIAS = 14, -24, 127
#: bits of a float32 that a half does not hold, and where its exponent begins
_DROPPED, _MANTISSA = 0x1FFF, 23
#: the function that cuts a number beside infinities
_APART = "apart"


def makes_pairs(capabilities: Capabilities, unit: MatrixUnit) -> bool:
    """Return whether an adapter rounds to halves as it should, and keeps what is left."""
    facts = capabilities.facts
    return facts.packs_halves and facts.keeps_rests and capabilities.subgroup_size == unit.threads


def parts_of(value: Expression) -> int:
    """Return how many halves each number of a side is."""
    return 1 if value.step == "cast" and value.arguments[0].dtype.name in ("float16", "bfloat16") else 2


def power_of_two(exponent: Node) -> Node:
    """Return two to the power of an exponent, an i32 within float32's."""
    return bitcast("f32", (exponent + fixed(_BIAS, "i32")) << _MANTISSA)


def exponent_of(word: Node) -> Node:
    """Return the exponent by which numbers are scaled whose largest magnitude is known, as an i32; 0 of zeros."""
    own = bitcast("i32", magnitude(word) >> _MANTISSA)
    most = fixed(_BIAS - 1, "i32")
    return choose(
        magnitude(word).differs(fixed(0)), minimum(fixed(_LARGEST + _BIAS, "i32") - own, most), fixed(0, "i32")
    )


def unscaling(exponent: Node) -> tuple[Node, Node]:
    """Return two factors that undo a scaling by two to the power of an exponent: one may be too large for a float32."""
    half = exponent >> 1
    return power_of_two(-half), power_of_two(half - exponent)


def unscaled(value: Node, exponent: Node) -> Node:
    """Return a number without the power of two that it was scaled by."""
    one, other = unscaling(exponent)
    return value * one * other


class Cutter:
    """Writes how scaled numbers become halves: ``parts`` of each, of which what is left is scaled by two to the power of ``left``."""

    def __init__(self, module: Module, parts: int = 2, left: int = 0) -> None:
        self.module, self.parts, self.left = module, parts, left

    def cut(self, pair: Node, nothing: Node) -> list[Node]:
        """Write how two numbers become halves and return the words; ``nothing``: a 0 that no driver knows."""
        body, fresh = self.module.body, self.module.fresh
        pair = body.let(fresh("pair"), pair)
        word = body.let(fresh("halves"), Call("pack2x16float", (pair,), "u32"))
        if self.parts == 1:
            return [word]
        # Drivers were seen to leave out unpacking what was just packed.
        near = Call("unpack2x16float", (word ^ nothing,), "vec2<f32>")
        rest = pair - near
        return [word, Call("pack2x16float", (rest * Literal(2.0**self.left, "f32") if self.left else rest,), "u32")]

    def halves(self, values: Sequence[Node], cut: Callable[[Node], list[Node]]) -> list[list[Node]]:
        """Write how scaled numbers become halves, two at a time by :meth:`cut` or :meth:`apart`; return the words of each part."""
        words = [cut(vector("f32", values[first : first + 2])) for first in range(0, len(values), 2)]
        return [[each[part] for each in words] for part in range(self.parts)]

    def beyond_zero(self, value: Node) -> Node:
        """Write the number whose halves are cut in place of a scaled one: none but 0 is cut to zeros, which infinities would meet."""
        body, fresh = self.module.body, self.module.fresh
        bits = body.let(fresh("bits"), bitcast("u32", value))
        size = body.let(fresh("size"), bits & fixed(FLAG - 1))
        least = fixed(_SMALLEST - (self.left if self.parts > 1 else 0) + _BIAS << _MANTISSA)
        kept = choose(size.differs(fixed(0)), Call("max", (size, least), "u32") | (bits & fixed(FLAG)), bits)
        return body.let(fresh("kept"), bitcast("f32", kept))

    def apart(self, pair: Node) -> list[Node]:
        """Write the same where infinity or NaN is near: both halves have the number's sign and neither is 0 where it is not."""
        body, fresh = self.module.body, self.module.fresh
        cuts = [body.let(fresh("cut"), Call(_APART, (pair.lane(each),), "vec2<f32>")) for each in (0, 1)]
        halves = [vector("f32", [each.lane(part) for each in cuts]) for part in range(self.parts)]
        return [body.let(fresh("halves"), Call("pack2x16float", (each,), "u32")) for each in halves]

    def define(self) -> None:
        """Write the function that cuts a number beside infinities, whose products must not be 0 or of both signs."""
        with self.module.function(_APART, {"x": "f32"}, "vec2<f32>") as (x,):
            body = self.module.body
            bits = body.let("bits", bitcast("u32", x))
            size = body.let("size", bits & fixed(FLAG - 1))
            sign = body.let("sign", bits & fixed(FLAG))
            least = fixed(_SMALLEST + _BIAS << _MANTISSA)
            near = body.let("near", Call("max", (size & fixed(FLAG - 1 - _DROPPED), least), "u32"))
            left = (bitcast("f32", size) - bitcast("f32", near)) * Literal(2.0**self.left, "f32")
            rest = body.let("rest", bitcast("u32", Call("max", (left, bitcast("f32", least)), "f32")))
            finite = size < fixed(INFINITY)
            parts = [choose(finite, near, size), choose(finite, rest, least)]
            found = [bitcast("f32", choose(size.differs(fixed(0)), each | sign, bits)) for each in parts]
            body.add(Return(vector("f32", found)))
