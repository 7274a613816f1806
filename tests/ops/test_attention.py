"""Attention by its own kernel: values, layouts of results and memory, on devices that have the form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as wt
from webgpu_torch_core.backend.interface import Device
from webgpu_torch_core.ir.kernels import Attention

SHAPES = {
    "heads": ((2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8)),
    "other lengths": ((3, 9, 4), (3, 5, 4), (3, 5, 6)),
    "groups": ((2, 4, 3, 8), (2, 2, 6, 8), (2, 2, 6, 8)),
    "broadcast": ((1, 2, 3, 8), (2, 1, 6, 8), (2, 2, 6, 8)),
    "no heads": ((5, 8), (7, 8), (7, 3)),
}


@pytest.fixture(params=["python", "webgpu"])
def attending(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device that takes every attention it can run."""
    if request.param == "webgpu" and not wt.webgpu.is_available():
        pytest.skip("no WebGPU adapter on this machine")
    device = engine(wt.zeros(1, device=request.param)).device
    monkeypatch.setattr(type(device), "gains", Device.gains)
    return request.param


def engine(tensor: Any) -> Any:
    """Return the engine of a tensor's device."""
    return tensor._storage.value.engine


def ours(given: torch.Tensor, device: str) -> Any:
    """Return a tensor of this library with the same numbers and strides."""
    flat = wt.tensor(given.as_strided((given.untyped_storage().nbytes() // given.element_size(),), (1,)).tolist())
    kind = getattr(wt, str(given.dtype).removeprefix("torch."))
    return flat.to(kind).to(device).as_strided(given.shape, given.stride(), given.storage_offset())


def compare(device: str, operands: list[torch.Tensor], mask: torch.Tensor | None = None, **options: Any) -> None:
    """Compare with PyTorch, and see that one kernel of the form was recorded."""
    wanted = torch.nn.functional.scaled_dot_product_attention(*operands, mask, **options)
    given = [ours(each, device) for each in operands]
    wt.zeros(1, device=device).tolist()
    found = wt.nn.functional.scaled_dot_product_attention(
        *given, None if mask is None else ours(mask, device), **options
    )
    if device != "python":
        assert [type(each) for each in engine(found).kernels][-1] is Attention
    assert tuple(found.shape) == tuple(wanted.shape)
    assert found.stride() == wanted.stride()
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if wanted.dtype is torch.float16 else {}
    torch.testing.assert_close(torch.tensor(found.float().tolist()), wanted.float(), **tolerance)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(attending: str, name: str) -> None:
    torch.manual_seed(0)
    operands = [torch.randn(shape) for shape in SHAPES[name]]
    options = {"enable_gqa": True} if name == "groups" else {}
    compare(attending, operands, is_causal=name in ("heads", "groups"), **options)


@pytest.mark.parametrize("kind", ["bool", "float", "rows"])
def test_masks(attending: str, kind: str) -> None:
    torch.manual_seed(1)
    operands = [torch.randn(2, 4, 3, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)]
    mask = torch.rand(4, 3, 6) > 0.4 if kind == "bool" else torch.randn(2, 1, 1 if kind == "rows" else 3, 6)
    compare(attending, operands, mask, enable_gqa=True, scale=0.4)


def test_halves_in_other_orders(attending: str) -> None:
    torch.manual_seed(2)
    operands = [torch.randn(2, 5, 3, 8, dtype=torch.float16).transpose(1, 2) for _ in range(3)]
    compare(attending, operands)


def test_what_the_form_does_not_have_is_composed(attending: str) -> None:
    x = ours(torch.randn(2, 4, 8), attending)
    assert wt.nn.functional.scaled_dot_product_attention(x, x[:, :0], x[:, :0]).tolist() == wt.zeros(2, 4, 8).tolist()
    with pytest.raises(RuntimeError):
        wt.nn.functional.scaled_dot_product_attention(x, x[..., :4], x)
