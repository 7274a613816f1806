"""What code generation hands to the runtime: WGSL passes, their bindings and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from webgpu_torch_core.ir.records import Record

from .facts import Facts
from .gpu.interface import MatrixUnit


class Capabilities(Record):
    """What generated code may use on an adapter.

    Fields:
        software: threads of the host compute.
        enables_subgroups: modules that use subgroups enable them first.
        subgroup_size: threads of a subgroup, where subgroups may be used and all have as many, one after another; else 0.
    """

    __slots__ = fields = (
        "software", "facts", "workgroups_per_dimension", "invocations", "workgroup_bytes", "storage_buffers", "binding_bytes", "half",
        "int64", "subgroups", "enables_subgroups", "matrix_units", "subgroup_size",
    )  # fmt: skip
    software: bool
    facts: Facts
    workgroups_per_dimension: int
    invocations: int
    workgroup_bytes: int
    storage_buffers: int
    binding_bytes: int
    half: bool
    int64: bool
    subgroups: bool
    enables_subgroups: bool
    matrix_units: tuple[MatrixUnit, ...]
    subgroup_size: int


class Binding(Record):
    """One entry of bind group 0: ``kind`` is operand, output, scratch, reports, parameters or sizes; ``index`` within its kind.

    Buffers longer than an adapter binds at once are bound in parts of :func:`part_bytes` each.
    """

    __slots__ = fields = ("kind", "index", "writes", "part")
    kind: str
    index: int
    writes: bool
    part: int

    def __init__(self, kind: str, index: int, writes: bool, part: int = 0) -> None:
        super().__init__(kind, index, writes, part)


def part_bytes(binding_bytes: int) -> int:
    """Return the length of one part of a buffer that is bound in several: what fits, at an offset WebGPU allows."""
    return binding_bytes // 256 * 256


class Size(NamedTuple):
    """A whole number in a kernel's source that may be a literal or a run-time value, and its type."""

    value: int
    type: str


#: what a source is made of
Piece = str | Size


class Pass(Record):
    """One dispatch: WGSL with entry point ``main``, its workgroups, its bindings in ``@binding`` order, and the numbers
    that a binding of kind sizes holds.

    ``pieces`` are the source's text and sizes; ``source`` is the text with the sizes as literals, or as they are read.
    ``skeleton`` are the pieces with its type in the place of each size, ``literals`` the sizes.
    ``patience``, of a pass that shares its text with other sizes, tells in how many rounds its plan must run again before
    it gets text of its own.
    """

    fields = ("name", "source", "workgroups", "bindings", "sizes")
    __slots__ = (*fields, "literals", "patience", "pieces", "skeleton")
    name: str
    source: str
    workgroups: tuple[int, int, int]
    bindings: tuple[Binding, ...]
    sizes: tuple[int, ...]
    pieces: tuple[Piece, ...]
    skeleton: tuple[str, ...]
    literals: tuple[int, ...]
    patience: Callable[[], int] | None

    def __init__(
        self, name: str, source: str, workgroups: tuple[int, int, int], bindings: tuple[Binding, ...],
        sizes: tuple[int, ...] = (), pieces: tuple[Piece, ...] = (), patience: Callable[[], int] | None = None,
        skeleton: tuple[str, ...] | None = None, literals: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, source, workgroups, bindings, sizes)
        if skeleton is None:
            skeleton = tuple([each.type if isinstance(each, Size) else each for each in pieces])
        if literals is None:
            literals = tuple([each.value for each in pieces if isinstance(each, Size)])
        given = {"patience": patience, "pieces": pieces, "skeleton": skeleton, "literals": literals}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Pass, (*self.values(), self.pieces, None, self.skeleton, self.literals)


class Program(Record):
    """All passes of a kernel and the sizes in bytes of the scratch buffers they share; about how many seconds they take."""

    fields = ("passes", "scratch")
    __slots__ = (*fields, "seconds")
    passes: tuple[Pass, ...]
    scratch: tuple[int, ...]
    seconds: float

    def __init__(self, passes: tuple[Pass, ...], scratch: tuple[int, ...], seconds: float = 0.0) -> None:
        super().__init__(passes, scratch)
        object.__setattr__(self, "seconds", seconds)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Program, (*self.values(), self.seconds)


#: words of a report: a code, and what was found, low word first (and one of padding)
REPORT_WORDS = 4
#: bytes between the parameter blocks of two steps: the largest minimum alignment WebGPU allows
PARAMETER_ALIGNMENT = 256
