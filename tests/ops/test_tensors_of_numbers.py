"""Tensors made of tensors of one element: their types and values are those that PyTorch gives them."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

KINDS = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
BOTH = pytest.mark.parametrize("lib", [torch, ours], ids=["torch", "ours"])


@settings(max_examples=40, deadline=None)
@given(
    entries=st.lists(
        st.tuples(st.sampled_from((*KINDS, "int", "float")), st.integers(0, 1), st.booleans()), min_size=1, max_size=4
    )
)
def test_types_are_those_of_the_tensors(entries):
    def made(lib):
        row = []
        for kind, value, whole in entries:
            if kind in ("int", "float"):
                row.append(int(value) if kind == "int" else float(value))
            else:
                row.append(lib.tensor([value] if whole else value, dtype=getattr(lib, kind)))
        found = lib.tensor([row, row])
        return str(found.dtype).rpartition(".")[2], tuple(found.shape), found.tolist()

    assert made(ours) == made(torch)


@BOTH
def test_functions_of_elements_return_numbers(lib):
    x = lib.arange(1, 6)
    assert x.clone().apply_(lambda k: k + k).tolist() == [2, 4, 6, 8, 10]
    with pytest.raises(TypeError):
        x.apply_(lambda k: "text")


@BOTH
def test_numbers_of_real_tensors_are_real(lib):
    with pytest.raises(RuntimeError, match="complex Scalar to non-complex"):
        lib.ones(2, 2).index_fill_(1, lib.tensor([0]), 1 + 1j)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@BOTH
def test_storages_that_others_look_at_keep_their_size(lib):
    x = lib.randn(5)
    assert x.storage().resizable()
    seen = x.numpy()
    assert not x.storage().resizable()
    del seen


class Held(ours.Tensor):
    __slots__ = ("inner",)

    @staticmethod
    def __new__(cls, inner):
        made = ours.Tensor._make_subclass(cls, inner.to("meta"))
        made.inner = inner
        return made

    def clone(self):
        return type(self)(self.inner.clone())


def test_copies_of_tensors_without_elements_are_made_by_their_class():
    x = Held(ours.ones(2))
    x.note = [1]
    again = copy.deepcopy(x)
    assert type(again) is Held
    assert again.note == [1]
    assert again.note is not x.note
    assert again.inner.tolist() == [1, 1]
    assert again.inner is not x.inner


@pytest.mark.parametrize(("lead", "rest", "message"), [
    ("sparse_coo", ([[3], [1]], [1.0]), "size is inconsistent with indices: for dim 0, size is 3 but found index 3"),
    ("sparse_coo", ([[-1], [1]], [1.0]), "found negative index -1 for dim 0"),
    ("sparse_csr", ([3, 0, 1, 1], [1], [1.0]), r"`crow_indices\[\.\.\., 0\] == 0` is not satisfied"),
])  # fmt: skip
def test_files_of_impossible_sparse_tensors(lead, rest, message):
    class Made:
        def __reduce__(self):
            parts = tuple(torch.tensor(each) for each in rest)
            return torch._utils._rebuild_sparse_tensor, (getattr(torch, lead), (*parts, torch.Size((3, 3))))

    file = io.BytesIO()
    torch.save({"x": Made()}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match=message) as caught:
        ours.load(file)
    assert isinstance(caught.value, pickle.UnpicklingError)


def test_empty_storages_may_be_of_two_types():
    file = io.BytesIO()
    empty = ours.tensor([])
    ours.save([empty, ours.TypedStorage(wrap_storage=empty.storage().untyped(), dtype=ours.int64)], file)
    file.seek(0)
    first, second = ours.load(file)
    assert (first.dtype, second.dtype, len(second)) == (ours.float32, ours.int64, 0)


@BOTH
def test_pieces_count_their_own_writes(lib):
    for split in (
        lambda t: t.unsafe_split(1),
        lambda t: t.unsafe_split_with_sizes((1, 1, 1)),
        lambda t: t.unsafe_chunk(3),
    ):
        a = lib.ones(3, 3, requires_grad=True)
        first, second, _ = split(a + a)
        first.mul_(second)
        first.sum().backward()
        assert a.grad.tolist() == [[4, 4, 4], [4, 4, 4], [0, 0, 0]]


@BOTH
def test_views_of_inference_mode_are_not_looked_through(lib):
    a = lib.ones(1, 2, 3, requires_grad=True).clone()
    with lib.inference_mode():
        view = a.view(-1)
    a.add_(2)
    with pytest.raises(RuntimeError, match="A view was created in inference mode and its base or another view "):
        _ = view.grad_fn


@BOTH
@pytest.mark.parametrize("error", [TypeError, KeyError])
def test_sequences_that_give_nothing_have_no_shape(lib, error):
    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, place):
            raise error

    for make in (lib.tensor, lib.as_tensor, lambda each: lib.tensor([each])):
        with pytest.raises(ValueError, match="could not determine the shape of object type 'Broken'"):
            make(Broken())
