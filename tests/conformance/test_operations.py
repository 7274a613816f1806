"""A quick part of PyTorch's database on every device: some operations of each family, their first samples."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from database import entries
from error_inputs import run_errors
from running import run_entry
from webgpu_torch import webgpu

QUICK = (
    "add", "sub", "mul", "div.floor_rounding", "pow", "exp", "log1p", "sigmoid", "erf", "where", "clamp", "maximum", "eq", "sum",
    "mean", "amax", "argmax", "var", "std_mean", "prod", "cumsum", "sort", "topk", "median", "mode", "quantile",
    "unique", "searchsorted", "histc", "matmul", "addmm", "baddbmm", "einsum", "tensordot", "kron", "linalg.inv", "linalg.qr",
    "linalg.svd", "linalg.cholesky", "linalg.det", "fft.fft", "fft.irfft", "stft", "gather", "scatter_add", "index_put",
    "index_reduce.amax", "take_along_dim", "masked_fill", "masked_select", "nonzero", "cat", "stack", "tensor_split", "reshape",
    "permute", "expand", "as_strided", "diagonal_scatter", "repeat", "roll", "rot90", "meshgrid.variadic_tensors", "tril",
    "nn.functional.gelu", "nn.functional.softplus", "nn.functional.conv2d", "nn.functional.conv_transpose2d",
    "nn.functional.max_pool2d", "nn.functional.avg_pool2d", "nn.functional.adaptive_avg_pool2d", "nn.functional.interpolate.bilinear",
    "nn.functional.grid_sample", "nn.functional.layer_norm", "nn.functional.group_norm", "nn.functional.batch_norm",
    "nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.mse_loss", "nn.functional.embedding",
    "nn.functional.unfold", "nn.functional.pad.reflect", "nn.functional.scaled_dot_product_attention", "special.i0e", "igamma",
)  # fmt: skip
DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
TABLE = entries()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("device", DEVICES)
def test_first_samples(name: str, device: str) -> None:
    outcome = run_entry(TABLE[name], device, "float32", limit=4 if device == "cpu" else 2)
    assert outcome["samples"] > 0
    assert not outcome["forward"], outcome["forward"]
    assert not outcome["gradient"], outcome["gradient"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ("add", "matmul", "nn.functional.conv2d", "nn.functional.max_pool2d", "sum"))
def test_error_inputs_raise(name: str) -> None:
    total, raised, _, others = run_errors(TABLE[name], "cpu")
    assert raised == total, others
