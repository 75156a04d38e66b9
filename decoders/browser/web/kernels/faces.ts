// The motion around the points of a face (section 8 of the stream format): on a grid of cells, by
// normalised convolution (Knutsson and Westin, 1993), then at the pixels of a frame.

import { blur, mixRows } from "./filters";
import { clampFloat, get, mark, release, set, takeFloats } from "./memory";

// Lengths in distances of the eyes.
const HEAD_BORDER: f32 = 0.15;
const MOUTH_BORDER: f32 = 0.1;

/** Adds the motion of a face to `vectors`, and to `side`, if it is not 0, what its mouth leans.
 *
 * On a grid of `columns` x `rows` cells: `points`, the sum of what is at each one (motion in pixels, x
 * and y, and weight), and masks of the head and the mouth; they are overwritten. `eyes`: their
 * distance in cells. `leans`: 1 draws the mouth from the left picture, -1 from the right one. The grid
 * begins at pixel (left, top) of a frame of `width`, and ends with (right, bottom). */
export function addFace(
  points: usize, head: usize, mouth: usize, columns: i32, rows: i32, cell: f32, eyes: f32, leans: f32,
  left: i32, top: i32, right: i32, bottom: i32, width: i32, vectors: usize, side: usize,
): void {
  const start = mark();
  const size = columns * rows, known = takeFloats(3 * size), field = takeFloats(3 * size);
  for (let n = 0; n < 3 * size; n++) set(known, n, n % 3 == 2 ? 1e-9 : 0);
  addAround(points, columns, rows, 0.035 * eyes, 1, known);
  addAround(points, columns, rows, 0.15 * eyes, 1e-2, known);
  addAround(points, columns, rows, 0.4 * eyes, 1e-4, known);
  blur(head, columns, rows, 1, HEAD_BORDER * eyes, false);
  blur(mouth, columns, rows, 1, MOUTH_BORDER * eyes, false);
  for (let n = 0; n < size; n++) {
    const part = get(head, n) / get(known, 3 * n + 2);
    set(field, 3 * n, get(known, 3 * n) * part);
    set(field, 3 * n + 1, get(known, 3 * n + 1) * part);
    set(field, 3 * n + 2, get(mouth, n) * leans);
  }
  const row = takeFloats(3 * columns);
  for (let y = top; y < bottom; y++) {
    mixRows(field, 3 * columns, rows, clampFloat(cellAt(y - top, cell), 0, <f32>(rows - 1)), row);
    for (let x = left; x < right; x++) {
      const place = clampFloat(cellAt(x - left, cell), 0, <f32>(columns - 1));
      const first = <i32>place, next = min(first + 1, columns - 1), at = y * width + x;
      const part = place - <f32>first;
      addMixed(vectors, 2 * at, row, 3 * first, 3 * next, part);
      addMixed(vectors, 2 * at + 1, row, 3 * first + 1, 3 * next + 1, part);
      if (side) addMixed(side, at, row, 3 * first + 2, 3 * next + 2, part);
    }
  }
  release(start);
}

/** Adds to `sum` what is known of the surroundings within `spread`. */
function addAround(
  points: usize, columns: i32, rows: i32, spread: f32, weight: f32, sum: usize,
): void {
  const start = mark();
  const count = 3 * columns * rows, around = takeFloats(count);
  memory.copy(around, points, (<usize>count) << 2);
  blur(around, columns, rows, 3, spread, false);
  for (let n = 0; n < count; n++) set(sum, n, get(sum, n) + weight * get(around, n));
  release(start);
}

/** Where the middle of a pixel lies on the grid. */
// @ts-ignore: decorator
@inline
function cellAt(pixel: i32, cell: f32): f32 {
  return (<f32>pixel + 0.5) / cell - 0.5;
}

// @ts-ignore: decorator
@inline
function addMixed(sum: usize, at: i32, row: usize, first: i32, next: i32, part: f32): void {
  const a = get(row, first), b = get(row, next);
  set(sum, at, get(sum, at) + (a + part * (b - a)));
}
