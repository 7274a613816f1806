// Plots and pictures on canvases, one for each name.
import { element } from "./common.js";

const HEIGHT = 280, LEFT = 64, BOTTOM = 32, TOP = 12, RIGHT = 20;

function canvasOf(parent, name, className) {
  let figure = [...parent.children].find((each) => each.dataset.name === name);
  if (!figure) {
    figure = element("figure");
    figure.dataset.name = name;
    const canvas = element("canvas", undefined, className);
    canvas.setAttribute("role", "img");
    figure.append(canvas, element("figcaption", name));
    parent.append(figure);
  }
  return figure.firstChild;
}

const label = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(+value.toPrecision(3)));

function range(values) {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite), high = Math.max(...finite);
  return finite.length ? [low, high === low ? low + 1 : high] : [0, 1];
}

// Round numbers between two others, up to seven.
export function ticks(low, high) {
  const least = (high - low) / 6, power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= least), first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
}

export function plot(parent, { name, x, y }) {
  const canvas = canvasOf(parent, name, "plot");
  // As many pixels as the screen has there: labels stay readable on phones.
  const width = canvas.clientWidth, scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = HEIGHT * scale;
  const style = getComputedStyle(document.documentElement);
  const colour = (variable) => {
    const probe = parent.appendChild(element("i"));
    probe.style.color = style.getPropertyValue(variable);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const [left, right] = range(x), [low, high] = range(y);
  const across = (value) => LEFT + ((value - left) / (right - left)) * (width - LEFT - RIGHT);
  const up = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
  pen.font = "13px system-ui, sans-serif";
  pen.fillStyle = colour("--faint");
  pen.strokeStyle = colour("--line");
  pen.textAlign = "right";
  for (const value of ticks(low, high)) {
    pen.beginPath();
    pen.moveTo(LEFT, up(value));
    pen.lineTo(width - RIGHT, up(value));
    pen.stroke();
    pen.fillText(label(value), LEFT - 6, up(value) + 4);
  }
  pen.textAlign = "center";
  for (const value of ticks(left, right)) pen.fillText(label(value), across(value), HEIGHT - 10);
  pen.strokeStyle = colour("--accent");
  pen.lineWidth = 2;
  pen.beginPath();
  y.forEach((value, at) => Number.isFinite(value) && pen.lineTo(across(x[at]), up(value)));
  pen.stroke();
  canvas.setAttribute("aria-label", `${name}: from ${label(y[0])} to ${label(y.at(-1))}`);
}

export function image(parent, { name, width, height, colours, levels }) {
  const canvas = canvasOf(parent, name, "image");
  canvas.width = width;
  canvas.height = height;
  canvas.style.width = `${Math.min(width * Math.max(1, Math.floor(360 / width)), 640)}px`;
  canvas.setAttribute("aria-label", name);
  const pixels = new Uint8ClampedArray(4 * width * height);
  for (let at = 0; at < width * height; at++) {
    for (let part = 0; part < 3; part++) pixels[4 * at + part] = colours ? levels[3 * at + part] : levels[at];
    pixels[4 * at + 3] = 255;
  }
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
}
