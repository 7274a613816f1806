"""The lazy graph: values that may not have been computed yet, recorded kernels, and the cache of plans.

Recording appends a kernel and a few integers; nothing runs until somebody reads. The list of those integers is the
structure of the graph, so the plan of a loop's second iteration is found by one dictionary look-up.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..backend import profiling
from ..backend.interface import Copy, Device, Plan
from ..ir.dtypes import dtype
from ..scheduling import Recorded, Scheduled, schedule
from ..scheduling.domain import groups
from ..scheduling.schedule import Slot

NODE_LIMIT = int(os.environ.get("WEBGPU_TORCH_NODE_LIMIT", "8192"))
PLAN_CACHE_LIMIT = 512


class Value:
    """A flat run of elements on a device: a buffer, or a slot of the graph that will fill one.

    ``owner`` refers weakly to the one storage whose value this is. ``epoch`` tells whether ``slot`` belongs to the graph
    being recorded now. ``saved``: backward relies on these elements although PyTorch would not.
    """

    __slots__ = ("__weakref__", "buffer", "dtype", "engine", "epoch", "numel", "outside", "owner", "saved", "slot")

    def __init__(self, engine: Engine, dtype: dtype, numel: int, buffer: Any = None) -> None:
        self.engine = engine
        self.dtype = dtype
        self.numel = numel
        self.buffer = buffer
        self.epoch: object = None
        self.slot = -1
        self.owner: Any = None
        self.outside: tuple[Callable[[], Any], ...] = ()
        self.saved = False

    @property
    def shared(self) -> bool:
        """Whether somebody outside sees this memory (an array given to ``from_numpy`` or returned by ``numpy()``).

        The planner never overwrites such a buffer, and operations that read it run at once.
        """
        return any(each() is not None for each in self.outside)

    def share(self, visible: Callable[[], Any]) -> None:
        """Note that somebody outside sees this memory as long as ``visible()`` (a weak reference) is not None."""
        self.outside = (*(each for each in self.outside if each() is not None), visible)

    def realize(self) -> Any:
        """Return the buffer, computing it first if need be."""
        if self.buffer is None:
            self.engine.flush()
            if self.buffer is None:
                raise RuntimeError("this value's computation failed earlier; its tensor holds nothing")
        return self.buffer


class Engine:
    """Records kernels for one device and runs them as plans."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.plans: dict[Any, tuple[Scheduled, list[Any]]] = {}
        self.statistics = {"recorded": 0, "flushes": 0, "scheduled": 0, "kernels": 0, "reads": 0}
        self.eager = os.environ.get("WEBGPU_TORCH_EAGER", "0") not in ("", "0")
        self.capture: Any = None
        # By its messages, a value that says which of them applies (0: none): read with the next results.
        self.checks: dict[tuple[str, ...], Value] = {}
        self._reset()

    def _reset(self) -> None:
        self.epoch = object()
        self.kernels: list[Any] = []
        self.signature: list[int] = []
        self.references: list[weakref.ref[Value]] = []
        self.buffers: list[Any] = []
        self.parameters: list[float | int] = []
        self.hasty = False

    def _import(self, value: Value) -> int:
        """Give a computed value a slot in the graph being recorded."""
        slot = len(self.references)
        if value.buffer is None:
            raise RuntimeError("a value's computation failed earlier; its tensor holds nothing")
        value.epoch = self.epoch
        value.slot = slot
        self.references.append(weakref.ref(value))
        self.buffers.append(value.buffer)
        # -2: a buffer that must keep its contents, whoever still refers to it.
        # A recording notes every value that enters, shared or not.
        constant = self.capture is not None and not self.capture.enter(value)
        shared = bool(value.outside) and value.shared
        # Whoever sees this memory may write into it as soon as the operation returns.
        self.hasty = self.hasty or (shared and self.capture is None)
        kept = shared or constant
        self.signature.append(-2 if kept else -1)
        return slot

    def record(self, kernel: Any, values: Sequence[Value], parameters: Sequence[float | int] = ()) -> list[Value]:
        """Append a kernel over these values and return its outputs, which nothing has computed yet."""
        with self.lock:
            epoch = self.epoch
            signature = self.signature
            slots = [value.slot if value.epoch is epoch else self._import(value) for value in values]
            self.kernels.append(kernel)
            signature.append(id(kernel))
            signature.extend(slots)
            if parameters:
                self.parameters.extend(parameters)
            outputs = []
            references, buffers = self.references, self.buffers
            for output in kernel.outputs:
                value = Value(self, output.dtype, output.numel)
                value.epoch = epoch
                value.slot = len(references)
                references.append(weakref.ref(value))
                buffers.append(None)
                outputs.append(value)
            if self.eager or self.hasty or len(self.kernels) >= NODE_LIMIT:
                self.flush()
            return outputs

    def allocate(self, dtype: dtype, numel: int) -> Value:
        """Return a value with a buffer of undefined contents."""
        return Value(self, dtype, numel, self.device.allocate(numel * dtype.itemsize))

    def upload(self, dtype: dtype, data: Any) -> Value:
        """Return a value holding host bytes."""
        view = memoryview(data).cast("B") if not isinstance(data, memoryview) or data.format != "B" else data
        value = self.allocate(dtype, len(view) // dtype.itemsize)
        if len(view):
            self.device.write(value.buffer, view)
        return value

    def read(self, value: Value) -> bytearray:
        """Return a value's bytes, computing it first if need be."""
        if self.capture is not None:
            self.capture.broken = "it reads results while it runs"
        self.statistics["reads"] += 1
        buffer = value.realize()
        if self.checks:
            self.raise_failed_checks()
        nbytes = value.numel * value.dtype.itemsize
        return self.device.read(buffer, nbytes) if nbytes else bytearray()

    def raise_failed_checks(self) -> None:
        """Raise the RuntimeError of a check that failed since the last results were read."""
        checks, self.checks = self.checks, {}
        for messages, value in checks.items():
            failed = int.from_bytes(self.device.read(value.realize(), 4), sys.byteorder)
            if failed:
                raise RuntimeError(messages[failed - 1])

    def overwrite(self, target: Value, source: Value) -> None:
        """Copy a value's elements into the buffer of another, whose memory is visible outside."""
        with self.lock:
            buffer = source.realize()
            nbytes = target.numel * target.dtype.itemsize
            self.device.run(Plan([Copy(0, 1, nbytes)], 2, ()), [buffer, target.buffer], ())
            self.device.synchronize()
            if self.capture is not None and target.owner() is not None:
                self.capture.overwrite(self, target.owner(), source)

    def flush(self) -> None:
        """Compute everything recorded that somebody can still reach."""
        with self.lock:
            if not self.kernels:
                return
            alive = tuple(slot for slot, ref in enumerate(self.references) if ref() is not None)
            recording = (self.kernels, self.signature, self.references, self.buffers, self.parameters)
            self._reset()
            self._execute(alive, *recording)

    def _execute(
        self,
        alive: tuple[int, ...],
        kernels: list[Any],
        signature: list[int],
        references: list[weakref.ref[Value]],
        buffers: list[Any],
        parameters: list[float | int],
    ) -> None:
        key = (tuple(signature), alive)
        found = self.plans.get(key)
        if found is None:
            scheduled = profiling.timed(
                "webgpu_torch::schedule", self._schedule, alive, kernels, signature, references, buffers
            )
            found = (scheduled, kernels)
            explain(self.device, found[0].plan)
            if len(self.plans) >= PLAN_CACHE_LIMIT:
                self.plans.pop(next(iter(self.plans)))
            self.plans[key] = found
        scheduled = found[0]
        self.statistics["flushes"] += 1
        self.statistics["recorded"] += len(kernels)
        self.statistics["kernels"] += len(scheduled.plan.steps)
        externals = [buffers[slot] for slot in scheduled.inputs]
        externals += [self.device.allocate(nbytes) for nbytes in scheduled.fresh]
        if self.capture is not None:
            self.capture.add(self, scheduled, parameters, buffers)
            self.capture.ran(externals, scheduled, references)
        if scheduled.plan.steps:
            profiling.run(self.device, scheduled.plan, externals, parameters)
        for slot, number in scheduled.outputs:
            value = references[slot]()
            if value is not None:
                value.buffer = externals[number]
                value.epoch = None

    def _schedule(
        self,
        alive: tuple[int, ...],
        kernels: list[Any],
        signature: list[int],
        references: list[weakref.ref[Value]],
        buffers: list[Any],
    ) -> Scheduled:
        self.statistics["scheduled"] += 1
        slots: list[Slot] = []
        recorded: list[Recorded] = []
        donatable: set[int] = set()
        position, parameter = 0, 0
        living = frozenset(alive)
        kernel_at = iter(kernels)
        # The signature replays the recording: -1 and -2 import a leaf, anything else is a kernel and its slots.
        while position < len(signature):
            entry = signature[position]
            position += 1
            if entry in (-1, -2):
                if entry == -1 and len(slots) not in living:
                    donatable.add(len(slots))
                slots.append(Slot(None, 0, True))
                continue
            kernel = next(kernel_at)
            count = len(kernel.operands)
            operands = tuple(signature[position : position + count])
            position += count
            for slot, operand in zip(operands, kernel.operands, strict=True):
                if slots[slot].is_leaf:
                    slots[slot].dtype, slots[slot].numel = operand.dtype, operand.numel
            outputs = tuple(range(len(slots), len(slots) + len(kernel.outputs)))
            slots.extend(Slot(each.dtype, each.numel, False) for each in kernel.outputs)
            recorded.append(Recorded(kernel, operands, outputs, parameter))
            parameter += len(kernel.parameters)
        leaves_alive = frozenset(slot for slot in living if not slots[slot].is_leaf)
        return schedule(
            recorded,
            slots,
            leaves_alive,
            frozenset(donatable),
            self.device.maximum_bindings,
            self.device.fuses and not self.eager,
        )


def explain(device: Device, plan: Plan) -> None:
    """Print a new plan's kernels (level 3) and their source (level 4)."""
    level = debug_level()
    for number, step in enumerate(plan.steps if level >= 3 else ()):
        if isinstance(step, Copy):
            print(f"{device.name}: step {number}: copy of {step.nbytes} bytes", file=sys.stderr)
            continue
        domain = " ".join(str(group) for group in groups(step.kernel))
        shown = f"{step.kernel.form} '{step.kernel.name}' over {domain}"
        print(f"{device.name}: step {number}: {shown}, buffers {step.operands} -> {step.outputs}", file=sys.stderr)
        if level >= 4:
            print(device.source(step.kernel), file=sys.stderr)


def debug_level() -> int:
    """Return ``WEBGPU_TORCH_DEBUG`` as a number (0 when unset)."""
    text = os.environ.get("WEBGPU_TORCH_DEBUG", "0")
    return int(text) if text.isdigit() else 0
