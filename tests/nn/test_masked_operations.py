"""Masked operations of dense and of sparse operands, their masks and identities, are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

#: PyTorch says so once, of layouts that are new and of checks that are left out
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*beta state:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]
BOTH: tuple[Any, Any] = (webgpu_torch, torch)
#: what PyTorch computes of sparse operands
SPARSE = ("sum", "prod", "amax", "amin")
REDUCTIONS = (*SPARSE, "mean", "argmax", "argmin", "logsumexp")
LAYOUTS = ("strided", "sparse_coo", "sparse_csr")
TYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32")


def elements(sizes: tuple[int, ...]) -> st.SearchStrategy[tuple[list[float], list[bool]]]:
    count = math.prod(sizes)
    values = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]), min_size=count, max_size=count)
    return st.tuples(values, st.lists(st.booleans(), min_size=count, max_size=count))


def laid(t: Any, tensor: Any, layout: str) -> Any:
    return tensor if layout == "strided" else tensor.to_sparse(layout=getattr(t, layout))


def told(result: Any) -> tuple[str, str, list[int], list[Any]]:
    dense = result if str(result.layout).endswith("strided") else result.to_dense()
    return str(result.layout), str(result.dtype), list(result.shape), dense.tolist()


def test_masks_are_found_and_identities_told() -> None:
    assert webgpu_torch.masked._canonical_dim((-1, 0), 3) == torch.masked._canonical_dim((-1, 0), 3) == (0, 2)
    for t in BOTH:
        with pytest.raises(IndexError, match="_input_mask expected broadcastable mask"):
            t.masked._input_mask(t.zeros(2), mask=t.zeros(1, 2, dtype=t.bool))
        with pytest.raises(ValueError, match="_input_mask requires explicit mask"):
            t.masked._input_mask(t.zeros(2))


@pytest.mark.parametrize("name", (*REDUCTIONS, "norm", "median", "var", "cumprod", "logaddexp"))
def test_identities(name: str) -> None:
    for kind in TYPES:
        found = []
        for t in BOTH:
            try:
                identity = t.masked._reduction_identity(name, t.zeros(2, dtype=getattr(t, kind)))
                found.append(identity if identity is None else (str(identity.dtype), repr(identity.item())))
            except NotImplementedError as error:
                found.append(str(error))
        assert found[0] == found[1], kind


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_operations_of_operands_in_every_layout(data: st.DataObject) -> None:
    sizes = data.draw(st.sampled_from([(2, 3), (3, 2), (1, 4)]))
    values, shown = data.draw(elements(sizes))
    # Of rows that show no element PyTorch makes compressed results that are none, with other sizes than their pointers say.
    kept = [shows and value != 0 for value, shows in zip(values, shown, strict=True)]
    whole = all(any(kept[start : start + sizes[1]]) for start in range(0, len(kept), sizes[1]))
    layout = data.draw(st.sampled_from(LAYOUTS if whole else LAYOUTS[:2]))
    name = data.draw(st.sampled_from(SPARSE if layout != "strided" else REDUCTIONS))
    dim = data.draw(st.sampled_from([0, 1] if name.startswith("arg") else [0, 1, (0, 1)]))
    found = []
    for t in BOTH:
        input, mask = t.tensor(values).reshape(sizes), t.tensor(shown).reshape(sizes)
        function = getattr(t.masked, name)
        result = function(laid(t, input, layout), dim, keepdim=True, mask=laid(t, mask, layout))
        left = t.masked._output_mask(function, input, dim, keepdim=True, mask=mask)
        dense = result if layout == "strided" else result.to_dense()
        found.append(
            (
                told(left),
                str(result.layout),
                str(result.dtype),
                t.where(left, dense, dense.new_zeros(())).flatten().tolist(),
            )
        )
    assert found[0][:-1] == found[1][:-1]
    assert found[0][-1] == pytest.approx(found[1][-1], rel=1e-6, nan_ok=True)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_what_a_mask_shows_of_an_input(data: st.DataObject) -> None:
    values, shown = data.draw(elements((3, 4)))
    layout = data.draw(st.sampled_from(LAYOUTS))
    found = []
    for t in BOTH:
        input, mask = t.tensor(values).reshape(3, 4), t.tensor(shown).reshape(3, 4)
        asked = t.masked._input_mask(laid(t, input, layout), mask=laid(t, mask, layout))
        part = t.masked._where(asked, laid(t, input, layout), t.tensor(7.0 if layout == "strided" else 0.0))
        found.append((told(asked), told(part), None if layout == "strided" else part._nnz()))
    assert found[0] == found[1]
