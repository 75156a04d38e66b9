import type { Point } from "./face_shape.js";

/** Farther out, points are as good as there. */
const FARTHEST = 30000;

/** A mask of `columns` x `rows`: 1 in the hull of points, made `scale` times as large, else 0. */
export function hullMask(
  points: readonly Point[],
  columns: number,
  rows: number,
  scale: number,
): Float32Array {
  const middle = [0, 1].map((axis) => points.reduce((sum, p) => sum + p[axis]!, 0) / points.length);
  const placed = (value: number, axis: number): number => {
    const wide = middle[axis]! + scale * (value - middle[axis]!);
    return Math.round(Math.min(Math.max(wide, -FARTHEST), FARTHEST));
  };
  const hull = convexHull(points.map(([x, y]) => [placed(x, 0), placed(y, 1)]));
  const low = new Float64Array(rows).fill(Infinity);
  const high = new Float64Array(rows).fill(-Infinity);
  hull.forEach((point, n) => markEdge(point, hull[(n + 1) % hull.length]!, low, high));
  const mask = new Float32Array(columns * rows);
  for (let y = 0; y < rows; y++) {
    if (high[y]! < 0 || low[y]! >= columns) continue;
    mask.fill(1, y * columns + Math.max(low[y]!, 0), y * columns + Math.min(high[y]! + 1, columns));
  }
  return mask;
}

/** Its corners in order: Andrew's monotone chain. */
function convexHull(points: Point[]): Point[] {
  const sorted = points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (chain: readonly Point[]): Point[] => {
    const kept: Point[] = [];
    for (const point of chain) {
      while (kept.length > 1 && !turnsLeft(kept.at(-2)!, kept.at(-1)!, point)) kept.pop();
      kept.push(point);
    }
    return kept.slice(0, -1);
  };
  const hull = [...half(sorted), ...half(sorted.reverse())];
  return hull.length ? hull : sorted.slice(0, 1);
}

function turnsLeft(a: Point, b: Point, c: Point): boolean {
  return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0]);
}

/** Extends what rows have of the hull, from `low` to `high`, by an edge in Bresenham's pixels. */
function markEdge(from: Point, to: Point, low: Float64Array, high: Float64Array): void {
  const [[x0, y0], [x1, y1]] = from[0] <= to[0] ? [from, to] : [to, from];
  const [across, along] = [x1 - x0, Math.abs(y1 - y0)];
  const last = Math.min(Math.max(y0, y1), low.length - 1);
  for (let y = Math.max(Math.min(y0, y1), 0); y <= last; y++) {
    const twice = 2 * Math.abs(y - y0);
    let [first, end] = [0, across];
    if (along > across) {
      const middle = (twice * across) / (2 * along);
      [first, end] = [Math.ceil(middle - 0.5), Math.floor(middle + 0.5)];
    } else if (along) {
      // Columns in which the edge is at most half a row away.
      first = Math.max(Math.floor(((twice - 1) * across) / (2 * along)) + 1, 0);
      end = Math.min(Math.floor(((twice + 1) * across) / (2 * along)), across);
    }
    low[y] = Math.min(low[y]!, x0 + first);
    high[y] = Math.max(high[y]!, x0 + end);
  }
}
