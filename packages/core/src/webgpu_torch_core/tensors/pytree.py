"""Nested containers as flat lists of leaves and back, as ``torch.utils._pytree``."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class KeyEntry(NamedTuple):
    """How a child is reached from its container."""

    key: Any


MappingKey = SequenceKey = GetAttrKey = KeyEntry


class NodeDef(NamedTuple):
    """How a container comes apart and together."""

    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


SUPPORTED_NODES: dict[type, NodeDef] = {}


class TreeSpec:
    """The structure of a tree without its leaves: a container's type, its context, and its children's structures."""

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_leaves = 1 if type is None else sum(each.num_leaves for each in children_specs)

    def is_leaf(self) -> bool:
        """Return whether this is one leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and (self.type, self.context) == (other.type, other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
    **_: Any,
) -> None:
    """Make a type a container: how it comes apart into children and a context, and together again.

    Raises:
        ValueError: the type is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _is_namedtuple(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def _node_type(tree: Any) -> Any:
    return NamedTuple if _is_namedtuple(tree) and type(tree) not in SUPPORTED_NODES else type(tree)


def _dict_flatten(tree: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(tree.values()), list(tree.keys())


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _dict_flatten(tree)
    return [(MappingKey(key), value) for key, value in zip(context, values, strict=True)], context


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


register_pytree_node(list, lambda tree: (list(tree), None), lambda values, _: list(values))
register_pytree_node(tuple, lambda tree: (list(tree), None), lambda values, _: tuple(values))
register_pytree_node(dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True)))
register_pytree_node(
    defaultdict,
    lambda tree: (list(tree.values()), (tree.default_factory, list(tree))),
    lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
)
register_pytree_node(deque, lambda tree: (list(tree), tree.maxlen), lambda values, length: deque(values, maxlen=length))
register_pytree_node(NamedTuple, lambda tree: (list(tree), type(tree)), lambda values, kind: kind(*values))  # type: ignore[arg-type]


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves from left to right, and the structure."""
    leaves: list[Any] = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


# No function inside of the two: one that calls itself would keep the leaves until cycles are collected.
def _flatten_into(leaves: list[Any], node: Any, is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    definition = None if is_leaf is not None and is_leaf(node) else SUPPORTED_NODES.get(_node_type(node))
    if definition is None:
        leaves.append(node)
        return LeafSpec()
    children, context = definition.flatten_fn(node)
    return TreeSpec(_node_type(node), context, [_flatten_into(leaves, each, is_leaf) for each in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return a tree of a structure with other leaves.

    Raises:
        ValueError: there are more or fewer leaves than the structure has.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(given)} leaves for a structure of {treespec.num_leaves}: {treespec}")
    return _built(treespec, iter(given))


def _built(spec: TreeSpec, rest: Iterator[Any]) -> Any:
    if spec.is_leaf():
        return next(rest)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_built(each, rest) for each in spec.children_specs], spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return a tree of ``func(leaf, …)``, with the leaves of further trees of the same structure as more arguments."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_leaves(rest, is_leaf) for rest in rests)]
    return tree_unflatten([func(*each) for each in zip(*columns, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call ``func`` on every leaf and return the tree as it was."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(types: Any, func: Callable[..., Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Apply ``func`` to the leaves of some types; others stay."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, types) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether a condition holds for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether a condition holds for some leaf."""
    return any(map(pred, tree_leaves(tree)))
