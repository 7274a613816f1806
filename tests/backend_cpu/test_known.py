"""What depends on coordinates alone is computed with the kernel, not in its calls, which may not change it."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.runtime import rows, shared

PROGRAMS = {
    "positions": lambda t, x: x + t.arange(x.shape[-1]),
    "pooling": lambda t, x: t.nn.functional.max_pool2d(x[None], 3, 2, 1)[0],
    "triangle": lambda t, x: x.tril() - x.triu(1),
    "padding": lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "rolled": lambda t, x: x.roll((1, 2), (1, 2)),
    "resized": lambda t, x: t.nn.functional.interpolate(x[None], size=(7, 5), mode="bilinear")[0],
    "identity": lambda t, x: t.eye(x.shape[-1]) * x.shape[0],
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.tuples(st.integers(1, 3), st.integers(3, 40), st.integers(3, 40)))
def test_drawn_programs_run_again(name: str, shape: tuple[int, ...]) -> None:
    program, generator = PROGRAMS[name], torch.Generator().manual_seed(0)
    with ours.device("cpu"):
        for _ in range(3):
            x = torch.randn(shape, generator=generator)
            found, wanted = program(ours, ours.from_numpy(x.numpy())), program(torch, x)
            torch.testing.assert_close(torch.from_numpy(found.numpy()), wanted)
            # Nobody sees what the kernel keeps.
            found.zero_()


def test_what_is_kept_cannot_be_written_to() -> None:
    numpy = pytest.importorskip("numpy")
    kept = shared(numpy.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        kept += 1
    assert shared(numpy.int32(3)) == 3


def test_a_single_row_of_all_axes_is_a_copy() -> None:
    numpy = pytest.importorskip("numpy")
    source = numpy.arange(24.0).reshape(6, 4)
    found = rows(source, numpy.int32(2), (0,), 1)
    found += 1
    assert source[2, 0] == 8 and found[0] == 9
