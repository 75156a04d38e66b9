// Bicubic look-up of pictures. A picture to be looked up has four numbers a pixel and a border of
// repeated pixels.

import { clampFloat, take } from "./memory";

/** Pixels on each side. */
export const BORDER: i32 = 4;
/** The parameter of bicubic interpolation (Keys, 1981). */
const SHARP: f32 = -0.75;

/** RGBA bytes as numbers, with a border. */
export function spreadOut(picture: usize, width: i32, height: i32): usize {
  const wide = width + 2 * BORDER, high = height + 2 * BORDER;
  const spread = take((<usize>(wide * high)) << 4);
  for (let y = 0; y < high; y++) {
    const from = min(max(y - BORDER, 0), height - 1) * width;
    for (let x = 0; x < wide; x++) {
      const column = min(max(x - BORDER, 0), width - 1);
      v128.store(spread + ((<usize>(y * wide + x)) << 4), numbers(picture + ((<usize>(from + column)) << 2)));
    }
  }
  return spread;
}

/** Four numbers of 0-255 as bytes. */
// @ts-ignore: decorator
@inline
export function bytesOf(pixel: v128): u32 {
  const whole = i32x4.trunc_sat_f32x4_s(f32x4.nearest(pixel));
  const words = i16x8.narrow_i32x4_s(whole, whole);
  return <u32>i32x4.extract_lane(i8x16.narrow_i16x8_u(words, words), 0);
}

/** Four bytes as numbers. */
// @ts-ignore: decorator
@inline
export function numbers(pixel: usize): v128 {
  const words = i16x8.extend_low_i8x16_u(v128.load32_zero(pixel));
  return f32x4.convert_i32x4_u(i32x4.extend_low_i16x8_u(words));
}

/** The pixel at (x, y), rounded to whole numbers of 0-255; the border is repeated. */
// @ts-ignore: decorator
@inline
export function lookUp(picture: usize, width: i32, height: i32, x: f32, y: f32): v128 {
  const px = clampFloat(x, -2, <f32>(width + 1)), py = clampFloat(y, -2, <f32>(height + 1));
  const left = floor<f32>(px), up = floor<f32>(py);
  const wide = width + 2 * BORDER;
  const first = (<i32>up + BORDER - 1) * wide + <i32>left + BORDER - 1;
  const at = picture + ((<usize>first) << 4), step = (<usize>wide) << 4;
  const fx = px - left, fy = py - up;
  const w0 = outer(fx), w1 = inner(fx), w2 = inner(1 - fx), w3: f32 = <f32>1 - w0 - w1 - w2;
  const h0 = outer(fy), h1 = inner(fy), h2 = inner(1 - fy), h3: f32 = <f32>1 - h0 - h1 - h2;
  const a = f32x4.splat(w0), b = f32x4.splat(w1), c = f32x4.splat(w2), d = f32x4.splat(w3);
  const top = f32x4.add(
    f32x4.mul(f32x4.splat(h0), across(at, a, b, c, d)),
    f32x4.mul(f32x4.splat(h1), across(at + step, a, b, c, d)),
  );
  const bottom = f32x4.add(
    f32x4.mul(f32x4.splat(h2), across(at + 2 * step, a, b, c, d)),
    f32x4.mul(f32x4.splat(h3), across(at + 3 * step, a, b, c, d)),
  );
  const whole = f32x4.nearest(f32x4.add(top, bottom));
  return f32x4.pmin(f32x4.splat(255), f32x4.pmax(f32x4.splat(0), whole));
}

// @ts-ignore: decorator
@inline
function across(at: usize, a: v128, b: v128, c: v128, d: v128): v128 {
  return f32x4.add(
    f32x4.add(f32x4.mul(a, v128.load(at)), f32x4.mul(b, v128.load(at, 16))),
    f32x4.add(f32x4.mul(c, v128.load(at, 32)), f32x4.mul(d, v128.load(at, 48))),
  );
}

/** Weight of a pixel that is `t` away, less than 1. */
// @ts-ignore: decorator
@inline
function inner(t: f32): f32 {
  return ((SHARP + 2) * t - (SHARP + 3)) * t * t + 1;
}

/** Weight of a pixel that is 1 + `t` away. */
// @ts-ignore: decorator
@inline
function outer(t: f32): f32 {
  const far = t + 1;
  return ((SHARP * far - 5 * SHARP) * far + 8 * SHARP) * far - 4 * SHARP;
}
