"use strict";
const MOST_BOXES = 500;
const FIRST_BOXES = 30;
const MOST_TARGETS = 8; // edges of boxes with more are drawn while the box is selected
const LEAST_SCALE = 0.6; // smaller text cannot be read
const PALETTE = ["#3b82d0", "#1b9e77", "#d9892b", "#8a63c9", "#c2507a", "#6f8f2f", "#3aa6b9", "#a3674a", "#7a8794"];

/** The drawing of the graph: boxes that can be unfolded, found, selected and reached by keys. */
class Drawing {
  constructor(graph) {
    this.graph = graph;
    this.svg = byId("graph");
    this.trees = graph.groupings.map((grouping) => new Groups(graph, grouping));
    this.loopsBack = new Set(graph.loops_back);
    this.selected = null;
    this.withConstants = false;
    this.view = { x: 0, y: 0, scale: 1 };
    this.consumers = null;
    this.setUp();
    this.choose(0);
  }

  setUp() {
    const groupings = byId("grouping");
    this.graph.groupings.forEach((grouping, index) => groupings.append(element("option", { value: index }, grouping.title)));
    groupings.addEventListener("change", () => this.choose(Number(groupings.value)));
    const colours = byId("colour");
    const choices = this.graph.is_reduced ? [["none", "nothing"]] : [["tier", "tier"], ["device", "device"], ["op", "op"], ["time", "time"]];
    for (const [value, text] of choices) colours.append(element("option", { value }, text));
    colours.addEventListener("change", () => this.draw());
    byId("constants").addEventListener("change", (event) => { this.withConstants = event.target.checked; this.place(); this.fit(); });
    byId("fit").addEventListener("click", () => this.fit());
    byId("zoom-in").addEventListener("click", () => this.zoom(1.3));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / 1.3));
    byId("fold").addEventListener("click", () => { this.tree.open = new Set([0]); this.place(); this.fit(LEAST_SCALE); });
    const find = byId("find");
    find.addEventListener("input", () => this.suggest(find.value));
    find.addEventListener("change", () => this.find(find.value));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.drag();
    new ResizeObserver(() => this.applyView()).observe(this.svg);
  }

  choose(index) {
    this.tree = this.trees[index];
    if (this.tree.open.size === 1) this.tree.openSome(FIRST_BOXES, this.withConstants);
    this.selected = null;
    this.place();
    this.fit(LEAST_SCALE);
    const many = this.boxes.filter((box) => this.edges.some((edge) => edge.isHidden && edge.source === box));
    if (many.length) this.say(`Lines from ${many.map((box) => this.name(box)).join(", ")} are drawn while a box at their end is selected: there are many.`);
  }

  /** Lay out the boxes of the unfolded groups, and draw them. */
  place() {
    this.boxes = this.tree.visible(this.withConstants);
    this.edges = this.tree.edges(this.boxes);
    const targets = new Map();
    for (const edge of this.edges) targets.set(edge.source, (targets.get(edge.source) ?? 0) + 1);
    for (const edge of this.edges) edge.isHidden = targets.get(edge.source) > MOST_TARGETS;
    const seen = new Map(this.boxes.map((box) => [box.id, box]));
    this.size = layOut(this.boxes, this.edges.filter((edge) => !edge.isHidden), { name: (box) => this.name(box), what: (box) => this.what(box) }, this.loopsBack);
    if (this.selected) this.selected = seen.get(this.selected.id) ?? null;
    this.draw();
    this.table();
  }

  name(box) {
    if (box.group !== undefined) return this.tree.grouping.labels[box.group];
    const name = this.graph.name[box.node];
    return this.tree.grouping.key === "scope" ? name.slice(name.lastIndexOf("/") + 1) : name;
  }

  what(box) {
    if (box.group !== undefined) {
      const kind = this.tree.grouping.kinds[box.group];
      const nodes = `${this.tree.count[box.group].toLocaleString("en")} nodes`;
      return kind === "scope" || kind === "part" ? nodes : `${kind}, ${nodes}`;
    }
    return this.text("op", box.node);
  }

  text(column, node) {
    return this.graph.tables[column][this.graph[column][node]];
  }

  draw() {
    const colour = this.colours();
    const arrow = drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, drawn("path", { d: "M0,0L8,4L0,8z" }));
    this.canvas = drawn("g");
    const behind = drawn("g");
    const front = drawn("g");
    this.shapes = new Map();
    for (const box of this.boxes) {
      const shape = this.shape(box, colour);
      this.shapes.set(box.id, shape);
      (box.open ? behind : front).append(shape);
    }
    const lines = drawn("g", { "aria-hidden": "true" });
    for (const edge of this.edges) {
      if (edge.isHidden) edge.points = [{ x: edge.source.x, y: edge.source.y + edge.source.height / 2 }, { x: edge.target.x, y: edge.target.y - edge.target.height / 2 }];
      const width = Math.min(1 + Math.log2(edge.values + edge.control), 5);
      edge.line = drawn("path", { class: edge.values ? "edge" : "edge control", d: smooth(edge.points), "stroke-width": width, "marker-end": "url(#arrow)" });
      edge.line.append(drawn("title", {}, `${this.name(edge.source)} to ${this.name(edge.target)}: ${edge.values} values, ${edge.control} control inputs`));
      lines.append(edge.line);
    }
    this.canvas.append(behind, lines, front);
    this.svg.replaceChildren(drawn("defs", {}, arrow), this.canvas);
    this.applyView();
    const focus = this.selected ?? this.boxes[0];
    if (focus) this.shapes.get(focus.id).setAttribute("tabindex", "0");
    this.mark();
  }

  shape(box, colour) {
    const isGroup = box.group !== undefined;
    const left = box.x - box.width / 2;
    const top = box.y - box.height / 2;
    const shape = drawn("g", {
      class: `box${isGroup ? " group" : ""}${box.open ? " open" : ""}`, role: "button", tabindex: "-1", "data-id": box.id, "aria-label": this.label(box),
      click: () => this.select(box), dblclick: () => this.toggle(box), focus: () => this.select(box),
    });
    if (isGroup) shape.setAttribute("aria-expanded", String(box.open));
    if (isGroup && !box.open) shape.append(drawn("rect", { class: "body", x: left + 3, y: top + 3, width: box.width, height: box.height, rx: 7 }));
    shape.append(drawn("rect", { class: "body", x: left, y: top, width: box.width, height: box.height, rx: 7 }));
    const letters = Math.floor((box.width - 22) / 6.6);
    if (box.open) {
      shape.append(drawn("text", { x: left + 10, y: top + 16 }, shortened(this.name(box), Math.max(letters, 8))));
    } else {
      this.stripe(box, colour, left, top, shape);
      shape.append(drawn("text", { x: left + 14, y: top + 16 }, shortened(this.name(box), letters)));
      shape.append(drawn("text", { class: "small", x: left + 14, y: top + 30 }, shortened(this.what(box), Math.floor((box.width - 22) / 5.6))));
    }
    shape.append(drawn("title", {}, this.label(box)));
    return shape;
  }

  /** Draw the colours of a box: one for a node, for a group the shares of its nodes. */
  stripe(box, colour, left, top, shape) {
    const shares = new Map();
    for (const node of this.nodesOf(box)) {
      const value = colour.of(node);
      shares.set(value, (shares.get(value) ?? 0) + 1);
    }
    const whole = [...shares.values()].reduce((sum, count) => sum + count, 0) || 1;
    const height = box.height - 10;
    let start = top + 5;
    for (const [value, count] of [...shares].sort((one, other) => other[1] - one[1])) {
      const part = (height * count) / whole;
      shape.append(drawn("rect", { x: left + 5, y: start, width: 4, height: Math.max(part, 0.5), fill: value }));
      start += part;
    }
  }

  *nodesOf(box) {
    if (box.node !== undefined) { yield box.node; return; }
    const waiting = [box.group];
    while (waiting.length) {
      const group = waiting.pop();
      yield* this.tree.nodesIn[group];
      waiting.push(...this.tree.groupsIn[group]);
    }
  }

  label(box) {
    if (box.group !== undefined) return `${this.tree.grouping.kinds[box.group]} ${this.name(box)}, ${this.tree.count[box.group]} nodes`;
    return `${this.graph.name[box.node]}, ${this.text("op", box.node)}, ${this.text("tier", box.node)}`;
  }

  /** Return the colour of each node, and what the colours mean. */
  colours() {
    const by = byId("colour").value;
    const legend = new Map();
    let of = () => colourOf("other");
    if (by === "tier") {
      const names = { compiled: colourOf("compiled"), "straight-line": colourOf("straight"), interpreted: colourOf("interpreted") };
      for (const tier of this.graph.tables.tier) legend.set(tier, names[tier] ?? colourOf("other"));
      of = (node) => legend.get(this.text("tier", node));
    } else if (by === "time") {
      const most = Math.max(...this.boxes.filter((box) => !box.open).map((box) => (box.group === undefined ? this.graph.time[box.node] : this.tree.time[box.group] / Math.max(this.tree.count[box.group], 1))), 1);
      const hot = colourOf("hot");
      const cold = colourOf("line");
      legend.set("little time", cold).set("most time", hot);
      of = (node) => `color-mix(in srgb, ${hot} ${Math.min(100, Math.round((100 * this.graph.time[node]) / most))}%, ${cold})`;
    } else if (by !== "none") {
      const counts = new Map();
      for (const box of this.boxes) if (!box.open) for (const node of this.nodesOf(box)) counts.set(this.text(by, node), (counts.get(this.text(by, node)) ?? 0) + 1);
      [...counts].sort((one, other) => other[1] - one[1]).slice(0, PALETTE.length).forEach(([value], index) => legend.set(value || "not run", PALETTE[index]));
      of = (node) => legend.get(this.text(by, node) || "not run") ?? colourOf("other");
    }
    byId("legend").replaceChildren(...[...legend].map(([value, shown]) => {
      const patch = element("i", { "aria-hidden": "true" });
      patch.style.background = shown;
      return element("li", {}, patch, value);
    }));
    byId("legend").hidden = legend.size === 0;
    return { of };
  }

  select(box) {
    if (this.selected === box) return;
    this.selected = box;
    for (const shape of this.svg.querySelectorAll("[tabindex='0']")) shape.setAttribute("tabindex", "-1");
    this.shapes.get(box.id)?.setAttribute("tabindex", "0");
    this.mark();
    byId("details").replaceChildren(...(box.group === undefined ? this.nodeDetails(box.node) : this.groupDetails(box)));
  }

  mark() {
    for (const [id, shape] of this.shapes) shape.classList.toggle("selected", this.selected !== null && id === this.selected.id);
    for (const edge of this.edges) {
      const isNear = this.selected === edge.source || this.selected === edge.target;
      edge.line.classList.toggle("near", isNear);
      edge.line.classList.toggle("hidden", edge.isHidden && !isNear);
    }
  }

  toggle(box) {
    if (box.group === undefined) return;
    const { open } = this.tree;
    if (open.has(box.group)) open.delete(box.group);
    else if (this.boxes.length + this.tree.size(box.group, this.withConstants) > MOST_BOXES) {
      this.say(`More than ${MOST_BOXES} boxes cannot be read: fold another group first.`);
      return;
    } else open.add(box.group);
    const before = { x: box.x - box.width / 2, y: box.y - box.height / 2 };
    this.place();
    const now = this.boxes.find((other) => other.id === box.id);
    this.view.x += (before.x - (now.x - now.width / 2)) * this.view.scale;
    this.view.y += (before.y - (now.y - now.height / 2)) * this.view.scale;
    this.applyView();
    this.shapes.get(now.id).focus({ preventScroll: true });
    this.say(`${this.name(now)} is ${now.open ? "unfolded" : "folded"}; ${this.boxes.length} boxes are drawn.`);
  }

  suggest(text) {
    const wanted = text.toLowerCase();
    const found = [];
    if (wanted.length > 1) for (const name of this.graph.name) {
      if (name.toLowerCase().includes(wanted)) found.push(name);
      if (found.length >= 30) break;
    }
    byId("names").replaceChildren(...found.map((name) => element("option", { value: name })));
  }

  find(text) {
    if (!text) return;
    const wanted = text.toLowerCase();
    let node = this.graph.name.indexOf(text);
    if (node < 0) node = this.graph.name.findIndex((name) => name.toLowerCase().includes(wanted));
    if (node < 0) this.say(`No node's name contains ${text}.`);
    else this.show(node);
  }

  /** Unfold what a node is in, select it and bring it to the middle. */
  show(node) {
    if (this.tree.constants.has(node) && !this.withConstants) { byId("constants").checked = true; this.withConstants = true; }
    this.tree.reveal(node);
    if (this.tree.visible(this.withConstants).length > MOST_BOXES) { this.tree.open = new Set([0]); this.tree.reveal(node); }
    this.place();
    const box = this.boxes.find((one) => one.node === node);
    this.select(box);
    const { width, height } = this.svg.getBoundingClientRect();
    this.view.scale = Math.max(this.view.scale, 0.9);
    this.view.x = width / 2 - box.x * this.view.scale;
    this.view.y = height / 2 - box.y * this.view.scale;
    this.applyView();
    this.shapes.get(box.id).focus({ preventScroll: true });
  }

  nodeDetails(node) {
    if (this.graph.is_reduced) return [element("h3", {}, this.graph.name[node])];
    const facts = [["Op", this.text("op", node)], ["Attrs", this.text("attrs", node)], ["Device", this.text("device", node)], ["Kernel", this.text("kernel", node)],
      ["Tier", `${this.text("tier", node)}${this.text("reason", node) ? `: ${this.text("reason", node)}` : ""}`], ["Cluster", this.text("cluster", node)],
      ["Time in the last step", this.graph.time[node] ? timeText(this.graph.time[node]) : ""], ["Bytes of its outputs", this.graph.bytes[node] ? bytesText(this.graph.bytes[node]) : ""]];
    const list = element("dl");
    for (const [name, value] of facts) if (value) list.append(element("dt", {}, name), element("dd", {}, value));
    const calls = this.graph.calls[node];
    if (calls) list.append(element("dt", {}, "Calls"), element("dd", {}, calls.join(", ")));
    this.links(list, "Inputs", this.graph.inputs[node]);
    this.links(list, "Consumers", this.consumersOf(node));
    return [element("h3", {}, this.graph.name[node]), list];
  }

  links(list, title, nodes) {
    const links = nodes.slice(0, 40).map((found) => {
      const node = found < 0 ? ~found : found;
      return element("li", {}, element("button", { type: "button", class: "link", click: () => this.show(node) }, this.graph.name[node]), found < 0 ? " (control)" : "");
    });
    if (nodes.length > links.length) links.push(element("li", {}, `and ${nodes.length - links.length} more`));
    if (links.length) list.append(element("dt", {}, title), element("dd", {}, element("ul", {}, ...links)));
  }

  consumersOf(node) {
    if (!this.consumers) {
      this.consumers = this.graph.name.map(() => []);
      this.graph.inputs.forEach((inputs, consumer) => { for (const input of inputs) this.consumers[input < 0 ? ~input : input].push(input < 0 ? ~consumer : consumer); });
    }
    return this.consumers[node];
  }

  groupDetails(box) {
    const ops = new Map();
    const tiers = new Map();
    for (const node of this.nodesOf(box)) {
      const op = this.text("op", node);
      const tier = this.text("tier", node);
      ops.set(op, (ops.get(op) ?? 0) + 1);
      tiers.set(tier, (tiers.get(tier) ?? 0) + 1);
    }
    const most = (counts) => [...counts].filter(([name]) => name).sort((one, other) => other[1] - one[1]).slice(0, 12).map(([name, count]) => `${name}: ${count.toLocaleString("en")}`).join(", ");
    const list = element("dl", {}, element("dt", {}, "What"), element("dd", {}, this.what(box)));
    if (this.tree.time[box.group]) list.append(element("dt", {}, "Time in the last step"), element("dd", {}, timeText(this.tree.time[box.group])));
    if (most(tiers)) list.append(element("dt", {}, "Tiers"), element("dd", {}, most(tiers)));
    if (most(ops)) list.append(element("dt", {}, "Ops"), element("dd", {}, most(ops)));
    const button = element("button", { type: "button", click: () => this.toggle(this.boxes.find((one) => one.id === box.id)) }, box.open ? "Fold" : "Unfold");
    return [element("h3", {}, this.name(box)), list, element("p", {}, button)];
  }

  table() {
    const sources = new Map(this.boxes.map((box) => [box.id, []]));
    const targets = new Map(this.boxes.map((box) => [box.id, []]));
    for (const edge of this.edges) { sources.get(edge.target.id).push(edge.source); targets.get(edge.source.id).push(edge.target); }
    const names = (boxes) => boxes.slice(0, 8).map((box) => this.name(box)).join(", ") + (boxes.length > 8 ? ` and ${boxes.length - 8} more` : "");
    const rows = this.boxes.map((box) => {
      const name = element("button", { type: "button", class: "link", click: () => (box.group === undefined ? this.show(box.node) : this.toggle(box)) }, this.name(box));
      if (box.group !== undefined) name.setAttribute("aria-expanded", String(box.open));
      return element("tr", {}, element("td", { class: "name" }, name), element("td", {}, this.what(box)), element("td", {}, box.node === undefined ? "" : this.text("tier", box.node)), element("td", {}, names(sources.get(box.id))), element("td", {}, names(targets.get(box.id))));
    });
    byId("boxes").tBodies[0].replaceChildren(...rows);
  }

  key(event) {
    const box = this.selected ?? this.boxes[0];
    const moves = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (event.key in moves) this.step(box, ...moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.toggle(box);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** Select the nearest box in a direction. */
  step(from, right, down) {
    let best = null;
    let least = Infinity;
    for (const box of this.boxes) {
      const ahead = (box.x - from.x) * right + (box.y - from.y) * down;
      if (box === from || ahead <= 1) continue;
      const aside = Math.abs((box.x - from.x) * down) + Math.abs((box.y - from.y) * right);
      if (ahead + 2 * aside < least) { least = ahead + 2 * aside; best = box; }
    }
    if (!best) return;
    this.shapes.get(best.id).focus({ preventScroll: true });
    this.intoView(best);
  }

  intoView(box) {
    const { width, height } = this.svg.getBoundingClientRect();
    const { scale } = this.view;
    const x = box.x * scale + this.view.x;
    const y = box.y * scale + this.view.y;
    if (x < 60 || x > width - 60) this.view.x += width / 2 - x;
    if (y < 40 || y > height - 60) this.view.y += height / 2 - y;
    this.applyView();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !this.svg.contains(document.activeElement)) return;
    event.preventDefault();
    const frame = this.svg.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - frame.left, event.clientY - frame.top);
  }

  zoom(factor, x, y) {
    const frame = this.svg.getBoundingClientRect();
    const scale = Math.min(Math.max(this.view.scale * factor, 0.02), 4);
    const by = scale / this.view.scale;
    const [centreX, centreY] = [x ?? frame.width / 2, y ?? frame.height / 2];
    this.view = { x: centreX - (centreX - this.view.x) * by, y: centreY - (centreY - this.view.y) * by, scale };
    this.applyView();
  }

  /** Show the whole drawing, or its upper part if the scale would be less than `least`. */
  fit(least = 0) {
    const { width, height } = this.svg.getBoundingClientRect();
    const room = height - 40; // above the legend
    const whole = Math.min(width / (this.size.width + 20), room / (this.size.height + 20), 1.25) || 1;
    const scale = Math.max(whole, least);
    this.view = { x: (width - this.size.width * scale) / 2, y: Math.max((room - this.size.height * scale) / 2, 6), scale };
    this.applyView();
  }

  applyView() {
    const { x, y, scale } = this.view;
    this.canvas?.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  }

  drag() {
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => { from = { x: event.clientX - this.view.x, y: event.clientY - this.view.y }; });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      this.svg.classList.add("moving");
      this.view.x = event.clientX - from.x;
      this.view.y = event.clientY - from.y;
      this.applyView();
    });
    window.addEventListener("pointerup", () => { from = null; this.svg.classList.remove("moving"); });
  }

  say(text) { byId("graph-status").textContent = text; }
}
