"""What cannot be exported is refused with the name of the operation, and leaves the function as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest
import webgpu_torch as torch
from four_bits import from_blocks
from safetensors.numpy import load_file
from webgpu_torch import nn

X = torch.ones(3, 3)


def choose(x):
    return x * 2 if x.sum() > 0 else x


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return x * self.weight


class Stepping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, x):
        with torch.enable_grad():
            self.layer(x).sum().backward()
        return x


@pytest.mark.filterwarnings("ignore::webgpu_torch.HostFallbackWarning")
@pytest.mark.parametrize(
    "function, inputs, message",
    [
        (choose, X, "^`return x \\* 2 if x.sum.*test_export_errors.py, line 18.* reads results"),
        (lambda x: x * x.mean().item(), X, "'item' .* reads"),
        (lambda x: x.nonzero(), X, "'nonzero' .* reads"),
        (lambda x: x[x > 0], X, r"in `.lambda x: x\[x > 0\].* reads"),
        (lambda x: x + torch.randn(3), X, "lambda x: x \\+ torch.randn.* draws random numbers"),
        (nn.Dropout(), X, "'dropout' .* draws random numbers.*eval"),
        (lambda x: torch.linalg.svd(x), X, "'svd' in .* cannot be exported"),
        (lambda x: x.cpu() + 1, X, "'cpu' .* reads results"),
        (Named(), X, "'weight' is torch.float64, which WebGPU has no type for"),
        (lambda x: x + 1, torch.ones(2, dtype=torch.float64), "input 'x' is torch.float64"),
        (lambda x: x + 1, torch.ones(2, dtype=torch.complex64), "input 'x' is torch.complex64"),
        (lambda x: x.add_(1), X, "writes into its input 'x'"),
        (lambda x: torch.fft.fft(x), X, "output 'output' is complex: return torch.view_as_real"),
        (lambda x: object(), X, "returns a object"),
        (lambda x, y: x, (X, {1, 2}), "argument 'y' is a set"),
        (lambda x: x, 3, "example_inputs must be a tensor, a tuple or a dictionary"),
        (Stepping(), X, r"leaves gradients in \.grad"),
    ],
)
def test_refused(function, inputs, message, tmp_path):
    with pytest.raises(torch.web.ExportError, match=message):
        torch.web.export(function, inputs, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    assert X.device.type == "cpu" and X.tolist() == [[1.0] * 3] * 3


def test_options_are_checked(tmp_path):
    for options, message in (
        ({"weights": "int3"}, "weights must be one of float32, float16, int4, got 'int3'"),
        ({"features": ["sparse"]}, "features must be of shader-f16, subgroups, got 'sparse'"),
        ({"limits": {"speed": 9}}, "limits must be of max_buffer_size.*got 'speed'"),
    ):
        with pytest.raises(ValueError, match=message):
            torch.web.export(nn.Linear(3, 3), X, tmp_path, **options)


@pytest.mark.parametrize(
    "shapes, message",
    [
        ({}, "one or more dimensions"),
        ({"x": {0: [2, 4], 1: [3, 5]}}, "all of the same lengths"),
        ({"x": {0: [4]}}, r"two or more lengths from 1 on, each longer than the last, got \(4,\)"),
        ({"x": {0: [4, 2]}}, "each longer than the last"),
        ({"x": {0: [0, 2]}}, "from 1 on"),
        ({"z": {0: [2, 4]}}, "names 'z'; inputs that are tensors: x, y"),
        ({"x": {2: [2, 4]}}, r"gives 'x' the dimensions \[2\]; it has 2"),
    ],
)
def test_lengths_are_checked(tmp_path, shapes, message):
    with pytest.raises(ValueError, match=message):
        torch.web.export(lambda x, y: x + y, (X, X), tmp_path / "folder", dynamic_shapes=shapes)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x[::2], r"output 'output' has sizes \[1, 2\] for inputs of lengths \[2, 4\]"),
        (lambda x: (x, len(x)), "returns numbers that depend on the length"),
        (lambda x: tuple(x), "returns other outputs for inputs of length 4 than of 2"),
    ],
)
def test_outputs_have_the_length_of_the_inputs(tmp_path, function, message):
    with pytest.raises(torch.web.ExportError, match=message):
        torch.web.export(function, X, tmp_path / "folder", dynamic_shapes={"x": {0: [2, 4]}})
    assert not (tmp_path / "folder").exists()


def test_weights_too_large_for_float16(tmp_path):
    layer = nn.Linear(3, 3)
    layer.weight.data.fill_(1e5)
    with pytest.raises(torch.web.ExportError, match=r"'weight' has a number of 100000\.0, more than float16 holds"):
        torch.web.export(layer, X, tmp_path, weights="float16")


def test_the_module_is_as_it_was(tmp_path):
    layer = nn.Linear(3, 3)
    before = layer.weight, layer.weight.device, layer.weight.tolist(), layer(X).tolist()
    torch.web.export(layer, X, tmp_path)
    assert (layer.weight, layer.weight.device, layer.weight.tolist(), layer(X).tolist()) == before
    assert layer.weight.requires_grad


def test_weights_are_readable_safetensors(tmp_path):
    layer = nn.Linear(5, 3)
    torch.web.export(layer, torch.ones(2, 5), tmp_path)
    found = load_file(tmp_path / "weights-00001.safetensors")
    assert found["weight"].tolist() == layer.weight.tolist() and found["bias"].tolist() == layer.bias.tolist()


def test_weights_of_four_bits_are_near(tmp_path):
    """A block of 32 has 16 levels between its least and its greatest number, which rounding misses by half a level at most."""
    torch.manual_seed(3)
    layer = nn.Linear(48, 6)
    torch.web.export(layer, torch.ones(2, 48), tmp_path, weights="int4")
    found = load_file(tmp_path / "weights-00001.safetensors")
    assert found["bias"].dtype == np.float16 and found["bias"].tolist() == layer.bias.half().tolist()
    assert found["weight"].dtype == np.uint8 and found["weight"].shape == (48 * 6 // 32, 20)
    near, given = from_blocks(found["weight"]), np.array(layer.weight.tolist(), np.float32).reshape(-1, 32)
    levels = np.ptp(given, 1) / 15
    assert (np.sqrt(np.square(near - given).mean(1)) < 0.5 * levels).all()
    assert len(np.unique(near)) > 60


def test_the_plan_keeps_the_default_limits(tmp_path):
    net = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 70))
    torch.web.export(net, torch.ones(4, 300), tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["limits"] == {} and plan["features"] == []
    assert all(len([kind for kind in each["layout"] if kind != "uniform"]) <= 8 for each in plan["pipelines"])
    torch.web.export(net, torch.ones(4, 300), tmp_path, limits={"max_compute_invocations_per_workgroup": 512})
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["limits"] == {"maxComputeInvocationsPerWorkgroup": 512}
