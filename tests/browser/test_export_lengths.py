"""Functions of inputs whose lengths differ from call to call, in Node and in Chromium."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import webgpu_torch as torch
from engines import Failed
from exported import close, computed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch import nn
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel

DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)
LENGTHS = st.lists(st.integers(1, 9), min_size=2, max_size=3, unique=True).map(sorted)


def drawn(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(1, 9, tuple(shape)).to(dtype)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=LENGTHS,
    sizes=st.lists(st.sampled_from([None, None, 1, 2, 3]), min_size=1, max_size=4).filter(lambda each: None in each),
    dtype=st.sampled_from(DTYPES),
    data=st.data(),
)
def test_inputs_are_filled_up_and_outputs_cut(engine, lengths, sizes, dtype, data):
    def shape(length: int) -> list[int]:
        return [length if each is None else each for each in sizes]

    dimensions = [at for at, each in enumerate(sizes) if each is None]

    def function(x, plain):
        # Of what was filled up only zeros may come.
        return {
            "same": x.clone(),
            "sum": x.sum(dimensions),
            "flipped": x.movedim(0, -1).contiguous(),
            "plain": plain * 2,
        }

    of_length = {each - len(sizes) if data.draw(st.booleans()) else each: lengths for each in dimensions}
    plain = torch.tensor([1.0, 2.0])
    example = drawn(shape(lengths[0]), dtype), plain
    # Pages have what they loaded of a folder before.
    folder = f"drawn{engine.count}"
    torch.web.export(function, example, engine.root / folder, dynamic_shapes={"x": of_length})
    asked = data.draw(st.lists(st.integers(1, lengths[-1]), min_size=1, max_size=4))
    inputs = [{"x": drawn(shape(each), dtype), "plain": plain} for each in asked]
    for one, found in zip(inputs, computed(engine, folder, *inputs), strict=True):
        for name, expected in function(**one).items():
            close(found[name], expected, 0.0)


@pytest.mark.slow
def test_a_language_model_of_any_length(engine):
    """A causal model needs no mask: every length gives what the model gives of it."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=31, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config).eval()

    def logits(tokens):
        return model(tokens).logits

    example = torch.zeros(1, 1, dtype=torch.int64)
    torch.web.export(logits, example, engine.root / "language", dynamic_shapes={"tokens": {1: (4, 8, 16)}})
    inputs = [{"tokens": torch.randint(0, 31, (1, length))} for length in (1, 3, 4, 5, 8, 13, 16)]
    for one, found in zip(inputs, computed(engine, "language", *inputs), strict=True):
        close(found["output"], logits(**one))
        assert found["output"]["shape"] == [1, one["tokens"].shape[1], 31]


def test_a_mask_is_filled_up_too(engine):
    """What averages over a length takes a mask, and its zeros keep out what was filled up."""
    table = nn.Embedding(7, 3)

    def average(tokens, mask):
        return (table(tokens) * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)

    lengths = {1: (2, 6)}
    example = torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 2)
    torch.web.export(average, example, engine.root / "mean", dynamic_shapes={"tokens": lengths, "mask": lengths})
    inputs = [{"tokens": torch.randint(0, 7, (2, each)), "mask": torch.ones(2, each)} for each in (1, 2, 5)]
    for one, found in zip(inputs, computed(engine, "mean", *inputs), strict=True):
        close(found["output"], average(**one))


@pytest.mark.parametrize(
    "inputs, message",
    [
        (
            "{x: [1, 2, 3], y: [1, 2, 3]}",
            "RangeError: input 'x' has shape [length,2] and a length of at most 4, got 3 elements",
        ),
        (
            "{x: new Float32Array(10), y: [1]}",
            "RangeError: input 'x' has shape [length,2] and a length of at most 4, got 10",
        ),
        ("{x: [[1, 2]], y: [1, 2]}", "RangeError: input 'y' has length 2, others have 1"),
        ("{x: [[1, 2]]}", "TypeError: input 'y' is missing"),
        ("{x: [[1, 2]], y: [1], z: 2}", "TypeError: there is no input 'z'; there are x, y"),
    ],
)
def test_the_runner_refuses(engine, inputs, message):
    torch.web.export(
        lambda x, y: x.sum(1) + y,
        (torch.ones(2, 2), torch.ones(2)),
        engine.root / "both",
        dynamic_shapes={"x": {0: [2, 4]}, "y": {0: [2, 4]}},
    )
    job = """
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}both/runner.js`);
  const model = await load(`${base}both`, { gpu });
  if (JSON.stringify([model.functions.run.lengths, Object.keys(model.functions)]) !== '[[2,4],["run"]]') throw new Error("names");
  return model.run(INPUTS);
};"""
    with pytest.raises(Failed) as caught:
        engine.run(job.replace("INPUTS", inputs))
    assert str(caught.value).startswith(message)
