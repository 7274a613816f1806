"""A runtime that checks every call against WebGPU's rules and computes nothing: reads return zeros.

Plans, bind groups, submits and generated kernels are tried on it in milliseconds, without a GPU and for the limits and
features of any adapter. The rules are those of https://www.w3.org/TR/webgpu/ and https://www.w3.org/TR/WGSL/ that the
calls of :mod:`.interface` can break; the text of a kernel is read for what the interface decides (bindings, workgroup
sizes and memory, features), not type-checked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from math import prod

from .interface import (
    BINDING_KINDS,
    COPY,
    DISPATCH,
    MATRIX_FEATURE,
    STORAGE,
    UNIFORM,
    WORDS,
    Adapter,
    Gpu,
    GpuError,
    Limits,
    PipelineRequest,
    Runtime,
)

_BINDING = re.compile(r"@group\((\d+)\)\s*@binding\((\d+)\)\s*var<([\w, ]+)>\s*\w+\s*:\s*([^;]+);")
_SHARED = re.compile(r"var<workgroup>\s*\w+\s*:\s*([^;]+);")
_ENTRY = re.compile(r"@compute\s*@workgroup_size\(([^)]*)\)\s*fn\s+main\b")
_ACCESS = {"uniform": "uniform", "storage,read_write": "storage", "storage,read": "read-only-storage"}
#: what a text contains that needs a feature
_NEEDS = {
    "shader-f16": re.compile(r"\bf16\b|\benable\s+f16\b|\b\d[\d.]*h\b"),
    "shader-int64": re.compile(r"\b[iu]64\b|\b\d+l[iu]\b"),
    "subgroups": re.compile(r"\bsubgroup(?!Matrix)[A-Z]\w*|@builtin\(subgroup_\w+|\bquad[A-Z]\w*"),
    MATRIX_FEATURE: re.compile(r"\bsubgroup_matrix\w*|\bsubgroupMatrix\w*"),
}
_TYPE = re.compile(r"(\w+)\s*(?:<(.*)>)?$", re.DOTALL)
#: size and alignment of scalars in memory
_SCALARS = {"bool": 4, "i32": 4, "u32": 4, "f32": 4, "f16": 2, "i64": 8, "u64": 8}


def layout_of(text: str) -> tuple[int, int]:
    """Return size and alignment in bytes of a WGSL type; an array without a count has the size of one element.

    Raises:
        ValueError: the type is not one that kernels use.
    """
    found = _TYPE.match(text.strip())
    name, inner = found.groups() if found else (text, None)
    if name in _SCALARS:
        return _SCALARS[name], _SCALARS[name]
    if name == "atomic" and inner:
        return layout_of(inner)
    if name in ("vec2", "vec3", "vec4") and inner:
        count, size = int(name[3]), layout_of(inner)[0]
        return count * size, (2 if count == 2 else 4) * size
    if name == "array" and inner:
        counted = re.fullmatch(r"(.*),\s*(\d+)[ui]?\s*", inner)
        element, count = counted.groups() if counted else (inner, "1")
        size, alignment = layout_of(element)
        return -(-size // alignment) * alignment * int(count), alignment
    raise ValueError(f"the type '{text}' is not one that kernels use")


class _Buffer:
    """A buffer: its size, use, and whether it was destroyed."""

    def __init__(self, nbytes: int, use: str) -> None:
        self.nbytes = nbytes
        self.use = use
        self.destroyed = False


class _Pipeline:
    """A pipeline: its name, layout, and the least size of each binding."""

    def __init__(self, label: str, layout: int, least: tuple[int, ...]) -> None:
        self.label = label
        self.layout = layout
        self.least = least


class _Group:
    """A bind group: its layout and (buffer, offset, size) ranges."""

    def __init__(self, layout: int, entries: list[tuple[_Buffer, int, int]]) -> None:
        self.layout = layout
        self.entries = entries


class CheckingGpu(Gpu):
    """Checks calls; the first rule broken is what :meth:`error` tells.

    Attributes:
        calls: how often each method was called.
        broken: every broken rule, in order.
    """

    def __init__(self, limits: Limits, features: Sequence[str]) -> None:
        super().__init__()
        self.limits = limits
        self.features = frozenset(features)
        self.calls: dict[str, int] = {}
        self.broken: list[str] = []
        #: whether a broken rule is an error; else it is only noted
        self.strict = True
        #: pipelines that were made, by their requests
        self.compiled: list[PipelineRequest] = []
        self.dispatches = 0
        self._error: GpuError | None = None
        self._handles = itertools.count(1)
        self._objects: dict[int, object] = {}
        self._layouts: dict[tuple[str, ...], int] = {}

    def _call(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.lost is not None:
            self._refuse("lost", f"the device is lost: {self.lost}")

    def _refuse(self, kind: str, message: str) -> GpuError:
        self.broken.append(message)
        error = GpuError(kind, message)
        if self.strict:
            self._error = self._error or error
        return error

    def _check(self, holds: bool, message: str) -> bool:
        if not holds:
            self._refuse("validation", message)
        return holds

    def _keep(self, made: object) -> int:
        handle = next(self._handles)
        self._objects[handle] = made
        return handle

    def _buffer(self, handle: int) -> _Buffer:
        found = self._objects.get(handle)
        if not isinstance(found, _Buffer):
            self._refuse("validation", f"{handle} is no buffer, or one that was destroyed")
            return _Buffer(0, STORAGE)
        return found

    # Buffers

    def buffer(self, nbytes: int, use: str = STORAGE) -> int:
        self._call("buffer")
        if nbytes > self.limits.max_buffer_size:
            limit = self.limits.max_buffer_size
            raise GpuError("out-of-memory", f"a buffer of {nbytes} bytes is over the limit of {limit}")
        self._check(nbytes > 0 and nbytes % 4 == 0, f"a buffer of {nbytes} bytes: kernels bind multiples of four")
        self._check(use in (STORAGE, UNIFORM), f"'{use}' is no use of a buffer")
        return self._keep(_Buffer(nbytes, use))

    def destroy(self, handle: int) -> None:
        self._call("destroy")
        gone = self._objects.pop(handle, None)
        self._check(gone is not None, f"{handle} was destroyed before or never made")
        if isinstance(gone, _Buffer):
            gone.destroyed = True

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        self._call("write")
        end = offset + len(data)
        self._check(
            offset % 4 == 0 and len(data) % 4 == 0, f"a write of {len(data)} bytes at {offset}: not whole words"
        )
        size = self._buffer(buffer).nbytes
        self._check(end <= size, f"a write of bytes {offset} to {end} of a buffer of {size}")

    def read(self, buffer: int, offset: int, into: memoryview) -> None:
        self._call("read")
        found = self._buffer(buffer)
        end = offset + (len(into) + 3 & ~3)
        self._check(offset % 4 == 0, f"a read at {offset}: not a whole word")
        self._check(end <= found.nbytes, f"a read of bytes {offset} to {end} of a buffer of {found.nbytes}")
        self._check(found.use == STORAGE, "a read of a buffer that cannot be copied from")
        if self.lost is not None:
            raise GpuError("lost", self.lost)
        into[:] = bytes(len(into))

    # Pipelines

    def layout(self, kinds: tuple[str, ...]) -> int:
        self._call("layout")
        found = self._layouts.get(kinds)
        if found is not None:
            return found
        limits = self.limits
        stored = sum(each != "uniform" for each in kinds)
        uniform = len(kinds) - stored
        most = limits.max_storage_buffers_per_shader_stage
        self._check(all(each in BINDING_KINDS for each in kinds), f"{kinds} are not all kinds of bindings")
        self._check(stored <= most, f"{stored} storage buffers in one layout; the limit is {most}")
        most = limits.max_uniform_buffers_per_shader_stage
        self._check(uniform <= most, f"{uniform} uniform buffers in one layout; the limit is {most}")
        most = limits.max_bindings_per_bind_group
        self._check(len(kinds) <= most, f"{len(kinds)} bindings in one layout; the limit is {most}")
        found = self._layouts[kinds] = self._keep(kinds)
        return found

    def pipelines(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        self._call("pipelines")
        made: list[int | GpuError] = []
        for each in requests:
            problem, least = self._module(each)
            if problem:
                self.broken.append(f"{each.label}: {problem}")
            if problem and self.strict:
                made.append(GpuError("validation", problem))
                continue
            self.compiled.append(each)
            made.append(self._keep(_Pipeline(each.label, each.layout, least)))
        return made

    def _module(self, request: PipelineRequest) -> tuple[str, tuple[int, ...]]:
        """Return what is wrong with a module (empty: nothing) and the least sizes of its bindings."""
        source, kinds = request.source, self._objects[request.layout]
        assert isinstance(kinds, tuple)
        declared: dict[int, tuple[str, str]] = {}
        for group, number, access, kind in _BINDING.findall(source):
            if int(group) != 0 or int(number) in declared:
                return f"binding {number} of group {group} is declared twice or outside of group 0", ()
            declared[int(number)] = access.replace(" ", ""), kind
        if sorted(declared) != list(range(len(kinds))):
            return f"the module binds {sorted(declared)}, its layout {len(kinds)} buffers", ()
        least = []
        for number, wanted in enumerate(kinds):
            access, kind = declared[number]
            if _ACCESS.get(access) != wanted:
                return f"binding {number} is <{access}> in the module and {wanted} in the layout", ()
            least.append(layout_of(kind)[0])
        return self._workgroup(source) or self._features(source), tuple(least)

    def _workgroup(self, source: str) -> str:
        limits = self.limits
        entries = _ENTRY.findall(source)
        if len(entries) != 1:
            return f"the module has {len(entries)} entry points 'main'"
        sizes = [int(each) for each in entries[0].split(",") if each.strip()]
        sizes += [1] * (3 - len(sizes))
        most = [getattr(limits, f"max_compute_workgroup_size_{axis}") for axis in "xyz"]
        if any(not 0 < size <= limit for size, limit in zip(sizes, most, strict=True)):
            return f"the workgroup is {sizes}; the limits are {most}"
        invocations = limits.max_compute_invocations_per_workgroup
        if prod(sizes) > invocations:
            return f"the workgroup has {prod(sizes)} invocations; the limit is {invocations}"
        nbytes = sum(-(-layout_of(each)[0] // 16) * 16 for each in _SHARED.findall(source))
        room = limits.max_compute_workgroup_storage_size
        return f"the workgroup takes {nbytes} bytes; the limit is {room}" if nbytes > room else ""

    def _features(self, source: str) -> str:
        code = "\n".join(line.partition("//")[0] for line in source.splitlines())
        missing = [name for name, used in _NEEDS.items() if name not in self.features and used.search(code)]
        if missing:
            return f"the module uses what needs the feature {missing[0]}"
        if _NEEDS["shader-f16"].search(code) and not re.search(r"^\s*enable\s+f16\s*;", code):
            return "the module uses f16 without enabling it first"
        if self.enables_subgroups and _NEEDS["subgroups"].search(code) and "enable subgroups;" not in code:
            return "the module uses subgroups without enabling them first"
        if _NEEDS[MATRIX_FEATURE].search(code) and "enable chromium_experimental_subgroup_matrix;" not in code:
            return "the module uses matrices of subgroups without enabling them first"
        return ""

    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        self._call("group")
        kinds = self._objects[layout]
        assert isinstance(kinds, tuple)
        self._check(len(kinds) == len(entries), f"{len(entries)} entries for a layout of {len(kinds)} bindings")
        bound = [(self._buffer(handle), offset, size) for handle, offset, size in entries]
        limits = self.limits
        for number, (kind, (buffer, offset, size)) in enumerate(zip(kinds, bound, strict=False)):
            uniform = kind == "uniform"
            use = UNIFORM if uniform else STORAGE
            most = limits.max_uniform_buffer_binding_size if uniform else limits.max_storage_buffer_binding_size
            step = limits.min_uniform_buffer_offset_alignment if uniform else limits.min_storage_buffer_offset_alignment
            self._check(buffer.use == use, f"binding {number} is {kind} and its buffer {buffer.use}")
            self._check(offset % step == 0, f"binding {number} begins at {offset}, no multiple of {step}")
            self._check(0 < size <= most, f"binding {number} has {size} bytes; the limit is {most}")
            self._check(uniform or size % 4 == 0, f"binding {number} has {size} bytes, no multiple of four")
            end = offset + size
            self._check(end <= buffer.nbytes, f"binding {number} ends at {end} of {buffer.nbytes} bytes")
        return self._keep(_Group(layout, bound))

    # Work

    def record(self, commands: Sequence[int]) -> int:
        self._call("record")
        self._check(len(commands) % WORDS == 0 and len(commands) > 0, f"{len(commands)} numbers are no commands")
        used: dict[int, _Buffer] = {}
        count = 0
        for at in range(0, len(commands), WORDS):
            kind, *numbers = commands[at : at + WORDS]
            self._check(kind in (DISPATCH, COPY), f"{kind} is no command")
            buffers = self._dispatch(*numbers) if kind == DISPATCH else self._copy(*numbers)
            used.update((id(each), each) for each in buffers)
            count += kind == DISPATCH
        return self._keep((list(used.values()), count))

    def _dispatch(self, pipeline: int, group: int, *workgroups: int) -> list[_Buffer]:
        made, bound = self._objects.get(pipeline), self._objects.get(group)
        if not isinstance(made, _Pipeline) or not isinstance(bound, _Group):
            self._refuse(
                "validation", f"a dispatch of {pipeline} with {group}: destroyed, or not a pipeline and a group"
            )
            return []
        most = self.limits.max_compute_workgroups_per_dimension
        within = all(0 <= each <= most for each in workgroups)
        self._check(within, f"{made.label}: {workgroups} workgroups; the limit is {most} in each dimension")
        self._check(made.layout == bound.layout, f"{made.label}: its group is of another layout")
        kinds = self._objects[bound.layout]
        assert isinstance(kinds, tuple)
        for number, ((_, _, size), least) in enumerate(zip(bound.entries, made.least, strict=False)):
            self._check(size >= least, f"{made.label}: binding {number} has {size} bytes and needs {least}")
        for (one, (first, begin, length)), (other, (second, start, extent)) in itertools.combinations(
            zip(kinds, bound.entries, strict=True), 2
        ):
            if first is not second or "storage" not in (one, other):
                continue
            overlap = begin < start + extent and start < begin + length
            self._check(one == other and not overlap, f"{made.label}: a buffer is written and bound elsewhere, too")
        return [buffer for buffer, _, _ in bound.entries]

    def _copy(self, source: int, begin: int, target: int, start: int, nbytes: int) -> list[_Buffer]:
        first, second = self._buffer(source), self._buffer(target)
        self._check(first is not second, "a copy within one buffer")
        self._check(begin % 4 == start % 4 == nbytes % 4 == 0, f"a copy of {nbytes} bytes: not of whole words")
        inside = begin + nbytes <= first.nbytes and start + nbytes <= second.nbytes
        self._check(inside, f"a copy of {nbytes} bytes from {begin} of {first.nbytes} to {start} of {second.nbytes}")
        self._check(first.use == STORAGE, "a copy from a buffer that cannot be copied from")
        return [first, second]

    def submit(self, recording: int) -> None:
        self._call("submit")
        buffers, count = self._recorded(recording)
        self._check(not any(each.destroyed for each in buffers), "a submit that uses a destroyed buffer")
        self.dispatches += count
        self.submits += 1

    def _recorded(self, recording: int) -> tuple[list[_Buffer], int]:
        found = self._objects.get(recording)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], int):
            return found  # type: ignore[return-value]
        self._refuse("validation", f"{recording} is no recording, or one that was destroyed")
        return [], 0

    def validate(self, recording: int) -> None:
        self._call("validate")
        self._recorded(recording)

    def timed(self, recording: int) -> float:
        self._check("timestamp-query" in self.features, "timestamps without their feature")
        self.submit(recording)
        return 0.0

    def wait(self) -> None:
        self._call("wait")

    def close(self) -> None:
        self.lost = "it was closed"

    def error(self) -> GpuError | None:
        found, self._error = self._error, None
        return found


class CheckingRuntime(Runtime):
    """Checking devices of any adapters."""

    name = "checking"
    computes = False

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = list(adapters)
        #: devices that were opened
        self.opened: list[CheckingGpu] = []

    def version(self) -> str:
        return "computes nothing"

    def adapters(self, suits: Callable[[Adapter], bool]) -> list[Adapter]:
        return [each for each in self._adapters if suits(each)]

    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        self.opened.append(CheckingGpu(adapter.limits, features))
        return self.opened[-1]
