"""The running softmax of an attention by tiles."""

from __future__ import annotations

from .access import LANES
from .attention_parts import LOWEST
from .attention_tile import AttentionTile
from .contraction_tile import ThreadSums
from .ir import Call, Literal, Name, Node, fixed, vector, zero
from .module import Module
from .steps import spell

_LOG2_E = 1.4426950408889634


def power(module: Module, value: Node) -> Node:
    """Return ``exp(value)`` of a number that is not positive, or four of them."""
    if module.capabilities.software:
        if value.type == "f32":
            return spell("exp", "f32", [value])
        return vector("f32", [spell("exp", "f32", [value.lane(each)]) for each in range(LANES)])
    # As accurate as WGSL demands is enough here: errors are relative to weights that are the smaller the larger they are.
    return Call("exp2", (value * Literal(_LOG2_E, "f32"),), value.type)


class Softmax:
    """The running softmax of a thread's rows: the largest score so far, and the thread's part of the weights' sum."""

    def __init__(self, module: Module, tile: AttentionTile) -> None:
        self.module, self.body = module, module.body
        self.count, self.across = tile.rows // LANES, tile.across
        self.groups, self.step = tile.m // LANES, tile.m // LANES // self.count
        self.shared = module.array("row_values", "vec4<f32>", self.groups * tile.across)

    def begin(self, place: tuple[Name, Name]) -> None:
        """Declare the state of the thread at a place."""
        self.place = place
        low = vector("f32", [Literal(LOWEST, "f32")] * LANES)
        self.tops = [self.body.var(f"top{each}", low) for each in range(self.count)]
        self.totals = [self.body.var(f"total{each}", zero("vec4<f32>")) for each in range(self.count)]

    def _group(self, number: int) -> Node:
        return self.place[0] + fixed(number * self.step)

    def _exchange(self, values: list[Node]) -> list[list[Node]]:
        """Return for each group of four rows what the threads that share them have."""
        for number, value in enumerate(values):
            self.body.set(self.shared[self.place[1] * fixed(self.groups) + self._group(number)], value)
        self.body.barrier()
        return [
            [self.shared[fixed(each * self.groups) + self._group(number)] for each in range(self.across)]
            for number in range(self.count)
        ]

    def update(self, scores: list[list[Name]], sums: list[ThreadSums]) -> None:
        """Turn a thread's scores, vectors of four columns for each row, into weights relative to the rows' largest scores."""
        body = self.body
        own: list[Node] = []
        for row in scores:
            most = row[0]
            for other in row[1:]:
                most = Call("max", (most, other), "vec4<f32>")
            most = body.let(self.module.fresh("most"), most)
            pairs = [Call("max", (most.lane(each), most.lane(each + 1)), "f32") for each in (0, 2)]
            own.append(Call("max", tuple(pairs), "f32"))
        found = self._exchange([vector("f32", own[each : each + LANES]) for each in range(0, len(own), LANES)])
        for number, (top, total, others) in enumerate(zip(self.tops, self.totals, found, strict=True)):
            largest = body.var(f"largest{number}", top)
            for other in others:
                body.set(largest, Call("max", (largest, other), "vec4<f32>"))
            shrink = body.let(f"shrink{number}", power(self.module, top - largest))
            body.set(top, largest)
            body.set(total, total * shrink)
            for lane in range(LANES):
                for each in sums:
                    for value in each.sums[number * LANES + lane]:
                        body.set(value, value * shrink.lane(lane))
        for number, row in enumerate(scores):
            top, total = (
                self.tops[number // LANES].lane(number % LANES),
                self.totals[number // LANES].lane(number % LANES),
            )
            for score in row:
                body.set(score, power(self.module, score - vector("f32", [top] * LANES)))
                both = body.let(
                    self.module.fresh("both"),
                    Call("dot", (score, vector("f32", [Literal(1.0, "f32")] * LANES)), "f32"),
                )
                body.set(total, total + both)

    def finish(self, sums: list[ThreadSums], divides: bool) -> None:
        """Write the sum of the rows' weights and, unless other workgroups have more of them, the division of the sums by these."""
        body = self.body
        body.barrier()
        for number, (total, others) in enumerate(zip(self.totals, self._exchange(list(self.totals)), strict=True)):
            body.set(total, others[0])
            for other in others[1:]:
                body.set(total, total + other)
            if not divides:
                continue
            # A row that attends to nothing has zeros.
            least = vector("f32", [Literal(1e-37, "f32")] * LANES)
            one = vector("f32", [Literal(1.0, "f32")] * LANES)
            share = body.let(f"share{number}", one // Call("max", (total, least), "vec4<f32>"))
            for lane in range(LANES):
                for each in sums:
                    for value in each.sums[number * LANES + lane]:
                        body.set(value, value * share.lane(lane))

    def state(self, row: int) -> tuple[Node, Node]:
        """Return the largest score of a row, and the sum of its weights."""
        return self.tops[row // LANES].lane(row % LANES), self.totals[row // LANES].lane(row % LANES)
