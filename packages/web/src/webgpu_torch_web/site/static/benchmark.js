import { $, able, describe, download, element, tell } from "./common.js";
import { Library, NO_JSPI } from "./library.js";

const report = { rows: [] };
// Devices measured by this page before: [{name, date, rows: [{name, rate, unit}]}].
const recorded = await fetch(new URL("./devices.json", import.meta.url)).then((answer) => answer.json());
const dates = recorded.map((each) => each.date).sort();
const span = [...new Set([dates[0], dates.at(-1)])].filter(Boolean).join(" to ");
$("recorded").textContent = `Recorded: ${recorded.length}${span && `, ${span}`}.`;
const milliseconds = (seconds) => (seconds * 1000).toFixed(seconds < 0.01 ? 2 : 1);

// For each program a bar for each device that has run it, this one's first.
function compare() {
  const sections = (report.rows.length ? report.rows : recorded[0]?.rows ?? []).map(({ name, unit }) => {
    const of = (device, label, kind) => ({ label, kind, rate: device.rows.find((each) => each.name === name)?.rate });
    const known = [of(report, "this device", "own"), ...recorded.map((each) => of(each, each.name, ""))].filter((each) => each.rate);
    const most = Math.max(...known.map((each) => each.rate));
    const bars = element("div", undefined, "bars");
    for (const { label, kind, rate } of known) {
      const bar = element("i");
      bar.style.width = `${(100 * rate) / most}%`;
      bars.append(element("span", label, `label ${kind}`), bar, element("span", `${rate.toPrecision(3)} ${unit}`, "number"));
    }
    const section = element("section");
    section.append(element("h3", name), bars);
    return section;
  });
  $("comparison").replaceChildren(...sections);
}

compare();

const handlers = {
  state: ({ text }) => { $("state").textContent = text; },
  failed: ({ text }) => tell(text),
  begin(message) {
    report.device = message.device;
    report.browser = navigator.userAgent;
    report.date = new Date().toISOString().slice(0, 10);
    report.rows = [];
    $("rows").replaceChildren();
    $("progress").max = message.count;
    $("progress").value = 0;
    $("device").textContent = describe(message.device);
    $("state").textContent = "Measuring";
  },
  row(message) {
    const { kind, ...rest } = message;
    report.rows.push(rest);
    const line = element("tr");
    const times = [message.seconds, message.least, message.first].map((each) => element("td", milliseconds(each), "number"));
    line.append(element("td", message.name), ...times, element("td", `${message.rate.toPrecision(3)} ${message.unit}`, "number"));
    $("rows").append(line);
    $("progress").value += 1;
    compare();
  },
  waits({ name }) {
    $("progress").value += 1;
    tell(`${NO_JSPI} "${name}" needs that and was not measured.`);
  },
  end() {
    $("state").textContent = "Done";
    $("save").disabled = false;
    globalThis.finished = report;
  },
};

$("save").onclick = () => download("benchmark.json", JSON.stringify(report, null, 1));

if (await able()) {
  const library = new Library((message) => handlers[message.kind]?.(message));
  $("start").onclick = async () => {
    $("start").disabled = true;
    const program = "from webgpu_torch_web.site.pages import benchmark\nimport webgpu_torch\nawait benchmark(webgpu_torch)";
    const { error } = await library.run(program);
    if (error) tell(error);
    $("start").disabled = false;
  };
  globalThis.library = library;
  library.ready.then(() => {
    $("state").textContent = "Ready";
    $("start").disabled = false;
  }, () => {});
}
