"use strict";
/** The tree of groups of one grouping, with totals; groups that are unfolded show their children. */
class Groups {
  constructor(graph, grouping) {
    this.graph = graph;
    this.grouping = grouping;
    const size = grouping.parents.length;
    this.groupsIn = Array.from({ length: size }, () => []);
    this.nodesIn = Array.from({ length: size }, () => []);
    grouping.parents.forEach((parent, group) => { if (parent >= 0) this.groupsIn[parent].push(group); });
    grouping.of.forEach((group, node) => this.nodesIn[group].push(node));
    this.count = new Array(size).fill(0);
    this.time = new Array(size).fill(0);
    this.constants = new Set(graph.constants);
    this.open = new Set([0]);
    this.addUp(0);
  }

  /** Add up the nodes and times of a group and of all groups in it. */
  addUp(group) {
    for (const inner of this.groupsIn[group]) {
      this.addUp(inner);
      this.count[group] += this.count[inner];
      this.time[group] += this.time[inner];
    }
    for (const node of this.nodesIn[group]) {
      this.count[group] += 1;
      this.time[group] += this.graph.time[node];
    }
  }

  /** Return how many boxes appear where a group is unfolded. */
  size(group, withConstants) {
    const nodes = this.nodesIn[group];
    const shown = withConstants ? nodes.length : nodes.filter((node) => !this.constants.has(node)).length;
    return this.groupsIn[group].length + shown;
  }

  /** Unfold groups from the outside in while few boxes are drawn. */
  openSome(limit, withConstants) {
    let boxes = this.size(0, withConstants);
    let waiting = [...this.groupsIn[0]];
    while (waiting.length) {
      const next = [];
      for (const group of waiting) {
        const added = this.size(group, withConstants);
        if (boxes + added > limit) continue;
        boxes += added;
        this.open.add(group);
        next.push(...this.groupsIn[group]);
      }
      waiting = next;
    }
  }

  /** Return the boxes that are drawn: groups and nodes, each after the group that it is in. */
  visible(withConstants) {
    const boxes = [];
    const walk = (group, parent, depth) => {
      for (const inner of this.groupsIn[group]) {
        const box = { id: `g${inner}`, group: inner, parent, depth, open: this.open.has(inner) && this.size(inner, withConstants) > 0 };
        if (!withConstants && this.onlyConstants(inner)) continue;
        boxes.push(box);
        if (box.open) walk(inner, box, depth + 1);
      }
      for (const node of this.nodesIn[group]) {
        if (withConstants || !this.constants.has(node)) boxes.push({ id: `n${node}`, node, parent, depth });
      }
    };
    walk(0, null, 0);
    return boxes;
  }

  onlyConstants(group) {
    if (this.allConstant === undefined) this.allConstant = new Map();
    if (!this.allConstant.has(group)) {
      const all = this.nodesIn[group].every((node) => this.constants.has(node)) && this.groupsIn[group].every((inner) => this.onlyConstants(inner));
      this.allConstant.set(group, all);
    }
    return this.allConstant.get(group);
  }

  /** Return for each node the box that shows it, or undefined. */
  boxOfNodes(boxes) {
    const byNode = new Array(this.grouping.of.length);
    const cover = (group, box) => {
      for (const node of this.nodesIn[group]) byNode[node] = box;
      for (const inner of this.groupsIn[group]) cover(inner, box);
    };
    for (const box of boxes) {
      if (box.node !== undefined) byNode[box.node] = box;
      else if (!box.open) cover(box.group, box);
    }
    return byNode;
  }

  /** Return the edges between boxes: how many values and control inputs each stands for. */
  edges(boxes) {
    const shown = this.boxOfNodes(boxes);
    const edges = new Map();
    this.graph.inputs.forEach((inputs, node) => {
      const target = shown[node];
      if (target === undefined) return;
      for (const input of inputs) {
        const source = shown[input < 0 ? ~input : input];
        if (source === undefined || source === target) continue;
        const key = `${source.id} ${target.id}`;
        let edge = edges.get(key);
        if (edge === undefined) edges.set(key, (edge = { source, target, values: 0, control: 0 }));
        if (input < 0) edge.control += 1;
        else edge.values += 1;
      }
    });
    return [...edges.values()];
  }

  /** Unfold every group that a node is in. */
  reveal(node) {
    for (let group = this.grouping.of[node]; group > 0; group = this.grouping.parents[group]) this.open.add(group);
  }
}
