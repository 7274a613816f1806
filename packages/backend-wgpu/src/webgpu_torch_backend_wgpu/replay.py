"""Plans made ready to run: parameters in one buffer, cached bind groups, and a list of native calls to repeat."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from webgpu_torch_core.backend.collection import without_collection
from webgpu_torch_core.backend.interface import REPORT_SLOTS, Copy, Plan, Step
from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.host_bytes import stored
from webgpu_torch_core.record.runs import picker

from .copying import fastest
from .errors import KernelError
from .gpu.interface import COPY, DISPATCH, STORAGE, UNIFORM, WORDS, Gpu, Owned
from .memory import Buffer, LongBuffer, Pool
from .modules import Compiled, Compiler, Pipeline
from .program import PARAMETER_ALIGNMENT, REPORT_WORDS, Binding, part_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future

AnyBuffer = Buffer | LongBuffer
#: most dispatches of a submit
LARGEST_SUBMIT = 256
#: sets of buffers of one plan whose recordings are kept
RECORDINGS_PER_PLAN = 64
#: buffers for reports, which are read together, and the bytes of each: one report for every slot
REPORT_BUFFERS = 4
REPORT_BYTES = 4 * REPORT_WORDS * REPORT_SLOTS
#: bind groups kept for all plans together
BIND_GROUPS = 1 << 14

_key_of = attrgetter("key")
_FORMATS = {"float32": "f", "int32": "i", "uint32": "I", "bool": "I", "int64": "q", "float64": "d"}


class Ready:
    """One step of a plan with its pipelines, its slice of the parameter buffer and where each pipeline's sizes begin.

    ``scratch``: the bytes that it needs besides; ``shared``: which of the plan's buffers for that it has.
    """

    __slots__ = ("offset", "pipelines", "scratch", "shared", "size", "sizes_at", "step")

    def __init__(self, step: Step, compiled: Compiled, shared: list[int], offset: int, size: int) -> None:
        self.step = step
        self.pipelines = compiled.pipelines
        self.scratch = compiled.program.scratch
        self.shared = shared
        self.offset = offset
        self.size = size
        self.sizes_at: dict[Pipeline, int] = {}


class Recording:
    """A plan over one set of buffers: the commands of each submit, and the handles by which the runtime repeats them.

    Attributes:
        steps: the step of the plan at which every submit begins.
        done: how many submits the GPU was given in the last run.
    """

    __slots__ = ("commands", "dispatches", "done", "handles", "keep", "reports", "steps")

    def __init__(self) -> None:
        self.commands: list[array[int]] = [array("q")]
        self.handles: list[Owned] = []
        self.dispatches = 0
        self.steps: list[int] = [0]
        self.done = 0
        self.keep: list[AnyBuffer | Owned] = []
        #: which buffers kernels may report in what they find wrong
        self.reports: set[int] = set()

    def each(self) -> Iterator[array[int]]:
        """Return the commands one by one, in order."""
        for commands in self.commands:
            for at in range(0, len(commands), WORDS):
                yield commands[at : at + WORDS]


class Prepared:
    """A plan made ready for one device."""

    __slots__ = (
        "generation",
        "parameter_buffer",
        "parameter_bytes",
        "parameter_order",
        "parameter_picks",
        "parameter_struct",
        "patience",
        "recordings",
        "rounds",
        "runs",
        "scratch",
        "settling",
        "steps",
        "turn",
        "turns",
    )

    def __init__(self) -> None:
        self.steps: list[Ready | Copy] = []
        # Bytes of buffers that no step needs after it ran: steps have them in turns.
        self.scratch: list[int] = []
        self.turns: dict[tuple[int, int], int] = {}
        self.turn = 0
        self.parameter_struct: struct.Struct | None = None
        self.parameter_order: list[tuple[int, dtype]] = []
        self.parameter_picks: Callable[[Sequence[Any]], Sequence[Any]] = picker(())
        self.parameter_buffer: Owned | None = None
        self.parameter_bytes = b""
        self.recordings: Bounded[tuple[Any, ...], Recording] = Bounded(RECORDINGS_PER_PLAN)
        self.generation = 0
        # What tells of pipelines shared with kernels of other sizes in how many rounds the plan must run again before it
        # gets its own; how often it ran again, and in which rounds.
        self.patience: set[Callable[[], int]] = set()
        self.runs = 0
        self.rounds: set[int] = set()
        # What tells when its own pipelines have been compiled beside what runs, once that began.
        self.settling: Future[bool] | None = None

    def share(self, sizes: Sequence[int]) -> list[int]:
        """Return which buffers a step has as scratch: others than the step before it, so that neither waits for the other."""
        places = [self.turns.setdefault((self.turn, number), len(self.turns)) for number in range(len(sizes))]
        self.scratch += [0] * (len(self.turns) - len(self.scratch))
        for place, nbytes in zip(places, sizes, strict=True):
            self.scratch[place] = max(self.scratch[place], nbytes)
        self.turn ^= bool(places)
        return places


def is_split(pipeline: Pipeline, binding: Binding) -> bool:
    """Return whether a pass binds this buffer in several parts."""
    return any(
        (each.kind, each.index) == (binding.kind, binding.index) and each.part != binding.part
        for each in pipeline.bindings
    )


def prepare(plan: Plan, compiler: Compiler, own: bool = False) -> Prepared:
    """Compile a plan's kernels and lay out its parameters and sizes: every step's begin at a multiple of 256 bytes.

    ``own``: no kernel shares a pipeline with kernels of other sizes.
    """
    steps = [fastest(each, compiler.capabilities.facts) for each in plan.steps]
    kernels = [each.kernel for each in steps if isinstance(each, Step)]
    compiled = without_collection(lambda: compiler.compile(kernels, own))
    prepared = Prepared()
    layout, offset, bound = "<", 0, False
    for step in steps:
        if isinstance(step, Copy):
            prepared.steps.append(step)
            continue
        mine = compiled[step.kernel]
        block = "".join(_FORMATS[each.name] for each in step.kernel.parameters)
        size = struct.calcsize("<" + block)
        padded = max(-(-size // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT, PARAMETER_ALIGNMENT)
        prepared.steps.append(Ready(step, mine, prepared.share(mine.program.scratch), offset, padded))
        prepared.patience.update([each.patience for each in mine.pipelines if each.patience is not None])
        bound = bound or any(each.kind == "parameters" for one in mine.pipelines for each in one.bindings)
        if block:
            layout += f"{block}{padded - size}x"
            prepared.parameter_order += zip(step.parameters, step.kernel.parameters, strict=True)
            offset += padded
    prepared.parameter_picks = picker([index for index, _ in prepared.parameter_order])
    if bound:
        prepared.parameter_struct = struct.Struct(layout)
    if bound or prepared.patience:
        # Room for the block of a last step that reads no parameter although it may.
        _make_buffer(prepared, offset + PARAMETER_ALIGNMENT, compiler)
    return prepared


def _make_buffer(prepared: Prepared, start: int, compiler: Compiler) -> None:
    """Make a plan's uniform buffer: parameters, then from ``start`` the sizes, which are written here for good."""
    places: dict[tuple[int, ...], int] = {}
    for entry in (each for each in prepared.steps if isinstance(each, Ready)):
        for pipeline in entry.pipelines:
            if pipeline.sizes:
                place = places.setdefault(pipeline.sizes, start + len(places) * PARAMETER_ALIGNMENT)
                entry.sizes_at[pipeline] = place
    gpu = compiler.gpu
    owner = prepared.parameter_buffer = gpu.own(gpu.buffer(start + len(places) * PARAMETER_ALIGNMENT, UNIFORM))
    if places:
        data = b"".join(struct.pack(f"<{len(sizes)}I", *sizes).ljust(PARAMETER_ALIGNMENT, b"\0") for sizes in places)
        gpu.write(owner.handle, start, data)


def _copy(commands: array[int], source: AnyBuffer, target: AnyBuffer, nbytes: int) -> None:
    """Append the commands that copy the first bytes of a buffer to another."""
    done = 0
    while done < nbytes:
        (first, begin, count), (second, start, room) = (each.pieces(done, nbytes)[0] for each in (source, target))
        commands.extend((COPY, first, begin, second, start, min(count, room)))
        done += min(count, room)


def in_order(prepared: Prepared) -> list[tuple[Step, Pipeline]]:
    """Return the step and pipeline of every dispatch of a plan, in execution order."""
    return [(each.step, one) for each in prepared.steps if isinstance(each, Ready) for one in each.pipelines]


def pack_parameters(prepared: Prepared, parameters: Sequence[float | int]) -> bytes:
    """Return the bytes of the parameter buffer."""
    layout = prepared.parameter_struct
    if layout is None:
        return b""
    try:
        return layout.pack(*prepared.parameter_picks(parameters))
    except (struct.error, OverflowError):
        return layout.pack(*[stored(parameters[index], kind) for index, kind in prepared.parameter_order])


class BindGroups:
    """Bind groups by layout and bound ranges: creating one costs as much as recording eight dispatches."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._kept: Bounded[tuple[Any, ...], Owned] = Bounded(BIND_GROUPS)
        self._generation = -1
        self.created = 0
        self.hits = 0

    def get(self, layout: int, entries: list[tuple[int, int, int]], generation: int) -> Owned:
        """Return the bind group of a layout over (buffer, offset, size) entries."""
        if generation != self._generation:
            # The pool destroyed buffers; groups over them must go too.
            self._kept.clear()
            self._generation = generation
        key = (layout, *entries)
        group = self._kept.get(key)
        if group is not None:
            self._kept.move_to_end(key)
            self.hits += 1
            return group
        group = self._kept[key] = self._gpu.own(self._gpu.group(layout, entries))
        self.created += 1
        return group


class Held(NamedTuple):
    """A submit that goes to the GPU together with the copy of what it computes, and what it needs until then."""

    handle: int
    prepared: Prepared
    recording: Recording
    buffers: list[AnyBuffer]


class Replayer:
    """Turns prepared plans and buffers into recordings, and recordings into submits."""

    def __init__(self, gpu: Gpu, pool: Pool, binding_bytes: int) -> None:
        self.gpu = gpu
        self.pool = pool
        self.binding_bytes = binding_bytes
        self.groups = BindGroups(gpu)
        #: what kernels report: by slot a code and what was found; several, as kernels that write one buffer wait for another
        self.reports: dict[int, Owned] = {}
        self.dispatches = 0
        self.submits = 0
        self.recording_hits = 0

    def recording(self, prepared: Prepared, buffers: list[AnyBuffer]) -> Recording:
        """Return the recording of a plan over these buffers, scratch last, made on first use, to be submitted from its beginning."""
        if prepared.generation != self.pool.generation:
            prepared.recordings.clear()
            prepared.generation = self.pool.generation
        key = tuple(map(_key_of, buffers))
        found = prepared.recordings.get(key)
        if found is None:
            first = len(buffers) - len(prepared.scratch)
            found = self._record(prepared, buffers[:first], buffers[first:])
            prepared.recordings[key] = found
        else:
            prepared.recordings.move_to_end(key)
            self.recording_hits += 1
        found.done = 0
        return found

    def submit(self, recording: Recording, but_last: bool = False) -> int | None:
        """Run a recording; ``but_last``: without its last submit, whose handle is returned where there is one.

        Ends at a submit that the runtime refuses, which ``recording.done`` then tells.
        """
        gpu, handles = self.gpu, recording.handles
        given = gpu.submits
        for each in handles[:-1] if but_last else handles:
            gpu.submit(each.handle)
            given += 1
            if gpu.submits != given:
                return None
            recording.done += 1
        self.submits += len(handles)
        self.dispatches += recording.dispatches
        return handles[-1].handle if but_last and handles else None

    def _record(self, prepared: Prepared, buffers: list[AnyBuffer], scratch: list[AnyBuffer]) -> Recording:
        recording = Recording()
        count = 0
        for number, entry in enumerate(prepared.steps):
            if count >= min(self.gpu.first_submit << (len(recording.commands) - 1), LARGEST_SUBMIT):
                recording.commands.append(array("q"))
                recording.steps.append(number)
                count = 0
            commands = recording.commands[-1]
            if isinstance(entry, Copy):
                source, target = buffers[entry.source], buffers[entry.target]
                if source.key != target.key:
                    _copy(commands, source, target, (entry.nbytes + 3) & ~3)
                continue
            mine = [scratch[each] for each in entry.shared]
            for pipeline in entry.pipelines:
                bound = self._bound(pipeline, entry, buffers, mine, prepared, recording)
                group = self.groups.get(pipeline.layout, bound, self.pool.generation)
                recording.keep.append(group)
                commands.extend((DISPATCH, pipeline.handle, group.handle, *pipeline.workgroups))
            count += len(entry.pipelines)
            recording.dispatches += len(entry.pipelines)
        recording.handles = [self.gpu.own(self.gpu.record(each)) for each in recording.commands if each]
        return recording

    def _bound(
        self,
        pipeline: Pipeline,
        entry: Ready,
        buffers: list[AnyBuffer],
        scratch: list[AnyBuffer],
        prepared: Prepared,
        recording: Recording,
    ) -> list[tuple[int, int, int]]:
        """Return (buffer, offset, size) per binding.

        WebGPU refuses a buffer that one dispatch both reads and writes through two bindings: such a read goes to a copy
        made just before.
        """
        found: list[tuple[int, int, int]] = []
        uniform = prepared.parameter_buffer.handle if prepared.parameter_buffer is not None else 0
        written = {
            self._buffer(each, entry.step, buffers, scratch).key
            for each in pipeline.bindings
            if each.writes and each.kind != "reports"
        }
        for each in pipeline.bindings:
            if each.kind == "parameters":
                found.append((uniform, entry.offset, entry.size))
                continue
            if each.kind == "sizes":
                found.append((uniform, entry.sizes_at[pipeline], PARAMETER_ALIGNMENT))
                continue
            if each.kind == "reports":
                found.append((self._reports(recording, buffers[entry.step.outputs[0]]), 0, REPORT_BYTES))
                continue
            buffer = self._buffer(each, entry.step, buffers, scratch)
            if not each.writes and buffer.key in written:
                copy = self.pool.take(buffer.requested)
                recording.keep.append(copy)
                _copy(recording.commands[-1], buffer, copy, min(buffer.nbytes, copy.nbytes) & ~3)
                buffer = copy
            place = buffer.part(each.part, part_bytes(self.binding_bytes))
            found.append((*place, self._size(buffer, each, entry, pipeline)))
        return found

    def _reports(self, recording: Recording, output: AnyBuffer) -> int:
        """Return the buffer that a kernel may report in: the same for the same output, so that bind groups are found again."""
        number = hash(output.key) % REPORT_BUFFERS
        if number not in self.reports:
            self.reports[number] = self.gpu.own(self.gpu.buffer(REPORT_BYTES, STORAGE))
        recording.reports.add(number)
        return self.reports[number].handle

    @staticmethod
    def _buffer(binding: Binding, step: Step, buffers: list[AnyBuffer], scratch: list[AnyBuffer]) -> AnyBuffer:
        if binding.kind == "scratch":
            return scratch[binding.index]
        table = step.operands if binding.kind == "operand" else step.outputs
        return buffers[table[binding.index]]

    def _size(self, buffer: AnyBuffer, binding: Binding, entry: Ready, pipeline: Pipeline) -> int:
        """Return how much of a buffer to bind.

        Raises:
            KernelError: the kernel needs more of it than the adapter binds at once.
        """
        if buffer.nbytes <= self.binding_bytes:
            return buffer.nbytes
        part = part_bytes(self.binding_bytes)
        if is_split(pipeline, binding):
            return min(part, buffer.nbytes - binding.part * part)
        kernel = entry.step.kernel
        if binding.kind == "scratch":
            needed = entry.scratch[binding.index]
        else:
            used = (kernel.operands if binding.kind == "operand" else kernel.outputs)[binding.index]
            needed = used.numel * used.dtype.itemsize
        most = part if isinstance(buffer, LongBuffer) else self.binding_bytes
        if needed > most:
            raise KernelError(
                f"kernel '{pipeline.name}' (operation {kernel.name}) uses {needed} bytes of one buffer; "
                f"this adapter binds at most {most} bytes at once. Split the tensor."
            )
        return most

    def blame(self, prepared: Prepared, recording: Recording) -> str:
        """Return the name of the first kernel of a failed recording that is refused on its own, or an empty string."""
        order = iter(in_order(prepared))
        for command in recording.each():
            if command[0] == COPY:
                continue
            step, pipeline = next(order)
            alone = self.gpu.own(self.gpu.record(command))
            self.gpu.validate(alone.handle)
            if self.gpu.error() is not None:
                return f"kernel '{pipeline.name}' (operation {step.kernel.name})"
        return ""
