"""Models in ONNX's format: what onnxruntime computes with them is what the module computes."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import nn
from webgpu_torch._ops.implementations import operation
from webgpu_torch.nn import functional
from webgpu_torch.utils._pytree import tree_leaves
from webgpu_torch_tools.onnx_export.writing import CONVERTERS


def _near(found, expected):
    expected = [each.detach() for each in tree_leaves(expected) if isinstance(each, torch.Tensor)]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert ours.shape == theirs.shape and ours.dtype is theirs.dtype
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)


class Program(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


#: of float [2, 4, 6] between .1 and 2, a second one, and whole numbers of the same shape
PROGRAMS = {
    "arithmetic": lambda x, y, n: (x + 2 * y - 3 / x, 1 - y, x // y, x % y, (x - 1) ** 2, -x, x**y, torch.add(x, y, alpha=2)),
    "whole numbers": lambda x, y, n: (n + 1, n * 2 - n, (n - 3) // 2, (n - 3) % 3, n / 2, n + x, n.float(), (n - 3).div(2, rounding_mode="trunc")),
    "comparisons": lambda x, y, n: (x > y, x <= 1, n == 2, n != 2, (x > y) & (n > 1), (x > 1) | (y > 1), ~(x > y), x.isnan()),
    "functions": lambda x, y, n: (x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.sin(), x.cos(), x.tanh(), x.erf(), x.sigmoid(), x.abs()),
    "more functions": lambda x, y, n: (x.log1p(), x.expm1(), x.log2(), x.exp2(), x.erfc(), x.floor(), x.round(), x.trunc(), x.frac(), x.sign()),
    "choices": lambda x, y, n: (torch.where(x > y, x, y), x.masked_fill(y > 1, 0.0), x.clamp(0.5, 1.0), x.clamp_min(1), torch.maximum(x, y), torch.lerp(x, y, 0.3)),
    "activations": lambda x, y, n: [f(x - 1) for f in (
        functional.relu, functional.gelu, functional.silu, functional.elu, functional.selu, functional.mish, functional.softplus,
        functional.hardswish, functional.hardsigmoid, functional.leaky_relu, functional.relu6, functional.logsigmoid,
        functional.softsign, functional.tanhshrink, functional.softshrink, functional.hardshrink, functional.celu,
    )] + [functional.glu(x, 1), functional.softmin(x, 1), functional.log_softmax(x, 2)],
    "shapes": lambda x, y, n: (
        x.view(8, 6), x.reshape(-1, 3), x.flatten(1), x.permute(2, 0, 1), x.transpose(0, 2), x.unsqueeze(1), x[:, None, 0],
        x.unflatten(1, (2, 2)), x.expand(3, 2, 4, 6), x.repeat(1, 2, 1), x.movedim(0, 2), x.mT, x.view_as(y), x.squeeze(),
    ),
    "parts": lambda x, y, n: (
        x[0], x[..., 1:5:2], x[:, -1], x.narrow(1, 1, 2), x.split(4, 2), x.chunk(3, 2), x.unbind(1), x.flip(1), x.roll(2, 2),
        x.select(2, 3), x.tril(), x.triu(1), functional.pad(x, (1, 2)), functional.pad(x, (1, 1), mode="reflect"),
    ),
    "joined": lambda x, y, n: (torch.cat([x, y, n], 1), torch.stack([x, y]), torch.meshgrid(x[0, 0], y[0, :, 0], indexing="ij"), x.repeat_interleave(2, 1)),
    "look-ups": lambda x, y, n: (
        x.gather(2, n), x.index_select(1, n[0, 0, :3]), x[:, n[0, 0]], x[n[0, 0, :2] % 2, n[0, 1, :2]],
        functional.embedding(n, y[0]), functional.one_hot(n, 5), torch.zeros_like(x).scatter(2, n, y), x.topk(2, 2)[0], x.sort(2)[0],
    ),
    "reductions": lambda x, y, n: (
        x.sum(), x.sum((0, 2)), x.mean(1, keepdim=True), x.amax(2), x.amin((0, 1)), x.prod(1), x.max(), x.max(1), x.argmax(2), x.min(1)[0],
        x.var(1), x.std((1, 2)), x.norm(dim=1), x.logsumexp(2), x.cumsum(1), (x > 1).any(2), (x > 1).all(), n.sum(1), n.float().mean(),
        torch.linalg.vector_norm(x, 1), torch.var_mean(x, 1),
    ),
    "products": lambda x, y, n: (x @ y.mT, x.reshape(8, 6) @ y[0].T, torch.einsum("nij,nkj->nik", x, y), torch.baddbmm(x, x @ x.mT, y), torch.addmm(x[0], x[0] @ x[0].T, y[0])),
    "made": lambda x, y, n: (x + torch.arange(6), torch.zeros(4, 6) + x, x * torch.full((6,), 2.0), torch.ones_like(n), x + torch.linspace(0, 1, 6), x.new_ones(6) * x),
    "windows": lambda x, y, n: (
        functional.max_pool1d(x, 2), functional.avg_pool1d(x, 3, 2, 1), functional.adaptive_avg_pool1d(x, 4), functional.adaptive_avg_pool1d(x, 1),
        functional.conv1d(x, y[:, :, :3], padding=1), functional.conv1d(x, y[:, :2, :3], groups=2), functional.conv_transpose1d(x, y.permute(1, 0, 2)[:, :, :2], stride=2),
        functional.interpolate(x, scale_factor=2.0), functional.interpolate(x, size=9, mode="linear"), functional.interpolate(x[None], size=(8, 9), mode="bilinear"),
    ),
    "normalised": lambda x, y, n: (
        functional.layer_norm(x, (6,), y[0, 0], y[0, 1]), functional.group_norm(x, 2, y[0, :, 0]), functional.instance_norm(x),
        functional.normalize(x, dim=1), functional.rms_norm(x, (6,)), functional.batch_norm(x, y[0, :, 0], y[0, :, 1], eps=0.01),
    ),
    "attention": lambda x, y, n: (
        functional.scaled_dot_product_attention(x, y, y), functional.scaled_dot_product_attention(x, y, x, is_causal=True),
        functional.scaled_dot_product_attention(x, y, x, attn_mask=torch.ones(4, 4, dtype=torch.bool).tril()),
    ),
    "in place": lambda x, y, n: (lambda z: z.mul_(2).add_(y).relu_())(x * 1),
    "types": lambda x, y, n: (x.double() * 2, x.half().float(), n.int(), n.bool(), x.to(torch.int64), x.double() + n),
}  # fmt: skip


def _inputs(seed, count=2):
    generator = torch.Generator().manual_seed(seed)
    floats = [torch.rand(count, 4, 6, generator=generator) * 1.9 + 0.1 for _ in range(2)]
    return (*floats, torch.randint(0, 4, (count, 4, 6), generator=generator))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    module, inputs = Program(PROGRAMS[name]), _inputs(len(name))
    _near(torch.onnx.export(module, inputs)(*inputs), module(*inputs))


#: layers of [n, 4, 6]
LAYERS = {
    "linear": lambda: nn.Linear(6, 6), "conv": lambda: nn.Conv1d(4, 4, 3, padding="same"), "norm": lambda: nn.LayerNorm(6),
    "batch": lambda: nn.BatchNorm1d(4), "lstm": lambda: Program(First(nn.LSTM(6, 3, 2, batch_first=True, bidirectional=True))),
    "gru": lambda: Program(First(nn.GRU(6, 6))), "rnn": lambda: Program(First(nn.RNN(6, 6, nonlinearity="relu", bias=False))),
    "attention": lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), "prelu": lambda: nn.PReLU(4),
    "dropout": lambda: nn.Dropout(), "pool": lambda: nn.MaxPool1d(3, 1, 1), "gelu": lambda: nn.GELU("tanh"),
}  # fmt: skip


class First(nn.Module):
    """The first result of a module."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)[0]


@given(
    names=st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4),
    count=st.integers(1, 5),
    seed=st.integers(0, 99),
)
@settings(max_examples=6, deadline=None)
def test_layers_of_changing_batches(names, count, seed):
    torch.manual_seed(seed)
    module = nn.Sequential(*(LAYERS[each]() for each in names)).eval()
    changing = not {"gru", "rnn"} & set(names)
    shapes = {"input": {0: torch.export.Dim("batch")}} if changing else None
    program = torch.onnx.export(
        module, _inputs(seed)[:1], input_names=["input"], output_names=["output"], dynamic_shapes=shapes
    )
    graph = program.model_proto.graph
    assert [each.name for each in graph.input] == ["input"] and [each.name for each in graph.output] == ["output"]
    x = _inputs(seed, count if changing else 2)[0]
    _near(program(x), module(x))


def test_files(tmp_path):
    module, x = nn.Linear(6, 3), _inputs(0)[0]
    torch.onnx.export(module, x, tmp_path / "model.onnx", dynamic_axes={"input": {0: "rows"}}, input_names=["input"])
    found = onnx.load(tmp_path / "model.onnx")
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert found.opset_import[0].version == 20
    assert {each.name for each in found.graph.initializer} >= {"weight", "bias"}
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, opset_version=18)
    assert onnx.load_from_string(file.getvalue()).opset_import[0].version == 18


def test_what_is_not_written_is_refused():
    with pytest.raises(torch.onnx.UnsupportedOperatorError, match="lgamma"):
        torch.onnx.export(Program(torch.lgamma), (torch.ones(2),))
    with pytest.raises(torch.onnx.UnsupportedOperatorError, match="eval"):
        torch.onnx.export(nn.Dropout(), (torch.ones(2),))
    with pytest.raises(torch.onnx.UnsupportedOperatorError, match="view"):
        torch.onnx.export(Program(lambda x: (lambda z: (z[0].mul_(2), z)[1])(x * 1)), (torch.ones(2, 2),))


def test_half_and_bfloat16_weights():
    for dtype in (torch.float16, torch.bfloat16):
        module = nn.Linear(3, 2).to(dtype)
        proto = torch.onnx.export(module, (torch.ones(1, 3, dtype=dtype),)).model_proto
        weight = next(each for each in proto.graph.initializer if each.name == "weight")
        kept = onnx.numpy_helper.to_array(weight).astype(np.float32)
        assert kept.tolist() == module.weight.float().tolist()


def test_every_operation_has_a_name_of_pytorch():
    # Counterparts of what is written in place, and of functions that PyTorch writes in Python.
    known = {"copy", "zero", "interpolate", "normalize", "local_response_norm", "softsign", "tanhshrink", "softmin"}
    assert [each for each in CONVERTERS if each not in known and operation(each) is None] == []
