"""What functions over batches write in place: into examples, and never one example's values into what all of them share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

WRITES: dict[str, Any] = {
    "add_": lambda library, t, x, at: t.add_(x),
    "copy_": lambda library, t, x, at: t.copy_(x),
    "mul_, a part": lambda library, t, x, at: t[:2].mul_(x[:2]),
    "fill_": lambda library, t, x, at: t.fill_(x[0, 0]),
    "pow_": lambda library, t, x, at: t.pow_(x / 8),
    "lerp_": lambda library, t, x, at: t.lerp_(x, 0.5),
    "clamp_": lambda library, t, x, at: t.clamp_(min=x),
    "addcmul_": lambda library, t, x, at: t.addcmul_(x, x),
    "masked_fill_": lambda library, t, x, at: t.masked_fill_(x > 3, 1.0),
    "masked_scatter_": lambda library, t, x, at: t.masked_scatter_(library.ones(4, 4) > 0, x),
    "index_add_": lambda library, t, x, at: t.index_add_(0, at, x[:2]),
    "index_copy_": lambda library, t, x, at: t.index_copy_(0, at, x[:2]),
    "index_fill_": lambda library, t, x, at: t.index_fill_(0, at, x[0, 0]),
    "index_put_": lambda library, t, x, at: t.index_put_((at,), x[:2]),
    "scatter_": lambda library, t, x, at: t.scatter_(0, library.zeros(4, 4, dtype=library.int64), x),
    "scatter_add_": lambda library, t, x, at: t.scatter_add_(0, library.zeros(4, 4, dtype=library.int64), x),
    "put_": lambda library, t, x, at: t.put_(at, x[0, :2]),
    "addmm_": lambda library, t, x, at: t.addmm_(x, x.T),
    "items": lambda library, t, x, at: t.__setitem__(0, x[0]),
    "zero_": lambda library, t, x, at: t.zero_(),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", WRITES)
@settings(max_examples=4, deadline=None)
@given(count=st.integers(1, 3), shared=st.booleans())
def test_what_all_examples_share_takes_no_example(name: str, count: int, shared: bool) -> None:
    answers = []
    for library in (torch, ours):
        batch, at = library.arange(16.0 * count).reshape(count, 4, 4), library.tensor([0, 1])

        def write(x: Any, library: Any = library, at: Any = at) -> Any:
            target = library.ones(4, 4) if shared else x.clone()
            WRITES[name](library, target, x, at)
            return target

        try:
            answers.append(torch.tensor(library.vmap(write)(batch).tolist()))
        except RuntimeError:
            answers.append("refused")
    if "refused" in map(str, answers):
        assert str(answers[0]) == str(answers[1])
    else:
        torch.testing.assert_close(answers[1], answers[0])


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["batch_norm", "instance_norm"]), st.sampled_from(["shared", "each", "none"]), st.booleans(),
    st.integers(1, 3),
)  # fmt: skip
def test_shared_statistics_are_not_moved(name: str, kind: str, moving: bool, count: int) -> None:
    answers: list[Any] = []
    for library in (torch, ours):
        x = library.arange(count * 12.0).reshape(count, 2, 2, 3).sin()
        sizes = (count, 2) if kind == "each" else (2,)
        statistics = () if kind == "none" else (library.zeros(sizes), library.ones(sizes))

        def normalise(x: Any, *given: Any, library: Any = library, statistics: Any = statistics) -> Any:
            values = given if kind == "each" else statistics or (None, None)
            function = getattr(library.nn.functional, name)
            return function(x, *values, **{"training" if name == "batch_norm" else "use_input_stats": moving})

        try:
            found = library.vmap(normalise)(x, *(statistics if kind == "each" else ()))
            answers.append([found.tolist(), *(each.tolist() for each in statistics)])
        except RuntimeError as error:
            answers.append(str(error)[:60])
    if isinstance(answers[0], str) or isinstance(answers[1], str):
        # Without statistics PyTorch names the one that is missing.
        assert answers[0] == answers[1] or kind == "none"
        return
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-4, atol=1e-5)


def test_results_given_to_functions_are_refused() -> None:
    for library in (torch, ours):
        with pytest.raises(RuntimeError, match="Batching rule not implemented for aten::add.out"):
            library.vmap(lambda x, library=library: library.add(x, x, out=library.zeros(2)))(library.ones(3, 2))


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([("squeeze_", (0,)), ("unsqueeze_", (1,)), ("transpose_", (0, 2)), ("swapaxes_", (1, 2))]))
def test_shapes_of_examples_change_in_place(change: tuple[str, tuple[int, ...]]) -> None:
    found = []
    for library in (torch, ours):
        x = library.arange(24.0).reshape(3, 1, 4, 2)

        def changed(x: Any) -> Any:
            copy = x.clone()
            result = getattr(copy, change[0])(*change[1])
            assert result is copy or result.shape == copy.shape
            return copy * 2

        found.append(library.vmap(changed)(x).tolist())
    assert found[0] == found[1]
