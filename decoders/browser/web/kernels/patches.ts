// Dense Inverse Search (Kroeger et al., ECCV 2016): patches of one level of the pyramid are matched
// by inverse compositional descent, and their motion is spread to all pixels that they cover.

import { clampFloat, get, mark, release, set, takeFloats } from "./memory";

const SIDE: i32 = 8;
const AREA: f32 = 64;
const STRIDE: i32 = 3;
/** Pixels repeated around the other picture. */
const BORDER: i32 = 16;
const DESCENTS: i32 = 12;
/** Patches take over what the ones before them found only within a stripe of the rows. */
const STRIPES: i32 = 8;
const TINY: f32 = 0.001;

let width: i32 = 0;
let height: i32 = 0;
let columns: i32 = 0;
let rows: i32 = 0;
/** The picture that patches are of, its derivatives, and the other one with its border. */
let image: usize = 0;
let alongX: usize = 0;
let alongY: usize = 0;
let other: usize = 0;
/** Sums of a patch: products of derivatives (xx, yy, xy) and derivatives (x, y). */
let sums: usize = 0;
/** Motion of each patch. */
let patches: usize = 0;

/** Of the patch where it is compared last: the rest, and what it says of each direction. */
let towardsX: f32 = 0;
let towardsY: f32 = 0;

/** Improves `flow` (x, y) from picture `a` to `b`, numbers of one level, by matching patches. */
export function matchPatches(a: usize, b: usize, w: i32, h: i32, flow: usize): void {
  const start = mark();
  width = w;
  height = h;
  columns = 1 + (w - SIDE) / STRIDE;
  rows = 1 + (h - SIDE) / STRIDE;
  image = a;
  derive();
  extend(b);
  sumUp();
  patches = takeFloats(2 * rows * columns);
  const stripe = (rows + STRIPES - 1) / STRIPES;
  for (let n = 0; n < STRIPES; n++) search(flow, min(n * stripe, rows), min((n + 1) * stripe, rows));
  spread(b, flow);
  release(start);
}

/** Derivatives by Sobel's operator, without its division by 8; borders are mirrored. */
function derive(): void {
  alongX = takeFloats(width * height);
  alongY = takeFloats(width * height);
  for (let y = 0; y < height; y++) {
    const up = y > 0 ? y - 1 : 1, down = y < height - 1 ? y + 1 : height - 2;
    for (let x = 0; x < width; x++) {
      const left = x > 0 ? x - 1 : 1, right = x < width - 1 ? x + 1 : width - 2;
      const upLeft = pixel(left, up), upRight = pixel(right, up);
      const downLeft = pixel(left, down), downRight = pixel(right, down);
      const at = y * width + x;
      set(alongX, at, upRight - upLeft + 2 * (pixel(right, y) - pixel(left, y)) + downRight - downLeft);
      set(alongY, at, downLeft - upLeft + 2 * (pixel(x, down) - pixel(x, up)) + downRight - upRight);
    }
  }
}

// @ts-ignore: decorator
@inline
function pixel(x: i32, y: i32): f32 {
  return get(image, y * width + x);
}

function extend(b: usize): void {
  const wide = width + 2 * BORDER;
  other = takeFloats(wide * (height + 2 * BORDER));
  for (let y = 0; y < height + 2 * BORDER; y++) {
    const from = min(max(y - BORDER, 0), height - 1) * width;
    for (let x = 0; x < wide; x++) {
      set(other, y * wide + x, get(b, from + min(max(x - BORDER, 0), width - 1)));
    }
  }
}

function sumUp(): void {
  sums = takeFloats(5 * rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) sumPatch(row, column);
  }
}

function sumPatch(row: i32, column: i32): void {
  let xx: f32 = 0, yy: f32 = 0, xy: f32 = 0, x: f32 = 0, y: f32 = 0;
  for (let i = 0; i < SIDE; i++) {
    for (let j = 0; j < SIDE; j++) {
      const at = (row * STRIDE + i) * width + column * STRIDE + j;
      const dx = get(alongX, at), dy = get(alongY, at);
      xx += dx * dx;
      yy += dy * dy;
      xy += dx * dy;
      x += dx;
      y += dy;
    }
  }
  const at = 5 * (row * columns + column);
  set(sums, at, xx);
  set(sums, at + 1, yy);
  set(sums, at + 2, xy);
  set(sums, at + 3, x);
  set(sums, at + 4, y);
}

/** Patches of the rows from `first` to before `end`: there, then back. */
function search(flow: usize, first: i32, end: i32): void {
  for (let row = first; row < end; row++) {
    for (let column = 0; column < columns; column++) {
      const y = row * STRIDE + SIDE / 2, x = column * STRIDE + SIDE / 2;
      const at = row * columns + column;
      set(patches, 2 * at, get(flow, 2 * (y * width + x)));
      set(patches, 2 * at + 1, get(flow, 2 * (y * width + x) + 1));
      searchOne(row, column, column > 0 ? at - 1 : -1, row > first ? at - columns : -1);
    }
  }
  for (let row = end - 1; row >= first; row--) {
    for (let column = columns - 1; column >= 0; column--) {
      const at = row * columns + column;
      const beside = column < columns - 1 ? at + 1 : -1;
      searchOne(row, column, beside, row < end - 1 ? at + columns : -1);
    }
  }
}

/** Begins at the best of its own motion and that of two neighbours (-1: none), and descends. */
function searchOne(row: i32, column: i32, beside: i32, next: i32): void {
  const at = row * columns + column;
  let best = compare(row, column, get(patches, 2 * at), get(patches, 2 * at + 1), false);
  if (beside >= 0) best = adopt(row, column, at, beside, best);
  if (next >= 0) best = adopt(row, column, at, next, best);
  const startX = get(patches, 2 * at), startY = get(patches, 2 * at + 1);
  const xx = get(sums, 5 * at), yy = get(sums, 5 * at + 1), xy = get(sums, 5 * at + 2);
  let determinant = xx * yy - xy * xy;
  if (abs<f32>(determinant) < TINY) determinant = TINY;
  let x = startX, y = startY, before = f32.MAX_VALUE;
  for (let n = 0; n < DESCENTS; n++) {
    const rest = compare(row, column, x, y, true);
    x -= (yy * towardsX - xy * towardsY) / determinant;
    y -= (xx * towardsY - xy * towardsX) / determinant;
    if (rest >= before) break;
    before = rest;
  }
  const far = sqrt<f32>((x - startX) * (x - startX) + (y - startY) * (y - startY));
  if (!(far <= <f32>SIDE)) return;
  set(patches, 2 * at, x);
  set(patches, 2 * at + 1, y);
}

function adopt(row: i32, column: i32, at: i32, from: i32, best: f32): f32 {
  const x = get(patches, 2 * from), y = get(patches, 2 * from + 1);
  const rest = compare(row, column, x, y, false);
  if (!(rest < best)) return best;
  set(patches, 2 * at, x);
  set(patches, 2 * at + 1, y);
  return rest;
}

/** Squared differences of a patch, moved by (x, y), from the other picture; their mean apart. */
function compare(row: i32, column: i32, x: f32, y: f32, derives: bool): f32 {
  const low = <f32>(BORDER - SIDE + 1);
  const atX = clampFloat(<f32>(column * STRIDE + BORDER) + x, low, <f32>(BORDER + width - 1));
  const atY = clampFloat(<f32>(row * STRIDE + BORDER) + y, low, <f32>(BORDER + height - 1));
  const left = <i32>atX, up = <i32>atY;
  const fx = atX - <f32>left, fy = atY - <f32>up;
  const w00 = f32x4.splat((1 - fy) * (1 - fx)), w01 = f32x4.splat((1 - fy) * fx);
  const w10 = f32x4.splat(fy * (1 - fx)), w11 = f32x4.splat(fy * fx);
  const wide = (<usize>(width + 2 * BORDER)) << 2;
  let there = other + ((<usize>left) << 2) + wide * <usize>up;
  let here = (<usize>(row * STRIDE * width + column * STRIDE)) << 2;
  let sum = f32x4.splat(0), squares = sum, sumX = sum, sumY = sum;
  for (let i = 0; i < SIDE; i++) {
    for (let j: usize = 0; j < 32; j += 16) {
      const top = f32x4.add(
        f32x4.mul(w00, v128.load(there + j)), f32x4.mul(w01, v128.load(there + j + 4)),
      );
      const bottom = f32x4.add(
        f32x4.mul(w10, v128.load(there + wide + j)), f32x4.mul(w11, v128.load(there + wide + j + 4)),
      );
      const rest = f32x4.sub(f32x4.add(top, bottom), v128.load(image + here + j));
      sum = f32x4.add(sum, rest);
      squares = f32x4.add(squares, f32x4.mul(rest, rest));
      if (derives) {
        sumX = f32x4.add(sumX, f32x4.mul(rest, v128.load(alongX + here + j)));
        sumY = f32x4.add(sumY, f32x4.mul(rest, v128.load(alongY + here + j)));
      }
    }
    there += wide;
    here += (<usize>width) << 2;
  }
  const total = lanes(sum);
  if (derives) {
    const at = 5 * (row * columns + column);
    towardsX = lanes(sumX) - total * get(sums, at + 3) / AREA;
    towardsY = lanes(sumY) - total * get(sums, at + 4) / AREA;
  }
  return lanes(squares) - total * total / AREA;
}

// @ts-ignore: decorator
@inline
function lanes(v: v128): f32 {
  return (
    f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) +
    (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3))
  );
}

/** Motion of each pixel: a mean of its patches', which weigh more where they fit. */
function spread(b: usize, flow: usize): void {
  for (let y = 0; y < height; y++) {
    const lastRow = min(y / STRIDE, rows - 1);
    const firstRow = min(max((y - SIDE + STRIDE) / STRIDE, 0), lastRow);
    for (let x = 0; x < width; x++) {
      const last = min(x / STRIDE, columns - 1);
      const first = min(max((x - SIDE + STRIDE) / STRIDE, 0), last);
      let weights: f32 = 0, sumX: f32 = 0, sumY: f32 = 0;
      for (let row = firstRow; row <= lastRow; row++) {
        for (let column = first; column <= last; column++) {
          const at = 2 * (row * columns + column);
          const u = get(patches, at), v = get(patches, at + 1);
          const weight: f32 = <f32>1 / max<f32>(1, abs<f32>(missed(b, x, y, u, v)));
          weights += weight;
          sumX += weight * u;
          sumY += weight * v;
        }
      }
      set(flow, 2 * (y * width + x), sumX / weights);
      set(flow, 2 * (y * width + x) + 1, sumY / weights);
    }
  }
}

/** By how much a pixel differs from where (u, v) leads it. */
function missed(b: usize, x: i32, y: i32, u: f32, v: f32): f32 {
  const px = clampFloat(<f32>x + u, 0, <f32>(width - 1) - TINY);
  const py = clampFloat(<f32>y + v, 0, <f32>(height - 1) - TINY);
  const left = <i32>px, up = <i32>py;
  const fx = px - <f32>left, fy = py - <f32>up;
  const at = up * width + left;
  const top = get(b, at) + fx * (get(b, at + 1) - get(b, at));
  const bottom = get(b, at + width) + fx * (get(b, at + width + 1) - get(b, at + width));
  return top + fy * (bottom - top) - get(image, y * width + x);
}
