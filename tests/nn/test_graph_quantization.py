"""``prepare_fx`` and ``convert_fx``: graphs in integers compute what PyTorch's do, within a few steps of their scale."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.quantize_fx
import webgpu_torch

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max"),
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor"),
    pytest.mark.filterwarnings("ignore:.*erase_node"),
]
LIBRARIES = (webgpu_torch, torch)


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


def _network(t: Any, forward: Callable[[Any, Any], Any]) -> Any:
    nn = t.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.bn2, self.pool = (
                nn.Conv2d(4, 4, 3, padding=1, bias=False),
                nn.BatchNorm2d(4),
                nn.MaxPool2d(2),
            )
            self.fc, self.norm, self.act = nn.Linear(4, 5), nn.LayerNorm(5), nn.Hardswish()

        def forward(self, x: Any) -> Any:
            return forward(self, x)

    return Network()


def _residual(t: Any) -> Callable[[Any, Any], Any]:
    def forward(self: Any, x: Any) -> Any:
        x = self.relu(self.bn(self.conv(x)))
        x = t.nn.functional.relu(self.bn2(self.conv2(x)) + x)
        return self.fc(t.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))

    return forward


def _joined(t: Any) -> Callable[[Any, Any], Any]:
    def forward(self: Any, x: Any) -> Any:
        x = self.pool(self.relu(self.bn(self.conv(x))))
        x = t.cat([x, self.act(self.conv2(x))], 0)
        x = x * 0.5
        return t.softmax(self.norm(self.fc(x.mean([2, 3]))), -1)

    return forward


def _partly(t: Any) -> Callable[[Any, Any], Any]:
    def forward(self: Any, x: Any) -> Any:
        x = t.sin(self.conv(x)).exp()
        return t.sum(self.bn2(self.conv2(x)), 1) / 3

    return forward


NETWORKS = {"residual": _residual, "joined": _joined, "partly": _partly}


def both(name: str) -> list[Any]:
    torch.manual_seed(1)
    mine, theirs = (_network(t, NETWORKS[name](t)) for t in LIBRARIES)
    for key, value in theirs.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape) + 0.5 if "running_var" in key else torch.randn(value.shape) * 0.4)
    mine.load_state_dict(
        {key: webgpu_torch.from_numpy(each.numpy().copy()) for key, each in theirs.state_dict().items()}
    )
    return [mine, theirs]


def examples(t: Any, count: int = 3) -> list[Any]:
    return [
        t.from_numpy(np.random.default_rng(seed).standard_normal((2, 3, 8, 8)).astype(np.float32))
        for seed in range(count)
    ]


def kinds(t: Any, model: Any) -> list[str]:
    """Return what is computed, in order: classes of modules, and names of functions and methods."""
    found = []
    for node in model.graph.nodes:
        if node.op == "call_module":
            found.append(type(model.get_submodule(node.target)).__name__)
        elif node.op.startswith("call_"):
            found.append(node.target if isinstance(node.target, str) else node.target.__name__)
    return found


@pytest.mark.parametrize("observer", ["histogram", "min-max"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, observer: str) -> None:
    results, scales = [], []
    for t, model in zip(LIBRARIES, both(name), strict=True):
        ao = t.ao.quantization
        mapping = (
            ao.get_default_qconfig_mapping("fbgemm")
            if observer == "histogram"
            else ao.QConfigMapping().set_global(ao.default_qconfig)
        )
        prepared = t.ao.quantization.quantize_fx.prepare_fx(model.eval(), mapping, (examples(t, 1)[0],))
        for each in examples(t):
            prepared(each)
        made = t.ao.quantization.quantize_fx.convert_fx(prepared)
        results.append(
            (model(examples(t, 1)[0]).detach().numpy(), made(examples(t, 1)[0]).detach().numpy(), kinds(t, made))
        )
        scales.append(max([float(each.scale) for each in made.modules() if hasattr(each, "scale")]))
    (plain, mine, what), (_, theirs, expected) = results
    assert mine.shape == theirs.shape
    step = scales[1] * (0.2 if name == "joined" else 1)
    assert np.abs(mine - theirs).max() <= 2.1 * step, (what, expected)
    assert np.abs(mine - plain).max() <= np.abs(theirs - plain).max() + 2 * step
    quantized = [
        [each for each in found if "Conv" in each or "Linear" in each or each in ("add", "add_relu", "mul")]
        for found in (what, expected)
    ]
    assert quantized[0] == quantized[1]


def test_what_is_not_configured_stays() -> None:
    for t, model in zip(LIBRARIES, both("residual"), strict=True):
        ao = t.ao.quantization
        mapping = (
            ao.QConfigMapping()
            .set_global(ao.default_qconfig)
            .set_module_name("fc", None)
            .set_object_type(operator.add, None)
        )
        prepared = t.ao.quantization.quantize_fx.prepare_fx(model.eval(), mapping, (examples(t, 1)[0],))
        prepared(examples(t, 1)[0])
        made = t.ao.quantization.quantize_fx.convert_fx(prepared)
        assert type(made.fc) is t.nn.Linear and "Quantized" in str(made.conv)
        assert not any("quantized.add" in str(each) for each in made.code.splitlines())


def test_training() -> None:
    losses = []
    for t, model in zip(LIBRARIES, both("residual"), strict=True):
        fx = t.ao.quantization.quantize_fx
        mapping = t.ao.quantization.get_default_qat_qconfig_mapping("fbgemm")
        prepared = fx.prepare_qat_fx(model.train(), mapping, (examples(t, 1)[0],))
        optimizer = t.optim.SGD(prepared.parameters(), lr=0.01)
        found = []
        for each in examples(t):
            loss = (prepared(each) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        made = fx.convert_fx(prepared.eval())
        losses.append([*found, made(examples(t, 1)[0]).detach().square().mean().item()])
        assert "QuantizedConvReLU2d" in str(made)
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-2)


def test_copies_and_refusals() -> None:
    t = webgpu_torch
    fx, model = t.ao.quantization.quantize_fx, both("residual")[0]
    prepared = fx.prepare_fx(model.eval(), {"": t.ao.quantization.default_qconfig}, None)
    prepared(examples(t, 1)[0])
    made = fx.convert_fx(prepared)
    x = examples(t, 1)[0]
    assert t.equal(copy.deepcopy(made)(x), made(x))
    assert "ConvReLU2d" in str(fx.fuse_fx(model))
    with pytest.raises(NotImplementedError, match="backend_config"):
        fx.prepare_fx(model, t.ao.quantization.QConfigMapping(), None, backend_config={})
