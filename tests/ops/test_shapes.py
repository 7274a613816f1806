"""Views, joins and rearrangements against PyTorch: values, strides, aliasing, gradients, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import OURS, both_raise, check, kind_of, sample

# Results are views of the input, so strides must agree too.
VIEWS = {
    "view": lambda t, x: x.view(6, 4),
    "view -1": lambda t, x: x.view(-1),
    "view 4": lambda t, x: x.view(2, 1, 3, -1),
    "reshape": lambda t, x: x.reshape(4, -1),
    "reshape tuple": lambda t, x: t.reshape(x, (2, 12)),
    "transpose": lambda t, x: x.transpose(0, 2),
    "transpose negative": lambda t, x: t.transpose(x, -1, 1),
    "swapaxes": lambda t, x: x.swapaxes(0, 1),
    "permute": lambda t, x: x.permute(2, 0, 1),
    "permute tuple": lambda t, x: t.permute(x, (1, 2, 0)),
    "T": lambda t, x: x[0].T,
    "mT": lambda t, x: x.mT,
    "t": lambda t, x: x[1].t(),
    "expand": lambda t, x: x[:, :1].expand(2, 5, 4),
    "expand new": lambda t, x: x.expand(3, -1, -1, -1),
    "expand_as": lambda t, x: x[:, :1].expand_as(x),
    "broadcast_to": lambda t, x: t.broadcast_to(x[0], (5, 3, 4)),
    "squeeze": lambda t, x: x[:, :1].squeeze(),
    "squeeze dim": lambda t, x: x[:, :1].squeeze(1),
    "squeeze none": lambda t, x: x.squeeze(0),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "unsqueeze 1": lambda t, x: t.unsqueeze(x, 1),
    "narrow": lambda t, x: x.narrow(1, 1, 2),
    "select": lambda t, x: x.select(2, -1),
    "diagonal": lambda t, x: x.diagonal(0, 1, 2),
    "diagonal 1": lambda t, x: t.diagonal(x, 1),
    "unfold": lambda t, x: x.unfold(2, 2, 1),
    "movedim": lambda t, x: x.movedim(0, -1),
    "movedim 2": lambda t, x: t.movedim(x, (0, 1), (2, 0)),
    "flatten view": lambda t, x: x.flatten(1),
    "unflatten": lambda t, x: x.unflatten(2, (2, 2)),
    "unflatten -1": lambda t, x: x.unflatten(-1, (-1, 2)),
    "as_strided": lambda t, x: x.as_strided((2, 3), (1, 2), 3),
    "split": lambda t, x: x.split(2, 1),
    "split sizes": lambda t, x: t.split(x, [1, 3], dim=2),
    "chunk": lambda t, x: x.chunk(2, 1),
    "chunk uneven": lambda t, x: t.chunk(x, 3, 2),
    "unbind": lambda t, x: x.unbind(1),
    "unbind 0": lambda t, x: t.unbind(x),
    "slice": lambda t, x: x[:, 1:, ::2],
    "none": lambda t, x: x[None, :, None],
    "view_as": lambda t, x: x.view_as(x.reshape(4, 6).reshape(2, 3, 4)),
    "detach": lambda t, x: x.detach(),
    "contiguous same": lambda t, x: x.contiguous(),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, x[:, :1]),
    "tensor_split": lambda t, x: t.tensor_split(x, 3, 2),
    "hsplit": lambda t, x: x.hsplit(3),
    "ravel": lambda t, x: x.ravel(),
    "swapdims": lambda t, x: x.swapdims(0, 2),
    "adjoint": lambda t, x: x.adjoint(),
    "unsafe_chunk": lambda t, x: x.unsafe_chunk(2, 1),
    "moveaxis": lambda t, x: x.moveaxis(2, 0),
    "select of last": lambda t, x: x[..., 1].unsqueeze(0).transpose(0, 1),
}
COPIES = {
    "flip": lambda t, x: x.flip(0, 2),
    "flip one": lambda t, x: t.flip(x, (1,)),
    "roll": lambda t, x: x.roll(1, 2),
    "roll all": lambda t, x: t.roll(x, 5),
    "roll 2": lambda t, x: x.roll((1, -2), (0, 2)),
    "cat": lambda t, x: t.cat([x, x[:1], x]),
    "cat 1": lambda t, x: t.cat((x, x[:, :0], x), dim=-1) if False else t.cat((x, x), dim=-1),
    "cat empty": lambda t, x: t.cat((x[:, :0], x), 1),
    "cat legacy": lambda t, x: t.cat((x.reshape(-1)[:0], x), 1),
    "concat": lambda t, x: t.concat((x, x), 0),
    "stack": lambda t, x: t.stack([x, x * 2], 1),
    "stack -1": lambda t, x: t.stack((x, x), -1),
    "hstack": lambda t, x: t.hstack((x, x)),
    "vstack": lambda t, x: t.vstack((x, x)),
    "tile": lambda t, x: x.tile(2, 1),
    "tile more": lambda t, x: t.tile(x, (2, 1, 1, 3)),
    "repeat": lambda t, x: x.repeat(2, 1, 3),
    "repeat new": lambda t, x: x.repeat(2, 1, 1, 1),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2, 1),
    "repeat_interleave flat": lambda t, x: t.repeat_interleave(x, 3),
    "tril": lambda t, x: x.tril(),
    "tril 1": lambda t, x: t.tril(x, 1),
    "triu": lambda t, x: x.triu(-1),
    "triu 2": lambda t, x: t.triu(x, 2),
    "flatten copy": lambda t, x: x.transpose(0, 1).flatten(),
    "reshape copy": lambda t, x: x.transpose(0, 2).reshape(4, 6),
    "contiguous": lambda t, x: x.transpose(0, 2).contiguous(),
    "clone": lambda t, x: x.transpose(0, 2).clone(),
    "pad": lambda t, x: t.F.pad(x, (1, 2)),
    "pad 2": lambda t, x: t.F.pad(x, (0, 1, 2, 0), value=3),
    "pad crop": lambda t, x: t.F.pad(x, (-1, 2)),
    "pad reflect": lambda t, x: t.F.pad(x, (1, 2), mode="reflect"),
    "pad replicate": lambda t, x: t.F.pad(x, (2, 1), mode="replicate"),
    "pad circular": lambda t, x: t.F.pad(x, (1, 1), mode="circular"),
    "expand sum": lambda t, x: x[:, :, None].expand(2, 3, 5, 4).sum(2),
    "view of view": lambda t, x: x[1:].transpose(1, 2)[:, ::2].reshape(-1),
    "cat views": lambda t, x: t.cat([x[..., 2:], x[..., :2]], -1),
    "cat promote": lambda t, x: t.cat([x, t.ones(1, 3, 4, dtype=t.float32).to(x.device)]),
    "new_zeros": lambda t, x: x.new_zeros(2, 3) + x[:, :, 0],
    "zeros_like": lambda t, x: t.zeros_like(x) + t.ones_like(x) * x,
    "full_like": lambda t, x: t.full_like(x, 3) * x,
    "dstack": lambda t, x: t.dstack((x, x)),
    "rot90": lambda t, x: t.rot90(x, 1, (0, 1)),
    "column_stack": lambda t, x: t.column_stack((x, x)),
    "diag": lambda t, x: t.diag(x[0, 0]),
    "diag_embed": lambda t, x: t.diag_embed(x[0]),
    "meshgrid": lambda t, x: t.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
    "fliplr": lambda t, x: t.fliplr(x),
    "trace": lambda t, x: t.trace(x[0]),
}


def _has(name: str, functions) -> None:
    """Skip what this library does not offer (the compatibility table lists it)."""
    import webgpu_torch_core as core

    word = name.split(" ")[0]
    if (
        not hasattr(core, word)
        and not hasattr(core.Tensor, word)
        and not hasattr(core.functional, word)
        and hasattr(torch, word)
    ):
        pytest.skip(f"{word} is not offered")


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_views(name: str, device: str) -> None:
    _has(name, VIEWS)
    for dtype in ("float32", "int64", "bool", "float16"):
        assert check(VIEWS[name], [sample((2, 3, 4), kind_of(dtype, device))], device, strides=True, where=name)
    if "as_strided" not in name:
        check(
            VIEWS[name],
            [sample((4, 3, 2), torch.float32).transpose(0, 2)],
            device,
            strides=True,
            where=f"{name} of transposed",
        )
        check(
            VIEWS[name],
            [sample((2, 5, 9), torch.float32)[:, 1:4, ::2][..., :4]],
            device,
            strides=True,
            where=f"{name} of slices",
        )


@pytest.mark.parametrize("name", sorted(COPIES))
def test_copies(name: str, device: str) -> None:
    _has(name, COPIES)
    for dtype in ("float32", "int64", "bool", "float16", "uint8"):
        assert check(
            COPIES[name], [sample((2, 3, 4), kind_of(dtype, device))], device, where=f"{name} {dtype}"
        ) or dtype in ("bool", "float16", "uint8", "int64")
    check(COPIES[name], [sample((4, 3, 2), torch.float32).transpose(0, 2)], device, where=f"{name} of transposed")
    check(COPIES[name], [sample((4, 3, 9), torch.float32)[1:3, :, ::2][..., :4]], device, where=f"{name} of slices")


ALIASING = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, 1],
    "transposed": lambda x: x.t(),
    "strided": lambda x: x[1:, ::2],
    "viewed": lambda x: x.view(-1)[3:7],
    "diagonal": lambda x: x.diagonal(),
    "unsqueezed": lambda x: x.unsqueeze(1)[2],
    "permuted": lambda x: x.permute(1, 0)[1:3],
    "narrowed": lambda x: x.narrow(0, 1, 2),
    "unbound": lambda x: x.unbind(0)[1],
    "chunked": lambda x: x.chunk(2, 1)[1],
    "element": lambda x: x[1, 2],
    "unfolded": lambda x: x.unfold(1, 2, 2)[1],
    "strided more": lambda x: x.as_strided((2, 2), (5, 1), 2),
    "expanded row": lambda x: x[1].expand(4)[1:3],
}
WRITES = {
    "add": lambda v: v.add_(10),
    "mul": lambda v: v.mul_(3),
    "copy": lambda v: v.copy_(v * 2 + 1),
    "zero": lambda v: v.zero_(),
    "exp": lambda v: v.exp_(),
    "fill": lambda v: v.fill_(5),
    "setitem": lambda v: v.__setitem__(..., 4),
    "masked": lambda v: v.masked_fill_(v > 1, -1),
}


@pytest.mark.parametrize("write", sorted(WRITES))
@pytest.mark.parametrize("name", sorted(ALIASING))
def test_writing_through_views(name: str, write: str, device: str) -> None:
    def plain(t, x):
        x = x.clone()
        other = x[:, :2]
        view = ALIASING[name](x)
        WRITES[write](view)
        before = x * 1
        WRITES[write](x)
        return before, x, view, other

    def differentiated(t, x):
        base = x * 2
        side = base[1]
        view = ALIASING[name](base)
        WRITES[write](view)
        return base * base, view, side, view.sum() * base

    x = sample((3, 4), torch.float32, 1, 0.1, 2)
    assert check(plain, [x], device, where="plain", gradient=False)
    # PyTorch refuses to differentiate writes through the views that unbind and chunk return.
    assert check(differentiated, [x], device, draw=torch.rand, where="differentiated") or name in ("chunked", "unbound")


IN_PLACE_GRADIENTS = {
    "leaf copy": lambda t, x, y: t.zeros(3, 4, device=x.device).copy_(x) * y,
    "row from tensor": lambda t, x, y: _written(x * 1, lambda b: b[1].copy_(y[0])),
    "row times": lambda t, x, y: _written(x * 1, lambda b: b[1].mul_(y[0])),
    "add of base": lambda t, x, y: _written(x * 1, lambda b: b[:, 1].add_(b[:, 2])),
    "setitem tensor": lambda t, x, y: _written(x * 1, lambda b: b.__setitem__((slice(None), 2), y[:, 0])),
    "into zeros": lambda t, x, y: _written(t.zeros(3, 4, device=x.device), lambda b: b.__setitem__(1, x[0] * y[1])),
    "nested view": lambda t, x, y: _written(x * 1, lambda b: b[1:][:, 1:].t().mul_(2)),
    "two writes": lambda t, x, y: _written(x * 1, lambda b: (b[0].add_(y[1]), b[0].mul_(y[2]), b.relu_())),
    "view read after base write": lambda t, x, y: _read_after(x * 1, y),
    "iadd slice": lambda t, x, y: _iadd(x * 1, y),
    "broadcast add": lambda t, x, y: (x * 1).add_(y[:, :1]),
    "squeeze_": lambda t, x, y: (x * 1).unsqueeze(0).squeeze(0).mul_(y),
    "unsqueeze in place": lambda t, x, y: _written(x * 1, lambda b: b.unsqueeze_(0)),
    "transpose in place": lambda t, x, y: _written(x * 1, lambda b: b.t_()),
    "self multiplication": lambda t, x, y: (x * 1).mul_(x),
    "sub_": lambda t, x, y: (x * 1).sub_(y, alpha=2).div_(y + 5),
    "index add": lambda t, x, y: (x * 1).index_add_(0, t.tensor([0, 2], device=x.device), y[:2]),
    "scatter": lambda t, x, y: (x * 1).scatter_(1, t.tensor([[0], [1], [2]], device=x.device), y[:, :1]),
    "masked": lambda t, x, y: (x * 1).masked_fill_(y > 1, 2.0),
}


def _written(base, write):
    write(base)
    return base


def _read_after(base, y):
    view = base[1]
    base.mul_(y)
    return view * view


def _iadd(base, y):
    base[0] += y[1]
    base[:, 1] *= 2
    base -= y
    return base


@pytest.mark.parametrize("name", sorted(IN_PLACE_GRADIENTS))
def test_gradients_through_writes(name: str, device: str) -> None:
    assert check(
        IN_PLACE_GRADIENTS[name],
        [sample((3, 4), torch.float32, 1, 0.2, 2), sample((3, 4), torch.float32, 2, 0.2, 2)],
        device,
        where=name,
    )


ERRORS = {
    "view size": (lambda t, x: x.view(5, 5), "is invalid for input of size"),
    "view strides": (lambda t, x: x.t().view(-1), "view size is not compatible"),
    "reshape": (lambda t, x: x.reshape(7), "is invalid for input of size"),
    "two -1": (lambda t, x: x.reshape(-1, -1), "only one dimension can be inferred"),
    "transpose": (lambda t, x: x.transpose(0, 2), "Dimension out of range"),
    "permute": (lambda t, x: x.permute(0), "permute(sparse_coo)"),
    "permute repeated": (lambda t, x: x.permute(0, 0), ""),
    "expand": (lambda t, x: x.expand(3, 5), "must match the existing size"),
    "expand fewer": (lambda t, x: x.expand(4), "must be greater or equal"),
    "cat": (lambda t, x: t.cat([x, x[:, :2]]), "Sizes of tensors must match except in dimension 0"),
    "cat nothing": (lambda t, x: t.cat([]), ""),
    "stack": (lambda t, x: t.stack([x, x[:2]]), "stack expects each tensor to be equal size"),
    "broadcast": (lambda t, x: x + x[:2], "must match the size of tensor"),
    "split": (lambda t, x: x.split([1, 1], 0), "split_with_sizes expects split_sizes to sum exactly to 3"),
    "narrow": (lambda t, x: x.narrow(0, 2, 3), "exceeds dimension size"),
    "select": (lambda t, x: x.select(0, 9), "out of range"),
    "index": (lambda t, x: x[5], "out of bounds"),
    "too many": (lambda t, x: x[0, 0, 0], "too many indices"),
    "negative step": (lambda t, x: x[::-1], "step must be greater than zero"),
    "unflatten": (lambda t, x: x.unflatten(1, (3, 2)), ""),
    "in-place broadcast": (lambda t, x: x[0].add_(x + 1), "doesn't match the broadcast shape"),
    "expanded write": (lambda t, x: x[:1].expand(3, 4).add_(1), "more than one element of the written-to tensor"),
    "item": (lambda t, x: x.item(), "cannot be converted to Scalar"),
    "bool": (lambda t, x: bool(x), "is ambiguous"),
    "int result": (lambda t, x: x.long().div_(2), "can't be cast to the desired output type"),
    "len": (lambda t, x: len(x[0, 0]), "0-d"),
    "iterate": (lambda t, x: list(x[0, 0]), "0-d"),
    "chunk": (lambda t, x: x.chunk(0), ""),
    "squeeze": (lambda t, x: x.squeeze(3), "Dimension out of range"),
    "repeat": (lambda t, x: x.repeat(2), "Number of dimensions of repeat dims"),
    "pad": (lambda t, x: t.F.pad(x, (1, 1, 1, 1, 1, 1)), ""),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, device: str) -> None:
    function, words = ERRORS[name]
    both_raise(function, [sample((3, 4), torch.float32)], device, words)


@pytest.mark.parametrize("repeats", [(1, 1), (3, 1), (1, 4), (2, 1, 1), (0, 1)])
def test_repeated_elements_are_new(repeats: tuple[int, ...], device: str) -> None:
    """Even where a view would do, as with one repetition or over a dimension of one element."""
    for shape in ((2, 3), (1, 3), (3, 1), (1, 1)):
        found = OURS.ones(*shape, device=device).repeat(*repeats)
        wanted = torch.ones(*shape).repeat(*repeats)
        assert found.shape == wanted.shape and found.stride() == wanted.stride() and found.is_contiguous()
        source = OURS.ones(*shape, device=device)
        source.repeat(*repeats).add_(1)
        assert source.cpu().tolist() == torch.ones(*shape).tolist()


def test_a_size_that_is_there_already() -> None:
    """Resizing to it neither moves elements nor counts as a write."""

    def run(library: Any) -> list[Any]:
        found: list[Any] = []
        for x in (library.arange(6.0).reshape(2, 3).t(), library.arange(6.0)[2:], library.empty(0)):
            before = x._version
            x.resize_(x.shape).resize_as_(x)
            found.append((x.stride(), x.storage_offset(), x._version - before, x.tolist()))
        last = library.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=library.channels_last)
        found.append(last.resize_(2, 3, 4, 5).stride())
        found.append(last.resize_(2, 3, 4, 5, memory_format=library.contiguous_format).stride())
        return found

    assert run(OURS) == run(torch)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=50), st.integers(0, 2), st.lists(st.integers(0, 49), max_size=3),
    st.booleans(),
)  # fmt: skip
def test_many_pieces(sizes: list[int], dim: int, again: list[int], turned: bool) -> None:
    """Of more pieces than a kernel joins, some of them given more than once."""
    shapes = [(*(2, 3)[:dim], size, *(2, 3)[dim:]) for size in sizes]
    pieces = [torch.full(shape, float(number)) + torch.rand(shape) for number, shape in enumerate(shapes)]
    with OURS.device("cpu"):
        mine = [OURS.tensor(each.tolist()).reshape(each.shape) for each in pieces]
        pieces, mine = ([*side, *(side[each % len(side)] for each in again)] for side in (pieces, mine))
        if turned:
            mine, pieces = ([each.transpose(0, 2) for each in side] for side in (mine, pieces))
        at = {0: 2, 2: 0}.get(dim, dim) if turned else dim
        for _ in range(2):
            found, expected = OURS.cat([each * 2 for each in mine], at), torch.cat([each * 2 for each in pieces], at)
            assert torch.equal(torch.tensor(found.tolist()).reshape(found.shape), expected)
            found = OURS.cat(mine, at)
            assert torch.equal(torch.tensor(found.tolist()).reshape(found.shape), torch.cat(pieces, at))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", ["resize_", "empty", "new_zeros"])
@pytest.mark.parametrize(
    "sizes",
    [
        [2, 4, 1 << 29, 1 << 29], [8, 8, 1 << 29, 1 << 29], [0, 4, 1 << 61], [1 << 40, 1 << 40], [4, 1 << 61],
        [0, 1 << 62, 1 << 62], [1 << 62, 4, 0], [1 << 32, 1 << 31, 0], [1 << 33, 1 << 31, 0],
    ],
)  # fmt: skip
def test_numbers_of_elements_that_do_not_fit(sizes: list[int], name: str, kind: str) -> None:
    def run(t: Any) -> Any:
        dtype = getattr(t, kind)
        try:
            if name == "empty":
                return tuple(t.empty(sizes, dtype=dtype).shape)
            made = t.empty((), dtype=dtype)
            return tuple(getattr(made, name)(sizes).shape)
        except RuntimeError as error:
            return type(error), str(error).partition("\n")[0]

    assert run(OURS) == run(torch)
