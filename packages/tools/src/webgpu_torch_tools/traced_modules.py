"""Modules and functions as the graph of what one call computed, saved and loaded without their Python: ``torch.jit.trace``.

The graph is that of :mod:`.export`; sizes that the example has and the program does not ask about change from call to call. Files
are archives of exported programs, with the names of the modules beside them.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch.jit import ScriptFunction, ScriptModule, TracerWarning, _tracing
from webgpu_torch.utils._pytree import tree_leaves
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_nn import Module

from .export.archive import load as load_program
from .export.archive import save as save_program
from .export.exported_program import ExportedModule, ExportedProgram, flat_inputs
from .export.exporting import exported
from .export.sizes import Dim
from .export.tracing import Tracing
from .fx import Graph

Value: TypeAlias = Any
#: the file of an archive that has the modules' names
_NAMES = "traced_modules.json"
_ADVICE = (
    "this library runs no TorchScript: trace the module here with torch.jit.trace, or export it with torch.export.export and save "
    "it with torch.export.save where PyTorch is, whose files torch.export.load reads"
)


class TracingCheckError(Exception):
    """A traced function and its program compute different things."""


class _ByExample(Tracing):
    """Notes a program as the example takes it: what it reads of values is what the example's are."""

    def _refuse_values(self, name: str, known: bool) -> None:
        if known:
            warn(
                f"{name} of a tensor gives Python a value that depends on inputs: the trace has it as a constant, and might not "
                "generalize to other inputs",
                TracerWarning,
            )

    def _refuse_sizes(self, what: str) -> None:
        """Allow them: the graph has no sizes."""


class TracedModule(ScriptModule):
    """A module inside of a traced one: it has its tensors, and computes nothing by itself."""

    original_name: str

    def _name(self, name: str) -> None:
        self.__dict__["original_name"] = name

    def _get_name(self) -> str:
        return self.original_name

    def extra_repr(self) -> str:
        """Return what printing shows beside the submodules."""
        return f"original_name={self.original_name}"

    def forward(self, *args: Value, **kwargs: Value) -> Value:
        """Refuse: only the whole was traced.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{self.original_name} is a part of a traced module, of which only the whole was traced: trace the part by itself"
        )


class TopLevelTracedModule(TracedModule):
    """What :func:`trace` makes of a module: the graph of its call, over parameters and buffers of the same names."""

    _program: ExportedProgram
    _computing: ExportedModule

    def forward(self, *args: Value, **kwargs: Value) -> Value:
        """Compute the graph."""
        return self._computing(*args, **kwargs)

    @property
    def graph(self) -> Graph:
        """The graph: parameters are read from the module."""
        return self._computing.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The graph as Python."""
        return self._computing.code

    def save(self, f: Value, **kwargs: Value) -> None:
        """Write the module into a file: see :func:`save`."""
        save(self, f, **kwargs)

    def save_to_buffer(self, **kwargs: Value) -> bytes:
        """Return the bytes that :meth:`save` would write."""
        buffer = io.BytesIO()
        save(self, buffer, **kwargs)
        return buffer.getvalue()

    def __deepcopy__(self, memo: dict[int, Value]) -> TopLevelTracedModule:
        made = load(io.BytesIO(self.save_to_buffer()))
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[Value, ...]:
        raise TypeError("a traced module is saved with torch.jit.save, not pickled")


class _Computing(ExportedModule):
    """The graph of a traced module, whose inputs nobody checks."""

    def _flat_inputs(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[Value]:
        return flat_inputs(self._spec.in_spec, args, kwargs)


class TracedFunction(ScriptFunction[Value]):
    """What :func:`trace` makes of a function."""

    def __init__(self, module: TopLevelTracedModule) -> None:
        self.module, self.name = module, module.original_name

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        """Compute the graph."""
        return self.module(*args, **kwargs)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.module.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The graph as Python."""
        return self.module.code

    def save(self, f: Value, **kwargs: Value) -> None:
        """Write the function into a file: see :func:`save`."""
        save(self.module, f, **kwargs)


def _tree(names: dict[str, str]) -> TopLevelTracedModule:
    """Return a traced module without tensors, from the names of modules by path."""
    root = TopLevelTracedModule()
    for path, name in names.items():
        made = root if not path else TracedModule()
        made._name(name)
        if path:
            owner, _, own = path.rpartition(".")
            root.get_submodule(owner).add_module(own, made)
    return root


def _assembled(names: dict[str, str], program: ExportedProgram, shared: dict[str, Tensor]) -> TopLevelTracedModule:
    """Return a traced module from its modules' names, its graph, and tensors by path."""
    root = _tree(names)
    computing = program.module(check_guards=False)
    computing.__class__ = type("GraphModuleImpl", (_Computing,), dict(vars(type(computing))))
    for path, tensor in shared.items():
        owner, _, name = path.rpartition(".")
        place = root.get_submodule(owner)
        if isinstance(tensor, torch.nn.Parameter):
            place.register_parameter(name, tensor)
        else:
            place.register_buffer(name, tensor, persistent=path in program.state_dict)
    for path, module in computing.named_modules():
        # What is neither a parameter nor a buffer stays the graph's own, and everything else is there once.
        own = {name: each for name, each in module._buffers.items() if f"{path}.{name}".lstrip(".") not in shared}
        if path in names:
            twin = root.get_submodule(path)
            module.__dict__.update(_parameters=twin._parameters, _buffers=twin._buffers)
        module.__dict__.update(own)
    root.__dict__.update(_program=program, _computing=computing)
    return root


def _attempts(args: tuple[Value, ...], kwargs: dict[str, Value]) -> Iterator[Value]:
    """Yield which sizes may change: all; all but that of channels, or of features; of the first dimension; none."""

    def sizes(keep: Callable[[int, int], bool]) -> Value:
        def of(value: Value) -> Value:
            if isinstance(value, Tensor):
                return {place: Dim.AUTO for place in range(value.dim()) if keep(place, value.dim())}
            if isinstance(value, dict):
                return {name: of(each) for name, each in value.items()}
            return [of(each) for each in value] if isinstance(value, list | tuple) else None

        return [*map(of, args), *map(of, kwargs.values())]

    yield sizes(lambda place, count: True)
    yield sizes(lambda place, count: place != 1)
    yield sizes(lambda place, count: place != count - 1)
    yield sizes(lambda place, count: place == 0)
    yield None


def _traced(module: Module, args: tuple[Value, ...], kwargs: dict[str, Value]) -> ExportedProgram:
    state = torch.random.get_rng_state()
    for shapes in _attempts(args, kwargs):
        try:
            return exported(module, args, kwargs, shapes, _ByExample)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            # A size that was let change is one that the program fixes.
            if shapes is None:
                raise
            torch.random.set_rng_state(state)
    raise AssertionError("the last attempt returns or raises")


def _check_outputs(result: Value, strict: bool) -> None:
    if strict and isinstance(result, dict | list):
        text = (
            f"Encountering a {type(result).__name__} at the output of the tracer might cause the trace to be incorrect, this is "
            "only valid if the container structure does not change based on the module's inputs. Consider using a constant "
            "container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely "
            "need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )
        if isinstance(result, dict):
            raise RuntimeError(text)
        warn(text, TracerWarning)
    if not all(isinstance(each, Tensor) for each in tree_leaves(result)):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        )


def _differences(expected: Value, found: Value, tolerance: float) -> list[str]:
    problems = []
    for number, (one, other) in enumerate(zip(tree_leaves(expected), tree_leaves(found), strict=True), 1):
        try:
            torch.testing.assert_close(other, one, rtol=tolerance, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            problems.append(f"Output nr {number}. of the traced function does not match the corresponding output of the "
                            f"Python function. Detailed error:\n{error}")  # fmt: skip
    return problems


def trace(
    func: Value, example_inputs: Value = None, optimize: Value = None, check_trace: bool = True, check_inputs: Value = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Value = None,
    _compilation_unit: Value = None, example_kwarg_inputs: dict[str, Value] | None = None, _store_inputs: bool = True,
) -> Value:  # fmt: skip
    """Return a module or function that computes what a call of the given one with example arguments computed.

    Args:
        func: the module or function; Python's branches are taken as the example takes them.
        example_inputs: a tensor, or a tuple of arguments; ``example_kwarg_inputs``: arguments by name, instead.
        check_trace: whether results are compared; ``check_inputs``: more arguments for that, ``check_tolerance``: how far they may
            be apart, relatively.
        strict: whether dictionaries are refused as results, and lists warned of.

    Raises:
        RuntimeError: arguments or results that are no tensors, or something that computes tensors unseen.
    """
    if isinstance(func, TopLevelTracedModule | TracedFunction):
        warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
        )
        return func
    args, kwargs = _examples(example_inputs, example_kwarg_inputs)
    module = func if isinstance(func, Module) else _module_of(func)
    before = {name: each.clone() for name, each in module.named_buffers()}
    _tracing.append(True)
    try:
        with torch.random.fork_rng(devices=()):
            expected = module(*args, **kwargs)
        _check_outputs(expected, strict)
        with torch.no_grad():
            for name, each in module.named_buffers():
                each.copy_(before[name])
        program = _traced(module, args, kwargs)
    finally:
        _tracing.pop()
    names = {path: type(each).__name__ for path, each in module.named_modules()}
    names[""] = type(func).__name__ if isinstance(func, Module) else getattr(func, "__name__", "function")
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    made = _assembled(names, program, tensors)
    made.train(module.training)
    if check_trace:
        _check(made, module, [(args, kwargs), *((_as_tuple(each), {}) for each in check_inputs or ())], check_tolerance)
    return made if isinstance(func, Module) else TracedFunction(made)


def _check(made: Module, module: Module, calls: list[tuple[Value, Value]], tolerance: float) -> None:
    """Warn where a traced module computes something else than its program; buffers stay as they are."""
    saved = {name: each.clone() for name, each in module.named_buffers()}
    with torch.no_grad():
        for args, kwargs in calls:
            results = []
            for each in (module, made):
                with torch.random.fork_rng(devices=()):
                    results.append(each(*args, **kwargs))
                for name, buffer in module.named_buffers():
                    buffer.copy_(saved[name])
            for problem in _differences(results[0], results[1], tolerance):
                warn(problem, TracerWarning)


def _as_tuple(value: Value) -> tuple[Value, ...]:
    return (value,) if isinstance(value, Tensor | dict) else tuple(value)


def _examples(inputs: Value, named: Value) -> tuple[tuple[Value, ...], dict[str, Value]]:
    if inputs is None and not isinstance(named, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    args = () if inputs is None else _as_tuple(inputs)
    for each in tree_leaves((args, named or {})):
        if not isinstance(each, Tensor | bool | int | float | None):
            raise RuntimeError(
                f"Type '{type(each).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
                "Tensors can be traced"
            )
    return args, dict(named or {})


def _module_of(function: Value) -> Module:
    """Return a module that calls a function, or a method of a module.

    Raises:
        RuntimeError: it cannot be called.
    """
    if not callable(function):
        raise RuntimeError(f"Could not get name of python class object: {function!r:.80} cannot be traced")
    module = Module()
    module.__dict__["forward"] = function
    return module


def trace_module(mod: Module, inputs: dict[str, Value], **options: Value) -> Value:
    """Return a module that computes what a call with example arguments, under the name of the method, computed.

    Raises:
        NotImplementedError: methods other than ``forward``.
    """
    if set(inputs) != {"forward"}:
        raise NotImplementedError(f"only forward can be traced, not {', '.join(inputs)}: trace functions of their own")
    options = {name: each for name, each in options.items() if name not in ("optimize", "example_inputs_is_kwarg")}
    if isinstance(inputs["forward"], dict):
        return trace(mod, example_kwarg_inputs=inputs["forward"], **options)
    return trace(mod, inputs["forward"], **options)


def save(m: Value, f: Value, _extra_files: dict[str, Value] | None = None) -> None:
    """Write a traced module or function into a file.

    Args:
        m: what :func:`trace` returned.
        f: a path, or a file that is open.
        _extra_files: texts to keep in the file, by name.

    Raises:
        TypeError: something that was not traced.
    """
    module = m.module if isinstance(m, TracedFunction) else m
    if not isinstance(module, TopLevelTracedModule):
        raise TypeError(
            f"{type(m).__name__} was not traced: torch.jit.script leaves Python as it is, which files cannot hold; save what "
            "torch.jit.trace makes of it, or its state_dict with torch.save"
        )
    program = module._program
    tensors = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    state, constants = ({path: tensors.get(path, each) for path, each in found.items()}
                        for found in (program.state_dict, program.constants))  # fmt: skip
    current = ExportedProgram(
        Module(), program.graph, program.graph_signature, state, program.range_constraints, program.module_call_graph,
        program.example_inputs, constants,
    )  # fmt: skip
    told = {
        "names": {path: each.original_name for path, each in module.named_modules()}, "training": module.training,
        "function": isinstance(m, TracedFunction),
    }  # fmt: skip
    save_program(current, f, extra_files={_NAMES: json.dumps(told), **(_extra_files or {})})


def load(
    f: Value, map_location: Value = None, _extra_files: dict[str, Value] | None = None, _restore_shapes: bool = False
) -> Value:
    """Return the module or function of a file that :func:`save` wrote.

    Args:
        f: a path, or a file that is open.
        map_location: the device for its tensors, the CPU by default.
        _extra_files: texts that the file keeps are put under the names in it.

    Raises:
        ValueError: there is no such file.
        RuntimeError: it is no archive.
        NotImplementedError: a TorchScript archive of PyTorch's.
    """
    if isinstance(f, str | os.PathLike) and not os.path.exists(f):
        raise ValueError(f"The provided filename {f} does not exist")
    try:
        with zipfile.ZipFile(f) as archive:
            files = archive.namelist()
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"{f} is no archive of a traced module") from error
    if any("/code/" in each for each in files):
        raise NotImplementedError(f"{f} is a TorchScript archive: {_ADVICE}")
    if not any(each.endswith(f"/extra/{_NAMES}") for each in files):
        raise RuntimeError(f"{f} is no archive of a traced module: torch.export.load reads exported programs")
    extra: dict[str, Value] = {_NAMES: ""}
    program = load_program(f, extra_files=extra)
    if _extra_files:
        load_program(f, extra_files=_extra_files)
    told = json.loads(extra[_NAMES])
    buffers = set(program.graph_signature.buffers)
    tensors = {**program.state_dict, **{path: each for path, each in program.constants.items() if path in buffers}}
    module = _assembled(told["names"], program, tensors)
    module.train(told["training"])
    if map_location is not None:
        module.to(map_location)
    return TracedFunction(module) if told["function"] else module


def freeze(mod: Module, preserved_attrs: Value = None, optimize_numerics: bool = True) -> Module:
    """Return the module, which must be in evaluation mode: plans are optimised whenever they run.

    Raises:
        RuntimeError: it is in training mode.
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Module, other_methods: Value = None) -> Module:
    """Return the module in evaluation mode: plans are optimised whenever they run."""
    return mod.eval()


__all__ = [
    "TopLevelTracedModule", "TracedFunction", "TracedModule", "TracingCheckError", "freeze", "load",
    "optimize_for_inference", "save", "trace", "trace_module",
]  # fmt: skip
