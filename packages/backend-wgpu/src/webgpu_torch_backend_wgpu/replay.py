"""Plans made ready to run: parameters in one buffer, cached bind groups, and a list of native calls to repeat."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from webgpu_torch_core.backend.collection import without_collection
from webgpu_torch_core.backend.interface import REPORT_SLOTS, Copy, Plan, Step
from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.host_bytes import stored
from webgpu_torch_core.ir.kernels import Kernel
from webgpu_torch_core.record.runs import picker

from .copying import fastest
from .errors import KernelError
from .gpu.interface import COPY, DISPATCH, STORAGE, WORDS, Gpu, Owned
from .memory import Buffer, LongBuffer, Pool
from .modules import Compiled, Compiler, Pipeline
from .program import PARAMETER_ALIGNMENT, REPORT_WORDS, Binding, part_bytes
from .uniforms import Block, Uniforms

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


class Dispatch:
    """One pipeline of a step and what it binds: a buffer by its number among a plan's buffers (those of scratch come last), or
    uniform memory (``block``), or (none of both) the buffer of reports.

    ``reads`` and ``writes``: which bindings only read a buffer, and the numbers of those that are written.
    """

    __slots__ = ("pipeline", "reads", "spots", "writes")

    def __init__(self, pipeline: Pipeline, spots: list[Spot]) -> None:
        self.pipeline = pipeline
        self.spots = spots
        bound = [(at, each.number) for at, each in enumerate(spots) if each.number is not None]
        self.writes = [number for at, number in bound if spots[at].binding.writes]
        self.reads = [(at, number) for at, number in bound if not spots[at].binding.writes]


class Spot:
    """What a dispatch binds at one place."""

    __slots__ = ("binding", "block", "number")

    def __init__(self, binding: Binding, number: int | None, block: Block | None) -> None:
        self.binding = binding
        self.number = number
        self.block = block


class Ready:
    """One step of a plan with its dispatches, and where its parameters are among the plan's bytes.

    ``scratch``: the bytes that it needs besides.
    """

    __slots__ = ("dispatches", "offset", "scratch", "size", "step")

    def __init__(self, step: Step, compiled: Compiled, dispatches: list[Dispatch], offset: int, size: int) -> None:
        self.step = step
        self.dispatches = dispatches
        self.scratch = compiled.program.scratch
        self.offset = offset
        self.size = size

    def hold_parameters(self, block: Block) -> None:
        """Have the step read its parameters there."""
        for each in self.dispatches:
            for spot in each.spots:
                if spot.binding.kind == "parameters":
                    spot.block = block


class Recording:
    """A plan over one set of buffers: the commands of each submit, and the handles by which the runtime repeats them.

    Attributes:
        steps: the step of the plan at which every submit begins.
        done: how many submits the GPU was given in the last run.
    """

    __slots__ = ("bring", "commands", "dispatches", "done", "handles", "keep", "reports", "steps")

    def __init__(self) -> None:
        self.commands: list[array[int]] = [array("q")]
        self.handles: list[Owned] = []
        self.dispatches = 0
        self.steps: list[int] = [0]
        self.done = 0
        #: what runs the last submit and brings what it computes, where that is asked for each time
        self.bring: Callable[[], Callable[[Sequence[memoryview]], None]] | None = None
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
        "changes",
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
        # Whether parameters are others in every run, as far as that is known: the bytes that steps have among their blocks, and
        # the buffer that holds them once they have changed.
        self.changes = False
        self.parameter_bytes = b""
        self.parameter_buffer: Block | None = None
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


def prepare(plan: Plan, compiler: Compiler, uniforms: Uniforms, own: bool = False) -> Prepared:
    """Compile a plan's kernels and lay out its parameters: every step's begin at a multiple of 256 bytes.

    ``own``: no kernel shares a pipeline with kernels of other sizes.
    """
    steps = [fastest(each, compiler.capabilities.facts) for each in plan.steps]
    kernels = [each.kernel for each in steps if isinstance(each, Step)]
    compiled = without_collection(lambda: compiler.compile(kernels, own))
    prepared = Prepared()
    prepared.changes = plan.lasting or any(_draws(each) for each in kernels if each.parameters)
    layout, offset, bound, first = "<", 0, False, plan.externals + len(plan.temporaries)
    for step in steps:
        if isinstance(step, Copy):
            prepared.steps.append(step)
            continue
        mine = compiled[step.kernel]
        block = "".join(_FORMATS[each.name] for each in step.kernel.parameters)
        size = struct.calcsize("<" + block)
        padded = -(-size // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
        tables = {
            "operand": step.operands, "output": step.outputs, "scratch": [first + each for each in prepared.share(mine.program.scratch)],
        }  # fmt: skip
        dispatches = [_dispatch(each, tables, uniforms) for each in mine.pipelines]
        prepared.steps.append(Ready(step, mine, dispatches, offset, padded))
        prepared.patience.update([each.patience for each in mine.pipelines if each.patience is not None])
        bound = bound or any(each.kind == "parameters" for one in mine.pipelines for each in one.bindings)
        if block:
            layout += f"{block}{padded - size}x"
            prepared.parameter_order += zip(step.parameters, step.kernel.parameters, strict=True)
            offset += padded
    prepared.parameter_picks = picker([index for index, _ in prepared.parameter_order])
    if bound:
        prepared.parameter_struct = struct.Struct(layout)
    return prepared


def _draws(kernel: Kernel) -> bool:
    """Return whether a kernel draws random numbers, each time from where the time before ended."""
    return any(node.step == "threefry" for root in kernel.expressions() for node in topological(root))


def _dispatch(pipeline: Pipeline, tables: Mapping[str, Sequence[int]], uniforms: Uniforms) -> Dispatch:
    """Return what a pipeline binds; ``tables``: the numbers of buffers by the kind of a binding and its index."""
    spots = []
    for each in pipeline.bindings:
        table, block = tables.get(each.kind), None
        if each.kind == "sizes":
            block = uniforms.block(struct.pack(f"<{len(pipeline.sizes)}I", *pipeline.sizes))
        elif each.kind == "parameters":
            block = uniforms.nothing
        spots.append(Spot(each, None if table is None else table[each.index], block))
    return Dispatch(pipeline, spots)


def _copy(commands: array[int], source: AnyBuffer, target: AnyBuffer, nbytes: int) -> None:
    """Append the commands that copy the first bytes of a buffer to another."""
    done = 0
    while done < nbytes:
        (first, begin, count), (second, start, room) = (each.pieces(done, nbytes)[0] for each in (source, target))
        commands.extend((COPY, first, begin, second, start, min(count, room)))
        done += min(count, room)


def in_order(prepared: Prepared) -> list[tuple[Step, Pipeline]]:
    """Return the step and pipeline of every dispatch of a plan, in execution order."""
    return [(each.step, one.pipeline) for each in prepared.steps if isinstance(each, Ready) for one in each.dispatches]


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
        self.uniforms = Uniforms(gpu)
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
            found = prepared.recordings[key] = self._record(prepared, buffers)
        else:
            prepared.recordings.move_to_end(key)
            self.recording_hits += 1
        found.done = 0
        return found

    def place_parameters(self, prepared: Prepared, parameters: Sequence[float | int]) -> None:
        """Have the uniform memory of a plan's steps hold its parameters.

        What never changes is where other plans have the same; a plan whose parameters change writes them to a buffer of its own.
        """
        data = pack_parameters(prepared, parameters)
        if data == prepared.parameter_bytes:
            return
        ready = [each for each in prepared.steps if isinstance(each, Ready) and each.size]
        if not prepared.parameter_bytes and not prepared.changes:
            for each in ready:
                each.hold_parameters(self.uniforms.block(data[each.offset : each.offset + each.size]))
        else:
            buffer = prepared.parameter_buffer
            if buffer is None:
                buffer = prepared.parameter_buffer = self.uniforms.own(len(data))
                prepared.recordings.clear()
                for each in ready:
                    each.hold_parameters(Block(buffer.handle, each.offset, each.size, buffer))
            self.gpu.write(buffer.handle, 0, data)
        prepared.parameter_bytes = data

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

    def bringing(
        self, recording: Recording, buffer: AnyBuffer, nbytes: int
    ) -> Callable[[], Callable[[Sequence[memoryview]], None]]:
        """Return what runs the last submit of a recording and brings the first bytes of a buffer with it, always the same ones."""
        found = recording.bring
        if found is None:
            last = recording.handles[-1].handle
            found = recording.bring = self.gpu.read_again(buffer.pieces(0, nbytes), last)
        return found

    def _record(self, prepared: Prepared, buffers: list[AnyBuffer]) -> Recording:
        recording = Recording()
        count, generation = 0, self.pool.generation
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
            for each in entry.dispatches:
                pipeline = each.pipeline
                group = self.groups.get(pipeline.layout, self._bound(each, entry, buffers, recording), generation)
                recording.keep.append(group)
                commands.extend((DISPATCH, pipeline.handle, group.handle, *pipeline.workgroups))
            count += len(entry.dispatches)
            recording.dispatches += len(entry.dispatches)
        recording.handles = [self.gpu.own(self.gpu.record(each)) for each in recording.commands if each]
        return recording

    def _bound(
        self, dispatch: Dispatch, entry: Ready, buffers: list[AnyBuffer], recording: Recording
    ) -> list[tuple[int, int, int]]:
        """Return (buffer, offset, size) per binding.

        WebGPU refuses a buffer that one dispatch both reads and writes through two bindings: such a read goes to a copy
        made just before.
        """
        found: list[tuple[int, int, int]] = []
        limit = self.binding_bytes
        for spot in dispatch.spots:
            if spot.number is not None:
                buffer = buffers[spot.number]
                nbytes = buffer.nbytes
                whole = nbytes <= limit and not spot.binding.part
                found.append((buffer.handle, 0, nbytes) if whole else self._part(buffer, spot.binding, entry, dispatch))  # type: ignore[union-attr]
            elif spot.block is not None:
                found.append(spot.block.bound())
            else:
                found.append((self._reports(recording, buffers[entry.step.outputs[0]]), 0, REPORT_BYTES))
        written = [buffers[number].key for number in dispatch.writes]
        for at, number in dispatch.reads:
            buffer = buffers[number]
            if buffer.key in written:
                copy = self.pool.take(buffer.requested)
                recording.keep.append(copy)
                _copy(recording.commands[-1], buffer, copy, min(buffer.nbytes, copy.nbytes) & ~3)
                found[at] = self._part(copy, dispatch.spots[at].binding, entry, dispatch)
        return found

    def _part(self, buffer: AnyBuffer, binding: Binding, entry: Ready, dispatch: Dispatch) -> tuple[int, int, int]:
        """Return what is bound of a buffer that may be longer than the adapter binds at once."""
        place = buffer.part(binding.part, part_bytes(self.binding_bytes))
        return *place, self._size(buffer, binding, entry, dispatch.pipeline)

    def _reports(self, recording: Recording, output: AnyBuffer) -> int:
        """Return the buffer that a kernel may report in: the same for the same output, so that bind groups are found again."""
        number = hash(output.key) % REPORT_BUFFERS
        if number not in self.reports:
            self.reports[number] = self.gpu.own(self.gpu.buffer(REPORT_BYTES, STORAGE))
        recording.reports.add(number)
        return self.reports[number].handle

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
