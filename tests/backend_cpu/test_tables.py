"""Functions of one number of 16 bits by a table: the same bits as step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.tables import tabulated
from webgpu_torch_core.record.devices import engine_for

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: x.relu(),
    "double": lambda x: x + x,
    "gelu": ours.nn.functional.gelu,
    "chain": lambda x: (x * 0.3 + 1).sigmoid() * x,
    "wide": lambda x: x.float().exp().log1p().sqrt(),
    "test": lambda x: (x.sinh() * x).cos() < 0.5,
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "other": lambda x: x.to(ours.bfloat16 if x.dtype is ours.float16 else ours.float16),
}
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
#: more than are worth a table
MANY = 5 << 16


def bits_of(tensor: Any) -> np.ndarray:
    """Return the bits of numbers; all that are no number are one."""
    missing = tensor.isnan().numpy() if tensor.dtype is not ours.bool else False
    kind = {1: ours.uint8, 2: ours.int16, 4: ours.int32}[tensor.element_size()]
    return np.where(missing, -1, tensor.view(kind).numpy().astype(np.int64))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@given(name=st.sampled_from(sorted(FUNCTIONS)), seed=st.integers(0, 99), turned=st.booleans(), step=st.integers(1, 2))
def test_many_numbers_have_the_bits_of_few(kind: str, name: str, seed: int, turned: bool, step: int) -> None:
    drawn = np.random.default_rng(seed).choice(EVERY, (512, MANY // 512 * step))
    function = FUNCTIONS[name]
    with ours.device("cpu"):
        x = ours.tensor(drawn).view(getattr(ours, kind))[:, ::step]
        x = x.T if turned else x
        whole = function(x)
        parts = ours.cat([function(each) for each in x.split(64)])
        assert np.array_equal(bits_of(whole), bits_of(parts))


def test_what_takes_few_steps_or_numbers_is_computed() -> None:
    with ours.device("cpu"):

        def looked_up(x: Any, function: Callable[[Any], Any]) -> bool:
            x._storage.value.realize()
            # What read each result before would run a kernel at once, without recording it.
            engine_for(x.device).recorder.lone = 0
            result = function(x)
            return tabulated(engine_for(result.device).kernels[-1]) is not None

        many, few = ours.zeros(MANY).half(), ours.zeros(1000).half()
        assert looked_up(many, ours.relu) and not looked_up(few, ours.relu)
        assert not looked_up(many, ours.abs) and not looked_up(many, lambda x: x.float())
        assert not looked_up(many, lambda x: x + few[0]) and not looked_up(many.float(), ours.exp)
