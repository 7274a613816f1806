"""``torch.testing``: the same pairs are close, with the same errors, and random tensors have the same numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_oracle import to_ours, to_torch

KINDS = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
NUMBERS = (0, 1, 2, 3, 100, 0.5, -2.25, 1e-3, 1 + 1e-6, 1.001, float("inf"), float("-inf"), float("nan"))
FINITE = NUMBERS[:10]
ARRAYS = ("float32", "float64", "int64", "bool")
NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]?\d+)?")


def outcome(function: Any, *arguments: Any, **options: Any) -> str:
    """Return the type and text of the error, with PyTorch's name for our tensors; '' if there is none."""
    try:
        function(*arguments, **options)
    except Exception as error:
        # What fails inside of a comparison is told in each library's own words.
        text = "" if type(error) is RuntimeError else str(error)
        names = (("webgpu_torch_core.tensors.tensor.Tensor", "torch.Tensor"), ("webgpu_torch_nn.par", "torch.nn.par"))
        for own, theirs in names:
            text = text.replace(own, theirs)
        return f"{type(error).__name__}: {text}"
    return ""


def translated(value: Any, device: str) -> Any:
    """Return a structure with our tensors in the place of the oracle's."""
    if isinstance(value, torch.Tensor):
        return to_ours(value, device)
    if isinstance(value, list | tuple):
        return type(value)(translated(each, device) for each in value)
    if isinstance(value, dict):
        return {key: translated(each, device) for key, each in value.items()}
    return value


def agree(found: str, wanted: str, exact: bool) -> None:
    """Check the texts; where a device divides with an error of its own, the numbers in them only nearly."""
    if exact:
        assert found == wanted
        return
    assert NUMBER.sub("N", found) == NUMBER.sub("N", wanted)
    pairs = zip(NUMBER.findall(found), NUMBER.findall(wanted), strict=True)
    assert all(float(one) == pytest.approx(float(other), rel=1e-3) for one, other in pairs), (found, wanted)


def _perturbed(draw: Any, values: list[Any], numbers: tuple[Any, ...] = NUMBERS) -> list[Any]:
    changed = list(values)
    for position in draw(st.lists(st.integers(0, max(len(values) - 1, 0)), max_size=2)) if values else ():
        changed[position] = draw(st.sampled_from(numbers))
    return changed


def _tensor(values: list[Any], shape: tuple[int, ...], kind: str, turned: bool) -> torch.Tensor:
    made = torch.tensor(values, dtype=torch.float64)
    if kind in ("int64", "int32", "uint8"):
        made = made.nan_to_num(7, 9, -9)
    made = made.to(getattr(torch, kind)).reshape(shape)
    return made.mT.contiguous().mT if turned and len(shape) > 1 else made


@st.composite
def tensor_pairs(draw: Any) -> tuple[Any, Any]:
    """Draw two tensors that mostly have one shape and type, and differ in a few elements at most."""
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2), (2, 3), (0, 2), (2, 1, 3)]))
    values = draw(st.lists(st.sampled_from(NUMBERS), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    kind = draw(st.sampled_from(KINDS))
    other = draw(st.sampled_from((kind, kind, kind, *KINDS)))
    expected = _tensor(values, shape, kind, draw(st.booleans()))
    actual = _tensor(_perturbed(draw, values), shape, other, False)
    return (actual.flatten() if draw(st.integers(0, 9)) == 0 else actual), expected


@st.composite
def array_pairs(draw: Any) -> tuple[Any, Any]:
    """Draw two arrays of NumPy."""
    values = draw(st.lists(st.sampled_from(FINITE), max_size=3))
    return np.array(_perturbed(draw, values, FINITE)).astype(draw(st.sampled_from(ARRAYS))), np.array(values)


def _plain() -> Any:
    numbers = st.sampled_from((*NUMBERS, True, False, 1j, 2.5 + 1j, 10**20))
    arrays = st.sampled_from((np.float32(1.5), np.int64(1), np.bool_(True), np.float64("nan"), np.complex64(1j)))
    others = st.sampled_from((None, "a", "b", (1, 2), {"a": 1.0}, {"b": 1.0, "": 3}, [], object))
    return numbers | arrays | others


LEAVES = (
    tensor_pairs()
    | tensor_pairs()
    | array_pairs()
    | _plain().map(lambda each: (each, each))
    | st.tuples(_plain(), _plain())
)
TREES = st.recursive(
    LEAVES.map(lambda each: ("leaf", each)),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: ("list", each))
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda each: ("dict", each))
    ),
    max_leaves=4,
)


def _side(tree: Any, number: int) -> Any:
    kind, content = tree
    if kind == "leaf":
        return content[number]
    if kind == "list":
        return [_side(each, number) for each in content]
    return {key: _side(each, number) for key, each in content.items()}


OPTIONS = st.fixed_dictionaries(
    {
        "equal_nan": st.booleans(),
        "check_dtype": st.booleans(),
        "check_stride": st.sampled_from((False, False, True)),
        "allow_subclasses": st.booleans(),
        "msg": st.sampled_from((None, None, "told", lambda text: f"before\n{text}\nafter")),
    }
)
TOLERANCES = st.sampled_from(((None, None), (None, None), (0, 0), (0.01, 0.5), (0.0, 1e-3), (None, 0.1), (0.1, None)))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES, options=OPTIONS, tolerances=TOLERANCES)
def test_assert_close_says_what_pytorch_says(device: str, tree: Any, options: Any, tolerances: Any) -> None:
    """Nested tensors, arrays, numbers and other things: equal verdicts, equal types of errors and equal texts."""
    actual, expected = _side(tree, 0), _side(tree, 1)
    options = {**options, "rtol": tolerances[0], "atol": tolerances[1]}
    with np.errstate(all="ignore"):
        wanted = outcome(torch.testing.assert_close, actual, expected, **options)
        found = outcome(ours.testing.assert_close, translated(actual, device), translated(expected, device), **options)
    agree(found, wanted, exact=device == "cpu")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(pair=tensor_pairs(), options=OPTIONS, tolerances=TOLERANCES)
def test_assert_close_of_tensors(device: str, pair: Any, options: Any, tolerances: Any) -> None:
    """Tensors of all types, shapes and strides, with NaN and infinities."""
    options = {**options, "rtol": tolerances[0], "atol": tolerances[1]}
    wanted = outcome(torch.testing.assert_close, *pair, **options)
    found = outcome(ours.testing.assert_close, *(to_ours(each, device) for each in pair), **options)
    agree(found, wanted, exact=device == "cpu")


def test_messages(device: str) -> None:
    """The words of the texts, spelled out."""
    close = ours.testing.assert_close
    one, other = (ours.tensor([1.0, values, 3.0, 4.0], device=device) for values in (2.0, 4.0))
    text = (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 2.0 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)"
    )
    place = "\n\nThe failure occurred for item [1]['key']"
    assert outcome(close, one, other) == f"AssertionError: {text}"
    assert outcome(close, [1, {"key": one}], (1, {"key": other})) == f"AssertionError: {text}{place}"
    assert outcome(close, one, other, rtol=0, atol=0).startswith("AssertionError: Tensor-likes are not equal!")
    assert outcome(close, one, other[:3]) == (
        "AssertionError: The values for attribute 'shape' do not match: torch.Size([4]) != torch.Size([3])."
    )
    assert outcome(close, 1.0, 2.0).startswith("AssertionError: Scalars are not close!\n\nExpected 2.0 but got 1.0.")
    assert outcome(close, one, one, rtol=0.1).startswith("ValueError: Both 'rtol' and 'atol' must be")
    close(one, other, rtol=0.5, atol=0)
    close(one, other.to(ours.float16), rtol=0.5, atol=0, check_dtype=False)


def test_devices_and_subclasses(device: str) -> None:
    """Tensors on other devices, tensors without data, parameters, and tensors that take gradients."""
    close, here = ours.testing.assert_close, ours.tensor([1.0, 2.0], device=device)
    there = ours.empty(2, device="meta")
    found = outcome(close, here, there)
    assert found == f"AssertionError: The values for attribute 'device' do not match: {here.device} != meta."
    close(here, there, check_device=False)
    close(there, there)
    close(here, ours.tensor([1.0, 2.0], device="cpu"), check_device=False)
    parameter = ours.nn.Parameter(here.clone())
    close(parameter, here)
    assert outcome(close, parameter, here, allow_subclasses=False) == outcome(
        torch.testing.assert_close, torch.nn.Parameter(torch.ones(2)), torch.ones(2), allow_subclasses=False
    )
    assert outcome(close, parameter * 2, here).startswith("AssertionError: Tensor-likes are not close!")
    assert outcome(close, np.ones(2), here).startswith("TypeError: No comparison pair was able to handle inputs")


def test_assert_allclose() -> None:
    """The old form warns, compares across types and with its own tolerances."""
    pairs = [
        ([1.0, 2.0], [1.0, 2.0001], {}), ([1.0, 2.0], [1.0, 2.001], {}), (1.0, 1, {}), ([float("nan")], [float("nan")], {}),
        ([1.0], [1.2], {"rtol": 0.5, "atol": 0}), ([1.0], [1.2], {"rtol": 0.5}), ([1.0], [2.0], {"msg": "told"}),
    ]  # fmt: skip
    for actual, expected, options in pairs:
        found = []
        for library in (ours, torch):
            with pytest.warns(FutureWarning, match=r"assert_allclose\(\)` is deprecated since 1\.12"):
                found.append(outcome(library.testing.assert_allclose, actual, expected, **options))
        assert found[0] == found[1]


RANGES = ({}, {"low": 1, "high": 5}, {"low": -0.5, "high": 1.5}, {"low": -1e300, "high": 1e300}, {"low": 5})
FORMS = ({}, {"noncontiguous": True}, {"exclude_zero": True})


@pytest.mark.parametrize("kind", [*KINDS, "float64", "int8", "int16"])
def test_make_tensor_draws_the_same_numbers(kind: str) -> None:
    """On the CPU the numbers, strides and errors are PyTorch's for the same seed."""
    for span in RANGES:
        for form in FORMS:
            results: list[Any] = []
            for library in (torch, ours):
                library.manual_seed(3)
                made: list[Any] = []
                told = outcome(
                    lambda library=library, made=made, options={**span, **form}: made.append(
                        library.testing.make_tensor((2, 3), dtype=getattr(library, kind), device="cpu", **options)
                    )
                )
                results.append((told, made))
            (wanted_text, wanted), (found_text, found) = results
            assert found_text == wanted_text, (span, form)
            if wanted:
                assert found[0].stride() == wanted[0].stride()
                # PyTorch multiplies and adds 64-bit numbers with one rounding or two, as its processor has it.
                bound = 3e-16 if kind == "float64" else 0
                torch.testing.assert_close(to_torch(found[0]), wanted[0], rtol=bound, atol=0)


def test_make_tensor(device: str) -> None:
    """Ranges, types, gradients, memory formats, sizes in each form, and what is refused."""
    make = ours.testing.make_tensor
    for kind in ("float32", "float16", "int64", "uint8", "bool", "complex64"):
        made = make(50, 4, dtype=getattr(ours, kind), device=device)
        assert made.shape == (50, 4) and made.dtype is getattr(ours, kind) and made.device.type == device
        parts = to_torch(made)
        parts = torch.view_as_real(parts) if kind == "complex64" else parts
        low, high = {"int64": (-9, 9), "uint8": (0, 9), "bool": (0, 1)}.get(kind, (-9, 9))
        assert parts.min() >= low and parts.max() <= high and len(parts.unique()) > 1
    made = make(2, 3, 4, 5, dtype=ours.float32, device=device, memory_format=ours.channels_last, requires_grad=True)
    assert made.stride() == (60, 1, 15, 3) and made.requires_grad and made.is_leaf
    made = make([3, 4], dtype=ours.float32, device=device, noncontiguous=True)
    assert made.shape == (3, 4) and not made.is_contiguous()
    assert make((), dtype=ours.int32, device=device, noncontiguous=True).is_contiguous()
    assert bool(make(99, dtype=ours.bool, device=device, exclude_zero=True).all())
    with pytest.warns(FutureWarning, match="low==high"):
        assert make(2, dtype=ours.float32, device=device, low=2, high=2).tolist() == [2, 2]
    refused = (
        {"requires_grad": True, "dtype": "int64"}, {"low": 3, "high": 2}, {"low": float("nan")}, {"low": 300, "high": 400, "dtype": "uint8"},
        {"noncontiguous": True, "memory_format": "channels_last"}, {"low": 3, "high": 3, "dtype": "bool"},
    )  # fmt: skip
    for options in refused:
        texts = []
        for library, place in ((ours, device), (torch, "cpu")):
            given_options = {"dtype": "float32", **options}
            for name in ("dtype", "memory_format"):
                if name in given_options:
                    given_options[name] = getattr(library, given_options[name])
            texts.append(outcome(library.testing.make_tensor, 2, 2, 2, 2, device=place, **given_options))
        assert texts[0] == texts[1] and texts[0].startswith("ValueError: ")
