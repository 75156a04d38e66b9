import type { Geometry } from "../scaffold/geometry.js";
import type { Sample } from "../scaffold/intervals.js";
import type { Person } from "../scaffold/layers/pose.js";
import { enlarged } from "./anchors.js";

/** Pairs of COCO key points that are joined by a limb. */
const LIMBS = [
  [5, 7], [7, 9], [6, 8], [8, 10], [5, 6], [5, 11], [6, 12], [11, 12],
  [11, 13], [13, 15], [12, 14], [14, 16], [0, 5], [0, 6],
] as const;
/** Of a limb, in cells. */
const THICKNESS = 2;

/** Adds how far key points deviate at an anchor from motion linear in time, along the limbs. */
export function addLimbs(
  vectors: Float32Array,
  anchor: Sample,
  samples: readonly Sample[],
  length: number,
  geometry: Geometry,
): void {
  const starts = samples.find((sample) => sample.offset <= 0);
  const ends = samples.find((sample) => sample.offset === length);
  if (!starts || !ends || !anchor.people?.length) return;
  const shape = geometry.labelShape;
  const cells = new Float32Array(2 * shape[0] * shape[1]);
  for (const person of anchor.people) {
    const [start, end] = [starts, ends].map((sample) =>
      sample.people?.find((other) => other.identity === person.identity),
    );
    if (!person.movesPicture || !start || !end) continue;
    addPerson(cells, person, start, end, anchor.offset / length, geometry);
  }
  const large = enlarged(cells, shape, 2, geometry.cell, geometry);
  for (let n = 0; n < vectors.length; n++) vectors[n]! += large[n]!;
}

function addPerson(
  cells: Float32Array,
  person: Person,
  start: Person,
  end: Person,
  time: number,
  geometry: Geometry,
): void {
  const unit = geometry.cell / 4;
  // Motion points from the frame to the key pictures, hence the sign.
  const bend = Array.from(person.points, (value, n) => {
    const straight = (1 - time) * start.points[n]! + time * end.points[n]!;
    return (straight - value) * unit;
  });
  const seen = (point: number): boolean =>
    !!(person.visible[point] && start.visible[point] && end.visible[point]);
  const limbs = LIMBS.filter(([a, b]) => seen(a) && seen(b));
  const columns = geometry.labelShape[1];
  for (let n = 0; n < cells.length / 2; n++) {
    const x = (n % columns) + 0.5;
    const y = Math.floor(n / columns) + 0.5;
    const sum = [0, 0, 0];
    for (const [a, b] of limbs) addLimb(sum, person.points, bend, a, b, x, y);
    const weight = Math.max(sum[2]!, 1);
    cells[2 * n]! += sum[0]! / weight;
    cells[2 * n + 1]! += sum[1]! / weight;
  }
}

/** Adds to x, y and weight what a limb from point `a` to `b` moves a cell. */
function addLimb(
  sum: number[],
  points: Int16Array,
  bend: readonly number[],
  a: number,
  b: number,
  x: number,
  y: number,
): void {
  const [ax, ay] = [points[2 * a]! / 4, points[2 * a + 1]! / 4];
  const [dx, dy] = [points[2 * b]! / 4 - ax, points[2 * b + 1]! / 4 - ay];
  const span = Math.max(dx * dx + dy * dy, 1e-6);
  const along = Math.min(Math.max(((x - ax) * dx + (y - ay) * dy) / span, 0), 1);
  const distance = (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2;
  const near = Math.exp(-distance / ((2 * THICKNESS ** 2) / 4));
  for (const axis of [0, 1]) {
    sum[axis]! += near * ((1 - along) * bend[2 * a + axis]! + along * bend[2 * b + axis]!);
  }
  sum[2]! += near;
}
