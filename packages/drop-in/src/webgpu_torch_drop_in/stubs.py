"""What libraries import from ``torch`` and this library does not have: every recorded name, in one table.

A stub can be imported, named in annotations, subclassed and asked about with ``isinstance``; calling it raises.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn


class StubType(type):
    """The type of stand-ins for missing classes and functions."""

    path: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse by name, except to make an instance of a subclass that brings its own constructor."""
        if cls.__dict__.get("is_stub"):
            _refuse(cls.path)
        return super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return stub(f"{cls.path}.{name}")

    def __or__(cls, other: Any) -> Any:
        return Any if other is None else cls

    __ror__ = __or__

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __repr__(cls) -> str:
        return f"<missing {cls.path}>"


def stub(path: str) -> StubType:
    """Return the stand-in for a missing class or function."""
    parent, _, name = path.rpartition(".")
    return StubType(name, (), {"path": path, "is_stub": True, "__module__": parent})


class StubModule(ModuleType):
    """A module of stand-ins."""

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__(name, f"Stands for PyTorch's ``{name}``, which this library does not have.")
        self.__path__: list[str] = []
        for each in names:
            setattr(self, each, stub(f"{name}.{each}"))


def _refuse(path: str) -> NoReturn:
    raise NotImplementedError(f"{path} is not part of webgpu-torch; the name is there so that libraries can import it")


def attach_names() -> None:
    """Put the stand-ins for missing names into the modules that exist."""
    import importlib

    for path in MODULES:
        importlib.import_module(path)
    for path, names in NAMES.items():
        module = importlib.import_module(path)
        for name in names:
            if not hasattr(module, name):
                setattr(module, name, stub(f"{path}.{name}"))


#: missing names of modules that exist
NAMES: dict[str, tuple[str, ...]] = {
    "torch": ("Stream",),
    "torch._C": ("Graph", "Value"),
    "torch.cuda": ("CUDAGraph", "StreamContext", "graph"),
    "torch.distributed": ("ProcessGroup",),
    "torch.fx": (
        "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "map_arg", "replace_pattern",
        "symbolic_trace",
    ),
    "torch.onnx": ("ONNXProgram", "OnnxExporterError", "dynamo_export", "export"),
    "torch.storage": ("TypedStorage",),
}  # fmt: skip

#: missing modules, with the names imported from them
MODULES: dict[str, tuple[str, ...]] = {
    "torch.distributed.device_mesh": ("DeviceMesh", "init_device_mesh"),
    "torch.distributed.tensor": ("DTensor", "Partial", "Replicate", "Shard", "distribute_tensor"),
    "torch.export": (
        "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature",
        "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection",
        "UnflattenedModule", "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass",
        "save", "unflatten",
    ),
    "torch.hub": (
        "HASH_REGEX", "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
    ),
}  # fmt: skip
