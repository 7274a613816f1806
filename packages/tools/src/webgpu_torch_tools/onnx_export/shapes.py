"""Operations that rearrange, take parts, join, make tensors, and reduce dimensions."""

from __future__ import annotations

import math
from types import SimpleNamespace

import webgpu_torch as torch

from webgpu_torch_tools.fx import Node

from .writing import CONVERTERS, Converter, UnsupportedOperatorError, Value, Writer, converts

_LARGEST = 2**63 - 1


@converts("view", "reshape", "_unsafe_view")
def _reshape(w: Writer, a: SimpleNamespace) -> Value:
    sizes = getattr(a, "size", None) or getattr(a, "shape", None)
    if sizes is None and hasattr(a, "dtype"):
        raise UnsupportedOperatorError("views of another type")
    if not sizes:
        return w.op("Reshape", w.name(a.self), w.ints([]))
    return w.op(
        "Reshape",
        w.name(a.self),
        w.sizes(sizes),
        allowzero=1 if 0 in [each for each in sizes if isinstance(each, int)] else None,
    )


@converts("flatten")
def _flatten(w: Writer, a: SimpleNamespace) -> Value:
    rank = w.rank(a.self)
    if rank == 0:
        return w.reshaped(w.name(a.self), [1])
    first, last = w.dim(a.self, a.start_dim), w.dim(a.self, a.end_dim)
    rest = [-1 if size is None else size for size in w.shape(a.self)[last + 1 :]]
    if -1 in rest or 0 in rest:
        parts = [w.ints([0] * first), w.ints([-1]), w.op("Shape", w.name(a.self), start=last + 1)]
        return w.op("Reshape", w.name(a.self), w.op("Concat", *parts, axis=0))
    return w.reshaped(w.name(a.self), [*[0] * first, -1, *rest])


@converts("unflatten")
def _unflatten(w: Writer, a: SimpleNamespace) -> Value:
    dim = w.dim(a.self, a.dim)
    parts = [w.ints([0] * dim), w.sizes(a.sizes)]
    if dim + 1 < w.rank(a.self):
        parts.append(w.op("Shape", w.name(a.self), start=dim + 1))
    return w.op("Reshape", w.name(a.self), w.op("Concat", *parts, axis=0))


@converts("squeeze")
def _squeeze(w: Writer, a: SimpleNamespace) -> Value:
    given = getattr(a, "dim", None)
    dims = range(w.rank(a.self)) if given is None else [given] if isinstance(given, int) else given
    ones = [w.dim(a.self, each) for each in dims if w.rank(a.self) and w.shape(a.self)[each] == 1]
    return w.op("Squeeze", w.name(a.self), w.ints(ones)) if ones else w.op("Identity", w.name(a.self))


def _permuted(w: Writer, name: str, order: list[int]) -> str:
    return w.op("Transpose", name, perm=order)


@converts("transpose", "swapaxes", "swapdims")
def _transpose(w: Writer, a: SimpleNamespace) -> Value:
    first, second = (vars(a)[name] for name in list(vars(a))[1:3])
    order = list(range(w.rank(a.self)))
    first, second = w.dim(a.self, first), w.dim(a.self, second)
    order[first], order[second] = second, first
    return _permuted(w, w.name(a.self), order)


@converts("movedim", "moveaxis")
def _movedim(w: Writer, a: SimpleNamespace) -> Value:
    pair = [[each] if isinstance(each, int) else list(each) for each in (a.source, a.destination)]
    source, destination = ([w.dim(a.self, each) for each in part] for part in pair)
    order = [each for each in range(w.rank(a.self)) if each not in source]
    for place, each in sorted(zip(destination, source, strict=True)):
        order.insert(place, each)
    return _permuted(w, w.name(a.self), order)


@converts("expand", "broadcast_to")
def _expand(w: Writer, a: SimpleNamespace) -> Value:
    # Where the size is kept, ONNX takes 1.
    sizes = [1 if isinstance(each, int) and each == -1 else each for each in a.size]
    return w.op("Expand", w.name(a.self), w.sizes(sizes))


@converts("repeat")
def _repeat(w: Writer, a: SimpleNamespace) -> Value:
    more = len(a.repeats) - w.rank(a.self)
    name = w.op("Unsqueeze", w.name(a.self), w.ints(list(range(more)))) if more else w.name(a.self)
    return w.op("Tile", name, w.sizes(a.repeats)) if a.repeats else w.op("Identity", name)


@converts("repeat_interleave")
def _repeat_interleave(w: Writer, a: SimpleNamespace) -> Value:
    if not isinstance(a.repeats, int):
        raise UnsupportedOperatorError("repeat_interleave by a tensor")
    name, rank, dim = w.name(a.self), w.rank(a.self), a.dim
    if dim is None:
        name, rank, dim = w.reshaped(name, [-1]), 1, 0
    dim = dim % rank
    spread = w.op("Unsqueeze", name, w.ints([dim + 1]))
    tiled = w.op("Tile", spread, w.ints([a.repeats if place == dim + 1 else 1 for place in range(rank + 1)]))
    after = [] if dim + 1 == rank else [w.op("Shape", name, start=dim + 1)]
    return w.op("Reshape", tiled, w.op("Concat", w.ints([0] * dim), w.ints([-1]), *after, axis=0))


@converts("cat", "concat", "concatenate")
def _cat(w: Writer, a: SimpleNamespace) -> Value:
    parts = [each for each in a.tensors if w.shape(each) != [0]]
    return w.op("Concat", *(w.name(each, w.result_type()) for each in parts), axis=a.dim)


@converts("stack")
def _stack(w: Writer, a: SimpleNamespace) -> Value:
    dim = a.dim % (w.rank(a.tensors[0]) + 1)
    parts = [w.op("Unsqueeze", w.name(each, w.result_type()), w.ints([dim])) for each in a.tensors]
    return w.op("Concat", *parts, axis=dim)


def _parts(w: Writer, a: SimpleNamespace, sizes: list[int]) -> Value:
    if len(sizes) == 1:
        return [w.op("Identity", w.name(a.self))]
    return w.op("Split", w.name(a.self), w.ints(sizes), outputs=len(sizes), axis=a.dim)


@converts("split", "split_with_sizes")
def _split(w: Writer, a: SimpleNamespace) -> Value:
    given: Value = getattr(a, "split_size", None) or getattr(a, "split_sizes", None)
    if isinstance(given, list | tuple):
        return _parts(w, a, list(given))
    return _parts(w, a, _even(w.fixed(a.self, a.dim), given))


def _even(size: int, each: int) -> list[int]:
    return [min(each, size - start) for start in range(0, size, each)] or [0]


@converts("chunk")
def _chunk(w: Writer, a: SimpleNamespace) -> Value:
    size = w.fixed(a.self, a.dim)
    return _parts(w, a, _even(size, -(-size // a.chunks)))


@converts("unbind")
def _unbind(w: Writer, a: SimpleNamespace) -> Value:
    count = w.fixed(a.self, a.dim)
    return [w.op("Gather", w.name(a.self), w.number(place, torch.int64), axis=a.dim) for place in range(count)]


@converts("select")
def _select(w: Writer, a: SimpleNamespace) -> Value:
    return w.op("Gather", w.name(a.self), w.name(a.index, torch.int64), axis=a.dim)


def _slices(w: Writer, name: str, start: Value, end: Value, dim: int, step: int = 1) -> str:
    return w.op("Slice", name, w.sizes([start]), w.sizes([end]), w.ints([dim]), w.ints([step]))


@converts("slice")
def _slice(w: Writer, a: SimpleNamespace) -> Value:
    end = _LARGEST if a.end is None else a.end
    return _slices(w, w.name(a.self), a.start or 0, end, a.dim, a.step)


@converts("narrow")
def _narrow(w: Writer, a: SimpleNamespace) -> Value:
    if isinstance(a.start, Node) or isinstance(a.length, Node):
        start, length = w.sizes([a.start]), w.sizes([a.length])
        return w.op("Slice", w.name(a.self), start, w.op("Add", start, length), w.ints([a.dim]))
    start = a.start % max(w.shape(a.self)[a.dim] or _LARGEST, 1) if a.start < 0 else a.start
    return _slices(w, w.name(a.self), start, start + a.length, a.dim)


@converts("flip")
def _flip(w: Writer, a: SimpleNamespace) -> Value:
    count = len(a.dims)
    lists = ([-1] * count, [-_LARGEST] * count, list(a.dims), [-1] * count)
    return w.op("Slice", w.name(a.self), *(w.ints(each) for each in lists))


@converts("roll")
def _roll(w: Writer, a: SimpleNamespace) -> Value:
    if not a.dims:
        raise UnsupportedOperatorError("roll without dimensions")
    name = w.name(a.self)
    for shift, dim in zip(a.shifts, a.dims, strict=True):
        first = _slices(w, name, -(shift % w.fixed(a.self, dim)), _LARGEST, dim)
        if shift % w.fixed(a.self, dim):
            name = w.op("Concat", first, _slices(w, name, 0, -(shift % w.fixed(a.self, dim)), dim), axis=dim)
    return w.op("Identity", name)


@converts("tril", "triu")
def _tri(w: Writer, a: SimpleNamespace) -> Value:
    return w.op("Trilu", w.name(a.self), w.number(a.diagonal, torch.int64), upper=int("triu" in w.describe()))


@converts("pad", "constant_pad_nd")
def _pad(w: Writer, a: SimpleNamespace) -> Value:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    rank = w.rank(a.self)
    pairs = [(0, 0)] * (rank - len(a.pad) // 2) + [(a.pad[i], a.pad[i + 1]) for i in range(len(a.pad) - 2, -2, -2)]
    amounts = w.sizes([first for first, _ in pairs] + [second for _, second in pairs])
    mode = getattr(a, "mode", "constant")
    value = [] if mode != "constant" or not a.value else [w.number(a.value, w.result_type())]
    return w.op("Pad", w.name(a.self), amounts, *value, mode=modes[mode])


# Look-ups


@converts("index")
def _index(w: Writer, a: SimpleNamespace) -> Value:
    given = {place: each for place, each in enumerate(a.indices) if each is not None}
    if any(w.dtype(each) is torch.bool for each in given.values()):
        raise UnsupportedOperatorError("a mask as a subscript: use torch.where")
    places = list(given)
    if len(places) == 1:
        return w.op("Gather", w.name(a.self), w.name(given[places[0]], torch.int64), axis=places[0])
    if places != list(range(places[0], places[-1] + 1)):
        raise UnsupportedOperatorError("several subscripts with others between them")
    rank, first = w.rank(a.self), places[0]
    rest = [each for each in range(rank) if each not in places]
    indices = [w.name(each, torch.int64) for each in given.values()]
    total = indices[0]
    for each in indices[1:]:
        total = w.op("Add", w.op("Mul", total, w.number(0, torch.int64)), w.op("Mul", each, w.number(0, torch.int64)))
    shape = w.op("Shape", total)
    columns = [w.op("Unsqueeze", w.op("Expand", each, shape), w.ints([-1])) for each in indices]
    found = w.op("GatherND", _permuted(w, w.name(a.self), [*places, *rest]), w.op("Concat", *columns, axis=-1))
    if not first:
        return found
    count = max(w.rank(each) for each in given.values())
    # What stands before the subscripts goes to the front again.
    order = [*range(count, count + first), *range(count), *range(count + first, count + len(rest))]
    return _permuted(w, found, order)


@converts("scatter", "scatter_add")
def _scatter(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    source = getattr(a, "src", None)
    reduce = (
        "add"
        if "scatter_add" in w.describe()
        else {None: None, "add": "add", "multiply": "mul"}[getattr(a, "reduce", None)]
    )
    if source is None:
        updates = w.op("Expand", w.name(a.value, dtype), w.shape_of(a.index))
    else:
        updates = w.name(source)
        if w.shape(source) != w.shape(a.index):
            sizes = w.shape_of(a.index)
            updates = w.op("Slice", updates, w.ints([0] * w.rank(source)), sizes)
    return w.op("ScatterElements", w.name(a.self), w.name(a.index), updates, axis=a.dim, reduction=reduce)


@converts("one_hot")
def _one_hot(w: Writer, a: SimpleNamespace) -> Value:
    if a.num_classes < 0:
        raise UnsupportedOperatorError("one_hot without num_classes")
    return w.op("OneHot", w.name(a.self), w.number(a.num_classes, torch.int64), w.ints([0, 1]), axis=-1)


@converts("topk")
def _topk(w: Writer, a: SimpleNamespace) -> Value:
    return w.op(
        "TopK", w.name(a.self), w.sizes([a.k]), outputs=2, axis=a.dim, largest=int(a.largest), sorted=int(a.sorted)
    )


@converts("sort", "argsort")
def _sort(w: Writer, a: SimpleNamespace) -> Value:
    count = w.op("Shape", w.name(a.self), start=w.dim(a.self, a.dim), end=w.dim(a.self, a.dim) + 1)
    found = w.op("TopK", w.name(a.self), count, outputs=2, axis=a.dim, largest=int(a.descending))
    return found[1] if "argsort" in w.describe() else found


# New tensors


def _filled(w: Writer, value: complex, sizes: str) -> str:
    return w.op("Expand", w.number(value, w.result_type()), sizes)


def _maker(value: float, like: bool) -> Converter:
    if like:
        return lambda w, a: _filled(w, value, w.shape_of(a.self))
    return lambda w, a: _filled(w, value, w.sizes(a.size))


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    CONVERTERS[_name] = CONVERTERS[f"new_{_name}"] = _maker(_value, False)
    CONVERTERS[f"{_name}_like"] = _maker(_value, True)


@converts("full", "new_full", "full_like", "fill", "zero")
def _full(w: Writer, a: SimpleNamespace) -> Value:
    value = getattr(a, "fill_value", getattr(a, "value", 0))
    sizes = w.sizes(a.size) if hasattr(a, "size") else w.shape_of(a.self)
    return w.op("Expand", w.name(value, w.result_type()), sizes)


@converts("arange")
def _arange(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    start, step = getattr(a, "start", 0), getattr(a, "step", 1)
    return w.op("Range", *(w.name(each, dtype) for each in (start, a.end, step)))


@converts("linspace", "eye")
def _constant(w: Writer, a: SimpleNamespace) -> Value:
    assert w.node is not None
    made = w.node.target(*w.node.args, **{**w.node.kwargs, "device": "cpu"})  # type: ignore[operator]
    return w.op("Identity", w.array(made))


@converts("meshgrid")
def _meshgrid(w: Writer, a: SimpleNamespace) -> Value:
    count = len(a.tensors)
    if getattr(a, "indexing", "ij") != "ij":
        raise UnsupportedOperatorError("meshgrid by columns")
    sizes = [w.reshaped(w.op("Shape", w.name(each)), [-1]) if w.rank(each) else w.ints([1]) for each in a.tensors]
    shape = w.op("Concat", *sizes, axis=0)
    lines = [
        w.reshaped(w.name(each), [-1 if at == place else 1 for at in range(count)])
        for place, each in enumerate(a.tensors)
    ]
    return [w.op("Expand", each, shape) for each in lines]


# Reductions


def _axes(w: Writer, a: SimpleNamespace) -> list[str]:
    given = getattr(a, "dim", None)
    dims = [given] if isinstance(given, int) else given
    return [w.ints([w.dim(a.self, each) for each in dims])] if dims else []


def _reduced(w: Writer, a: SimpleNamespace, kind: str, name: str | None = None, keepdim: bool | None = None) -> str:
    name = w.name(a.self, w.result_type()) if name is None else name
    if not w.rank(a.self):
        return w.op("Identity", name)
    keep = getattr(a, "keepdim", False) if keepdim is None else keepdim
    return w.op(kind, name, *_axes(w, a), keepdims=int(keep))


def _reduction(kind: str) -> Converter:
    return lambda w, a: _reduced(w, a, kind)


for _name, _kind in (("sum", "ReduceSum"), ("mean", "ReduceMean"), ("amax", "ReduceMax"), ("amin", "ReduceMin"),
                     ("prod", "ReduceProd"), ("logsumexp", "ReduceLogSumExp")):  # fmt: skip
    CONVERTERS[_name] = _reduction(_kind)


@converts("max", "min")
def _extreme(w: Writer, a: SimpleNamespace) -> Value:
    kind = "Max" if ".max." in w.describe() else "Min"
    if hasattr(a, "other"):
        return w.op(kind, *w.common(a.self, a.other))
    if not hasattr(a, "dim"):
        return _reduced(w, a, f"Reduce{kind}")
    return [_reduced(w, a, f"Reduce{kind}"), _position(w, a, f"Arg{kind}")]


def _position(w: Writer, a: SimpleNamespace, kind: str) -> str:
    name = w.name(a.self)
    if a.dim is None:
        return w.op(kind, w.reshaped(name, [-1]), axis=0, keepdims=int(a.keepdim))
    return w.op(kind, name, axis=a.dim, keepdims=int(a.keepdim))


@converts("argmax", "argmin")
def _argmax(w: Writer, a: SimpleNamespace) -> Value:
    return _position(w, a, "ArgMax" if "argmax" in w.describe() else "ArgMin")


@converts("any", "all")
def _any(w: Writer, a: SimpleNamespace) -> Value:
    truth = w.cast(w.name(a.self, torch.bool), torch.int32)
    return w.cast(_reduced(w, a, "ReduceMax" if ".any." in w.describe() else "ReduceMin", truth), torch.bool)


@converts("var", "std", "var_mean")
def _var(w: Writer, a: SimpleNamespace) -> Value:
    correction = float(a.unbiased) if hasattr(a, "unbiased") else 1.0 if a.correction is None else float(a.correction)
    name, dtype = w.name(a.self), w.result_type()
    mean = _reduced(w, a, "ReduceMean", name, True)
    apart = w.op("Sub", name, mean)
    squares = _reduced(w, a, "ReduceSum", w.op("Mul", apart, apart))
    given = getattr(a, "dim", None)
    dims = [given] if isinstance(given, int) else given or list(range(w.rank(a.self)))
    count = math.prod(w.fixed(a.self, each) for each in dims) - correction
    result = w.op("Div", squares, w.number(count, dtype))
    if ".std." in w.describe():
        return w.op("Sqrt", result)
    return [result, _reduced(w, a, "ReduceMean", name)] if "var_mean" in w.describe() else result


@converts("linalg_vector_norm", "norm")
def _norm(w: Writer, a: SimpleNamespace) -> Value:
    order = getattr(a, "ord", getattr(a, "p", 2))
    order = 2 if order is None else order
    name, dtype = w.name(a.self, w.result_type()), w.result_type()
    if order in (1, 2):
        return _reduced(w, a, f"ReduceL{int(order)}", name)
    if math.isinf(order):
        return _reduced(w, a, "ReduceMax" if order > 0 else "ReduceMin", w.op("Abs", name))
    total = _reduced(w, a, "ReduceSum", w.op("Pow", w.op("Abs", name), w.number(order, dtype)))
    return w.op("Pow", total, w.number(1 / order, dtype))


#: what takes one line
CONVERTERS |= {
    **dict.fromkeys(("view_as", "reshape_as"), lambda w, a: w.op("Reshape", w.name(a.self), w.shape_of(a.other))),
    "unsqueeze": lambda w, a: w.op("Unsqueeze", w.name(a.self), w.ints([a.dim])),
    "t": lambda w, a: _permuted(w, w.name(a.self), list(range(w.rank(a.self)))[::-1]),
    "permute": lambda w, a: _permuted(w, w.name(a.self), [w.dim(a.self, each) for each in a.dims]),
    "expand_as": lambda w, a: w.op("Expand", w.name(a.self), w.shape_of(a.other)),
    "gather": lambda w, a: w.op("GatherElements", w.name(a.self), w.name(a.index), axis=a.dim),
    "index_select": lambda w, a: w.op("Gather", w.name(a.self), w.name(a.index), axis=a.dim),
    "embedding": lambda w, a: w.op("Gather", w.name(a.weight), w.name(a.indices)),
    "copy": lambda w, a: w.op("Expand", w.name(a.src, w.result_type()), w.shape_of(a.self)),
    "sym_size": lambda w, a: w.size(a.self, w.dim(a.self, a.dim)),
    "cumsum": lambda w, a: w.op("CumSum", w.name(a.self, w.result_type()), w.number(a.dim, torch.int64)),
}  # fmt: skip
