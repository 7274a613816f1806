"""Compiled programs: kernels to WGSL to pipelines, each made once."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping

from webgpu_torch_core.backend.collection import without_collection
from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir.kernels import Kernel

from .codegen.resizing import Generator
from .errors import KernelError, numbered
from .families import MOST_OWN, Families
from .gpu.interface import Gpu, GpuError, Owned, PipelineRequest
from .program import Binding, Capabilities, Pass, Program
from .settling import Beside, Key

#: programs and pipelines kept; the least recently used go first
PROGRAM_LIMIT = 4096
#: programs kept as they were generated: a network has some dozens
GENERATED_LIMIT = 1024
#: the share of a dispatch below which a kernel's time is nothing: it shares a pipeline from its second size on
SHORT = 1 / 16
#: characters of a pass that takes long to compile, up to a second: it does so, too, and is compiled for its sizes once they stay
LONG = 16_000


class Pipeline:
    """A compiled pass."""

    __slots__ = ("bindings", "handle", "layout", "name", "owner", "patience", "sizes", "workgroups")

    def __init__(self, owner: Owned, layout: int, entry: Pass) -> None:
        self.owner = owner
        self.handle = owner.handle
        self.layout = layout
        self.name = entry.name
        self.workgroups = entry.workgroups
        self.bindings = entry.bindings
        self.sizes = entry.sizes
        self.patience = entry.patience


class Compiled:
    """A kernel's program with its pipelines."""

    __slots__ = ("pipelines", "program")

    @property
    def shared(self) -> bool:
        """Whether a pass reads its sizes at run time."""
        return any(each.sizes for each in self.pipelines)

    def __init__(self, program: Program, pipelines: list[Pipeline]) -> None:
        self.program = program
        self.pipelines = pipelines


class Compiler:
    """Makes and keeps programs and pipelines of one device."""

    def __init__(self, gpu: Gpu, capabilities: Capabilities, trusted: bool, debug: int = 0) -> None:
        self.gpu = gpu
        self.capabilities = capabilities
        self.trusted = trusted
        self.debug = debug
        self.generate: Callable[[Kernel, Capabilities], Program] = Generator().generate
        self.compiled_pipelines = 0
        #: how often the host has waited for results
        self.round = 0
        self._families = Families()
        self._programs: Bounded[Kernel, Compiled] = Bounded(PROGRAM_LIMIT)
        self._pipelines: OrderedDict[Key, tuple[Owned, int]] = OrderedDict()
        #: programs as they were generated, for who asks about them before they are compiled, and for files
        self._generated_lately: Bounded[Kernel, Program] = Bounded(GENERATED_LIMIT)
        self._lock = threading.RLock()
        #: compiles what nobody waits for
        self.beside = Beside(self)

    def compile(self, kernels: Iterable[Kernel], own: bool = False) -> dict[Kernel, Compiled]:
        """Return each kernel's compiled program; pipelines that are missing are compiled in parallel.

        ``own``: none shares a pipeline with kernels of other sizes.

        Raises:
            KernelError: WGSL was refused; the message shows the lines in question.
        """
        with self._lock:
            self.beside.take()
            found: dict[Kernel, Compiled] = {}
            made: dict[Kernel, Program] = {}
            for kernel in dict.fromkeys(kernels):
                have = self._programs.get(kernel)
                if have is not None and not (own and have.shared):
                    self._programs.move_to_end(kernel)
                    found[kernel] = have
                else:
                    made[kernel] = self._generated(kernel)
            if not own:
                early = [each for each in made.values() if self._shares_early(each)]
                self._families.foresee([each for program in early for each in program.passes])
                made = {kernel: self._sharing(program) for kernel, program in made.items()}
            self._compile_missing(made)
            for kernel, program in made.items():
                found[kernel] = self._keep(kernel, program)
            while len(self._pipelines) > PROGRAM_LIMIT:
                self._pipelines.popitem(last=False)
            return found

    def expect(self, kernels: Iterable[Kernel]) -> None:
        """Begin to compile kernels, if nobody has to wait for it; what is wrong with one is said where it runs."""
        if self.gpu.compiles_later:
            with self._lock, contextlib.suppress(NotImplementedError, KernelError):
                programs = {kernel: self._generated(kernel) for kernel in dict.fromkeys(kernels)}
                counts = Counter(kernel.name for kernel in programs)
                # What comes in several sizes comes in others, too, of which some may have another text each.
                again = [
                    each for kernel, each in programs.items() if counts[kernel.name] > 1 and self._shares_early(each)
                ]
                self._families.foresee([each for program in again for each in program.passes], several=1)
                self.compile(programs)

    def own_program(self, kernel: Kernel) -> Program | None:
        """Return a kernel's program that shares no pipeline with other sizes; None where it has that already."""
        with self._lock:
            have = self._programs.get(kernel)
            return self._generated(kernel) if have is None or have.shared else None

    def _keep(self, kernel: Kernel, program: Program) -> Compiled:
        """Keep a program whose pipelines are all there."""
        pipelines = [Pipeline(*self._pipelines[each.source, each.bindings], each) for each in program.passes]
        found = self._programs[kernel] = Compiled(program, pipelines)
        return found

    def has(self, key: Key) -> bool:
        """Return whether there is a pipeline of some source and bindings."""
        with self._lock:
            return key in self._pipelines

    def adopt(self, programs: dict[Kernel, Program], made: dict[Key, tuple[int, int]]) -> None:
        """Keep pipelines that were made elsewhere, handles and layouts, and the programs that have all of theirs now."""
        with self._lock:
            for key, (handle, layout) in made.items():
                self._pipelines[key] = self.gpu.own(handle), layout
                self.compiled_pipelines += 1
            for kernel, program in programs.items():
                if all((each.source, each.bindings) in self._pipelines for each in program.passes):
                    self._keep(kernel, program)

    def request(self, entry: Pass) -> PipelineRequest:
        """Return what a GPU is asked for to compile a pass."""
        return PipelineRequest(entry.name, entry.source, self.gpu.layout(kinds_of(entry)), self.trusted)

    def seconds(self, kernel: Kernel) -> float:
        """Return about how long a kernel takes; 0 where it has no program, which is said when it is compiled."""
        with self._lock:
            have = self._programs.get(kernel)
            if have is not None:
                return have.program.seconds
            try:
                return self._made(kernel).seconds
            except (NotImplementedError, KernelError):
                return 0.0

    def generated(self, kernels: Iterable[Kernel]) -> dict[Kernel, Program]:
        """Return the programs that were lately generated, of those among some kernels."""
        with self._lock:
            return {kernel: self._generated_lately[kernel] for kernel in kernels if kernel in self._generated_lately}

    def take(self, programs: Mapping[Kernel, Program]) -> None:
        """Take programs that were generated before, for an adapter like this."""
        with self._lock:
            self._generated_lately.update(programs)

    def _made(self, kernel: Kernel) -> Program:
        """Return a kernel's program, as it is generated for its sizes."""
        found = self._generated_lately.get(kernel)
        if found is None:
            made = without_collection(lambda: self.generate(kernel, self.capabilities))
            found = self._generated_lately[kernel] = made
        return found

    def _generated(self, kernel: Kernel) -> Program:
        """Return a kernel's program, which fits the adapter."""
        program = self._made(kernel)
        if self.debug >= 4:
            print(text_of(program), file=sys.stderr)
        limit = self.capabilities.workgroups_per_dimension
        most = self.capabilities.storage_buffers
        for each in program.passes:
            stored = sum(kind != "uniform" for kind in kinds_of(each))
            if stored > most:
                raise KernelError(
                    f"kernel '{each.name}' (operation {kernel.name}) binds {stored} storage buffers, or parts of long ones; "
                    f"this adapter binds at most {most}. Use smaller tensors or split them."
                )
            if max(each.workgroups) > limit:
                raise KernelError(
                    f"kernel '{each.name}' (operation {kernel.name}) asks for {each.workgroups} workgroups; "
                    f"this adapter runs at most {limit} per dimension"
                )
        return program

    def _shares_early(self, program: Program) -> bool:
        """Return whether a program takes next to no time, or long to compile: more than it gains by being compiled for its sizes."""
        short = program.seconds <= self.capabilities.facts.dispatch * SHORT
        return short or any(len(each.source) >= LONG for each in program.passes)

    def _sharing(self, program: Program) -> Program:
        """Return the program to compile: passes that others of their family share, where they have not been compiled."""
        most_own = 1 if self._shares_early(program) else MOST_OWN
        passes = tuple([self._shared(each, most_own) for each in program.passes])
        return Program(passes, program.scratch, program.seconds)

    def _shared(self, entry: Pass, most_own: int) -> Pass:
        """Return the pass to compile for a pass: itself where that was done before, else what its family shares."""
        if (entry.source, entry.bindings) in self._pipelines:
            return entry
        return self._families.member(entry, self.round, most_own)

    def _compile_missing(self, made: dict[Kernel, Program]) -> None:
        missing: dict[Key, tuple[Kernel, Pass]] = {}
        for kernel, program in made.items():
            for each in program.passes:
                key = each.source, each.bindings
                if key in self._pipelines:
                    self._pipelines.move_to_end(key)
                else:
                    missing.setdefault(key, (kernel, each))
        if not missing:
            return
        requests = [self.request(each) for _, each in missing.values()]
        refused: KernelError | None = None
        compiled = (self.gpu.pipelines_later if self.trusted else self.gpu.pipelines)(requests)
        for (key, (kernel, entry)), request, pipeline in zip(missing.items(), requests, compiled, strict=True):
            if isinstance(pipeline, GpuError):
                text = numbered(entry.source, str(pipeline))
                refused = refused or KernelError(
                    f"kernel '{entry.name}' (operation {kernel.name}) did not compile: {text}"
                )
                continue
            self._pipelines[key] = self.gpu.own(pipeline), request.layout
            self.compiled_pipelines += 1
        if refused is not None:
            raise refused


def kinds_of(entry: Pass) -> tuple[str, ...]:
    """Return how a pass binds its buffers, in the order of its bindings."""
    return tuple([_buffer_type(each) for each in entry.bindings])


def _buffer_type(binding: Binding) -> str:
    if binding.kind in ("parameters", "sizes"):
        return "uniform"
    return "storage" if binding.writes else "read-only-storage"


def text_of(program: Program) -> str:
    """Return a program's WGSL, each pass under a line with its name and workgroups."""
    return "\n".join(f"// {each.name} {each.workgroups}\n{each.source}" for each in program.passes)
