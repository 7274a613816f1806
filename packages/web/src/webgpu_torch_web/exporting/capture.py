"""Calls of functions, captured on a device that computes nothing: what goes in and out, and the commands between.

Everything that a function reaches stands for itself on that device while the function runs, and is as it was afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from webgpu_torch_backend_wgpu.gpu.interface import COPY, Limits
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.layouts import contiguous_layout
from webgpu_torch_core.record.context import context, ever
from webgpu_torch_core.record.devices import MetaEngine, device
from webgpu_torch_core.record.engine import Engine
from webgpu_torch_core.record.grad_mode import no_grad
from webgpu_torch_core.record.tape import Value, new_value
from webgpu_torch_core.replay.capture import Call, record_call
from webgpu_torch_core.replay.guards import World
from webgpu_torch_core.replay.lately import Lately
from webgpu_torch_core.replay.recording import Recording
from webgpu_torch_core.replay.results import map_nested
from webgpu_torch_core.tensors.tensor import Storage, Tensor
from webgpu_torch_nn import Parameter

from .device import AnyBuffer, again, export_devices
from .errors import ExportError, asking

#: (buffer's handle, offset, bytes) of the parts of a tensor's memory
Pieces = list[tuple[int, int, int]]


class Port(NamedTuple):
    """An input or output of a function: its name, element type, shape, and where its bytes are."""

    name: str
    dtype: dtype
    shape: tuple[int, ...]
    pieces: Pieces


class Captured(NamedTuple):
    """What a function does: its inputs and outputs, results that are no tensors, and the commands between."""

    name: str
    inputs: list[Port]
    outputs: list[Port]
    values: dict[str, bool | int | float | str]
    commands: list[int]


class Held(NamedTuple):
    """A tensor's memory outside of the function: parameters, buffers, constants."""

    name: str
    storage: Storage
    value: Value
    buffer: AnyBuffer
    shape: tuple[int, ...]
    place: device
    is_parameter: bool


class _Watched(Recording):
    """A recording that refuses at once, so that the message can name the operation."""

    def draw(self, generator: object, offset: int) -> int:
        raise ExportError(
            f"{asking()} draws random numbers, which an exported function cannot: pass them as an input, or call "
            "module.eval() where it is a dropout"
        )

    @property
    def broken(self) -> str | None:
        """Why the call cannot be replayed: nothing, for that would have been raised."""
        return None

    @broken.setter
    def broken(self, reason: str | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if reason is not None:
            raise ExportError(
                f"{asking()} cannot be exported: {reason}. An exported function may use shapes and Python numbers, and "
                "operations that run on the device and whose results' shapes do not depend on data"
            )


class Session:
    """Captures functions that share their tensors, for adapters of given limits and features.

    Attributes:
        features: those that adapters must have.
        kept: what the session's devices were asked for.
        functions: what was captured, in order: for graphics cards, and for adapters whose work the host does.
        held: the memory of everything outside of the functions that they use.
    """

    def __init__(self, limits: Limits, features: Sequence[str]) -> None:
        self.features = sorted(features)
        devices = export_devices(limits, features)
        self.kept = devices[0].kept
        self.dtypes = devices[0].dtypes
        self.engines = [Engine(each) for each in devices]
        self.place = device("webgpu", 0)
        self.functions: list[tuple[Captured, Captured]] = []
        self.held: dict[int, Held] = {}

    def capture(
        self, name: str, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Captured:
        """Add a function, called with examples of its arguments for each kind of adapter, and return what cards do.

        What is recorded depends on the device: whether an attention has a kernel of its own, for instance.

        Raises:
            ExportError: it does what cannot be exported; the message names the operation.
        """
        card, host = (self._capture(each, name, function, args, kwargs) for each in self.engines)
        self.functions.append((card, host))
        return card

    def _capture(
        self,
        engine: Engine,
        name: str,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> Captured:
        inputs: list[tuple[str, Tensor]] = []
        with self._in_place(engine):
            args = [
                self._given(engine, each, title, inputs)
                for each, title in zip(args, titles(function, len(args)), strict=True)
            ]
            kwargs = {key: self._given(engine, each, key, inputs) for key, each in kwargs.items()}

        def look() -> Call:
            return Call(lambda roots: World(function, *roots), Lately(), args, kwargs)

        with self._moved(engine, look().known, _names(function)), self._in_place(engine), no_grad():
            return self._captured(engine, name, function, look(), args, kwargs, inputs)

    def _captured(
        self,
        engine: Engine,
        name: str,
        function: Callable[..., object],
        call: Call,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        inputs: list[tuple[str, Tensor]],
    ) -> Captured:
        ports = [self._port(title, each) for title, each in inputs]
        before = [each._grad for each in call.tensors]
        recording = _Watched(call.places, call.known)
        self.kept.submitted.clear()
        outside = {each._storage.number for each in call.known}

        def body(*args: object, **kwargs: object) -> object:
            return map_nested(function(*args, **kwargs), lambda leaf: _dense(leaf, outside))

        result = record_call(body, recording, tuple(args), dict(kwargs))
        engine.device.synchronize()
        _check(recording, engine)
        if any(each._grad is not one for each, one in zip(call.tensors, before, strict=True)):
            raise ExportError("the function leaves gradients in .grad: return them instead (torch.autograd.grad)")
        for title, each in inputs:
            if each._storage.version:
                raise ExportError(f"the function writes into its input '{title}': clone it, or keep state in a module")
        outputs: list[Port] = []
        values: dict[str, bool | int | float | str] = {}
        self._result(result, "", outputs, values)
        return Captured(name, ports, outputs, values, [*self.kept.submitted, *self._stores(engine)])

    def _given(self, engine: Engine, value: object, title: str, inputs: list[tuple[str, Tensor]]) -> object:
        """Return an argument with tensors of this device in the place of its tensors, which become inputs."""
        if isinstance(value, Tensor):
            if value.is_complex() or value.dtype not in self.dtypes:
                raise ExportError(f"input '{title}' is {value.dtype}, which WebGPU has no type for: convert it before")
            layout = contiguous_layout(tuple(value.shape))
            memory = engine.allocate(value.dtype, layout.numel)
            made = Tensor._from_value(memory, layout, value.dtype, self.place)
            inputs.append((title, made))
            return made
        if isinstance(value, dict):
            return {key: self._given(engine, each, f"{title}.{key}", inputs) for key, each in value.items()}
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return type(value)(self._given(engine, each, f"{title}.{at}", inputs) for at, each in enumerate(value))
        if isinstance(value, bool | int | float | str | None):
            return value
        raise ExportError(
            f"argument '{title}' is a {type(value).__name__}; an exported function takes tensors, numbers, strings, and "
            "lists, tuples and dictionaries of them"
        )

    @contextmanager
    def _in_place(self, engine: Engine) -> Iterator[None]:
        """Let tensors that are made land on an engine's device, whichever WebGPU device is asked for."""
        before = context.engines
        context.engines, ever.engines = {"webgpu": engine}, True
        try:
            with self.place:
                yield
        finally:
            context.engines = before

    @contextmanager
    def _moved(self, engine: Engine, tensors: Sequence[Tensor], names: dict[int, str]) -> Iterator[None]:
        """Give tensors memory of an engine's device, and their own back at the end."""
        places = [(each, each.device) for each in tensors]
        storages = {each._storage.number: each for each in tensors}
        before = []
        for number, each in storages.items():
            storage = each._storage
            value = storage.value
            if value.engine is engine:
                continue
            held = self.held.get(number) or self._hold(engine, each, names.get(number, f"constant{len(self.held)}"))
            self.held[number] = held
            before.append((storage, value, storage.version))
        for storage, value, _ in before:
            # Only the value refers to the buffer: then a plan that writes it may do so in place.
            storage.exchange(new_value(engine, value.dtype, value.numel, again(self.held[storage.number].buffer)))
        for each, _ in places:
            each._device = self.place
        try:
            yield
        finally:
            for storage, value, version in before:
                storage.exchange(value)
                storage.version = version
            for each, place in places:
                each._device = place

    def _hold(self, engine: Engine, tensor: Tensor, name: str) -> Held:
        storage = tensor._storage
        value = storage.value
        if isinstance(value.engine, MetaEngine):
            raise ExportError(f"'{name}' is on the meta device: it has no elements to export")
        if value.dtype not in self.dtypes:
            raise ExportError(f"'{name}' is {value.dtype}, which WebGPU has no type for: convert it (module.float())")
        whole = tensor._layout.is_contiguous and not tensor._layout.offset and tensor.numel() == value.numel
        shape = tuple(tensor.shape) if whole else (value.numel,)
        buffer = engine.device.allocate(value.numel * value.dtype.itemsize)
        return Held(name, storage, value, buffer, shape, tensor.device, isinstance(tensor, Parameter))

    def _stores(self, engine: Engine) -> list[int]:
        """Return the commands that put new values of what is outside of the function where its next call reads them."""
        commands: list[int] = []
        for held in self.held.values():
            now = held.storage.value
            if now.engine is not engine:
                continue
            source, nbytes = now.realize(), now.numel * now.dtype.itemsize
            if now.numel != held.value.numel or now.dtype is not held.value.dtype:
                raise ExportError(f"the function gives '{held.name}' memory of another size")
            if source.key != held.buffer.key:
                for (one, begin, count), (other, start, _) in zip(
                    source.pieces(0, nbytes), held.buffer.pieces(0, nbytes), strict=True
                ):
                    commands += (COPY, one, begin, other, start, count + 3 & ~3)
        return commands

    def _port(self, name: str, tensor: Tensor) -> Port:
        pieces = tensor._storage.value.realize().pieces(0, tensor.nbytes)
        return Port(name, tensor.dtype, tuple(tensor.shape), pieces)

    def _result(
        self, value: object, name: str, outputs: list[Port], values: dict[str, bool | int | float | str]
    ) -> None:
        """Add the tensors of a result to the outputs, and its numbers and strings to the values."""
        if isinstance(value, Tensor):
            if value.is_complex():
                raise ExportError(f"output '{name or 'output'}' is complex: return torch.view_as_real of it")
            outputs.append(self._port(name or "output", value))
        elif isinstance(value, dict | list | tuple):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                self._result(each, _joined(name, key), outputs, values)
        elif isinstance(value, bool | int | float | str):
            values[name or "output"] = value
        elif value is not None:
            raise ExportError(f"the function returns a {type(value).__name__}; return tensors, and containers of them")


def _joined(name: str, key: object) -> str:
    return f"{name}.{key}" if name else f"output{key}" if isinstance(key, int) else str(key)


def _dense(leaf: object, outside: set[int]) -> object:
    """Return a result with memory of its own, its elements one after another."""
    if not isinstance(leaf, Tensor):
        return leaf
    storage, layout = leaf._storage, leaf._layout
    count = leaf.numel() * (2 if leaf.is_complex() else 1)
    if layout.is_contiguous and not layout.offset and storage.value.numel == count and storage.number not in outside:
        return leaf
    result = leaf.detach().new_empty(tuple(leaf.shape))
    return result.copy_(leaf)


def _check(recording: Recording, engine: Engine) -> None:
    """Raise for what a recorded call did that commands cannot do again.

    Raises:
        ExportError: it did something like that.
    """
    for part in recording.runs:
        if part.engine is not engine:
            names = {step.kernel.name for step in part.scheduled.plan.steps if hasattr(step, "kernel")}
            raise ExportError(
                f"the function computes {', '.join(sorted(names))} on {part.engine.device.name}: all that it computes has "
                "to be on the device of its inputs"
            )
    if recording.events.assignments:
        changed = sorted({str(name) for _, name, _ in recording.events.assignments})
        raise ExportError(f"the function changes numbers of the host ({', '.join(changed)}): keep them in tensors")


def titles(function: Callable[..., object], count: int) -> list[str]:
    """Return the names of a function's first positional arguments."""
    try:
        parameters = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in kinds]
    return [names[at] if at < len(names) else f"input{at}" for at in range(count)]


def _names(function: Callable[..., object]) -> dict[int, str]:
    """Return the names of parameters and buffers of the modules that a function is or is given, by their storages' numbers."""
    given = (function.func, *function.args) if isinstance(function, partial) else (function,)
    found: dict[int, str] = {}
    for each in given:
        module = getattr(each, "__self__", each)
        for listed in ("named_parameters", "named_buffers"):
            for name, tensor in getattr(module, listed, tuple)():
                found.setdefault(tensor._storage.number, name)
    return found
