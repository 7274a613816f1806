"""Nodes of gradients go by PyTorch's names for each overload and type, and results of one function have one node; what may not be
written says so.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH: tuple[Any, Any] = (webgpu_torch, torch)
PAIRED = (
    "clamp", "clamp_min", "clamp_max", "fmod", "remainder", "pow", "sub", "rsub", "mul", "add", "xlogy", "floor_divide", "maximum",
    "max", "min", "masked_fill", "index_fill", "fill", "copysign", "ldexp", "heaviside",
)  # fmt: skip
COPIES = {
    "permute": ((1, 0),), "squeeze": (), "transpose": (0, 1), "unsqueeze": (0,), "narrow": (0, 0, 1), "expand": ((2, 2),), "view": ((4,),),
    "slice": (0, 0, 1), "select": (0, 0), "diagonal": (), "t": (), "as_strided": ((2,), (1,)), "unbind": (), "split": (1,),
}  # fmt: skip
OF_ONE_TENSOR = (
    "flip", "cumsum", "cumprod", "combinations", "unsafe_chunk", "unsafe_split", "softmax", "log_softmax", "quantile", "sum_to_size",
    "frexp", "entr", "i1", "erfcx", "pad", "fractions",
)  # fmt: skip


def operands(t: Any, kind: str, other: str) -> tuple[Any, Any]:
    x = t.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=getattr(t, kind)).requires_grad_()
    second = {
        "number": 2.0, "tensor": t.tensor(2.0), "tracked": t.tensor(2.0, requires_grad=True), "matrix": t.full((2, 2), 2.0),
        "complex": t.full((2, 2), 1 + 1j),
    }[other]  # fmt: skip
    return x, second


def name_of(action: Any) -> str:
    try:
        result = action()
    except Exception as error:
        return type(error).__name__
    result = result if hasattr(result, "grad_fn") else result[0]
    return str(result.grad_fn and result.grad_fn.name())


def paired(t: Any, name: str, x: Any, other: Any, in_place: bool) -> Any:
    x = x.clone() if in_place else x
    function = getattr(x, f"{name}_") if in_place else lambda *each: getattr(t, name)(x, *each)
    if name == "masked_fill":
        return function(t.tensor([True, False]), other)
    if name == "index_fill":
        return function(0, t.tensor([0]), other)
    return function(other)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(PAIRED), st.sampled_from(["number", "tensor", "tracked", "matrix"]), st.booleans())
def test_nodes_of_overloads(name: str, other: str, in_place: bool) -> None:
    # What fills a tensor in place is a copy of a number here.
    if in_place and (name == "fill" or not hasattr(torch.Tensor, f"{name}_")):
        return
    found = []
    for t in BOTH:
        x, second = operands(t, "float32", other)
        found.append(name_of(lambda t=t, x=x, second=second: paired(t, name, x, second, in_place)))
    assert found[0] == found[1]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["add", "sub", "mul", "addcmul", "addcdiv"]), st.sampled_from(["complex64", "float32"]))
def test_nodes_of_complex_numbers(name: str, kind: str) -> None:
    found = []
    for t in BOTH:
        x, second = operands(t, kind, "complex")
        arguments = (second, second) if name.startswith("addc") else (second,)
        found.append(name_of(lambda t=t, x=x, arguments=arguments: getattr(t, name)(x, *arguments)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", COPIES)
def test_nodes_of_copied_views(name: str) -> None:
    found = []
    for t in BOTH:
        x = operands(t, "float32", "number")[0]
        found.append(name_of(lambda t=t, x=x: getattr(t, f"{name}_copy")(x, *COPIES[name])))
    assert found[0] == found[1]


def of_one(t: Any, name: str, x: Any) -> Any:
    calls: dict[str, Any] = {
        "flip": lambda: t.flip(x, [0]), "cumsum": lambda: t.cumsum(x, 0), "cumprod": lambda: t.cumprod(x, 0),
        "combinations": lambda: t.combinations(x[0]), "unsafe_chunk": lambda: t.unsafe_chunk(x, 2), "unsafe_split": lambda: t.unsafe_split(x, 1),
        "softmax": lambda: t.softmax(x[0, 0], 0), "log_softmax": lambda: t.log_softmax(x[0, 0], 0), "quantile": lambda: t.quantile(x, 0.5, 0),
        "sum_to_size": lambda: x.sum_to_size(1, 2), "frexp": lambda: t.frexp(x), "entr": lambda: t.special.entr(x),
        "i1": lambda: t.special.i1(x), "erfcx": lambda: t.special.erfcx(x),
        "pad": lambda: t.nn.functional.pad(x[None], (1, 1), mode="reflect"),
        "fractions": lambda: t.round(x, decimals=2),
    }  # fmt: skip
    return calls[name]()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(OF_ONE_TENSOR), st.booleans())
def test_nodes_of_functions_of_one_tensor(name: str, pairs: bool) -> None:
    kind = "complex64" if pairs and name in ("flip", "cumsum", "cumprod") else "float32"
    found = [name_of(lambda t=t: of_one(t, name, operands(t, kind, "number")[0])) for t in BOTH]
    assert found[0] == found[1]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([(1, "conv1d"), (2, "conv2d"), (3, "conv3d"), (1, "conv_transpose1d"), (2, "conv_transpose2d")]),
    st.sampled_from([1, 2]), st.booleans(), st.booleans(), st.sampled_from(["float32", "bfloat16"]),
)  # fmt: skip
def test_nodes_of_convolutions(kind: tuple[int, str], groups: int, bias: bool, last: bool, element: str) -> None:
    spatial, name = kind
    found = []
    for t in BOTH:
        x = t.ones(1, 4, *(5,) * spatial, dtype=getattr(t, element)).requires_grad_()
        image = x.to(memory_format=t.channels_last) if last and spatial == 2 else x
        weight = t.ones(4, 4 // groups, *(3,) * spatial, dtype=getattr(t, element))
        added = (
            t.ones(4 // groups * groups if not name.startswith("conv_t") else 4, dtype=getattr(t, element))
            if bias
            else None
        )
        found.append(
            name_of(lambda t=t, each=(image, weight, added): getattr(t.nn.functional, name)(*each, groups=groups))
        )
    assert found[0] == found[1]


SEVERAL: dict[str, Any] = {
    "var_mean": lambda t, x: t.var_mean(x), "std_mean": lambda t, x: t.std_mean(x, 0), "aminmax": lambda t, x: t.aminmax(x),
    "lu": lambda t, x: t.linalg.lu(x)[1:], "unbind": lambda t, x: x.unbind(), "svd": lambda t, x: t.linalg.svd(x)[:2],
}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(SEVERAL)), st.booleans())
def test_hooks_hear_of_outputs_without_gradient(name: str, first: bool) -> None:
    found = []
    for t in BOTH:
        heard: list[Any] = []
        x = t.tensor([[4.0, 1.0], [2.0, 3.0]], requires_grad=True)
        one, two = SEVERAL[name](t, x)[:2]
        for number, each in enumerate((one, two)):
            each.register_hook(lambda grad, number=number: heard.append((number, grad is None)))
        one.grad_fn.register_prehook(lambda grads: heard.append([each is None for each in grads]))
        one.grad_fn.register_hook(lambda inputs, outputs: heard.append([each is None for each in outputs]))
        (one if first else two).sum().backward()
        found.append((heard, one.grad_fn is two.grad_fn, x.grad.shape == x.shape))
    assert found[0] == found[1]


ATTRIBUTES = (
    "dtype", "device", "shape", "ndim", "layout", "itemsize", "nbytes", "T", "mT", "H", "mH", "is_leaf", "grad_fn", "is_cuda", "is_cpu",
    "is_sparse", "is_quantized", "is_meta", "name", "output_nr", "_version", "retains_grad", "is_nested", "is_mkldnn",
)  # fmt: skip


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("kind", ["Tensor", "Parameter", "Subclass"])
def test_attributes_that_are_not_written(name: str, kind: str) -> None:
    found = []
    for t in BOTH:
        made = t.ones(2, 2)
        if kind == "Parameter":
            made = t.nn.Parameter(made)
        elif kind == "Subclass":
            made = made.as_subclass(type("Subclass", (t.Tensor,), {}))
        for action in (lambda made=made: setattr(made, name, None), lambda made=made: delattr(made, name)):
            with pytest.raises(AttributeError) as raised:
                action()
            found.append(str(raised.value))
    assert found[:2] == found[2:]
