"""The scheduler: dead values dropped, pointwise chains inlined, kernels over one domain merged, buffers assigned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ..ir.kernels import Kernel, Pointwise, RowProgram, Scatter
from ..ir.layouts import contiguous_strides
from ..ir.reindexing import permutation
from . import merging
from .domain import schedule_cache
from .inlining import Inliner, bindings
from .limits import Limits
from .localizing import Finished, localize, unfused, with_buffers
from .memory import Scheduled, assign_buffers
from .placing import REPORTS, Placed, Slot, Slots, bound_slots, leaf, placed
from .preparing import prepared

#: most contractions that each compute one value for themselves: the projections of attention
MOST_PREPARING = 3
#: bindings left free by a merger of independent row programs
ROOM = 3


class Recorded:
    """One recorded kernel: its operands and outputs as graph slots, and where its parameters start."""

    __slots__ = ("kernel", "operands", "outputs", "parameter_start")

    def __init__(self, kernel: Any, operands: tuple[int, ...], outputs: tuple[int, ...], parameter_start: int) -> None:
        self.kernel = kernel
        self.operands = operands
        self.outputs = outputs
        self.parameter_start = parameter_start


def described(
    entries: Iterable[tuple[Kernel, tuple[int, ...], int, Sequence[float | int]]],
) -> tuple[list[Recorded], Slots]:
    """Return entries of a tape as the scheduler takes them, and what they tell of its slots."""
    slots = Slots(leaf)
    recorded: list[Recorded] = []
    parameter = 0
    for kernel, operands, first, parameters in entries:
        for slot, operand in zip(operands, kernel.operands, strict=True):
            if slots[slot].is_leaf:
                slots[slot].dtype, slots[slot].numel = operand.dtype, operand.numel
        outputs = tuple(range(first, first + len(kernel.outputs)))
        for slot, output in zip(outputs, kernel.outputs, strict=True):
            slots[slot] = Slot(output.dtype, output.numel, False)
        recorded.append(Recorded(kernel, operands, outputs, parameter))
        parameter += len(parameters)
    return recorded, slots


class _Pending(NamedTuple):
    """A kernel to place: the slots that it stores, what each starts from, and its number among those recorded."""

    item: Placed
    outputs: tuple[int, ...]
    initials: tuple[int | None, ...]
    number: int

    def started(self) -> set[int]:
        """Return the slots that it starts from."""
        return {slot for slot in self.initials if slot is not None}


class Group:
    """A kernel under construction: the slots that it stores and starts from, what it depends on."""

    __slots__ = ("ancestors", "identity", "initials", "item", "outputs", "slots", "started")

    def __init__(self, identity: int, first: _Pending) -> None:
        self.identity = identity
        self.item, self.outputs, self.initials, self.started = first
        self.ancestors = 0
        self.slots: set[int] = set()


def schedule(
    recorded: list[Recorded],
    slots: Slots,
    alive: frozenset[int],
    donatable: frozenset[int],
    limits: Limits,
    fuses: bool,
    reach: int | None = None,
) -> Scheduled:
    """Return the plan that computes every alive slot.

    Args:
        recorded: kernels in recording order.
        slots: the graph's values.
        alive: slots that must have a buffer afterwards.
        donatable: leaf slots whose buffers nobody else will read again.
        limits: what one kernel may become.
        fuses: False keeps one kernel per recorded operation.
        reach: how many kernels may have been recorded between two that become one; None: any number.
    """
    needed, uses, unread = _live_kernels(recorded, alive)
    if not fuses:
        return assign_buffers([unfused(item) for item in needed if _has_elements(item, slots)], slots, alive, donatable)
    groups = _merged(needed, slots, alive | unread, uses, limits, reach)
    return assign_buffers([localize(group, slots) for group in groups], slots, alive, donatable)


def joined(recorded: list[Recorded], slots: Slots, alive: frozenset[int], limits: Limits) -> Finished | None:
    """Return the one kernel that computes every alive slot, with its dimensions as they are; None where it takes several.

    Args: as for :func:`schedule`.
    """
    needed, uses, unread = _live_kernels(recorded, alive)
    groups = _merged(needed, slots, alive | unread, uses, limits)
    if len(groups) != 1 or any(each is not None for each in groups[0].initials):
        return None
    return localize(groups[0], slots, collapses=False)


def _merged(
    needed: list[Recorded],
    slots: Slots,
    alive: frozenset[int],
    uses: dict[int, int],
    limits: Limits,
    reach: int | None = None,
) -> list[Group]:
    """Return the groups that kernels are merged to, in an order in which they can run."""
    long = {
        number: -(-slot.numel * slot.dtype.itemsize // limits.binding_bytes) - 1
        for number, slot in slots.items()
        if slot.dtype is not None and slot.numel * slot.dtype.itemsize > limits.binding_bytes
    }
    builder = _Builder(slots, alive, uses, limits, long, reach)
    for item in needed:
        builder.add(item)
    return _ordered(builder.finish())


def _has_elements(item: Recorded, slots: Slots) -> bool:
    return any(slots[slot].numel for slot in item.outputs)


def _live_kernels(
    recorded: list[Recorded], alive: frozenset[int]
) -> tuple[list[Recorded], dict[int, int], frozenset[int]]:
    """Return the kernels that somebody needs, how often they read each slot, and what is computed for its report only."""
    wanted = set(alive)
    uses: dict[int, int] = {}
    unread: set[int] = set()
    kept = []
    for item in reversed(recorded):
        if wanted.isdisjoint(item.outputs):
            if REPORTS not in bound_slots(item.kernel):
                continue
            unread.update(item.outputs)
        kept.append(item)
        for slot in set(item.operands):
            wanted.add(slot)
            uses[slot] = uses.get(slot, 0) + 1
    return kept[::-1], uses, frozenset(unread)


class _Builder:
    def __init__(
        self,
        slots: Slots,
        alive: frozenset[int],
        uses: dict[int, int],
        limits: Limits,
        long: dict[int, int],
        reach: int | None,
    ) -> None:
        self.slots = slots
        self.alive = alive
        self.reach = reach
        self.limits = limits
        #: how many bindings more than one the buffers of long slots take
        self.long = long
        self.inliner = Inliner(uses, alive, limits, long)
        self.pending: list[_Pending] = []

    def add(self, item: Recorded) -> None:
        """Take one recorded kernel: inline what it loads, and offer its own value to later ones."""
        expanded = self.inliner.expand(placed(item.kernel, item.operands, item.parameter_start))
        kernel = expanded.kernel
        initials = tuple(None if each.initial is None else item.operands[each.initial] for each in kernel.outputs)
        self.pending.append(_Pending(expanded, item.outputs, initials, len(self.pending)))
        dense = _in_order_of_memory(kernel, self.slots[item.outputs[0]].numel)
        if dense is not None:
            self.inliner.define(item.outputs[0], expanded._replace(kernel=dense))
        elif merging.is_mergeable(kernel):
            self.inliner.host(item.outputs)

    def finish(self) -> list[Group]:
        """Return the groups that compute every alive or loaded slot."""
        wanted = set(self.alive)
        kept = []
        for each in reversed(self.pending):
            if wanted.isdisjoint(each.outputs):
                continue
            wanted.update(each.item.slots)
            wanted.update(each.started())
            kept.append(each)
        merger = _Merger(self.slots, wanted, self.limits, self.long, self.reach)
        for each in reversed(kept):
            if any(self.slots[slot].numel for slot in each.outputs):
                merger.add(each)
        return merger.finish(self.alive)


class _Merger:
    """Places kernels into groups, joining an earlier group where that keeps the order of dependencies."""

    def __init__(self, slots: Slots, wanted: set[int], limits: Limits, long: dict[int, int], reach: int | None) -> None:
        self.slots = slots
        self.reach = reach
        self.wanted = wanted
        self.limits = limits
        self.long = long
        self.groups: list[Group] = []
        self.producer: dict[int, Group] = {}
        self.readers: dict[int, list[Group]] = {}

    def add(self, new: _Pending) -> None:
        """Merge the kernel into a group or open a new one."""
        item, started = new.item, new.started()
        loads = item.bound() | started
        sources = {self.producer[slot].identity: self.producer[slot] for slot in loads if slot in self.producer}
        candidates: list[Group] = []
        if isinstance(item.kernel, Pointwise | RowProgram) and not started:
            candidates = self._candidates(loads, sources)
        elif isinstance(item.kernel, Scatter) and self.limits.places:
            candidates = [each for each in self._candidates(set(), sources) if self._may_write(each, item, started)]
        for candidate in candidates:
            if self._merge(candidate, new, loads, sources):
                return
        group = Group(len(self.groups), new)
        self.groups.append(group)
        self._connect(group, new.outputs, loads, sources)

    def _candidates(self, loads: AbstractSet[int], sources: dict[int, Group]) -> list[Group]:
        found = dict(sources)
        for slot in loads - {REPORTS}:
            for reader in self.readers.get(slot, ())[-4:]:
                found.setdefault(reader.identity, reader)
        ordered = sorted(found.values(), key=lambda group: (group.identity not in sources, -group.identity))
        return [group for group in ordered if merging.is_mergeable(group.item.kernel)]

    def _may_write(self, group: Group, item: Placed, started: set[int]) -> bool:
        """Return whether a group that a kernel reads could write in its place into what that starts from: what the group does not
        read, nor make, nor anybody who would come after it then."""
        later = [each for slot in started for each in self.readers.get(slot, ()) if each.identity >= group.identity]
        return not later and started.isdisjoint(group.outputs) and not group.slots.isdisjoint(item.slots)

    def _merge(self, group: Group, new: _Pending, loads: AbstractSet[int], sources: dict[int, Group]) -> bool:
        item, outputs, initials, number = new
        if self.reach is not None and number - group.started > self.reach:
            return False
        bit = 1 << group.identity
        if any(each is not group and each.ancestors & bit for each in sources.values()):
            return False
        bound = (group.slots | loads | set(outputs)) - {s for s in group.outputs if s not in self.wanted}
        # What an output starts from is in its buffer.
        bound.difference_update(initials)
        # Rows that only share what they read leave bindings for what follows from them: that saves more.
        apart = group.identity not in sources and isinstance(item.kernel, RowProgram)
        # Where they would wait for something, all that the group reads would stay in memory until then.
        if apart and any(each.identity > group.identity for each in sources.values()):
            return False
        if bindings(bound, self.long) > self.limits.bindings - (ROOM if apart else 0):
            return False
        merged = merging.merged(item, group.item, group.outputs, group.identity in sources)
        if merged is None or not self.limits.fits(merged.kernel):
            return False
        group.item = merged
        group.outputs += outputs
        group.initials += initials
        before = group.ancestors
        self._connect(group, outputs, loads, sources)
        if group.ancestors != before:
            for other in self.groups:
                if other.ancestors & bit:
                    other.ancestors |= group.ancestors
        return True

    def _connect(
        self, group: Group, outputs: tuple[int, ...], loads: AbstractSet[int], sources: dict[int, Group]
    ) -> None:
        for source in sources.values():
            if source is not group:
                group.ancestors |= source.ancestors | (1 << source.identity)
        for slot in outputs:
            self.producer[slot] = group
        for slot in loads:
            readers = self.readers.setdefault(slot, [])
            if group not in readers:
                readers.append(group)
        group.slots |= loads | set(outputs)

    def finish(self, alive: frozenset[int]) -> list[Group]:
        """Return the groups with the stores nobody reads removed."""
        wanted = set(alive)
        for group in self.groups:
            wanted.update(group.item.slots)
            wanted.update(slot for slot in group.initials if slot is not None)
        for group in self.groups:
            _drop_unread(group, wanted)
        return self._prepared(alive)

    def _prepared(self, alive: frozenset[int]) -> list[Group]:
        """Return the groups without those whose value the contractions that read it compute themselves."""
        readers: dict[int, list[Group]] = {}
        for group in (each for each in self.groups if each.outputs):
            for slot in {*group.item.slots, *(each for each in group.initials if each is not None)}:
                readers.setdefault(slot, []).append(group)
        return [
            group
            for group in self.groups
            if len(group.outputs) != 1 or group.outputs[0] in alive or not self._put_into(group, readers)
        ]

    def _put_into(self, group: Group, readers: dict[int, list[Group]]) -> bool:
        """Have all contractions that read a group's value compute it, if all of them can; return whether they do."""
        (slot,) = group.outputs
        mine, known = group.item.bound(), readers.get(slot, [])
        if REPORTS in mine or group.initials != (None,) or len(known) > MOST_PREPARING:
            return False
        items: list[Placed] = []
        for each in known:
            # What is written over is there before the kernel runs.
            if slot in each.initials:
                return False
            item = prepared(each.item, slot, group.item)
            if item is None or not self.limits.fits(item.kernel):
                return False
            if not self.limits.gains(with_buffers(item, each.outputs, self.slots)):
                return False
            if bindings(item.bound() | set(each.outputs), self.long) > self.limits.bindings:
                return False
            items.append(item)
        bit = 1 << group.identity
        for each in self.groups:
            if each.ancestors & bit:
                each.ancestors = each.ancestors & ~bit | group.ancestors
        for each, item in zip(known, items, strict=True):
            each.item = item
            each.slots |= mine
            for other in mine:
                readers.setdefault(other, []).append(each)
        return True


def _drop_unread(group: Group, wanted: set[int]) -> None:
    kernel = group.item.kernel
    kept = [index for index, slot in enumerate(group.outputs) if slot in wanted]
    if len(kept) == len(group.outputs) or not hasattr(kernel, "stores"):
        return
    number = {old: new for new, old in enumerate(kept)}
    changes = {"outputs": tuple(kernel.outputs[index] for index in kept)}
    for field in ("row_stores", "stores"):
        if hasattr(kernel, field):
            changes[field] = tuple(
                each.replace(output=number[each.output]) for each in getattr(kernel, field) if each.output in number
            )
    group.item = group.item.changed(kernel.replace(**changes))
    group.outputs = tuple(group.outputs[index] for index in kept)
    group.initials = tuple(group.initials[index] for index in kept)


def _ordered(groups: list[Group]) -> list[Group]:
    """Return the groups so that each comes after its ancestors, otherwise in recording order."""
    done = 0
    remaining = list(groups)
    result: list[Group] = []
    while remaining:
        waiting = []
        for group in remaining:
            if group.ancestors & ~done:
                waiting.append(group)
            else:
                result.append(group)
                done |= 1 << group.identity
        if len(waiting) == len(remaining):
            raise RuntimeError("the schedule has a cycle; this is a defect of the scheduler")
        remaining = waiting
    return [group for group in result if group.outputs]


@schedule_cache
def _in_order_of_memory(kernel: Kernel, numel: int) -> Pointwise | None:
    """Return a single expression stored densely over its whole output, over that output's elements as they lie in memory.

    None where a kernel is none. What is computed of a permuted tensor is stored as permuted as that.
    """
    if not isinstance(kernel, Pointwise) or len(kernel.stores) != 1 or kernel.outputs[0].initial is not None:
        return None
    shape, (store,) = kernel.shape, kernel.stores
    if store.offset or kernel.elements() != numel or not store.is_plain:
        return None
    # Along a dimension of one element nothing is strided.
    real = [place for place, size in enumerate(shape) if size != 1]
    order = sorted(real, key=lambda place: -store.strides[place])
    sizes = tuple([shape[place] for place in order])
    if tuple([store.strides[place] for place in order]) != contiguous_strides(sizes):
        return None
    return kernel if order == real else kernel.reindexed([sizes], permutation(order))
