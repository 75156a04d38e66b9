// Filters of images of numbers (f32), `channels` of them a pixel: smoothing and changes of size.

import { clampFloat, get, mark, reflected, release, set, take, takeFloats } from "./memory";

/** Gaussian of standard deviation `sigma`, over 4 of it on each side; borders are mirrored, or there is
 * nothing beyond them. */
export function blur(
  image: usize, width: i32, height: i32, channels: i32, sigma: f32, mirrors: bool = true,
): void {
  const start = mark();
  const radius = (<i32>nearest(<f64>sigma * 8 + 1) | 1) >> 1;
  const taps = gaussian(sigma, radius);
  const row = takeFloats((max(width, height) + 2 * radius) * channels);
  for (let y = 0; y < height; y++) {
    const line = image + ((<usize>(y * width * channels)) << 2);
    if (!isBlank(line, width * channels)) blurLine(line, width, channels, taps, radius, row, mirrors);
  }
  blurColumns(image, height, width * channels, taps, radius, mirrors);
  release(start);
}

/** 2 * radius + 1 weights, of sum 1. */
export function gaussian(sigma: f32, radius: i32): usize {
  const taps = takeFloats(2 * radius + 1);
  let sum: f64 = 0;
  for (let n = -radius; n <= radius; n++) sum += Math.exp(-0.5 * n * n / (<f64>sigma * sigma));
  for (let n = -radius; n <= radius; n++) {
    set(taps, n + radius, <f32>(Math.exp(-0.5 * n * n / (<f64>sigma * sigma)) / sum));
  }
  return taps;
}

function isBlank(line: usize, count: i32): bool {
  for (let n = 0; n < count; n++) if (get(line, n) != 0) return false;
  return true;
}

function blurLine(
  line: usize, count: i32, channels: i32, taps: usize, radius: i32, row: usize, mirrors: bool,
): void {
  for (let n = -radius; n < count + radius; n++) {
    const isInside = mirrors || (n >= 0 && n < count), from = reflected(n, count) * channels;
    for (let c = 0; c < channels; c++) {
      set(row, (n + radius) * channels + c, isInside ? get(line, from + c) : 0);
    }
  }
  let n = 0;
  for (; n + 4 <= count * channels; n += 4) {
    let sum = f32x4.splat(0);
    for (let k = 0; k <= 2 * radius; k++) {
      const numbers = v128.load(row + ((<usize>(n + k * channels)) << 2));
      sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(taps + ((<usize>k) << 2)), numbers));
    }
    v128.store(line + ((<usize>n) << 2), sum);
  }
  for (; n < count * channels; n++) {
    let sum: f32 = 0;
    for (let k = 0; k <= 2 * radius; k++) sum += get(taps, k) * get(row, n + k * channels);
    set(line, n, sum);
  }
}

/** All columns at once, four numbers at a time. */
function blurColumns(
  image: usize, rows: i32, columns: i32, taps: usize, radius: i32, mirrors: bool,
): void {
  const start = mark();
  const bytes = (<usize>columns) << 2;
  const source = take(bytes * <usize>rows);
  memory.copy(source, image, bytes * <usize>rows);
  for (let y = 0; y < rows; y++) {
    columnSums(source, rows, bytes, taps, radius, y, image + bytes * <usize>y, mirrors);
  }
  release(start);
}

function columnSums(
  image: usize, rows: i32, bytes: usize, taps: usize, radius: i32, y: i32, target: usize,
  mirrors: bool,
): void {
  memory.fill(target, 0, bytes);
  for (let k = -radius; k <= radius; k++) {
    if (!mirrors && (y + k < 0 || y + k >= rows)) continue;
    const source = image + bytes * <usize>reflected(y + k, rows);
    const weight = get(taps, k + radius);
    const weights = f32x4.splat(weight);
    let at: usize = 0;
    for (; at + 16 <= bytes; at += 16) {
      const term = f32x4.mul(weights, v128.load(source + at));
      v128.store(target + at, f32x4.add(v128.load(target + at), term));
    }
    for (; at < bytes; at += 4) {
      store<f32>(target + at, load<f32>(target + at) + weight * load<f32>(source + at));
    }
  }
}

/** Means over areas: `image` made smaller, to `target`. */
export function shrink(
  image: usize, width: i32, height: i32, channels: i32, target: usize, toWidth: i32, toHeight: i32,
): void {
  const start = mark();
  const columns = toWidth * channels;
  const row = takeFloats(columns);
  const ratio = <f64>height / toHeight;
  const most = <i32>Math.ceil(<f64>width / toWidth) + 1;
  const shares = takeFloats((most + 1) * toWidth);
  shareOut(width, toWidth, most, shares);
  memory.fill(target, 0, (<usize>(columns * toHeight)) << 2);
  for (let y = 0; y < height; y++) {
    const line = image + ((<usize>(y * width * channels)) << 2);
    shrinkLine(line, width, channels, row, toWidth, most, shares);
    const first = min(<i32>(<f64>y / ratio), toHeight - 1);
    for (let to = first; to < toHeight && <f64>to * ratio < y + 1; to++) {
      const part = share(y, <f64>to * ratio, <f64>(to + 1) * ratio, ratio);
      if (part > 0) addLine(target + ((<usize>(to * columns)) << 2), row, columns, part);
    }
  }
  release(start);
}

/** For each new column: its first pixel, and the parts that `most` pixels from it on have in it. */
function shareOut(width: i32, toWidth: i32, most: i32, shares: usize): void {
  const ratio = <f64>width / toWidth;
  for (let to = 0; to < toWidth; to++) {
    const from = <f64>to * ratio, end = min(from + ratio, <f64>width);
    const at = to * (most + 1), first = min(<i32>from, max(width - most, 0));
    set(shares, at, <f32>first);
    for (let k = 0; k < most; k++) {
      set(shares, at + 1 + k, first + k < width ? share(first + k, from, end, ratio) : 0);
    }
  }
}

/** The same for one channel of whole numbers: halves are rounded up where sides are halved exactly,
 * else to even. */
export function shrinkWhole(
  image: usize, width: i32, height: i32, target: usize, toWidth: i32, toHeight: i32,
): void {
  shrink(image, width, height, 1, target, toWidth, toHeight);
  const isExact = width == 2 * toWidth && height == 2 * toHeight;
  for (let n = 0; n < toWidth * toHeight; n++) {
    const mean = get(target, n);
    set(target, n, isExact ? floor<f32>(mean + 0.5) : nearest<f32>(mean));
  }
}

function shrinkLine(
  line: usize, width: i32, channels: i32, row: usize, toWidth: i32, most: i32, shares: usize,
): void {
  for (let to = 0; to < toWidth; to++) {
    const at = to * (most + 1);
    const first = <i32>get(shares, at), count = min(most, width - first);
    for (let c = 0; c < channels; c++) {
      let sum: f32 = 0;
      for (let k = 0; k < count; k++) {
        sum += get(shares, at + 1 + k) * get(line, (first + k) * channels + c);
      }
      set(row, to * channels + c, sum);
    }
  }
}

/** The part that the pixel at `index` has in what lies between two places; slivers have none. */
// @ts-ignore: decorator
@inline
function share(index: i32, from: f64, to: f64, ratio: f64): f32 {
  const inside = min<f64>(to, index + 1) - max<f64>(from, index);
  return inside > 1e-3 ? <f32>(inside / ratio) : 0;
}

function addLine(target: usize, row: usize, count: i32, part: f32): void {
  for (let n = 0; n < count; n++) set(target, n, get(target, n) + part * get(row, n));
}

/** Bilinear change of size; borders are repeated. */
export function enlarge(
  image: usize, width: i32, height: i32, channels: i32, target: usize, toWidth: i32, toHeight: i32,
): void {
  const start = mark();
  const row = takeFloats(width * channels), places = positions(width, toWidth);
  for (let y = 0; y < toHeight; y++) {
    mixRows(image, width * channels, height, position(y, height, toHeight), row);
    const line = target + ((<usize>(y * toWidth * channels)) << 2);
    for (let x = 0; x < toWidth; x++) {
      const at = get(places, x);
      const left = <i32>at, right = min(left + 1, width - 1);
      const part = at - <f32>left;
      for (let c = 0; c < channels; c++) {
        const a = get(row, left * channels + c), b = get(row, right * channels + c);
        set(line, x * channels + c, a + part * (b - a));
      }
    }
  }
  release(start);
}

/** The `position` of each pixel of a row. */
export function positions(size: i32, toSize: i32): usize {
  const places = takeFloats(toSize);
  for (let n = 0; n < toSize; n++) set(places, n, position(n, size, toSize));
  return places;
}

/** Where the middle of a pixel lies in an image of another size, from its first to its last. */
// @ts-ignore: decorator
@inline
export function position(index: i32, size: i32, toSize: i32): f32 {
  const at = (<f32>index + 0.5) * (<f32>size / <f32>toSize) - 0.5;
  return clampFloat(at, 0, <f32>(size - 1));
}

/** The row of `count` numbers at the height `at` of an image. */
export function mixRows(image: usize, count: i32, height: i32, at: f32, row: usize): void {
  const above = <i32>at;
  const first = image + ((<usize>(above * count)) << 2);
  const second = image + ((<usize>(min(above + 1, height - 1) * count)) << 2);
  const share = at - <f32>above;
  for (let n = 0; n < count; n++) {
    set(row, n, get(first, n) + share * (get(second, n) - get(first, n)));
  }
}

/** The value of a channel of an image between its pixels; borders are repeated. */
// @ts-ignore: decorator
@inline
export function sample(
  image: usize, width: i32, height: i32, channels: i32, channel: i32, x: f32, y: f32,
): f32 {
  const px = clampFloat(x, 0, <f32>(width - 1)), py = clampFloat(y, 0, <f32>(height - 1));
  const left = <i32>px, up = <i32>py;
  const fx = px - <f32>left, fy = py - <f32>up;
  const right = min(left + 1, width - 1), down = min(up + 1, height - 1);
  const a = get(image, (up * width + left) * channels + channel);
  const b = get(image, (up * width + right) * channels + channel);
  const c = get(image, (down * width + left) * channels + channel);
  const d = get(image, (down * width + right) * channels + channel);
  const top = a + fx * (b - a), bottom = c + fx * (d - c);
  return top + fy * (bottom - top);
}

/** Both channels of an image of two, between its pixels; borders are repeated. */
// @ts-ignore: decorator
@inline
export function samplePair(image: usize, width: i32, height: i32, x: f32, y: f32): v128 {
  const px = clampFloat(x, 0, <f32>(width - 1)), py = clampFloat(y, 0, <f32>(height - 1));
  const left = <i32>px, up = <i32>py;
  const fx = f32x4.splat(px - <f32>left), fy = f32x4.splat(py - <f32>up);
  const right = left + <i32>(left < width - 1), down = up + <i32>(up < height - 1);
  const above = image + ((<usize>(up * width)) << 3), below = image + ((<usize>(down * width)) << 3);
  const a = v128.load64_zero(above + ((<usize>left) << 3)), b = v128.load64_zero(above + ((<usize>right) << 3));
  const c = v128.load64_zero(below + ((<usize>left) << 3)), d = v128.load64_zero(below + ((<usize>right) << 3));
  const top = f32x4.add(a, f32x4.mul(fx, f32x4.sub(b, a)));
  const bottom = f32x4.add(c, f32x4.mul(fx, f32x4.sub(d, c)));
  return f32x4.add(top, f32x4.mul(fy, f32x4.sub(bottom, top)));
}
