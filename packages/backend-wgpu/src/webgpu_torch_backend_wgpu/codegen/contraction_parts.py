"""The second pass of contractions whose sum over k is shared by workgroups: add the parts in order, then store."""

from __future__ import annotations

from webgpu_torch_core.ir.kernels import Contraction

from ..program import Capabilities, Pass
from .access import LANES
from .contraction import Frame
from .printer import LINEAR_GROUP, spread_workgroups

_WORKGROUP = 64


def part_bytes_of(frame: Frame, splits: int) -> int:
    """Return the size of the scratch buffer that holds ``splits`` parts of every element of the result."""
    itemsize = 8 if frame.kernel.dtype.itemsize == 8 else 4
    return splits * frame.batch * frame.m * frame.n * itemsize


def sum_parts(kernel: Contraction, capabilities: Capabilities, splits: int) -> Pass:
    """Return the pass that sums ``scratch[part, batch, m, n]`` over parts, first to last, and runs the epilogue."""
    frame = Frame(kernel, capabilities, sides=False)
    lines = frame.lines
    lanes = LANES if frame.vector is not None else 1
    size = frame.batch * frame.m * frame.n
    threads = size // lanes
    groups = -(-threads // _WORKGROUP)
    name = frame.module.buffer("scratch", 0, frame.module.type(kernel.dtype).word, False)
    lines += [f"let element = (({LINEAR_GROUP}) * {_WORKGROUP}u + thread) * {lanes}u;"]
    lines += [f"if (element >= {size}u) {{ return; }}"]
    lines += [f"var sum{lane} = {name}[element + {lane}u];" for lane in range(lanes)]
    lines.append(f"for (var part = 1u; part < {splits}u; part++) {{")
    for lane in range(lanes):
        total = frame.add(f"sum{lane}", f"{name}[part * {size}u + element + {lane}u]")
        lines.append(f"sum{lane} = {total};")
    lines.append("}")
    lines += [f"let column = element % {frame.n}u;", f"let row = (element / {frame.n}u) % {frame.m}u;"]
    lines += [f"let batch = element / {frame.m * frame.n}u;"]
    batch = frame.batch_coordinates("batch")
    frame.epilogue(batch, "row", "column", [f"sum{lane}" for lane in range(lanes)], lines)
    return frame.module.finish(
        (_WORKGROUP, 1, 1), spread_workgroups(groups, capabilities.workgroups_per_dimension), " (sum of parts)"
    )
