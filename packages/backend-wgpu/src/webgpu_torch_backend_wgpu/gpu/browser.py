"""WebGPU as a web page has it: ``navigator.gpu``, driven from Python in Pyodide.

The objects live in JavaScript (``browser.js``); what crosses over are their numbers and typed arrays, and a recorded plan
is submitted by one call. JavaScript promises are waited for by switching the WebAssembly stack (JSPI,
https://pyodide.org/en/stable/usage/api/python-api/ffi.html#pyodide.ffi.run_sync). That needs a browser that has it, and
Python entered by ``pyodide.runPythonAsync`` or ``callPromising``.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import sys
from array import array
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypedDict, TypeVar, cast

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


#: what JavaScript gives when it is done with something, and how it tells: the number, the result, what was wrong
_Result: TypeAlias = int | float | _List | None
_Settled: TypeAlias = Callable[[int, _Result, str], None]


class _Bridge(Protocol):
    """The parts of ``pyodide.ffi`` used here."""

    JsException: type[Exception]

    def can_run_sync(self) -> bool: ...

    def run_sync(self, promise: Awaitable[T]) -> T: ...

    def create_proxy(self, value: _Settled) -> _Settled: ...

    def to_js(self, value: list[str] | list[int]) -> _List: ...


class _Opened(Protocol):
    """The class ``Gpu`` of browser.js, which says what its methods do."""

    lost: str
    settled: _Settled

    def error(self) -> str: ...

    def buffer(self, size: int, use: str) -> int: ...

    def destroy(self, handle: int) -> None: ...

    def write(self, handle: int, offset: int, data: memoryview | bytes) -> None: ...

    def layout(self, kinds: str) -> int: ...

    def pipeline(self, label: str, code: str, layout: int) -> int: ...

    def group(self, layout: int, entries: array[float]) -> int: ...

    def record(self, commands: array[float]) -> int: ...

    def submit(self, recording: int) -> int: ...

    def validate(self, recording: int) -> None: ...

    def later(self, name: str, *given: object) -> int: ...

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
    subgroup: int


@functools.cache
def _bridge() -> _Bridge:
    """Return Pyodide's bridge to JavaScript, which exists only there."""
    return importlib.import_module("pyodide.ffi")  # type: ignore[return-value]


def waits() -> bool:
    """Return whether Python may wait for JavaScript here."""
    return _bridge().can_run_sync()


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
            self._keep(_bridge().run_sync(self._ask()))
        return [self._adapter] if self._adapter is not None and suits(self._adapter) else []

    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        opened, self._opened = self._opened, None
        if opened is None:
            if not waits():
                raise RuntimeError(CANNOT_WAIT.format(instead=OPEN))
            bridge = _bridge()
            try:
                opened = bridge.run_sync(self._begin(adapter, features))
            except bridge.JsException as error:
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
        (),
        told["subgroup"],
    )


class _Pending:
    """What JavaScript is doing.

    It is waited for like a future of asyncio, but who waits goes on when it is done, where each callback of a future of
    asyncio takes a turn of the browser's event loop, and a wait takes several.
    """

    __slots__ = ("_callbacks", "arrived", "problem", "value")
    # What asyncio tells futures by.
    _asyncio_future_blocking = False

    def __init__(self) -> None:
        self.value: _Result = None
        self.problem = ""
        self.arrived = False
        self._callbacks: list[Callable[[_Pending], object]] = []

    def settle(self, value: _Result, problem: str) -> None:
        """Take what came of it, and tell all who wait."""
        self.value, self.problem, self.arrived = value, problem, True
        for each in self._callbacks:
            each(self)

    def add_done_callback(self, callback: Callable[[_Pending], object]) -> None:
        """Have a function called when it is done."""
        self._callbacks.append(callback)

    def result(self) -> None:
        """Return what the wait resolves to: whoever waited looks at ``value`` and ``problem``."""

    def __await__(self) -> Generator[object, None, None]:
        if not self.arrived:
            future = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: future.done() or future.set_result(None))
            yield from future


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
        self._later = opened.later
        self._layouts: dict[tuple[str, ...], int] = {}
        self._reads: list[_Pending] = []
        pending = self._pending = dict[int, _Pending]()
        opened.settled = _bridge().create_proxy(
            lambda number, value, problem: pending.pop(number).settle(value, problem)
        )

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
        handle = self._await("certainBuffer", nbytes, use)
        if not handle:
            raise GpuError("out-of-memory", f"there is no room for a buffer of {nbytes} bytes")
        return cast("int", handle)

    def destroy(self, handle: int) -> None:
        self._js.destroy(handle)

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        self._write(buffer, offset, data)

    def read(self, buffer: int, offset: int, into: memoryview) -> None:
        if len(into):
            self._await("read", buffer, offset, into)

    def read_later(
        self, parts: Sequence[tuple[int, int, int]], after: int | None = None
    ) -> Callable[[Sequence[memoryview]], None]:
        if after is not None:
            self.submit(after)
        held = [bytearray(nbytes) for _, _, nbytes in parts]
        reads = [
            self._begin("read", buffer, offset, memoryview(data))
            for (buffer, offset, _), data in zip(parts, held, strict=True)
        ]
        self._reads += reads

        def finish(places: Sequence[memoryview]) -> None:
            for read, into, data in zip(reads, places, held, strict=True):
                if read in self._reads:
                    self._reads.remove(read)
                self._finish(read)
                into[:] = data

        return finish

    async def arrive(self) -> None:
        for read in list(self._reads):
            await read

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
        made = cast("_List", self._await("certainPipelines", *texts, to_js([each.layout for each in requests])))
        return [each if isinstance(each, int) else GpuError("validation", each) for each in made.to_py()]

    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        return self._js.group(layout, array("d", [number for entry in entries for number in entry]))

    def record(self, commands: Sequence[int]) -> int:
        # Doubles, for JavaScript: they hold every handle and every offset that a buffer may have.
        return self._js.record(array("d", commands))

    def submit(self, recording: int) -> None:
        self.submits += 1
        if self._submit(recording) > SUBMITS_IN_FLIGHT and waits():
            self._await("catchUp")

    def validate(self, recording: int) -> None:
        self._js.validate(recording)

    def timed(self, recording: int) -> float:
        return cast("float", self._await("timed", recording)) * 1e-9

    def wait(self) -> None:
        self._await("wait")

    def _begin(self, name: str, *given: object) -> _Pending:
        """Start a method of browser.js that takes time."""
        found = self._pending[self._later(name, *given)] = _Pending()
        return found

    def _finish(self, pending: _Pending) -> _Result:
        """Wait for what was started, and return what came of it.

        Raises:
            GpuError: it failed, for which a lost device is the reason where there is one; or Python cannot wait here.
        """
        if not pending.arrived:
            if not waits():
                raise GpuError("internal", CANNOT_WAIT.format(instead=FETCH))
            _bridge().run_sync(pending)
        if pending.problem:
            raise GpuError("lost" if self.lost else "internal", self.lost or pending.problem)
        return pending.value

    def _await(self, name: str, *given: object) -> _Result:
        return self._finish(self._begin(name, *given))

    def close(self) -> None:
        self._js.close()

    def error(self) -> GpuError | None:
        kind, _, message = self._error().partition(": ")
        return GpuError("lost" if self.lost else kind, message) if kind else None
