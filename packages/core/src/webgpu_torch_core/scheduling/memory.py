"""The memory planner: which buffer every value lives in, and where a value may be overwritten in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend.interface import Copy, Plan, Step
from ..ir.kernels import Operand
from .localizing import Finished
from .placing import Slots


class Scheduled:
    """A plan and which graph slots its external buffers are.

    ``inputs`` are the leading external buffers (leaf slots); ``outputs`` lists (slot, buffer index); buffer indices below
    ``len(inputs)`` mean that the output took over a leaf's buffer. ``fresh`` are sizes in bytes of the other externals;
    ``filled`` lists for each step the slots that its outputs are; ``followed`` tells whether it was looked at where repetitions
    may be handed over early, ``repeatable`` whether any step may run twice: none overwrites what it or a step before it reads.
    ``single``: it is one such step, of one kernel.
    ``overwritten`` are the inputs that it writes into; ``used``: when it ran last.
    """

    __slots__ = (
        "filled",
        "followed",
        "fresh",
        "inputs",
        "outputs",
        "overwritten",
        "plan",
        "repeatable",
        "single",
        "used",
    )

    def __init__(
        self,
        plan: Plan,
        inputs: tuple[int, ...],
        outputs: tuple[tuple[int, int], ...],
        fresh: tuple[int, ...],
        filled: tuple[tuple[int, ...], ...],
    ):
        self.plan = plan
        self.filled = filled
        self.inputs = inputs
        self.outputs = outputs
        self.fresh = fresh
        self.followed = False
        self.used = 0
        self.overwritten = sorted({each for step in plan.steps for each in written_by(step) if each < len(inputs)})
        self.repeatable = not plan.temporaries and all(_writes_anew(step, len(inputs)) for step in plan.steps)
        self.single = self.repeatable and len(plan.steps) == 1 and not isinstance(plan.steps[0], Copy)

    def contents(self, position: int, begun: bool) -> dict[int, int]:
        """Return which slot every buffer holds when the steps before ``position`` have run; ``begun``: and that one in part."""
        found = dict(enumerate(self.inputs))
        for step, slots in zip(self.plan.steps[:position], self.filled, strict=False):
            if isinstance(step, Copy):
                found.pop(step.target, None)
            else:
                found.update(zip(step.outputs, slots, strict=True))
        if begun:
            step = self.plan.steps[position]
            for each in written_by(step):
                found.pop(each, None)
        return found


def written_by(step: Step | Copy) -> Sequence[int]:
    """Return the buffers that a step writes into."""
    return (step.target,) if isinstance(step, Copy) else step.outputs


def _writes_anew(step: Step | Copy, count: int) -> bool:
    """Return whether a step writes into buffers of its own only, which are none of the first ``count``."""
    if min(written_by(step), default=count) < count:
        return False
    if isinstance(step, Copy):
        return True
    return set(step.outputs).isdisjoint(step.operands) and all(each.initial is None for each in step.kernel.outputs)


class Place:
    """A buffer of the plan: an input, an output that outlives the plan (``fresh``), or a shared temporary."""

    __slots__ = ("kind", "nbytes", "number")

    def __init__(self, kind: str, nbytes: int) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.number = -1


class Planner:
    """Walks the finished kernels in order, giving every value a place."""

    def __init__(
        self, finished: list[Finished], slots: Slots, alive: frozenset[int], donatable: frozenset[int]
    ) -> None:
        self.finished = finished
        self.slots = slots
        self.alive = alive
        self.donatable = donatable
        self.place: dict[int, Place] = {}
        self.inputs: list[int] = []
        self.places: list[Place] = []
        self.free: list[Place] = []
        self.entries: list[tuple[Any, ...]] = []
        self.last_use = {slot: index for index, item in enumerate(finished) for slot in _touched(item)}

    def run(self) -> None:
        """Place every value and write the entries of the plan."""
        for item in self.finished:
            for slot in _touched(item):
                if self.slots[slot].is_leaf and slot not in self.place:
                    self.inputs.append(slot)
                    self.place[slot] = self._new("input", self._nbytes(slot))
                elif not self.slots[slot].numel and slot not in self.place:
                    # An empty value has no kernel, but what reads it still binds a buffer.
                    self.place[slot] = self._new("fresh" if slot in self.alive else "temporary", 0)
        for index, item in enumerate(self.finished):
            self._step(index, item)
            for slot in _touched(item):
                place = self.place[slot]
                owned = all(other is slot or self.place[other] is not place for other in item.outputs if other != slot)
                if self.last_use[slot] == index and place.kind == "temporary" and owned and place not in self.free:
                    self.free.append(place)
        for slot in sorted(self.alive):
            if slot not in self.place and not self.slots[slot].is_leaf:
                # Empty values have no kernel, but their tensors still want a buffer.
                self.place[slot] = self._new("fresh", 0)

    def _nbytes(self, slot: int) -> int:
        return self.slots[slot].numel * self.slots[slot].dtype.itemsize

    def _new(self, kind: str, nbytes: int) -> Place:
        place = Place(kind, nbytes)
        self.places.append(place)
        return place

    def _fresh_place(self, slot: int) -> Place:
        nbytes = self._nbytes(slot)
        if slot in self.alive:
            return self._new("fresh", nbytes)
        fitting = [each for each in self.free if nbytes <= each.nbytes <= 4 * nbytes + 4096]
        if not fitting:
            return self._new("temporary", nbytes)
        best = min(fitting, key=lambda each: each.nbytes)
        self.free.remove(best)
        return best

    def _may_take(self, slot: int, index: int, target: int) -> bool:
        """Return whether output ``target`` may overwrite the dying value ``slot``."""
        if self.last_use[slot] != index:
            return False
        if self.slots[slot].is_leaf:
            return slot in self.donatable
        # A temporary that becomes an output leaves the pool of temporaries for good: only when it is not oversized.
        wasteful = self.place[slot].nbytes > 2 * self._nbytes(target) + 4096
        return slot not in self.alive and not (target in self.alive and wasteful)

    def _step(self, index: int, item: Finished) -> None:
        kernel = item.kernel
        operands = list(kernel.operands)
        places = [self.place[slot] for slot in item.operands]
        outputs = list(kernel.outputs)
        taken: set[Place] = set()
        for number, slot in enumerate(item.outputs):
            initial = item.initials[number]
            source = self._source(index, item, number, slot, taken)
            if source is None:
                self.place[slot] = self._fresh_place(slot)
                if initial is None:
                    continue
                self.entries.append((self.place[initial], self.place[slot], self._nbytes(slot)))
                source = initial
            else:
                place = self.place[source]
                if slot in self.alive and place.kind == "temporary":
                    place.kind = "fresh"
                self.place[slot] = place
            taken.add(self.place[slot])
            if source in item.in_place[number]:
                position = item.operands.index(source)
                places[position] = self.place[slot]
            else:
                position = len(operands)
                operands.append(Operand(self.slots[slot].dtype, self.slots[slot].numel))
                places.append(self.place[slot])
            outputs[number] = outputs[number].replace(initial=position)
        kernel = kernel.replace(operands=tuple(operands), outputs=tuple(outputs))
        self.entries.append((kernel, places, item.outputs, item.parameters))

    def _source(self, index: int, item: Finished, number: int, slot: int, taken: set[Place]) -> int | None:
        """Return the slot whose buffer the output takes over, or None for a buffer of its own."""
        initial = item.initials[number]
        if initial is not None:
            readable = initial not in item.operands or initial in item.in_place[number]
            usable = readable and self._may_take(initial, index, slot) and self.place[initial] not in taken
            return initial if usable else None
        for candidate in item.in_place[number]:
            if self._may_take(candidate, index, slot) and self.place[candidate] not in taken:
                return candidate
        return None

    def number(self) -> tuple[list[int], list[int]]:
        """Number the places: inputs, fresh outputs, temporaries; return the sizes of the last two."""
        count = 0
        sizes: dict[str, list[int]] = {"input": [], "fresh": [], "temporary": []}
        for kind, nbytes in sizes.items():
            for place in self.places:
                if place.kind == kind:
                    place.number = count
                    nbytes.append(place.nbytes)
                    count += 1
        return sizes["fresh"], sizes["temporary"]


def _touched(item: Finished) -> list[int]:
    found = dict.fromkeys(item.operands)
    found.update(dict.fromkeys(slot for slot in item.initials if slot is not None))
    found.update(dict.fromkeys(item.outputs))
    return list(found)


def assign_buffers(finished: list[Finished], slots: Slots, alive: frozenset[int], donatable: frozenset[int]) -> Any:
    """Return the scheduled plan: steps, buffer sizes, and which slots the external buffers hold."""
    planner = Planner(finished, slots, alive, donatable)
    planner.run()
    fresh, temporaries = planner.number()
    steps: list[Step | Copy] = []
    filled: list[tuple[int, ...]] = []
    for entry in planner.entries:
        if len(entry) == 3:
            source, target, nbytes = entry
            steps.append(Copy(source.number, target.number, nbytes))
            filled.append(())
        else:
            kernel, operands, made, parameters = entry
            numbers = tuple(place.number for place in operands)
            steps.append(Step(kernel, numbers, tuple(planner.place[slot].number for slot in made), parameters))
            filled.append(tuple(made))
    outputs = tuple((slot, planner.place[slot].number) for slot in sorted(alive) if not slots[slot].is_leaf)
    plan = Plan(steps, len(planner.inputs) + len(fresh), temporaries)
    return Scheduled(plan, tuple(planner.inputs), outputs, tuple(fresh), tuple(filled))
