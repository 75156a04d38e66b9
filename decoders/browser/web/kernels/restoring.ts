// What surrounds the restorer's network: a picture in quarters for it, and what it draws added.

import { enlarge, gaussian, mixRows, position, positions } from "./filters";
import { get, mark, release, set, takeFloats } from "./memory";
import { BORDER, bytesOf, numbers, spreadOut } from "./lookup";

const LEVEL: f32 = 127.5;
/** Standard deviations and reaches of the Gaussians around the detail that is raised or lowered. */
const FINE: f32 = 0.7;
const FINE_REACH: i32 = 2;
const COARSE: f32 = 1.5;
const COARSE_REACH: i32 = 4;

/** The network's input, 13 planes of half the size: each colour's four pixels of a square in [-1, 1],
 * and the mean gain. `gains` of blocks, 0 where there are none; beyond the border pixels repeat. */
export function split(
  picture: usize, width: i32, height: i32, gains: usize, rows: i32, columns: i32, side: i32,
  target: usize, halfWidth: i32, halfHeight: i32,
): void {
  const start = mark();
  const size = halfWidth * halfHeight, wide = columns * side;
  const gain = takeFloats(wide * rows * side);
  if (gains) enlarge(gains, columns, rows, 1, gain, wide, rows * side);
  for (let y = 0; y < halfHeight; y++) {
    for (let x = 0; x < halfWidth; x++) {
      const at = y * halfWidth + x;
      let sum: f32 = 0;
      for (let k = 0; k < 4; k++) {
        const row = min(2 * y + (k >> 1), height - 1), column = min(2 * x + (k & 1), width - 1);
        const pixel = picture + ((<usize>(row * width + column)) << 2);
        for (let c = 0; c < 3; c++) {
          set(target, (4 * c + k) * size + at, <f32>load<u8>(pixel + <usize>c) / LEVEL - 1);
        }
        if (gains) sum += get(gain, row * wide + column);
      }
      set(target, 12 * size + at, sum / 4);
    }
  }
  release(start);
}

/** Adds what is drawn at half the size, four numbers a pixel, to an RGBA picture: its colours, and
 * the picture's fine detail so many times. */
export function restore(
  picture: usize, width: i32, height: i32, drawn: usize, columns: i32, rows: i32, target: usize,
): void {
  const start = mark();
  const spread = spreadOut(picture, width, height), wide = width + 2 * BORDER;
  const near = takeFloats(4 * wide), far = takeFloats(4 * wide), row = takeFloats(4 * columns);
  const fine = gaussian(FINE, FINE_REACH), coarse = gaussian(COARSE, COARSE_REACH);
  const places = positions(columns, 2 * columns), step = (<usize>wide) << 4;
  for (let y = 0; y < height; y++) {
    mixRows(drawn, 4 * columns, rows, position(y, rows, 2 * rows), row);
    const line = spread + step * <usize>(y + BORDER);
    for (let x = 0; x < wide; x++) {
      const at = (<usize>x) << 4;
      v128.store(near + at, blurred(line + at, step, fine, FINE_REACH));
      v128.store(far + at, blurred(line + at, step, coarse, COARSE_REACH));
    }
    for (let x = 0; x < width; x++) {
      const at = (<usize>(x + BORDER)) << 4;
      const detail = f32x4.sub(
        blurred(near + at, 16, fine, FINE_REACH), blurred(far + at, 16, coarse, COARSE_REACH),
      );
      const more = drawnAt(row, columns, get(places, x));
      const raised = f32x4.mul(f32x4.splat(f32x4.extract_lane(more, 3)), detail);
      const added = f32x4.add(f32x4.mul(f32x4.splat(LEVEL), more), raised);
      const sum = f32x4.add(v128.load(line + at), added);
      const pixel = (<usize>(y * width + x)) << 2;
      store<u32>(target + pixel, bytesOf(f32x4.replace_lane(sum, 3, 255)));
    }
  }
  release(start);
}

/** The weighted sum of pixels `step` bytes apart around one. */
// @ts-ignore: decorator
@inline
function blurred(pixel: usize, step: usize, taps: usize, reach: i32): v128 {
  let sum = f32x4.splat(0), at = pixel - step * <usize>reach;
  for (let k = 0; k <= 2 * reach; k++, at += step) {
    sum = f32x4.add(sum, f32x4.mul(f32x4.splat(get(taps, k)), v128.load(at)));
  }
  return sum;
}

// @ts-ignore: decorator
@inline
function drawnAt(row: usize, columns: i32, place: f32): v128 {
  const left = <i32>place, right = min(left + 1, columns - 1);
  const a = v128.load(row + ((<usize>left) << 4)), b = v128.load(row + ((<usize>right) << 4));
  return f32x4.add(a, f32x4.mul(f32x4.splat(place - <f32>left), f32x4.sub(b, a)));
}
