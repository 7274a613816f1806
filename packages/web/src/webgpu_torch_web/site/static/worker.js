// Python with the library, in a worker: the page stays responsive, and Stop is the end of the worker.
//
// Python is not started but goes on: from a memory in which the library is imported, made when the site was built
// (snapshot.mjs). This and the numbers that only this build of Pyodide has are why the site brings its Pyodide along.
import { inflate, install, unpack } from "./archive.js";
import createModule from "./pyodide/pyodide.asm.mjs";
import { loadPyodide } from "./pyodide/pyodide.mjs";

const say = (kind, message) => postMessage({ kind, ...message });

async function fetched(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.body;
}

// A module with room for the memory. How the engine calls functions of another signature is its own affair
// (CPython's Python/emscripten_trampoline.c): what this one found out at its start outlasts the memory that is taken up.
async function createWith(memory, settings) {
  const module = await createModule(settings);
  module.growMemory((await memory).length);
  const place = (module.__PyRuntime + module.HEAP32[module.__PyEM_EMSCRIPTEN_TRAMPOLINE_OFFSET >> 2]) >> 2;
  const trampoline = module.HEAP32[place];
  const restore = module.API.restoreSnapshot;
  module.API.restoreSnapshot = (snapshot) => {
    const found = restore(snapshot);
    module.HEAP32[place] = trampoline;
    return found;
  };
  return module;
}

async function start() {
  if (!globalThis.navigator.gpu) throw new Error("no WebGPU");
  say("state", { text: "Loading Python" });
  const files = fetched("library.tar.gz").then(unpack);
  const memory = fetched("python.gz").then(inflate);
  const python = await loadPyodide({
    indexURL: new URL("./pyodide/", import.meta.url).href,
    _loadSnapshot: memory,
    createPyodideModule: (settings) => createWith(memory, settings),
    stdout: (line) => say("text", { text: `${line}\n`, error: false }),
    stderr: (line) => say("text", { text: `${line}\n`, error: true }),
  });
  const unpacked = await files;
  const ready = performance.now();
  say("state", { text: "Loading the library" });
  install(unpacked, python.FS, python.runPython("import site; site.getsitepackages()[0]"));
  globalThis.page = { say: (message) => postMessage(JSON.parse(message)) };
  await python.runPythonAsync(`
import importlib, random
importlib.invalidate_caches()
# Not every visitor draws the same numbers.
random.seed()
import webgpu_torch as torch
await torch.webgpu.open()
await torch.zeros(1).fetch()
`);
  say("ready", { seconds: (performance.now() - ready) / 1000 });
  return python;
}

const started = start().catch((error) => {
  say("failed", { text: String(error.message ?? error) });
  return null;
});

// Programs run one after the other, each in a namespace of its own unless it asks for the one before.
let last = Promise.resolve();
let names = null;

async function run({ id, code, keep }) {
  const python = await started;
  if (!python) return;
  if (!keep || !names) {
    names?.destroy();
    names = python.toPy({ __name__: "__main__" });
  }
  const begun = performance.now();
  const done = (rest) => say("done", { id, seconds: (performance.now() - begun) / 1000, ...rest });
  try {
    const value = await python.runPythonAsync(code, { globals: names, filename: "<playground>" });
    done({ value: value?.toString?.() ?? null });
    value?.destroy?.();
  } catch (error) {
    done({ error: String(error.message ?? error) });
  }
}

onmessage = ({ data }) => {
  last = last.then(() => run(data));
};
