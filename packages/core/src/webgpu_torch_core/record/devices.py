"""``torch.device``, the engine of each device, and where new tensors land."""

from __future__ import annotations

import builtins
import os
import threading
from typing import Any

from .. import config
from ..backend.plugins import registry
from ..ir.dtypes import dtype, float64
from .context import context, ever
from .engine import Engine

META = "meta"
#: recorded operations that are worth a plan of their own
WORTH_A_PLAN = 20
#: types that a program may name on any machine, whether tensors can live there or not: this library's and PyTorch's
_DEVICE_TYPES = frozenset(
    (
        "cpu", "webgpu", "python", META, "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga",
        "maia", "xla", "lazy", "vulkan", "mps", "hpu", "mtia", "privateuseone",
    )
)  # fmt: skip


class device:
    """A device type and index, e.g. ``device("webgpu:0")`` or ``device("cpu")``; also a context manager that makes new
    tensors land there.

    Raises:
        RuntimeError: the string is not ``type`` or ``type:index``, or nothing here is of that type.
    """

    __slots__ = ("_canonical", "_previous", "index", "key", "type")

    def __init__(self, type: str | device | int, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
        elif isinstance(type, int) and not isinstance(type, bool):
            self.type, self.index = next(iter(registry.accelerators()), "webgpu"), type
        elif not isinstance(type, str):
            raise TypeError(
                f"device(): argument 'type' must be str, int or torch.device, not {builtins.type(type).__name__}"
            )
        else:
            name, _, number = type.partition(":")
            if not name or (number and not number.isdigit()) or (":" in type and not number):
                raise RuntimeError(
                    f"Invalid device string: '{type}'; expected 'type' or 'type:index', such as 'webgpu:0'"
                )
            if name not in _DEVICE_TYPES:
                # Of a plugin, or an error that says what there is.
                registry.backend(name)
            self.type = name
            self.index = int(number) if number else index
        if self.index is not None and self.index < 0:
            raise RuntimeError(f"Device index must not be negative, got {self.index}")
        self._previous: list[Any] = []
        # What :func:`canonical_device` makes of it, once asked for.
        self._canonical: device | None = None
        # What the engine of the device is found by.
        self.key = (self.type, self.index or 0)

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (str(self),))

    def __enter__(self) -> device:
        self._previous.append(context.device)
        context.device = self
        return self

    def __exit__(self, *_: object) -> None:
        context.device = self._previous.pop()


_default: list[device | None] = [None]
_engines: dict[tuple[str, int], Engine] = {}
_engine_lock = threading.Lock()
_canonical: dict[Any, device] = {}


class MetaEngine:
    """Stands where a real engine would: values on the meta device have a shape and type but no data."""

    name = META
    reports = False
    #: the types of elements in its memory, of which there are none
    dtypes: frozenset[dtype] = frozenset()
    maximum_bindings = 1 << 30
    #: whether operations on its values have values
    computes = True


class _NoEngine(MetaEngine):
    """Stands where an engine would be for tensors whose classes answer their operations: nothing else may."""

    computes = False


meta_engine = MetaEngine()
no_engine = _NoEngine()


def engine_for(place: device) -> Any:
    """Return the engine of a device, opening the device on first use.

    Raises:
        RuntimeError: no backend for this type is installed, or there is no such device.
    """
    found = _engines.get(place.key)
    # As :func:`is_lost`, without a call for each operation.
    if found is None or ever.engines or found.device.lost is not None:
        return _another_engine(place)
    return found


def _another_engine(place: device) -> Engine | MetaEngine:
    """Return the engine of a device that need not be the one in use."""
    if place.type == META:
        return meta_engine
    if place.type in context.engines:
        return context.engines[place.type]
    key = place.key
    with _engine_lock:
        found = _engines.get(key)
        if found is not None and is_lost(found):
            # Tensors that lived there keep the old engine, and say so.
            registry.close(*key)
            found = None
        if found is None:
            found = _engines[key] = Engine(registry.device(*key))
    return found


def is_lost(engine: Engine) -> bool:
    """Return whether an engine's device stopped working and may be opened again."""
    return engine.device.lost is not None and engine.device.reopens


def lost_devices(kind: str) -> list[device]:
    """Return the devices of a type that stopped working and have not been used since."""
    return [device(*key) for key, engine in _engines.items() if key[0] == kind and is_lost(engine)]


def host_device() -> device:
    """Return where the host's own bytes are tensors: the CPU, or the interpreter's device where no CPU backend is installed."""
    return canonical_device("cpu" if registry.device_count("cpu") else "python")


def on_host(place: device) -> bool:
    """Return whether a device is the host itself, as its backend declares."""
    return registry.facts(place.type).on_host


def stores_some(engine: Engine | MetaEngine) -> bool:
    """Return whether kernels of a device store at computed places, and some of their coordinates only."""
    return not isinstance(engine, MetaEngine) and engine.device.places


def is_accelerator(place: device) -> bool:
    """Return whether a device is one of its own: neither the host nor the one without data."""
    return place.type != META and not on_host(place)


def has_float64(place: device) -> bool:
    """Return whether numbers of double precision can be on a device."""
    return place.type != META and float64 in engine_for(place).device.dtypes


def accelerator() -> str | None:
    """Return the first type of accelerators that has a device which works, None where there is none."""
    return next(
        (each for each in registry.accelerators() if registry.device_count(each) and not lost_devices(each)), None
    )


def engines() -> list[Engine]:
    """Return the engines in use."""
    return [*_engines.values(), *context.engines.values()]


def canonical_device(place: Any) -> device:
    """Return a device as tensors report it: with an index, except ``cpu`` and other single devices."""
    kind = place.__class__
    known = place._canonical if kind is device else _canonical.get(place) if kind is str else None
    if known is not None:
        return known
    found = _canonical.get(place) if not isinstance(place, int) else None
    if found is None:
        given = place if isinstance(place, device) else device(place)
        index = given.index
        if given.type in ("cpu", META, "python"):
            index = None
        elif index is None:
            index = 0
        found = device(given.type, index)
        if not isinstance(place, int):
            _canonical[place] = found
    if isinstance(place, device):
        place._canonical = found
    return found


def set_default_device(device: Any) -> None:
    """Make new tensors land on a device; None restores the usual choice."""
    _default[0] = None if device is None else canonical_device(device)


def get_default_device() -> device:
    """Return where new tensors land: the innermost ``with device``, the default set, ``WEBGPU_TORCH_DEVICE``, else the
    CPU, else the first device there is.

    Raises:
        RuntimeError: no backend is installed.
    """
    chosen = context.device or _default[0]
    if chosen is None:
        chosen = _default[0] = _usual_device()
    return canonical_device(chosen)


def _usual_device() -> device:
    named = config.DEVICE.text()
    if named:
        return canonical_device(named)
    registry.load()
    for name in ("cpu", *registry.accelerators(), *registry.backends):
        if name != "python" and registry.device_count(name) > 0:
            return canonical_device(name)
    raise RuntimeError(
        "no backend with a usable device is installed; install one with: pip install webgpu-torch-backend-cpu "
        "(or webgpu-torch-backend-wgpu for GPUs). device='python' works everywhere, slowly."
    )


def synchronize(place: Any = None) -> None:
    """Run what is pending on a device (all opened ones by default) and wait until it is done."""
    if place is not None:
        return _synchronize(engine_for(canonical_device(place)))
    for engine in engines():
        _synchronize(engine)


def _synchronize(engine: Engine) -> None:
    recorder = engine.recorders.own
    if recorder.tape.entries:
        engine.flush()
    # Who waits for everything has what ran at once, too.
    recorder.unread = False
    # What kernels report comes along with the wait.
    engine.device.synchronize()
    if engine.reports or recorder.failed is not None:
        engine.raise_failed_checks()


def flush() -> None:
    """Hand everything recorded to the devices, without waiting for it."""
    for engine in engines():
        engine.flush()


def hand_over(least: int = WORTH_A_PLAN) -> None:
    """Hand what is recorded (``least`` operations) to devices that work on their own: called between a network's blocks.

    The device computes while Python records the next block, and blocks of one structure share a plan. Does nothing where
    gradients are recorded (a later gradient may fuse with what it needs) or a capture is under way.
    """
    if context.enabled:
        return
    for engine in _engines.values():
        if engine.device.asynchronous and context.capture is None and len(engine.recorder.tape.entries) >= least:
            engine.flush()


class _Fork:
    """Holds every engine's lock while the process forks, so that no other thread leaves one locked in the child."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def before(self) -> None:
        held = [lock for engine in engines() for lock in (engine.lock, engine.tapes_lock)] + [_engine_lock]
        for lock in held:
            lock.acquire()
        self.held = held

    def after(self) -> None:
        held, self.held = self.held, []
        for lock in held:
            lock.release()


_fork = _Fork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.after, after_in_child=_fork.after)
