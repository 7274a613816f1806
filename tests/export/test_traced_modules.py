"""``torch.jit.trace``: traced modules compute what PyTorch's compute for other sizes, are saved and loaded, and refuse what they must."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning", "ignore:.*TorchScript", "ignore::torch.jit.TracerWarning"
)

LAYERS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda nn: nn.Linear(4, 4), "norm": lambda nn: nn.LayerNorm(4), "relu": lambda nn: nn.ReLU(),
    "batch": lambda nn: nn.BatchNorm1d(4), "dropout": lambda nn: nn.Dropout(0.3), "tanh": lambda nn: nn.Tanh(),
    "nested": lambda nn: nn.Sequential(nn.Linear(4, 4), nn.GELU()), "softmax": lambda nn: nn.Softmax(-1),
    "normalised": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "flat": lambda t, x: x.view(x.size(0), -1) * 2, "transposed": lambda t, x: x.reshape(x.shape[1], x.shape[0]).t(),
    "padded": lambda t, x: t.cat([x, t.zeros(x.shape[0], 1)], 1), "positions": lambda t, x: x + t.arange(x.shape[0]).unsqueeze(1),
    "mean": lambda t, x: x.sum(0) / x.shape[0], "pair": lambda t, x: (x + 1, x.sum(1)), "nothing": lambda t, x: x,
    "parts": lambda t, x: t.stack(x.split(2, 1)).transpose(0, 1), "expanded": lambda t, x: x.unsqueeze(1).expand(-1, 3, -1) * 1,
    "written": lambda t, x: x.clone().fill_(3).add_(x), "part written": lambda t, x: t.zeros_like(x).index_fill_(1, t.tensor([1]), 2.0),
    "masked": lambda t, x: x.masked_fill(x > 0, -1.0), "typed": lambda t, x: x.double().sum(-1).to(t.int32),
    "einsum": lambda t, x: t.einsum("ij,kj->ik", x, x[:1]), "pooled": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[None], 2)[0],
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
}  # fmt: skip


def weights(module: Any) -> dict[str, Any]:
    return {
        name: webgpu_torch.tensor(each.tolist(), dtype=getattr(webgpu_torch, str(each.dtype)[6:]))
        for name, each in module.items()
    }


def close(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            close(one, other)
        return
    assert str(ours.dtype) == str(theirs.dtype)
    torch.testing.assert_close(
        torch.tensor(ours.detach().tolist()), torch.tensor(theirs.detach().tolist()), rtol=1e-4, atol=1e-5
    )


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 9),
)
def test_modules(names: list[str], batch: int, training: bool, seed: int) -> None:
    torch.manual_seed(seed)
    theirs = torch.nn.Sequential(*(LAYERS[each](torch.nn) for each in names))
    ours = webgpu_torch.nn.Sequential(*(LAYERS[each](webgpu_torch.nn) for each in names))
    ours.load_state_dict(weights(theirs.state_dict()))
    training = training and "dropout" not in names and "batch" not in names
    example, other = torch.randn(3, 4), torch.randn(batch, 4)
    inputs = [webgpu_torch.tensor(each.tolist()) for each in (example, other)]
    traced = [torch.jit.trace(theirs.train(training), example), webgpu_torch.jit.trace(ours.train(training), inputs[0])]
    assert list(traced[1].state_dict()) == list(traced[0].state_dict())
    assert repr(traced[1]) == repr(traced[0])
    close(traced[1](inputs[1]), traced[0](other))
    # Parameters are the module's own, and gradients reach them.
    for result in (traced[0](other), traced[1](inputs[1])):
        if result.requires_grad:
            result.square().sum().backward()
    for one, another in zip(ours.parameters(), theirs.parameters(), strict=True):
        if another.grad is not None:
            torch.testing.assert_close(torch.tensor(one.grad.tolist()), another.grad, rtol=1e-3, atol=1e-4)
    loaded = webgpu_torch.jit.load(io.BytesIO(traced[1].save_to_buffer()))
    close(loaded(inputs[1]), traced[0](other))
    assert list(loaded.state_dict()) == list(traced[0].state_dict())
    assert (loaded.training, repr(loaded)) == (training, repr(traced[1]))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.integers(1, 7))
def test_functions(name: str, batch: int) -> None:
    example, other = torch.randn(3, 4), torch.randn(batch, 4)
    theirs = torch.jit.trace(lambda x: FUNCTIONS[name](torch, x), example)
    ours = webgpu_torch.jit.trace(lambda x: FUNCTIONS[name](webgpu_torch, x), webgpu_torch.tensor(example.tolist()))
    given_other = webgpu_torch.tensor(other.tolist())
    close(ours(given_other), theirs(other))
    file = io.BytesIO()
    webgpu_torch.jit.save(ours, file)
    loaded = webgpu_torch.jit.load(io.BytesIO(file.getvalue()))
    close(loaded(given_other), theirs(other))


def test_normalisation_goes_on_counting() -> None:
    module = webgpu_torch.nn.BatchNorm1d(2)
    before = module.running_mean.tolist()
    traced = webgpu_torch.jit.trace(module, webgpu_torch.randn(4, 2))
    assert module.running_mean.tolist() == before
    traced(webgpu_torch.ones(4, 2))
    assert traced.running_mean is module.running_mean
    torch.testing.assert_close(torch.tensor(module.running_mean.tolist()), torch.full((2,), 0.1))
    assert module.num_batches_tracked.item() == 1


def test_other_weights_are_used_and_saved() -> None:
    module = webgpu_torch.nn.Linear(3, 2)
    traced = webgpu_torch.jit.trace(module, webgpu_torch.ones(1, 3))
    twin = copy.deepcopy(traced)
    with webgpu_torch.no_grad():
        module.weight.zero_()
        module.bias.fill_(4.0)
    assert traced(webgpu_torch.ones(2, 3)).tolist() == [[4.0, 4.0]] * 2
    assert twin(webgpu_torch.ones(2, 3)).tolist() != [[4.0, 4.0]] * 2
    doubled = webgpu_torch.jit.load(io.BytesIO(traced.double().save_to_buffer()))
    assert doubled(webgpu_torch.ones(1, 3, dtype=webgpu_torch.float64)).tolist() == [[4.0, 4.0]]


def test_branches_are_the_examples() -> None:
    def choose(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else -x

    with pytest.warns(webgpu_torch.jit.TracerWarning, match="might not generalize"):
        traced = webgpu_torch.jit.trace(choose, webgpu_torch.ones(2))
    assert traced(-webgpu_torch.ones(3)).tolist() == [-2.0] * 3
    assert "mul" in traced.code and traced.name == "choose"


def test_programs_know_that_they_are_traced() -> None:
    seen = []
    webgpu_torch.jit.trace(lambda x: seen.append(webgpu_torch.jit.is_tracing()) or x + 1, webgpu_torch.ones(2))
    assert seen[0] is True
    assert not webgpu_torch.jit.is_tracing()


def test_extra_files_and_arguments_by_name(tmp_path: Any) -> None:
    class Sum(webgpu_torch.nn.Module):
        def forward(self, first: Any, second: Any) -> Any:
            return {"sum": first + 2 * second}

    ones = webgpu_torch.ones(2)
    traced = webgpu_torch.jit.trace(Sum(), example_kwarg_inputs={"first": ones, "second": ones}, strict=False)
    path = str(tmp_path / "sum.pt")
    traced.save(path, _extra_files={"note": "told"})
    extra = {"note": ""}
    loaded = webgpu_torch.jit.load(path, map_location="cpu", _extra_files=extra)
    assert extra == {"note": "told"}
    assert loaded(second=ones, first=ones)["sum"].tolist() == [3.0, 3.0]
    frozen = webgpu_torch.jit.optimize_for_inference(webgpu_torch.jit.freeze(loaded.eval()))
    assert frozen(first=ones, second=ones)["sum"].tolist() == [3.0, 3.0]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "text": lambda t: t.jit.trace(t.nn.ReLU(), ("x",)), "number": lambda t: t.jit.trace(3, t.ones(1)),
    "result": lambda t: t.jit.trace(lambda x: 3, t.ones(2)), "dictionary": lambda t: t.jit.trace(lambda x: {"a": x}, t.ones(2)),
    "no inputs": lambda t: t.jit.trace(t.nn.ReLU()),
    "no file": lambda t: t.jit.load("/nowhere/at/all"), "no archive": lambda t: t.jit.load(io.BytesIO(b"abc")),
    "frozen": lambda t: t.jit.freeze(t.jit.trace(t.nn.ReLU(), t.ones(2))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    errors = []
    for library in (webgpu_torch, torch):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            REFUSED[name](library)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    if name not in ("text", "number", "no archive"):
        assert str(errors[0])[:60] == str(errors[1])[:60]


def test_archives_of_pytorch_are_refused_by_name() -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), file)
    with pytest.raises(NotImplementedError, match=r"torch\.export\.save"):
        webgpu_torch.jit.load(io.BytesIO(file.getvalue()))
    with pytest.raises(TypeError, match="was not traced"):
        webgpu_torch.jit.save(webgpu_torch.jit.script(webgpu_torch.nn.Linear(2, 2)), io.BytesIO())
