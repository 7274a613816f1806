import { $, able, element, tell } from "./common.js";
import * as drawing from "./drawing.js";
import { createEditor } from "./editor.js";
import { EXAMPLES, TRAINED } from "./examples.js";
import { Library, NO_JSPI } from "./library.js";

// A program in the address: compressed, in letters that an address may have.
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

const NAMES = `
import json
import webgpu_torch as torch
places = {"torch.": torch, "nn.": torch.nn, "torch.nn.": torch.nn, "torch.nn.functional.": torch.nn.functional,
          "nn.functional.": torch.nn.functional, "F.": torch.nn.functional, "torch.optim.": torch.optim,
          "torch.linalg.": torch.linalg, "tensor.": torch.Tensor}
names = {key: [each for each in dir(value) if not each.startswith("_")] for key, value in places.items()}
names[""] = ["torch", "import", "from", "print", "range", "for", "def", "return", "class", "with", "plot", "show"]
json.dumps(names)
`;

const names = {};
// Plots by name, to be drawn anew in the colours of another theme, or when the window has another width.
const plots = new Map();
const redraw = () => plots.forEach((message) => drawing.plot($("plots"), message));
addEventListener("theme", redraw);
addEventListener("resize", redraw);
let library = null, running = false;

async function first() {
  const given = /^#code=(.+)$/.exec(location.hash);
  if (!given) return EXAMPLES.Tensors;
  return unpacked(given[1]).catch(() => {
    tell("The program in this address is damaged; here is an example instead.");
    return EXAMPLES.Tensors;
  });
}

const editor = createEditor($("editor"), await first(), names, () => run());

// Nothing writes that the site did not bring.
if (!document.querySelector("meta[name=model]")) delete EXAMPLES[TRAINED];
for (const name of Object.keys(EXAMPLES)) $("examples").append(element("option", name));
$("examples").onchange = () => editor.replace(EXAMPLES[$("examples").value]);

$("share").onclick = async () => {
  history.replaceState(null, "", `#code=${await packed(editor.text())}`);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  $("state").textContent = "The address of this page now holds the program; it is copied, too";
};

function write(text, className) {
  $("output").append(element("span", text, className));
  $("output").scrollTop = $("output").scrollHeight;
}

const handlers = {
  state: ({ text }) => { $("state").textContent = text; },
  failed: ({ text }) => tell(text),
  text: ({ text, error }) => write(text, error ? "bad" : undefined),
  plot(message) {
    plots.set(message.name, message);
    drawing.plot($("plots"), message);
  },
  image: (message) => drawing.image($("plots"), message),
};

function buttons() {
  $("run").disabled = running;
  $("stop").disabled = !running;
}

async function run() {
  if (running || !library) return;
  running = true;
  buttons();
  $("output").replaceChildren();
  $("plots").replaceChildren();
  plots.clear();
  $("state").textContent = "Running";
  const { error, seconds } = await library.run(editor.text());
  if (error && error !== "stopped") write(error, "bad");
  $("state").textContent = error === "stopped" ? "Stopped" : `${error ? "Failed" : "Done"} after ${seconds.toFixed(2)} s`;
  running = false;
  buttons();
  globalThis.last = { error, seconds };
}

$("run").onclick = run;
$("stop").onclick = () => {
  library.stop();
  awake();
};

function awake() {
  library.ready.then(async (seconds) => {
    $("state").textContent = `Ready, after ${seconds.toFixed(1)} s`;
    if (!running) buttons();
    const { value } = await library.run(NAMES);
    Object.assign(names, JSON.parse(value));
  }, () => {});
}

if (await able()) {
  if (!WebAssembly.Suspending) tell(`${NO_JSPI} Here write print(await tensor.fetch()) in place of print(tensor).`);
  library = new Library((message) => handlers[message.kind]?.(message));
  globalThis.library = library;
  globalThis.editor = editor;
  awake();
}
