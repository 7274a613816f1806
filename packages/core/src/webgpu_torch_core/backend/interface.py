"""What a backend implements: find devices, hold buffers, compile kernels, run plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..ir.dtypes import STORED_DTYPES, bfloat16, dtype, float16
from ..ir.kernels import FORMS, Kernel
from ..ir.records import Record
from ..random_streams.drawing import draw

if TYPE_CHECKING:
    from ..record.runs import Run
    from ..record.tape import Value

#: The version of everything a backend is written against: this module, the kernel forms, the steps of expressions and the
#: element types. A backend says which one it follows; see the promise in "Writing a backend".
INTERFACE_VERSION = 1


class Step(Record):
    """One dispatch of a plan: a kernel and where its operands, outputs and parameters are in the plan's tables."""

    __slots__ = fields = ("kernel", "operands", "outputs", "parameters")
    kernel: Kernel
    operands: tuple[int, ...]
    outputs: tuple[int, ...]
    parameters: tuple[int, ...]


class Copy(Record):
    """One buffer-to-buffer copy of a plan: the first ``nbytes`` bytes. What the target holds beyond them is nobody's."""

    __slots__ = fields = ("source", "target", "nbytes")
    source: int
    target: int
    nbytes: int


class Plan:
    """A scheduled graph: steps over a table of buffers (external ones first, then temporaries).

    Attributes:
        steps: :class:`Step` and :class:`Copy` in execution order.
        externals: how many leading entries of the buffer table the caller passes to :meth:`Device.run`.
        temporaries: sizes in bytes of the buffers that live only inside the run; entry ``i`` of it is buffer
            ``externals + i``. The planner already shares one temporary among values whose lives do not overlap.
        prepared: whatever the device made of the plan (bind groups, source, …); None until it has.
        lasting: the plan will run again and again (a captured function's): effort spent on it pays.
    """

    __slots__ = ("externals", "lasting", "prepared", "steps", "temporaries")

    def __init__(self, steps: Sequence[Step | Copy], externals: int, temporaries: Sequence[int]) -> None:
        self.steps = tuple(steps)
        self.externals = externals
        self.temporaries = tuple(temporaries)
        self.prepared: Any = None
        self.lasting = False


#: how many reports a device keeps apart: one per thread, as long as there are no more
REPORT_SLOTS = 64


#: what runs a plan of one kernel, given what has its inputs' buffers and its parameters, and returns the buffers of its outputs
Launch = Callable[[Sequence["Value"], Sequence[float | int]], list[Any]]


class DeviceLostError(RuntimeError):
    """The device stopped working; nothing on it can be read any more."""


class OutOfMemoryError(MemoryError, RuntimeError):
    """A device, or the host, has no room for a tensor: a RuntimeError as in PyTorch, and Python's MemoryError."""


class CannotWaitError(RuntimeError):
    """A result was asked for where the host cannot wait for the device, as in a web page that has no way to; the message says
    what can be written instead."""


class KeptFiles(Protocol):
    """Files by their names that the next process finds."""

    def read(self, name: str) -> bytes | None:
        """Return what is kept under a name, None where there is no whole file."""

    def has(self, beginning: str) -> bool:
        """Return whether an earlier process kept something under a name that begins so, up to its first hyphen."""
        ...

    def write_later(self, made: Callable[[], tuple[str, bytes]]) -> None:
        """Keep what a function returns, a name and what is kept under it, without waiting for it."""


class Device(ABC):
    """One opened device. Methods may be called from several threads; core holds a lock around ``run``."""

    #: how messages name the device; the registry fills in the device type and index (``fast:0``) where it is empty
    name: str = ""
    #: element types buffers may have on this device: no kernel stores another one. Complex tensors are pairs of float32, so
    #: complex types are never among them.
    dtypes: frozenset[dtype] = frozenset(STORED_DTYPES)
    #: the kernel forms that it runs: not all devices have :class:`~webgpu_torch_core.ir.kernels.Attention`
    forms: frozenset[type[Kernel]] = frozenset(FORMS)
    #: what :meth:`algorithm` runs quicker than the kernels that there are for it too
    algorithms: frozenset[str] = frozenset()
    #: most operands plus outputs one kernel may bind; the scheduler fuses no further
    maximum_bindings: int = 1 << 30
    #: most bytes of a buffer that one binding reaches; a longer buffer counts once for each such part of it
    binding_bytes: int = 1 << 62
    #: how long a kernel may become by fusion, as :meth:`step_length` counts
    kernel_length: int = 128
    #: False asks the scheduler for one kernel per operation
    fuses: bool = True
    #: True where ``run`` returns before the work is done: recording goes on meanwhile, so work is handed over early
    asynchronous: bool = False
    #: seconds of its work, as :meth:`seconds` tells, that are worth handing over by themselves: more than that takes the host
    head_start: float = 2e-4
    #: whether :meth:`run_single` runs plans of one kernel with less to do than :meth:`run` has
    runs_single: bool = False
    #: whether :meth:`single` runs kernels as they are called with less to do than recording them has
    launches: bool = False
    #: whether its kernels report what expressions find wrong (``checked``), told by :meth:`reported`; elsewhere kernels of
    #: their own look before
    reports: bool = False
    #: whether its kernels store at computed places, and some of their coordinates only
    #: (:attr:`~webgpu_torch_core.ir.kernels.Store.place`, ``where``); elsewhere what is written there is a kernel of its own
    places: bool = False
    #: set while the host waits for a plan's results: a device that sends work off may send the copy of them along
    expects_read: bool = False
    #: what keeps plans of long tapes for the next process, and what :meth:`gains`, :meth:`step_length` and :meth:`programs` depend
    #: on besides the files in the folders of some modules; None keeps none
    plan_files: KeptFiles | None = None
    plan_facts: str = ""
    plan_modules: tuple[ModuleType, ...] = ()
    #: kernels of a tape from which on its plan is kept: a shorter one is quicker to make than to look for
    plan_length: int = 64
    #: why the device works no more (every method raises :class:`DeviceLostError`), None while it does
    lost: str | None = None
    #: whether opening the device again could help
    reopens: bool = True

    def gains(self, kernel: Kernel) -> bool:
        """Return whether to run a kernel of a form that not every device has; where not, operations record what amounts to it.

        Its operands and outputs are those that it would be run with, but that they may stand in another order.
        """
        return type(kernel) in self.forms

    def seconds(self, kernel: Kernel) -> float:
        """Return about how long a kernel keeps an asynchronous device busy: what is worth it is handed over early. 0: unknown."""
        return 0.0

    def step_length(self, step: str, kind: dtype) -> int:
        """Return how much a step of an expression on operands of a type adds to a kernel's length: what its compiler takes
        as long for as for so many additions."""
        return 1

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Return a buffer of at least ``nbytes`` bytes with undefined contents (any object; it is freed, or returned to
        the device's pool, when the last reference to it goes).

        Raises:
            OutOfMemoryError: the device has no room; the message names the sizes.
        """

    def allocate_all(self, sizes: Sequence[int]) -> list[Any]:
        """Return a buffer for each of several sizes, as :meth:`allocate` does: all that a plan makes are asked for at once."""
        return [self.allocate(nbytes) for nbytes in sizes]

    @abstractmethod
    def write(self, buffer: Any, data: memoryview) -> None:
        """Copy host bytes to the start of a buffer, ordered with the runs before and after it."""

    @abstractmethod
    def read(self, buffer: Any, nbytes: int) -> bytearray:
        """Return the first bytes of a buffer after everything submitted before has finished.

        Raises:
            RuntimeError: an earlier kernel failed; the message names kernel and operation.
        """

    async def read_async(self, buffer: Any, nbytes: int) -> bytearray:
        """Do what :meth:`read` does; other tasks of the event loop run meanwhile: here a thread waits."""
        # Programs without coroutines need not import it.
        from asyncio import to_thread

        return await to_thread(self.read, buffer, nbytes)

    def read_later(self, buffer: Any, nbytes: int) -> Callable[[], bytearray]:
        """Start what :meth:`read` does and return the function that waits for it, to be called once.

        Here all is done at once. A device that works on its own copies what is in the buffer now: plans that run before the
        function is called neither change the result nor hold it up.
        """
        data = self.read(buffer, nbytes)
        return lambda: data

    def may_have_reported(self) -> bool:
        """Return whether :meth:`reported` may tell anything: asked after every read, before it is."""
        return True

    def reported(self) -> list[tuple[int, int]]:
        """Return the codes that kernels reported since the last call, each with what was found; one of equal slots.

        A code's slot is its remainder by :data:`REPORT_SLOTS`. Only devices whose kernels report have any.
        """
        return []

    @abstractmethod
    def run(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        """Execute a plan. ``externals`` are its first buffers, ``parameters`` the values of its run-time scalars.

        May return before the work is done; what it reads and writes is ordered with later calls. Whatever may fail
        (compiling, allocating) comes before the first kernel: after an exception the buffers are as they were, and the
        plan may be run again. Signals are held back meanwhile: a Ctrl-C is delivered when this returns.
        """

    def advance(self, run: Run) -> None:
        """Run a plan's kernels from where ``run`` stands: here all at once, by :meth:`run`.

        A device whose kernels have run when ``run`` returns may run them one by one instead, so that a Ctrl-C is
        delivered between two of them and a kernel that fails spares the others: prepare everything that may fail,
        keep all buffers in ``run.table``, and run each step that ``run.remaining()`` yields. A kernel that raises has its
        step run again later if ``run.begun`` is False by then: it has written nothing.
        """
        self.run(run.plan, run.externals, run.parameters)
        run.finish()

    def run_single(self, plan: Plan, externals: Sequence[object], parameters: Sequence[float | int]) -> None:
        """Run a plan of one kernel, which reads nothing that it writes, in the calling thread.

        Asked of devices with ``runs_single`` only. Whatever is raised means no more: :meth:`advance` does it then.
        """
        raise NotImplementedError(f"{self.name}: plans of one kernel run as all others do")

    def single(self, plan: Plan, sizes: Sequence[int]) -> Launch | None:
        """Return what runs such a plan again and again: a function of what has the buffers that it reads, as attributes ``buffer``,
        and of its parameters, which allocates the others, of these sizes, and returns them. None where it is to be recorded.

        It raises an exception where one of them is None or another device's. Asked of devices with ``launches`` only.
        """

        def launch(values: Sequence[Value], parameters: Sequence[float | int]) -> list[object]:
            buffers = [value.buffer for value in values]
            if None in buffers or any(value.engine.device is not self for value in values):
                raise RuntimeError("a value that a kernel reads is another device's or not computed yet")
            made = self.allocate_all(sizes)
            self.run_single(plan, [*buffers, *made], parameters)
            return made

        return launch

    def expect(self, kernels: Iterable[Kernel]) -> None:
        """Take note of kernels that most likely run soon: a device that compiles beside what the host does may begin with it."""
        return

    def programs(self, kernels: Iterable[Kernel]) -> object:
        """Return what the device made of kernels, to be kept with their plan: what :func:`pickle.dumps` takes."""
        return None

    def take_programs(self, programs: object) -> None:
        """Take what an earlier process made of a plan's kernels: what :meth:`programs` returned there."""

    def advance_timed(self, run: Run, report: Callable[[str, float, str], None]) -> None:
        """Do what :meth:`advance` does and report as :meth:`run_timed`."""
        self.run_timed(run.plan, run.externals, run.parameters, report)
        run.finish()

    def temporaries(self, run: Run) -> Sequence[Any]:
        """Return the temporaries of a run that a kernel stopped, as buffers that others may go on using."""
        return run.table[len(run.externals) :]

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all submitted work is done; raise what failed."""

    def run_timed(
        self,
        plan: Plan,
        externals: Sequence[Any],
        parameters: Sequence[float | int],
        report: Callable[[str, float, str], None],
    ) -> None:
        """Execute a plan as :meth:`run` does and call ``report(name, seconds, clock)`` for every kernel, in order.

        ``clock`` says what measured it: ``"device"`` (timestamps on the device) or ``"host"`` (the host's clock, around
        starting the kernel and waiting for it). May wait for every kernel. A device that cannot tell reports nothing.
        """
        self.run(plan, externals, parameters)

    def draw(self, kind: str, stream: Any, count: int, element: dtype, first: Any, second: Any) -> Any:
        """Return ``count`` random numbers as host bytes, bit for bit as PyTorch's CPU draws them from ``stream``.

        Only devices on the host are asked (:attr:`Facts.on_host`; others draw in kernels). Arguments and errors are those of
        :func:`webgpu_torch_core.random_streams.drawing.draw`, which this calls; a device may do it faster.
        """
        return draw(kind, stream, count, element, first, second)

    def use_threads(self, count: int) -> None:
        """Compute with so many threads from now on, where the device is the host; others have their own."""

    def algorithm(self, name: str, operands: Sequence[Any], options: dict[str, Any]) -> list[Any]:
        """Run an algorithm that no kernel form expresses over (buffer, type, shape) operands; return NumPy-like arrays.

        The ``cpu`` device has some; other devices leave them to it. Operands are read only.

        Raises:
            NotImplementedError: the device has none.
        """
        raise NotImplementedError(
            f"'{name}' has no kernel, and {self.name} no algorithm for it; the CPU backend has: "
            "pip install webgpu-torch-backend-cpu"
        )

    def source(self, kernel: Kernel) -> str:
        """Return the generated source of a kernel, for people."""
        return repr(kernel)

    def description(self) -> dict[str, str]:
        """Return what a bug report needs to know: adapter, driver, limits, versions."""
        return {}

    def memory_allocated(self) -> int:
        """Return the bytes in buffers that are in use."""
        return 0

    def memory_reserved(self) -> int:
        """Return the bytes obtained from the system, pooled buffers included."""
        return 0

    def max_memory_allocated(self) -> int:
        """Return the most bytes that were in use at once since :meth:`reset_peak_memory_stats`."""
        return self.memory_allocated()

    def max_memory_reserved(self) -> int:
        """Return the most bytes that were obtained from the system at once since :meth:`reset_peak_memory_stats`."""
        return self.memory_reserved()

    def reset_peak_memory_stats(self) -> None:
        """Count the most bytes anew, from what is there now on."""

    def empty_cache(self) -> None:
        """Give pooled buffers back to the system."""

    def live_buffers(self) -> int:
        """Return how many buffers are in use."""
        return 0


class Facts(NamedTuple):
    """What is so of every device of a type, for whoever asks before one is opened.

    Attributes:
        on_host: whether they are the host itself. Random numbers are then drawn from the host's streams, which are
            PyTorch's on the CPU (see :meth:`Device.draw`), autocast follows PyTorch's lists for the CPU, and nothing is
            gained by capturing what a model does. Other devices are accelerators: ``torch.accelerator`` is about the first.
        autocast_types: what autocast regions may compute in, what they use unless they say first; none: there is no autocast.
        dlpack_type: the number that DLPack has for the type of device, None if it has none.
    """

    on_host: bool = False
    autocast_types: tuple[dtype, ...] = (float16, bfloat16)
    dlpack_type: int | None = None


#: The facts about the host.
HOST = Facts(on_host=True, autocast_types=(bfloat16, float16))


class Backend(ABC):
    """A source of devices of one type. Creating one must not open a device."""

    #: the device type it serves: ``cpu``, ``webgpu``, …
    device_type: str
    #: the :data:`INTERFACE_VERSION` it was written for, as a number in its own source
    interface_version: int
    #: what is so of all its devices
    facts: Facts = Facts()

    @abstractmethod
    def device_count(self) -> int:
        """Return how many devices of this type the machine has (0: installed but unusable here)."""

    @abstractmethod
    def open(self, index: int) -> Device:
        """Return the opened device.

        Raises:
            RuntimeError: it cannot be opened; the message says what is missing and what would help.
        """

    async def prepare(self) -> None:
        """Do what opening the first device has to wait for, where only coroutines can wait: here nothing."""

    def describe(self) -> dict[str, str]:
        """Return versions and adapters for ``webgpu-torch info``, without failing where there is no device."""
        return {}
