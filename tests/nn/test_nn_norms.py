"""Normalisations: running statistics over many batches, modes, old states, conversion and errors, as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, copy_weights, to_ours, to_torch

BATCHES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("BatchNorm1d", (6, 3), {}),
    ("BatchNorm1d", (4, 3, 5), {"momentum": None}),
    ("BatchNorm1d", (4, 3), {"bias": False}),
    ("BatchNorm2d", (2, 3, 4, 5), {"momentum": 0.3, "eps": 1e-3}),
    ("BatchNorm2d", (2, 3, 4, 5), {"track_running_stats": False}),
    ("BatchNorm3d", (2, 3, 2, 3, 4), {"affine": False, "momentum": None}),
    ("InstanceNorm1d", (2, 3, 5), {"track_running_stats": True}),
    ("InstanceNorm2d", (2, 3, 4, 5), {"affine": True, "track_running_stats": True, "momentum": 0.4}),
    ("InstanceNorm3d", (3, 2, 3, 4), {"affine": True}),
    ("SyncBatchNorm", (2, 3, 4), {}),
]


@pytest.mark.parametrize(("name", "shape", "options"), BATCHES)
def test_running_statistics(name: str, shape: tuple[int, ...], options: dict[str, Any], device: str) -> None:
    expected = getattr(torch.nn, name)(3, **options)
    actual = getattr(nn, name)(3, **options, device=device)
    assert repr(actual) == repr(expected)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(shape) * 2 + seed
        close(actual(to_ours(x, device)), expected(x), atol=1e-5)
        if seed == 1:
            # Frozen statistics count no batch.
            close(actual.eval()(to_ours(x, device)), expected.eval()(x), atol=1e-5)
            actual.train(), expected.train()
    left, right = actual.state_dict(), expected.state_dict()
    assert list(left) == list(right)
    for key, value in right.items():
        close(left[key], value)
    if options.get("track_running_stats"):
        actual.reset_running_stats()
        assert to_torch(actual.running_var).tolist() == [1.0, 1.0, 1.0] and actual.num_batches_tracked.item() == 0


def test_the_count_is_not_read_in_training() -> None:
    layer = nn.BatchNorm1d(2, momentum=None)
    expected = torch.nn.BatchNorm1d(2, momentum=None)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(5, 2)
        layer(to_ours(x)), expected(x)
    close(layer.running_mean, expected.running_mean)
    assert layer.num_batches_tracked.item() == 4


def test_states_before_version_2() -> None:
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    layer = nn.BatchNorm1d(2)
    layer.num_batches_tracked += 7
    assert str(layer.load_state_dict(state)) == "<All keys matched successfully>"
    assert layer.num_batches_tracked.item() == 7
    state._metadata[""]["version"] = 2
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"num_batches_tracked\""):
        layer.load_state_dict(state)
    for library, kinds in ((nn, ours), (torch.nn, torch)):
        old = {"running_mean": kinds.zeros(2), "running_var": kinds.ones(2)}
        with pytest.raises(RuntimeError, match="Unexpected running stats buffer"):
            library.InstanceNorm1d(2).load_state_dict(old)


def test_batch_norms_become_synchronised() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2, affine=False)), nn.ReLU()).eval()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    expected = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
        torch.nn.Sequential(
            torch.nn.BatchNorm2d(3), torch.nn.Sequential(torch.nn.BatchNorm1d(2, affine=False)), torch.nn.ReLU()
        ).eval()
    )
    assert repr(converted) == repr(expected)
    assert not converted[0].training
    assert list(converted.state_dict()) == list(expected.state_dict())
    layer = nn.BatchNorm1d(3)
    assert nn.SyncBatchNorm.convert_sync_batchnorm(layer).weight is layer.weight


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_responses_across_channels(size: int, device: str) -> None:
    torch.manual_seed(size)
    x = torch.randn(2, 7, 3, 2)
    for name in ("CrossMapLRN2d", "LocalResponseNorm"):
        expected, actual = getattr(torch.nn, name)(size, 0.5, 0.6, 1.5), getattr(nn, name)(size, 0.5, 0.6, 1.5)
        assert repr(actual) == repr(expected)
        y = to_ours(x, device).requires_grad_()
        close(actual(y), expected(x))
        actual(y).sum().backward()
        assert bool(y.grad.isfinite().all())


@pytest.mark.parametrize("library", [nn, torch.nn], ids=["ours", "torch"])
def test_errors(library: Any) -> None:
    kinds = ours if library is nn else torch
    for layer, shape, message in (
        (library.BatchNorm1d(3), (2, 3, 4, 5), r"expected 2D or 3D input \(got 4D input\)"),
        (library.BatchNorm2d(3), (2, 3), r"expected 4D input \(got 2D input\)"),
        (library.BatchNorm3d(3), (2, 3), r"expected 5D input \(got 2D input\)"),
        (library.SyncBatchNorm(3), (3,), r"expected at least 2D input \(got 1D input\)"),
        (library.BatchNorm1d(3), (1, 3), "Expected more than 1 value per channel when training"),
        (library.InstanceNorm2d(3), (2, 3), r"expected 3D or 4D input \(got 2D input\)"),
        (library.InstanceNorm1d(3, affine=True), (2, 4, 5), "to match num_features"),
        (library.InstanceNorm1d(3), (2, 3, 1), "Expected more than 1 spatial element"),
    ):
        with pytest.raises(ValueError, match=message):
            layer(kinds.ones(*shape))
    with pytest.raises(ValueError, match="must be divisible by num_groups"):
        library.GroupNorm(2, 3)
    with pytest.warns(UserWarning, match="does not match num_features"):
        library.InstanceNorm1d(3)(kinds.ones(2, 4, 5))


def test_network_with_norms_trains_alike(device: str) -> None:
    def network(library: Any) -> Any:
        return library.Sequential(
            library.Conv2d(2, 4, 3), library.BatchNorm2d(4), library.ReLU(), library.GroupNorm(2, 4), library.Flatten()
        )

    expected, actual = network(torch.nn), network(nn).to(device)
    copy_weights(expected, actual, device)
    left = nn.optim.SGD(actual.parameters(), lr=0.1)
    right = torch.optim.SGD(expected.parameters(), lr=0.1)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(3, 2, 5, 5)
        for model, optimizer, given in ((actual, left, to_ours(x, device)), (expected, right, x)):
            optimizer.zero_grad()
            (model(given) ** 3).mean().backward()
            optimizer.step()
    for key, value in expected.state_dict().items():
        close(actual.state_dict()[key], value, rtol=1e-4, atol=1e-5)
