"""What goes to computed places is written by the kernel that computes it, with PyTorch's results and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
import webgpu_torch_core as ours
from hypothesis import HealthCheck, given, settings
from webgpu_torch_core.record.devices import canonical_device, engine_for


def long(x: Any) -> Any:
    """Return small whole numbers by so many steps that they are not computed twice."""
    for number in range(12):
        x = (x + number).clamp(-3 - number, 3) * (1 - 2 * (number % 2))
    return x


#: kernels of each form: their results are small whole numbers, exact in every type
PRODUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "short rows": lambda t, x: x - x.amax(-1, keepdim=True) + 1,
    "long rows": lambda t, x: long(x - x.amax(-1, keepdim=True)),
    "pointwise": lambda t, x: long(x),
    "contraction": lambda t, x: x @ t.ones(x.shape[-1], x.shape[-1], dtype=x.dtype, device=x.device).tril(),
}
KINDS = ("float32", "float16", "bfloat16", "int32")


def numbers(shape: tuple[int, ...], kind: str, seed: int) -> torch.Tensor:
    """Return small whole numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(getattr(torch, kind))


def copied(tensor: torch.Tensor, device: str) -> ours.Tensor:
    """Return a tensor of ours that exists before anything is recorded."""
    if tensor.dtype is torch.bfloat16:
        found = ours.tensor(tensor.float().tolist(), device=device).to(ours.bfloat16)
    else:
        found = ours.tensor(tensor.tolist(), dtype=getattr(ours, str(tensor.dtype).split(".")[1]), device=device)
    found.sum().item()
    return found


def agree(found: ours.Tensor, wanted: torch.Tensor) -> None:
    """Raise AssertionError where elements differ."""
    assert found.float().tolist() == wanted.float().tolist()


def kernels(run: Callable[[], object]) -> int:
    """Return how many kernels something takes on WebGPU."""
    engine = engine_for(canonical_device("webgpu"))
    # What ran before read each result by itself: the first kernel would run as it is called.
    engine.recorder.lone = 0
    before = engine.statistics["kernels"]
    run()
    return engine.statistics["kernels"] - before


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("form", PRODUCERS)
def test_parts_of_results_at_positions(device: str, form: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS if form != "contraction" else KINDS[:1]))
    batch, heads, tokens, dim = (data.draw(st.integers(1, most)) for most in (2, 4, 3, 10))
    dim = data.draw(st.sampled_from([dim, 8, 16]))
    capacity = tokens + data.draw(st.integers(0, 4))
    first = data.draw(st.integers(0, heads - 1))
    last = data.draw(st.integers(first + 1, heads))
    start = data.draw(st.integers(0, capacity - tokens))
    places = list(range(start, start + tokens)) if data.draw(st.booleans()) else data.draw(
        st.permutations(range(capacity))
    )[:tokens]  # fmt: skip
    turned, reads_old = data.draw(st.booleans()), data.draw(st.booleans())
    shape = (batch, tokens, heads, dim) if turned else (batch, heads, tokens, dim)
    x, buffer = numbers(shape, kind, 1), numbers((batch, last - first, capacity, dim), kind, 2)
    inputs = (x, buffer, torch.tensor(places))

    def run(t: Any, x: Any, buffer: Any, places: Any) -> tuple[Any, ...]:
        old = buffer * 2 if reads_old else None
        result = PRODUCERS[form](t, x.transpose(1, 2) if turned else x)
        view = buffer[:, :, 1:]
        buffer.index_copy_(2, places + 0, result[:, first:last])
        return result[:, :1] + 0, buffer, view, buffer.sum(-1) if old is None else old

    wanted = run(torch, *(each.clone() for each in inputs))
    found = run(ours, *(copied(each, device) for each in inputs))
    for mine, theirs in zip(found, wanted, strict=True):
        agree(mine, theirs)


@pytest.mark.parametrize("form", PRODUCERS)
@pytest.mark.parametrize("heads", [(0, 4), (1, 3)], ids=["all", "some"])
def test_one_kernel_computes_and_writes(form: str, heads: tuple[int, int]) -> None:
    x = copied(numbers((1, 4, 1, 16), "float32", 1), "webgpu")
    count = heads[1] - heads[0]
    buffer, places = copied(torch.zeros(1, count, 8, 16), "webgpu"), copied(torch.tensor([5]), "webgpu")

    def run() -> None:
        result = PRODUCERS[form](ours, x)
        buffer.index_copy_(2, places, result[:, heads[0] : heads[1]])
        kept.append(result)
        result.cumsum(-1).tolist()

    kept: list[ours.Tensor] = []
    # Sums, which read the results, too, are another kernel, and so is what makes a product's other side. What is short is computed
    # again instead of read.
    apart = form == "contraction" or (form == "short rows" and count < 4)
    assert kernels(run) == 2 + apart
    agree(buffer[:, :, 5], kept[0][:, heads[0] : heads[1], 0].cpu())


def test_positions_outside_are_refused(device: str) -> None:
    x, buffer = copied(numbers((1, 4, 2, 8), "float32", 1), device), copied(torch.zeros(1, 2, 4, 8), device)
    places = copied(torch.tensor([1, 2]), device)
    result = PRODUCERS["long rows"](ours, x)
    with pytest.raises((IndexError, RuntimeError), match="4"):
        buffer.index_copy_(2, places + 2, result[:, 2:])
        buffer.tolist()
