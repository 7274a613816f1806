"""What code generation hands to the runtime: WGSL passes, their bindings and sizes."""

from __future__ import annotations

from webgpu_torch_core.kernels import Record


class Capabilities(Record):
    """What generated code may use on an adapter."""

    __slots__ = fields = (
        "adapter", "workgroups_per_dimension", "invocations", "workgroup_bytes", "storage_buffers", "binding_bytes", "half",
        "int64", "subgroups",
    )  # fmt: skip
    adapter: str
    workgroups_per_dimension: int
    invocations: int
    workgroup_bytes: int
    storage_buffers: int
    binding_bytes: int
    half: bool
    int64: bool
    subgroups: bool


class Binding(Record):
    """One entry of bind group 0: ``kind`` is operand, output, scratch or parameters; ``index`` within its kind."""

    __slots__ = fields = ("kind", "index", "writes")
    kind: str
    index: int
    writes: bool


class Pass(Record):
    """One dispatch: WGSL with entry point ``main``, its workgroups, and its bindings in ``@binding`` order."""

    __slots__ = fields = ("name", "source", "workgroups", "bindings")
    name: str
    source: str
    workgroups: tuple[int, int, int]
    bindings: tuple[Binding, ...]


class Program(Record):
    """All passes of a kernel and the sizes in bytes of the scratch buffers they share."""

    __slots__ = fields = ("passes", "scratch")
    passes: tuple[Pass, ...]
    scratch: tuple[int, ...]


#: bytes between the parameter blocks of two steps: the largest minimum alignment WebGPU allows
PARAMETER_ALIGNMENT = 256
