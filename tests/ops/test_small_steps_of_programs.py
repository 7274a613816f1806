"""Small steps of whole programs beside PyTorch's: sizes in files, positions of few bits, texts of sparse tensors, no sequences."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as ours

TYPES = ("int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")


def answer(call: Any) -> Any:
    """Return numbers, or the class of the error."""
    try:
        return call().tolist()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", TYPES)
def test_types_of_positions(name: str) -> None:
    def answers(t: Any) -> list[Any]:
        x = t.arange(4.0) * 2
        rows, one = (t.tensor(each, dtype=getattr(t, name)) for each in ([1, 3], 2))
        array = numpy.array([1, 3], getattr(numpy, name))
        calls = [lambda: x[rows], lambda: t.stack([x, x])[:, rows], lambda: x.index_put((rows,), x[:2])]
        if "uint" not in name:
            calls += [lambda: x[one], lambda: x[array]]
        return [answer(each) for each in calls]

    assert answers(ours) == answers(torch)


def test_sizes_are_sizes_in_files() -> None:
    for writer, reader in ((torch, ours), (ours, torch), (ours, ours)):
        file = io.BytesIO()
        writer.save({"size": writer.ones(2, 3).shape, "none": writer.Size(()), "pair": (2, 3)}, file)
        file.seek(0)
        found = reader.load(file)
        assert found == {"size": (2, 3), "none": (), "pair": (2, 3)}
        assert [type(each) for each in found.values()] == [reader.Size, reader.Size, tuple]
        assert found["size"].numel() == 6


def test_texts_of_sparse_tensors_in_texts() -> None:
    def texts(t: Any) -> list[str]:
        return [f"{each}" for each in (t.eye(2).to_sparse(), t.eye(2).to_sparse_csr())]

    with warnings.catch_warnings():
        # PyTorch's compressed rows are in beta.
        warnings.simplefilter("ignore")
        assert texts(ours) == texts(torch)


@pytest.mark.parametrize("shape", [(0, 2, 4), (2, 0, 4), (0, 4)])
def test_attention_to_nothing(shape: tuple[int, ...]) -> None:
    def sizes(t: Any) -> Any:
        found, weights = t.nn.MultiheadAttention(4, 2)(*[t.ones(shape)] * 3)
        return tuple(found.shape), tuple(weights.shape)

    assert sizes(ours) == sizes(torch)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
def test_clipping_complex_gradients(norm_type: float) -> None:
    def clipped(t: Any) -> Any:
        parameters = [t.nn.Parameter(t.tensor([3 + 4j, 1 - 2j]) * scale) for scale in (1, 2)]
        parameters.append(t.nn.Parameter(t.ones(2)))
        for each in parameters:
            each.grad = each.detach() * 2
        norm = t.nn.utils.clip_grad_norm_(parameters, 1.5, norm_type)
        assert norm.dtype == t.float32
        return [norm.item(), *[number for each in parameters for number in each.grad.tolist()]]

    assert clipped(ours) == pytest.approx(clipped(torch), rel=1e-5)


def test_nothing_is_told_of_numbers_where_no_gradient_is_recorded() -> None:
    weight = ours.nn.Parameter(ours.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ours.no_grad():
            assert float(weight) == 1.0


def test_growth_of_a_scale_is_told() -> None:
    for t in (torch, ours):
        scaler = t.amp.GradScaler("cpu", growth_interval=3)
        weight = t.nn.Parameter(t.ones(2))
        optimizer = t.optim.SGD([weight], lr=0.1)
        found = []
        for _ in range(4):
            scaler.scale(weight.sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(scaler._get_growth_tracker())
        assert found == [1, 2, 0, 1]
