"""Plans of long tapes, for the next process: scheduling a network's first step takes longer than to run it."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from types import ModuleType

from .. import backend, ir, scheduling
from ..backend.collection import without_collection
from ..backend.interface import Copy, Device, KeptFiles, Plan
from ..bounded import Bounded
from ..ir.digests import digest, remember, version_of
from ..ir.dtypes import BY_NAME, dtype
from ..ir.expression import topological
from ..ir.kernels import Kernel
from ..scheduling import Limits, Scheduled, described, schedule
from .tape import Entry, Structure

#: plans that are kept however many kernels they are of, and of how many together more are
PLANS_KEPT, KERNELS_KEPT = 512, 1 << 17
#: of how many sizes the plan of one sequence of operations is kept for the next process, and how many sequences are counted
SIZES_KEPT, SEQUENCES = 16, 1024
_sizes: Bounded[tuple[str, str], int] = Bounded(SEQUENCES)
#: how many kernels may be recorded between two that become one, where the device begins while the host records: the first would
#: wait for the second
REACH = 64
#: recorded kernels of a tape from which on a device hears of some before all are scheduled, and which part of them
EARLY, SOME = 64, 16


class Plans(dict[Structure, tuple[Scheduled, list[Entry]]]):
    """Plans by the structure of tapes, with the kernels that were recorded.

    A loop over a growing sequence has some of its own for every length, which its next run finds again.
    """

    def __init__(self) -> None:
        super().__init__()
        #: how many kernels were recorded for all of them
        self.recorded = 0

    def keep(self, structure: Structure, found: tuple[Scheduled, list[Entry]]) -> None:
        """Keep a plan, in place of those not used for longest where there are too many."""
        if len(self) >= PLANS_KEPT and self.recorded > KERNELS_KEPT:
            # A quarter at once: to look for the one plan not used for longest takes nearly as long as to sort them.
            for each in sorted(self, key=lambda key: self[key][0].used)[: len(self) // 4]:
                self.recorded -= len(self.pop(each)[1])
        self.recorded += len(found[1])
        self[structure] = found

    def clear(self) -> None:
        super().clear()
        self.recorded = 0


def planned(
    entries: Sequence[Entry],
    wanted: Iterable[int],
    donatable: Iterable[int],
    fuses: bool,
    device: Device,
    limits: Limits,
) -> Scheduled:
    """Return the plan of some entries of a tape, which an earlier process may have made.

    Args: as for :func:`webgpu_torch_core.scheduling.schedule`.
    """
    reach = REACH if device.asynchronous else None
    files, alive, free = device.plan_files, frozenset(wanted), frozenset(donatable)

    def plan() -> Scheduled:
        if files is None or not fuses or len(entries) < device.plan_length:
            return schedule(*described(entries), alive, free, limits, fuses, reach)
        # A loop over a growing sequence plans one for every length: their files would take the place of all others.
        sequence, count = _sequence(entries, device)
        name = partial(_name, sequence, entries, sorted(alive), sorted(free), device, reach)
        # To name all kernels takes a third of the time of scheduling them.
        found = _known(files, name(), device) if count < SIZES_KEPT and files.has(sequence) else None
        if found is None:
            if not count and len(entries) >= EARLY:
                device.expect(_some_kernels(entries, alive, limits, reach))
            found = schedule(*described(entries), alive, free, limits, fuses, reach)
            if count < SIZES_KEPT:
                files.write_later(partial(_written, name, found, device))
        return found

    return without_collection(plan)


def _some_kernels(entries: Sequence[Entry], alive: frozenset[int], limits: Limits, reach: int | None) -> list[Kernel]:
    """Return some kernels that entries become: of computations that have nothing to do with each other those of some, else those at
    the beginning and at the end, nearly all of which are the whole plan's."""
    apart = _apart(entries)
    if len(apart) >= SOME:
        some = [apart[number * (len(apart) - 1) // (SOME - 1)] for number in range(SOME)]
        chosen, wanted = sorted(chain.from_iterable(some), key=lambda entry: entry.output), alive
    else:
        count = len(entries) // (2 * SOME)
        chosen = [*entries[:count], *entries[-count:]]
        wanted = alive.union(*[entry.operands for entry in entries[count:-count]])
    steps = schedule(*described(chosen), wanted, frozenset(), limits, True, reach).plan.steps
    return [step.kernel for step in steps if not isinstance(step, Copy)]


def _apart(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each computation that has no slot in common with others."""
    found: dict[int, list[Entry]] = {}
    slots: dict[int, list[int]] = {}
    for entry in entries:
        touched = entry.slots()
        known = list({id(found[slot]): found[slot] for slot in touched if slot in found}.values())
        whole = max(known, key=len, default=[])
        mine = slots.setdefault(id(whole), [])
        for part in known:
            if part is not whole:
                whole += part
                moved = slots.pop(id(part))
                mine += moved
                found.update(dict.fromkeys(moved, whole))
        whole.append(entry)
        for slot in touched:
            if slot not in found:
                found[slot] = whole
                mine.append(slot)
    return list({id(part): part for part in found.values()}.values())


def _sequence(entries: Sequence[Entry], device: Device) -> tuple[str, int]:
    """Return what names of files begin with whose tapes differ from this one in sizes only, and how many were planned so far."""
    kind = type(device)
    version = _version((sys.modules[kind.__module__], *device.plan_modules))
    key = version, kind.__module__, *[(kernel.name, operands, first) for kernel, operands, first, _ in entries]
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    # Where no files tell the scheduler from another one, nothing is kept.
    count = SIZES_KEPT if version is None else _sizes.get((device.name, name), 0)
    _sizes[device.name, name] = count + 1
    return name, count


def _known(files: KeptFiles, name: str, device: Device) -> Scheduled | None:
    data = files.read(name)
    if data is None:
        return None
    _, plan, parts, names, programs = pickle.loads(zlib.decompress(data))
    remember(names)
    device.take_programs(programs)
    return Scheduled(Plan(*plan), *parts)


def _written(name: Callable[[], str], scheduled: Scheduled, device: Device) -> tuple[str, bytes]:
    """Return the name and the contents of the file with a plan."""
    # What the device makes of the plan meanwhile is not among its parts.
    plan = scheduled.plan.steps, scheduled.plan.externals, scheduled.plan.temporaries
    parts = scheduled.inputs, scheduled.outputs, scheduled.fresh, scheduled.filled
    kernels = dict.fromkeys(step.kernel for step in plan[0] if not isinstance(step, Copy))
    # All nodes in order come first: what refers to them then is written without going deep.
    nodes = topological(*[root for kernel in kernels for root in kernel.expressions()])
    names = [(kernel, digest(kernel)) for kernel in kernels]
    contents = nodes, plan, parts, names, device.programs(kernels)
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(contents)
    return name(), zlib.compress(file.getvalue(), 1)


class _Pickler(pickle.Pickler):
    """Writes what has PyTorch's names beside the drop-in so that a process without it may read the plan, too."""

    def reducer_override(self, value: object) -> tuple[Callable[[str], dtype], tuple[str]]:
        """Return how a type is made again; others say that themselves."""
        return (_type_named, (value.name,)) if isinstance(value, dtype) else NotImplemented


def _type_named(name: str) -> dtype:
    return BY_NAME[name]


def _name(
    sequence: str, entries: Sequence[Entry], wanted: list[int], donatable: list[int], device: Device, reach: int | None
) -> str:
    """Return the name of the file with the plan of entries, which begins with that of their sequence."""
    facts = (device.maximum_bindings, device.binding_bytes, device.kernel_length, device.places, device.plan_facts)
    lines = [f"{facts} {wanted} {donatable} {reach}"]
    lines += [f"{digest(kernel)} {operands} {first} {len(given)}" for kernel, operands, first, given in entries]
    return f"{sequence}-{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:32]}.plan"


@lru_cache(maxsize=16)
def _version(modules: tuple[ModuleType, ...]) -> str | None:
    return version_of((ir, scheduling, backend, *modules))


__all__ = ["Plans", "planned"]
