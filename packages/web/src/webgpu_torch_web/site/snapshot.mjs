// node snapshot.mjs PYODIDE SOURCE TARGET: Python's memory with the library imported, and the library's files, packed.
//
// A page takes the memory up (worker.js) where importing would begin. TARGET gets python.gz, the memory, and
// library.tar.gz: all files, with compiled ones for the modules that are not in that memory.
import fs from "node:fs";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { install, unpack } from "./static/archive.js";

// Python remembers whether it can wait for JavaScript. Browsers can (JSPI), Node is not asked to.
if (!("Suspending" in WebAssembly)) {
  WebAssembly.Suspending = class { constructor(called) { return called; } };
  WebAssembly.promising = (called) => called;
}
const [folder, source, target] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: `${folder}/`, _makeSnapshot: true });
const root = python.runPython("import site; site.getsitepackages()[0]");
install(await unpack(new Blob([fs.readFileSync(source)]).stream()), python.FS, root);

// Run in names of its own, of which none stays.
function run(program) {
  const names = python.toPy({ root });
  python.runPython(program, { globals: names });
  names.destroy();
}

run(`
import gc, importlib, os

importlib.invalidate_caches()
# Where this program lies is nobody's business.
os.environ["_"] = "python"
import webgpu_torch as torch
import webgpu_torch_backend_wgpu.device, webgpu_torch_backend_wgpu.facts, webgpu_torch_backend_wgpu.gpu.browser
from webgpu_torch_core import plugins

plugins.registry.load()
# What computing imports.
(torch.ones(1, device="python") + 1).tolist()
gc.collect()
`);
const memory = python.makeMemorySnapshot();
run(`
import compileall, os, py_compile, sys, tarfile

# The time stamps of files mean nothing in an archive.
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
present = {getattr(module, "__cached__", None) for module in sys.modules.values()}
if not compileall.compile_dir(root, quiet=2, invalidation_mode=mode, stripdir=root):
    raise SystemExit("a module does not compile")

def plain(entry):
    if f"{root}/{entry.name.removeprefix('./')}" in present:
        return None
    entry.mtime = entry.uid = entry.gid = 0
    return entry

with tarfile.open("/library.tar.gz", "w:gz", format=tarfile.USTAR_FORMAT) as archive:
    archive.add(root, ".", filter=plain)
`);
for (const [name, data] of [["python.gz", gzipSync(memory)], ["library.tar.gz", python.FS.readFile("/library.tar.gz")]]) {
  fs.writeFileSync(`${target}/${name}`, data);
}
