import { E } from "../elements.js";
import type { Shape } from "../geometry.js";
import type { ElementReader } from "../reader.js";

/** The labels of a frame, and the motion of each label, x and y, in motion units. */
export interface Segmentation {
  readonly shape: Shape;
  readonly labels: Uint8Array;
  readonly vectors: Int16Array;
}

export function readSegmentation(
  reader: ElementReader,
  shape: Shape,
  before: Segmentation | undefined,
): Segmentation {
  const past = before?.labels ?? new Uint8Array(shape[0] * shape[1]);
  const labels = reader.flag(E.labelsSame) ? past : readLabels(reader, shape, past);
  return { shape, labels, vectors: readVectors(reader, labels) };
}

function readLabels(reader: ElementReader, shape: Shape, past: Uint8Array): Uint8Array {
  const [rows, columns] = shape;
  // A border of background removes the special cases at the edges.
  const width = columns + 2;
  const now = new Uint8Array((rows + 2) * width);
  const old = new Uint8Array((rows + 2) * width);
  for (let row = 0; row < rows; row++) {
    old.set(past.subarray(row * columns, (row + 1) * columns), (row + 1) * width + 1);
  }
  const labels = new Uint8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = (row + 1) * width + column + 1;
      now[at] = readLabel(reader, now, old, at, width);
      labels[row * columns + column] = now[at]!;
    }
  }
  return labels;
}

function readLabel(
  reader: ElementReader,
  now: Uint8Array,
  old: Uint8Array,
  at: number,
  width: number,
): number {
  const left = now[at - 1]!;
  const above = now[at - width]!;
  const aboveRight = now[at - width + 1]!;
  const before = old[at]!;
  const context =
    Number(left === above) |
    (Number(left === now[at - width - 1]) << 1) |
    (Number(left === aboveRight) << 2) |
    (Number(left === before) << 3) |
    (Number(left === old[at + width]) << 4);
  if (reader.flag(E.left, context)) return left;
  const aboveContext = Number(above === before) | (Number(above === aboveRight) << 1);
  if (above !== left && reader.flag(E.above, aboveContext)) return above;
  if (before !== left && before !== above && reader.flag(E.before)) return before;
  return reader.read(E.label);
}

function readVectors(reader: ElementReader, labels: Uint8Array): Int16Array {
  const vectors = new Int16Array(16);
  for (const label of [...new Set(labels)].sort()) {
    if (!reader.flag(E.moves, label > 0 ? 1 : 0)) continue;
    for (const axis of [0, 1]) vectors[2 * label + axis] = reader.read(E.layerVector, axis);
  }
  return vectors;
}
