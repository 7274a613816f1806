"""What calls of an operation tell of it: shapes, element types, gradients, and what wrong calls raise."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import webgpu_torch as torch

TYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")  # fmt: skip
DIMENSIONS = {"dim", "dims", "dim0", "dim1", "axis", "axis0", "axis1", "start_dim", "end_dim", "source", "destination"}
#: errors that say what a caller did wrong
TOLD = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
MOST_WRONG = 3
LONGEST = 200


class Argument(NamedTuple):
    """An argument of a call: the parameter's name, how it is written, its value, and if it is given by name."""

    name: str
    text: str
    value: Any
    by_name: bool


class Call(NamedTuple):
    """A call that can be made again with other arguments."""

    function: Callable[..., Any]
    text: str
    arguments: tuple[Argument, ...]
    #: parameters that the call leaves at their defaults
    left: tuple[inspect.Parameter, ...]

    def made(self, changed: dict[int, Any], **named: Any) -> Any:
        """Make the call with other values of arguments by their number, and with more of them by name."""
        values = [changed.get(number, each.value) for number, each in enumerate(self.arguments)]
        given = list(zip(self.arguments, values, strict=True))
        return self.function(
            *(value for each, value in given if not each.by_name),
            **{each.name: value for each, value in given if each.by_name},
            **named,
        )

    def written(self, changed: dict[int, str], added: str = "") -> str:
        """Return how that call is written."""
        parts = [
            (f"{each.name}=" if each.by_name else "") + changed.get(number, each.text)
            for number, each in enumerate(self.arguments)
        ]
        start, rest = self.text, parts
        if self.text.startswith("."):
            start, rest = (parts[0] if parts[0].isidentifier() else f"({parts[0]})") + self.text, parts[1:]
        return f"{start}({', '.join([*rest, *([added] if added else [])])})"


def call_in(statements: list[str], name: str, value: Any, scope: dict[str, Any], method: bool) -> Call | None:
    """Return the last call of a public name in a program that ran in this scope; None where there is none."""
    nodes = [each for text in statements for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    last = [each for each in nodes if isinstance(each.func, ast.Attribute) and each.func.attr == name]
    if not last or any(isinstance(each, ast.Starred) for each in last[-1].args):
        return None
    call = last[-1]
    assert isinstance(call.func, ast.Attribute)
    try:
        parameters = list(inspect.signature(getattr(value, "__func__", value)).parameters.values())
        texts = [ast.unparse(each) for each in call.args]
        if method:
            texts.insert(0, ast.unparse(call.func.value))
        named = {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg}
        function = getattr(torch.Tensor, name) if method else eval(ast.unparse(call.func), scope)
        positional = _positions(parameters, len(texts))
        found = [Argument(p, text, eval(text, scope), False) for p, text in zip(positional, texts, strict=True)]
        found += [Argument(key, text, eval(text, scope), True) for key, text in named.items()]
    except Exception:
        return None
    known = {each.name for each in found}
    left = tuple(
        each for each in parameters
        if each.name not in known and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    )  # fmt: skip
    return Call(function, f".{name}" if method else ast.unparse(call.func), tuple(found), left)


def _positions(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Return the parameters' names of so many arguments by position."""
    names: list[str] = []
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            names += [each.name] * (count - len(names))
        elif each.kind is not each.KEYWORD_ONLY and len(names) < count:
            names.append(each.name)
    return names[:count]


def tensors_in(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [one for each in result for one in tensors_in(each)] if isinstance(result, tuple | list) else []


def _tried(call: Call, changed: dict[int, Any], **named: Any) -> Any:
    """Return a call's result, None where it is refused: at once, or when its elements are there."""
    try:
        result = call.made(changed, **named)
        for each in tensors_in(result):
            each.tolist()
    except Exception:
        return None
    finally:
        settle()
    return result


def settle() -> None:
    """Let what earlier calls did wrong be told here, where nobody asks."""
    with contextlib.suppress(Exception):
        torch.cpu.synchronize()


def _shape(value: Any) -> str:
    return f"[{', '.join(map(str, value.shape))}]"


def shapes_of(call: Call, kind: str | None, result: Any) -> str:
    """Return the shapes of a call's tensors and of its result, after the rule that further calls agree with."""
    found = tensors_in(result)
    # a tensor that several parameters are given by star is several operands of one name
    given = [f"``{each.name}`` {_shape(one)}" for each in call.arguments for one in tensors_in(each.value)]
    given += [
        f"``{each.name}`` {each.text}" for each in call.arguments
        if not tensors_in(each.value) and (isinstance(each.value, int | tuple | list | torch.Size)) and not isinstance(each.value, bool)
    ]  # fmt: skip
    made = ", ".join(map(_shape, found)) or type(result).__name__
    example = f"{', '.join(given)} → {made}" if given else f"→ {made}"
    rule = _rule(call, kind, found)
    return f"{rule} Here {example}." if rule else f"in the example, {example}."


def _rule(call: Call, kind: str | None, alone: list[torch.Tensor]) -> str:
    """Return the rule of shapes that a call with these results follows with operands of other shapes too, or nothing."""
    operands = [n for n, each in enumerate(call.arguments) if isinstance(each.value, torch.Tensor)]
    if not operands:
        return ""
    if len(operands) > 1 and kind == "elementwise" and _follows(call, operands, [(2, 1, 3), (4, 1)], (2, 4, 3)):
        return "the operands' shapes broadcast to one."
    if len(operands) == 1:
        n = operands[0]
        if all(_follows(call, [n], [shape], shape) for shape in ((), (4,), (2, 3), (2, 1, 5))):
            return "any; the result has its operand's."
        names = {each.name for each in (*call.arguments, *call.left)}
        if {"dim", "keepdim"} <= names and not any(each.name == "keepdim" for each in call.arguments):
            value = _filled(call.arguments[n].value, (2, 3, 4))
            at = {"dim": 1} if not any(each.name == "dim" for each in call.arguments) else {}
            other = {i: 1 for i, each in enumerate(call.arguments) if each.name == "dim"}
            gone = tensors_in(_tried(call, {n: value, **other}, **at))
            kept = tensors_in(_tried(call, {n: value, **other}, keepdim=True, **at))
            if gone and kept and tuple(gone[0].shape) == (2, 4) and tuple(kept[0].shape) == (2, 1, 4):
                return "the result is without ``dim``, or has one element there with ``keepdim=True``."
        if all(_follows(call, [n], [shape], shape) for shape in ((4,), (2, 4), (2, 1, 4))):
            return "one dimension or more; the result has its operand's."
    return _batched(call, operands, alone)


def _batched(call: Call, operands: list[int], alone: list[torch.Tensor]) -> str:
    """Return the rule of matrices in batches, if a call follows it."""
    first = call.arguments[operands[0]].value
    if first.ndim < 2 or not alone or any(call.arguments[n].value.layout != torch.strided for n in operands):
        return ""
    batch = {n: call.arguments[n].value.expand(5, *call.arguments[n].value.shape) for n in operands}
    found = tensors_in(_tried(call, batch))
    same = len(found) == len(alone) and all(tuple(b.shape) == (5, *a.shape) for a, b in zip(alone, found, strict=True))
    if same and all(torch.equal(b[0], a) for a, b in zip(alone, found, strict=True) if a.dtype == b.dtype):
        return "dimensions before those of one call are batches; the results have them too."
    return ""


def _filled(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.ones(shape, dtype=like.dtype)


def _follows(call: Call, operands: list[int], shapes: list[tuple[int, ...]], wanted: tuple[int, ...]) -> bool:
    given = shapes + [shapes[0]] * (len(operands) - len(shapes))
    changed = {n: _filled(call.arguments[n].value, shape) for n, shape in zip(operands, given, strict=True)}
    result = _tried(call, changed)
    return isinstance(result, torch.Tensor) and tuple(result.shape) == wanted


def types_of(call: Call, result: Any) -> dict[str, str]:
    """Return element type of the first operand -> type of the first result, nothing where it is refused.

    Other operands of the same type follow it. What returns no tensor tells nothing; ``result`` is the call's as it stands.
    """
    operands = {n: tensors_in(each.value) for n, each in enumerate(call.arguments)}
    floating = [one for each in operands.values() for one in each if one.is_floating_point() or one.is_complex()]
    first = next(iter(floating or [one for each in operands.values() for one in each]), None)
    if first is None or not tensors_in(result):
        return {}
    found = {}
    for name in TYPES:
        kind = getattr(torch, name)
        changed: dict[int, Any] = {}
        for n, each in operands.items():
            if any(one.dtype == first.dtype for one in each):
                one = [one.to(kind) if one.dtype == first.dtype else one for one in each]
                whole = call.arguments[n].value
                changed[n] = one[0] if isinstance(whole, torch.Tensor) else type(whole)(one)
        results = tensors_in(result if kind is first.dtype else _tried(call, changed))
        found[name] = str(results[0].dtype).rpartition(".")[2] if results else ""
    return found


def gradients_of(call: Call) -> list[str] | None:
    """Return which derivatives pass a call (``yes``, ``twice``, ``forward mode``); None where it has no real operand."""
    operands = [
        n for n, each in enumerate(call.arguments)
        if isinstance(each.value, torch.Tensor) and (each.value.is_floating_point() or each.value.is_complex())
    ]  # fmt: skip
    if not operands:
        return None
    values = [call.arguments[n].value.detach().clone() for n in operands]

    def function(*given: torch.Tensor) -> torch.Tensor:
        results = tensors_in(call.made(dict(zip(operands, given, strict=True))))
        return next(each for each in results if each.is_floating_point() or each.is_complex())

    try:
        wanted = [each.clone().requires_grad_(True) for each in values]
        result = function(*wanted)
        if not result.requires_grad:
            return []
        first = torch.autograd.grad(result.abs().sum(), wanted, create_graph=True, allow_unused=True)
    except Exception:
        return []
    found = ["yes"]
    with contextlib.suppress(Exception):
        again = [each for each in first if each is not None and each.requires_grad]
        if again:
            torch.autograd.grad(sum(each.abs().sum() for each in again), wanted, allow_unused=True)
        found.append("twice")
    with contextlib.suppress(Exception):
        torch.func.jvp(function, tuple(values), tuple(torch.ones_like(each) for each in values))
        found.append("forward mode")
    return found


def _mutations(call: Call, refused: list[str]) -> Iterator[tuple[dict[int, tuple[str, Any]], str, dict[str, Any]]]:
    """Yield wrong calls, the most telling first: (other arguments, what is added in text, and as values)."""
    numbered = list(enumerate(call.arguments))
    for n, each in numbered:
        if each.name in DIMENSIONS and isinstance(each.value, int | tuple):
            yield {n: ("9", 9)}, "", {}
    for left in call.left:
        if left.name in ("dim", "axis"):
            yield {}, f"{left.name}=9", {left.name: 9}
    for n, each in numbered[1:]:
        if isinstance(each.value, torch.Tensor):
            if each.value.dtype == torch.int64:
                shape = tuple(each.value.shape)
                yield {n: (f"torch.full({shape}, 99)", torch.full(shape, 99))}, "", {}
            yield {n: ("torch.ones(7, 5)", torch.ones(7, 5))}, "", {}
    for n, each in numbered:
        if isinstance(each.value, str):
            yield {n: ("'other'", "other")}, "", {}
        elif isinstance(each.value, int) and not isinstance(each.value, bool) and each.name not in DIMENSIONS:
            yield {n: ("-1", -1)}, "", {}
        elif isinstance(each.value, tuple) and all(isinstance(one, int) for one in each.value) and each.value:
            yield {n: ("(5, 7)", (5, 7))}, "", {}
    for left in call.left:
        if isinstance(left.default, str):
            yield {}, f"{left.name}='other'", {left.name: "other"}
    if numbered and isinstance(call.arguments[0].value, torch.Tensor):
        first = call.arguments[0]
        for name in refused[:1]:
            yield {0: (f"{first.text}.to(torch.{name})", first.value.to(getattr(torch, name)))}, "", {}
        if first.value.ndim > 1:
            yield {0: ("torch.ones(3)", torch.ones(3))}, "", {}
        yield {0: ("torch.ones(0)", torch.ones(0))}, "", {}
    for n in range(len(call.arguments)):
        if not (call.text.startswith(".") and n == 0):
            yield {n: ("'text'", "text")}, "", {}


def wrong_calls(call: Call, types: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return (error's class, wrong call, message) of a few calls that are refused, each with a message of its own."""
    found: dict[tuple[str, str], str] = {}
    for changed, added, named in _mutations(call, [name for name, result in types.items() if not result]):
        try:
            for each in tensors_in(call.made({n: value for n, (_, value) in changed.items()}, **named)):
                each.tolist()
        except TOLD as error:
            message = " ".join(str(error).split())
            text = call.written({n: text for n, (text, _) in changed.items()}, added)
            kinds = {kind for kind, _ in found}
            if len(message) <= LONGEST and (len(found) < MOST_WRONG - 1 or type(error).__name__ not in kinds):
                found.setdefault((type(error).__name__, message), text)
        except Exception:
            continue
        finally:
            settle()
        if len(found) == MOST_WRONG:
            break
    return [(kind, text, message) for (kind, message), text in found.items()]


def told(call: Call, kind: str | None) -> dict[str, Any]:
    """Return ``shapes``, ``types``, ``gradient`` and ``wrong`` of a call; ``kind`` is that of its operation."""
    result = _tried(call, {})
    types = types_of(call, result)
    wrong = wrong_calls(call, types)
    found = {"shapes": shapes_of(call, kind, result), "types": types, "gradient": gradients_of(call), "wrong": wrong}
    settle()
    return found


@contextlib.contextmanager
def seen_calls(kind: type[torch.nn.Module]) -> Iterator[list[str]]:
    """Note the shapes of calls of modules of a class, in a list that is handed over."""
    seen: list[str] = []

    def note(module: torch.nn.Module, given: Any, result: Any) -> None:
        if type(module) is kind:
            shown = ", ".join(map(_shape, tensors_in(given)))
            seen.append(f"in the example, {shown} → {', '.join(map(_shape, tensors_in(result)))}.")

    handle = torch.nn.register_module_forward_hook(note)
    try:
        yield seen
    finally:
        handle.remove()
