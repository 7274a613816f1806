"""Parts of graphs that look like a pattern, and others in their place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from webgpu_torch_nn import Module

from ._symbolic_trace import symbolic_trace
from .graph import Graph, _has
from .graph_module import GraphModule, _assign_attr
from .immutable_collections import Argument
from .node import Node

Function: TypeAlias = Callable[..., Any]
#: what stands for the nodes of a pattern
Known: TypeAlias = dict[Node, Any]
Pattern: TypeAlias = "Function | Graph | GraphModule"
MatchFilter: TypeAlias = "Callable[[InternalMatch, Graph, Graph], bool]"


class Match(NamedTuple):
    """Where a pattern was found: the node that computes its result, and the nodes by those of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclasses.dataclass
class ReplacedPatterns:
    """Where a pattern was found, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@dataclasses.dataclass
class InternalMatch:
    """A part of a graph that looks like a pattern.

    Attributes:
        anchors: the nodes of the pattern that were looked for first.
        nodes_map: the part's nodes, and arguments, by the pattern's nodes.
        placeholder_nodes: what stands for the pattern's inputs, in their order.
        returning_nodes: what stands for what the pattern returns.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = dataclasses.field(default_factory=dict)
    placeholder_nodes: list[Any] = dataclasses.field(default_factory=list)
    returning_nodes: list[Node] = dataclasses.field(default_factory=list)


class _Matcher:
    """Looks for a pattern in graphs, from what it returns to its inputs."""

    def __init__(self, pattern: Graph, ignore_literals: bool) -> None:
        self.pattern, self.ignore_literals = pattern, ignore_literals
        self.output = pattern.output_node()
        self.returned = self.output.all_input_nodes
        # What nothing else of the pattern uses: from these all of it is reached.
        self.anchors = [each for each in self.returned if list(each.users) == [self.output]] or self.returned

    def matches(self, graph: Graph) -> list[InternalMatch]:
        found: list[InternalMatch] = [InternalMatch(self.anchors)]
        for anchor in self.anchors:
            candidates = [each for each in graph.nodes if self._alike(anchor, each)]
            found = [
                made for match in found for each in candidates if (made := self._grown(match, anchor, each)) is not None
            ]
        taken: set[Node] = set()
        result: list[InternalMatch] = []
        for match in found:
            nodes = self._inner(match)
            if nodes.isdisjoint(taken) and self._contained(match, nodes):
                taken |= nodes
                match.placeholder_nodes = [
                    match.nodes_map[each]
                    for each in self.pattern.nodes
                    if each.op == "placeholder" and each in match.nodes_map
                ]
                match.returning_nodes = [match.nodes_map[each] for each in self.returned]
                result.append(match)
        return result

    def _grown(self, match: InternalMatch, anchor: Node, node: Node) -> InternalMatch | None:
        made = InternalMatch(match.anchors, dict(match.nodes_map))
        return made if self._match(anchor, node, made.nodes_map) else None

    def _inner(self, match: InternalMatch) -> set[Node]:
        return {each for own, each in match.nodes_map.items() if own.op != "placeholder" and isinstance(each, Node)}

    def _contained(self, match: InternalMatch, nodes: set[Node]) -> bool:
        """Return whether nobody outside uses a value of the part, but for what it returns."""
        returned = {match.nodes_map[each] for each in self.returned}
        return all(node in returned or nodes.issuperset(node.users) for node in nodes)

    def _alike(self, own: Node, other: Node) -> bool:
        if own.op != other.op:
            return False
        if own.op == "call_module":
            one, two = (_module_of(each) for each in (own, other))
            return type(one) is type(two) if one is not None and two is not None else own.target == other.target
        if own.op == "get_attr":
            one, two = (_module_of(each) for each in (own, other))
            return type(one) is type(two)
        return own.target == other.target

    def _match(self, own: Node, other: Argument, known: Known) -> bool:
        if own in known:
            return known[own] is other or (not isinstance(other, Node) and known[own] == other)
        if own.op == "placeholder":
            known[own] = other
            return True
        if not isinstance(other, Node) or other in known.values() or not self._alike(own, other):
            return False
        known[own] = other
        if self._arguments(_arguments(own), _arguments(other), known):
            return True
        del known[own]
        return False

    def _arguments(self, own: Argument, other: Argument, known: Known) -> bool:
        if isinstance(own, Node):
            return self._match(own, other, known)
        if isinstance(own, (list, tuple)):
            same = isinstance(other, (list, tuple)) and len(own) == len(other)
            return same and all(self._arguments(one, two, known) for one, two in zip(own, other))
        if isinstance(own, dict):
            same = isinstance(other, dict) and own.keys() == other.keys()
            return same and all(self._arguments(each, other[name], known) for name, each in own.items())
        return self.ignore_literals or (isinstance(other, Node) is False and _equal(own, other))


def _equal(one: Argument, two: Argument) -> bool:
    return type(one) is type(two) and (one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two)))


def _arguments(node: Node) -> list[Argument]:
    return [list(node.args), dict(node.kwargs)]


def _module_of(node: Node) -> object:
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Put one part in the place of every part of a module's graph that looks like a pattern, and return where they were.

    Args:
        gm: the module, which is changed.
        pattern: a function, or its graph, whose nodes are looked for; its arguments may be anything.
        replacement: a function, or its graph, with the same arguments and as many results.
    """
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in found]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: Sequence[MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
) -> list[ReplacedPatterns]:
    """Put one part in the place of every part of a module's graph that looks like a pattern and passes filters.

    Args:
        gm, pattern, replacement: see :func:`replace_pattern`.
        match_filters: functions of (match, graph, pattern's graph) that say whether it counts.
        ignore_literals: let numbers and texts in the arguments differ.
        replacement_callback: returns the graph to put in, by (match, graph, pattern's graph).

    Raises:
        AssertionError: neither a replacement nor a callback is given, or it has other arguments or results than the pattern.
    """
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    graph, looked_for = gm.graph, _graph_of(pattern)
    common = None if replacement is None else _graph_of(replacement)
    found = _Matcher(looked_for, ignore_literals).matches(graph)
    found = [match for match in found if all(each(match, graph, looked_for) for each in match_filters or ())]
    changed: dict[Node, Node] = {}
    result: list[ReplacedPatterns] = []
    for match in found:
        new = common if replacement_callback is None else replacement_callback(match, graph, looked_for)
        assert new is not None
        result.append(_replace(graph, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return result


def _graph_of(pattern: Pattern) -> Graph:
    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def _replace(graph: Graph, match: InternalMatch, new: Graph, changed: dict[Node, Node]) -> ReplacedPatterns:
    inputs = [each for each in new.nodes if each.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} inputs and what replaces it {len(inputs)}"
        )
    # What an earlier replacement took away has another node in its place.
    match.placeholder_nodes = [
        changed.get(each, each) if isinstance(each, Node) else each for each in match.placeholder_nodes
    ]
    match.nodes_map = {
        own: changed.get(each, each) if own.op == "placeholder" and isinstance(each, Node) else each
        for own, each in match.nodes_map.items()
    }
    values: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes))
    with graph.inserting_before(_insertion_point(graph, match)):
        copied = graph.graph_copy(new, values)
    results = [copied] if isinstance(copied, Node) else list(copied or ())
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"the pattern has {len(match.returning_nodes)} results and what replaces it {len(results)}"
        )
    for old, made in zip(match.returning_nodes, results):
        old.replace_all_uses_with(made)
        changed[old] = made
    for own in reversed(list(match.anchors[0].graph.nodes)):
        if own.op not in ("placeholder", "output") and own in match.nodes_map:
            node = match.nodes_map[own]
            if not node._erased:
                graph.erase_node(node)
    replacements = [each for own, each in values.items() if own.op != "placeholder"]
    return ReplacedPatterns(match.nodes_map[match.anchors[0]], match.nodes_map, replacements)


def _insertion_point(graph: Graph, match: InternalMatch) -> Node:
    users = {user for each in match.returning_nodes for user in each.users}
    for each in graph.nodes:
        if each in users:
            return each
    return next(each for each in reversed(graph.nodes) if each in match.returning_nodes).next


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Take what the replacement's nodes name from its module, and drop what no node names any more."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            target = str(node.target)
            if not _has(gm, target) and _has(replacement, target):
                found: Any = replacement
                for part in target.split("."):
                    found = getattr(found, part)
                _assign_attr(found, gm, target)
    gm.graph.lint()
