// Luma of pictures, and its detail: what is finer than a blur.

import { gaussian } from "./filters";
import { get, mark, reflected, release, set, takeFloats } from "./memory";

const DETAIL: f32 = 2;
/** Pixels on each side over which whole numbers are blurred: 3 standard deviations. */
const RADIUS: i32 = 6;

/** Luma of RGBA pixels, in whole numbers. */
export function lumaOf(picture: usize, count: i32, luma: usize): void {
  for (let n = 0; n < count; n++) {
    const pixel = picture + ((<usize>n) << 2);
    const sum = 9798 * load<u8>(pixel) + 19235 * load<u8>(pixel, 1) + 3735 * load<u8>(pixel, 2);
    set(luma, n, <f32>((sum + (1 << 14)) >> 15));
  }
}

/** Takes from luma what a blur leaves of it, in whole numbers. */
export function detailOf(luma: usize, width: i32, height: i32): void {
  const start = mark();
  const taps = gaussian(DETAIL, RADIUS);
  const across = takeFloats(width * height), row = takeFloats(width + 2 * RADIUS + 4);
  for (let y = 0; y < height; y++) {
    const line = luma + ((<usize>(y * width)) << 2);
    for (let x = -RADIUS; x < width + RADIUS; x++) set(row, x + RADIUS, get(line, reflected(x, width)));
    blurRow(row, width, taps, across + ((<usize>(y * width)) << 2));
  }
  for (let y = 0; y < height; y++) takeBlur(across, width, height, taps, y, luma);
  release(start);
}

/** The row is followed by four numbers that nothing depends on. */
function blurRow(row: usize, width: i32, taps: usize, target: usize): void {
  for (let x = 0; x < width; x += 4) {
    let sum = f32x4.splat(0);
    for (let k = 0; k <= 2 * RADIUS; k++) {
      const pixels = v128.load(row + ((<usize>(x + k)) << 2));
      sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(taps + ((<usize>k) << 2)), pixels));
    }
    // What lies beyond the row is overwritten by the next one, or is not part of the image.
    v128.store(target + ((<usize>x) << 2), sum);
  }
}

function takeBlur(across: usize, width: i32, height: i32, taps: usize, y: i32, luma: usize): void {
  const start = mark();
  const bytes = (<usize>width) << 2;
  const sums = takeFloats(width + 4);
  memory.fill(sums, 0, bytes);
  for (let k = -RADIUS; k <= RADIUS; k++) {
    const row = across + bytes * <usize>reflected(y + k, height);
    const weight = v128.load32_splat(taps + ((<usize>(k + RADIUS)) << 2));
    for (let at: usize = 0; at < bytes; at += 16) {
      const term = f32x4.mul(weight, v128.load(row + at));
      v128.store(sums + at, f32x4.add(v128.load(sums + at), term));
    }
  }
  const line = luma + bytes * <usize>y;
  for (let x = 0; x < width; x++) set(line, x, get(line, x) - nearest<f32>(get(sums, x)));
  release(start);
}
