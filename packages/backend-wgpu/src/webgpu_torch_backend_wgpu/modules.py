"""Compiled programs: kernels to WGSL to pipelines, each made once."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from webgpu_torch_core.ir.kernels import Kernel

from . import native
from .errors import KernelError, numbered
from .families import Families
from .program import Binding, Capabilities, Pass, Program

#: programs and pipelines kept; the least recently used go first
PROGRAM_LIMIT = 4096
#: shaders compiled at the same time
_COMPILERS = min(8, os.cpu_count() or 1)


class Pipeline:
    """A compiled pass."""

    __slots__ = ("bindings", "handle", "keep", "layout", "name", "sizes", "workgroups")

    def __init__(self, keep: Any, layout: Any, entry: Pass) -> None:
        self.keep = keep
        self.handle = keep._internal
        self.layout = layout._internal
        self.name = entry.name
        self.workgroups = entry.workgroups
        self.bindings = entry.bindings
        self.sizes = entry.sizes


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

    def __init__(self, device: Any, capabilities: Capabilities, trusted: bool, debug: int = 0) -> None:
        self.device = device
        self.capabilities = capabilities
        self.trusted = trusted
        self.debug = debug
        self.generate: Callable[[Kernel, Capabilities], Program] = _generate
        self.compiled_pipelines = 0
        #: how often the host has waited for results
        self.round = 0
        self._families = Families()
        self._programs: OrderedDict[Kernel, Compiled] = OrderedDict()
        self._pipelines: OrderedDict[tuple[str, tuple[Binding, ...]], tuple[Any, Any]] = OrderedDict()
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    def compile(self, kernels: Iterable[Kernel], own: bool = False) -> dict[Kernel, Compiled]:
        """Return each kernel's compiled program; pipelines that are missing are compiled in parallel.

        ``own``: none shares a pipeline with kernels of other sizes.

        Raises:
            KernelError: WGSL was refused; the message shows the lines in question.
        """
        with self._lock:
            found: dict[Kernel, Compiled] = {}
            made: dict[Kernel, Program] = {}
            for kernel in dict.fromkeys(kernels):
                have = self._programs.get(kernel)
                if have is not None and not (own and have.shared):
                    self._programs.move_to_end(kernel)
                    found[kernel] = have
                else:
                    made[kernel] = self._generated(kernel, own)
            self._compile_missing(made)
            for kernel, program in made.items():
                pipelines = [Pipeline(*self._pipelines[each.source, each.bindings], each) for each in program.passes]
                found[kernel] = self._programs[kernel] = Compiled(program, pipelines)
            _shrink(self._programs)
            _shrink(self._pipelines)
            return found

    def _generated(self, kernel: Kernel, own: bool) -> Program:
        program = self.generate(kernel, self.capabilities)
        if self.debug >= 4:
            print(text_of(program), file=sys.stderr)
        limit = self.capabilities.workgroups_per_dimension
        for each in program.passes:
            if max(each.workgroups) > limit:
                raise KernelError(
                    f"kernel '{each.name}' (operation {kernel.name}) asks for {each.workgroups} workgroups; "
                    f"this adapter runs at most {limit} per dimension"
                )
        return program if own else program.replace(passes=tuple([self._shared(each) for each in program.passes]))

    def _shared(self, entry: Pass) -> Pass:
        """Return the pass to compile for a pass: itself where that was done before, else what its family shares."""
        return entry if (entry.source, entry.bindings) in self._pipelines else self._families.member(entry, self.round)

    def _compile_missing(self, made: dict[Kernel, Program]) -> None:
        missing: dict[tuple[str, tuple[Binding, ...]], tuple[Kernel, Pass]] = {}
        for kernel, program in made.items():
            for each in program.passes:
                key = each.source, each.bindings
                if key in self._pipelines:
                    self._pipelines.move_to_end(key)
                else:
                    missing.setdefault(key, (kernel, each))
        layouts = {key: self._layout(each) for key, (_, each) in missing.items()}
        if len(missing) > 2 and _COMPILERS > 2:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(_COMPILERS) as pool:
                futures = {key: pool.submit(self._pipeline, *what, layouts[key][1]) for key, what in missing.items()}
                pipelines = {key: future.result() for key, future in futures.items()}
        else:
            pipelines = {key: self._pipeline(*what, layouts[key][1]) for key, what in missing.items()}
        for key, pipeline in pipelines.items():
            self._pipelines[key] = pipeline, layouts[key][0]
        self.compiled_pipelines += len(missing)

    def _layout(self, entry: Pass) -> tuple[Any, Any]:
        """Return the bind group layout and pipeline layout of a pass, shared by all that bind the same kinds."""
        kinds = tuple(_buffer_type(each) for each in entry.bindings)
        found = self._layouts.get(kinds)
        if found is None:
            layout = self.device.create_bind_group_layout(
                entries=[
                    {"binding": number, "visibility": "COMPUTE", "buffer": {"type": kind}}
                    for number, kind in enumerate(kinds)
                ]
            )
            found = self._layouts[kinds] = layout, self.device.create_pipeline_layout(bind_group_layouts=[layout])
        return found

    def _pipeline(self, kernel: Kernel, entry: Pass, layout: Any) -> Any:
        try:
            module = native.create_shader_module(self.device, entry.source, entry.name, self.trusted)
            return self.device.create_compute_pipeline(
                label=entry.name, layout=layout, compute={"module": module, "entry_point": "main"}
            )
        except (native.GPUError, RuntimeError) as error:
            raise KernelError(
                f"kernel '{entry.name}' (operation {kernel.name}) did not compile: {numbered(entry.source, str(error))}"
            ) from error


def _buffer_type(binding: Binding) -> str:
    if binding.kind in ("parameters", "sizes"):
        return "uniform"
    return "storage" if binding.writes else "read-only-storage"


def _shrink(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > PROGRAM_LIMIT:
        kept.popitem(last=False)


def _generate(kernel: Kernel, capabilities: Capabilities) -> Program:
    from .codegen import generate

    return generate(kernel, capabilities)


def text_of(program: Program) -> str:
    """Return a program's WGSL, each pass under a line with its name and workgroups."""
    return "\n".join(f"// {each.name} {each.workgroups}\n{each.source}" for each in program.passes)
