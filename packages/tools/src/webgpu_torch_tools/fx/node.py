"""What a graph is made of: nodes, each an input, a call, an attribute, or what is returned."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import webgpu_torch as torch
from webgpu_torch_core import Tensor

from .immutable_collections import Argument, map_aggregate
from .naming import Function, printed_target, qualified_name, type_name

if TYPE_CHECKING:
    from .graph import Graph


Target: TypeAlias = Callable[..., Any] | str
Marked = TypeVar("Marked", bound=Callable[..., Any])
BaseArgumentTypes: TypeAlias = (
    str | int | float | bool | complex | torch.dtype | Tensor | torch.device | torch.memory_format | torch.layout
)
base_types = (str, int, float, bool, complex, torch.dtype, Tensor, torch.device, torch.memory_format, torch.layout)
OPERATIONS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effectful_functions: set[Function] = {torch._assert, torch._assert_async, operator.setitem}
_get_qualified_name = qualified_name
_type_repr = type_name


def has_side_effect(fn: Marked) -> Marked:
    """Keep calls of a function in graphs even if nobody reads what it returns; return the function."""
    _side_effectful_functions.add(fn)
    return fn


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """Return an argument with a function applied to each node in it."""
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def _format_arg(arg: Argument, max_list_len: float = float("inf")) -> str:
    if isinstance(arg, Node):
        return f"%{arg}"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(each)}" for key, each in arg.items()) + "}"
    if not isinstance(arg, (list, tuple)):
        return str(arg)
    items = ", ".join(_format_arg(each) for place, each in enumerate(arg) if place < max_list_len)
    rest = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
    if isinstance(arg, list):
        return f"[{items}{rest}]"
    return f"({items}{',' if len(arg) == 1 else ''}{rest})"


class Node:
    """One step of a :class:`Graph`.

    Args:
        graph: the graph that it is in.
        name: the value's name, which no other value has.
        op: ``placeholder`` (an input: ``target`` is its name, ``args`` its default, if any), ``get_attr`` (a parameter or another
            attribute: ``target`` is its path), ``call_function`` (``target`` is called), ``call_module`` (the module at the path
            ``target``), ``call_method`` (the method ``target`` of ``args[0]``), or ``output`` (``args[0]`` is returned).
        target, args, kwargs: see above.
        return_type: the value's type, for annotations.

    Raises:
        ValueError: the operation is none of these, or the target is not what it takes.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: object | None = None,
    ) -> None:
        if op not in OPERATIONS:
            raise ValueError(f"a node's operation is one of {', '.join(OPERATIONS)}, not {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._update_args_kwargs(args, kwargs)

    @property
    def next(self) -> Node:
        """The node after this one; after the last comes the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one; before the first comes the graph's root."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to right before this one."""
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node of the same graph to right after this one."""
        if self._next is not x:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    @property
    def args(self) -> tuple[Argument, ...]:
        """The arguments by position: assign another tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name: assign another dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, k)

    def _update_args_kwargs(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), use), map_arg(dict(kwargs), use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in the arguments, each once, in the order of their appearance."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the argument at a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put an argument before the one at a position, or after the last.

        Raises:
            AssertionError: there is no such position.
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"an argument is inserted at 0 to {len(self.args)}, not at {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace, or add, the argument of a name."""
        self.kwargs = {**self.kwargs, key: arg}

    @property
    def stack_trace(self) -> str | None:
        """The lines that made the node, if they were recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn is not None else self.name

    def __lt__(self, other: Node) -> bool:
        return any(each is other for each in self._after())

    def __gt__(self, other: Node) -> bool:
        return other < self

    def _after(self) -> Iterator[Node]:
        each = self._next
        while each.op != "root":
            yield each
            each = each._next

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None
    ) -> str | None:
        """Return a line that tells all of the node.

        Args:
            placeholder_names, maybe_return_typename: lists that take an input's name, for which None is returned, if there is one
                in it, and the type of what is returned.
        """
        kind = "" if self.type is None else f"{type_name(self.type)} "
        begin = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={printed_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(str(self.target) + (f": {type_name(self.type)}" if self.type else ""))
                return None
            return begin + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return begin
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        return f"{begin}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Let all users of this node use another, and return them.

        Args:
            replace_with: the other node.
            delete_user_cb: tells of a user whether it is to change.
            propagate_meta: copy ``meta`` to the other node, which has none yet.

        Raises:
            AssertionError: ``meta`` is to be copied, and the other node has some.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("propagate_meta=True copies meta to a node without any; this one has some")
            replace_with.meta.update(self.meta)
        changed = [each for each in self.users if delete_user_cb is None or delete_user_cb(each)]
        for each in changed:
            each.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Let a node in the arguments be another one."""

        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self.args, replaced), map_arg(self.kwargs, replaced))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does something beside giving its value, so that it stays though nobody reads it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            assert module is not None, "self.graph.owning_module not set for purity check"
            return getattr(module.get_submodule(str(self.target)), "_is_impure", False)
        if self.op == "call_function":
            return self.target in _side_effectful_functions or (impure_random and self.target in _RANDOM)
        return False

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.rename(self, self.name)


_RANDOM = frozenset(
    getattr(torch, name)
    for name in (
        "bernoulli", "dropout", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
        "randn_like", "randperm",
    )
)  # fmt: skip
