import { $, able, describe, download, element, tell } from "./common.js";
import { Library, NO_JSPI } from "./library.js";

const report = { cases: [] };
const rows = new Map();
let done = 0, missed = 0, waiting = 0;

function row(operation) {
  if (!rows.has(operation)) {
    const line = element("tr");
    const cells = [element("td", operation), element("td", "", "number"), element("td"), element("td", "", "text bad")];
    line.append(...cells);
    rows.set(operation, { line, cells, met: 0, all: 0, types: new Set() });
    const after = [...rows.keys()].sort();
    $("rows").insertBefore(line, rows.get(after[after.indexOf(operation) + 1])?.line ?? null);
  }
  return rows.get(operation);
}

function filter() {
  for (const { line, met, all } of rows.values()) line.hidden = $("only").checked && met === all;
}

function one(message) {
  const { kind, ...rest } = message;
  report.cases.push(rest);
  $("progress").value += 1;
  if (message.waits) {
    waiting += 1;
    return;
  }
  done += 1;
  const found = row(message.operation);
  found.all += 1;
  found.met += message.problem ? 0 : 1;
  missed += message.problem ? 1 : 0;
  found.types.add(message.type);
  found.cells[1].textContent = `${found.met} of ${found.all}`;
  found.cells[1].className = `number ${found.met === found.all ? "good" : "bad"}`;
  found.cells[2].textContent = [...found.types].join(" ");
  if (message.problem) found.cells[3].append(element("div", `${message.type}: ${message.text}: ${message.problem}`));
  $("state").textContent = `${done - missed} of ${done} expectations met, of ${$("progress").max}`;
  filter();
}

const handlers = {
  state: ({ text }) => { $("state").textContent = text; },
  failed: ({ text }) => tell(text),
  text: ({ text, error }) => { if (error) console.warn(text); },
  case: one,
  begin(message) {
    $("progress").max = message.count;
    report.torch = message.torch;
    report.device = message.device;
    report.browser = navigator.userAgent;
    $("device").textContent = `${describe(message.device)} · expectations of PyTorch ${message.torch}`;
  },
  end() {
    const share = ((100 * (done - missed)) / done).toFixed(missed ? 2 : 0);
    $("state").textContent = `${done - missed} of ${done} expectations met (${share} %), over ${rows.size} operations`;
    if (waiting) tell(`${NO_JSPI} ${waiting} expectations read results in the middle of an expression: they were not tried.`);
    $("state").className = missed ? "bad" : "good";
    $("save").disabled = false;
  },
};

$("only").onchange = filter;
$("save").onclick = () => download("conformance.json", JSON.stringify(report, null, 1));

if (await able()) {
  const library = new Library((message) => handlers[message.kind]?.(message));
  // ``every``: only every n-th expectation, for a quick look.
  const every = Number(new URLSearchParams(location.search).get("every")) || 1;
  $("start").onclick = async () => {
    $("start").disabled = true;
    const program = `from webgpu_torch_web.site.pages import conformance\nimport webgpu_torch\nawait conformance(webgpu_torch, ${every})`;
    const { error } = await library.run(program);
    if (error) tell(error);
    globalThis.finished = { done, missed, waiting, operations: rows.size };
  };
  globalThis.library = library;
  library.ready.then(() => {
    $("state").textContent = "Ready";
    $("start").disabled = false;
  }, () => {});
}
