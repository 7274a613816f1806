"""WebGPU as a web page has it: ``navigator.gpu``, driven from Python in Pyodide.

The objects live in JavaScript (``browser.js``); what crosses over are their numbers and typed arrays, and a recorded plan
is submitted by one call. JavaScript promises are waited for by switching the WebAssembly stack (JSPI,
https://pyodide.org/en/stable/usage/api/python-api/ffi.html#pyodide.ffi.run_sync). That needs a browser that has it, and
Python entered by ``pyodide.runPythonAsync`` or ``callPromising``.
"""

from __future__ import annotations

import importlib
import json
import sys
from array import array
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypedDict, TypeVar

from .interface import STORAGE, Adapter, Gpu, GpuError, Limits, PipelineRequest, Runtime, camel

#: submits the GPU may be behind before recording waits for it: bounds the memory that unfinished work holds
SUBMITS_IN_FLIGHT = 64
#: buffers from this size on are asked for whether there was room: that takes a turn of the browser's event loop
CERTAIN_BYTES = 1 << 24
#: features that the browser may have and that are used here
_FEATURES = frozenset({"shader-f16", "subgroups", "timestamp-query"})
_LIMIT_NAMES = [camel(name) for name in Limits.fields]
CANNOT_WAIT = (
    "this needs to wait for the GPU, and Python cannot wait here. Write {instead}. Or, in a browser with JSPI (Chrome and Edge "
    "from version 137 on), enter Python by pyodide.runPythonAsync or callPromising, not by runPython or a plain call from "
    "JavaScript"
)
#: what waits for the GPU, and for the device, where Python cannot
FETCH = "'await tensor.fetch()', which gives the tensor on the host, and read that"
OPEN = "'await torch.webgpu.open()' before"

T = TypeVar("T")


class _List(Protocol):
    """A JavaScript array of what Python has, too."""

    def to_py(self) -> list[int | str]: ...


class _Bridge(Protocol):
    """The parts of ``pyodide.ffi`` used here."""

    JsException: type[Exception]

    def can_run_sync(self) -> bool: ...

    def run_sync(self, promise: Awaitable[T]) -> T: ...

    def to_js(self, value: list[str] | list[int]) -> _List: ...


class _Opened(Protocol):
    """The class ``Gpu`` of browser.js, which says what its methods do."""

    lost: str

    def error(self) -> str: ...

    def buffer(self, size: int, use: str) -> int: ...

    def certainBuffer(self, size: int, use: str) -> Awaitable[int]: ...

    def destroy(self, handle: int) -> None: ...

    def write(self, handle: int, offset: int, data: memoryview | bytes) -> None: ...

    def read(self, handle: int, offset: int, into: memoryview) -> Awaitable[None]: ...

    def layout(self, kinds: str) -> int: ...

    def pipeline(self, label: str, code: str, layout: int) -> int: ...

    def certainPipelines(self, labels: _List, sources: _List, layouts: _List) -> Awaitable[_List]: ...

    def group(self, layout: int, entries: array[float]) -> int: ...

    def record(self, commands: array[float]) -> int: ...

    def submit(self, recording: int) -> int: ...

    def validate(self, recording: int) -> None: ...

    def timed(self, recording: int) -> Awaitable[float]: ...

    def catchUp(self) -> Awaitable[None]: ...

    def wait(self) -> Awaitable[None]: ...

    def close(self) -> None: ...


class _Functions(Protocol):
    """What browser.js gives."""

    def supported(self) -> bool: ...

    def adapter(self, limits: _List) -> Awaitable[str | None]: ...

    def open(self, handle: int, features: _List, limits: _List) -> Awaitable[_Opened]: ...


class _Told(TypedDict):
    """What browser.js tells of an adapter."""

    handle: int
    vendor: str
    architecture: str
    device: str
    description: str
    fallback: bool
    features: list[str]
    limits: list[int]


def _bridge() -> _Bridge:
    """Return Pyodide's bridge to JavaScript, which exists only there."""
    return importlib.import_module("pyodide.ffi")  # type: ignore[return-value]


def waits() -> bool:
    """Return whether Python may wait for JavaScript here."""
    return _bridge().can_run_sync()


def wait_for(promise: Awaitable[T], instead: str = FETCH) -> T:
    """Return what a promise resolves to.

    Raises:
        GpuError: it was rejected, or Python cannot wait here and should do something else instead.
    """
    bridge = _bridge()
    if not bridge.can_run_sync():
        raise GpuError("internal", CANNOT_WAIT.format(instead=instead))
    try:
        return bridge.run_sync(promise)
    except bridge.JsException as error:
        raise GpuError("internal", str(error)) from error


class BrowserRuntime(Runtime):
    """The browser's WebGPU."""

    name = "browser"

    def __init__(self) -> None:
        text = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
        self._functions: _Functions = importlib.import_module("pyodide.code").run_js(text)
        self._adapter: Adapter | None = None
        self._opened: _Opened | None = None

    def version(self) -> str:
        return f"Pyodide {importlib.import_module('pyodide').__version__}, Python {sys.version.split()[0]}"

    def adapters(self, suits: Callable[[Adapter], bool]) -> list[Adapter]:
        if self._adapter is None and self._functions.supported():
            if not waits():
                raise RuntimeError(CANNOT_WAIT.format(instead=OPEN))
            self._keep(wait_for(self._ask()))
        return [self._adapter] if self._adapter is not None and suits(self._adapter) else []

    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        opened, self._opened = self._opened, None
        if opened is None:
            if not waits():
                raise RuntimeError(CANNOT_WAIT.format(instead=OPEN))
            try:
                opened = wait_for(self._begin(adapter, features))
            except GpuError as error:
                raise RuntimeError(f"the browser gave no device: {error}") from error
        return BrowserGpu(opened, adapter.limits, frozenset(features))

    async def prepare(self, suits: Callable[[Adapter], bool], features: Callable[[Adapter], Sequence[str]]) -> None:
        if self._adapter is None and self._functions.supported():
            self._keep(await self._ask())
        found = self._adapter
        if found is not None and suits(found):
            self._opened = await self._begin(found, features(found))

    def _ask(self) -> Awaitable[str | None]:
        return self._functions.adapter(_bridge().to_js(_LIMIT_NAMES))

    def _keep(self, told: str | None) -> None:
        self._adapter = adapter_of(json.loads(told)) if told else None

    def _begin(self, adapter: Adapter, features: Sequence[str]) -> Awaitable[_Opened]:
        to_js = _bridge().to_js
        return self._functions.open(adapter.handle, to_js(list(features)), to_js(_LIMIT_NAMES))


def adapter_of(told: _Told) -> Adapter:
    """Return an adapter from what ``browser.js`` tells of it; browsers leave out much, so that nobody is recognised."""
    device = told["device"] or told["architecture"] or told["description"] or told["vendor"] or "unnamed"
    return Adapter(
        told["handle"],
        told["vendor"],
        device,
        told["description"] or f"{told['vendor']} {told['architecture']}".strip(),
        "WebGPU",
        "cpu" if told["fallback"] else "unknown",
        0,
        0,
        _FEATURES & frozenset(told["features"]),
        Limits(*map(int, told["limits"])),
    )


class _Read:
    """Bytes that JavaScript is copying to the host."""

    def __init__(self, promise: Awaitable[None], data: bytearray) -> None:
        self.promise = promise
        self.data = data
        self.arrived = False
        self.problem = ""


class BrowserGpu(Gpu):
    """A device of ``navigator.gpu``. The browser reports errors when Python waits: a read or :meth:`wait` brings them."""

    awaited = True

    def __init__(self, opened: _Opened, limits: Limits, features: frozenset[str]) -> None:
        super().__init__()
        self.limits, self.features = limits, features
        self._js = opened
        # Looking a method up crosses over as much as calling it does.
        self._submit = opened.submit
        self._error = opened.error
        self._write = opened.write
        self._layouts: dict[tuple[str, ...], int] = {}
        self._reads: list[_Read] = []

    def obstacle(self) -> str | None:
        return None if waits() else CANNOT_WAIT.format(instead=FETCH)

    @property
    def lost(self) -> str | None:  # type: ignore[override]
        """Why the device stopped working; None while it works."""
        return self._js.lost or None

    def buffer(self, nbytes: int, use: str = STORAGE) -> int:
        limit = self.limits.max_buffer_size
        if nbytes > limit:
            raise GpuError("out-of-memory", f"a buffer of {nbytes} bytes is over the limit of {limit}")
        if nbytes < CERTAIN_BYTES or not waits():
            return self._js.buffer(nbytes, use)
        handle = wait_for(self._js.certainBuffer(nbytes, use))
        if not handle:
            raise GpuError("out-of-memory", f"there is no room for a buffer of {nbytes} bytes")
        return handle

    def destroy(self, handle: int) -> None:
        self._js.destroy(handle)

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        self._write(buffer, offset, data)

    def read(self, buffer: int, offset: int, into: memoryview) -> None:
        if len(into):
            self._await(self._js.read(buffer, offset, into))

    def read_later(self, buffer: int, offset: int, nbytes: int) -> Callable[[memoryview], None]:
        data = bytearray(nbytes)
        read = _Read(self._js.read(buffer, offset, memoryview(data)), data)
        self._reads.append(read)

        def finish(into: memoryview) -> None:
            if read in self._reads:
                self._reads.remove(read)
            if not read.arrived:
                self._await(read.promise)
            if read.problem:
                raise GpuError("lost" if self.lost else "internal", self.lost or read.problem)
            into[:] = data

        return finish

    async def arrive(self) -> None:
        for read in list(self._reads):
            try:
                await read.promise
            except _bridge().JsException as error:
                read.problem = str(error)
            read.arrived = True

    def layout(self, kinds: tuple[str, ...]) -> int:
        found = self._layouts.get(kinds)
        if found is None:
            found = self._layouts[kinds] = self._js.layout(" ".join(kinds))
        return found

    def pipelines(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        if not waits():
            return [self._js.pipeline(each.label, each.source, each.layout) for each in requests]
        to_js = _bridge().to_js
        texts = to_js([each.label for each in requests]), to_js([each.source for each in requests])
        made = wait_for(self._js.certainPipelines(*texts, to_js([each.layout for each in requests]))).to_py()
        return [each if isinstance(each, int) else GpuError("validation", each) for each in made]

    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        return self._js.group(layout, array("d", [number for entry in entries for number in entry]))

    def record(self, commands: Sequence[int]) -> int:
        # Doubles, for JavaScript: they hold every handle and every offset that a buffer may have.
        return self._js.record(array("d", commands))

    def submit(self, recording: int) -> None:
        self.submits += 1
        if self._submit(recording) > SUBMITS_IN_FLIGHT and waits():
            wait_for(self._js.catchUp())

    def validate(self, recording: int) -> None:
        self._js.validate(recording)

    def timed(self, recording: int) -> float:
        return self._await(self._js.timed(recording)) * 1e-9

    def wait(self) -> None:
        self._await(self._js.wait())

    def _await(self, promise: Awaitable[T]) -> T:
        """Return what a promise resolves to; a lost device is the reason where it is rejected."""
        try:
            return wait_for(promise)
        except GpuError as error:
            if self.lost is not None:
                raise GpuError("lost", self.lost) from error
            raise

    def close(self) -> None:
        self._js.close()

    def error(self) -> GpuError | None:
        kind, _, message = self._error().partition(": ")
        return GpuError("lost" if self.lost else kind, message) if kind else None
