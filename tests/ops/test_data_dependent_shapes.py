"""Functions whose shapes or positions depend on data, and gradients at zeros, against PyTorch."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as facade
import webgpu_torch_core as core
from hypothesis import HealthCheck, given, settings, strategies
from ops_oracle import both_raise, check, sample, to_ours, to_torch
from webgpu_torch_core.operations.indexing import nonzero


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.float32])
def test_unique_slices(kind: torch.dtype, device: str) -> None:
    x = torch.randint(0, 2, (40, 5), generator=torch.Generator().manual_seed(2)).to(kind)
    for dim in (0, 1):
        for name in ("unique", "unique_consecutive"):
            assert check(
                lambda t, x, dim=dim, name=name: getattr(t, name)(x, return_inverse=True, return_counts=True, dim=dim),
                [x], device, gradient=False,
            )  # fmt: skip


KINDS = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    strategies.lists(strategies.sampled_from([1, 3, 4, 17, 64, 256]), min_size=1, max_size=3),
    strategies.sampled_from(KINDS),
    strategies.sampled_from([0.0, 0.3, 1.0]),
    strategies.booleans(),
    strategies.integers(0, 9),
)
def test_elements_that_a_mask_chooses(
    device: str, shape: list[int], kind: torch.dtype, share: float, turned: bool, seed: int
) -> None:  # fmt: skip
    random = torch.Generator().manual_seed(seed)
    x = (torch.randn(shape, generator=random) * 9).to(kind)
    mask = torch.rand(shape, generator=random) < share
    if turned:
        x, mask = x.transpose(0, -1), mask.transpose(0, -1)
    ours, chosen = (to_ours(each, device) for each in (x, mask))
    before = nonzero._LARGE
    try:
        # Work is handed over at once where much is to be looked at.
        nonzero._LARGE = 2 if seed % 2 else before
        for _ in range(2):
            found = ours[chosen]
            assert torch.equal(to_torch(found), x[mask])
            assert found.untyped_storage().nbytes() == x[mask].untyped_storage().nbytes()
            assert torch.equal(to_torch(chosen.nonzero()), mask.nonzero())
            assert torch.equal(to_torch(ours), x)
    finally:
        nonzero._LARGE = before


def _numbered(given: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return numbers of distinct elements with those of the NaN of ``x``, each of which counts for itself, in order.

    PyTorch's sort is not stable from seventeen elements on: which NaN comes first depends on the processor.
    """
    if given.shape != x.shape or given.is_floating_point() or not x.is_floating_point():
        return given
    numbered = given.clone()
    numbered[x.isnan()] = given[x.isnan()].sort().values
    return numbered


@settings(max_examples=40, deadline=None)
@given(
    strategies.lists(strategies.integers(1, 6), max_size=3),
    strategies.sampled_from((*KINDS, torch.bfloat16)),
    strategies.sampled_from(["unique", "unique_consecutive", "bincount", "nonzero", "nonzero_static", "argwhere"]),
    strategies.tuples(*[strategies.booleans()] * 3),
    strategies.integers(0, 9),
)
def test_the_host_finds_what_kernels_find(
    shape: list[int], kind: torch.dtype, name: str, flags: tuple[bool, bool, bool], seed: int
) -> None:  # fmt: skip
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, shape, generator=random)
    x = x.abs() if kind is torch.uint8 or name == "bincount" else x
    x = x.to(torch.int64 if name == "bincount" else kind)
    if x.is_floating_point() and flags[2]:
        x = x / x * x.sign()
    x = x.reshape(-1) if name == "bincount" else x.transpose(0, -1) if x.ndim and flags[2] else x
    options = {
        "bincount": {"minlength": seed}, "nonzero_static": {"size": seed}, "nonzero": {"as_tuple": flags[0]}, "argwhere": {},
    }.get(name, {"return_inverse": flags[0], "return_counts": flags[1]})  # fmt: skip
    wanted = getattr(torch, name)(x, **options)
    for place in ("cpu", "python"):
        for _ in range(2):
            found = getattr(facade, name)(to_ours(x, place), **options)
            assert isinstance(found, tuple) is isinstance(wanted, tuple)
            several = isinstance(wanted, tuple)
            for own, other in zip(found if several else [found], wanted if several else [wanted], strict=True):
                assert torch.equal(*[_numbered(each, x).nan_to_num(7.0) for each in (to_torch(own), other)])
                assert own.dtype.name == repr(other.dtype).removeprefix("torch.")
                assert own.stride() == other.stride()


@pytest.mark.parametrize("size", [0, 3, 300])
def test_nonzero_static(size: int, device: str) -> None:
    """Compared with nonzero, cut and filled: PyTorch has it on few devices."""
    x = sample((6, 7), torch.int64) > 0
    found = facade.nonzero_static(facade.tensor(x.tolist(), device=device), size=size, fill_value=-7)
    wanted = x.nonzero()[:size]
    wanted = torch.cat([wanted, torch.full((size - wanted.shape[0], 2), -7)])
    assert found.tolist() == wanted.tolist()


def test_nonzero_static_waits_for_nothing() -> None:
    found = facade.nonzero_static(facade.ones(3, 4, device="meta"), size=5)
    assert tuple(found.shape) == (5, 2)


@pytest.mark.parametrize("offset", [-5, -1, 0, 2, 9])
def test_triangle_positions(offset: int, device: str) -> None:
    for row, col in ((3, 5), (5, 3), (0, 3), (3, 0)):
        ours = [
            getattr(facade, name)(row, col, offset, device=device).tolist() for name in ("tril_indices", "triu_indices")
        ]
        theirs = [getattr(torch, name)(row, col, offset).tolist() for name in ("tril_indices", "triu_indices")]
        assert ours == theirs


REPEATS = {
    "counts": lambda t, x, counts: x.repeat_interleave(counts, 0),
    "one count": lambda t, x, counts: x.repeat_interleave(counts[2:3], 1),
    "number": lambda t, x, counts: t.repeat_interleave(x, 3, dim=1),
    "none": lambda t, x, counts: t.repeat_interleave(x, 0, dim=1),
    "flat": lambda t, x, counts: x.repeat_interleave(2),
    "output_size": lambda t, x, counts: t.repeat_interleave(x, counts, 0, output_size=6),
    "positions": lambda t, x, counts: t.repeat_interleave(counts),
    "scalar": lambda t, x, counts: x[0, 0].repeat_interleave(3),
}


@pytest.mark.parametrize("name", sorted(REPEATS))
def test_repeat_interleave(name: str, device: str) -> None:
    counts = torch.tensor([1, 0, 2, 3])
    assert check(REPEATS[name], [sample((4, 5), torch.float32), counts], device, gradient=name != "positions")


def test_repeat_interleave_refuses(device: str) -> None:
    x = sample((4, 5), torch.float32)
    for counts in ([1, 2], [1, -1, 2, 1], [1.0, 1.0, 2.0, 1.0], [[1, 1, 1, 1]]):
        both_raise(lambda t, x, each: x.repeat_interleave(each, 0), [x, torch.tensor(counts)], device)


@pytest.mark.parametrize("every", [0, 2, 3])
def test_cumprod_at_zeros(every: int, device: str) -> None:
    x = sample((3, 7), torch.float32)
    if every:
        x[:, 1::every] = 0
    for dim in (0, 1):
        assert check(lambda t, x, dim=dim: x.cumprod(dim), [x], device)
    assert check(lambda t, x: x.cumprod(1), [x], device, second=True)


OUT_OF_CREATION = {
    "arange": lambda t, out: t.arange(5, out=out(t.int32)),
    "linspace": lambda t, out: t.linspace(0, 9.5, 5, out=out(t.int64)),
    "logspace": lambda t, out: t.logspace(0, 3, 4, out=out(t.int64)),
    "eye": lambda t, out: t.eye(2, out=out(t.int64)),
    "zeros": lambda t, out: t.zeros(3, out=out(t.int64)),
    "ones": lambda t, out: t.ones(2, 2, out=out(t.bool)),
    "full": lambda t, out: t.full((2,), 3, out=out(t.float32)),
}


@pytest.mark.parametrize("name", sorted(OUT_OF_CREATION))
def test_out_says_the_type(name: str, device: str) -> None:
    function = OUT_OF_CREATION[name]
    wanted = function(torch, lambda kind: torch.empty(0, dtype=kind))
    found = function(facade, lambda kind: facade.empty(0, dtype=kind, device=device))
    assert found.tolist() == wanted.tolist()
    assert found.dtype.name == str(wanted.dtype).removeprefix("torch.")
    assert found.device.type == device


ERRORS = {
    "narrow scalar": lambda t, x: x[0, 0].narrow(0, 0, 1),
    "narrow far": lambda t, x: x.narrow(0, 5, 0),
    "narrow long": lambda t, x: x.narrow(0, 1, 9),
    "movedim twice": lambda t, x: x.movedim((0, -2), (0, 1)),
    "gradient twice": lambda t, x: t.gradient(x, dim=(1, 1)),
    "cat none": lambda t, x: t.cat([x, None]),
    "cat tensor": lambda t, x: t.cat(x),
    "hstack nothing": lambda t, x: t.hstack([]),
    "dstack nothing": lambda t, x: t.dstack([]),
    "scatter type": lambda t, x: x.scatter(0, x.long() * 0, x.double()),
    "gather type": lambda t, x: t.gather(x, 0, x.long() * 0, out=t.empty(0, dtype=t.int64)),
    "overlapping": lambda t, x: t.index_select(x, 0, x[:2, 0].long() * 0, out=x[:1, :1].expand(2, 5)),
    "zeros type": lambda t, x: t.zeros(2, dtype=t.float32, out=t.empty(0, dtype=t.int64)),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str) -> None:
    both_raise(ERRORS[name], [sample((4, 5), torch.float32)], "cpu")


@settings(max_examples=25, deadline=None)
@given(
    count=strategies.integers(0, 6),
    r=strategies.integers(0, 3),
    with_replacement=strategies.booleans(),
    seed=strategies.integers(0, 99),
)
def test_drawn_combinations(count: int, r: int, with_replacement: bool, seed: int) -> None:
    given_ = torch.randn(count, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    ours = to_ours(given_.detach(), "cpu").requires_grad_()
    expected, actual = (library.combinations(x, r, with_replacement) for library, x in ((torch, given_), (core, ours)))
    torch.testing.assert_close(to_torch(actual), expected.detach())
    if r and expected.numel():
        expected.square().sum().backward()
        actual.square().sum().backward()
        torch.testing.assert_close(to_torch(ours.grad), given_.grad)


@settings(max_examples=25, deadline=None)
@given(
    shape=strategies.lists(strategies.integers(0, 5), max_size=3),
    part=strategies.booleans(),
    size=strategies.integers(0, 9),
    seed=strategies.integers(0, 99),
)
def test_drawn_positions(shape: list[int], part: bool, size: int, seed: int) -> None:
    drawn = torch.randint(-1, 2, (2, *shape), generator=torch.Generator().manual_seed(seed))
    mine = to_ours(drawn, "cpu")
    given_, ours = (drawn[1], mine[1]) if part else (drawn.transpose(0, -1), mine.transpose(0, -1))
    torch.testing.assert_close(to_torch(core.nonzero(ours)), torch.nonzero(given_))
    torch.testing.assert_close(to_torch(core.nonzero_static(ours, size=size)), torch.nonzero_static(given_, size=size))
    torch.testing.assert_close(to_torch(ours[ours > 0]), given_[given_ > 0])
