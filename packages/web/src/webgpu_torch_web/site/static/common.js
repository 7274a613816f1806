// What all pages share: the theme, downloads, and the word to visitors without WebGPU.
import { missing } from "./library.js";

export const $ = (name) => document.getElementById(name);

const kept = localStorage.getItem("theme");
if (kept) document.documentElement.dataset.theme = kept;
$("theme").onclick = () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (document.documentElement.dataset.theme ?? system) === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  dispatchEvent(new Event("theme"));
};

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));

// Whether the page can compute; tells the visitor why not.
export async function able() {
  const reason = await missing();
  if (reason) tell(reason);
  return !reason;
}

export function tell(reason) {
  $("notice").textContent = reason;
  $("notice").hidden = false;
}

export function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function describe(device) {
  const told = [device["adapter 0"], device["limits 0"], device.runtime].filter(Boolean).join(" · ");
  return told.replace(/\d{5,}/g, (count) => Number(count).toLocaleString("en"));
}
