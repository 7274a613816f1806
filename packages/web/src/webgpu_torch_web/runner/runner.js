// Runs what webgpu_torch.web.export wrote, in browsers and in Node: buffers, pipelines and bind groups are made once, and
// a run writes the inputs, submits the recorded commands and reads the outputs back.

import { elements, encode, fitted, product, STORED, tensorOf, TYPES } from "./elements.js";

export { toBrain, toHalf, unpack, widen } from "./elements.js";

const WORDS = 6, DISPATCH = 0;
const CACHE = "webgpu-torch";

/** An error that says what the folder needs and this page or machine lacks. */
export class UnsupportedError extends Error {}

const words = (count) => Math.ceil(count / 4) * 4;

/** Write bytes to (buffer, offset, bytes) pieces; what is no multiple of four bytes is filled up with zeros. */
function write(device, buffers, pieces, bytes) {
  let done = 0;
  for (const [buffer, offset, count] of pieces) {
    let part = bytes.subarray(done, done + count);
    if (count % 4) {
      part = new Uint8Array(words(count));
      part.set(bytes.subarray(done, done + count));
    }
    device.queue.writeBuffer(buffers[buffer], offset, part);
    done += count;
  }
}

async function readFile(url) {
  const { readFile } = await import(/* @vite-ignore */ "node:fs/promises");
  const bytes = await readFile(url);
  return new Response(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
}

async function request(url, options) {
  const response = url.protocol === "file:" ? await readFile(url) : await fetch(url, options);
  if (!response.ok) throw new Error(`${url} could not be loaded: ${response.status} ${response.statusText}`);
  return response;
}

/** Return a file's bytes, from the cache where it is there; tell how many came. */
async function download(url, cached, tell) {
  const store = cached && globalThis.caches ? await caches.open(CACHE).catch(() => null) : null;
  const found = await store?.match(url);
  const response = found ?? (await request(url));
  const parts = [];
  let length = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    tell(value.length);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  if (store && !found) {
    // An earlier export's file goes first; a full disk must not keep anybody from computing.
    await Promise.all((await store.keys(url, { ignoreSearch: true })).map((each) => store.delete(each)));
    await store.put(url, new Response(bytes)).catch(() => null);
  }
  return bytes;
}

/** Return a function that draws numbers from 0 to 1, the same ones for the same seed (mulberry32). */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Return whether the host does the work of an adapter or device that has what a plan's kernels for the host need. */
function byHost(plan, { features, info, adapterInfo }, given) {
  const missing = plan.featuresForHost.filter((each) => !features.has(each));
  if (given && missing.length) throw new UnsupportedError(`kernels for the host need the features ${missing.join(", ")}`);
  return (given ?? (info ?? adapterInfo)?.isFallbackAdapter ?? false) && !missing.length;
}

/** Return a device with what a plan needs. */
async function openDevice(plan, gpu, software) {
  if (!gpu) {
    throw new UnsupportedError(
      "WebGPU is not available here. Browsers that have it: Chrome and Edge from 113 on, Safari from 26 on, Firefox from 141 on " +
        "(Windows) and 145 on (macOS); pages must come from https or localhost. In Node pass {gpu}: the npm package webgpu makes one.");
  }
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new UnsupportedError("WebGPU found no adapter: the graphics driver is missing, too old or blocked");
  const missing = plan.features.filter((each) => !adapter.features.has(each));
  if (missing.length) throw new UnsupportedError(`this adapter lacks the features ${missing.join(", ")}`);
  for (const [name, needed] of Object.entries(plan.limits)) {
    if (adapter.limits[name] < needed) {
      throw new UnsupportedError(`this adapter allows ${name} up to ${adapter.limits[name]}; the export needs ${needed}`);
    }
  }
  const besides = byHost(plan, adapter, software) ? plan.featuresForHost : [];
  return adapter.requestDevice({ requiredFeatures: [...plan.features, ...besides], requiredLimits: plan.limits });
}

/** Keep the functions for this device: a card's, or the host's where it does an adapter's work. Mark what they use. */
function choose(plan, software) {
  if (software) Object.assign(plan.functions, plan.functionsForHost);
  for (const each of Object.values(plan.functions)) {
    for (const { at } of [...each.inputs, ...each.outputs]) at.forEach(([buffer]) => { plan.buffers[buffer].used = true; });
    for (let i = 0; i < each.commands.length; i += WORDS) {
      const [kind, first, second, third] = each.commands.slice(i, i + WORDS);
      if (kind === DISPATCH) plan.groups[second].used = true;
      else plan.buffers[first].used = plan.buffers[third].used = true;
    }
  }
  for (const { used, entries } of plan.groups) if (used) entries.forEach(([buffer]) => { plan.buffers[buffer].used = true; });
  plan.weights = plan.weights.filter(({ target }) => target.some(([buffer]) => plan.buffers[buffer].used));
  plan.weights.forEach(({ target }) => target.forEach(([buffer]) => { plan.buffers[buffer].used = true; }));
}

function makeBuffers(plan, device) {
  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = { STORAGE: 128, UNIFORM: 64, COPY_SRC: 4, COPY_DST: 8 };
  return plan.buffers.map(({ bytes, uniform, used }) => {
    if (!used) return null;
    const usage = uniform ? UNIFORM | COPY_DST : STORAGE | COPY_SRC | COPY_DST;
    const buffer = device.createBuffer({ size: bytes, usage });
    for (const [offset, text] of uniform ?? []) {
      device.queue.writeBuffer(buffer, offset, Uint8Array.from(atob(text), (each) => each.charCodeAt(0)));
    }
    return buffer;
  });
}

/** Return a plan's bind groups, and a function that compiles a pipeline when it is first asked for. */
function makePipelines(plan, device, text, buffers) {
  const sources = text.split(/^\/\/# \d+\n/m).slice(1);
  const layouts = new Map();
  const layoutOf = (kinds) => {
    const key = kinds.join();
    if (!layouts.has(key)) {
      const entries = kinds.map((type, binding) => ({ binding, visibility: 4, buffer: { type } }));
      layouts.set(key, device.createBindGroupLayout({ entries }));
    }
    return layouts.get(key);
  };
  const groups = plan.groups.map(({ layout, entries, used }) => used && device.createBindGroup({
    layout: layoutOf(layout),
    entries: entries.map(([buffer, offset, size], binding) => ({ binding, resource: { buffer: buffers[buffer], offset, size } })),
  }));
  const pipelines = [], pending = [];
  const compile = (number) => {
    const { label, shader, layout } = plan.pipelines[number];
    pending[number] ??= device
      .createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layoutOf(layout)] }),
        compute: { module: device.createShaderModule({ code: sources[shader] }), entryPoint: "main" },
      })
      .then((made) => { pipelines[number] = made; })
      .catch((error) => { throw new Error(`kernel '${label}' did not compile: ${error.message}`); });
    return pending[number];
  };
  return { groups, pipelines, compile };
}

async function loadWeights(plan, device, buffers, at, options) {
  const total = plan.weights.reduce((sum, each) => sum + each.bytes, 0);
  let loaded = 0;
  for (const file of new Set(plan.weights.map((each) => each.file))) {
    const bytes = await download(at(file), options.cache ?? true, (count) => {
      loaded += count;
      options.onProgress?.({ loaded: Math.min(loaded, total), total });
    });
    for (const each of plan.weights.filter((one) => one.file === file)) {
      const part = bytes.subarray(each.offset, each.offset + each.bytes);
      if (part.length !== each.bytes) throw new Error(`${file} is cut short: '${each.name}' is not all there`);
      write(device, buffers, each.target, each.stored ? new Uint8Array(STORED[each.stored](part).buffer) : part);
    }
    await device.queue.onSubmittedWorkDone();
  }
}

/** One exported function: what goes in, what comes out, and how it is run. */
class ExportedFunction {
  constructor(model, { inputs, outputs, values, commands }) {
    Object.assign(this, { inputs, outputs, values });
    this._model = model;
    this._commands = commands;
    this._ready = null;
  }

  /** Compile the function's kernels, side by side: the first run does, too. */
  prepare() {
    if (!this._ready) {
      const used = new Set();
      for (let i = 0; i < this._commands.length; i += WORDS) {
        if (this._commands[i] === DISPATCH) used.add(this._commands[i + 1]);
      }
      this._ready = Promise.all(Array.from(used, this._model._compile));
    }
    return this._ready;
  }

  /** Run on these inputs by name and return the outputs by name; of the outputs only those in `read`, if given. */
  async run(inputs = {}, { read } = {}) {
    const { device, _buffers: buffers } = this._model;
    this._model._check();
    const strange = Object.keys(inputs).find((name) => !this.inputs.some((each) => each.name === name));
    if (strange !== undefined) {
      throw new TypeError(`there is no input '${strange}'; there are ${this.inputs.map((each) => each.name).join(", ")}`);
    }
    const encoded = this.inputs.map((port) => {
      if (!(port.name in inputs)) throw new TypeError(`input '${port.name}' is missing`);
      return encode(port, inputs[port.name]);
    });
    await this.prepare();
    this._model._check();
    // From here to the submit nothing waits: another run cannot come between.
    this.inputs.forEach((port, at) => write(device, buffers, port.at, encoded[at]));
    const encoder = device.createCommandEncoder();
    this._encode(encoder);
    const wanted = this.outputs.filter(({ name }) => !read || read.includes(name));
    const staged = wanted.map((port) => this._stage(encoder, port));
    device.queue.submit([encoder.finish()]);
    const found = { ...this.values };
    const results = await Promise.all(wanted.map((port, at) => this._read(port, staged[at])));
    wanted.forEach((port, at) => { found[port.name] = results[at]; });
    this._model._check();
    return found;
  }

  _encode(encoder) {
    const { _buffers: buffers, _pipelines: pipelines, _groups: groups } = this._model, commands = this._commands;
    let pass = null;
    for (let i = 0; i < commands.length; i += WORDS) {
      const [kind, a, b, c, d, e] = commands.slice(i, i + WORDS);
      if (kind === DISPATCH) {
        pass ??= encoder.beginComputePass();
        pass.setPipeline(pipelines[a]);
        pass.setBindGroup(0, groups[b]);
        pass.dispatchWorkgroups(c, d, e);
      } else {
        pass?.end();
        pass = null;
        encoder.copyBufferToBuffer(buffers[a], b, buffers[c], d, e);
      }
    }
    pass?.end();
  }

  _stage(encoder, { at }) {
    const size = at.reduce((sum, [, , count]) => sum + words(count), 0);
    const staging = this._model._staging(size);
    let done = 0;
    for (const [buffer, offset, count] of at) {
      if (count) encoder.copyBufferToBuffer(this._model._buffers[buffer], offset, staging, done, words(count));
      done += words(count);
    }
    return staging;
  }

  async _read({ dtype, shape, at }, staging) {
    const count = at.reduce((sum, [, , bytes]) => sum + bytes, 0);
    await staging.mapAsync(1).catch(async (error) => {
      await Promise.race([this._model._lost, new Promise((go) => setTimeout(go, 100))]);
      this._model._check();
      throw error;
    });
    const data = new TYPES[dtype][0](staging.getMappedRange().slice(0, count));
    staging.unmap();
    this._model._give(staging);
    return tensorOf(data, dtype, shape);
  }
}

const resized = (shape, dimensions, length) => shape.map((size, at) => (dimensions.includes(at) ? length : size));

/** A function that was exported for inputs of several lengths: a run takes the shortest that holds its inputs. */
class FunctionOfLengths {
  constructor({ lengths, inputs, outputs }, functions) {
    const longest = functions.at(-1);
    Object.assign(this, { lengths, inputs: longest.inputs, outputs: longest.outputs, values: longest.values });
    Object.assign(this, { _functions: functions, _inputs: inputs, _outputs: outputs });
  }

  /** Compile the kernels of all lengths. */
  prepare() {
    return Promise.all(this._functions.map((each) => each.prepare()));
  }

  async run(inputs = {}, options = {}) {
    const given = { ...inputs };
    let length = null;
    for (const port of this.inputs.filter(({ name }) => name in this._inputs && name in inputs)) {
      given[port.name] = elements(port, inputs[port.name]);
      const found = this._length(port, given[port.name].length);
      if (length !== null && found !== length) throw new RangeError(`input '${port.name}' has length ${found}, others have ${length}`);
      length = found;
    }
    const used = this._functions[this.lengths.findIndex((each) => each >= (length ?? 0))];
    for (const { name, shape } of used.inputs) {
      if (name in this._inputs && name in given) given[name] = fitted(given[name], resized(shape, this._inputs[name], length), shape);
    }
    const found = await used.run(given, options);
    for (const [name, dimensions] of Object.entries(this._outputs)) {
      if (!(name in found)) continue;
      const { data, dtype, shape } = found[name], cut = resized(shape, dimensions, length);
      found[name] = tensorOf(fitted(data, shape, cut), dtype, cut);
    }
    return found;
  }

  /** Return how long an input of so many elements is. */
  _length({ name, shape }, count) {
    const dimensions = this._inputs[name], most = this.lengths.at(-1);
    const rest = product(resized(shape, dimensions, 1)), length = Math.round((count / rest) ** (1 / dimensions.length));
    if (rest * length ** dimensions.length !== count || length > most) {
      const sizes = shape.map((size, at) => (dimensions.includes(at) ? "length" : size));
      throw new RangeError(`input '${name}' has shape [${sizes}] and a length of at most ${most}, got ${count} elements`);
    }
    return length;
  }
}

/** Return the functions of a plan by name; those of one function's lengths are one. */
function functionsOf(model, { functions, lengths = {} }) {
  const made = Object.fromEntries(Object.entries(functions).map(([name, each]) => [name, new ExportedFunction(model, each)]));
  for (const [name, each] of Object.entries(lengths)) {
    made[name] = new FunctionOfLengths(each, each.functions.map((one) => made[one]));
    each.functions.forEach((one) => { delete made[one]; });
  }
  return made;
}

/** A loaded folder: its functions, the first of which is its own `run`. */
class Model {
  constructor(device, plan, at, buffers, { pipelines, groups, compile }) {
    Object.assign(this, { device, plan, _at: at, _buffers: buffers, _pipelines: pipelines, _groups: groups, _compile: compile });
    this._free = new Map();
    this._failure = null;
    this._lost = device.lost.then(({ message, reason }) => {
      this._failure ??= new Error(`the WebGPU device was lost (${reason}): ${message}. Load the folder again.`);
    });
    device.addEventListener?.("uncapturederror", ({ error }) => { this._failure ??= new Error(error.message); });
    this.functions = functionsOf(this, plan);
    const [first] = Object.values(this.functions);
    this.inputs = first.inputs;
    this.outputs = first.outputs;
    this.run = first.run.bind(first);
  }

  /** Return what a file of JSON in the folder holds. */
  async json(name) {
    return (await request(this._at(name))).json();
  }

  /** Free the GPU's memory. */
  destroy() {
    this._buffers.forEach((each) => each?.destroy());
    this.device.destroy();
  }

  _check() {
    if (this._failure) throw this._failure;
  }

  _staging(size) {
    const rounded = Math.max(256, 2 ** Math.ceil(Math.log2(size || 1)));
    return this._free.get(rounded)?.pop() ?? this.device.createBuffer({ size: rounded, usage: 1 | 8 });
  }

  _give(staging) {
    if (!this._free.has(staging.size)) this._free.set(staging.size, []);
    this._free.get(staging.size).push(staging);
  }
}

/**
 * Load an exported folder.
 *
 * url: the folder's address, or a file: address in Node. options: `gpu` (navigator.gpu by default), `device` (a GPUDevice
 * of yours), `onProgress({loaded, total})` in bytes of weights, `cache` (false: not in the browser's cache), `software`
 * (whether the host does the adapter's work: by default the adapter tells). The first function is compiled before this
 * returns, others when they first run or by `prepare()`.
 */
export async function load(url, options = {}) {
  const base = new URL(String(url).replace(/\/?$/, "/"), globalThis.location?.href);
  // The other files are asked for by the hash that it has: it must not be an earlier export's.
  const plan = await (await request(new URL("plan.json", base), { cache: "no-cache" })).json();
  if (plan.format !== "webgpu-torch" || plan.version !== 1) {
    throw new Error(`${base}plan.json is of format ${plan.format} ${plan.version}; this runner reads webgpu-torch 1`);
  }
  const at = (name) => {
    const found = new URL(name, base);
    if (found.protocol !== "file:") found.searchParams.set("v", plan.hash);
    return found;
  };
  const device = options.device ?? (await openDevice(plan, options.gpu ?? globalThis.navigator?.gpu, options.software));
  choose(plan, byHost(plan, device, options.software));
  const text = await (await request(at("shaders.wgsl"))).text();
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("validation");
  const buffers = makeBuffers(plan, device);
  const made = makePipelines(plan, device, text, buffers);
  await loadWeights(plan, device, buffers, at, options);
  const errors = [await device.popErrorScope(), await device.popErrorScope()].filter(Boolean);
  if (errors.length) throw new Error(`the export cannot be loaded here: ${errors[0].message}`);
  const model = new Model(device, plan, at, buffers, made);
  await Object.values(model.functions)[0].prepare();
  return model;
}
