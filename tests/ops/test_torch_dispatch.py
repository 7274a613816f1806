"""Classes of tensors and modes that answer operations (``__torch_dispatch__``): what they hand on equals the plain computation."""

from __future__ import annotations

import copy
import importlib.util
import lzma
from pathlib import Path

import pytest
import torch as oracle
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch._ops.schemas import schemas_of
from webgpu_torch.nn import functional
from webgpu_torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from webgpu_torch.utils._pytree import tree_map

pytestmark = pytest.mark.usefixtures("no_overriding_classes")


class Wrapper(torch.Tensor):
    """Hands every operation on to the plain tensor that it holds, and notes its name."""

    noted: list = []

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=inner.device, requires_grad=requires_grad,
        )  # fmt: skip

    def __init__(self, inner, requires_grad=False):
        self.inner = inner.detach()

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, context, size, stride):
        return Silent(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(value):
            return value.inner if isinstance(value, Wrapper) else value

        cls.noted.append(str(func))
        result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        result = tree_map(lambda each: cls(each) if isinstance(each, torch.Tensor) else each, result)
        return result if func.namespace != "aten" else return_and_correct_aliasing(func, args, kwargs, result)


class Silent(Wrapper):
    """The same without ``__torch_function__``, as most libraries write it."""

    __torch_function__ = torch._C._disabled_torch_function_impl


def _inner(value):
    return value.inner if isinstance(value, Wrapper) else value


def _in_place(x, y):
    z = x * 1
    z.mul_(y).add_(2)
    z.exp_()
    return z / (1 + z)


def _written(x, y):
    z = x * y
    z[1] = x[0]
    return z


#: of two tensors [4, 6], the second one positive
PROGRAMS = {
    "arithmetic": lambda x, y: 2 - x * y + x / y - 3 * (y - 1) / 2 + (-x),
    "broadcast": lambda x, y: x[0] * y + y[:, :1] * 3 - x[2, 3],
    "powers": lambda x, y: x**2 + y**0.5 + 2**x + y**x,
    "functions": lambda x, y: (
        x.sin() + x.cos() * y.log() + torch.tanh(x) + torch.sigmoid(y) + torch.erf(x) + y.lgamma()
    ),
    "products": lambda x, y: x @ y.T + torch.mm(x, y.t()) * 2,
    "batched": lambda x, y: x.view(2, 2, 6) @ y.reshape(2, 6, 2) + (x.view(2, 2, 6) @ y[0]).unsqueeze(-1),
    "linear": lambda x, y: functional.linear(x.relu(), y, y[:, 0]),
    "reductions": lambda x, y: x.sum() + y.mean(1) + x.var(1) + y.amax(1) + x.norm() + x.logsumexp(1) + y.prod(1),
    "shapes": lambda x, y: torch.cat(
        [x.permute(1, 0).flatten(), y.transpose(0, 1).reshape(-1), x.unsqueeze(1).squeeze(1)[0]]
    ),
    "several": lambda x, y: (
        sum(each.sum() for each in x.split(3, 1)) * torch.stack(y.unbind(0))[1] + x.max(1).values[0]
    ),
    "indices": lambda x, y: x[[0, 2]] * y[1:3] + x[..., torch.tensor([0, 1, 2, 0, 1, 2])][:2] + y[None, 0],
    "masks": lambda x, y: torch.where(x > 0, x, y) + x.masked_fill(y > 1, 0.0) + x[y > 0].sum(),
    "rows": lambda x, y: x.softmax(1) * y.log_softmax(0) + functional.layer_norm(x, (6,), y[0], y[1]) + x.cumsum(1),
    "losses": lambda x, y: functional.cross_entropy(x, torch.tensor([0, 1, 2, 5])) + functional.mse_loss(x, y),
    "convolution": lambda x, y: functional.conv1d(x.view(2, 2, 6), y[:, :4].reshape(4, 2, 2), y[0, :4], padding=1),
    "attention": lambda x, y: functional.scaled_dot_product_attention(
        x.view(2, 2, 6), y.view(2, 2, 6), x.view(2, 2, 6)
    ),
    "types": lambda x, y: x.double().add(1).float() + y.to(torch.float64).to(x),
    "copies": lambda x, y: x.clone() + y.contiguous() + torch.zeros_like(x) + x.detach() + copy.deepcopy(y.detach()),
    "in place": _in_place,
    "written": _written,
}


def _close(mine, plain):
    assert type(plain) is torch.Tensor
    assert mine.shape == plain.shape
    assert mine.dtype is plain.dtype
    assert mine.stride() == plain.stride()
    torch.testing.assert_close(_inner(mine), plain.detach(), equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    kind=st.sampled_from([Wrapper, Silent]),
    needs=st.sampled_from([(True, True), (True, False), (False, True)]),
)
def test_forwarding_equals_plain(name, kind, seed, needs):
    draw = torch.Generator().manual_seed(seed)
    values = [
        torch.randn(4, 6, generator=draw, dtype=torch.float64),
        torch.rand(4, 6, generator=draw, dtype=torch.float64) + 0.5,
    ]
    values = [each.float() for each in values] if name == "types" else values
    plain = [each.clone().requires_grad_(need) for each, need in zip(values, needs, strict=True)]
    wrapped = [kind(each.clone(), need) for each, need in zip(values, needs, strict=True)]
    outputs = []
    for leaves in (plain, wrapped):
        result = PROGRAMS[name](*leaves)
        inputs = [each for each in leaves if each.requires_grad]
        assert result.requires_grad
        first = torch.autograd.grad(result.sin().sum(), inputs, create_graph=True, allow_unused=True)
        found = [each for each in first if each is not None and each.requires_grad]
        second = (
            torch.autograd.grad(sum((each * each).sum() for each in found), inputs, allow_unused=True) if found else ()
        )
        outputs.append((result, first, second))
    (result, first, second), (mine, own_first, own_second) = outputs
    assert isinstance(mine, Wrapper)
    _close(mine, result)
    for each, own in zip((*first, *second), (*own_first, *own_second), strict=True):
        # What is not there is a sum of no terms.
        if each is not None or own is not None:
            ours = torch.zeros(4, 6, dtype=values[0].dtype) if own is None else _inner(own)
            theirs = torch.zeros(4, 6, dtype=values[0].dtype) if each is None else each
            torch.testing.assert_close(ours, theirs.detach(), equal_nan=True)


def test_operations_have_pytorchs_names():
    x, y = Wrapper(torch.randn(3, 4), True), Wrapper(torch.randn(4, 3))
    Wrapper.noted.clear()
    ((x @ y) * 2).sum(0, keepdim=True).backward(torch.ones(1, 3))
    assert Wrapper.noted[:3] == ["aten.mm.default", "aten.mul.Tensor", "aten.sum.dim_IntList"]
    assert "aten.mm.default" in Wrapper.noted[3:]
    assert type(x.grad) is Wrapper
    torch.testing.assert_close(x.grad.inner, (torch.full((3, 3), 2.0) @ y.inner.T))


def test_schemas():
    overload = torch.ops.aten.add_.Tensor
    assert str(overload) == "aten.add_.Tensor"
    assert overload.name() == "aten::add_.Tensor"
    assert overload.overloadpacket is torch.ops.aten.add_
    assert str(overload._schema) == "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    assert [each.name for each in overload._schema.arguments] == ["self", "other", "alpha"]
    assert overload._schema.is_mutable
    assert torch.ops.aten.view.default.is_view
    assert not torch.ops.aten.clone.default.is_view
    assert "dim_IntList" in torch.ops.aten.sum.overloads()
    with pytest.raises(AttributeError, match="no overload name 'nothing'"):
        _ = torch.ops.aten.add.nothing


def test_recorded_schemas_are_pytorchs():
    """``scripts/generate_schemas.py`` writes them."""
    script = Path(__file__).parents[2] / "scripts/generate_schemas.py"
    specification = importlib.util.spec_from_file_location("generate_schemas", script)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    recorded = lzma.decompress((script.parents[1] / module.TARGET).read_bytes()).decode().splitlines()
    assert recorded[1:] == module.schemas()
    for name in {each.partition("(")[0].partition(".")[0] for each in recorded[1:]}:
        assert [str(each).removeprefix("aten::") for each in schemas_of(name)]
    theirs = oracle.ops.aten
    for overload in (theirs.add.Tensor, theirs.sum.dim_IntList, theirs.index_put_.default, theirs.conv2d.default):
        ours = getattr(getattr(torch.ops.aten, overload.overloadpacket.__name__), overload._overloadname)._schema
        for mine, their in zip(ours.arguments, overload._schema.arguments, strict=True):
            assert (mine.name, mine.kwarg_only, mine.is_write) == (their.name, their.kwarg_only, their.is_write)
            assert mine.has_default_value() == their.has_default_value()


class Counting(TorchDispatchMode):
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.log.append((self.name, str(func)))
        return func(*args, **(kwargs or {}))


def test_modes_stack_and_record_gradients():
    log = []
    x = torch.randn(3, requires_grad=True)
    with Counting("outer", log), Counting("inner", log) as inner:
        assert _get_current_dispatch_mode() is inner
        y = (x * 2).exp()
    assert log == [(who, what) for what in ("aten.mul.Tensor", "aten.exp.default") for who in ("inner", "outer")]
    assert _get_current_dispatch_mode() is None
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, (2 * (2 * x).exp()).detach())
    log.clear()
    _ = x + 1
    assert log == []


def test_mode_comes_before_classes():
    log = []
    x = Wrapper(torch.ones(2))
    Wrapper.noted.clear()
    with Counting("mode", log):
        result = x + 1
    assert log == [("mode", "aten.add.Tensor")]
    assert Wrapper.noted == ["aten.add.Tensor"]
    assert result.inner.tolist() == [2.0, 2.0]


def test_who_does_not_answer_is_refused():
    class Refusing(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.aten.add.Tensor'"):
        _ = Refusing(torch.ones(2)) + 1
    with pytest.raises(TypeError, match="has no __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(torch.nn.Parameter, (2,))


def test_parameters_keep_their_class():
    layer = torch.nn.Linear(3, 2)
    layer.weight = torch.nn.Parameter(Silent(layer.weight.detach()))
    x = torch.randn(4, 3)
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert is_traceable_wrapper_subclass(layer.weight)
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad.inner, x.sum(0).expand(2, 3))
    with torch.no_grad():
        layer.weight.sub_(layer.weight.grad)
    halved = transform_subclass(layer.weight, lambda name, inner: inner / 2)
    torch.testing.assert_close(halved.inner, layer.weight.inner / 2)


def test_elements_are_not_there():
    x = Silent(torch.ones(2))
    assert "size=(2,)" in repr(x)
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.tolist()
    y = Silent(torch.ones(2, 2), True) * 1
    with pytest.raises(NotImplementedError, match="would write into a view"):
        y[0].mul_(2)


def test_leaves_are_not_written():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Silent(torch.ones(2), True).add_(1)


def _numbers_for_lists() -> dict[str, list]:
    """Return, by overload, of how many numbers each argument's list is and what calls that leave it out mean, as PyTorch says."""
    found = {}
    for name in (each for each in dir(oracle.ops.aten) if hasattr(getattr(oracle.ops.aten, each), "overloads")):
        for overload in getattr(oracle.ops.aten, name).overloads():
            arguments = getattr(getattr(oracle.ops.aten, name), overload)._schema.arguments
            sized = [(each.name, each.N, each.default_value) for each in arguments if each.N]
            if sized:
                found[f"{name}.{overload}"] = sized
    return found


def test_one_number_for_a_list_means_as_many_as_pytorch_says():
    compared = 0
    for path, expected in _numbers_for_lists().items():
        name, _, overload = path.partition(".")
        for schema in schemas_of(name):
            if (schema.overload_name or "default") == overload:
                assert [(each.name, each.N, each.default_value) for each in schema.arguments if each.N] == expected
                compared += 1
    assert compared > 80


class Noting(TorchDispatchMode):
    noted: list = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.noted.append((str(func), [each for each in args if not isinstance(each, torch.Tensor)]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "number"), [("adaptive_avg_pool2d", 2), ("adaptive_avg_pool3d", 2), ("avg_pool2d", 2), ("avg_pool3d", 1)]
)
def test_numbers_for_lists_are_handed_on_as_lists(name, number):
    x = torch.ones(1, 2, 4, 4, 4) if name.endswith("3d") else torch.ones(1, 2, 4, 4)
    with Noting() as mode:
        mode.noted.clear()
        getattr(functional, name)(x, number)
    assert [number] * int(name[-2]) in mode.noted[0][1]


def test_operations_of_this_library_are_found_by_their_names():
    packet = torch.ops.webgpu_torch.lp_pool2d
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert torch.equal(packet.default(x, 2.0, 2), functional.lp_pool2d(x, 2.0, 2))
    with pytest.raises(AttributeError, match="'_OpNamespace' 'webgpu_torch' object has no attribute 'no_such'"):
        torch.ops.webgpu_torch.no_such
