"""``torch.ao.quantization``: observers, networks in integers, files of them and training for them, next to PyTorch's."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.nn.quantized
import torch.ao.quantization
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max"),
    pytest.mark.filterwarnings("ignore:must run observer"),
]
LIBRARIES = (webgpu_torch, torch)


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[None]:
    """Let PyTorch compute with the engine that sums exactly."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


def numbers(shape: tuple[int, ...], seed: int, factor: float = 1.0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(factor)


# Observers

OBSERVERS: dict[str, Callable[[Any], Any]] = {
    "min-max": lambda t: t.ao.quantization.MinMaxObserver(), "reduced": lambda t: t.ao.quantization.MinMaxObserver(reduce_range=True),
    "symmetric": lambda t: t.ao.quantization.MinMaxObserver(dtype=t.qint8, qscheme=t.per_tensor_symmetric),
    "symmetric bytes": lambda t: t.ao.quantization.MinMaxObserver(qscheme=t.per_tensor_symmetric),
    "narrow": lambda t: t.ao.quantization.weight_observer_range_neg_127_to_127(), "default": lambda t: t.ao.quantization.default_observer(),
    "average": lambda t: t.ao.quantization.MovingAverageMinMaxObserver(averaging_constant=0.1),
    "channels": lambda t: t.ao.quantization.PerChannelMinMaxObserver(ch_axis=1),
    "weights": lambda t: t.ao.quantization.default_per_channel_weight_observer(),
    "table": lambda t: t.ao.quantization.default_float_qparams_observer(),
    "averages of channels": lambda t: t.ao.quantization.MovingAveragePerChannelMinMaxObserver(0.3, dtype=t.qint8, qscheme=t.per_channel_symmetric),
    "histogram": lambda t: t.ao.quantization.HistogramObserver(), "few bins": lambda t: t.ao.quantization.HistogramObserver(bins=64, reduce_range=True),
    "symmetric histogram": lambda t: t.ao.quantization.HistogramObserver(dtype=t.qint8, qscheme=t.per_tensor_symmetric),
    "fixed": lambda t: t.ao.quantization.default_fixed_qparams_range_0to1_observer(),
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(OBSERVERS)), st.lists(st.floats(0.01, 4), min_size=1, max_size=4), st.integers(0, 99))
def test_observers(name: str, factors: list[float], seed: int) -> None:
    found = []
    for t in LIBRARIES:
        observer = OBSERVERS[name](t)
        for number, factor in enumerate(factors):
            x = t.from_numpy(numbers((3, 4, 5), seed + number, factor))
            assert observer(x) is x
        scale, zero = observer.calculate_qparams()
        assert tuple(scale.shape) == tuple(zero.shape)
        kept = {key: value.numpy() for key, value in observer.state_dict().items()}
        found.append((scale.numpy(), zero.numpy(), str(zero.dtype), kept, repr(observer)))
    mine, theirs = found
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6)
    np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-5, atol=0)
    assert mine[2] == theirs[2] and mine[3].keys() == theirs[3].keys()
    for key, value in theirs[3].items():
        np.testing.assert_allclose(mine[3][key], value, rtol=1e-5, atol=1e-6, err_msg=key)
    assert "istogram" in name or name == "few bins" or mine[4] == theirs[4]


def test_observers_that_saw_nothing_or_infinity() -> None:
    for t in LIBRARIES:
        for name in ("MinMaxObserver", "HistogramObserver", "PerChannelMinMaxObserver"):
            observer = getattr(t.ao.quantization, name)()
            observer(t.empty(0))
            scale, zero = observer.calculate_qparams()
            assert scale.tolist() == [1.0] and zero.tolist() == [0]
        observer = t.ao.quantization.HistogramObserver()
        with pytest.warns(UserWarning, match=r"torch\.inf detected"):
            observer(t.tensor([float("inf"), 1.0, -2.0]))
        assert observer.max_val == 1.0
        with pytest.raises(NotImplementedError):
            t.ao.quantization.MinMaxObserver(qscheme=t.per_channel_affine)
        with pytest.raises(ValueError, match="observer instance"):
            t.ao.quantization.QConfig(t.ao.quantization.MinMaxObserver(), t.ao.quantization.default_weight_observer)


# Networks


def _block(t: Any) -> Any:
    nn, ao = t.nn, t.ao.quantization

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
            self.conv2 = nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False)
            self.act, self.pool, self.fc = nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)
            self.functional = t.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Any) -> Any:
            x = self.relu(self.bn(self.conv(self.quant(x))))
            x = self.functional.add(x, self.functional.mul_scalar(x, 0.5))
            x = self.pool(self.act(self.conv2(x))).flatten(1)
            return self.dequant(self.fc(x))

    return Block()


def _wrapped(*layers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: t.ao.quantization.QuantWrapper(t.nn.Sequential(*(layer(t) for layer in layers)))


class Network:
    """A network, the shape of its examples, what is fused, and by how many steps results may differ."""

    def __init__(
        self, make: Callable[[Any], Any], shape: tuple[int, ...], fused: list[list[str]] | None = None
    ) -> None:
        self.make, self.shape, self.fused = make, shape, fused or []


NETWORKS = {
    "block": Network(_block, (2, 3, 9, 9), [["conv", "bn", "relu"]]),
    "linear": Network(_wrapped(lambda t: t.nn.Linear(7, 5), lambda t: t.nn.ReLU(), lambda t: t.nn.Linear(5, 3)), (4, 7), [["module.0", "module.1"]]),
    "conv1d": Network(_wrapped(lambda t: t.nn.Conv1d(3, 4, 3, padding=1), lambda t: t.nn.ReLU(), lambda t: t.nn.Conv1d(4, 2, 2, dilation=2)), (2, 3, 9),
                      [["module.0", "module.1"]]),
    "conv3d": Network(_wrapped(lambda t: t.nn.Conv3d(2, 4, 2, bias=False), lambda t: t.nn.BatchNorm3d(4), lambda t: t.nn.ReLU()), (2, 2, 4, 5, 3),
                      [["module.0", "module.1", "module.2"]]),
    "norms": Network(_wrapped(lambda t: t.nn.Conv2d(3, 4, 3), lambda t: t.nn.BatchNorm2d(4), lambda t: t.nn.LeakyReLU(0.1), lambda t: t.nn.ReLU6(),
                              lambda t: t.nn.GroupNorm(2, 4), lambda t: t.nn.InstanceNorm2d(4), lambda t: t.nn.ELU()), (2, 3, 6, 6)),
    "reflected": Network(_wrapped(lambda t: t.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), lambda t: t.nn.MaxPool2d(2), lambda t: t.nn.Flatten(),
                                  lambda t: t.nn.Dropout(), lambda t: t.nn.Linear(36, 4), lambda t: t.nn.Sigmoid()), (2, 3, 6, 6)),
    "layers": Network(_wrapped(lambda t: t.nn.Linear(6, 8), lambda t: t.nn.LayerNorm(8), lambda t: t.nn.Tanh(), lambda t: t.nn.Linear(8, 2, bias=False)), (3, 6)),
}  # fmt: skip


def both(name: str, seed: int) -> list[Any]:
    """Return the network of either library, with the same weights."""
    torch.manual_seed(seed)
    theirs, mine = NETWORKS[name].make(torch), NETWORKS[name].make(webgpu_torch)
    for key, value in theirs.state_dict().items():
        if "running_var" in key:
            value.copy_(torch.rand(value.shape) + 0.5)
        elif value.is_floating_point():
            value.copy_(torch.randn(value.shape) * 0.4)
    mine.load_state_dict(
        {key: webgpu_torch.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    )
    return [mine, theirs]


def examples(name: str, t: Any, seed: int, count: int = 3) -> list[Any]:
    return [t.from_numpy(numbers(NETWORKS[name].shape, seed * 10 + number)) for number in range(count)]


def quantized(name: str, t: Any, model: Any, seed: int, engine: str) -> Any:
    ao = t.ao.quantization
    model = model.eval()
    if NETWORKS[name].fused:
        model = ao.fuse_modules(model, NETWORKS[name].fused)
    model.qconfig = ao.get_default_qconfig(engine)
    prepared = ao.prepare(model)
    for each in examples(name, t, seed):
        prepared(each)
    return ao.convert(prepared)


def scale_of(model: Any) -> float:
    """Return the step between results of a network."""
    return max(
        [float(each.scale) for each in model.modules() if isinstance(getattr(each, "scale", None), float)], default=0.01
    )


def compare_states(mine: Any, theirs: Any, rtol: float = 1e-5) -> None:
    assert list(mine) == list(theirs)
    for key, value in theirs.items():
        pairs = zip(mine[key], value, strict=True) if isinstance(value, tuple) else [(mine[key], value)]
        for one, other in pairs:
            if not hasattr(other, "is_quantized"):
                assert str(one) == str(other), key
            elif other.is_quantized:
                assert (
                    np.abs(one.int_repr().numpy().astype(int) - other.int_repr().numpy().astype(int)).max(initial=0)
                    <= 1
                ), key
            else:
                assert str(one.dtype) == str(other.dtype), key
                np.testing.assert_allclose(
                    one.detach().numpy(), other.detach().numpy(), rtol=rtol, atol=rtol, err_msg=key
                )


@pytest.mark.parametrize("engine_of_config", ["fbgemm", "qnnpack"])
@pytest.mark.parametrize("name", NETWORKS)
def test_static(name: str, engine_of_config: str) -> None:
    mine, theirs = both(name, 1)
    made = quantized(name, webgpu_torch, mine, 1, engine_of_config), quantized(name, torch, theirs, 1, engine_of_config)
    compare_states(made[0].state_dict(), made[1].state_dict(), 2e-3)
    assert str(made[0]).count("Quantized") == str(made[1]).count("Quantized")
    # With one and the same scales and integers, the results are the same, up to a step where a number is halfway between two.
    file = io.BytesIO()
    torch.save(made[1].state_dict(), file)
    file.seek(0)
    made[0].load_state_dict(webgpu_torch.load(file))
    results = [model(examples(name, t, 1, 1)[0]) for t, model in zip(LIBRARIES, made, strict=True)]
    step = scale_of(made[1])
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=0, atol=1.01 * step)
    assert (np.abs(results[0].numpy() - results[1].numpy()) > step / 2).mean() < 0.1


@pytest.mark.parametrize("name", ["block", "linear", "conv3d", "norms"])
def test_files_of_states(name: str) -> None:
    """A state that one library saves the other one loads, and computes the same with."""
    mine, theirs = both(name, 2)
    made = [quantized(name, t, model, 2, "fbgemm") for t, model in zip(LIBRARIES, (mine, theirs), strict=True)]
    file = io.BytesIO()
    webgpu_torch.save(made[0].state_dict(), file)
    file.seek(0)
    made[1].load_state_dict(torch.load(file))
    compare_states(made[0].state_dict(), made[1].state_dict())
    results = [model(examples(name, t, 2, 1)[0]).numpy() for t, model in zip(LIBRARIES, made, strict=True)]
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1.01 * scale_of(made[1]))
    assert made[0].state_dict()._metadata == made[1].state_dict()._metadata


def test_copies_and_whole_files(tmp_path: Any) -> None:
    made = quantized("norms", webgpu_torch, both("norms", 3)[0], 3, "fbgemm")
    x = examples("norms", webgpu_torch, 3, 1)[0]
    webgpu_torch.save(made, tmp_path / "whole.pt")
    others = (
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        webgpu_torch.load(tmp_path / "whole.pt", weights_only=False),
    )
    for each in others:
        assert webgpu_torch.equal(each(x), made(x))


# Dynamic


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(1, 30), st.booleans(), st.sampled_from(("qint8", "float16")), st.integers(0, 99))
def test_dynamic(inner: int, outer: int, bias: bool, kind: str, seed: int) -> None:
    results, states = [], []
    weight, shift, x = numbers((outer, inner), seed), numbers((outer,), seed + 1), numbers((2, 3, inner), seed + 2)
    for t in LIBRARIES:
        layer = t.nn.Linear(inner, outer, bias)
        layer.load_state_dict({"weight": t.from_numpy(weight), **({"bias": t.from_numpy(shift)} if bias else {})})
        model = t.ao.quantization.quantize_dynamic(t.nn.Sequential(layer, t.nn.ReLU()), dtype=getattr(t, kind))
        results.append(model(t.from_numpy(x)).detach().numpy())
        states.append(model.state_dict())
        assert type(model[0]).__name__ == "Linear" and str(model[0]) == repr(model[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=2e-2 if kind == "float16" else 1e-5)
    if kind == "qint8":
        compare_states(states[0], states[1])


def test_dynamic_in_a_larger_network() -> None:
    """What is asked for by class, by name and by configuration is quantised, and nothing else."""
    for t in LIBRARIES:
        model = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Conv1d(4, 4, 1)))
        ao = t.ao.quantization
        found = [
            ao.quantize_dynamic(model), ao.quantize_dynamic(model, {"1.0"}), ao.quantize_dynamic(model, {"0": ao.per_channel_dynamic_qconfig}),
            ao.quantize_dynamic(model, {t.nn.Linear: ao.default_dynamic_qconfig}),
        ]  # fmt: skip
        told = [[name for name, each in one.named_modules() if "dynamic" in type(each).__module__] for one in found]
        assert told == [["0", "1.0"], ["1.0"], ["0"], ["0", "1.0"]]
        assert found[2][0].weight().qscheme() is t.per_channel_affine
        assert type(model[0]) is t.nn.Linear
        with pytest.raises(ValueError, match="Don't know how to quantize"):
            ao.quantize_dynamic(model, dtype=t.int8)
        table = ao.quantize_dynamic(t.nn.Sequential(t.nn.Embedding(9, 6)), dtype=t.quint8)
        assert table[0].weight().qscheme() is t.per_channel_affine_float_qparams


RECURRENT: dict[str, Callable[[Any], Any]] = {
    "LSTM": lambda t: t.nn.LSTM(5, 6, 2, bidirectional=True), "GRU": lambda t: t.nn.GRU(5, 6, batch_first=True),
    "LSTMCell": lambda t: t.nn.LSTMCell(5, 6), "GRUCell": lambda t: t.nn.GRUCell(5, 6), "RNNCell": lambda t: t.nn.RNNCell(5, 6, nonlinearity="relu"),
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    """Return the tensors of a result as arrays."""
    if isinstance(value, tuple):
        return [each for one in value for each in flat(one)]
    return [value.detach().numpy()] if hasattr(value, "detach") else []


@pytest.mark.parametrize("kind", ["qint8", "float16"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent(name: str, kind: str) -> None:
    torch.manual_seed(3)
    weights, results = RECURRENT[name](torch).state_dict(), []
    for t in LIBRARIES:
        layer = RECURRENT[name](t)
        layer.load_state_dict({key: t.from_numpy(value.numpy().copy()) for key, value in weights.items()})
        made = t.ao.quantization.quantize_dynamic(t.nn.Sequential(layer), dtype=getattr(t, kind))[0]
        x = t.from_numpy(numbers((4, 5) if "Cell" in name else (3, 4, 5), 2))
        found = flat(made(x))
        if "Cell" not in name:
            lengths = t.tensor([3, 1, 2])
            packed = t.nn.utils.rnn.pack_padded_sequence(
                x.transpose(0, 1)[:3], lengths, batch_first=True, enforce_sorted=False
            )
            packed_result, states = made(packed)
            found += [packed_result.data.detach().numpy(), *flat(states)]
        results.append((found, repr(made)))
    assert results[0][1] == results[1][1] and len(results[0][0]) == len(results[1][0])
    for one, other in zip(results[0][0], results[1][0], strict=True):
        # One step of the scale of a state, where a number is halfway between two.
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-3 if kind == "float16" else 2e-2)
        assert np.abs(one - other).mean() < 1e-3


def test_states_of_recurrent_networks() -> None:
    for name in ("LSTM", "GRUCell"):
        made = [
            webgpu_torch.ao.quantization.quantize_dynamic(webgpu_torch.nn.Sequential(RECURRENT[name](webgpu_torch)))
            for _ in range(2)
        ]
        file = io.BytesIO()
        webgpu_torch.save(made[0].state_dict(), file)
        file.seek(0)
        made[1].load_state_dict(webgpu_torch.load(file))
        x = webgpu_torch.randn(4, 5) if "Cell" in name else webgpu_torch.randn(3, 4, 5)
        for one, other in zip(flat(made[0](x)), flat(copy.deepcopy(made[1])(x)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_tables() -> None:
    weight, results = numbers((9, 6), 4), []
    for t in LIBRARIES:
        model = t.nn.Sequential(t.nn.Embedding(9, 6))
        model.load_state_dict({"0.weight": t.from_numpy(weight)})
        made = t.ao.quantization.quantize_dynamic(model, dtype=t.quint8)
        results.append((made(t.tensor([[0, 3], [8, 8]])).numpy(), made.state_dict()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-6)
    compare_states(results[0][1], results[1][1])


# Training


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", ["block", "linear", "conv3d"])
def test_training(name: str, version: int) -> None:
    """Losses of some steps, the state after them, and the network in integers follow PyTorch's."""
    told = []
    for t, model in zip(LIBRARIES, both(name, 5), strict=True):
        ao = t.ao.quantization
        model = ao.fuse_modules_qat(model.train(), NETWORKS[name].fused)
        model.qconfig = ao.get_default_qat_qconfig("fbgemm", version)
        prepared = ao.prepare_qat(model)
        optimizer = t.optim.SGD(prepared.parameters(), lr=0.02)
        losses = []
        for each in examples(name, t, 5, 4):
            result = prepared(each)
            loss = ((result - 0.3) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        state = {key: value.detach().numpy().copy() for key, value in prepared.state_dict().items()}
        made = ao.convert(prepared.eval())
        told.append(
            (
                losses,
                state,
                made(examples(name, t, 6, 1)[0]).detach().numpy(),
                scale_of(made),
                str(made).count("Quantized"),
            )
        )
    mine, theirs = told
    np.testing.assert_allclose(mine[0], theirs[0], rtol=2e-3)
    assert list(mine[1]) == list(theirs[1]) and mine[4] == theirs[4]
    for key, value in theirs[1].items():
        np.testing.assert_allclose(
            mine[1][key], value, rtol=2e-2, atol=2e-2 if "zero_point" not in key else 1, err_msg=key
        )
    assert np.abs(mine[2] - theirs[2]).max() <= 3 * theirs[3]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(("default_fake_quant", "default_weight_fake_quant", "default_per_channel_weight_fake_quant", "default_fused_act_fake_quant",
                        "default_fused_per_channel_wt_fake_quant", "default_histogram_fake_quant")), st.integers(0, 99))  # fmt: skip
def test_fake_quantize(name: str, seed: int) -> None:
    found = []
    for t in LIBRARIES:
        module = getattr(t.ao.quantization, name)()
        x = t.from_numpy(numbers((3, 4, 5), seed)).requires_grad_()
        module(x.detach() * 0.7)
        result = module(x)
        result.sum().backward()
        module.apply(t.ao.quantization.disable_observer)
        module.apply(t.ao.quantization.disable_fake_quant)
        assert t.equal(module(x), x)
        found.append((result.detach().numpy(), x.grad.numpy(), module.scale.numpy(), module.zero_point.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# What is refused, and what says so


def test_fusing() -> None:
    for t in LIBRARIES:
        model = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.BatchNorm1d(3), t.nn.Tanh()).eval()
        seen: list[str] = []
        model[0].register_forward_pre_hook(lambda *_: seen.append("before"))  # noqa: B023
        fused = t.ao.quantization.fuse_modules(model, ["0", "1"])
        x = t.ones(2, 3)
        assert np.allclose(fused(x).detach().numpy(), model(x).detach().numpy(), atol=1e-6)
        assert type(fused[1]) is t.nn.Identity and seen[:2] == ["before"] * 2
        with pytest.raises((AssertionError, NotImplementedError)):
            t.ao.quantization.fuse_modules(model, ["1", "2"])
        with pytest.raises(AssertionError, match="training mode"):
            t.ao.quantization.prepare_qat(model)


def test_configurations() -> None:
    for name in ("fbgemm", "x86", "qnnpack", "onednn"):
        for function in ("get_default_qconfig", "get_default_qat_qconfig"):
            texts = [str(getattr(t.ao.quantization, function)(name)) for t in LIBRARIES]
            assert texts[0].replace("webgpu_torch_tools.ao", "torch.ao") == texts[1]
    for t in LIBRARIES:
        ao = t.ao.quantization
        assert ao.qconfig_equals(ao.get_default_qconfig("fbgemm"), ao.get_default_qconfig("x86"))
        assert not ao.qconfig_equals(ao.get_default_qconfig("fbgemm"), ao.get_default_qconfig("qnnpack"))
        mapping = (
            ao.get_default_qconfig_mapping().set_module_name("a", None).set_module_name_regex("b.*", ao.default_qconfig)
        )
        assert str(mapping.from_dict(mapping.to_dict())) == str(mapping)
        with pytest.raises(AssertionError, match="not supported"):
            ao.get_default_qconfig("none")


def test_older_names() -> None:
    import webgpu_torch.nn.intrinsic
    import webgpu_torch.nn.qat
    import webgpu_torch.nn.quantized
    import webgpu_torch.quantization

    ao = webgpu_torch.ao
    assert webgpu_torch.quantization.quantize_dynamic is ao.quantization.quantize_dynamic
    assert webgpu_torch.nn.quantized.Linear is ao.nn.quantized.Linear and webgpu_torch.nn.qat.Conv2d is ao.nn.qat.Conv2d
    assert webgpu_torch.nn.intrinsic.ConvReLU2d is ao.nn.intrinsic.ConvReLU2d


def test_on_every_device(device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = quantized("linear", webgpu_torch, both("linear", 7)[0], 7, "fbgemm")
    x = examples("linear", webgpu_torch, 7, 1)[0]
    there = copy.deepcopy(made).to(device)(x.to(device))
    assert there.device.type == device
    assert (there.cpu() - made(x)).abs().max() <= 1.01 * scale_of(made)


def test_engines() -> None:
    for t in LIBRARIES:
        before = t.backends.quantized.engine
        assert {"fbgemm", "qnnpack", "x86", "onednn"} <= set(t.backends.quantized.supported_engines)
        for name in ("qnnpack", before):
            t.backends.quantized.engine = name
            assert t.backends.quantized.engine == name
        with pytest.raises(RuntimeError, match="unheard-of"):
            t.backends.quantized.engine = "unheard-of"
