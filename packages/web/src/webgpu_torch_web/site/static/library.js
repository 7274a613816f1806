// The page's side of worker.js.

// What a visitor reads whose browser has no WebGPU.
export const NO_WEBGPU =
  "This browser has no WebGPU, which computes here. Chrome and Edge have it from version 113 on (on Linux from 144 on, " +
  "for some graphics cards), Safari from 26 on, and Firefox from 141 on Windows and 145 on Macs with Apple's processors. " +
  "A page must come from https or from this machine.";

// What a visitor reads whose browser cannot let Python wait in the middle of a program.
export const NO_JSPI =
  "This browser has no JSPI (WebAssembly JavaScript Promise Integration), by which Python waits for results; Chrome and Edge " +
  "have it from version 137 on.";

// Why a page cannot compute here; empty where it can.
export async function missing() {
  if (!globalThis.isSecureContext || !navigator.gpu) return NO_WEBGPU;
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  if (!adapter) {
    return "This browser has WebGPU, but no adapter: its graphics driver may be blocked, or hardware acceleration " +
      "switched off in its settings. The page chrome://gpu says more.";
  }
  return "";
}

// Python in a worker. ``on`` is called with each message: {kind: "state" | "ready" | "text" | "failed" | ...}.
export class Library {
  constructor(on) {
    this.on = on;
    this.waiting = new Map();
    this.next = 1;
    this.start();
  }

  start() {
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.ready = new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => {
        if (data.kind === "ready") resolve(data.seconds);
        if (data.kind === "failed") reject(new Error(data.text));
        if (data.kind === "done") {
          this.waiting.get(data.id)?.(data);
          this.waiting.delete(data.id);
        } else {
          this.on(data);
        }
      };
      this.worker.onerror = (event) => reject(new Error(event.message));
    });
    this.ready.catch(() => {});
  }

  // Run a program; resolves to {value, error, seconds}. ``keep`` runs it among the names of the program before.
  run(code, keep = false) {
    const id = this.next++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, code, keep });
    });
  }

  // End whatever runs, and start anew.
  stop() {
    this.worker.terminate();
    for (const [id, resolve] of this.waiting) resolve({ id, error: "stopped", seconds: 0 });
    this.waiting.clear();
    this.start();
  }
}
