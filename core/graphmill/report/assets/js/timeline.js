"use strict";
const ROW = 20;
const HEAD = 24;
const NAMES = 170;

/** The runs of nodes of one step, as bars over time. */
class Timeline {
  constructor(steps, drawing) {
    this.steps = steps;
    this.drawing = drawing;
    this.canvas = byId("timeline");
    const select = byId("step");
    steps.forEach((step, index) => select.append(element("option", { value: index }, `${step.name} (${timeText(step.nanoseconds)})`)));
    select.value = String(steps.length - 1);
    select.addEventListener("change", () => this.choose(Number(select.value)));
    byId("time-in").addEventListener("click", () => this.zoom(1.5));
    byId("time-out").addEventListener("click", () => this.zoom(1 / 1.5));
    byId("time-fit").addEventListener("click", () => this.fit());
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("dblclick", () => this.open());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.drag();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.choose(steps.length - 1);
  }

  choose(index) {
    this.step = this.steps[index];
    this.nest();
    this.current = -1;
    this.canvas.style.height = `${HEAD + this.lines * ROW + 8}px`;
    drawMemory(this.step);
    this.fit();
  }

  /** Give each slice a line: one below the slice of its thread that it lies in. */
  nest() {
    const open = this.step.rows.map(() => []);
    const depths = this.step.rows.map(() => 1);
    this.slices = this.step.slices.map(([row, start, length, node, label, bytes]) => {
      const ends = open[row];
      while (ends.length && ends[ends.length - 1] <= start) ends.pop();
      const depth = ends.length;
      ends.push(start + length);
      depths[row] = Math.max(depths[row], Math.min(depth + 1, 6));
      return { row, start, end: start + length, node, label, bytes, depth: Math.min(depth, 5) };
    });
    this.firsts = [];
    this.lines = 0;
    for (const depth of depths) { this.firsts.push(this.lines); this.lines += depth; }
  }

  fit() { this.from = 0; this.to = Math.max(this.step.nanoseconds, 1); this.draw(); }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width) return;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const x = (time) => NAMES + ((time - this.from) / (this.to - this.from)) * (width - NAMES - 8);
    this.x = x;
    const [ink, quiet, line] = [colourOf("ink"), colourOf("quiet"), colourOf("line")];
    context.fillStyle = quiet;
    for (let tick = 0; tick <= 6; tick += 1) {
      const time = this.from + ((this.to - this.from) * tick) / 6;
      context.fillRect(x(time), HEAD - 6, 1, 4);
      context.textAlign = tick === 6 ? "right" : tick === 0 ? "left" : "center";
      context.fillText(timeText(Math.round(time)), x(time), HEAD / 2 - 2);
    }
    context.textAlign = "left";
    this.step.rows.forEach((name, row) => {
      const top = HEAD + this.firsts[row] * ROW;
      context.fillStyle = line;
      context.fillRect(0, top - 1, width, 1);
      context.fillStyle = ink;
      context.fillText(shortened(name, 27), 8, top + ROW / 2);
    });
    context.save();
    context.beginPath();
    context.rect(NAMES, 0, width, height);
    context.clip();
    const ends = new Map(); // the last pixel that is filled in each line: thinner bars are not seen
    this.slices.forEach((slice, index) => {
      const left = x(slice.start);
      const right = Math.max(x(slice.end), left + 1);
      const lineNumber = this.firsts[slice.row] + slice.depth;
      if (right < NAMES || left > width || (right <= (ends.get(lineNumber) ?? -1) && index !== this.current)) return;
      ends.set(lineNumber, right);
      const top = HEAD + lineNumber * ROW + 2;
      context.fillStyle = this.colour(slice);
      context.fillRect(left, top, right - left, ROW - 4);
      if (index === this.current) { context.strokeStyle = ink; context.lineWidth = 2; context.strokeRect(left, top, right - left, ROW - 4); }
      if (right - left > 34) {
        context.fillStyle = "#fff";
        const name = this.step.labels[slice.label];
        context.fillText(shortened(name, Math.floor((right - left - 8) / 6.2)), Math.max(left, NAMES) + 4, top + (ROW - 4) / 2 + 0.5);
      }
    });
    context.restore();
  }

  colour(slice) {
    const { graph } = this.drawing;
    if (slice.node < 0) return this.step.labels[slice.label].includes("_Cluster") ? colourOf("compiled") : "#7a8794";
    return PALETTE[graph.op[slice.node] % (PALETTE.length - 1)];
  }

  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const line = Math.floor((event.clientY - frame.top - HEAD) / ROW);
    const x = event.clientX - frame.left;
    const found = this.slices.findIndex((slice) => this.firsts[slice.row] + slice.depth === line && this.x(slice.start) <= x && Math.max(this.x(slice.end), this.x(slice.start) + 1) >= x);
    if (found >= 0 && found !== this.current) this.tell(found);
  }

  tell(index) {
    this.current = index;
    const slice = this.slices[index];
    const size = slice.bytes ? `, ${bytesText(slice.bytes)}` : "";
    byId("timeline-status").textContent = `${this.step.labels[slice.label]}: ${timeText(slice.end - slice.start)}, from ${timeText(slice.start)}${size}`;
    this.draw();
  }

  /** Show the node of the current bar in the drawing. */
  open() {
    const slice = this.slices[this.current];
    if (slice && slice.node >= 0) { byId("graph").scrollIntoView({ block: "center" }); this.drawing.show(slice.node); }
  }

  key(event) {
    const next = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (next) { this.tell(Math.min(Math.max(this.current + next, 0), this.slices.length - 1)); this.follow(); }
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter") this.open();
    else return;
    event.preventDefault();
  }

  follow() {
    const slice = this.slices[this.current];
    if (slice.start < this.from || slice.end > this.to) this.move(slice.start - this.from - (this.to - this.from) / 4);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    const frame = this.canvas.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * 0.0015), (event.clientX - frame.left - NAMES) / (frame.width - NAMES));
  }

  zoom(factor, at = 0.5) {
    const middle = this.from + (this.to - this.from) * at;
    const length = Math.min(Math.max((this.to - this.from) / factor, 100), this.step.nanoseconds);
    this.from = middle - length * at;
    this.to = this.from + length;
    this.move(0);
  }

  move(by) {
    const length = this.to - this.from;
    this.from = Math.min(Math.max(this.from + by, 0), Math.max(this.step.nanoseconds - length, 0));
    this.to = this.from + length;
    this.draw();
  }

  drag() {
    let last = null;
    this.canvas.addEventListener("pointerdown", (event) => { last = event.clientX; });
    window.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const scale = (this.to - this.from) / (this.canvas.getBoundingClientRect().width - NAMES);
      this.move((last - event.clientX) * scale);
      last = event.clientX;
    });
    window.addEventListener("pointerup", () => { last = null; });
  }
}

/** Draw the bytes that are alive on each device of a step, with what holds them at the peak. */
function drawMemory(step) {
  const figures = step.memory.map(({ device, points }) => {
    const peak = step.peaks.find((one) => one.device === device);
    const most = peak ? peak.bytes : 1;
    const [width, height] = [1000, 150];
    const x = (time) => (time / Math.max(step.nanoseconds, 1)) * width;
    const y = (bytes) => height - 14 - (bytes / most) * (height - 28);
    let path = `M0,${y(0)}`;
    let before = 0;
    for (const [time, bytes] of points) { path += `L${x(time)},${y(before)}L${x(time)},${y(bytes)}`; before = bytes; }
    path += `L${width},${y(before)}L${width},${y(0)}z`;
    const caption = `${device}: at most ${bytesText(most)} of outputs are alive${peak ? `, ${timeText(peak.time)} after the beginning` : ""}.`;
    const chart = drawn("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": caption },
      drawn("line", { x1: 0, x2: width, y1: y(0), y2: y(0) }), drawn("line", { x1: 0, x2: width, y1: y(most), y2: y(most) }), drawn("path", { class: "area", d: path, "vector-effect": "non-scaling-stroke" }));
    const figure = element("figure", {}, chart, element("figcaption", {}, caption));
    if (peak) {
      const rows = peak.holders.slice(0, 10).map(([name, bytes]) => element("tr", {}, element("td", { class: "name" }, name), element("td", { class: "number" }, bytesText(bytes))));
      figure.append(element("details", {}, element("summary", {}, "What holds them at the peak"), element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Node"), element("th", { scope: "col", class: "number" }, "Size"))), element("tbody", {}, ...rows))));
    }
    return figure;
  });
  byId("memory").replaceChildren(...(figures.length ? figures : [element("p", { class: "quiet" }, "The step's statistics name no outputs.")]));
}
