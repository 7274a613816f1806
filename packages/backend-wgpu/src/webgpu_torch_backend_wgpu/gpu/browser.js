// What gpu/browser.py asks of navigator.gpu: objects stay here in a table, Python holds their numbers.
// One expression whose value is an object of functions, so that it loads wherever JavaScript may be evaluated.
(() => {
  const WORDS = 6, DISPATCH = 0;
  const MAP_READ = 0x1, COPY_SOURCE = 0x4, COPY_TARGET = 0x8, UNIFORM = 0x40, STORAGE = 0x80, QUERY_RESOLVE = 0x200;
  const USAGES = { storage: STORAGE | COPY_SOURCE | COPY_TARGET, uniform: UNIFORM | COPY_TARGET };
  // The largest mappable buffer for reading: larger reads go through two of them in turn.
  const STAGING_BYTES = 2 ** 26;
  const COMPUTE_STAGE = 4;
  // So many submits share one promise that tells when they are done.
  const SUBMITS_PER_MARK = 32;

  const words = (nbytes) => Math.ceil(nbytes / 4) * 4;

  // Run an action with the bytes of a Python buffer, in place.
  function withBytes(python, kind, action) {
    const view = python.getBuffer(kind);
    try {
      return action(view.data);
    } finally {
      view.release();
    }
  }

  function kindOf(error) {
    if (error instanceof GPUOutOfMemoryError) return "out-of-memory";
    return error instanceof GPUValidationError ? "validation" : "internal";
  }

  class Gpu {
    constructor(device) {
      this.device = device;
      this.queue = device.queue;
      this.objects = new Map();
      this.next = 1;
      this.staging = [];
      this.submits = 0;
      this.marks = [];
      this.lost = "";
      this.first = null;
      this.settled = null;
      device.addEventListener("uncapturederror", (event) => {
        event.preventDefault();
        this.first ??= [kindOf(event.error), event.error.message];
      });
      device.lost.then((info) => { this.lost ||= info.message || "no reason given"; });
    }

    keep(made) {
      this.objects.set(this.next, made);
      return this.next++;
    }

    // Start a method that takes time and return a number, of which ``settled`` is told when it is done: its result, or what was
    // wrong. A promise would become a future of Python's asyncio, which takes turns of the event loop of its own.
    later(name, ...given) {
      const number = this.next++;
      this[name](...given).then(
        (value) => this.settled(number, value, ""),
        (error) => this.settled(number, undefined, String(error?.message || error)),
      );
      return number;
    }

    // The first error since the last call, as "kind: message"; empty where there was none.
    error() {
      const found = this.first;
      this.first = null;
      return found ? `${found[0]}: ${found[1]}` : "";
    }

    buffer(size, use) {
      return this.keep(this.device.createBuffer({ size, usage: USAGES[use] }));
    }

    // The same once the device has said whether there is room: 0 where there is none.
    async certainBuffer(size, use) {
      this.device.pushErrorScope("out-of-memory");
      const made = this.device.createBuffer({ size, usage: USAGES[use] });
      const error = await this.device.popErrorScope();
      if (!error) return this.keep(made);
      made.destroy();
      return 0;
    }

    destroy(handle) {
      const gone = this.objects.get(handle);
      this.objects.delete(handle);
      if (gone instanceof GPUBuffer) gone.destroy();
    }

    write(handle, offset, data) {
      withBytes(data, "u8", (bytes) => this.queue.writeBuffer(this.objects.get(handle), offset, bytes));
    }

    takeStaging(nbytes) {
      const size = Math.min(Math.max(2 ** Math.ceil(Math.log2(nbytes)), 2 ** 16), STAGING_BYTES);
      const at = this.staging.findIndex((each) => each.size >= nbytes);
      if (at >= 0) return this.staging.splice(at, 1)[0];
      return this.device.createBuffer({ size, usage: MAP_READ | COPY_TARGET });
    }

    giveStaging(buffer) {
      // Two are as many as one read uses.
      this.staging.push(buffer);
      this.staging.sort((one, other) => other.size - one.size);
      while (this.staging.length > 2) this.staging.pop().destroy();
    }

    async mapped(source, offset, nbytes) {
      const buffer = this.takeStaging(words(nbytes));
      const encoder = this.device.createCommandEncoder();
      encoder.copyBufferToBuffer(source, offset, buffer, 0, words(nbytes));
      this.queue.submit([encoder.finish()]);
      await buffer.mapAsync(MAP_READ, 0, words(nbytes));
      return buffer;
    }

    // Copy bytes of a buffer into a Python buffer; the GPU copies one chunk while the host takes the one before.
    async read(handle, offset, given) {
      // What Python gives is gone when the call returns.
      const into = given.copy();
      try {
        await this.readInto(this.objects.get(handle), offset, into);
      } finally {
        into.destroy();
      }
    }

    async readInto(source, offset, into) {
      const nbytes = withBytes(into, "u8", (bytes) => bytes.length);
      const ask = (start) => [start, this.mapped(source, offset + start, Math.min(nbytes - start, STAGING_BYTES))];
      const asked = [ask(0)];
      while (asked.length) {
        const [start, promise] = asked.shift();
        if (start + STAGING_BYTES < nbytes) asked.push(ask(start + STAGING_BYTES));
        const buffer = await promise;
        const count = Math.min(nbytes - start, STAGING_BYTES);
        const range = new Uint8Array(buffer.getMappedRange(0, words(count)), 0, count);
        withBytes(into, "u8", (bytes) => bytes.set(range, start));
        buffer.unmap();
        this.giveStaging(buffer);
      }
    }

    layout(kinds) {
      const entries = kinds.split(" ").map((type, binding) => ({ binding, visibility: COMPUTE_STAGE, buffer: { type } }));
      const group = this.device.createBindGroupLayout({ entries });
      return this.keep({ group, pipeline: this.device.createPipelineLayout({ bindGroupLayouts: [group] }) });
    }

    descriptor(label, module, layout) {
      return { label, layout: this.objects.get(layout).pipeline, compute: { module, entryPoint: "main" } };
    }

    // A pipeline at once; what is wrong with it is reported later.
    pipeline(label, code, layout) {
      const module = this.device.createShaderModule({ label, code });
      return this.keep(this.device.createComputePipeline(this.descriptor(label, module, layout)));
    }

    // A pipeline's number, or what was wrong with it.
    async certainPipeline(label, code, layout) {
      this.device.pushErrorScope("validation");
      const module = this.device.createShaderModule({ label, code });
      const [refused, made] = await Promise.all([
        this.device.popErrorScope(),
        this.device.createComputePipelineAsync(this.descriptor(label, module, layout)).catch((error) => error),
      ]);
      if (!refused && made instanceof GPUComputePipeline) return this.keep(made);
      const { messages } = await module.getCompilationInfo();
      const lines = messages.map((each) => `${each.type}: ${each.message}\n  wgsl:${each.lineNum}:${each.linePos}`);
      return lines.length ? lines.join("\n") : (refused ?? made).message;
    }

    async certainPipelines(labels, sources, layouts) {
      return Promise.all(labels.map((label, at) => this.certainPipeline(label, sources[at], layouts[at])));
    }

    group(layout, entries) {
      const bound = withBytes(entries, "f64", (numbers) => {
        const found = [];
        for (let at = 0; at < numbers.length; at += 3) {
          const [handle, offset, size] = numbers.subarray(at, at + 3);
          found.push({ binding: at / 3, resource: { buffer: this.objects.get(handle), offset, size } });
        }
        return found;
      });
      return this.keep(this.device.createBindGroup({ layout: this.objects.get(layout).group, entries: bound }));
    }

    // Objects in place of numbers: a list of passes and copies that encode() repeats.
    record(commands) {
      return withBytes(commands, "f64", (numbers) => {
        const parts = [];
        let last = 0;
        for (let at = 0; at < numbers.length; at += WORDS) {
          const [kind, first, second, third, fourth, fifth] = numbers.subarray(at, at + WORDS);
          if (kind !== DISPATCH) {
            parts.push([this.objects.get(first), second, this.objects.get(third), fourth, fifth]);
            continue;
          }
          if (!parts.length || !parts.at(-1).dispatches) {
            parts.push({ dispatches: [] });
            last = 0;
          }
          // A pipeline that is set already need not be set again.
          const pipeline = first === last ? null : this.objects.get(first);
          parts.at(-1).dispatches.push([pipeline, this.objects.get(second), third, fourth, fifth]);
          last = first;
        }
        return this.keep(parts);
      });
    }

    encode(recording, timestampWrites) {
      const encoder = this.device.createCommandEncoder();
      for (const part of this.objects.get(recording)) {
        if (!part.dispatches) {
          encoder.copyBufferToBuffer(...part);
          continue;
        }
        const pass = encoder.beginComputePass({ timestampWrites });
        for (const [pipeline, group, x, y, z] of part.dispatches) {
          if (pipeline) pass.setPipeline(pipeline);
          pass.setBindGroup(0, group);
          pass.dispatchWorkgroups(x, y, z);
        }
        pass.end();
      }
      return encoder;
    }

    validate(recording) {
      this.encode(recording).finish();
    }

    // Returns how many submits the GPU may be behind.
    submit(recording) {
      this.queue.submit([this.encode(recording).finish()]);
      if (++this.submits % SUBMITS_PER_MARK === 0) {
        const mark = this.queue.onSubmittedWorkDone().catch(() => {});
        this.marks.push(mark);
        mark.then(() => { this.marks = this.marks.filter((each) => each !== mark); });
      }
      return this.marks.length * SUBMITS_PER_MARK;
    }

    // Wait for the oldest of the submits that are under way.
    async catchUp() {
      await this.marks[0];
    }

    async wait() {
      await this.queue.onSubmittedWorkDone();
    }

    // Nanoseconds that a recorded pass took.
    async timed(recording) {
      const querySet = this.device.createQuerySet({ type: "timestamp", count: 2 });
      const resolved = this.device.createBuffer({ size: 16, usage: QUERY_RESOLVE | COPY_SOURCE });
      const encoder = this.encode(recording, { querySet, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 });
      encoder.resolveQuerySet(querySet, 0, 2, resolved, 0);
      this.queue.submit([encoder.finish()]);
      const buffer = await this.mapped(resolved, 0, 16);
      const [start, stop] = new BigUint64Array(buffer.getMappedRange(0, 16));
      buffer.unmap();
      this.giveStaging(buffer);
      resolved.destroy();
      querySet.destroy();
      return Number(stop - start);
    }

    close() {
      this.lost ||= "it was closed";
      this.device.destroy();
    }
  }

  const request = async () => globalThis.navigator?.gpu?.requestAdapter({ powerPreference: "high-performance" });
  const adapters = [];

  // What the browser tells of its adapter, as JSON: null where it has none.
  async function adapter(limitNames) {
    const found = await request();
    if (!found) return null;
    const { vendor, architecture, device, description, isFallbackAdapter, subgroupMinSize, subgroupMaxSize } = found.info;
    adapters.push(found);
    return JSON.stringify({
      handle: adapters.length - 1,
      vendor, architecture, device, description,
      fallback: isFallbackAdapter ?? false,
      subgroup: subgroupMinSize === subgroupMaxSize ? (subgroupMaxSize ?? 0) : 0,
      features: [...found.features],
      limits: limitNames.map((name) => found.limits[name]),
    });
  }

  async function open(handle, requiredFeatures, limitNames) {
    // An adapter gives one device: after that one was lost, the browser is asked for an adapter again.
    const chosen = adapters[handle] ?? (await request());
    adapters[handle] = null;
    if (!chosen) throw new Error("it has no adapter any more");
    const requiredLimits = Object.fromEntries(limitNames.map((name) => [name, chosen.limits[name]]));
    return new Gpu(await chosen.requestDevice({ requiredFeatures, requiredLimits }));
  }

  const supported = () => Boolean(globalThis.navigator?.gpu);
  return { adapter, open, supported };
})()
