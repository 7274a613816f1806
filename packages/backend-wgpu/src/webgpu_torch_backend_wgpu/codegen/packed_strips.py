"""How contractions of few rows with packed numbers share their sums and cut their rows, and how long that takes."""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression, loads_of, operand_of
from webgpu_torch_core.ir.kernels import Contraction, PreparedContraction, roots_of
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities
from .access import LANES
from .contraction import binds, large_group
from .contraction_prepared import REDUCED, at_once, computing_seconds
from .contraction_vector import SKINNY, Strip
from .module import WORKGROUP
from .packed_side import PIECE, packed_side

#: bytes with a sign that elements are cut into: those of float32, and those that were rounded to sixteen bits
_CUTS, _CUTS_OF_HALVES = 3, 2
#: bytes of workgroup memory that reductions and sums take for each thread
_BESIDE = REDUCED // WORKGROUP + 4 * SKINNY
#: what is kept of pieces between two passes: bytes as words, and steps and sums
SCRATCH = ("uint32", "float32")
#: threads that share a sum, with the share of a copy's bandwidth that is reached: those side by side read what lies so
_TEAMS = {8: 0.75, 16: 1.2, 32: 1.25, 64: 0.95}
#: the share of that where pieces lie in scratch memory
_APART = 0.85
#: threads of a workgroup: of more, fewer workgroups cut the rows
_SIZES = (WORKGROUP, 2 * WORKGROUP)
#: workgroups for each unit that keep memory busy, and those that have nothing to cut; the share of the rate of products of bytes
#: that is reached
_BUSY, _BUSY_APART, _PRODUCTS = 0.8, 3.5, 0.4
#: operations that cutting an element takes: most of it is waiting
_CUTTING = 140
#: dispatches that a pass before takes: it is waited for; and one that reduces rows first
_AHEAD, _AHEAD_REDUCED = 1.4, 2.0


def cuts_of(left: Expression) -> int:
    """Return how many bytes elements of the small side are cut into."""
    rounded = (
        left.step == "cast" and left.arguments[0].dtype.itemsize == 2 and left.arguments[0].dtype.is_floating_point
    )
    return _CUTS_OF_HALVES if rounded else _CUTS


def _small_side(kernel: Contraction) -> Expression:
    return kernel.left if large_group(kernel) == "n" else kernel.right


class PackedStrip(Strip):
    """A variant: ``ahead`` cuts rows in a pass before; workgroups have so many threads."""

    fields = (*Strip.fields, "ahead", "threads")
    __slots__ = ("ahead", "threads")
    ahead: bool
    threads: int


def packed_strips(kernel: Contraction, capabilities: Capabilities) -> list[PackedStrip]:
    """Return how a contraction's sums are shared and its rows cut, where its large side is of packed numbers."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    if not capabilities.facts.dots or batch != 1 or not 0 < min(m, n) <= SKINNY or kernel.dtype.name != "float32":
        return []
    if packed_side(kernel, large_group(kernel)) is None:
        return []
    # A step and a sum beside the bytes.
    pieces = min(m, n) * (k // PIECE) * (cuts_of(_small_side(kernel)) * PIECE + 8)
    usual, *larger = sorted({min(each, capabilities.invocations) for each in _SIZES})
    if capabilities.software:
        larger = []
    found = [(False, each) for each in (usual, *larger) if pieces + _BESIDE * each <= capabilities.workgroup_bytes]
    if _can_bind_pieces(kernel, capabilities):
        found.append((True, usual))
    return [PackedStrip(team, 1, 1, ahead, threads) for ahead, threads in found for team in _TEAMS if team <= threads]


def _can_bind_pieces(kernel: Contraction, capabilities: Capabilities) -> bool:
    """Return whether a pass may bind pieces beside all that a product reads and stores; one buffer more may be for reports."""
    big = kernel.right if large_group(kernel) == "n" else kernel.left
    read = set(map(operand_of, loads_of(big, *roots_of(kernel.stores))))
    bound = binds([kernel.operands[each] for each in read], kernel.outputs, capabilities)
    return bound + len(SCRATCH) < capabilities.storage_buffers


def packed_seconds(kernel: Contraction, strip: PackedStrip, facts: Facts) -> float:
    """Return an estimate of the time that a product with packed numbers takes: of cutting rows, then of reading or multiplying."""
    m, n, k = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k))
    packed = packed_side(kernel, large_group(kernel))
    assert packed is not None
    rows, columns, runs = min(m, n), max(m, n), k // packed.run
    strips = -(-columns * strip.team // strip.threads)
    each = 1 if strip.ahead else -(-strips // at_once(facts, strip.threads))
    workgroups = -(-strips // each)
    turns = max(1.0, workgroups / facts.units)
    prepared = kernel if isinstance(kernel, PreparedContraction) else None
    if strip.ahead:
        cutting = facts.dispatch * (_AHEAD_REDUCED if prepared and prepared.reductions else _AHEAD)
    else:
        cutting = turns * rows * k * _CUTTING * facts.units / facts.flops
        if prepared:
            cutting += computing_seconds(prepared, turns, facts)
    busy = min(1.0, strips / ((_BUSY_APART if strip.ahead else _BUSY) * facts.units))
    if workgroups > facts.units:
        # Who has one workgroup more than others keeps all waiting.
        busy = min(busy, strips / (-(-workgroups // facts.units) * each * facts.units))
    wasted = -(-runs // strip.team) * strip.team / runs / busy
    rate = facts.bandwidth * _TEAMS[strip.team] * (_APART if strip.ahead else 1.0)
    reading = wasted * kernel.nbytes() / rate
    multiplying = m * n * k / LANES * cuts_of(_small_side(kernel)) / (facts.dots * _PRODUCTS)
    return cutting + max(reading, multiplying)
