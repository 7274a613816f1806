"""PyTorch's native and deprecated functions, and its operations by their names under ``torch.ops.aten``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from nn_oracle import close, to_ours


def alike(device: str, function: Any, *arguments: Any) -> None:
    """Compare a function of both libraries and the gradient of its first result."""
    own = [to_ours(each, device) if isinstance(each, torch.Tensor) else each for each in arguments]
    results = []
    for library, given in ((torch, list(arguments)), (ours, own)):
        given[0] = given[0].clone().requires_grad_()
        found = getattr(library, function)(*given)
        first = found[0] if isinstance(found, tuple) else found
        first.square().sum().backward()
        results.append([*(found if isinstance(found, tuple) else (found,)), given[0].grad])
    for theirs, mine in zip(*results, strict=True):
        close(mine, theirs, 1e-4, 1e-5)


def test_norms_with_their_statistics(device: str) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 4, 5), torch.randn(4), torch.randn(4)
    alike(device, "native_layer_norm", x, [5], torch.randn(5), None, 1e-5)
    alike(device, "native_group_norm", x, weight, bias, 3, 4, 5, 2, 1e-5)
    alike(device, "native_batch_norm", x, weight, bias, torch.zeros(4), torch.ones(4), True, 0.1, 1e-5)
    alike(device, "native_batch_norm", x, weight, bias, torch.randn(4), torch.rand(4) + 1, False, 0.1, 1e-5)
    alike(device, "native_group_norm", torch.zeros(0, 2), None, None, 0, 2, 1, 1, 1e-5)


def test_batch_norm_updates_the_running_statistics(device: str) -> None:
    x, means = torch.randn(6, 2), []
    for library, value in ((torch, x), (ours, to_ours(x, device))):
        mean, variance = (library.zeros(2, device=value.device), library.ones(2, device=value.device))
        library.native_batch_norm(value, None, None, mean, variance, True, 0.3, 1e-5)
        means.append((mean, variance))
    for theirs, mine in zip(*means, strict=True):
        close(mine, theirs)
    with pytest.raises(RuntimeError, match="must be defined in evaluation"):
        ours.native_batch_norm(to_ours(x, device), None, None, None, None, False, 0.3, 1e-5)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(("last", "padding"), [(False, None), (True, None), (False, 4)])
def test_bags_of_rows(device: str, mode: int, last: bool, padding: int | None) -> None:
    table = torch.randn(10, 3, generator=torch.Generator().manual_seed(mode))
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 0, 4, 6] if last else [0, 0, 4])
    expected = torch.embedding_bag(table, indices, offsets, False, mode, False, None, last, padding)
    rows, chosen, starts = (to_ours(each, device) for each in (table, indices, offsets))
    found = ours.embedding_bag(rows, chosen, starts, False, mode, False, None, last, padding)
    # How many sizes of sums there are, all zeros, depends on which of its kernels PyTorch takes.
    compared = slice(4 if mode else 2)
    for mine, wanted in zip(found[compared], expected[compared], strict=True):
        close(mine, wanted)
        assert mine.dtype is getattr(ours, str(wanted.dtype).removeprefix("torch."))
    with pytest.raises(RuntimeError, match="expected mode to be 0"):
        ours.embedding_bag(ours.ones(2, 2), ours.tensor([0]), ours.tensor([0]), mode=3)


def test_native_dropout(device: str) -> None:
    result, mask = ours.native_dropout(ours.ones(1000, device=device), 0.25, True)
    assert mask.dtype is ours.bool
    assert 600 < int(mask.sum()) < 900
    assert ours.equal(result, mask * (1 / 0.75))
    result, mask = ours.native_dropout(ours.ones(3, device=device), 0.25, False)
    assert bool(mask.all())
    assert result.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("mode", "padding", "align"), [(0, 0, False), (1, 1, True), (2, 2, False)])
def test_grid_samplers_by_number(device: str, mode: int, padding: int, align: bool) -> None:
    torch.manual_seed(1)
    image, grid = torch.randn(2, 3, 4, 5), torch.rand(2, 3, 3, 2) * 2.4 - 1.2
    alike(device, "grid_sampler", image, grid, mode, padding, align)
    alike(device, "grid_sampler_2d", image, grid, mode, padding, align)
    with pytest.raises(RuntimeError, match="5D"):
        ours.grid_sampler_3d(to_ours(image, device), to_ours(grid, device), mode, padding, align)


@pytest.mark.filterwarnings("ignore:.*has no kernel on webgpu")
@pytest.mark.filterwarnings("ignore:.*is deprecated and it is just left:UserWarning")
def test_old_norms(device: str) -> None:
    x = torch.randn(3, 4)
    alike(device, "frobenius_norm", x, [0, 1])
    alike(device, "frobenius_norm", x, [1], True)
    alike(device, "nuclear_norm", x)


def test_range_includes_its_end(device: str) -> None:
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated"):
        found = ours.range(1, 4, 0.5, device=device)
    assert found.tolist() == [1, 1.5, 2, 2.5, 3, 3.5, 4]
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="nonzero"):
        ours.range(1, 2, 0)


def test_operations_by_name(device: str) -> None:
    aten = ours.ops.aten
    x = ours.arange(6.0, device=device).reshape(2, 3)
    assert aten.add(x, 1).tolist() == (x + 1).tolist()
    assert aten.add.Tensor(x, x).tolist() == (x + x).tolist()
    assert aten.slice(x, 1, 0, 3, 2).tolist() == [[0, 2], [3, 5]]
    assert aten.slice.Tensor(x, -1, 1).tolist() == [[1, 2], [4, 5]]
    assert str(aten.add.Tensor) == "aten.add.Tensor"
    assert repr(aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    with pytest.raises(AttributeError, match="no_such"):
        _ = aten.no_such


def test_gradient_of_pooled_maxima(device: str) -> None:
    x = torch.randn(2, 3, 6, 4)
    found = []
    for library, value in ((torch, x), (ours, to_ours(x, device))):
        result, indices = library.nn.functional.max_pool2d_with_indices(value, 2)
        seed = library.ones_like(result)
        found.append(
            library.ops.aten.max_pool2d_with_indices_backward(
                seed, value, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
            )
        )
    close(found[1], found[0])
