"""What is written into ``out``, and what refuses it, is PyTorch's: errors name the function, shapes are looked at before types."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH: tuple[Any, Any] = (webgpu_torch, torch)
OF_ONE = ("abs", "ceil", "sqrt", "sign", "round", "cumsum", "sum", "sort", "max", "fft", "rfft")
OF_TWO = ("add", "mul", "div", "fmod", "copysign", "maximum", "eq", "mm", "pow")
SEVERAL = ("eq", "fmod", "div", "pow", "clamp", "mm", "max", "sort", "arange")


def called(t: Any, name: str, x: Any, out: Any) -> Any:
    if name in ("fft", "rfft"):
        return getattr(t.fft, name)(x, out=out)
    if name in ("cumsum", "sum"):
        return getattr(t, name)(x, 0, out=out)
    if name in ("sort", "max"):
        return getattr(t, name)(x, 0, out=out)
    if name == "clamp":
        return t.clamp(x, 0, out=out)
    if name == "arange":
        return t.arange(3, out=out)
    return getattr(t, name)(*((x, x + 1) if name in OF_TWO else (x,)), out=out)


def told(action: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = action()
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    kept = result if isinstance(result, tuple) else (result,)
    return "", str([(tuple(each.shape), each.stride(), str(each.dtype), each.tolist()) for each in kept])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_tensors_given_for_results(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([each for each in (*OF_ONE, *OF_TWO) if each not in ("sort", "max")]))
    kind = data.draw(st.sampled_from(["float32", "float64", "int32", "complex64", "bool"]))
    shape = data.draw(st.sampled_from([(2, 2), (0,), (3, 2, 2), (2,)]))
    turned, tracked = data.draw(st.booleans()), data.draw(st.booleans())
    found = []
    for t in BOTH:
        out = t.zeros(shape, dtype=getattr(t, kind))
        out = out.t() if turned and out.ndim == 2 else out
        # PyTorch resizes even what requires a gradient where nothing is differentiated.
        if tracked and kind in ("float32", "float64") and (name != "eq" or shape == (2, 2)):
            out.requires_grad_()
        given_ = t.tensor([[1.0, 4.0], [9.0, 16.0]])
        found.append(told(lambda t=t, x=given_, out=out: called(t, name, x, out).detach()))
    assert found[0] == found[1]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from((*OF_ONE, *OF_TWO, *SEVERAL)), st.sampled_from(["a", b"a", "one", "pair"]))
def test_what_is_no_tensor(name: str, kind: Any) -> None:
    found = []
    for t in BOTH:
        x = t.tensor([[1.0, 4.0], [9.0, 16.0]])
        out = {"one": (t.ones(2),), "pair": [t.ones(2), t.ones(2)]}.get(kind, kind)
        if name in ("sort", "max") and kind == "pair":
            return
        found.append(told(lambda t=t, x=x, out=out: called(t, name, x, out)))
    assert found[0] == found[1]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["add", "mul", "div", "atan2", "copysign", "maximum", "fmod"]),
    st.sampled_from(["int64", "float32"]),
    st.booleans(),
)
def test_results_larger_than_what_is_read_for_them(name: str, kind: str, in_place: bool) -> None:
    found = []
    for t in BOTH:
        x, y = t.ones(1, 3, dtype=getattr(t, kind)), t.ones(2, 3)
        if in_place and not hasattr(x, f"{name}_"):
            return
        found.append(
            told(lambda t=t, x=x, y=y: getattr(x, f"{name}_")(y) if in_place else getattr(t, name)(x, y, out=x))
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["addmm_", "cumsum_", "cumprod_"])
def test_writes_that_do_not_fit(name: str) -> None:
    found = []
    for t in BOTH:
        x = t.ones(3)
        if name == "addmm_":
            found.append(told(lambda t=t, x=x: x.addmm_(t.ones(2, 2), t.ones(2, 3))))
        else:
            found.append(told(lambda t=t, x=x: getattr(x.to(t.int32), name)(0, dtype=t.float32)))
    assert found[0] == found[1]
    assert found[0][0] == "RuntimeError"


@pytest.mark.parametrize("name", ["fft", "fftn", "ifft2", "rfft", "rfftn", "irfft", "irfft2", "hfft", "hfft2", "ihfft"])
def test_transforms_written_into_other_types(name: str) -> None:
    found = []
    for t in BOTH:
        x = t.arange(16.0).reshape(4, 4)
        x = x + 0j if name.startswith(("ir", "hf")) else x
        for kind in ("int32", "float32", "complex64"):
            found.append(
                told(
                    lambda t=t, x=x, kind=kind: (
                        getattr(t.fft, name)(x, out=t.zeros(0, dtype=getattr(t, kind))).shape and t.ones(1)
                    )
                )
            )
    assert found[:3] == found[3:]
