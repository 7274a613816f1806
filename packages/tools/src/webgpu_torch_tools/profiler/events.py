"""What a profile consists of: events, and lists of them that can be grouped, printed and exported."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

from webgpu_torch_core.notices import warn


class DeviceType(enum.Enum):
    """Where an event took place, with PyTorch's numbers; WebGPU devices are ``PrivateUse1``."""

    CPU = 0
    CUDA = 1
    XPU = 12
    PrivateUse1 = 20


class Interval:
    """A span of time in microseconds since the profile began."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return its length."""
        return self.end - self.start


class Kernel(NamedTuple):
    """A kernel that an event started: its name, its device's index and how many microseconds it took."""

    name: str
    device: int
    duration: float


def format_time(microseconds: float) -> str:
    """Return a time with the unit that suits it."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


_format_time = format_time


def _old_name(name: str, new: str) -> Any:
    def read(self: Any) -> Any:
        warn(f"`{name}` is deprecated, please use `{new}` instead.", FutureWarning)
        return getattr(self, new)

    return property(read, doc=f"PyTorch's old name of ``{new}``.")


def _formatted(name: str) -> Any:
    return property(lambda self: format_time(getattr(self, name)), doc=f"``{name}`` with its unit.")


class FormattedTimesMixin:
    """Averages of an event's times, and its times as text."""

    count: int
    cpu_time_total: float
    device_time_total: float
    cpu_time_str = _formatted("cpu_time")
    device_time_str = _formatted("device_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    device_time_total_str = _formatted("device_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")
    cuda_time = _old_name("cuda_time", "device_time")

    @property
    def cpu_time(self) -> float:
        """Microseconds of the host per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of the device per call."""
        return self.device_time_total / self.count if self.count else 0.0


class FunctionEvent(FormattedTimesMixin):
    """One range of host time (an operation recorded, a range of ``record_function``, a plan), or one kernel of a device.

    Attributes:
        time_range: when, on the host's clock. A kernel of a device ends when the host learnt that it was done.
        kernels: what the device ran for it; operations are recorded lazily, so kernels belong to the plan that ran them.
        input_shapes: the shapes of its arguments, with ``record_shapes=True``; empty for other arguments.
        stack: the caller's lines, innermost first, with ``with_stack=True``.
        clock: ``"device"`` where timestamps of the device measured it, else ``"host"``.
    """

    self_cuda_memory_usage = _old_name("self_cuda_memory_usage", "self_device_memory_usage")
    cuda_time_total = _old_name("cuda_time_total", "device_time_total")
    self_cuda_time_total = _old_name("self_cuda_time_total", "self_device_time_total")

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str = "",
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        flops: int | None = None,
        trace_name: str | None = None,
        is_user_annotation: bool = False,
        clock: str = "host",
        details: dict[str, Any] | None = None,
    ) -> None:
        self.id, self.name, self.overload_name = id, name, overload_name
        self.trace_name = name if trace_name is None else trace_name
        self.thread, self.fwd_thread = thread, fwd_thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes, self.stack = input_shapes or [], stack or []
        self.scope, self.sequence_nr, self.node_id = scope, sequence_nr, node_id
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, False
        self.flops, self.is_user_annotation = flops, is_user_annotation
        self.clock, self.details = clock, details or {}
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:
        """The name that events are grouped by."""
        return self.name

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Note a kernel that this event started."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note an event directly inside of this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the event directly around this one."""
        self.cpu_parent = parent

    @property
    def _on_host(self) -> bool:
        return self.device_type is DeviceType.CPU

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the host, those inside of it included."""
        return self.time_range.elapsed_us() if self._on_host else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, without those of the events inside of it."""
        return self.cpu_time_total - sum(each.cpu_time_total for each in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the device for the kernels that this event and those inside of it started."""
        if not self._on_host:
            return self.time_range.elapsed_us()
        return sum(each.duration for each in self.kernels) + sum(each.device_time_total for each in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of the device for the kernels that this event itself started."""
        return sum(each.duration for each in self.kernels) if self._on_host else self.device_time_total

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes on the host, without those of the events inside of it."""
        return self.cpu_memory_usage - sum(each.cpu_memory_usage for each in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes on the device, without those of the events inside of it."""
        return self.device_memory_usage - sum(each.device_memory_usage for each in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[each.id for each in self.cpu_children]} {self.use_device}_time={self.device_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage}>"
        )


#: what an average takes over from its first event, and what it adds up
_TAKEN = (
    "key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name", "input_shapes", "stack",
    "scope", "device_type", "is_legacy", "use_device", "is_user_annotation",
)  # fmt: skip
_SUMMED = (
    "count", "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total", "cpu_memory_usage",
    "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
)  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """The sums over the events of one key; ``cpu_time`` and ``device_time`` are averages per call."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.device_type = DeviceType.CPU
        self.count = 0
        self.cpu_time_total = self.device_time_total = self.self_cpu_time_total = self.self_device_time_total = 0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event of the same key.

        Raises:
            AssertionError: it has another key.
        """
        if self.key is None:
            for name in _TAKEN:
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events or averages of them."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._options = {"use_device": use_device, "profile_memory": profile_memory, "with_flops": with_flops}

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, each counted once."""
        return sum(each.self_cpu_time_total for each in self)

    def _populate_cpu_children(self) -> None:
        """Find which events happened directly inside of others: of one thread, and not beyond the other's end."""
        threads: dict[tuple[int, int], list[FunctionEvent]] = {}
        for each in self:
            if not each.is_async and each.device_type is DeviceType.CPU:
                threads.setdefault((each.thread, each.node_id), []).append(each)
        for events in threads.values():
            around: list[FunctionEvent] = []
            for each in sorted(events, key=lambda event: (event.time_range.start, -event.time_range.end)):
                while around and (
                    each.time_range.start >= around[-1].time_range.end
                    or each.time_range.end > around[-1].time_range.end
                ):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(each)
                    each.set_cpu_parent(around[-1])
                around.append(each)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as text.

        Args:
            sort_by: an attribute such as ``cpu_time_total``, ``self_device_time_total`` or ``count``, largest first;
                ``cuda`` and ``webgpu`` in it mean ``device``. By default events stand in the order of recording.
            row_limit: how many rows at most; negative for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longest texts of these columns.
            header: a line above the table.
            top_level_events_only: leave out what happened inside of other events.
            time_unit: ``"s"``, ``"ms"`` or ``"us"`` for all times; by default each has the unit that suits it.
        """
        from .table import build_table, sorted_events

        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        events = self if sort_by is None else sorted_events(self, sort_by)
        return build_table(events, self._options, row_limit, widths, header, top_level_events_only, time_unit)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the sums over the events of one name.

        Args:
            group_by_input_shapes: of one name and the same shapes of arguments.
            group_by_stack_n: of one name called from the same so many lines.
            group_by_overload_name: of one overload; operations have one each here.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for each in self:
            key: list[Any] = [each.key, each.node_id, each.device_type, each.is_legacy, each.is_user_annotation]
            if group_by_overload_name:
                key.append(each.overload_name)
            if group_by_input_shapes:
                key.append(str(each.input_shapes))
            key += each.stack[:group_by_stack_n] if group_by_stack_n > 0 else ()
            found.setdefault(tuple(key), FunctionEventAvg()).add(each)
        for average in found.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return EventList(found.values(), **self._options)

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events, under the key ``"Total"``."""
        total = FunctionEventAvg()
        for each in self:
            total.key = each.key if total.count else None
            total.add(each)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for ``chrome://tracing`` and https://ui.perfetto.dev."""
        from .trace import write_trace

        write_trace(path, self)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics of :meth:`export_stacks`."""
        return ["self_cpu_time_total"] + [f"self_{each}_time_total" for each in ("cuda", "xpu", "privateuse1")]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write a line per event recorded with ``with_stack=True``: its callers, outermost first, and the metric.

        Raises:
            ValueError: not one of :meth:`supported_export_stacks_metrics`.
        """
        from .table import device_metric

        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        table = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for each in self:
                amount = int(getattr(each, device_metric(metric)))
                if each.stack and amount > 0:
                    callers = ";".join(line.translate(table) for line in reversed(each.stack))
                    file.write(f"{callers} {amount}\n")
