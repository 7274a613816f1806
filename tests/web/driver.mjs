// Runs one job in Node: node driver.mjs <folder of npm packages> <job> <address of the exported folders>
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, job, base] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(createRequire(`${packages}/`).resolve("webgpu")).href);
Object.assign(globalThis, globals);
const { default: run } = await import(pathToFileURL(job).href);
let answer;
try {
  answer = { result: await run({ base, gpu: create([]) }) };
} catch (error) {
  answer = { error: `${error.name}: ${error.message}`, stack: error.stack };
}
process.stdout.write(`\n@@${JSON.stringify(answer)}\n`);
process.exit(0);
