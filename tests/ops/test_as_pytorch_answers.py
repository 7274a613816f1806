"""What PyTorch's own tests ask for: results, warnings and refusals as PyTorch's, compared with it."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as ours

Case = Callable[[Any], Any]


ERRORS = (TypeError, ValueError, IndexError, RuntimeError)


def _answer(library: Any, case: Case) -> tuple[object, bool]:
    """Return what a case gives, or the kind of its error, and whether it warns of numbers out of bounds."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result: object = repr(case(library))
        except ERRORS as error:
            result = next(each for each in ERRORS if isinstance(error, each))
    return result, any("out of bounds" in str(each.message) for each in told)


CASES: dict[str, Case] = {
    "fftn of one size": lambda t: t.fft.fftn(t.ones(4), s=2, dim=0).shape,
    "rfft2 of one size": lambda t: t.fft.rfft2(t.ones(3, 4), s=4, dim=(1,)).shape,
    "rfftn of complex numbers": lambda t: t.fft.rfftn(t.ones(2, dtype=t.complex64)),
    "diff of other rows": lambda t: t.ones(2, 3).diff(dim=0, prepend=t.ones(1, 2)),
    "diff of a row more": lambda t: t.ones(2, 3).diff(dim=0, append=t.full((1, 3), 5.0)).tolist(),
    "masked_scatter of too few": lambda t: t.zeros(3).masked_scatter_(t.tensor([True, True, False]), t.ones(1)),
    "masked_scatter of enough": lambda t: t.zeros(3).masked_scatter_(t.tensor([True, False, True]), t.ones(2)).tolist(),
    "tolerance with a gradient": lambda t: t.isclose(t.ones(1), t.ones(1), 0.1, t.tensor(1.0, requires_grad=True)),
    "tolerance as a tensor": lambda t: t.isclose(t.ones(1), t.ones(1), t.tensor(0.1), t.tensor(1)).tolist(),
    "complex numbers multiplied in place": lambda t: t.ones(2, dtype=t.complex64)
    .scatter(0, t.tensor([0, 0]), t.tensor([2j, 3j]), reduce="multiply").tolist(),
    "complex numbers multiplied by one": lambda t: t.ones(2, dtype=t.complex64)
    .scatter(0, t.tensor([0, 0]), 2j, reduce="multiply").tolist(),
    "small floats that are the same": lambda t: t.isclose(
        t.arange(4.0).to(t.float8_e5m2), t.arange(4.0).to(t.float8_e5m2), rtol=0, atol=0, equal_nan=True
    ).tolist(),
    "infinities without tolerance": lambda t: t.isclose(
        t.tensor([t.inf, 1.0, t.nan]), t.tensor([t.inf, 1.5, t.nan]), 0, 0, True
    ).tolist(),
    "memory that is read while it is filled": lambda t: (x := t.arange(3)).index_fill_(0, x, 0),
    "memory that is read while it is scattered into": lambda t: (x := t.ones(3)).scatter_(0, t.arange(3), x),
    "memory that is read while it is added to": lambda t: (x := t.ones(3)).index_add_(0, t.arange(2), x[:2]),
    "memory that is read while it is put": lambda t: (x := t.arange(3)).put_(x, x),
    "memory that is read while it is selected into": lambda t: t.index_select(
        x := t.ones(6), 0, t.arange(3), out=x[:3]
    ),
    "elements of a copy added": lambda t: (x := t.ones(3)).index_add_(0, t.arange(2), x[:2].clone()).tolist(),
    "tuple into one tensor": lambda t: t.nonzero(t.ones(2), as_tuple=True, out=t.empty(0, dtype=t.int64)),
    "eigenvalues of old": lambda t: t.eig(t.ones(2, 2)),
    "least squares of old": lambda t: t.lstsq(t.ones(2, 1), t.ones(2, 2)),
    "whole numbers with a gradient": lambda t: t.arange(3, requires_grad=True),
    "arrays of one number among integers": lambda t: t.tensor([[1, numpy.array(2.5)], [numpy.array(3), 4]]).tolist(),
    "alias of NumPy's number": lambda t: t.asarray(numpy.float64(0.5), copy=False),
    "step of complex numbers": lambda t: t.heaviside(t.ones(1, dtype=t.complex64), t.ones(1)),
    "zeros by another name": lambda t: (t._efficientzerotensor((2, 3), dtype=t.float64) + 1).tolist(),
    "baddbmm of two types": lambda t: t.baddbmm(t.ones(1, 2, 2).double(), t.ones(1, 2, 2), t.ones(1, 2, 2)),
    "addmm of two types": lambda t: t.addmm(t.ones(2, 2).double(), t.ones(2, 2), t.ones(2, 2)),
    "addmv of two types": lambda t: t.addmv(t.ones(2).double(), t.ones(2, 2), t.ones(2)),
    "einsum of nothing": lambda t: t.einsum("ijk,k->ij", t.ones(3, 0, 6), t.ones(6)).shape,
    "stack of elements over none": lambda t: t.einsum("...,...", t.ones(1), t.ones(0)).shape,
    "negative norm of nothing": lambda t: t.linalg.vector_norm(t.ones(0), -2),
    "negative norm of no rows": lambda t: t.linalg.vector_norm(t.ones(0, 2), -1, 0),
    "negative norm of no columns": lambda t: t.linalg.vector_norm(t.ones(0, 2), -1, 1).shape,
    "norm in a narrower type": lambda t: t.linalg.vector_norm(t.ones(2), dtype=t.float16),
    "norm in a complex type": lambda t: t.linalg.vector_norm(t.ones(2), dtype=t.complex64),
    "norm in a wider type": lambda t: t.linalg.vector_norm(t.ones(2).half(), dtype=t.float64).tolist(),
    "small integers multiplied": lambda t: t._int_mm(t.ones(2, 3).to(t.int8), t.full((3, 2), -2).to(t.int8)).tolist(),
    "floats for small integers": lambda t: t._int_mm(t.ones(2, 3), t.ones(3, 2).to(t.int8)),
    "sum and relu": lambda t: t._addmm_activation(t.tensor([-9.0, 0.0]), t.ones(2, 3), t.ones(3, 2)).tolist(),
    "texts": lambda t: t.tensor([0, "a"]),
    "tensor of a tensor on a device": lambda t: t.Tensor(t.ones(1), device="cpu"),
    "new of a tensor on a device": lambda t: t.ones(1).new(t.ones(1), device="cpu"),
    "typed tensor of a tensor on a device": lambda t: t.LongTensor(t.ones(1), device="cpu"),
    "meshgrid of two devices": lambda t: t.meshgrid(t.ones(1), t.ones(1, device="meta"), indexing="ij"),
    "no shifts": lambda t: t.arange(4).roll((), ()),
    "two shifts without dimensions": lambda t: t.arange(4).roll((1, 2)),
    "more dimensions than shifts": lambda t: t.arange(4).roll((1,), (0, 2)),
    "alias of another type": lambda t: t.asarray(t.ones(1), dtype=t.float64, copy=False),
    "alias on another device": lambda t: t.asarray(t.ones(1), device="meta", copy=False),
    "integers beyond halves": lambda t: t.empty(1).half().random_(0, 5000).shape,
    "integers among halves": lambda t: t.empty(1).half().random_(0, 2000).shape,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_in_pytorch(name: str) -> None:
    assert _answer(ours, CASES[name]) == _answer(torch, CASES[name])


@pytest.mark.parametrize("name", ["linspace", "logspace", "arange", "range"])
def test_rows_of_numbers_keep_the_shape_that_is_given(name: str) -> None:
    found = []
    for library in (torch, ours):
        whole = library.zeros(2, 3)
        numbers = (0, 3, 4) if name.endswith("space") else (0, 4) if name == "arange" else (0, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = getattr(library, name)(*numbers, out=whole.narrow(1, 1, 2))
        found.append((tuple(result.shape), whole.tolist()))
    assert found[0] == found[1]


def test_short_signals_are_padded_with_a_warning() -> None:
    spectrum = ours.stft(ours.ones(1, 20), 3, 2, window=ours.ones(3), center=False, return_complex=True)
    ours.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="length of signal is shorter"):
            ours.istft(spectrum, 3, 2, window=ours.ones(3), center=False, length=40)
    finally:
        ours.set_warn_always(False)


def test_memory_is_one_object() -> None:
    class Counted(ours.UntypedStorage):
        pass

    x = ours.zeros(3)
    storage = x.untyped_storage()
    storage.mark = "kept"
    for other in (x[1:], x.detach(), x.data, x.view(ours.int32)):
        assert other.untyped_storage() is storage
    assert x.clone().untyped_storage() is not storage
    del storage, other
    assert x.untyped_storage().mark == "kept"
    made = Counted(8)
    shared = ours.tensor(made, dtype=ours.uint8)
    shared.fill_(7)
    assert made.tolist() == [7] * 8 and shared.untyped_storage() is made


def test_copies_of_storages_stay_the_memory_of_copied_tensors() -> None:
    x = ours.zeros(3)
    storage = x.untyped_storage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied = copy.deepcopy([x, x.storage(), storage, x.view(3, 1)])
    copied[0].add_(1)
    assert copied[1].tolist() == [1.0] * 3 and copied[3].tolist() == [[1.0]] * 3
    assert copied[2].tolist() == copied[0].untyped_storage().tolist() != storage.tolist()
    assert pickle.loads(pickle.dumps(storage)).tolist() == storage.tolist()


def test_overlaps_of_a_tensor_with_itself() -> None:
    def layouts(t: Any) -> list[int]:
        made = [
            t.ones(3, 3), t.ones(1, 3).expand(4, 3), t.ones(10).as_strided([2, 1, 5], [1, 0, 2]), t.ones(4, 4)[::2],
            t.ones(20).as_strided((2, 1, 5), (10, 0, 2)), t.ones(0, 2).expand(3, 0, 2), t.ones(3, 4).t(),
        ]  # fmt: skip
        return [t._debug_has_internal_overlap(each) for each in made]

    assert layouts(ours) == layouts(torch)


@pytest.mark.parametrize("value", [4.0, float("inf"), float("nan")])
def test_gradients_are_unscaled(value: float) -> None:
    found = []
    for library in (torch, ours):
        gradients = [library.full((2, 3), 4.0).t(), library.full((2,), value, dtype=library.float64)]
        failed = library.zeros(1)
        library._amp_foreach_non_finite_check_and_unscale_(gradients, failed, library.tensor([0.25]))
        found.append((failed.tolist(), repr([each.tolist() for each in gradients])))
    assert found[0] == found[1]


@pytest.mark.parametrize("failed", [0.0, 1.0])
@pytest.mark.parametrize("steps", [0, 2, 3])
def test_scales_grow_and_shrink(failed: float, steps: int) -> None:
    found = []
    for library in (torch, ours):
        scale, tracker = library.tensor([4.0]), library.tensor([steps], dtype=library.int32)
        assert library._amp_update_scale_(scale, tracker, library.tensor([failed]), 2.0, 0.25, 3) is scale
        found.append((scale.tolist(), tracker.tolist()))
    assert found[0] == found[1]


def test_weights_of_small_integers() -> None:
    arguments = [[[1.0, -2.0], [0.5, 3.0]], [[3, -4], [100, 7], [0, 1]], [0.5, 0.25, 2.0]]
    found = []
    for library in (torch, ours):
        x, weight, scales = (library.tensor(each) for each in arguments)
        found.append(library._weight_int8pack_mm(x, weight.to(library.int8), scales).tolist())
    assert found[0] == found[1]


def test_types_that_belong_together() -> None:
    import torch._prims_common as theirs
    import webgpu_torch._prims_common as mine

    for name in ("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128", "int8", "bool"):
        kinds = getattr(torch, name), getattr(ours, name)
        assert mine.dtype_to_type(kinds[1]) is theirs.dtype_to_type(kinds[0])
        for question in ("is_boolean_dtype", "is_integer_dtype", "is_float_dtype", "is_complex_dtype"):
            assert getattr(mine, question)(kinds[1]) == getattr(theirs, question)(kinds[0])
        for question in ("corresponding_complex_dtype", "corresponding_real_dtype"):
            try:
                expected = repr(getattr(theirs, question)(kinds[0]))
            except KeyError:
                with pytest.raises(KeyError):
                    getattr(mine, question)(kinds[1])
                continue
            assert repr(getattr(mine, question)(kinds[1])) == expected


def test_distributions_keep_their_class_and_names() -> None:
    class Several(ours.distributions.Independent):
        pass

    found = Several(ours.distributions.Normal(ours.zeros(2, 3), 1.0), 1).expand((4, 2))
    assert type(found) is Several and found.batch_shape == (4, 2) and found.sample().shape == (4, 2, 3)
    assert ours.distributions.OneHotCategorical(ours.ones(3))._categorical.sample().shape == ()
    assert isinstance(ours.distributions.ExpTransform().inv, ours.distributions.transforms._InverseTransform)


@pytest.mark.parametrize("name", ["autocast", "GradScaler"])
def test_mixed_precision_by_its_older_name_warns(name: str) -> None:
    for library in (torch, ours):
        with pytest.warns(FutureWarning, match=rf"`torch.cpu.amp.{name}\(args...\)` is deprecated"):
            getattr(library.cpu.amp, name)()


def test_optimisers_that_scale_themselves_are_given_the_factor() -> None:
    def steps(t: Any) -> list[Any]:
        told = []

        class Told(t.optim.SGD):
            _step_supports_amp_scaling = True

            def step(self, closure: Any = None) -> None:
                told.append((float(self.grad_scale), float(self.found_inf)))

        class Given(t.optim.SGD):
            _step_supports_amp_scaling = True

            def step(self, closure: Any = None, *, grad_scaler: Any = None) -> None:
                told.append(grad_scaler.get_scale())

        weight = t.ones(2, requires_grad=True)
        scaler = t.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale(weight.sum()).backward()
        first, second = Told([weight], 0.1), Given([weight], 0.1)
        scaler.step(first)
        with pytest.warns(FutureWarning, match="going to stop passing itself"):
            scaler.step(second)
        weight.grad[0] = float("inf")
        scaler.update()
        scaler.step(last := Told([weight], 0.1))
        return [told, hasattr(last, "grad_scale"), weight.grad.tolist()]

    assert steps(ours) == steps(torch)


def test_regions_of_16_bit_types_by_a_numbered_device() -> None:
    for library in (torch, ours):
        with library.autocast("cpu:0"):
            assert library.is_autocast_enabled("cpu") and library.is_autocast_enabled("cpu:0")
            assert str(library.mm(library.ones(2, 2), library.ones(2, 2)).dtype) == "torch.bfloat16"
        assert not library.is_autocast_enabled("cpu")


def test_marks_for_compilers_keep_functions() -> None:
    for library in (torch, ours):

        @library._disable_dynamo
        def first() -> int:
            return 1

        @library._disable_dynamo(recursive=False)
        def second() -> int:
            return 2

        assert (first(), second()) == (1, 2)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-(1 << 63), (1 << 63) - 1), (1 << 40, (1 << 40) + (1 << 35)), (-5, 1 << 62), (1 << 50, (1 << 50) + 3)],
)
def test_integers_of_ranges_beyond_32_bits(low: int, high: int, device: str) -> None:
    ours.manual_seed(3)
    drawn = ours.randint(low, high, (400,), device=device).tolist()
    assert all(low <= each < high for each in drawn)
    # Each quarter of a range has its share; a range of three numbers has all of them.
    if high - low == 3:
        assert set(drawn) == {low, low + 1, low + 2}
        return
    quarters = [sum(4 * (each - low) // (high - low) == quarter for each in drawn) for quarter in range(4)]
    assert all(60 < each < 140 for each in quarters), quarters
