"""Events in the trace event format, which ``chrome://tracing`` and Perfetto read, with the fields of PyTorch's traces."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterable
from typing import Any

from .events import DeviceType, FunctionEvent


def _named(process: Any, name: str, thread: int = 0, thread_name: str | None = None) -> list[dict[str, Any]]:
    common = {"ph": "M", "ts": 0, "pid": process, "tid": thread}
    if thread_name is not None:
        return [{**common, "name": "thread_name", "args": {"name": thread_name}}]
    return [{**common, "name": "process_name", "args": {"name": name}}]


def _category(event: FunctionEvent) -> str:
    if event.device_type is not DeviceType.CPU:
        return "kernel"
    return "user_annotation" if event.is_user_annotation else "cpu_op"


def _complete(event: FunctionEvent, process: int) -> dict[str, Any]:
    details: dict[str, Any] = {"External id": event.id, "clock": event.clock, **event.details}
    if event.input_shapes:
        details["Input Dims"] = event.input_shapes
    if event.stack:
        details["Call stack"] = ";\n".join(event.stack)
    on_device = event.device_type is not DeviceType.CPU
    return {
        "ph": "X",
        "cat": _category(event),
        "name": event.trace_name,
        "pid": f"{event.use_device}:{event.device_index}" if on_device else process,
        "tid": 0 if on_device else event.thread,
        "ts": round(event.time_range.start, 3),
        "dur": round(event.time_range.elapsed_us(), 3),
        "args": details,
    }


def _arrows(event: FunctionEvent, process: int) -> list[dict[str, Any]]:
    """Return the arrow from the plan that started a kernel to the kernel."""
    common = {"cat": "ac2g", "name": "ac2g", "id": event.id}
    start = round(event.time_range.start, 3)
    place = f"{event.use_device}:{event.device_index}"
    return [
        {**common, "ph": "s", "pid": process, "tid": event.thread, "ts": start},
        {**common, "ph": "f", "bp": "e", "pid": place, "tid": 0, "ts": start},
    ]


def trace_events(events: Iterable[FunctionEvent]) -> list[dict[str, Any]]:
    """Return the entries of a trace: names of processes and threads, events, and arrows to kernels."""
    process = os.getpid()
    result = _named(process, "host")
    threads: set[int] = set()
    places: set[str] = set()
    for event in events:
        if event.device_type is DeviceType.CPU:
            if event.thread not in threads:
                threads.add(event.thread)
                result += _named(process, "", event.thread, f"thread {event.thread}")
        else:
            place = f"{event.use_device}:{event.device_index}"
            if place not in places:
                places.add(place)
                result += [*_named(place, place), *_named(place, "", 0, "queue")]
            result += _arrows(event, process)
        result.append(_complete(event, process))
    return result


def write_trace(
    path: str, events: Iterable[FunctionEvent], began: int = 0, metadata: dict[str, Any] | None = None
) -> None:
    """Write a trace file, compressed if its name ends in ``.gz``.

    Args:
        path: where to.
        events: what to write.
        began: when the profile began, in nanoseconds since 1970; times in the file count from there.
        metadata: JSON text by name, put beside the events.
    """
    content = {
        "schemaVersion": 1,
        "deviceProperties": [],
        **{name: json.loads(text) for name, text in (metadata or {}).items()},
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": began,
        "traceEvents": trace_events(events),
        "traceName": str(path),
    }
    text = json.dumps(content)
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
