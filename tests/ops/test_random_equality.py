"""After one seed, the numbers drawn on the CPU are PyTorch's, bit for bit or, where a logarithm is involved, nearly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from ops_oracle import compare, to_ours, to_torch

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    for library in (ours, torch):
        library.set_default_dtype(library.float32)


def both(draw: Callable[[Any], Any], seed: int = 7) -> tuple[Any, Any]:
    """Return what both libraries draw after a seed, and then once more: the streams have to stay together."""
    results = []
    for library in (ours, torch):
        library.manual_seed(seed)
        results.append([draw(library), draw(library), library.rand(3), library.randn(5)])
    return results[0], results[1]


def same(draw: Callable[[Any], Any], seed: int = 7) -> None:
    mine, theirs = both(draw, seed)
    compare(mine, theirs)


SIZES = ((), (1,), (5,), (15,), (16,), (17,), (3, 33), (0,), (257,))
CREATED: dict[str, Callable[..., Any]] = {
    "rand": lambda t, size, kind: t.rand(size, dtype=kind),
    "randn": lambda t, size, kind: t.randn(size, dtype=kind),
    "rand_like": lambda t, size, kind: t.rand_like(t.empty(size, dtype=kind)),
    "randn_like": lambda t, size, kind: t.randn_like(t.empty(size, dtype=kind)),
    "normal of numbers": lambda t, size, kind: t.normal(2.0, 3.0, size, dtype=kind),
    "normal of means": lambda t, size, kind: t.normal(t.ones(size, dtype=kind), 2.0),
    "normal of deviations": lambda t, size, kind: t.normal(1.0, t.ones(size, dtype=kind) * 2),
    "normal of both": lambda t, size, kind: t.normal(t.ones(size, dtype=kind), t.ones(size, dtype=kind) * 2),
    "uniform_": lambda t, size, kind: t.empty(size, dtype=kind).uniform_(-2, 5),
    "normal_": lambda t, size, kind: t.empty(size, dtype=kind).normal_(1, 3),
    "exponential_": lambda t, size, kind: t.empty(size, dtype=kind).exponential_(0.5),
    "cauchy_": lambda t, size, kind: t.empty(size, dtype=kind).cauchy_(1.0, 2.0),
    "log_normal_": lambda t, size, kind: t.empty(size, dtype=kind).log_normal_(0.5, 0.25),
    "geometric_": lambda t, size, kind: t.empty(size, dtype=kind).geometric_(0.3),
    "bernoulli_": lambda t, size, kind: t.empty(size, dtype=kind).bernoulli_(0.3),
    "bernoulli": lambda t, size, kind: t.bernoulli(t.full(size, 0.4, dtype=kind)),
    "bernoulli of a number": lambda t, size, kind: t.bernoulli(t.zeros(size, dtype=kind), 0.6),
    "bernoulli_ of a tensor": lambda t, size, kind: t.empty(size, dtype=kind).bernoulli_(t.full(size, 0.4)),
    "random_": lambda t, size, kind: t.empty(size, dtype=kind).random_(),
    "random_ to": lambda t, size, kind: t.empty(size, dtype=kind).random_(100),
    "random_ between": lambda t, size, kind: t.empty(size, dtype=kind).random_(-5, 100),
    "randint": lambda t, size, kind: t.randint(3, 90, size, dtype=kind),
    "randint_like": lambda t, size, kind: t.randint_like(t.empty(size, dtype=kind), 100),
    "randint_like between": lambda t, size, kind: t.randint_like(t.empty(size, dtype=kind), 5, 100),
    "dropout": lambda t, size, kind: t.nn.functional.dropout(t.ones(size, dtype=kind), 0.3),
    "alpha_dropout": lambda t, size, kind: t.nn.functional.alpha_dropout(t.ones(size, dtype=kind), 0.3),
    "rrelu": lambda t, size, kind: t.nn.functional.rrelu(-t.ones(size, dtype=kind), training=True),
    "poisson": lambda t, size, kind: t.poisson(t.full(size, 4.5, dtype=kind)),
    "poisson of many": lambda t, size, kind: t.poisson(t.full(size, 45.0, dtype=kind)),
    "binomial": lambda t, size, kind: t.binomial(t.full(size, 40.0, dtype=kind), t.full(size, 0.4, dtype=kind)),
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", CREATED)
def test_floats(name: str, kind: str) -> None:
    if (name, kind) in (("rrelu", "float16"), ("binomial", "float16"), ("binomial", "bfloat16")):
        pytest.skip("PyTorch has no kernel for it")
    for size in SIZES:
        same(lambda library: CREATED[name](library, size, getattr(library, kind)))


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize(
    "name", ["random_", "random_ to", "randint", "randint_like", "randint_like between", "geometric_", "bernoulli_"]
)
def test_integers(name: str, kind: str) -> None:
    for size in SIZES:
        same(lambda library: CREATED[name](library, size, getattr(library, kind)))
    if kind not in ("uint8",):
        same(lambda library: CREATED["random_ between"](library, (40,), getattr(library, kind)))


def test_large_integers() -> None:
    same(lambda library: library.randint(-(2**40), 2**62, (50,)))
    same(lambda library: library.randint(0, 2**31, (50,)))
    same(lambda library: library.empty(40, dtype=library.int64).random_(-(2**63), None))
    same(lambda library: library.randint(2**28, (20,)))
    same(lambda library: library.empty(20, dtype=library.bool).random_())
    same(lambda library: library.empty(20, dtype=library.bool).bernoulli_())


@pytest.mark.parametrize("count", [0, 1, 2, 10, 1000, 70000])
def test_permutations(count: int) -> None:
    same(lambda library: library.randperm(count))
    same(lambda library: library.randperm(count, dtype=library.int32))


OTHERS: dict[str, Callable[[Any], Any]] = {
    "multinomial": lambda t: t.multinomial(t.tensor([0.1, 0.2, 0.7, 0.0]), 3),
    "multinomial with replacement": lambda t: t.multinomial(t.tensor([[0.1, 0.2, 0.7], [3.0, 2.0, 1.0]]), 9, True),
    "multinomial once": lambda t: t.multinomial(t.tensor([[0.1, 0.2, 0.7], [3.0, 2.0, 1.0]]), 1),
    "complex": lambda t: t.randn(9, dtype=t.complex64),
    "complex uniform": lambda t: t.rand(9, dtype=t.complex64),
    "strided target": lambda t: t.zeros(6, 8)[:, ::2].normal_(),
    "transposed target": lambda t: t.zeros(6, 8).t().uniform_(),
    "dropout1d": lambda t: t.nn.functional.dropout1d(t.ones(2, 5, 4), 0.5),
    "dropout2d": lambda t: t.nn.functional.dropout2d(t.ones(2, 5, 4, 4), 0.5),
    "dropout3d": lambda t: t.nn.functional.dropout3d(t.ones(2, 5, 2, 2, 2), 0.5),
    "feature_alpha_dropout": lambda t: t.nn.functional.feature_alpha_dropout(t.ones(2, 5, 4), 0.5),
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(t.arange(6.0), tau=0.5),
    "linear": lambda t: t.nn.Linear(5, 7).weight.detach(),
    "kaiming_normal_": lambda t: t.nn.init.kaiming_normal_(t.empty(6, 7)),
    "xavier_uniform_": lambda t: t.nn.init.xavier_uniform_(t.empty(6, 7)),
    "trunc_normal_": lambda t: t.nn.init.trunc_normal_(t.empty(6, 7)),
    "orthogonal_": lambda t: t.nn.init.orthogonal_(t.empty(4, 4)).abs(),
    "sparse_": lambda t: t.nn.init.sparse_(t.empty(6, 7), 0.3),
    "normal over shapes": lambda t: t.normal(t.zeros(3, 1), t.ones(1, 4)),
    "rand out": lambda t: t.rand(4, out=t.empty(4)),
    "randn out": lambda t: t.randn(20, out=t.empty(20)),
    "randperm out": lambda t: t.randperm(9, out=t.empty(9, dtype=t.int64)),
    "normal out": lambda t: t.normal(0.0, 1.0, (20,), out=t.empty(20)),
    "bernoulli out": lambda t: t.bernoulli(t.full((5,), 0.5), out=t.empty(5)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_functions(name: str) -> None:
    same(OTHERS[name])
    same(OTHERS[name], seed=2**40 + 5)


class TestGenerators:
    def test_draws(self) -> None:
        found = []
        for library in (ours, torch):
            generator = library.Generator().manual_seed(3)
            before = generator.initial_seed()
            found.append(
                [
                    before,
                    library.randn(20, generator=generator),
                    library.rand(3, generator=generator),
                    library.randint(9, (4,), generator=generator),
                    library.randperm(6, generator=generator),
                    library.empty(4).exponential_(generator=generator),
                    library.bernoulli(library.full((5,), 0.5), generator=generator),
                    library.multinomial(library.ones(5), 3, generator=generator),
                    library.normal(0.0, 1.0, (3,), generator=generator),
                    library.poisson(library.full((5,), 3.0), generator=generator),
                ]
            )
        compare(found[0], found[1])

    def test_states_travel_both_ways(self) -> None:
        for count in (0, 3, 16, 33, 700):
            theirs, mine = torch.Generator().manual_seed(5), ours.Generator().manual_seed(99)
            torch.randn(count, generator=theirs)
            mine.set_state(to_ours(theirs.get_state(), "cpu"))
            assert mine.initial_seed() == theirs.initial_seed() == 5
            compare(ours.randn(7, generator=mine), torch.randn(7, generator=theirs))
            back = torch.Generator()
            back.set_state(to_torch(mine.get_state()))
            compare(ours.rand(700, generator=mine), torch.rand(700, generator=back))

    def test_set_from_the_oracle_state_itself(self) -> None:
        """Whatever holds the bytes will do: PyTorch's own tensor, too."""
        torch.manual_seed(11)
        torch.rand(5)
        ours.set_rng_state(to_ours(torch.get_rng_state(), "cpu"))
        compare(ours.rand(5), torch.rand(5))
        torch.set_rng_state(to_torch(ours.get_rng_state()))
        compare(ours.randn(5), torch.randn(5))

    def test_clones(self) -> None:
        for library in (ours, torch):
            generator = library.Generator().manual_seed(4)
            library.rand(3, generator=generator)
            copy = generator.clone_state()
            assert library.rand(4, generator=generator).tolist() == library.rand(4, generator=copy).tolist()
            assert str(generator.device) == "cpu" and copy.initial_seed() == 4

    def test_refusals(self) -> None:
        for library in (ours, torch):
            generator = library.Generator()
            with pytest.raises((RuntimeError, TypeError)):
                generator.set_state(library.zeros(10, dtype=library.uint8))
            with pytest.raises(TypeError):
                generator.set_state(library.zeros(5056))
            assert isinstance(generator.seed(), int)
            assert generator.manual_seed(-1).initial_seed() == 2**64 - 1

    def test_default(self) -> None:
        found = []
        for library in (ours, torch):
            assert library.manual_seed(12) is library.default_generator
            assert library.initial_seed() == library.random.initial_seed() == 12
            library.random.manual_seed(13)
            found.append([library.rand(2), library.rand(2, generator=library.default_generator)])
            state = library.random.get_rng_state()
            first = library.rand(3).tolist()
            library.random.set_rng_state(state)
            assert library.rand(3).tolist() == first
        compare(found[0], found[1])
        assert ours.seed() == ours.initial_seed()

    def test_fork(self) -> None:
        found = []
        for library in (ours, torch):
            library.manual_seed(1)
            with library.random.fork_rng():
                library.manual_seed(2)
                inside = library.rand(2)
            with library.random.fork_rng(enabled=False):
                library.rand(1)
            found.append([inside, library.rand(2)])
        compare(found[0], found[1])


def test_devices_do_not_depend_on_how_work_is_split(device: str) -> None:
    """A number depends on the seed, the draw and its position alone: pieces of another length begin alike."""
    if device == "cpu":
        return
    for draw in (ours.rand, ours.randn):
        found = []
        for count in (7, 64, 65, 1000, 100_000):
            ours.manual_seed(21)
            found.append(draw(count, device=device)[:7].tolist())
        assert all(each == found[0] for each in found)
    ours.manual_seed(21)
    whole = (ours.rand(50, device=device) + ours.rand(50, device=device)).tolist()
    ours.manual_seed(21)
    first = ours.rand(50, device=device).tolist()
    second = ours.rand(50, device=device).tolist()
    assert whole == pytest.approx([a + b for a, b in zip(first, second)])
    state = ours.Generator(device).manual_seed(5)
    kept = state.get_state()
    one = ours.randn(9, device=device, generator=state).tolist()
    state.set_state(kept)
    assert ours.randn(9, device=device, generator=state).tolist() == one
    copy = state.clone_state()
    assert ours.rand(4, device=device, generator=state).tolist() == ours.rand(4, device=device, generator=copy).tolist()


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "randint_like"])
def test_like_another_order_of_memory(name: str) -> None:
    """Dense strides are kept, and the numbers are drawn in the order of memory."""
    numbers = (7,) if name == "randint_like" else ()

    def draw(library: Any) -> Any:
        return getattr(library, name)(library.zeros((2, 9, 20)).transpose(1, 2), *numbers)

    same(draw)
    assert draw(ours).stride() == draw(torch).stride() == (180, 1, 20)
