"""Random programs over views: what they are made of, and running one on PyTorch and on this library side by side.

A program starts from one tensor and keeps a pool of tensors that share its memory. Each step takes a tensor of the pool, and
makes a view of it, writes into it, or reads or writes it by a subscript. The arguments are drawn from the oracle's shapes, so
that most steps are valid; where the oracle refuses a step, this library has to refuse it with an exception of that type.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from ops_oracle import ORACLE, OURS, to_ours, to_torch

Step = Callable[[Any, Any], Any]
KINDS = ("float32", "int64", "bool", "uint8", "float16", "complex64", "int32", "float64", "bfloat16", "int8")
REFUSED = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def base(draw: random.Random, kinds: tuple[str, ...] = KINDS) -> torch.Tensor:
    """Return a small tensor of small numbers, all of them exact in every type."""
    kind = getattr(torch, draw.choice(kinds))
    shape = [
        draw.choice((0, 1, 2, 2, 3, 3, 4)) if draw.random() < 0.97 else 5
        for _ in range(draw.choice((0, 1, 2, 2, 3, 3, 4)))
    ]
    return numbers(draw, shape, kind)


def numbers(draw: random.Random, shape: list[int], kind: torch.dtype) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    values = torch.tensor([draw.randrange(0, 9) for _ in range(count)], dtype=torch.int64).reshape(shape)
    if kind is torch.bool:
        return values % 2 == 0
    if kind.is_complex:
        return torch.complex(values.float(), values.flip(0).float() if shape else values.float() + 1)
    return values.to(kind)


def dimension(draw: random.Random, x: torch.Tensor) -> int:
    """Return a dimension, now and then one that is not there."""
    limit = max(x.ndim, 1)
    return draw.randrange(-limit, limit) if draw.random() < 0.97 else limit + draw.randrange(2)


def factors(draw: random.Random, count: int) -> list[int]:
    """Return sizes whose product is a number."""
    if count == 0:
        return [draw.choice((0, 1, 2)) for _ in range(draw.randrange(2))] + [0]
    sizes: list[int] = []
    while count > 1:
        divisors = [each for each in range(2, count + 1) if count % each == 0]
        sizes.append(draw.choice(divisors))
        count //= sizes[-1]
    for _ in range(draw.randrange(2)):
        sizes.insert(draw.randrange(len(sizes) + 1), 1)
    if sizes and draw.random() < 0.2:
        sizes[draw.randrange(len(sizes))] = -1
    if draw.random() < 0.02:
        sizes.append(2)
    return sizes


# Views


def shaped(draw: random.Random, x: torch.Tensor) -> Step:
    sizes, name = factors(draw, x.numel()), draw.choice(("reshape", "view"))
    return lambda t, y: getattr(y, name)(sizes)


def transposed(draw: random.Random, x: torch.Tensor) -> Step:
    first, second = dimension(draw, x), dimension(draw, x)
    name = draw.choice(("transpose", "swapaxes", "movedim", "swapdims"))
    return lambda t, y: getattr(y, name)(first, second)


def permuted(draw: random.Random, x: torch.Tensor) -> Step:
    order = list(range(x.ndim))
    draw.shuffle(order)
    if order and draw.random() < 0.03:
        order[0] = order[-1]
    return lambda t, y: y.permute(order)


def narrowed(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    start = draw.randrange(-size, size + 1) if draw.random() < 0.95 else size + 1
    left = size - start if start >= 0 else -start
    length = draw.randrange(max(left, 0) + 1) if draw.random() < 0.95 else left + 1
    return lambda t, y: y.narrow(dim, start, length)


def selected(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    index = draw.randrange(-size, size) if size and draw.random() < 0.95 else size
    return lambda t, y: y.select(dim, index)


def expanded(draw: random.Random, x: torch.Tensor) -> Step:
    sizes = [
        draw.choice((2, 3, -1, 0)) if each == 1 and draw.random() < 0.6 else draw.choice((each, -1)) for each in x.shape
    ]
    for _ in range(draw.randrange(2)):
        sizes.insert(0, draw.choice((1, 2, 3)))
    if draw.random() < 0.03:
        sizes.append(7)
    return lambda t, y: y.expand(sizes)


def unfolded(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    window, step = draw.randrange(size + 1 + (draw.random() < 0.05)), draw.choice((1, 1, 2, 3))
    return lambda t, y: y.unfold(dim, window, step)


def diagonal(draw: random.Random, x: torch.Tensor) -> Step:
    offset, first, second = draw.randrange(-3, 4), dimension(draw, x), dimension(draw, x)
    return lambda t, y: y.diagonal(offset, first, second)


def strided(draw: random.Random, x: torch.Tensor) -> Step:
    size = [draw.choice((1, 2, 2, 3)) for _ in range(draw.randrange(3))]
    stride = [draw.choice((0, 1, 1, 2, 3)) for _ in size]
    offset = draw.choice((None, 0, 1, 2))
    return lambda t, y: y.as_strided(size, stride, offset)


def squeezed(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    choice = draw.randrange(4)
    if choice == 0:
        return lambda t, y: y.squeeze()
    if choice == 1:
        return lambda t, y: y.squeeze(dim)
    if choice == 2:
        return lambda t, y: y.squeeze((dim,))
    where = draw.randrange(-x.ndim - 1, x.ndim + 1)
    return lambda t, y: y.unsqueeze(where)


def flattened(draw: random.Random, x: torch.Tensor) -> Step:
    first, second = dimension(draw, x), dimension(draw, x)
    choice = draw.randrange(4)
    if choice == 0:
        return lambda t, y: y.flatten(first, second)
    if choice == 1:
        return lambda t, y: y.ravel()
    dim = dimension(draw, x)
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    sizes = factors(draw, size) or [1]
    return lambda t, y: y.unflatten(dim, sizes)


def split(draw: random.Random, x: torch.Tensor) -> Step:
    dim, amount, which = dimension(draw, x), draw.choice((1, 2, 3)), draw.randrange(3)
    name = draw.choice(("split", "chunk", "tensor_split", "unbind"))
    if name == "unbind":
        return lambda t, y: _one(y.unbind(dim), which)
    if name == "split" and x.ndim and draw.random() < 0.3:
        size = x.shape[dim] if -x.ndim <= dim < x.ndim else 1
        first = draw.randrange(size + 1)
        sections = [first, size - first + (draw.random() < 0.05)]
        return lambda t, y: _one(y.split(sections, dim), which)
    return lambda t, y: _one(getattr(y, name)(amount, dim), which)


def _one(pieces: Any, which: int) -> Any:
    assert isinstance(pieces, tuple | list)
    return pieces[which % len(pieces)] if pieces else len(pieces)


def transposes(draw: random.Random, x: torch.Tensor) -> Step:
    names = ("mT", "t", "real", "imag", "H", "T") if x.ndim == 2 else ("mT", "real", "imag", "adjoint", "t")
    name = draw.choice(names)
    if name in ("H", "adjoint") and x.is_complex():
        name = "mT"
    return lambda t, y: getattr(y, name) if name in ("mT", "real", "imag", "H", "T") else getattr(y, name)()


def moved(draw: random.Random, x: torch.Tensor) -> Step:
    count = draw.randrange(x.ndim + 1)
    source, target = draw.sample(range(x.ndim), count), draw.sample(range(x.ndim), count)
    return lambda t, y: y.movedim(tuple(source), tuple(target))


def reinterpreted(draw: random.Random, x: torch.Tensor) -> Step:
    name = draw.choice(
        ("int8", "uint8", "int16", "float16", "int32", "float32", "int64", "float64", "complex64", "bool")
    )
    if "bool" in (name, str(x.dtype).removeprefix("torch.")) or name not in draw.kinds:  # type: ignore[attr-defined]
        # Bytes other than 0 and 1 are no truth values: nobody says what they mean.
        name = str(x.dtype).removeprefix("torch.")
    return lambda t, y: y.view(getattr(t, name))


def parts(draw: random.Random, x: torch.Tensor) -> Step:
    name = draw.choice(("view_as_real", "detach", "view_as_complex"))
    if name == "view_as_complex" and (
        x.dtype in (torch.float16, torch.float64) or "complex64" not in draw.kinds  # type: ignore[attr-defined]
    ):
        name = "detach"
    if name == "detach":
        return lambda t, y: y.detach()
    return lambda t, y: getattr(t, name)(y)


VIEWS = (
    shaped, shaped, transposed, permuted, narrowed, selected, expanded, unfolded, diagonal, strided, squeezed, flattened, split,
    transposes, moved, reinterpreted, parts,
)  # fmt: skip
#: as_strided reaches past its input, and pieces of a split may not be written into: both have tests of their own
TRACKED = tuple(each for each in VIEWS if each not in (strided, split))


# Subscripts


def subscript(draw: random.Random, x: torch.Tensor, advanced: bool = True) -> Any:
    """Return a random subscript of a tensor: ints, slices, None, an ellipsis, masks, index tensors, lists."""
    items: list[Any] = []
    dim = 0
    shape = list(x.shape)
    joint = [draw.choice((1, 2, 3))] if draw.random() < 0.8 else [2, draw.choice((1, 3))]
    while dim < len(shape) and draw.random() < 0.85:
        size = shape[dim]
        choice = draw.random()
        dim += 1
        if choice < 0.25:
            items.append(draw.randrange(-size, size) if size and draw.random() < 0.97 else size)
        elif choice < 0.55 or not advanced:
            items.append(_slice(draw, size))
        elif choice < 0.62:
            items.append(None)
            dim -= 1
        elif choice < 0.75 and size:
            items.append(_index_tensor(draw, size, joint))
        elif choice < 0.82 and size:
            items.append([draw.randrange(-size, size) for _ in range(joint[-1])])
        elif choice < 0.86 and size:
            items.append(torch.tensor(draw.randrange(-size, size)))
        elif choice < 0.95:
            wide = 2 if dim < len(shape) and draw.random() < 0.4 else 1
            sizes = shape[dim - 1 : dim - 1 + wide]
            items.append(numbers(draw, sizes if draw.random() < 0.97 else [sizes[0] + 1, *sizes[1:]], torch.bool))
            dim += wide - 1
        elif choice < 0.97:
            items.append(draw.random() < 0.5)
            dim -= 1
        else:
            items.append([])
    if draw.random() < 0.25:
        items.insert(draw.randrange(len(items) + 1), Ellipsis)
    if draw.random() < 0.02:
        items += [0, 0, 0]
    return items[0] if len(items) == 1 and draw.random() < 0.5 else tuple(items)


def _slice(draw: random.Random, size: int) -> slice:
    bounds = [None if draw.random() < 0.4 else draw.randrange(-size - 1, size + 2) for _ in range(2)]
    return slice(bounds[0], bounds[1], draw.choice((None, None, 1, 2, 3)))


def _index_tensor(draw: random.Random, size: int, joint: list[int]) -> torch.Tensor:
    shape = [each if draw.random() < 0.85 else 1 for each in joint[draw.randrange(len(joint)) :]]
    count = torch.Size(shape).numel()
    values = torch.tensor([draw.randrange(-size, size) for _ in range(count)]).reshape(shape)
    return values if draw.random() < 0.85 else values.to(torch.int32)


def convert(t: Any, item: Any, place: str) -> Any:
    """Return a subscript or argument with the oracle's tensors made tensors of a library."""
    if isinstance(item, tuple):
        return tuple(convert(t, each, place) for each in item)
    if isinstance(item, torch.Tensor) and t is OURS:
        return to_ours(item, place)
    return item


# Running


class Difference(AssertionError):
    """The two libraries disagree."""


class Program:
    """One random program and its pool of tensors on both sides."""

    def __init__(self, seed: int, place: str, kinds: tuple[str, ...] = KINDS) -> None:
        self.draw = random.Random(seed)
        self.draw.kinds = kinds  # type: ignore[attr-defined]
        self.place = place
        start = base(self.draw, kinds).clone()
        self.pool: list[tuple[torch.Tensor, Any]] = [(start, to_ours(start, place).clone())]
        self.leaves: tuple[Any, Any] | None = None
        self.log: list[str] = [f"seed {seed}: base {start.dtype} {tuple(start.shape)}"]
        self.refused = 0
        self.ended = False

    def track(self) -> None:
        """Start from a leaf that requires a gradient."""
        theirs, ours = self.pool[0]
        self.leaves = theirs.detach().requires_grad_(), ours.detach().requires_grad_()
        self.pool[0] = tuple(each.clone() for each in self.leaves)  # type: ignore[assignment]

    def compare_gradients(self) -> None:
        """Compare what reaches the leaf from the tensor made last and from the first."""
        assert self.leaves is not None
        if self.ended:
            return
        found = []
        for side, (leaf, library) in enumerate(zip(self.leaves, (ORACLE, OURS))):
            total = None
            for pair in (self.pool[0], self.pool[-1]):
                if pair[0].requires_grad != pair[1].requires_grad:
                    raise Difference(self.story(f"requires_grad {pair[1].requires_grad}, not {pair[0].requires_grad}"))
                if pair[0].requires_grad:
                    weights = torch.arange(1.0, pair[0].numel() + 1).reshape(pair[0].shape)
                    part = (pair[side] * convert(library, weights, self.place)).sum()
                    total = part if total is None else total + part
            if total is None:
                return
            try:
                total.backward()
            except RuntimeError:
                if side == 0:
                    # The oracle cannot: it writes through views that show an element twice.
                    return
                raise
            found.append(leaf.grad)
        if found[0] is None:
            # A gradient of zeros and none are the same.
            found[0] = torch.zeros_like(self.leaves[0])
        if found[1] is None:
            found[1] = to_ours(torch.zeros_like(self.leaves[0]), self.place)
        self.compare(found[0], found[1], "gradient")

    def run(self, steps: int) -> None:
        """Take random steps, then compare all that is in the pool."""
        for _ in range(steps):
            if self.ended:
                return
            choice = self.draw.random()
            if choice < 0.5:
                self.view()
            elif choice < 0.75:
                self.write()
            elif choice < 0.88:
                self.read_subscript()
            else:
                self.write_subscript()
        for number, (theirs, ours) in enumerate(() if self.ended else self.pool):
            self.compare(theirs, ours, f"tensor {number}")

    def pick(self) -> tuple[torch.Tensor, Any]:
        return self.pool[-1] if self.draw.random() < 0.6 else self.draw.choice(self.pool)

    def view(self) -> None:
        """Make a view of a tensor in the pool."""
        theirs, ours = self.pick()
        make = self.draw.choice(VIEWS if self.leaves is None else TRACKED)
        step = make(self.draw, theirs)
        self.attempt(f"{make.__name__} of {describe(theirs)} {arguments(step)}", step, theirs, ours, keep=True)

    def read_subscript(self) -> None:
        """Index a tensor of the pool; what basic indexing gives joins the pool."""
        theirs, ours = self.pick()
        item = subscript(self.draw, theirs)
        title = f"{describe(theirs)}[{item}]"
        self.attempt(title, lambda t, y: y[convert(t, item, self.place)], theirs, ours, keep=True)

    def write_subscript(self) -> None:
        """Assign to a subscript a number or a tensor of a shape that broadcasts."""
        theirs, ours = self.pick()
        if len(set(positions(theirs))) < theirs.numel():
            return
        item = subscript(self.draw, theirs)
        if repeated(theirs, item):
            return
        value = self.value(theirs, item)
        title = f"{describe(theirs)}[{item}] = {value}"

        def step(t: Any, y: Any) -> None:
            y[convert(t, item, self.place)] = convert(t, value, self.place)

        self.attempt(title, step, theirs, ours)

    def value(self, x: torch.Tensor, item: Any) -> Any:
        if self.draw.random() < 0.4:
            return self.draw.choice((0, 1, 7, True, 2.0))
        try:
            shape = list(x[item].shape)
        except REFUSED:
            return 3
        shape = shape[self.draw.randrange(len(shape) + 1) :] if self.draw.random() < 0.3 else shape
        shape = [1 if self.draw.random() < 0.15 else each for each in shape]
        if self.draw.random() < 0.03:
            shape.append(3)
        kind = x.dtype if self.draw.random() < 0.8 or x.dtype.is_complex else torch.int64
        return numbers(self.draw, shape, kind)

    def write(self) -> None:
        """Write into a tensor of the pool by a method."""
        from view_writes import WRITES

        theirs, ours = self.pick()
        name, make = self.draw.choice(WRITES)
        repeats = len(set(positions(theirs))) < theirs.numel()
        if (
            repeats
            and (overlapping(theirs) or name in ("index_fill_", "masked_fill_"))
            and name not in ("fill_", "zero_")
        ):
            return
        step = make(self.draw, theirs)
        title = f"{name} of {describe(theirs)} {arguments(step)}"
        self.attempt(title, lambda t, y: step(t, y, self.place), theirs, ours)

    def attempt(self, title: str, step: Step, theirs: Any, ours: Any, keep: bool = False) -> None:
        """Take a step on both sides and compare what comes out at once, but for the elements."""
        self.log.append(title)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = torch.empty(0, dtype=torch.uint8).set_(theirs.untyped_storage())
            before = whole.clone()
            try:
                expected = step(ORACLE, theirs)
            except REFUSED as error:
                # The oracle may have written a part before it noticed.
                whole.copy_(before)
                self.expect_refusal(step, ours, error)
                return
            try:
                result = step(OURS, ours)
            except Exception as error:
                raise Difference(self.story(f"raises {type(error).__name__}: {error}")) from error
        if not keep or not isinstance(expected, torch.Tensor):
            return
        self.compare_layout(expected, result)
        if aliases(expected, self.pool[0][0]):
            self.pool.append((expected, result))
        else:
            self.compare(expected, result, "result")

    def expect_refusal(self, step: Step, ours: Any, error: Exception) -> None:
        self.refused += 1
        try:
            step(OURS, ours)
        except Exception as mine:
            if isinstance(mine, type(error)):
                return
            found = f"{type(mine).__name__}({mine})"
        else:
            if self.place != "cpu" and "out of bounds" in str(error):
                # Where index tensors lie on a device, nobody knows their numbers: kernels clamp them. What was written is
                # another tensor's element now, and there is nothing left to compare.
                self.ended = True
                return
            found = "accepted"
        raise Difference(self.story(f"{found} instead of {type(error).__name__}: {str(error)[:200]}"))

    def compare_layout(self, theirs: torch.Tensor, ours: Any) -> None:
        """Compare all that is known of a tensor without its elements."""
        start, mine = self.pool[0]
        # How advanced indexing orders what it copies is promised nowhere.
        view = aliases(theirs, start)
        facts = []
        for tensor, first in ((theirs, start), (ours, mine)):
            shared = view and theirs.numel() > 0
            facts.append(
                {
                    "shape": tuple(tensor.shape),
                    "dtype": str(tensor.dtype),
                    "strides": tuple(tensor.stride()) if view else None,
                    "offset": tensor.storage_offset(),
                    "contiguous": tensor.is_contiguous() if view else None,
                    "is a view": tensor._is_view(),
                    "distance": tensor.data_ptr() - first.data_ptr() if shared else None,
                }
            )
        if facts[0] != facts[1]:
            wrong = {key: (facts[1][key], facts[0][key]) for key in facts[0] if facts[0][key] != facts[1][key]}
            raise Difference(self.story(f"(found, expected) {wrong}"))

    def compare(self, theirs: torch.Tensor, ours: Any, what: str) -> None:
        """Compare elements, bit for bit but for the sign of NaN."""
        found = to_torch(ours)
        wanted = theirs.detach().resolve_conj().contiguous()
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise Difference(
                self.story(f"{what}: {found.shape} {found.dtype} instead of {wanted.shape} {wanted.dtype}")
            )
        if not torch.equal(torch.view_as_real(found) if found.is_complex() else found, _floats(wanted)):
            same = torch.allclose(found, wanted, rtol=0, atol=0, equal_nan=True)
            if not same:
                raise Difference(self.story(f"{what}: {found.tolist()} instead of {wanted.tolist()}"))

    def story(self, end: str) -> str:
        return "\n  ".join([*self.log, end])


def _floats(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


def arguments(step: Callable[..., Any]) -> dict[str, Any]:
    """Return what a step's closure holds: its arguments."""
    return {
        name: cell.cell_contents
        for name, cell in zip(step.__code__.co_freevars, step.__closure__ or ())
        if name != "draw"
    }


def describe(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}{x.stride()}+{x.storage_offset()}"


def positions(x: torch.Tensor) -> list[int]:
    """Return the places in storage that a tensor shows."""
    found = [x.storage_offset()]
    for size, stride in zip(x.shape, x.stride()):
        found = [each + index * stride for each in found for index in range(size)]
    return found


def overlapping(x: torch.Tensor) -> bool:
    """Return whether a tensor shows one place several times in a way that the oracle does not refuse to write."""
    found = positions(x)
    return len(set(found)) < len(found) and not any(
        stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride())
    )


def repeated(x: torch.Tensor, item: Any) -> bool:
    """Return whether a subscript names one place several times: which value stays there nobody says."""
    places = torch.arange(x.numel()).reshape(x.shape)
    try:
        chosen = places[item].reshape(-1).tolist()
    except REFUSED:
        return False
    return len(set(chosen)) < len(chosen)


def aliases(x: torch.Tensor, other: torch.Tensor) -> bool:
    place = x.untyped_storage().data_ptr()
    return place != 0 and place == other.untyped_storage().data_ptr()
