import type { Geometry, Shape } from "../scaffold/geometry.js";
import type { Sample } from "../scaffold/intervals.js";
import { type Correction, Side } from "../scaffold/layers/flow.js";
import type { Segmentation } from "../scaffold/layers/segmentation.js";
import { addLimbs } from "./limbs.js";

/** Motion of one sample at every pixel, and the picture to draw from: -1 (right) to 1 (left). */
export interface Field {
  readonly vectors: Float32Array;
  readonly side: Float32Array;
}

export function movesPicture(sample: Sample): boolean {
  return (
    sample.correction !== undefined ||
    !!sample.segmentation?.vectors.some((value) => value !== 0) ||
    !!sample.people?.some((person) => person.movesPicture)
  );
}

/** The motion of blocks, of labels and of limbs at a sample, in pixels. */
export function anchorField(
  anchor: Sample,
  samples: readonly Sample[],
  length: number,
  geometry: Geometry,
): Field {
  const size = geometry.width * geometry.height;
  const field = { vectors: new Float32Array(2 * size), side: new Float32Array(size) };
  const { correction, segmentation } = anchor;
  if (correction) addBlocks(field, correction, segmentation, geometry);
  const labels = segmentation && labelsOf(segmentation, geometry);
  const unit = geometry.cell / 8;
  for (let n = 0; n < 2 * size; n++) {
    const own = labels ? segmentation!.vectors[2 * labels[n >> 1]! + (n & 1)]! : 0;
    field.vectors[n] = (field.vectors[n]! + own) * unit;
  }
  addLimbs(field.vectors, anchor, samples, length, geometry);
  return field;
}

function labelsOf(segmentation: Segmentation, geometry: Geometry): Uint8Array {
  const { width, height, cell } = geometry;
  const labels = new Uint8Array(width * height);
  for (let y = 0; y < height; y++) {
    const row = Math.floor(y / cell) * segmentation.shape[1];
    for (let x = 0; x < width; x++) {
      labels[y * width + x] = segmentation.labels[row + Math.floor(x / cell)]!;
    }
  }
  return labels;
}

/** Block values between block centres, within a label where there are any. */
function addBlocks(
  field: Field,
  correction: Correction,
  segmentation: Segmentation | undefined,
  geometry: Geometry,
): void {
  const { shape, blockLog2 } = correction;
  const side = geometry.blockSide(blockLog2);
  const blocks = new Float32Array(3 * shape[0] * shape[1]);
  correction.sides.forEach((value, n) => {
    blocks[3 * n] = correction.vectors[2 * n]!;
    blocks[3 * n + 1] = correction.vectors[2 * n + 1]!;
    blocks[3 * n + 2] = Number(value === Side.LEFT) - Number(value === Side.RIGHT);
  });
  put(field, enlarged(blocks, shape, 3, side, geometry), () => true, 3);
  if (!segmentation?.labels.some((label) => label !== 0)) return;
  const labels = labelsOf(segmentation, geometry);
  for (const label of new Set(labels)) {
    const shares = sharesOf(labels, label, shape, side, geometry);
    const weighted = new Float32Array(4 * shares.length);
    shares.forEach((share, n) => {
      for (const c of [0, 1, 2]) weighted[4 * n + c] = blocks[3 * n + c]! * share;
      weighted[4 * n + 3] = share;
    });
    const own = enlarged(weighted, shape, 4, side, geometry);
    put(field, own, (n) => labels[n] === label && own[4 * n + 3]! > 1e-2, 4);
  }
}

/** Sets pixels from 3 channels; a fourth one divides them. */
function put(
  field: Field,
  values: Float32Array,
  isInside: (n: number) => boolean,
  channels: number,
): void {
  for (let n = 0; n < field.side.length; n++) {
    if (!isInside(n)) continue;
    const total = channels === 4 ? values[4 * n + 3]! : 1;
    field.vectors[2 * n] = values[channels * n]! / total;
    field.vectors[2 * n + 1] = values[channels * n + 1]! / total;
    field.side[n] = values[channels * n + 2]! / total;
  }
}

/** The share of each block that has a label. */
function sharesOf(
  labels: Uint8Array,
  label: number,
  shape: Shape,
  side: number,
  geometry: Geometry,
): Float32Array {
  const shares = new Float32Array(shape[0] * shape[1]);
  for (let y = 0; y < geometry.height; y++) {
    for (let x = 0; x < geometry.width; x++) {
      if (labels[y * geometry.width + x] !== label) continue;
      shares[Math.floor(y / side) * shape[1] + Math.floor(x / side)]! += 1 / (side * side);
    }
  }
  return shares;
}

/** Values of squares of `side` pixels at every pixel, bilinear between the squares' centres. */
export function enlarged(
  values: Float32Array,
  shape: Shape,
  channels: number,
  side: number,
  geometry: Geometry,
): Float32Array {
  const [rows, columns] = shape;
  const { width, height } = geometry;
  const result = new Float32Array(channels * width * height);
  const place = (n: number, count: number): number =>
    Math.min(Math.max((n + 0.5) / side - 0.5, 0), count - 1);
  for (let y = 0; y < height; y++) {
    const row = place(y, rows);
    const up = Math.floor(row);
    const down = Math.min(up + 1, rows - 1);
    for (let x = 0; x < width; x++) {
      const column = place(x, columns);
      const left = Math.floor(column);
      const right = Math.min(left + 1, columns - 1);
      for (let c = 0; c < channels; c++) {
        const at = (r: number, k: number): number => values[channels * (r * columns + k) + c]!;
        const top = at(up, left) + (column - left) * (at(up, right) - at(up, left));
        const bottom = at(down, left) + (column - left) * (at(down, right) - at(down, left));
        result[channels * (y * width + x) + c] = top + (row - up) * (bottom - top);
      }
    }
  }
  return result;
}
