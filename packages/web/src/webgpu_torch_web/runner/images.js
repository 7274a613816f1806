// Images of texts for folders that webgpu_torch.web.export_images wrote: noise, guidance and the loop over steps.

import { load, randomNumbers } from "./runner.js";
import { Tokenizer } from "./tokenizer.js";

export { Tokenizer };

/** Return normal numbers, the same ones for the same seed (Box and Muller, 1958). */
function normal(count, seed) {
  const draw = randomNumbers(seed), found = new Float32Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - draw())), angle = 2 * Math.PI * draw();
    found[i] = radius * Math.cos(angle);
    if (i + 1 < count) found[i + 1] = radius * Math.sin(angle);
  }
  return found;
}

/** Return pixels [3, height, width] from 0 to 1 as the bytes of an image with four channels. */
function bytesOf(pixels, height, width) {
  const data = new Uint8ClampedArray(4 * height * width), plane = height * width;
  for (let i = 0; i < plane; i++) {
    for (let channel = 0; channel < 3; channel++) data[4 * i + channel] = pixels[channel * plane + i] * 255;
    data[4 * i + 3] = 255;
  }
  return data;
}

/** A Stable Diffusion pipeline. */
class ImageModel {
  constructor(model, tokenizer) {
    Object.assign(this, { model, tokenizer });
  }

  /** Return the states of a text. */
  async encode(text) {
    const { length, end, pad } = this.model.plan.images;
    const ids = this.tokenizer.encode(text);
    const cut = ids.length > length ? [...ids.slice(0, length - 1), end] : ids;
    const tokens = BigInt64Array.from({ length }, (_, at) => BigInt(cut[at] ?? pad));
    return (await this.model.functions.encode.run({ tokens })).states.data;
  }

  /** Make an image: {width, height, data} with four bytes a pixel, drawn to `canvas` if there is one. */
  async paint(prompt, { negative = "", guidance = 7.5, steps, seed = Date.now(), noise, canvas, onStep } = {}) {
    const { schedules, steps: usual, height, width } = this.model.plan.images;
    const name = String(steps ?? usual), schedule = schedules[name];
    if (!schedule) throw new RangeError(`there is no table of ${name} steps; there are ${Object.keys(schedules).join(", ")}`);
    const { predict, paint } = this.model.functions, { shape } = paint.inputs[0];
    const count = shape.reduce((a, b) => a * b, 1), start = noise ?? normal(count, seed);
    if (start.length !== count) throw new RangeError(`the noise has shape [${shape}], ${count} elements, got ${start.length}`);
    const away = await this.encode(negative), towards = await this.encode(prompt);
    const states = new Float32Array(2 * away.length);
    states.set(away);
    states.set(towards, away.length);
    const terms = [start];
    let latents = Float32Array.from(start, (each) => each * schedule.sigma);
    for (let index = 0; index < schedule.timesteps.length; index++) {
      const scale = schedule.scales[index];
      const found = await predict.run({
        latents: scale === 1 ? latents : latents.map((each) => each * scale),
        timestep: schedule.timesteps[index], states, scale: guidance,
      });
      terms.push(found.noise.data);
      const sums = new Float64Array(count);
      schedule.rows[index].forEach((factor, at) => { if (factor) terms[at].forEach((each, i) => { sums[i] += factor * each; }); });
      latents = Float32Array.from(sums);
      onStep?.(index + 1, schedule.timesteps.length);
    }
    const data = bytesOf((await paint.run({ latents })).pixels.data, height, width);
    if (canvas) {
      Object.assign(canvas, { width, height });
      canvas.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
    }
    return { width, height, data };
  }
}

/** Load a pipeline; options are those of `load` of runner.js. */
export async function loadImages(url, options = {}) {
  const model = await load(url, options);
  return new ImageModel(model, new Tokenizer(await model.json("tokenizer.json")));
}
