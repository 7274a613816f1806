"""Chains of views, writes through them and subscripts do on this library what they do on PyTorch."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ops_oracle import to_ours
from view_programs import KINDS, Program

QUICK, ALL = 400, 10_000
STEPS = 5
#: what a device without float64 stores
NARROW = tuple(each for each in KINDS if each != "float64")
SEEDS = st.integers(0, 2**40)


def cases(count: int) -> settings:
    """Return the settings of a test over so many programs: always the same ones, and none of them shrunk."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def run_program(seed: int, place: str, kinds: tuple[str, ...] = KINDS, gradients: bool = False) -> int:
    """Run the program of a seed; return how many steps the oracle refused."""
    program = Program(seed, place, kinds)
    if gradients:
        program.track()
    program.run(STEPS)
    if gradients:
        program.compare_gradients()
    return program.refused


@cases(QUICK)
@given(SEEDS)
def test_programs(seed: int) -> None:
    run_program(seed, "cpu")


@pytest.mark.slow
@cases(ALL)
@given(SEEDS)
def test_all_programs(seed: int) -> None:
    run_program(seed, "cpu")


@cases(80)
@given(SEEDS)
def test_gradients(seed: int) -> None:
    run_program(seed, "cpu", ("float32",), gradients=True)


@pytest.mark.slow
@cases(3000)
@given(SEEDS)
def test_all_gradients(seed: int) -> None:
    run_program(seed, "cpu", ("float32",), gradients=True)


def test_programs_on_devices(device: str) -> None:
    for seed in range(60 if device != "cpu" else 0):
        run_program(seed, device, NARROW)
        run_program(seed, device, ("float32",), gradients=seed % 4 == 0)


@pytest.mark.slow
def test_more_programs_on_devices(device: str) -> None:
    for seed in range(1000 if device != "cpu" else 0):
        run_program(seed, device, NARROW)
        run_program(seed, device, ("float32",), gradients=seed % 4 == 0)


def test_steps_that_pytorch_refuses_are_a_part_of_the_programs() -> None:
    refused = sum(run_program(seed, "cpu") for seed in range(60))
    # Refusals are tested, but they are not what is tested.
    assert 60 * STEPS // 100 < refused < 60 * STEPS // 4


def test_types_of_one_memory(device: str) -> None:
    """Views as other types share their memory, whichever is written."""
    x = ours.arange(4, dtype=ours.float32, device=device)
    words, bytes_ = x.view(ours.int32), x.view(ours.int32).view(ours.uint8)
    words[1] = 0x40A00000
    assert x.tolist() == [0.0, 5.0, 2.0, 3.0]
    x.mul_(2)
    assert words.tolist() == torch.tensor([0.0, 10.0, 4.0, 6.0]).view(torch.int32).tolist()
    del words
    bytes_[:4] = ours.tensor([0, 0, 128, 63], dtype=ours.uint8, device=device)
    assert x.tolist() == [1.0, 10.0, 4.0, 6.0] and (x + 1).tolist() == [2.0, 11.0, 5.0, 7.0]
    assert x.view(ours.float16).shape == (8,) and x[:2].view(ours.int16).stride() == (1,)


def test_positions_in_dimensions_of_one_element(device: str) -> None:
    for shape in ((4, 1), (1, 4), (2, 1, 2), (1, 1), (4, 1, 1)):
        mask = torch.arange(torch.Size(shape).numel()).reshape(shape) % 2 == 0
        assert to_ours(mask, device).nonzero().tolist() == mask.nonzero().tolist()


OUTSIDE = {
    "subscript": lambda t, x, i: x[i],
    "subscript of two": lambda t, x, i: x[:, i],
    "assignment": lambda t, x, i: x.__setitem__(i, 1.0),
    "index_select": lambda t, x, i: x.index_select(1, i),
    "gather": lambda t, x, i: x.gather(1, i[None]),
    "scatter": lambda t, x, i: x.scatter(1, i[None], 9.0),
    "scatter_add": lambda t, x, i: x.scatter_add(1, i[None], x),
    "index_add": lambda t, x, i: x.index_add(1, i, t.ones(2, 1)),
    "index_copy": lambda t, x, i: x.index_copy(1, i, t.ones(2, 1)),
    "take": lambda t, x, i: x.take(i),
    "embedding": lambda t, x, i: t.nn.functional.embedding(i, x),
}


@pytest.mark.parametrize("place", [6, -7])
@pytest.mark.parametrize("name", OUTSIDE)
def test_positions_outside(name: str, place: int) -> None:
    """Index tensors whose numbers lie in the host's memory are checked, with PyTorch's words."""
    texts = []
    for library, make in ((torch, lambda each: each.clone()), (ours, lambda each: to_ours(each, "cpu"))):
        index = make(torch.tensor([place]))
        with pytest.raises((IndexError, RuntimeError)) as caught:
            OUTSIDE[name](library, make(torch.arange(6.0).reshape(2, 3)), index)
        texts.append((type(caught.value), str(caught.value)))
    # Of index_add PyTorch raises an IndexError for other layouts of the memory: ours is both.
    assert issubclass(texts[1][0], texts[0][0])
    assert texts[0][1] == texts[1][1]
