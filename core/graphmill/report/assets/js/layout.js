"use strict";
const NODE_HEIGHT = 38;

/** Place boxes and edges by dagre; return the size of the drawing. */
function layOut(boxes, edges, titles, loopsBack) {
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 34, edgesep: 8, marginx: 12, marginy: 12, ranker: boxes.length > 250 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) {
    const width = Math.max(90, Math.min(230, Math.max(titles.name(box).length * 6.9, titles.what(box).length * 6) + 30));
    graph.setNode(box.id, box.open ? { label: "" } : { width, height: NODE_HEIGHT });
  }
  for (const box of boxes) if (box.parent) graph.setParent(box.id, box.parent.id);
  // An edge to the next iteration leads up again, so that a loop is drawn from its beginning.
  const ends = (edge) => (loopsBack.has(edge.source.node) ? [edge.target.id, edge.source.id] : [edge.source.id, edge.target.id]);
  for (const edge of edges) graph.setEdge(...ends(edge), {});
  dagre.layout(graph);
  for (const box of boxes) {
    const placed = graph.node(box.id);
    const top = box.open ? 20 : 0;
    Object.assign(box, { x: placed.x, y: placed.y - top / 2, width: placed.width, height: placed.height + top });
  }
  for (const edge of edges) {
    const { points } = graph.edge(...ends(edge));
    edge.points = loopsBack.has(edge.source.node) ? [...points].reverse() : points;
  }
  const { width, height } = graph.graph();
  return { width: Number.isFinite(width) ? width : 100, height: Number.isFinite(height) ? height : 100 };
}

/** Return a smooth path through points. */
function smooth(points) {
  if (points.length < 3) return `M${points.map((point) => `${point.x},${point.y}`).join("L")}`;
  let path = `M${points[0].x},${points[0].y}`;
  for (let index = 1; index < points.length - 1; index += 1) {
    const point = points[index];
    const next = points[index + 1];
    const last = index === points.length - 2;
    const x = last ? next.x : (point.x + next.x) / 2;
    const y = last ? next.y : (point.y + next.y) / 2;
    path += `Q${point.x},${point.y} ${x},${y}`;
  }
  return path;
}
