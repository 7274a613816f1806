"""The runner's TypeScript types: programs that use an export compile, and those that misuse it do not."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
import webgpu_torch as torch
from webgpu_torch_web.site.registry import MissingTool, npm_package, tool

TYPESCRIPT, WEBGPU_TYPES = ("typescript", "5.9.3"), ("@webgpu/types", "0.1.74")
OPTIONS = (
    "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "esnext",
    "--moduleResolution", "bundler", "--lib", "es2022,dom", "--types", "@webgpu/types",
)  # fmt: skip
#: the line after a comment that expects an error must not compile
PROGRAM = """
import { load, UnsupportedError, widen, unpack, toHalf, toBrain, randomNumbers } from "./site/runner.js";
import type { ElementType, ExportedFunction, Model, Port, Result, Tensor } from "./site/runner.js";
import { loadText, sample } from "./site/text.js";
import { loadImages } from "./site/images.js";
import { Tokenizer } from "./site/tokenizer.js";

async function network(gpu: GPU, device: GPUDevice): Promise<number[]> {
  const model: Model = await load(new URL("./site/", import.meta.url), {
    gpu, device, cache: false, software: true, onProgress: ({ loaded, total }) => console.log(loaded / total),
  });
  const { output }: Result = await model.run({ input: new Float32Array(16) }, { read: ["output"] });
  const { add }: Readonly<Record<string, ExportedFunction>> = model.functions;
  const lengths: readonly number[] | undefined = add?.lengths;
  await add?.prepare();
  await add?.run({ x: [[1, 2], [3, 4n]], y: true, z: 3, w: output! });
  const ports: readonly Port[] = [...model.inputs, ...model.outputs];
  const kinds: ElementType[] = ports.map((each) => each.dtype), sizes: readonly number[] | undefined = ports[0]?.shape;
  const described: unknown = await model.json("plan.json");
  const tensor: Tensor = output!;
  console.log(kinds, sizes, lengths, described, add?.values["classes"], tensor.data.length, model.device.limits);
  model.destroy();
  return tensor.toNumbers();
}

async function others(canvas: HTMLCanvasElement | OffscreenCanvas): Promise<void> {
  const text = await loadText("./site/", { cache: true });
  const answer: string = await text.generate("to be", { maxTokens: 5, temperature: 0.5, topK: 3, topP: 0.9, seed: 1,
    onText: (piece) => console.log(piece.length) });
  for await (const token of text.tokens(text.tokenizer.encode(answer))) console.log(token + 1);
  const images = await loadImages("./site/");
  const { width, data } = await images.paint("a lighthouse", { steps: 20, guidance: 7.5, seed: 1, canvas, negative: "fog",
    noise: new Float32Array(4), onStep: (step, total) => console.log(step / total) });
  console.log(width, data[0], sample([1, 2, 3], { topK: 2 }, randomNumbers(7)), new Tokenizer({}).decode([1, 2]));
  console.log(widen(new Uint16Array(2)), unpack(new Uint8Array(20)), toHalf(1), toBrain(1), new UnsupportedError("no"));
}

async function misused(model: Model): Promise<void> {
  // @ts-expect-error: an address is no number
  await load(7);
  // @ts-expect-error: there is no such option
  await load("./site/", { speed: "fast" });
  // @ts-expect-error: names are no input
  await model.run({ x: "one" });
  // @ts-expect-error: the outputs to read are a list
  await model.run({}, { read: "output" });
  // @ts-expect-error: what is not there has no elements
  (await model.run()).output.shape;
  // @ts-expect-error: shapes are not written
  model.inputs[0]!.shape[0] = 2;
  // @ts-expect-error: a prompt is text
  await (await loadText("./site/")).generate([1, 2]);
  // @ts-expect-error: guidance is a number
  await (await loadImages("./site/")).paint("a lighthouse", { guidance: "much" });
}
console.log(network, others, misused);
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write an export with all that the runner has, and fetch what compiles; skip where npm is missing."""
    torch.web.export(lambda x: x + 1, torch.ones(2), tmp_path / "site")
    for each in resources.files("webgpu_torch_web").joinpath("runner").iterdir():
        (tmp_path / "site" / each.name).write_bytes(each.read_bytes())
    try:
        shutil.copytree(npm_package(*WEBGPU_TYPES), tmp_path / "node_modules/@webgpu/types")
        npm_package(*TYPESCRIPT)
        tool("node")
    except MissingTool as error:
        pytest.skip(str(error))
    return tmp_path


def complaints(folder: Path, program: str) -> str:
    """Return what the compiler says of a program beside an export."""
    (folder / "program.ts").write_text(program, encoding="utf-8")
    compiler = npm_package(*TYPESCRIPT) / "lib/tsc.js"
    done = subprocess.run(
        [tool("node"), str(compiler), *OPTIONS, "program.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def test_programs_compile(folder: Path) -> None:
    assert complaints(folder, PROGRAM) == ""


@pytest.mark.slow
def test_a_type_that_is_wrong_is_noticed(folder: Path) -> None:
    types = folder / "site/runner.d.ts"
    text = types.read_text(encoding="utf-8")
    types.write_text(text.replace("toNumbers(): number[]", "toNumbers(): string[]"), encoding="utf-8")
    assert "Type 'string[]' is not assignable to type 'number[]'" in complaints(folder, PROGRAM)
