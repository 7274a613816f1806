"""Clipping, parameters as a vector, data sets and loaders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, to_ours, to_torch
from webgpu_torch_nn.utils import data


def pairs(device: str = "cpu") -> tuple[list[Any], list[torch.Tensor]]:
    torch.manual_seed(0)
    theirs = [torch.randn(3, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    mine = [to_ours(t, device).requires_grad_() for t in theirs]
    for a, b in zip(mine, theirs, strict=True):
        (a * a * 3).sum().backward()
        (b * b * 3).sum().backward()
    return mine, theirs


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clip_grad_norm(norm_type: float, device: str) -> None:
    mine, theirs = pairs(device)
    close(
        nn.utils.clip_grad_norm_(mine, 0.7, norm_type),
        torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type),
        rtol=1e-5,
    )
    for a, b in zip(mine, theirs, strict=True):
        close(a.grad, b.grad)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize(
    "kinds", [["float16"], ["bfloat16", "bfloat16"], ["float16", "float32"], ["float32", "float64"]]
)
def test_clipping_gradients_of_other_types(kinds: list[str], norm_type: float) -> None:
    found = []
    for library in (torch, ours):
        grads = [library.full((4,), 400.0, dtype=getattr(library, kind)) for kind in kinds]
        parameters = [library.zeros_like(each).requires_grad_() for each in grads]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        norm = (torch.nn if library is torch else nn).utils.clip_grad_norm_(parameters, 1.5, norm_type)
        found.append((str(norm.dtype), norm.item(), [each.tolist() for each in grads]))
    assert found[1][0] == found[0][0]
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-6)
    for one, other in zip(found[1][2], found[0][2], strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_clip_grad_value_and_errors() -> None:
    mine, theirs = pairs()
    nn.utils.clip_grad_value_(mine, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    for a, b in zip(mine, theirs, strict=True):
        close(a.grad, b.grad)
    mine[0].grad = ours.full((3, 4), float("nan"))
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(mine, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector() -> None:
    mine, theirs = pairs()
    vector = nn.utils.parameters_to_vector(mine)
    close(vector, torch.nn.utils.parameters_to_vector(theirs))
    nn.utils.vector_to_parameters(vector.detach() * 2, mine)
    close(mine[1], theirs[1] * 2)


@pytest.mark.parametrize("options", [{"shuffle": False}, {"shuffle": True}, {"shuffle": True, "drop_last": True}])
def test_loader_visits_in_the_order_of_torch(options: dict) -> None:
    batches = []
    for library, module in ((ours, data), (torch, torch.utils.data)):
        library.manual_seed(4)
        dataset = module.TensorDataset(library.arange(11), library.arange(11) * 2)
        loader = module.DataLoader(dataset, batch_size=4, **options)
        assert len(loader) == (2 if options.get("drop_last") else 3)
        batches.append([[part.tolist() for part in batch] for _ in range(2) for batch in loader])
    assert batches[0] == batches[1]


def test_splits_and_samplers_draw_as_torch() -> None:
    results = []
    for library, module in ((ours, data), (torch, torch.utils.data)):
        generator = library.Generator()
        generator.manual_seed(9)
        parts = module.random_split(range(10), [0.5, 0.25, 0.25], generator=generator)
        drawn = [list(part.indices) for part in parts]
        drawn.append(list(module.RandomSampler(range(10), num_samples=13, generator=generator)))
        drawn.append(list(module.RandomSampler(range(10), replacement=True, num_samples=35, generator=generator)))
        drawn.append(list(module.SubsetRandomSampler([4, 5, 6], generator=generator)))
        results.append(drawn)
    assert results[0] == results[1]


def test_collation() -> None:
    samples = [{"x": ours.ones(2), "y": (1, "a")}, {"x": ours.zeros(2), "y": (2, "b")}]
    batch = data.default_collate(samples)
    assert batch["x"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batch["y"][0].tolist() == [1, 2]
    assert list(batch["y"][1]) == ["a", "b"]
    assert to_torch(data.default_collate([0.5, 1.5])).dtype == torch.float64
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        data.default_collate([object()])


def test_iterable_data_set_and_loader_errors() -> None:
    class Stream(data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(5))

    assert [batch.tolist() for batch in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert len(data.ConcatDataset([data.TensorDataset(ours.ones(2)), data.TensorDataset(ours.ones(3))])) == 5
    with pytest.raises(ValueError, match="sampler option is mutually exclusive with shuffle"):
        data.DataLoader(range(3), sampler=range(3), shuffle=True)
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(range(3), [1, 1])
