"""Contractions of few rows whose left side is computed first: by every workgroup, into its memory.

All threads of a workgroup read the rows together, reduce them, and leave each element that the product needs where all of them
find it. The large side is then read once, as in any contraction of few rows; a workgroup takes several strips of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Contraction, PreparedContraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .contraction_vector import Strip, VectorGenerator, vector_seconds
from .ir import Node, fixed, minimum, u32, vector
from .lowering import Lowering
from .module import LINEAR_GROUP, THREAD, WORKGROUP
from .row_states import State, merge_workgroup
from .statements import Statement, loads_first

#: bytes of workgroup memory that reductions take, and those of a thread's sums of one row
REDUCED, _SUMMED = 1 << 12, 16
#: workgroups for each unit of an adapter: each prepares the rows once
AT_ONCE = 4
#: operations that a step of an element takes, of which a few wait for others
_STEP = 20
#: most turns that are written one after another, so that their loads are under way together
_TURNS = 4
#: bytes that a thread reads at once where these are numbers: what they are multiplied with is near
_WIDEST = 16


def prepared_seconds(kernel: PreparedContraction, plan: None, facts: Facts) -> float:
    """Return an estimate of the time that a contraction of few rows takes whose workgroups compute these first."""
    return computing_seconds(kernel, AT_ONCE, facts) + vector_seconds(kernel, plan, facts)


def computing_seconds(kernel: PreparedContraction, turns: float, facts: Facts) -> float:
    """Return an estimate of the time in which each unit computes the rows so many times, one after another."""
    roots = (kernel.left, *(each.value for each in kernel.reductions))
    steps = sum(1 for node in topological(*roots) if node.arguments)
    elements = number_of_elements(kernel.m) * number_of_elements(kernel.k)
    return turns * elements * steps * _STEP * facts.units / facts.flops


def generate_prepared(kernel: PreparedContraction, capabilities: Capabilities) -> Program:
    """Return the program of a contraction of few rows that computes these first."""
    return PreparedGenerator(Frame(kernel, capabilities), capabilities).generate()


def rows_find_place(kernel: Contraction, capabilities: Capabilities) -> bool:
    """Return whether the rows of the left side can lie in a workgroup's memory, beside reductions and sums."""
    m, k = number_of_elements(kernel.m), number_of_elements(kernel.k)
    return 4 * m * k + _SUMMED * WORKGROUP * min(m, LANES) + REDUCED <= capabilities.workgroup_bytes


def at_once(facts: Facts, threads: int) -> int:
    """Return how many workgroups of so many threads are computed at once."""
    return max(1, AT_ONCE * WORKGROUP // threads) * facts.units


def workgroups_of(strips: int, capabilities: Capabilities, threads: int = WORKGROUP) -> int:
    """Return how many workgroups share strips evenly: at most as many as are computed at once, for each prepares the rows once."""
    return -(-strips // -(-strips // at_once(capabilities.facts, threads)))


def _refused(node: Expression, index: Node | None) -> Node:
    raise TypeError(f"'{node.step}' is no number of a row")


class PreparedGenerator(VectorGenerator):
    """Stages the small side, and reads it from there."""

    def __init__(self, frame: Frame, capabilities: Capabilities, strip: Strip | None = None) -> None:
        super().__init__(frame, capabilities, strip, _WIDEST)
        #: four neighbours lie together where products read them together
        self.grouped = frame.k % LANES == 0
        self._declare()

    def _declare(self) -> None:
        """Declare where the rows are staged."""
        size = self.rows * self.frame.k
        self.staged = self.frame.module.array(
            "rows", "vec4<f32>" if self.grouped else "f32", size // LANES if self.grouped else size
        )

    def generate(self) -> Program:
        """Return the program."""
        body, workgroups = self.body, workgroups_of(self.total, self.capabilities, self.workgroup)
        self.coordinates = self.frame.batch_coordinates(fixed(0))
        if workgroups == self.total:
            self._single()
        else:
            self._prepare()
            with body.loop("linear", LINEAR_GROUP, lambda at: at < self.total, workgroups) as linear:
                self._strip(linear)
                if not self.apart:
                    # The next sums go where these are.
                    body.barrier()
        return self._program(workgroups)

    def _single(self) -> None:
        """Write what a workgroup does that has one strip: what it loads of that is on its way while it computes the rows."""
        body, rows, strip = self.body, list[Statement](), list[Statement]()
        linear = body.let("linear", LINEAR_GROUP)
        body.leave(linear >= self.total)
        with body.inside(rows):
            self._prepare()
        with body.inside(strip):
            self._strip(linear)
        early, late = loads_first(strip, rows)
        for each in (*early, *rows, *late):
            body.add(each)

    def _prepare(self) -> None:
        """Write what leaves the rows where all threads of the workgroup find them."""
        for row in range(self.rows):
            self._reduce(u32(row), row)
            self._stage(row)
        self.body.barrier()

    def _reduce(self, row: Node, number: int) -> None:
        """Write the reductions of a row, the kernel's so many-th."""
        frame, body, kernel = self.frame, self.body, self.frame.kernel
        frame.given = {}
        reductions = kernel.reductions if isinstance(kernel, PreparedContraction) else ()
        for each, reduction in enumerate(reductions):
            count = number * len(reductions) + each
            state = State(frame.module, reduction, count)
            self._take(
                Side(kernel, reduction.value, "m"),
                row,
                lambda _, values, places, state=state: state.fold(values, places),
            )
            merge_workgroup(state, self.workgroup, self.capabilities.subgroup_size, count)
            result = body.let(f"reduced{number}_{each}", state.result())
            roots = (kernel.left, *(one.value for one in reductions))
            found = [node for node in topological(*roots) if node.step == "reduced" and node.payload == each]
            frame.given |= dict.fromkeys(found, result)
            self._know(roots)

    def _stage(self, row: int) -> None:
        """Write the stores of a row's elements."""

        def store(at: Node, values: list[Node], places: list[Node]) -> None:
            place = self._place(at)
            self.body.set(self.staged[place + u32(row * self._steps) if row else place], vector("f32", values))

        self._take(self.small, u32(row), store)

    def _take(self, side: Side, row: Node, use: Callable[[Node, list[Node], list[Node]], None]) -> None:
        """Write what every thread does with its share of a row: few loads are all under way before the first is used."""
        body, fresh, count = self.body, self.frame.module.fresh, self._steps
        turns = self._few_turns(count)
        if not turns:
            with body.loop(fresh("e"), THREAD, lambda at: at < count, self.workgroup) as at:
                places = self._places(at)
                use(at, self._values(side, row, places), places)
            return
        taken: list[tuple[Node | None, Node, list[Node], list[Node]]] = []
        for number, place in enumerate(turns, 1):
            at = body.let(fresh("e"), place)
            sure = number * self.workgroup <= int(count)
            places = self._places(at if sure else minimum(at, count - 1))
            taken.append((None if sure else at < count, at, self._values(side, row, places), places))
        for inside, at, values, places in taken:
            with nullcontext() if inside is None else body.when(inside):
                use(at, values, places)

    def _few_turns(self, count: int) -> list[Node]:
        """Return which of so many things a thread takes in each turn, where these are few and written one after another; else nothing."""
        turns = -(-int(count) // self.workgroup)
        count = turns if turns <= _TURNS else 0
        return [THREAD + fixed(turn * self.workgroup) if turn else THREAD for turn in range(count)]

    def _know(self, roots: Sequence[Expression]) -> None:
        """Write what is computed from reductions and numbers only: once for all elements of a row."""
        given = self.frame.given
        lowering = Lowering(self.frame.module, _refused, given=given)
        for node in topological(*roots):
            known = node.arguments and all(
                each in given or each.step in ("parameter", "constant") for each in node.arguments
            )
            if known and node not in given:
                given[node] = lowering.value(node)

    @property
    def _steps(self) -> int:
        """How many elements, or groups of them, a row has."""
        return self.frame.k // LANES if self.grouped else self.frame.k

    def _places(self, at: Node) -> list[Node]:
        """Return the places along k of an element or a group."""
        if not self.grouped:
            return [at]
        first = self.body.let(self.frame.module.fresh("k"), at * fixed(LANES))
        return [first + fixed(lane) if lane else first for lane in range(LANES)]

    def _values(self, side: Side, row: Node, places: list[Node]) -> list[Node]:
        """Write what computes neighbours of a row and return them."""
        frame = self.frame
        if self.grouped and side.lanes == LANES and side.axis == "k":
            found = self.body.let(frame.module.fresh("w"), frame.vector_of(side, self.coordinates, row, places[0]))
            return [found.lane(lane) for lane in range(LANES)]
        return [frame.element(side, self.coordinates, row, each) for each in places]

    def _small(self, row: int, start: Node, part: int) -> Node:
        if not self.grouped:
            return self.staged[start + u32(row * self.frame.k) if row else start]
        if self.reach > LANES:
            place = start // fixed(self.reach) + u32(row * self._steps + part * (self.frame.k // self.reach))
            return self.staged[place]
        at = start + u32(row * self.frame.k) if row else start
        four = self.staged[at // fixed(LANES)]
        return four if self.reach > 1 else four[at % fixed(LANES)]

    def _place(self, at: Node) -> Node:
        """Return where an element, or a group of them, lies: those that threads read at once are neighbours."""
        groups = self.reach // LANES
        return at % fixed(groups) * u32(self.frame.k // self.reach) + at // fixed(groups) if groups > 1 else at
