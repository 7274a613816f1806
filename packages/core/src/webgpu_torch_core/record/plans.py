"""Plans of long tapes, for the next process: scheduling a network's first step takes longer than to run it."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from types import ModuleType

from .. import backend, ir, scheduling
from ..backend.collection import without_collection
from ..backend.interface import Copy, Device, Plan, Step
from ..bounded import Bounded
from ..ir.digests import digest, remember, version_of
from ..ir.dtypes import BY_NAME, dtype
from ..ir.expression import topological
from ..scheduling import Limits, Scheduled, described, schedule
from .tape import Entry, Structure

#: plans that are kept however many kernels they are of, and of how many together more are
PLANS_KEPT, KERNELS_KEPT = 512, 1 << 17
#: of how many sizes the plan of one sequence of operations is kept for the next process, and how many sequences are counted
SIZES_KEPT, SEQUENCES = 16, 1024
_sizes: Bounded[tuple[object, ...], int] = Bounded(SEQUENCES)
#: how many kernels may be recorded between two that become one, where the device begins while the host records: the first would
#: wait for the second
REACH = 64


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

    def plan() -> Scheduled:
        name = None
        lasts = device.plan_files is not None and fuses and len(entries) >= device.plan_length
        if lasts and _of_few_sizes(entries, device):
            name = _name(entries, sorted(wanted), sorted(donatable), device, reach)
        found = None if name is None else _known(device, name)
        if found is None:
            found = schedule(*described(entries), frozenset(wanted), frozenset(donatable), limits, fuses, reach)
            if name is not None:
                _keep(device, name, found)
        return found

    return without_collection(plan)


def _of_few_sizes(entries: Sequence[Entry], device: Device) -> bool:
    """Return whether few tapes were planned so far that may differ from this one in sizes only.

    A loop over a growing sequence plans one for every length: their files would take the place of all others.
    """
    key = device.name, *[(kernel.name, operands, first) for kernel, operands, first, _ in entries]
    count = _sizes.get(key, 0)
    _sizes[key] = count + 1
    return count < SIZES_KEPT


def _known(device: Device, name: str) -> Scheduled | None:
    data = device.plan_files.read(name) if device.plan_files is not None else None
    if data is None:
        return None
    _, plan, parts, names, programs = pickle.loads(zlib.decompress(data))
    remember(names)
    device.take_programs(programs)
    return Scheduled(Plan(*plan), *parts)


def _keep(device: Device, name: str, scheduled: Scheduled) -> None:
    if device.plan_files is not None:
        plan = scheduled.plan
        # What the device makes of the plan meanwhile is not among its parts.
        parts = scheduled.inputs, scheduled.outputs, scheduled.fresh, scheduled.filled
        device.plan_files.write_later(
            name, partial(_written, device, (plan.steps, plan.externals, plan.temporaries), parts)
        )


def _written(
    device: Device, plan: tuple[Sequence[Step | Copy], int, Sequence[int]], parts: tuple[object, ...]
) -> bytes:
    kernels = dict.fromkeys(step.kernel for step in plan[0] if not isinstance(step, Copy))
    # All nodes in order come first: what refers to them then is written without going deep.
    nodes = topological(*[root for kernel in kernels for root in kernel.expressions()])
    names = [(kernel, digest(kernel)) for kernel in kernels]
    contents = nodes, plan, parts, names, device.programs(kernels)
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(contents)
    return zlib.compress(file.getvalue(), 1)


class _Pickler(pickle.Pickler):
    """Writes what has PyTorch's names beside the drop-in so that a process without it may read the plan, too."""

    def reducer_override(self, value: object) -> tuple[Callable[[str], dtype], tuple[str]]:
        """Return how a type is made again; others say that themselves."""
        return (_type_named, (value.name,)) if isinstance(value, dtype) else NotImplemented


def _type_named(name: str) -> dtype:
    return BY_NAME[name]


def _name(
    entries: Sequence[Entry], wanted: list[int], donatable: list[int], device: Device, reach: int | None
) -> str | None:
    """Return the name of the file with the plan of entries; None where the scheduler has no files to tell it by."""
    kind = type(device)
    version = _version((sys.modules[kind.__module__], *device.plan_modules))
    if version is None:
        return None
    facts = (device.maximum_bindings, device.binding_bytes, device.kernel_length, device.places, device.plan_facts)
    lines = [version, f"{kind.__module__}.{kind.__qualname__} {facts} {wanted} {donatable} {reach}"]
    lines += [f"{digest(kernel)} {operands} {first} {len(given)}" for kernel, operands, first, given in entries]
    return f"{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}.plan"


@lru_cache(maxsize=16)
def _version(modules: tuple[ModuleType, ...]) -> str | None:
    return version_of((ir, scheduling, backend, *modules))


__all__ = ["Plans", "planned"]
