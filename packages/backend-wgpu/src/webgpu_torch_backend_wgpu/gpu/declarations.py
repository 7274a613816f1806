"""C declarations made ready for cffi once for each text of them, and kept on disk: parsing a header takes longer than all else."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import hashlib
import io
import tempfile
from importlib.metadata import version
from pathlib import Path

from _cffi_backend import FFI

from ..disk_cache import DiskCache

_NAME = "webgpu"


def interface(declarations: str) -> FFI:
    """Return cffi's interface to what a text declares.

    It is what the Python module would hold that ``FFI.emit_python_code`` writes (cffi's documentation, "out-of-line, ABI level"),
    of which only the literals are kept.

    Raises:
        cffi.CDefError: the text is no list of declarations.
    """
    cache = DiskCache("declarations", "cffi", version("cffi"))
    key = _digest(declarations)
    kept = cache.get(key)
    # cffi believes what it is given: where the file was damaged it is written again.
    if not (isinstance(kept, list) and len(kept) == 2 and isinstance(kept[0], str) and kept[1] == _digest(kept[0])):
        parsed = _parsed(declarations)
        kept = [parsed, _digest(parsed)]
        cache.put(key, kept)
    return FFI(_NAME, **ast.literal_eval(kept[0]))


def opened(interface: FFI, path: str) -> object:
    """Return a library opened for as long as the process lives.

    What is still held when the interpreter ends is released by the library's functions, after cffi has closed it. ctypes closes
    none.
    """
    ctypes.CDLL(path)
    return interface.dlopen(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _parsed(declarations: str) -> str:
    """Return the literal of the arguments that make cffi's interface to declarations."""
    import cffi

    parser = cffi.FFI()
    parser.cdef(declarations)
    parser.set_source(_NAME, None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "declarations.py"
        with contextlib.redirect_stdout(io.StringIO()):
            parser.emit_python_code(str(path))
        module = ast.parse(path.read_text(encoding="utf-8"))
    call = next(each.value for each in module.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call))
    return repr({str(each.arg): ast.literal_eval(each.value) for each in call.keywords})
