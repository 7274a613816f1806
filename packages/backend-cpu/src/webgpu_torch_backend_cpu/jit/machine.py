"""LLVM: a module's text becomes the address of its function, through a file that the next process finds."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..kept import files
from .function import DATA_OFFSET
from .steps import Unsupported

#: how modules are compiled, as part of their files' names: to be counted up when it changes
PIPELINE = "1"

logger = logging.getLogger(__name__)

#: ``kernel(begin, end, arrays, numbers, parameters)``
Function = Callable[[int, int, bytes, bytes, bytes], None]
_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Machine:
    """The compiler for this machine's processor; its functions live as long as it does."""

    def __init__(self) -> None:
        from llvmlite import __version__, binding

        probe = np.zeros(1)
        if ctypes.c_void_p.from_address(id(probe) + DATA_OFFSET).value != probe.ctypes.data:
            raise RuntimeError("arrays of this NumPy have another layout")
        self.llvm: Any = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        processor, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        self.target = binding.Target.from_default_triple().create_target_machine(
            cpu=processor, features=features, opt=3, reloc="pic", codemodel="default", jit=True
        )
        self.linker = binding.create_lljit_compiler(self.target)
        version = ".".join(map(str, binding.llvm_version_info))
        self.identity = f"{PIPELINE} {__version__} {version} {self.target.triple} {processor} {features}"
        self.lock = threading.Lock()
        self._functions: dict[str, Function] = {}
        self._libraries: list[Any] = []

    def digest(self, text: str) -> str:
        """Return the name of a text's file."""
        return hashlib.sha256(f"{self.identity}\n{text}".encode()).hexdigest()

    def function(self, text: str, compiles: bool) -> Function | None:
        """Return the function of a module's text, None where it has not been compiled and is not to be.

        Raises:
            Unsupported: LLVM cannot compile or link it.
        """
        name = self.digest(text)
        with self.lock:
            found = self._functions.get(name)
            if found is None:
                code = files.read(f"{name}.o")
                if code is None and compiles:
                    code = self._compile(text)
                    files.write({f"{name}.o": code})
                if code is not None:
                    found = self._functions[name] = self._link(name, code)
            return found

    def _compile(self, text: str) -> bytes:
        llvm = self.llvm
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise Unsupported(f"LLVM: {error}") from error
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        builder = llvm.create_pass_builder(self.target, options)
        builder.getModulePassManager().run(module, builder)
        return self.target.emit_object(module)

    def _link(self, name: str, code: bytes) -> Function:
        builder = self.llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("kernel")
        try:
            library = builder.link(self.linker, name)
            address = library["kernel"]
        except RuntimeError as error:
            raise Unsupported(f"LLVM's linker: {error}") from error
        self._libraries.append(library)
        return _PROTOTYPE(address)


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Return whether there is a compiler, without loading it."""
    return importlib.util.find_spec("llvmlite") is not None


@lru_cache(maxsize=1)
def machine() -> Machine | None:
    """Return this process' compiler, None where llvmlite is not installed or does not work."""
    try:
        return Machine()
    except (ImportError, OSError, RuntimeError) as error:
        logger.debug("kernels run with NumPy: %s", error)
        return None
