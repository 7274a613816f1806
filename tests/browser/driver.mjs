// Runs jobs in Node: node driver.mjs <the npm package webgpu> <address of the folders>; a line of input is a job's file.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [dawn, base] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(`${dawn}/index.js`).href);
Object.assign(globalThis, globals);
const gpu = create([]);
for await (const file of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { default: run } = await import(pathToFileURL(file).href);
    answer = { result: await run({ base, gpu }) };
  } catch (error) {
    answer = { error: `${error.name}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
