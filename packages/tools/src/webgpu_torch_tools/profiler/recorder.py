"""Takes the time of public calls, of users' ranges, and of the plans and kernels that the engine runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.backend import profiling
from webgpu_torch_core.backend.interface import Device
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.dispatch.overrides import TorchFunctionMode, close_mode
from webgpu_torch_core.record.devices import engines
from webgpu_torch_core.record.runs import Run
from webgpu_torch_nn.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .events import DeviceType, FunctionEvent
from .operations import flops, operation_name

OURS = ("webgpu_torch", "webgpu_torch_core", "webgpu_torch_nn", "webgpu_torch_models", "webgpu_torch_tools")


def on_host(device: Device) -> bool:
    """Return whether a device computes on the host while its plans run."""
    return registry.facts_of(device).on_host


def _memory() -> tuple[int, int]:
    """Return the bytes in use on the host and on devices."""
    host = device = 0
    for engine in engines():
        if on_host(engine.device):
            host += engine.device.memory_allocated()
        else:
            device += engine.device.memory_allocated()
    return host, device


def _callers() -> list[str]:
    """Return the lines that led here, innermost first, without this library's own."""
    frame = sys._getframe(1)
    lines = []
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in OURS:
            lines.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back
    return lines


class Range:
    """A span of host time; ``kernels`` holds what a device ran in it as (name, device, start, seconds, clock)."""

    __slots__ = (
        "category", "details", "end", "flops", "kernels", "memory", "name", "parent", "shapes", "stack", "start", "thread",
    )  # fmt: skip

    def __init__(self, name: str, category: str, parent: Range | None) -> None:
        self.name, self.category, self.parent = name, category, parent
        self.thread = threading.get_native_id()
        self.shapes: list[Any] = []
        self.stack: list[str] = []
        self.details: dict[str, Any] = {}
        self.kernels: list[tuple[str, str, int, float, str]] = []
        self.flops = 0
        self.memory: tuple[int, int] = (0, 0)
        self.start = time.perf_counter_ns()
        self.end: int | None = None


class Recorder(TorchFunctionMode, profiling.Observer):
    """Records from :meth:`start` to :meth:`stop`: a mode for the calls of this thread, an observer of the engine.

    Args:
        host: record operations, ranges and plans.
        devices: let devices time their kernels, which makes them run one at a time.
        shapes, flops, memory, stack: what else to note of each operation.
    """

    def __init__(self, *, host: bool, devices: bool, shapes: bool, flops: bool, memory: bool, stack: bool) -> None:
        self.host, self.devices = host, devices
        self.shapes, self.flops, self.memory, self.stack = shapes, flops, memory, stack
        self.ranges: list[Range] = []
        # Nanoseconds since 1970, and on the clock of the ranges.
        self.began = self.origin = 0
        self.active = self.paused = False
        self.names: dict[Any, str | None] = {}
        self._open: dict[int, list[Range]] = {}
        self._hooks: list[Any] = []

    # Beginning and end

    def start(self) -> None:
        """Begin, after what was recorded earlier has run."""
        _settle(wait=self.devices)
        self.began, self.origin = time.time_ns(), time.perf_counter_ns()
        self.active = True
        if self.host:
            self.__enter__()
            self._hooks = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]
        profiling.observe(self)

    def stop(self) -> None:
        """End, after what was recorded meanwhile has run."""
        if not self.active:
            return
        if self.host:
            close_mode(self)
        for hook in self._hooks:
            hook.remove()
        if any(engine.kernels for engine in engines()):
            self.timed("webgpu_torch::flush", _settle)
        if self.devices:
            _settle(wait=True)
        profiling.ignore(self)
        self.active = False
        for opened in list(self._open.values()):
            while opened:
                self.end(opened[0])

    def forget(self) -> None:
        """See :class:`profiling.Observer`: the mode stays open in this process, and lets everything through."""
        self.active = False
        self.ranges.clear()
        for hook in self._hooks:
            hook.remove()

    # Ranges

    def begin(self, name: str, category: str) -> Range:
        """Open a range inside of the one that is open in this thread."""
        opened = self._open.setdefault(threading.get_native_id(), [])
        found = Range(name, category, opened[-1] if opened else None)
        if self.memory:
            found.memory = _memory()
        opened.append(found)
        self.ranges.append(found)
        return found

    def end(self, found: Range) -> None:
        """Close a range, and those inside of it that an error left open."""
        opened = self._open.get(found.thread, [])
        if found not in opened:
            return
        now = time.perf_counter_ns()
        memory = _memory() if self.memory else (0, 0)
        while True:
            last = opened.pop()
            last.end = now
            last.memory = (memory[0] - last.memory[0], memory[1] - last.memory[1])
            if last is found:
                return

    # What is heard

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Time a call."""
        kwargs = kwargs or {}
        try:
            name = self.names[func]
        except KeyError:
            name = self.names[func] = operation_name(func)
        if name is None or self.paused or not self.active:
            return func(*args, **kwargs)
        shapes = _shapes((*args, *kwargs.values())) if self.shapes else []
        found = self.begin(name, "operation")
        found.shapes = shapes
        if self.stack:
            found.stack = _callers()
        try:
            result = func(*args, **kwargs)
        finally:
            self.end(found)
        if self.flops:
            found.flops = flops(name, shapes, result)
        return result

    def timed(self, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Time a part of the library's work: the engine's, or one that PyTorch marks as users mark theirs."""
        if self.paused:
            return action(*arguments)
        found = self.begin(name, "engine" if name.startswith("webgpu_torch::") else "user")
        try:
            return action(*arguments)
        finally:
            self.end(found)

    def advance(self, device: Device, run: Run) -> None:
        """Time a plan and, where the device tells, its kernels."""
        found = self.begin("webgpu_torch::run", "engine")
        found.details["device"] = device.name
        host = on_host(device)

        def report(name: str, seconds: float, clock: str) -> None:
            start = time.perf_counter_ns() - int(seconds * 1e9)
            if not host:
                found.kernels.append((name, device.name, start, seconds, clock))
                return
            kernel = Range(f"kernel::{name}", "kernel", found)
            kernel.start, kernel.end = max(start, found.start), time.perf_counter_ns()
            self.ranges.append(kernel)

        try:
            if host or self.devices:
                device.advance_timed(run, report)
            else:
                device.advance(run)
        finally:
            self.end(found)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        kind = type(optimizer).__name__
        self.begin(f"Optimizer.step#{kind}.step", "user")

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        name = f"Optimizer.step#{type(optimizer).__name__}.step"
        for found in reversed(self._open.get(threading.get_native_id(), [])):
            if found.name == name:
                self.end(found)
                return

    # Results

    def events(self, use_device: str | None, first: int = 1) -> Iterable[FunctionEvent]:
        """Return what was recorded, in the order of beginning, with numbers from ``first``."""
        made: dict[int, FunctionEvent] = {}
        result: list[FunctionEvent] = []
        for found in sorted(self.ranges, key=lambda each: each.start):
            event = self._event(found, use_device, first + len(result))
            if self.host:
                result.append(event)
                made[id(found)] = event
                parent = made.get(id(found.parent))
                if parent is not None:
                    parent.append_cpu_child(event)
                    event.set_cpu_parent(parent)
            for kernel in found.kernels:
                result.append(self._kernel_event(kernel, use_device, first + len(result), found.thread))
                event.append_kernel(kernel[0], result[-1].device_index, kernel[3] * 1e6)
        return result

    def _event(self, found: Range, use_device: str | None, number: int) -> FunctionEvent:
        name = "ProfilerStep*" if found.name.startswith("ProfilerStep#") else found.name
        end = time.perf_counter_ns() if found.end is None else found.end
        return FunctionEvent(
            number,
            name,
            found.thread,
            (found.start - self.origin) / 1e3,
            (end - self.origin) / 1e3,
            input_shapes=found.shapes,
            stack=found.stack,
            use_device=use_device,
            cpu_memory_usage=found.memory[0],
            device_memory_usage=found.memory[1],
            flops=found.flops,
            trace_name=found.name,
            is_user_annotation=found.category == "user",
            details=found.details,
        )

    def _kernel_event(self, kernel: Any, use_device: str | None, number: int, thread: int) -> FunctionEvent:
        name, device, start, seconds, clock = kernel
        begin = (start - self.origin) / 1e3
        index = device.partition(":")[2]
        return FunctionEvent(
            number,
            name,
            thread,
            begin,
            begin + seconds * 1e6,
            use_device=use_device,
            device_type=DeviceType.PrivateUse1,
            device_index=int(index) if index.isdigit() else 0,
            clock=clock,
        )


def _shapes(arguments: Iterable[Any]) -> list[list[int]]:
    return [list(each.shape) if isinstance(each, Tensor) else [] for each in arguments]


def _settle(wait: bool = False) -> None:
    for engine in engines():
        engine.flush()
        if wait:
            engine.device.synchronize()
