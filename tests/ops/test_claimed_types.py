"""A device that claims few element types never stores another one, whichever way it is asked."""

from __future__ import annotations

import pytest
import webgpu_torch_core as torch
from webgpu_torch_core.backend.interface import INTERFACE_VERSION, Backend
from webgpu_torch_core.backend.plugins import hookimpl, registry
from webgpu_torch_core.backend.python_device import PythonDevice
from webgpu_torch_core.record.devices import _engines


class FloatDevice(PythonDevice):
    """The interpreter, for float32 only; it looks at what it is given."""

    name = ""
    dtypes = frozenset({torch.float32})

    def run(self, plan, externals, parameters):
        kernels = [step.kernel for step in plan.steps if hasattr(step, "kernel")]
        assert {each.dtype for kernel in kernels for each in (*kernel.operands, *kernel.outputs)} <= self.dtypes
        super().run(plan, externals, parameters)


class FloatBackend(Backend):
    device_type = "floats"
    interface_version = INTERFACE_VERSION

    def device_count(self):
        return 1

    def open(self, index):
        return FloatDevice()


class Plugin:
    @hookimpl
    def webgpu_torch_backends(self):
        return [FloatBackend()]


@pytest.fixture
def floats():
    registry.register(Plugin())
    yield torch.tensor([1.0, 2.0, 3.0], device="floats")
    for table in (registry.backends, registry.origins):
        del table["floats"]
    _engines.pop(("floats", 0), None)
    registry._devices.pop(("floats", 0), None)


OTHERS = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool]
WAYS = {
    "tensor": lambda x, kind: torch.tensor([1, 0], dtype=kind, device=x.device),
    "empty": lambda x, kind: torch.empty(2, dtype=kind, device=x.device),
    "full": lambda x, kind: torch.full((2,), 1, dtype=kind, device=x.device),
    "ones_like": lambda x, kind: torch.ones_like(x, dtype=kind),
    "to": lambda x, kind: x.to(kind),
    "view": lambda x, kind: x.view(kind) if kind.itemsize <= 4 else x[:2].view(kind),
    "to_device": lambda x, kind: torch.ones(2, dtype=kind, device="cpu").to(x.device),
    "sum": lambda x, kind: x.sum(dtype=kind),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_types_are_refused(floats, way, kind):
    with pytest.raises(TypeError, match=r"floats:0 device doesn't support .*It supports: complex64, float32"):
        WAYS[way](floats, kind).tolist()


@pytest.mark.parametrize(
    "call", [lambda x: x > 0, lambda x: x.argmax(), lambda x: x.sort(), lambda x: x.nonzero(), lambda x: x.isnan()]
)
def test_results_of_other_types_are_refused(floats, call):
    with pytest.raises(TypeError, match="floats:0 device doesn't support"):
        call(floats)


def test_what_is_left_works(floats):
    assert floats.device == torch.device("floats:0")
    assert ((floats * 2 + 1).softmax(0).sum() + floats.reshape(1, 3) @ floats).tolist() == [15.0]
    assert torch.complex(floats, floats).abs().tolist() == (floats * 2**0.5).tolist()
