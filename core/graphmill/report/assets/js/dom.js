"use strict";
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

/** Make an element with attributes and children; text is never read as HTML. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return fill(made, attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function timeText(nanoseconds) {
  if (nanoseconds < 1e3) return `${nanoseconds} ns`;
  if (nanoseconds < 1e6) return `${(nanoseconds / 1e3).toPrecision(3)} µs`;
  if (nanoseconds < 1e9) return `${(nanoseconds / 1e6).toPrecision(3)} ms`;
  return `${(nanoseconds / 1e9).toFixed(3)} s`;
}

function bytesText(bytes) {
  for (const unit of ["bytes", "KiB", "MiB", "GiB"]) {
    if (bytes < 1024) return `${unit === "bytes" ? bytes : bytes.toFixed(1)} ${unit}`;
    bytes /= 1024;
  }
  return `${bytes.toFixed(1)} TiB`;
}

function shortened(text, length) {
  if (text.length <= length) return text;
  const tail = Math.ceil(length * 0.4);
  return `${text.slice(0, length - tail - 1)}…${text.slice(-tail)}`;
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
