"""The public names of every namespace, from ``__all__`` or from what a module defines, with what is documented of each."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import linecache
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import webgpu_torch
import webgpu_torch_drop_in
import webgpu_torch_models
import webgpu_torch_testing
from webgpu_torch_core.dispatch.registry import OPERATIONS, Operation
from webgpu_torch_core.tensors.kinds import TensorKinds
from webgpu_torch_core.tensors.tensor import Tensor

ROOT = Path(__file__).resolve().parents[2]


def sources_digest(*more: Path) -> str:
    """Return a hash of the packages and of more files: what is kept of a run holds until one of them changes."""
    found = hashlib.sha256()
    for path in sorted([*(ROOT / "packages").glob("*/src/**/*.py"), *more]):
        found.update(path.read_bytes())
    return found.hexdigest()


class Namespace(NamedTuple):
    """One part of the reference.

    Attributes:
        title: how users write it.
        about: one sentence.
        modules: where its names are, the first under the title's own name.
    """

    title: str
    about: str
    modules: tuple[str, ...]


def _namespaces(*rows: tuple[str, str] | tuple[str, str, tuple[str, ...]]) -> tuple[Namespace, ...]:
    made = []
    for title, about, *more in rows:
        own = "webgpu_" + title if title.startswith("torch") else title
        made.append(Namespace(title, about, tuple(more[0]) if more else (own,)))
    return tuple(made)


def _inside(module: str, *names: str) -> tuple[str, ...]:
    return (module, *(f"{module}.{each}" for each in names))


#: in the order of the reference; an object that several have is described where it comes first
NAMESPACES = _namespaces(
    ("torch", "Functions of tensors, element types, settings."),
    ("torch.Tensor", "What a tensor can do."),
    ("torch.nn", "Modules: layers, losses, containers."),
    ("torch.nn.functional", "The functions that modules compute."),
    ("torch.nn.init", "Ways to fill weights before training."),
    ("torch.nn.attention", "Attention by a score function of one's own, biases and masks.",
     _inside("webgpu_torch.nn.attention", "flex_attention", "bias")),
    ("torch.nn.utils", "Clipping, pruning, parametrizations, packed sequences.",
     _inside("webgpu_torch.nn.utils", "rnn", "parametrize", "parametrizations", "prune", "clip_grad", "fusion")),
    ("torch.nn.parallel", "Modules of several processes."),
    ("torch.distributed", "Programs of several processes.",
     _inside("webgpu_torch.distributed", "device_mesh", "fsdp", "checkpoint", "checkpoint.state_dict")),
    ("torch.optim", "Optimisers, and averages of weights.", _inside("webgpu_torch.optim", "swa_utils")),
    ("torch.optim.lr_scheduler", "Schedules of learning rates."),
    ("torch.linalg", "Linear algebra."),
    ("torch.fft", "Discrete Fourier transforms."),
    ("torch.special", "Special functions."),
    ("torch.signal", "Windows of signals.", ("webgpu_torch.signal.windows",)),
    ("torch.sparse", "Tensors of which only the elements that are not zero are kept."),
    ("torch.nested", "Batches of tensors of several sizes, without padding."),
    ("torch.export", "Modules as graphs of operations, saved in PyTorch's archives and run elsewhere.",
     ("webgpu_torch.export", "webgpu_torch.export.graph_signature")),
    ("torch.quasirandom", "Points that fill a cube evenly."),
    ("torch.ao.quantization", "Networks in integers: observers, configurations, conversion, and the modules that it makes.",
     ("webgpu_torch.ao.quantization", "webgpu_torch.ao.quantization.quantize_fx", "webgpu_torch.ao.nn.quantized", "webgpu_torch.ao.nn.quantized.dynamic",
      "webgpu_torch.ao.nn.intrinsic", "webgpu_torch.ao.nn.qat")),
    ("torch.masked", "Reductions of what a mask shows."),
    ("torch.func", "Transforms of functions: gradients, Jacobians, mapping over batches."),
    ("torch.autograd", "Automatic differentiation: modes, functions of one's own, graphs, checks.",
     _inside("webgpu_torch.autograd", "forward_ad", "function", "functional", "graph", "profiler", "profiler_util")),
    ("torch.distributions", "Probability distributions, their transforms and constraints.",
     _inside("webgpu_torch.distributions", "transforms", "constraints", "kl", "constraint_registry", "exp_family")),
    ("torch.utils.data", "Datasets, samplers and loaders."),
    ("torch.utils", "Checkpoints of activations, hooks, exchange of memory, counts of operations, logs of training.",
     ("webgpu_torch.utils.checkpoint", "webgpu_torch.utils.dlpack", "webgpu_torch.utils.hooks",
      "webgpu_torch.utils.flop_counter", "webgpu_torch.utils.module_tracker", "webgpu_torch.utils.tensorboard")),
    ("torch.utils.benchmark", "Times of statements, measured until they can be trusted."),
    ("torch.amp", "Mixed precision."),
    ("torch.random", "Seeds and states of random numbers."),
    ("torch.serialization", "Files of tensors, and what they may name.",
     ("webgpu_torch.serialization", "webgpu_torch.storage")),
    ("torch.hub", "Models of repositories, by the entry points that they declare."),
    ("torch.testing", "Comparisons of tensors for tests."),
    ("torch.profiler", "Where time and memory go."),
    ("torch.multiprocessing", "Processes that hand tensors to each other, and results that come later.",
     ("webgpu_torch.multiprocessing", "webgpu_torch.futures")),
    ("torch.webgpu", "The devices of WebGPU: availability, memory, synchronisation."),
    ("torch.accelerator", "The same of whichever accelerator there is."),
    ("torch.backends", "Switches that programs for other devices look at, and the namespaces of those devices.",
     ("webgpu_torch.cpu", "webgpu_torch.cuda", "webgpu_torch.mps", "webgpu_torch.xpu", "webgpu_torch.backends.cpu",
      "webgpu_torch.backends.cuda", "webgpu_torch.backends.cudnn", "webgpu_torch.backends.mps",
      "webgpu_torch.backends.mkldnn", "webgpu_torch.backends.opt_einsum")),
    ("torch.compiler", "What compiled functions are told; scripts of PyTorch's own compiler.",
     ("webgpu_torch.compiler", "webgpu_torch.jit", "webgpu_torch.onnx")),
    ("torch.fx", "Functions and modules as graphs that programs read and change."),
    ("torch.library", "Operations of one's own under names of one's own, and classes that stand for tensors.",
     ("webgpu_torch.library", "webgpu_torch.overrides", "webgpu_torch.types")),
    ("torch.web", "Networks as folders of static files, for browsers and Node."),
    ("webgpu_torch_models", "Pretrained models without transformers or diffusers.",
     ("webgpu_torch_models", "webgpu_torch_models.generation")),
    ("webgpu_torch_models.diffusion", "Images of texts: networks, schedulers and the pipeline that joins them."),
    ("webgpu_torch_drop_in", "This library in the place of PyTorch.", ("webgpu_torch_drop_in",)),
    ("backend interface", "What a backend implements and what it is given: kernels, steps of expressions, element types.",
     ("webgpu_torch_core.backend.interface", "webgpu_torch_core.backend.plugins", "webgpu_torch_core.ir.kernels", "webgpu_torch_core.ir.records",
      "webgpu_torch_core.ir.steps", "webgpu_torch_core.ir.expression", "webgpu_torch_core.ir.monoids",
      "webgpu_torch_core.ir.encodings", "webgpu_torch_core.ir.layouts", "webgpu_torch_core.ir.dtypes",
      "webgpu_torch_core.ir.scalar", "webgpu_torch_testing")),
    ("declaring operations", "How an operation is declared, and how it is recorded.",
     ("webgpu_torch_core.dispatch.registry", "webgpu_torch_core.operations.common")),
)  # fmt: skip


class Entry:
    """An object of the reference.

    Attributes:
        name: its public name.
        value: the object.
        module: the module it is described in.
        more: other names of the same object in that module, and of its in-place form.
        operation: the record of the operation that it is, if any.
    """

    def __init__(self, module: str, name: str, value: Any) -> None:
        self.module = module
        self.name = name
        self.value = value
        self.more: list[tuple[str, Any]] = []
        self.operation: Operation | None = None

    @property
    def kind(self) -> str:
        """The kind of object in the words of Sphinx's directives."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        if isinstance(self.value, property) or inspect.isdatadescriptor(self.value):
            return "property"
        if callable(self.value):
            return "method" if self.module == "webgpu_torch.Tensor" else "function"
        return "data"

    @property
    def full_name(self) -> str:
        """The name that other projects refer to."""
        return f"{self.module}.{self.name}"

    def documentation(self) -> str:
        """Return the docstring of its own, or nothing."""
        owner = getattr(self.value, "__module__", None) or ""
        if owner.partition(".")[0] == "multiprocessing":
            return f"Python's own ``multiprocessing.{self.name}``."
        if self.kind == "data" or (self.kind == "property" and not isinstance(self.value, property)):
            kind = type(self.value)
            text = kind.__doc__ if kind.__module__.startswith("webgpu_torch") else ""
            return _comment_above(self) or inspect.cleandoc(text or "")
        text = vars(self.value).get("__doc__") if inspect.isclass(self.value) else getattr(self.value, "__doc__", None)
        return inspect.cleandoc(text) if isinstance(text, str) else ""

    def sentence(self) -> str:
        """Return the first paragraph of its documentation in one line."""
        return " ".join(self.documentation().split("\n\n")[0].split())

    def group(self) -> str:
        """Return the family of operations that it belongs to, or ``types and settings``."""
        path = source_file(self.value)
        parts = path.parts if path else ()
        if "operations" in parts:
            family = parts[parts.index("operations") + 1]
            return {"queries.py": "tensors", "in_place": "writing in place"}.get(family, family.removesuffix(".py"))
        if "functional" in parts:
            return "neural"
        if "modules" in parts:
            return "modules"
        return "types and settings" if self.module == "webgpu_torch" else "tensors"


def _comment_above(entry: Entry) -> str:
    """Return what the ``#:`` lines above a constant's assignment say."""
    from webgpu_torch_core.ir.dtypes import dtype

    if isinstance(entry.value, dtype):
        size = entry.value.itemsize
        return f"The element type {entry.value}: {size} byte{'s' if size > 1 else ''} an element."
    tensor = entry.module == "webgpu_torch.Tensor"
    owners = (
        [sys.modules[each.__module__] for each in (Tensor, TensorKinds)] if tensor else [loaded_module(entry.module)]
    )
    lines = [line for each in owners for line in Path(each.__file__ or "").read_text(encoding="utf-8").splitlines()]
    defined = re.compile(rf"\s*(?:\w+ = )*{re.escape(entry.name)}\b(?:: | =|: .* =)")
    places = [i for i, line in enumerate(lines) if defined.match(line) and i and lines[i - 1].lstrip().startswith("#:")]
    place = places[0] if places else 0
    found: list[str] = []
    while place and lines[place - 1].lstrip().startswith("#:"):
        place -= 1
        found.insert(0, lines[place].lstrip()[2:].strip())
    return " ".join(found)


def unwrapped(value: Any) -> Any:
    """Return the function that a public name leads to: the definition of an element-wise operation, or of a method."""
    if isinstance(value, property):
        value = value.fget
    if inspect.isclass(value):
        return value
    found = inspect.unwrap(getattr(value, "__func__", value))
    declared = getattr(getattr(value, "operation", None), "definition", None)
    return inspect.unwrap(declared) if declared is not None else found


def source_file(value: Any) -> Path | None:
    """Return the file that defines something, from the repository's root; None for what Python has of its own."""
    try:
        path = Path(inspect.getsourcefile(unwrapped(value)) or "")
    except TypeError:
        return None
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else None


def source_text(value: Any) -> str:
    """Return the source of a definition as :func:`inspect.getsource` does, which parses a file again for each of its classes.

    Raises:
        OSError: there is none.
        TypeError: Python has it of its own.
    """
    if not inspect.isclass(value):
        return inspect.getsource(value)
    path = inspect.getsourcefile(value) or ""
    lines = _classes(path).get(value.__qualname__)
    return lines if lines is not None else inspect.getsource(value)


@cache
def _classes(path: str) -> dict[str, str]:
    """Return the source of a file's classes by their qualified names, of those defined several times the first."""
    lines = linecache.getlines(path)
    found: dict[str, str] = {}

    def visit(node: ast.AST, inside: str) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.ClassDef):
                first = min(one.lineno for one in (each, *each.decorator_list))
                found.setdefault(inside + each.name, "".join(lines[first - 1 : each.end_lineno]))
                visit(each, f"{inside}{each.name}.")
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                visit(each, f"{inside}{each.name}.<locals>.")
            else:
                visit(each, inside)

    visit(ast.parse("".join(lines)), "")
    return found


def public_names(module: Any) -> list[str]:
    """Return the names that a module offers: its ``__all__``, or what it holds of this project."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [each for each in listed if not inspect.ismodule(getattr(module, each))]
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or name == "annotations":
            continue
        owner = getattr(value, "__module__", None) or type(value).__module__
        mine = owner.startswith("webgpu_torch") and (callable(value) or not isinstance(value, str | int))
        facade = f"{module.__name__}.".startswith("webgpu_torch.")
        defined = facade or owner == module.__name__ or not callable(value)
        if mine and defined:
            found.append(name)
    return found


def loaded_module(module: str) -> Any:
    """Return a module by its public name, which may be an attribute's (``webgpu_torch.webgpu``)."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        parent, _, name = module.rpartition(".")
        if not parent:
            raise
        return getattr(loaded_module(parent), name)


def _members(module: str) -> Iterator[tuple[str, Any]]:
    if module == "webgpu_torch.Tensor":
        for name in sorted(dir(Tensor)):
            if not name.startswith("_"):
                yield name, inspect.getattr_static(Tensor, name)
        return
    loaded = loaded_module(module)
    for name in sorted(public_names(loaded), key=str.lower):
        # A tensor has pages of its own.
        if getattr(loaded, name) is not Tensor:
            yield name, getattr(loaded, name)


def _plain(value: Any) -> Any:
    return getattr(value, "__func__", value)


@cache
def entries(module: str) -> list[Entry]:
    """Return what a module offers: one entry per object, with its other names and its in-place form."""
    found: dict[str, Entry] = {}
    by_value: dict[int, Entry] = {}
    members = dict(_members(module))
    for name, value in members.items():
        callable_ = callable(_plain(value)) and not inspect.isclass(value)
        same = by_value.get(id(_plain(value))) if callable_ else None
        base = found.get(name[:-1]) if name.endswith("_") and callable_ else None
        if same is None and base is None and name.endswith("_") and name[:-1] in members and callable_:
            base = next((each for each in found.values() if name[:-1] in dict(each.more)), None)
        if same is not None or base is not None:
            (same or base).more.append((name, value))  # type: ignore[union-attr]
            continue
        found[name] = by_value[id(_plain(value))] = Entry(module, name, value)
    records = _records(module)
    for each in found.values():
        each.operation = records.get(each.name)
    return list(found.values())


def left_out() -> list[str]:
    """Return the full names that modules list for users (``__all__``) and no namespace has."""
    found = [each for namespace in NAMESPACES for module in namespace.modules for each in entries(module)]
    described = {id(_plain(value)) for each in found for value in (each.value, *dict(each.more).values())}
    missing = []
    for package in (webgpu_torch, webgpu_torch_models, webgpu_torch_drop_in, webgpu_torch_testing):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.rpartition(".")[2] in ("__main__", "as_torch") or "._" in info.name:
                continue
            module = importlib.import_module(info.name)
            listed = public_names(module) if hasattr(module, "__all__") else []
            missing += [f"{info.name}.{each}" for each in listed if id(_plain(getattr(module, each))) not in described]
    return missing


def _records(module: str) -> dict[str, Operation]:
    spaces = {
        "webgpu_torch": ("torch",),
        "webgpu_torch.Tensor": ("torch", "method"),
        "webgpu_torch.nn.functional": ("functional",),
    }
    wanted = spaces.get(module, (module.removeprefix("webgpu_torch."),))
    return {
        name: each for each in OPERATIONS.values() if each.namespace in wanted for name in (each.name, *each.aliases)
    }


_HIDDEN = re.compile(r"_\w*$")


def _default(value: Any) -> str:
    text = getattr(value, "__name__", None) if inspect.isclass(value) or inspect.isfunction(value) else repr(value)
    return "..." if text is None or text.startswith("<") else text.replace("webgpu_torch.", "torch.")


def parameters(value: Any, method: bool = False) -> list[inspect.Parameter]:
    """Return the parameters that a caller may give, without ``self``.

    Raises:
        ValueError: Python cannot tell.
        TypeError: it cannot be called.
    """
    names = getattr(value, "fields", None)
    if (
        inspect.isclass(value)
        and isinstance(names, tuple)
        and names
        and value.__init__.__qualname__ == "Record.__init__"
    ):
        kinds: dict[str, Any] = {}
        for each in reversed(value.__mro__):
            kinds |= vars(each).get("__annotations__", {})
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(each, kind, annotation=kinds.get(each, inspect.Parameter.empty)) for each in names]
    function = value if inspect.ismethod(value) else _plain(value)
    found = list(inspect.signature(function).parameters.values())
    # A static method has no tensor of its own.
    if method and not isinstance(value, staticmethod):
        found = found[1:]
    return [each for each in found if not _HIDDEN.match(each.name)]


def signature(value: Any, method: bool = False) -> str:
    """Return ``(input, *, out=None)``: names and defaults, as PyTorch's pages show them."""
    try:
        given = parameters(value, method)
    except (ValueError, TypeError):
        return "(...)"
    parts: list[str] = []
    starred = False
    for each in given:
        if method and each.name == "out":
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        parts.append(star + each.name + ("" if each.default is each.empty else f"={_default(each.default)}"))
    return f"({', '.join(parts)})"


#: what parameters of these names are wherever they are not annotated
_CONVENTIONS = {
    "tensors": "Tensor", "probs": "Tensor | Number", "logits": "Tensor | Number", "temperature": "Tensor | Number",
    "upper_bound": "Tensor | Number", "lower_bound": "Tensor | Number", "device": "device | str | int | None",
    "fn": "Callable", "function": "Callable", "new_state": "Tensor", "inputs": "Sequence", "data_source": "Sized",
    "amount": "int | float", "cls": "type", "t": "str | type", "size": "int | tuple | None",
    "scale_factor": "float | tuple | None",
}  # fmt: skip


def types(value: Any, elementwise: bool, method: bool = False) -> str:
    """Return the parameters' types as annotated, and the result's; operands of element-wise functions are known."""
    try:
        given = parameters(value, method)
        returned = inspect.signature(value if inspect.ismethod(value) else _plain(value)).return_annotation
    except (ValueError, TypeError):
        return ""
    shown = []
    for number, each in enumerate(given):
        kind = _annotation(each.annotation) or _CONVENTIONS.get(each.name, "")
        if not kind and isinstance(each.default, bool | int | float | str):
            kind = type(each.default).__name__
        if not kind and elementwise:
            operand = each.default is each.empty
            kind = "Tensor" if operand and number == 0 and not method else "Tensor | Number" if operand else ""
            kind = "Tensor | None" if each.name == "out" else kind
        if kind and not (method and each.name == "out"):
            shown.append(f"{each.name}: {kind}")
    result = _annotation(returned) or ("Tensor" if elementwise else "")
    arrow = f"→ {result}" if result and result != "None" and not inspect.isclass(value) else ""
    return " ".join(filter(None, (", ".join(shown), arrow)))


def _annotation(text: Any) -> str:
    if text is inspect.Parameter.empty or text is None:
        return ""
    text = text if isinstance(text, str) else getattr(text, "__name__", str(text))
    text = text.replace("dtype_class", "dtype").replace("torch.", "").replace("builtins.", "")
    return "" if text in ("Any", "Self") else text


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented methods and properties of a class, those of bases that are private to it included."""
    seen: set[str] = set()
    for base in kind.__mro__:
        private = base is kind or base.__name__.startswith("_") or base.__module__.rpartition(".")[2].startswith("_")
        # What a public base has is described there.
        if not private or not base.__module__.startswith("webgpu_torch"):
            break
        for name, value in vars(base).items():
            shown: Callable[..., Any] | Any = _plain(value)
            known = (inspect.isfunction(shown) and shown.__module__.startswith("webgpu_torch")) or isinstance(
                value, property
            )
            if known and not name.startswith("_") and name not in seen and (shown.__doc__ or "").strip():
                seen.add(name)
                yield name, value
