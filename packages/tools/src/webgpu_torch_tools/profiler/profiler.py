"""``torch.profiler.profile``: records on a schedule of steps."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from webgpu_torch_core import webgpu
from webgpu_torch_core.notices import warn

from . import ranges
from .events import EventList


class ProfilerActivity(enum.Enum):
    """What to record: ``CPU`` the host, ``PrivateUse1`` the kernels of WebGPU devices; there are no others here."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a schedule asks for at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


#: activities besides the host's, by the device they are about
_DEVICES = {
    ProfilerActivity.CUDA: "cuda",
    ProfilerActivity.XPU: "xpu",
    ProfilerActivity.MTIA: "mtia",
    ProfilerActivity.HPU: "hpu",
    ProfilerActivity.PrivateUse1: "webgpu",
}


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be recorded here: the host, and kernels if there is a WebGPU device."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.PrivateUse1} if webgpu.is_available() else set())


def kineto_available() -> bool:
    """Return True: this module does what programs that ask need; Kineto itself is not part of it."""
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule for :class:`profile`: cycles of waiting, warming up and recording.

    Args:
        wait: steps of a cycle that are left out.
        warmup: steps after them that are not recorded either; plans and kernels get compiled in them.
        active: steps that are recorded.
        repeat: how many cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: other than 0, the first cycle does not wait.

    Raises:
        AssertionError: a negative number, or nothing to record.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if 0 < repeat <= step / cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """Return an ``on_trace_ready`` that writes each trace into a folder, where TensorBoard's profile plugin looks.

    Args:
        dir_name: the folder, made if need be.
        worker_name: begins the files' names; by default the names of machine and process.
        use_gzip: compress the files.
        use_python_export: without effect.
    """

    def save(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return save


def _parse_activities(given: Iterable[Any] | None) -> set[ProfilerActivity]:
    """Return activities given as such or as a dictionary of finer kinds, which are not told apart here."""
    if given is None:
        return supported_activities()
    found: list[ProfilerActivity] = []
    for each in given:
        found += [kind for kind, wanted in each.items() if wanted] if isinstance(each, dict) else [each]
    return set(found)


class profile:
    """Records what a program does while it is open.

    On the host (``ProfilerActivity.CPU``): every public call (``aten::matmul``; the time of *recording* it, for nothing
    is computed yet), ranges of :class:`record_function`, steps of optimisers, and the engine's work:
    ``webgpu_torch::schedule`` (planning what was recorded) and ``webgpu_torch::run`` (running a plan). On the ``cpu``
    device the kernels of a plan (``kernel::softmax``) stand inside of it with the time they took. On WebGPU
    devices (``ProfilerActivity.PrivateUse1``): the time of each kernel, by the device's own timestamps where it has them,
    else by the host's clock around starting it and waiting for it (``clock`` of the events tells which). Kernels then run
    one at a time, so that the program as a whole is slower than without.

    Args:
        activities: what to record; by default :func:`supported_activities`.
        schedule: returns a :class:`ProfilerAction` for each number of a step; by default everything is recorded.
        on_trace_ready: called with the profile when a cycle of the schedule, or the profile, ends.
        record_shapes: note the shapes of arguments.
        profile_memory: note how many bytes of buffers come into use.
        with_stack: note the lines that called.
        with_flops: estimate floating-point operations of matrix products, convolutions, sums and products.
        execution_trace_observer: an object to start and stop with each recording.
        acc_events: keep the events of earlier cycles.
        use_cuda: deprecated; there is no CUDA here.
        custom_trace_id_callback: returns a name for each recording; by default a random one.
        with_modules, experimental_config, post_processing_timeout_s: without effect.

    Raises:
        AssertionError: nothing to record.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _parse_activities(activities)
        if use_cuda is not None:
            warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
            (self.activities.add if use_cuda else self.activities.discard)(ProfilerActivity.CUDA)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.use_device = next((name for kind, name in _DEVICES.items() if kind in self.activities), None)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.schedule, self.record_steps = schedule or _always, schedule is not None
        self.on_trace_ready = on_trace_ready
        self.profiler: ranges.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._trace_metadata: dict[str, str] = {}
        self.step_num = 0
        self.step_rec_fn: ranges.record_function | None = None
        self.current_action = self._checked(self.schedule(0))

    # Steps

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if hasattr(self.execution_trace_observer, "cleanup"):
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin a step."""
        self._change(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End the last step and the recording."""
        self._close_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """Begin the next step.

        Raises:
            ValueError: the schedule returned what is no action of a schedule.
        """
        self._close_step()
        before, action = self.current_action, self._checked(self.schedule(self.step_num + 1))
        self.step_num += 1
        self.current_action = action
        self._change(before, action)
        self._open_step()

    @staticmethod
    def _checked(action: ProfilerAction) -> ProfilerAction:
        if action is ProfilerAction.DEVICE_STOPPED:
            raise ValueError(
                "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be returned by a "
                "user-provided schedule"
            )
        return action

    def _open_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = ranges.record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _change(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Do what lies between two actions; None after the last."""
        recording = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        last = before is ProfilerAction.RECORD_AND_SAVE
        if before in recording and (last or after not in recording):
            if not last and after is not None:
                warn(f"Incorrect schedule: RECORD followed by {after.name}")
            self.stop_trace()
            if (last or after is None) and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if before is ProfilerAction.WARMUP and after is ProfilerAction.NONE:
            warn("Incorrect schedule: WARMUP followed by NONE")
        if after in recording and (last or before not in recording):
            self.prepare_trace()
            self.start_trace()

    # Recordings

    def prepare_trace(self) -> None:
        """Make what records the next cycle."""
        if self.profiler is not None and self.acc_events:
            return
        if self.profiler is not None:
            _warn_of_clearing()
        self.profiler = ranges.profile(
            use_cpu=ProfilerActivity.CPU in self.activities,
            use_device=self.use_device,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            acc_events=self.acc_events,
            custom_trace_id_callback=self.custom_trace_id_callback,
        )

    def start_trace(self) -> None:
        """Begin to record.

        Raises:
            AssertionError: nothing was prepared.
        """
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        self._made("starting trace").start()
        for name in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, name):
                self.add_metadata_json(name, "1")
        self._trace_metadata.update(self.preset_metadata)

    def stop_trace(self) -> None:
        """End the recording.

        Raises:
            AssertionError: nothing was prepared.
        """
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        self._made("stopping trace").stop()

    def _made(self, doing: str) -> ranges.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Leave activities out of the recording from here on, or take them in again."""
        if self.profiler is not None:
            kinds = set(activities)
            self.profiler.toggle(enable, ProfilerActivity.CPU in kinds, bool(kinds - {ProfilerActivity.CPU}))

    # Results

    def events(self) -> EventList:
        """Return the events, in the order of their beginning.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        return self._made("accessing events").function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the sums over the events of one name; shapes and callers need ``record_shapes`` and ``with_stack``.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        made = self._made("getting key averages")
        return made.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the last cycle for ``chrome://tracing`` and https://ui.perfetto.dev; compressed if it ends in ``.gz``.

        Raises:
            AssertionError: nothing was recorded yet.
        """
        self._made("exporting chrome trace").export_chrome_trace(path, self._trace_metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line per event recorded with ``with_stack=True``: its callers, outermost first, and the metric.

        Raises:
            AssertionError: nothing was recorded yet, or without callers.
            ValueError: there is no such metric.
        """
        self._made("exporting stacks").export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace file."""
        self._trace_metadata[key] = '"' + value.replace('"', '\\"') + '"'

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put JSON into the trace file."""
        self._trace_metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Put JSON into the trace files of the recordings to come."""
        self.preset_metadata[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set what names the recordings to come."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Return the name of the current recording."""
        return None if self.profiler is None else self.profiler.trace_id


_warned: list[bool] = []


def _warn_of_clearing() -> None:
    if not _warned:
        _warned.append(True)
        warn(
            "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will be "
            "reported. To keep events across cycles, set acc_events=True.",
        )
