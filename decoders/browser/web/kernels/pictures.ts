// Key pictures: from YUV to RGBA of the display size, with their texture raised; and frames that are
// drawn from pictures without motion.

import { blur, enlarge } from "./filters";
import { clampIndex, get, mark, release, set, takeFloats } from "./memory";
import { bytesOf, lookUp, numbers, spreadOut } from "./lookup";

/** Weights of chroma samples that are 1.75, 0.75, 0.25 and 1.25 away: bicubic, C = 0.6. */
const FAR: f32 = -0.028125;
const NEXT: f32 = 0.240625;
const NEAR: f32 = 0.871875;
const OVER: f32 = -0.084375;

/** RGBA from 8-bit YUV 4:2:0 of even size. `red`, `blue`: their weights in luma. */
export function convert(
  luma: usize, cb: usize, cr: usize, width: i32, height: i32, red: f32, blue: f32, fullRange: bool,
  target: usize,
): void {
  const start = mark();
  const columns = width >> 1;
  const rowB = takeFloats(columns), rowR = takeFloats(columns);
  const black: f32 = fullRange ? 0 : 16, gain: f32 = fullRange ? 1 : <f32>255 / 219;
  const chroma: f32 = fullRange ? 1 : <f32>255 / 224;
  const green: f32 = <f32>1 - red - blue;
  const reach: f32 = 2 * chroma, reachR: f32 = reach - red * reach, reachB: f32 = reach - blue * reach;
  for (let y = 0; y < height; y++) {
    chromaRow(cb, columns, height >> 1, y, rowB);
    chromaRow(cr, columns, height >> 1, y, rowR);
    for (let x = 0; x < width; x++) {
      const level = gain * (<f32>load<u8>(luma + <usize>(y * width + x)) - black);
      const b = reachB * chromaAt(rowB, columns, x), r = reachR * chromaAt(rowR, columns, x);
      const g = -(r * red + b * blue) / green;
      let pixel = f32x4.replace_lane(f32x4.splat(255), 0, level + r);
      pixel = f32x4.replace_lane(pixel, 1, level + g);
      pixel = f32x4.replace_lane(pixel, 2, level + b);
      store<u32>(target + ((<usize>(y * width + x)) << 2), bytesOf(pixel));
    }
  }
  release(start);
}

function chromaRow(plane: usize, columns: i32, rows: i32, y: i32, row: usize): void {
  const near = y >> 1, way = y & 1 ? 1 : -1;
  const a = plane + <usize>(clampIndex(near + 2 * way, rows) * columns);
  const b = plane + <usize>(clampIndex(near + way, rows) * columns);
  const c = plane + <usize>(near * columns);
  const d = plane + <usize>(clampIndex(near - way, rows) * columns);
  for (let x: usize = 0; x < <usize>columns; x++) {
    const sum = FAR * <f32>load<u8>(a + x) + NEXT * <f32>load<u8>(b + x) +
      NEAR * <f32>load<u8>(c + x) + OVER * <f32>load<u8>(d + x);
    set(row, <i32>x, sum - 128);
  }
}

// @ts-ignore: decorator
@inline
function chromaAt(row: usize, columns: i32, x: i32): f32 {
  const near = x >> 1, way = x & 1 ? 1 : -1;
  return FAR * get(row, clampIndex(near + 2 * way, columns)) +
    NEXT * get(row, clampIndex(near + way, columns)) + NEAR * get(row, near) +
    OVER * get(row, clampIndex(near - way, columns));
}

/** RGBA made larger with Lanczos' filter, 4 lobes a side. */
export function resample(
  picture: usize, width: i32, height: i32, target: usize, toWidth: i32, toHeight: i32,
): void {
  const start = mark();
  const weights = takeFloats(8 * max(toWidth, toHeight));
  const between = takeFloats(4 * toWidth * height);
  lobes(width, toWidth, weights);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < toWidth; x++) {
      let sum = f32x4.splat(0);
      const first = firstLobe(x, width, toWidth);
      for (let k = 0; k < 8; k++) {
        const at = y * width + clampIndex(first + k, width);
        const pixel = numbers(picture + ((<usize>at) << 2));
        sum = f32x4.add(sum, f32x4.mul(f32x4.splat(get(weights, 8 * x + k)), pixel));
      }
      v128.store(between + ((<usize>(y * toWidth + x)) << 4), sum);
    }
  }
  lobes(height, toHeight, weights);
  for (let y = 0; y < toHeight; y++) {
    const first = firstLobe(y, height, toHeight);
    for (let x = 0; x < toWidth; x++) {
      let sum = f32x4.splat(0);
      for (let k = 0; k < 8; k++) {
        const at = clampIndex(first + k, height) * toWidth + x;
        const pixel = v128.load(between + ((<usize>at) << 4));
        sum = f32x4.add(sum, f32x4.mul(f32x4.splat(get(weights, 8 * y + k)), pixel));
      }
      store<u32>(target + ((<usize>(y * toWidth + x)) << 2), bytesOf(sum));
    }
  }
  release(start);
}

function placeOf(index: i32, size: i32, toSize: i32): f64 {
  return (index + 0.5) * size / toSize - 0.5;
}

function firstLobe(index: i32, size: i32, toSize: i32): i32 {
  return <i32>Math.floor(placeOf(index, size, toSize)) - 3;
}

function lobes(size: i32, toSize: i32, weights: usize): void {
  for (let n = 0; n < toSize; n++) {
    const place = placeOf(n, size, toSize), first = firstLobe(n, size, toSize);
    let sum: f64 = 0;
    for (let k = 0; k < 8; k++) sum += lobe(place - (first + k));
    for (let k = 0; k < 8; k++) set(weights, 8 * n + k, <f32>(lobe(place - (first + k)) / sum));
  }
}

function lobe(distance: f64): f64 {
  if (Math.abs(distance) < 1e-9) return 1;
  const angle = Math.PI * distance;
  return 4 * Math.sin(angle) * Math.sin(angle / 4) / (angle * angle);
}

/** Raises the texture of an RGBA picture by gains of blocks, 1 for all of its detail. */
export function raiseTexture(
  picture: usize, width: i32, height: i32, gains: usize, rows: i32, columns: i32, side: i32, sigma: f32,
): void {
  const start = mark();
  const wide = columns * side;
  const gain = takeFloats(wide * rows * side), smooth = takeFloats(4 * width * height);
  enlarge(gains, columns, rows, 1, gain, wide, rows * side);
  for (let n: usize = 0; n < <usize>(width * height); n++) {
    v128.store(smooth + (n << 4), numbers(picture + (n << 2)));
  }
  blur(smooth, width, height, 4, sigma);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = <usize>(y * width + x);
      const pixel = numbers(picture + (at << 2));
      const detail = f32x4.sub(pixel, v128.load(smooth + (at << 4)));
      const more = f32x4.mul(f32x4.splat(get(gain, y * wide + x)), detail);
      store<u32>(picture + (at << 2), bytesOf(f32x4.add(pixel, more)));
    }
  }
  release(start);
}

/** A cross-fade of two RGBA pictures of `count` pixels. */
export function dissolve(left: usize, right: usize, count: i32, time: f32, target: usize): void {
  const a = f32x4.splat(1 - time), b = f32x4.splat(time);
  for (let at: usize = 0; at < (<usize>count) << 2; at += 4) {
    const sum = f32x4.add(f32x4.mul(a, numbers(left + at)), f32x4.mul(b, numbers(right + at)));
    store<u32>(target + at, bytesOf(sum));
  }
}

/** A picture looked up at each pixel's place plus `bend`, x and y. */
export function hold(
  picture: usize, width: i32, height: i32, bend: usize, target: usize,
): void {
  const start = mark();
  const spread = spreadOut(picture, width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      const px = <f32>x + get(bend, 2 * at), py = <f32>y + get(bend, 2 * at + 1);
      store<u32>(target + ((<usize>at) << 2), bytesOf(lookUp(spread, width, height, px, py)));
    }
  }
  release(start);
}
