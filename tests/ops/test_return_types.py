"""The types of results with several parts, as ``torch.return_types``."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours

NAMES = [
    name
    for name, kind in vars(torch.return_types).items()
    if isinstance(kind, type)
    and issubclass(kind, tuple)
    and not name.startswith("_")
    and hasattr(torch, name.split("_")[0])
]


@pytest.mark.parametrize("name", NAMES)
def test_types_have_pytorchs_fields(name: str) -> None:
    assert getattr(ours.return_types, name).__match_args__ == getattr(torch.return_types, name).__match_args__


def test_results_are_of_these_types() -> None:
    x = ours.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert type(x.sort()) is ours.return_types.sort
    assert isinstance(x.max(0), ours.return_types.max)
    assert isinstance(ours.linalg.qr(x), ours.return_types.linalg_qr)
    out = ours.empty(0), ours.empty(0, dtype=ours.int64)
    assert isinstance(ours.sort(x, out=out), ours.return_types.sort_out)
    assert ours.return_types.sort in ours.return_types.all_return_types


def test_types_take_one_sequence() -> None:
    for library in (torch, ours):
        kind = type(library.ones(2).sort())
        assert tuple(kind([1, 2])) == tuple(kind(each for each in (1, 2))) == (1, 2)
        assert kind((1, 2)).indices == 2
