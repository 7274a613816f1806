"""The WebGPU device: pooled buffers, compiled programs, plans replayed as a few large submits."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from webgpu_torch_core.backend.interface import CannotWaitError, Device, DeviceLostError, Launch, Plan
from webgpu_torch_core.config import DEBUG
from webgpu_torch_core.files.kept import KeptFiles
from webgpu_torch_core.ir.dtypes import STORED_DTYPES, dtype, float64, uint64
from webgpu_torch_core.ir.kernels import FORMS, Attention, Kernel, PreparedContraction
from webgpu_torch_core.record.interrupts import hold
from webgpu_torch_core.record.runs import Run
from webgpu_torch_core.record.tape import Value

from . import codegen, config
from .codegen.preparing import preparing_pays
from .codegen.steps import step_length
from .codegen.types import element_type
from .codegen.variants import attention_pays
from .coming import COMING_BYTES, Coming
from .describing import description_of, statistics_of
from .ending import end_with_process
from .errors import translate
from .facts import Facts
from .gpu.interface import Adapter, Gpu, GpuError
from .kernel_reports import KernelReports
from .limits import capabilities, maximum_bindings
from .memory import Part, Pool, parts_into
from .modules import Compiled, Compiler, Pipeline, text_of
from .profiling import Profiler
from .program import Program, part_bytes
from .replay import AnyBuffer, Held, Prepared, Recording, Replayer, in_order, prepare

#: how often a plan has run again, in however few rounds, before its kernels get text of their own instead of sharing
#: pipelines with kernels of other sizes
SETTLED_RUNS = 256
#: storage buffers that an adapter must bind at once for kernels to report
BINDINGS_TO_REPORT = 8
#: most bytes that are read while the device goes on; more is worth waiting for
LATER_BYTES = 1 << 16


class WgpuDevice(Device):
    """One adapter's device.

    Donation: outputs share a buffer with an operand only through ``Output.initial``, and such a program binds that
    buffer once, as the output. A kernel may use at most ``capabilities.binding_bytes`` of one buffer; larger buffers
    can be allocated, copied, written and read.
    """

    asynchronous = True
    places = True
    forms = frozenset((*FORMS, Attention, PreparedContraction))
    # In statements: drivers were seen to take about a millisecond for each of so many, and more for each of more.
    kernel_length = 160
    plan_files = KeptFiles("webgpu")
    plan_modules = (codegen,)
    # Generating text takes longer than scheduling, and long tapes are handed over in pieces.
    plan_length = 8

    def __init__(self, gpu: Gpu, adapter: Adapter, facts: Facts, index: int) -> None:
        self.name = f"webgpu:{index}"
        self.gpu, self.adapter = gpu, adapter
        self.capabilities = capabilities(adapter, gpu, facts)
        self.plan_facts = repr(self.capabilities)
        self.maximum_bindings = maximum_bindings(self.capabilities)
        # Reports take a binding; scatters need up to four others.
        self.reports = self.capabilities.storage_buffers >= BINDINGS_TO_REPORT
        self.binding_bytes = self.capabilities.binding_bytes
        self.dtypes: frozenset[dtype] = frozenset(STORED_DTYPES) - {float64, uint64}
        self.lock = threading.RLock()
        self.failure: Exception | None = None
        self.lost: str | None = None
        self.debug = DEBUG.number(0)
        self._held: Held | None = None
        self.pool = Pool(gpu, part_bytes(self.capabilities.binding_bytes))
        self.compiler = Compiler(gpu, self.capabilities, not config.CHECKED.is_on(), self.debug)
        self.replayer = Replayer(gpu, self.pool, self.capabilities.binding_bytes)
        self.reported_by_kernels = KernelReports(gpu, self.replayer.reports)
        self.profiler = Profiler(gpu)
        # What a kernel that ran at once computed, on its way to the host, and what nobody asked for in time.
        self._coming: Coming | None = None
        self._late: list[Coming] = []
        self.launches = gpu.obstacle() is None
        end_with_process(self)

    def gains(self, kernel: Kernel) -> bool:
        if isinstance(kernel, PreparedContraction):
            return preparing_pays(kernel, self.capabilities)
        if not isinstance(kernel, Attention):
            return super().gains(kernel)
        bound = len(kernel.operands) + len(kernel.outputs)
        return bound <= self.maximum_bindings and attention_pays(kernel, self.capabilities)

    def seconds(self, kernel: Kernel) -> float:
        # Software computes on the cores that record.
        return 0.0 if self.capabilities.software else self.compiler.seconds(kernel)

    def expect(self, kernels: Iterable[Kernel]) -> None:
        self.compiler.expect(kernels)

    def programs(self, kernels: Iterable[Kernel]) -> object:
        return self.compiler.generated(kernels)

    def take_programs(self, programs: object) -> None:
        if isinstance(programs, dict):
            self.compiler.take(programs)

    def step_length(self, step: str, kind: dtype) -> int:
        return step_length(step, element_type(kind.name, self.capabilities).scalar)

    # Buffers

    def allocate(self, nbytes: int) -> AnyBuffer:
        return self.allocate_all((nbytes,))[0]

    def allocate_all(self, sizes: Sequence[int]) -> list[AnyBuffer]:
        self._check_alive()
        return self.pool.take_all(sizes)

    def write(self, buffer: AnyBuffer, data: memoryview) -> None:
        flat = memoryview(data).cast("B")
        if len(flat) > buffer.nbytes:
            raise ValueError(f"cannot write {len(flat)} bytes into a buffer of {buffer.nbytes} bytes")
        with self.lock:
            self._check_alive()
            self._send_held()
            self._watch(lambda: self._write(buffer, flat), "writing to the device")

    def _write(self, buffer: AnyBuffer, data: memoryview) -> None:
        whole = len(data) & ~3
        tail = bytes(data[whole:])
        if tail:
            # Copies are of whole words: what follows in the last one stays as it is.
            after = b"" if len(data) >= buffer.requested else bytes(self.read(buffer, whole + 4)[len(data) :])
            tail = (tail + after).ljust(4, b"\0")
        done = 0
        for handle, offset, count in buffer.pieces(0, whole):
            self.gpu.write(handle, offset, data[done : done + count])
            done += count
        if tail:
            [(handle, offset, _)] = buffer.pieces(whole, whole + 4)
            self.gpu.write(handle, offset, tail)

    def read(self, buffer: AnyBuffer, nbytes: int) -> bytearray:
        if nbytes > buffer.nbytes:
            raise ValueError(f"cannot read {nbytes} bytes from a buffer of {buffer.nbytes} bytes")
        result = bytearray(nbytes)
        with self.lock:
            self._check_waiting()
            self.compiler.round += 1
            if nbytes:
                coming, told = self._coming, self.reported_by_kernels
                if coming is not None and coming.buffer is buffer and not told.waiting:
                    self._watch(lambda: coming.copy_to(result), "reading results")
                else:
                    # What kernels reported comes along: nobody waits for it once more.
                    reports = told.parts()
                    self._read_all([*parts_into(buffer, result), *reports.values()], "reading results")
                    told.take(reports)
            self._raise_failure()
        return result

    def _read_all(self, parts: list[Part], doing: str) -> None:
        """Read parts of buffers, after what is held, which goes to the GPU with the copies."""
        held = self._held
        if held is None:
            self._watch(lambda: self.gpu.read_all(parts), doing)
        else:
            self._submit_held(held, lambda: self.gpu.read_all(parts, held.handle))

    def _send_held(self) -> None:
        """Run what was held for a read that something else came before, and read again what it may write to."""
        held, coming = self._held, self._coming
        if coming is not None:
            self._coming = None
            if not coming.is_here:
                self._late.append(coming)
        if held is not None:
            self._submit_held(held, lambda: self.gpu.submit(held.handle))

    def _submit_held(self, held: Held, action: Callable[[], None]) -> None:
        """Do what submits what was held; it stays held where an exception came before."""
        given, describe = self.gpu.submits, functools.partial(self._describe_run, held.prepared, held.recording)
        try:
            self._watch(action, describe)
            if self.gpu.submits == given:
                # There was no room for what is read, or an error from before was reported.
                self._watch(lambda: self.gpu.submit(held.handle), describe)
        except Exception:
            if self.gpu.submits != given:
                self._held = None
            raise
        self._held = None

    async def read_async(self, buffer: AnyBuffer, nbytes: int) -> bytearray:
        if not self.gpu.awaited:
            return await super().read_async(buffer, nbytes)
        result = bytearray(nbytes)
        with self.lock:
            reports, finish = self._begin_read(buffer, result)
        await self.gpu.arrive()
        with self.lock:
            self._check_alive()
            finish()
            self.reported_by_kernels.take(reports)
            self._raise_failure()
        return result

    def read_later(self, buffer: AnyBuffer, nbytes: int) -> Callable[[], bytearray]:
        if nbytes > LATER_BYTES or len(buffer.pieces(0, nbytes)) != 1:
            return super().read_later(buffer, nbytes)
        result = bytearray(nbytes)
        with self.lock:
            reports, arrive = self._begin_read(buffer, result)
            self._raise_failure()

        def finish() -> bytearray:
            with self.lock:
                self._check_alive()
                arrive()
                # What ran since may have reported there, too: where something was found, all is read before it is cleared.
                self.reported_by_kernels.keep(reports)
                self._raise_failure()
            return result

        return finish

    def _begin_read(self, buffer: AnyBuffer, result: bytearray) -> tuple[dict[int, Part], Callable[[], None]]:
        """Start reading into host memory; return what kernels reported, which comes along, and what waits for both."""
        self._check_alive()
        self._send_held()
        self.compiler.round += 1
        reports = self.reported_by_kernels.parts()
        parts, waiting = [*parts_into(buffer, result), *reports.values()], []
        wanted = [(handle, offset, len(into)) for handle, offset, into in parts]
        self._watch(lambda: waiting.append(self.gpu.read_later(wanted)), "reading results")

        def finish() -> None:
            for each in waiting:
                self._watch(lambda: each([into for _, _, into in parts]), "reading results")  # noqa: B023

        return reports, finish

    def synchronize(self) -> None:
        with self.lock:
            self._check_waiting()
            self._send_held()
            self.compiler.round += 1
            if self.reported_by_kernels.waiting:
                # Their copy is the last that was submitted.
                self._read_reports()
            else:
                self._watch(self.gpu.wait, "waiting for the device")
            self._raise_failure()

    def may_have_reported(self) -> bool:
        return bool(self.reported_by_kernels.waiting or self.reported_by_kernels.found)

    def reported(self) -> list[tuple[int, int]]:
        with self.lock:
            # What cannot be waited for now comes along with the next result.
            told = self.reported_by_kernels
            if told.waiting and self.gpu.obstacle() is None:
                self._check_alive()
                self._read_reports()
                self._raise_failure()
            found, told.found = told.found, []
        return found

    def _read_reports(self) -> None:
        reports = self.reported_by_kernels.parts()
        self._read_all(list(reports.values()), "reading reports")
        self.reported_by_kernels.take(reports)

    # Errors

    def _watch(self, action: Callable[[], object], doing: str | Callable[[], str]) -> None:
        """Do something and keep the first error reported in it for the next synchronising call; ``doing`` is, or tells, what."""
        error: GpuError | None = None
        try:
            action()
        except GpuError as raised:
            error = raised
        # What was reported explains more than what followed from it.
        error = self.gpu.error() or error
        if error is not None:
            self._note(translate(error, doing if isinstance(doing, str) else doing()))

    def _note(self, failure: Exception) -> None:
        if isinstance(failure, DeviceLostError):
            self.lost = str(failure)
        if self.failure is None:
            self.failure = failure

    def _check_alive(self) -> None:
        if self.lost is None and self.gpu.lost is not None:
            # A driver may be reset between two calls: nobody's call fails for it.
            self._note(translate(GpuError("lost", self.gpu.lost), "it was not used"))
        if self.lost is not None:
            raise DeviceLostError(self.lost)

    def _check_waiting(self) -> None:
        self._check_alive()
        obstacle = self.gpu.obstacle()
        if obstacle is not None:
            raise CannotWaitError(obstacle)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    # Programs

    def program(self, kernel: Kernel) -> tuple[Program, list[Pipeline]]:
        """Return a kernel's passes and compiled pipelines."""
        compiled = self.compiled(kernel)
        return compiled.program, compiled.pipelines

    def compiled(self, kernel: Kernel) -> Compiled:
        """Return a kernel's compiled program."""
        return self.compiler.compile([kernel])[kernel]

    def source(self, kernel: Kernel) -> str:
        return text_of(self.compiler.generate(kernel, self.capabilities))

    # Plans

    def run(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self._run(Run(plan, externals, parameters))

    def run_timed(
        self,
        plan: Plan,
        externals: Sequence[Any],
        parameters: Sequence[float | int],
        report: Callable[[str, float, str], None],
    ) -> None:
        self._run(Run(plan, externals, parameters), report)

    def advance(self, run: Run) -> None:
        self._run(run)

    def advance_timed(self, run: Run, report: Callable[[str, float, str], None]) -> None:
        self._run(run, report)

    def _run(self, run: Run, report: Callable[[str, float, str], None] | None = None) -> None:
        plan = run.plan
        with self.lock:
            self._check_alive()
            self._send_held()
            prepared = self._prepared(plan)
            buffers = list(run.externals)
            if plan.temporaries:
                buffers += self.pool.take_all(plan.temporaries)
            recording, every = self._recording(prepared, buffers, run.parameters)
            try:
                self._replay(prepared, recording, every, report)
            except Exception:
                if recording.done:
                    run.table, run.position = buffers, recording.steps[recording.done]
                raise
            run.finish()

    def single(self, plan: Plan, sizes: Sequence[int]) -> Launch | None:
        if len(sizes) != 1 or not 0 < sizes[0] <= COMING_BYTES or self.debug >= 2:
            return None

        def launch(values: Sequence[Value], parameters: Sequence[float | int]) -> list[AnyBuffer]:
            buffers = [value.buffer for value in values if value.engine.device is self]
            if len(buffers) != len(values) or None in buffers:
                raise RuntimeError("a value that a kernel reads is another device's or not computed yet")
            with hold, self.lock:
                self._check_alive()
                self._send_held()
                while self._late:
                    self._late.pop().settle()
                made = self.pool.take_all(sizes)
                buffers += made
                prepared = self._prepared(plan)
                recording, _ = self._recording(prepared, buffers, parameters)
                self.reported_by_kernels.waiting |= recording.reports
                bring = self.replayer.bringing(recording, made[0], sizes[0])
                if self.replayer.submit(recording, but_last=True) is not None:
                    self._coming = Coming(made[0], sizes[0], bring())
                error = self.gpu.error()
                if error is not None:
                    self._coming = None
                    self._note(translate(error, self._describe_run(prepared, recording)))
                    self._raise_failure()
            return made

        return launch

    def _prepared(self, plan: Plan) -> Prepared:
        """Return a plan made ready, with kernels of its own text once its sizes are there to stay."""
        prepared = plan.prepared
        if prepared is None:
            prepared = plan.prepared = prepare(plan, self.compiler, self.replayer.uniforms, own=plan.lasting)
        elif prepared.patience and self._is_settled(plan, prepared):
            prepared = plan.prepared = prepare(plan, self.compiler, self.replayer.uniforms, own=True)
        return prepared

    def _is_settled(self, plan: Plan, prepared: Prepared) -> bool:
        """Return whether a plan's sizes are there to stay, as it is a captured one or came back after the host waited for results,
        again and again; and whether its own pipelines are there, where they can be compiled beside what runs."""
        if prepared.settling is not None:
            if not prepared.settling.done():
                return False
            if not prepared.settling.result():
                # They were refused, and the ones that it shares do.
                prepared.patience.clear()
                return False
            self.compiler.beside.take()
            return True
        prepared.runs += 1
        prepared.rounds.add(self.compiler.round)
        came_back = prepared.runs >= SETTLED_RUNS or plan.lasting
        if not came_back and len(prepared.rounds) < max(tell() for tell in prepared.patience):
            return False
        if not self.gpu.compiles_beside:
            return True
        prepared.settling = self.compiler.beside.begin(step.kernel for step, _ in in_order(prepared))
        return False

    def _recording(
        self, prepared: Prepared, buffers: list[AnyBuffer], parameters: Sequence[float | int]
    ) -> tuple[Recording, list[AnyBuffer]]:
        """Return a prepared plan over externals and temporaries, its parameters on the device, and all buffers that it uses."""
        if prepared.parameter_order:
            self.replayer.place_parameters(prepared, parameters)
        if prepared.scratch:
            buffers = [*buffers, *self.pool.take_all(prepared.scratch)]
        return self.replayer.recording(prepared, buffers), buffers

    def _replay(
        self,
        prepared: Prepared,
        recording: Recording,
        buffers: list[AnyBuffer],
        report: Callable[[str, float, str], None] | None = None,
    ) -> None:
        """Run a recording over buffers; keep the error that was reported, or raise it where a part was refused for it."""
        self.reported_by_kernels.waiting |= recording.reports
        if report is not None or self.debug >= 2:
            self.profiler.run(prepared, recording, report)
        else:
            last = self.replayer.submit(recording, but_last=self.expects_read)
            if last is not None:
                self._held = Held(last, prepared, recording, buffers)
        error = self.gpu.error()
        if error is not None:
            self._note(translate(error, self._describe_run(prepared, recording)))
            if report is None and recording.done + (self._held is not None) < len(recording.handles):
                self._raise_failure()

    def _describe_run(self, prepared: Prepared, recording: Recording) -> str:
        blamed = self.replayer.blame(prepared, recording)
        names = dict.fromkeys(step.kernel.name for step, _ in in_order(prepared))
        return f"running {blamed or ', '.join(names)[:400]}"

    # Reports

    @property
    def statistics(self) -> dict[str, int]:
        """Counts since the device was opened, for tests and profiles."""
        return statistics_of(self)

    def description(self) -> dict[str, str]:
        return description_of(self)

    def memory_allocated(self) -> int:
        return self.pool.allocated

    def max_memory_allocated(self) -> int:
        return self.pool.peak

    def max_memory_reserved(self) -> int:
        return self.pool.peak_reserved

    def reset_peak_memory_stats(self) -> None:
        self.pool.reset_peaks()

    def memory_reserved(self) -> int:
        return self.pool.reserved

    def empty_cache(self) -> None:
        with self.lock:
            self.pool.empty()
            self.gpu.reclaim()

    def live_buffers(self) -> int:
        return self.pool.live
