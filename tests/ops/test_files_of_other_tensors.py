"""Sparse, meta, conjugated and negated tensors in files: read from PyTorch, written for it; damaged ones are refused."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from pickle import UnpicklingError
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

LAYOUTS = {
    "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(), "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)), "bsc": lambda x: x.to_sparse_bsc((2, 2)), "strided": lambda x: x,
}  # fmt: skip
TYPES = ("float32", "float64", "bfloat16", "int64", "complex64")


def written(t: Any, value: Any) -> bytes:
    file = io.BytesIO()
    t.save(value, file)
    return file.getvalue()


def told(value: Any) -> object:
    if value.device.type == "meta":
        return "meta", str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad
    dense = value if str(value.layout) == "torch.strided" else value.to_dense()
    coalesced = value.is_coalesced() if str(value.layout) == "torch.sparse_coo" else None
    return str(value.layout), str(value.dtype), coalesced, value.requires_grad, dense.tolist()


@pytest.mark.filterwarnings("ignore:Sparse")
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(LAYOUTS)), st.sampled_from(TYPES), st.lists(st.integers(-2, 2), min_size=16, max_size=16),
    st.sampled_from([(0, 1), (1, 0), (1, 1)]), st.booleans(),
)  # fmt: skip
def test_sparse_tensors(name: str, kind: str, numbers: list[int], ways: tuple[int, int], weights_only: bool) -> None:
    source, reader = ((torch, webgpu_torch)[each] for each in ways)
    value = LAYOUTS[name](source.tensor(numbers).reshape(4, 4).to(getattr(source, kind)))
    found = reader.load(io.BytesIO(written(source, {"value": value})), weights_only=weights_only)["value"]
    assert told(found) == told(value)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=3), st.sampled_from(TYPES[:3]), st.booleans(),
    st.sampled_from([(0, 1), (1, 0), (1, 1)]), st.booleans(),
)  # fmt: skip
def test_tensors_without_elements(
    dimensions: list[tuple[int, int]], kind: str, tracked: bool, ways: tuple[int, int], weights_only: bool
) -> None:
    source, reader = ((torch, webgpu_torch)[each] for each in ways)
    shape, strides = [size for size, _ in dimensions], [stride for _, stride in dimensions]
    value = source.empty_strided(shape, strides, dtype=getattr(source, kind), device="meta", requires_grad=tracked)
    found = reader.load(io.BytesIO(written(source, [value])), weights_only=weights_only)[0]
    assert told(found) == told(value)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.sampled_from(("conj", "imag", "neg", "twice")),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_conjugated_and_negated_tensors(numbers: list[int], name: str, parameter: bool, weights_only: bool) -> None:
    values = torch.view_as_complex(torch.tensor(numbers, dtype=torch.float32).reshape(2, 2))
    value = {
        "conj": values.conj(), "imag": values.conj().imag, "neg": torch._neg_view(values), "twice": torch._neg_view(values.conj()),
    }[name]  # fmt: skip
    value = torch.nn.Parameter(value) if parameter else value
    found = webgpu_torch.load(io.BytesIO(written(torch, value)), weights_only=weights_only)
    assert found.tolist() == value.tolist()
    assert found.requires_grad is value.requires_grad and found.is_leaf


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(LAYOUTS)), st.randoms(use_true_random=False))
def test_damaged_files_are_refused(name: str, dice: Any) -> None:
    """Other positions, sizes and names in the pickle: another tensor, or an error that is no crash."""
    data = written(webgpu_torch, LAYOUTS[name](webgpu_torch.eye(4)))
    damaged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(damaged, "w") as write:
        for each in read.namelist():
            content = bytearray(read.read(each))
            for _ in range(dice.randint(1, 3)):
                content[dice.randrange(len(content))] = dice.randrange(256)
            write.writestr(each, bytes(content))
    damaged.seek(0)
    try:
        found = webgpu_torch.load(damaged)
    except (UnpicklingError, ValueError, OSError):
        return
    if isinstance(found, webgpu_torch.Tensor) and found.dim() == 2 and found.numel() <= 1 << 16:
        told(found)


def holding(library: Any) -> type:
    """Return a class of tensors that hold another one, and no elements of their own."""

    class Holding(library.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return library.Tensor._make_wrapper_subclass(
                cls, inner.shape, strides=inner.stride(), storage_offset=0, dtype=inner.dtype, requires_grad=True
            )

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{func} is not asked for")

    Holding.__qualname__ = "Holding"
    return Holding


@pytest.mark.parametrize("writer", [torch, webgpu_torch])
@pytest.mark.parametrize("reader", [torch, webgpu_torch])
def test_tensors_that_hold_others(writer: Any, reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {library: holding(library) for library in (torch, webgpu_torch)}
    monkeypatch.setattr(sys.modules[__name__], "Holding", kinds[writer], raising=False)
    inner = writer.arange(6.0).reshape(2, 3).t()
    file = io.BytesIO()
    writer.save([kinds[writer](inner), inner], file)
    monkeypatch.setattr(sys.modules[__name__], "Holding", kinds[reader])
    read, other = reader.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert type(read) is kinds[reader]
    assert (tuple(read.shape), read.stride(), str(read.dtype), read.requires_grad) == (
        (3, 2),
        (1, 3),
        "torch.float32",
        True,
    )
    assert read.inner.tolist() == inner.tolist()
    # What it holds is the very memory of what was saved beside it.
    other[0, 0] = 9
    assert read.inner[0, 0].item() == 9
    monkeypatch.setattr(sys.modules[__name__], "Holding", kinds[writer])
    again = pickle.loads(pickle.dumps(kinds[writer](inner)))
    assert type(again) is kinds[writer] and again.inner.tolist() == inner.tolist()
