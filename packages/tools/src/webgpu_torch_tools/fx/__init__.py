"""Functions and modules as graphs that programs read and change, as ``torch.fx``.

:func:`symbolic_trace` calls a function with values that record what is done with them; a :class:`GraphModule` runs the Python code
of such a graph. The technique is that of J. Reed et al., "torch.fx: Practical Program Capture and Transformation for Deep
Learning in Python", MLSys 2022.
"""

from . import experimental as experimental
from . import immutable_collections as immutable_collections
from . import node as node
from . import passes as passes
from . import proxy as proxy
from . import subgraph_rewriter as subgraph_rewriter
from ._symbolic_trace import PH as PH
from ._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from ._symbolic_trace import Tracer as Tracer
from ._symbolic_trace import symbolic_trace as symbolic_trace
from ._symbolic_trace import wrap as wrap
from .graph import CodeGen as CodeGen
from .graph import Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter
from .interpreter import Transformer as Transformer
from .node import Node as Node
from .node import has_side_effect as has_side_effect
from .node import map_arg as map_arg
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
