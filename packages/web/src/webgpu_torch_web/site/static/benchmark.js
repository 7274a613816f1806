import { $, able, describe, download, element, tell } from "./common.js";
import { Library } from "./library.js";

const report = { rows: [] };
const milliseconds = (seconds) => (seconds * 1000).toFixed(seconds < 0.01 ? 2 : 1);

const handlers = {
  state: ({ text }) => { $("state").textContent = text; },
  failed: ({ text }) => tell(text),
  begin(message) {
    report.device = message.device;
    report.browser = navigator.userAgent;
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
  },
  end() {
    $("state").textContent = "Done";
    $("save").disabled = false;
    globalThis.finished = report;
  },
};

$("save").onclick = () => download("benchmark.json", JSON.stringify(report, null, 1));

if (await able(true)) {
  const library = new Library((message) => handlers[message.kind]?.(message));
  $("start").onclick = async () => {
    $("start").disabled = true;
    const program = "from webgpu_torch_web.site.pages import benchmark\nimport webgpu_torch\nbenchmark(webgpu_torch)";
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
