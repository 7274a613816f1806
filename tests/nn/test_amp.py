"""Mixed precision: result types against PyTorch's, the factor's course, training."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import webgpu
from webgpu_torch_core.record.context import context

DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
CALLS = {
    "matmul": lambda lib, x, w: x @ w,
    "linear": lambda lib, x, w: lib.nn.functional.linear(x, w),
    "bmm": lambda lib, x, w: lib.bmm(x[None], w[None]),
    "addmm": lambda lib, x, w: lib.addmm(x, x, w),
    "einsum": lambda lib, x, w: lib.einsum("ij,jk->ik", x, w),
    "conv1d": lambda lib, x, w: lib.nn.functional.conv1d(x[None], w[:, :, None]),
    "attention": lambda lib, x, w: lib.nn.functional.scaled_dot_product_attention(x[None], w[None], w[None]),
    "mse_loss": lambda lib, x, w: lib.nn.functional.mse_loss(x @ w, x),
    "cat": lambda lib, x, w: lib.cat([x @ w, x]),
    "stack": lambda lib, x, w: lib.stack([x @ w, x]),
    "prod": lambda lib, x, w: (x @ w).prod(),
    "add": lambda lib, x, w: (x @ w) + (x @ w),
    "softmax": lambda lib, x, w: (x @ w).softmax(-1),
    "layer_norm": lambda lib, x, w: lib.nn.functional.layer_norm(x @ w, (4,)),
    "cross_entropy": lambda lib, x, w: lib.nn.functional.cross_entropy(x @ w, lib.tensor([0, 1, 2, 3])),
    "smoothed": lambda lib, x, w: lib.nn.functional.cross_entropy(x @ w, lib.tensor([0, 1, 2, 3]), label_smoothing=0.1),
    "l1_loss": lambda lib, x, w: lib.nn.functional.l1_loss(x @ w, x),
    "with logits": lambda lib, x, w: lib.nn.functional.binary_cross_entropy_with_logits(x @ w, x.sigmoid()),
    "soft_margin_loss": lambda lib, x, w: lib.nn.functional.soft_margin_loss(x @ w, x.sign()),
    "prelu": lambda lib, x, w: lib.nn.functional.prelu(x + w, lib.tensor([0.1])),
    "mv": lambda lib, x, w: w.mv(x[0]),
    "addmv": lambda lib, x, w: lib.addmv(x[0], w, x[1]),
    "chain_matmul": lambda lib, x, w: lib.linalg.multi_dot([x, w, x]),
    "interpolate": lambda lib, x, w: lib.nn.functional.interpolate((x @ w)[None, None], scale_factor=2),
    "max_pool3d": lambda lib, x, w: lib.nn.functional.max_pool3d((x @ w)[None, None, None], (1, 2, 2)),
    "cov": lambda lib, x, w: lib.cov(x @ w),
    "eigvalsh": lambda lib, x, w: lib.linalg.eigvalsh((x @ w) @ (x @ w).mT + 4 * lib.eye(4)),
    "fft": lambda lib, x, w: lib.fft.fft(x @ w).real,
    "lstm": lambda lib, x, w: _recurrent(lib.nn.LSTM, x @ w),
    "gru": lambda lib, x, w: _recurrent(lib.nn.GRU, x @ w),
} | {
    f"{mode} {pairs}d": lambda lib, x, w, mode=mode, pairs=pairs: lib.nn.functional.pad(
        (x @ w).reshape(1, 1, *(4, 4) if pairs == 2 else (2,) * 2 + (4,) if pairs == 3 else (16,)), (1, 1) * pairs, mode
    )
    for mode in ("constant", "reflect", "replicate", "circular")
    for pairs in (1, 2, 3)
}


def _recurrent(kind: Any, x: Any) -> Any:
    module = kind(4, 4)
    for number, each in enumerate(module.parameters()):
        each.data.fill_(0.1 * (number + 1))
    return module(x)[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_types_are_pytorchs(name: str, dtype: str) -> None:
    kinds, values = [], []
    data = torch.randn(4, 4).tolist()
    for library in (torch, ours):
        x, w = library.tensor(data), library.tensor(data, requires_grad=True)
        with library.autocast("cpu", dtype=getattr(library, dtype)):
            result = CALLS[name](library, x, w)
        kinds.append(str(result.dtype))
        values.append(torch.tensor(result.float().tolist()))
        result.float().sum().backward()
        assert str(w.grad.dtype) == "torch.float32"
    assert kinds[0] == kinds[1]
    torch.testing.assert_close(values[1], values[0], rtol=2e-2, atol=2e-2)


def test_regions_nest_decorate_and_end() -> None:
    x = ours.ones(2, 2)
    with ours.autocast("cpu", dtype=ours.bfloat16):
        assert ours.is_autocast_enabled("cpu")
        with ours.autocast("cpu", enabled=False):
            assert (x @ x).dtype is ours.float32
        assert (x @ x).dtype is ours.bfloat16
    assert not ours.is_autocast_enabled("cpu")
    assert (x @ x).dtype is ours.float32
    assert ours.autocast("cpu")(lambda: x @ x)().dtype is ours.bfloat16


def test_regions_are_of_one_kind_of_device() -> None:
    x = ours.ones(2, 2)
    with ours.autocast("webgpu"):
        assert (x @ x).dtype is ours.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        ours.autocast("toaster")


def test_weights_are_converted_once() -> None:
    weight, x = ours.ones(2, 2, requires_grad=True), ours.ones(2, 2)
    with ours.autocast("cpu"):
        first, second = x @ weight, x @ weight
        kept = [each for each in context.casts.values() if each[0] is weight]
    assert len(kept) == 1
    (first.float() + second.float()).sum().backward()
    assert weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


@pytest.mark.skipif("webgpu" not in DEVICES, reason="no WebGPU device")
def test_types_on_the_gpu() -> None:
    x = ours.ones(2, 2, device="webgpu")
    with ours.autocast("webgpu"):
        y = x @ x
        assert y.dtype is ours.float16
        assert y.exp().dtype is ours.float32
        assert y.softmax(-1).dtype is ours.float32
        assert (y + y).dtype is ours.float16


def course(library: Any, overflows: list[bool]) -> list[tuple[float, float]]:
    parameter = library.ones(2, requires_grad=True)
    optimizer = library.optim.SGD([parameter], lr=0.125)
    scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    found = []
    for overflow in overflows:
        optimizer.zero_grad()
        scaler.scale((parameter * (float("inf") if overflow else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), parameter.detach().tolist()[0]))
    return found


def test_the_factor_follows_pytorchs() -> None:
    overflows = [False, False, True, False, False, False, False, True, True, False]
    assert course(ours, overflows) == course(torch, overflows)


def test_scaler_state_and_errors() -> None:
    scaler, other = ours.amp.GradScaler("cpu", init_scale=4.0), ours.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0
    parameter = ours.ones(1, requires_grad=True)
    optimizer = ours.optim.SGD([parameter], lr=0.1)
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    assert parameter.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="growth factor"):
        ours.amp.GradScaler("cpu", growth_factor=1.0)
    assert ours.amp.GradScaler("cpu", enabled=False).state_dict() == {}


@pytest.mark.parametrize("device", DEVICES)
def test_training_in_a_region(device: str) -> None:
    ours.manual_seed(0)
    model = ours.nn.Sequential(ours.nn.Linear(8, 16), ours.nn.GELU(), ours.nn.Linear(16, 1)).to(device)
    optimizer = ours.optim.AdamW(model.parameters(), lr=0.02)
    scaler = ours.amp.GradScaler(device, init_scale=256.0)
    x = ours.randn(32, 8).to(device)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with ours.autocast(device):
            loss = ours.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert loss.dtype is ours.float32
    assert all(each.dtype is ours.float32 for each in model.parameters())
    assert losses[-1] < losses[0] / 4


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["scale", "unscale", "step", "update", "set", "overflow", "look", "copy"]), max_size=12),
    st.sampled_from([2.0**16, 1000.1, 3.0]),
)
def test_scalers_as_programs_look_into_them(calls: list[str], first: float) -> None:
    def told(library: Any) -> list[Any]:
        scaler: Any = library.amp.GradScaler("cpu", init_scale=first, growth_interval=2)
        parameter = library.ones(2).requires_grad_()
        optimizer = library.optim.SGD([parameter], lr=0.5)
        steps = {
            "scale": lambda: scaler.scale(parameter.sum()).backward(),
            "unscale": lambda: scaler.unscale_(optimizer),
            "step": lambda: scaler.step(optimizer),
            "update": lambda: scaler.update(),
            "set": lambda: scaler.update(library.tensor(4.0)),
            "overflow": lambda: setattr(parameter, "grad", library.tensor([math.inf, 1.0])),
            "look": lambda: [(each.tolist(), str(each.dtype)) for each in (scaler._scale, scaler._growth_tracker) if each is not None],
            "copy": lambda: pickle.loads(pickle.dumps(scaler))._scale,
        }  # fmt: skip
        found: list[Any] = []
        for each in calls:
            try:
                found.append(steps[each]())
            except (RuntimeError, AssertionError) as error:
                found.append((type(error).__name__, str(error)))
            state = scaler._per_optimizer_states.get(id(optimizer), {"stage": None, "found_inf_per_device": {}})
            found.append((str(state["stage"]), [one.item() for one in state["found_inf_per_device"].values()]))
        return [*found, scaler.state_dict(), parameter.tolist()]

    assert told(ours) == told(torch)
