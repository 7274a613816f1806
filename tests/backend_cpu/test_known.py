"""What depends on coordinates alone is computed with the kernel, not in its calls, which may not change it."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.runtime import rows, shared
from webgpu_torch_core.operations.indexing.parts import consecutive_rows

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


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(3, 7), st.integers(3, 7)), st.integers(1, 8), st.integers(0, 2), st.integers(1, 2),
    st.sampled_from(("float32", "float64")),
)  # fmt: skip
def test_drawn_gradients_of_large_windows(
    window: tuple[int, int], stride: int, padding: int, dilation: int, kind: str
) -> None:
    numbers = torch.randint(-4, 5, (2, 3, 17, 15), generator=torch.Generator().manual_seed(0)).to(getattr(torch, kind))
    padding = min(padding, min(window) // 2)
    x = numbers.clone().requires_grad_()
    wanted = torch.nn.functional.max_pool2d(x, window, stride, padding, dilation)
    weights = torch.randn(wanted.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
    wanted.backward(weights)
    with ours.device("cpu"):
        y = ours.tensor(numbers.tolist(), dtype=getattr(ours, kind), requires_grad=True)
        found = ours.nn.functional.max_pool2d(y, window, stride, padding, dilation)
        found.backward(ours.tensor(weights.tolist(), dtype=y.dtype))
        torch.testing.assert_close(torch.from_numpy(found.detach().numpy()), wanted.detach())
        torch.testing.assert_close(torch.from_numpy(y.grad.numpy()), x.grad)


@settings(max_examples=40, deadline=None)
@given(st.integers(-3, 9), st.integers(1, 6), st.integers(1, 40), st.booleans())
def test_drawn_rows_that_follow_each_other(start: int, count: int, width: int, turned: bool) -> None:
    numbers = torch.randn(width, 6) if turned else torch.randn(6, width)
    with ours.device("cpu"):
        given_rows = ours.tensor(numbers.tolist())
        found = consecutive_rows(given_rows.t() if turned else given_rows, start, count)
        first = max(min(start, 6 - count), 0)
        wanted = (numbers.t() if turned else numbers)[first : first + count]
        torch.testing.assert_close(torch.tensor(found.tolist()), wanted)
        assert found.is_contiguous()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(("hann_window", "hamming_window", "blackman_window", "kaiser_window", "bartlett_window")),
    st.integers(0, 40), st.booleans(), st.sampled_from(("float32", "float64")),
)  # fmt: skip
def test_windows_are_each_callers_own(name: str, length: int, periodic: bool, kind: str) -> None:
    wanted = getattr(torch, name)(length, periodic, dtype=getattr(torch, kind))
    with ours.device("cpu"):
        for _ in range(2):
            found = getattr(ours, name)(length, periodic, dtype=getattr(ours, kind))
            torch.testing.assert_close(torch.from_numpy(found.numpy()), wanted)
            found.zero_()


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-3, 3), st.floats(-3, 3), st.integers(0, 30), st.sampled_from((2.0, 10.0, 0.5, -2.0)),
    st.sampled_from(("float32", "float64")),
)  # fmt: skip
def test_drawn_powers_evenly_spaced(start: float, end: float, steps: int, base: float, kind: str) -> None:
    wanted = torch.logspace(start, end, steps, base, dtype=getattr(torch, kind))
    with ours.device("cpu"):
        found = ours.logspace(start, end, steps, base, dtype=getattr(ours, kind))
        torch.testing.assert_close(torch.from_numpy(found.numpy()), wanted, equal_nan=True)
