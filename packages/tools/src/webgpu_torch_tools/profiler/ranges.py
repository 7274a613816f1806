"""One profile from beginning to end, and named ranges in it: what ``torch.autograd.profiler`` has."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from webgpu_torch_core.backend import plugins, profiling
from webgpu_torch_core.notices import warn

from .events import EventList, FunctionEventAvg
from .events import FunctionEvent as FunctionEvent
from .recorder import Recorder


class record_function(ContextDecorator):
    """A named range of host time, for ``with`` and as a decorator; without a profiler it does nothing.

    Operations are recorded lazily: a range contains the time of recording them, and the running only of those that
    something inside of it reads.

    Args:
        name: what profiles show.
        args: text that traces show beside it.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._opened: list[Any] = []

    def __enter__(self) -> record_function:
        recorder = profiling.listener
        found = None
        if isinstance(recorder, Recorder) and not recorder.paused:
            found = recorder.begin(self.name, "user")
            if self.args is not None:
                found.details["args"] = self.args
        self._opened.append((recorder, found))
        return self

    def __exit__(self, *_: object) -> None:
        recorder, found = self._opened.pop()
        if found is not None:
            recorder.end(found)


def _usable_device(use_device: str) -> str | None:
    """Return the device whose kernels are timed; None, with a warning, where it cannot be."""
    if use_device in ("webgpu", *plugins.registry.accelerators()):
        return use_device if plugins.registry.device_count(use_device) else None
    if use_device in ("cuda", "xpu", "hpu", "mtia"):
        warn(f"{use_device.upper()} is not available, disabling {use_device.upper()} profiling")
    else:
        warn(f"The {use_device} is not a valid device option.")
    return None


class profile:
    """Records what happens between entering and leaving it; see :class:`torch.profiler.profile` for what that is.

    Args:
        enabled: False makes it do nothing.
        use_cuda: deprecated; there is no CUDA here.
        use_device: ``"webgpu"``, or another accelerator, to time kernels there.
        record_shapes: note the shapes of arguments.
        with_flops: estimate floating-point operations of matrix products, convolutions, sums and products.
        profile_memory: note how many bytes of buffers come into use.
        with_stack: note the lines that called.
        use_cpu: record operations, ranges and plans on the host.
        acc_events: keep the events of earlier recordings of this object.
        custom_trace_id_callback: returns a name for each recording; by default a random one.
        with_modules, use_kineto, experimental_config, post_processing_timeout_s, activity_filters: without effect.

    Raises:
        AssertionError: neither the host nor a device is to be recorded.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.entered = False
        self._recorders: list[Recorder] = []
        self._events: EventList | None = None
        if not enabled:
            return
        if use_cuda:
            warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
            use_device = "cuda"
        self.use_device = _usable_device(use_device) if use_device is not None else None
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.record_shapes, self.with_flops = record_shapes or with_flops, with_flops
        self.profile_memory, self.with_stack, self.with_modules = profile_memory, with_stack, with_modules
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        if not use_cpu and self.use_device is None:
            raise AssertionError("No activities specified for the profiler")

    def __enter__(self) -> profile:
        if self.enabled:
            if self.entered:
                raise RuntimeError("Profiler context manager is not reentrant")
            self.start()
        return self

    def __exit__(self, *_: object) -> bool:
        if self.enabled:
            self.stop()
        return False

    def start(self) -> None:
        """Begin to record."""
        self.entered = True
        self.trace_id = self.custom_trace_id_callback() if self.custom_trace_id_callback else uuid.uuid4().hex.upper()
        if not self.acc_events:
            self._recorders.clear()
        self._events = None
        recorder = Recorder(
            host=self.use_cpu,
            devices=self.use_device is not None,
            shapes=self.record_shapes,
            flops=self.with_flops,
            memory=self.profile_memory,
            stack=self.with_stack,
        )
        self._recorders.append(recorder)
        recorder.start()

    def stop(self) -> None:
        """End the recording, after everything recorded has run."""
        if self._recorders:
            self._recorders[-1].stop()

    def toggle(self, enable: bool, host: bool, devices: bool) -> None:
        """Leave something out of the recording from here on, or take it in again."""
        recorder = self._recorders[-1]
        if host:
            recorder.paused = not enable
        if devices and self.use_device is not None:
            recorder.devices = enable

    @property
    def function_events(self) -> EventList:
        """The events, in the order of their beginning.

        Raises:
            RuntimeError: the profile has not ended.
        """
        if not self._recorders or self._recorders[-1].active:
            raise RuntimeError("Profiler didn't finish running")
        if self._events is None:
            found: list[Any] = []
            for recorder in self._recorders:
                found += recorder.events(self.use_device, len(found) + 1)
            self._events = EventList(
                found, use_device=self.use_device, profile_memory=self.profile_memory, with_flops=self.with_flops
            )
        return self._events

    def __repr__(self) -> str:
        finished = bool(self._recorders) and not self._recorders[-1].active
        return repr(self.function_events) if finished else "<unfinished torch.autograd.profile>"

    def __str__(self) -> str:
        finished = bool(self._recorders) and not self._recorders[-1].active
        return str(self.function_events) if finished else repr(self)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the events as text; see :meth:`EventList.table`."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str, metadata: dict[str, str] | None = None) -> None:
        """Write the last recording for ``chrome://tracing`` and https://ui.perfetto.dev."""
        from .trace import write_trace

        recorder = self._recorders[-1]
        described = {"trace_id": f'"{self.trace_id}"', **(metadata or {})}
        write_trace(path, recorder.events(self.use_device), recorder.began, described)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write callers and a metric; see :meth:`EventList.export_stacks`.

        Raises:
            AssertionError: callers were not recorded.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return sums by name; see :meth:`EventList.key_averages`."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over everything."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, each counted once."""
        return self.function_events.self_cpu_time_total
