// Variational refinement of motion (Brox et al., ECCV 2004): constancy of brightness and of its
// gradient, and a smooth field, solved by red-black successive over-relaxation.

import { sample } from "./filters";
import { get, mark, release, set, takeFloats } from "./memory";

const ROUNDS: i32 = 5;
const SWEEPS: i32 = 5;
const SMOOTHNESS: f32 = 20 / 2;
const BRIGHTNESS: f32 = 5 / 2;
const GRADIENT: f32 = 10 / 2;
const RELAXATION: f32 = 1.6;
const NOISE: f32 = 0.1 * 0.1;
const TINY: f32 = 0.01 * 0.01;
/** Numbers of a pixel in `terms`: first and second derivatives, and those of the change. */
const TERMS: i32 = 8;
/** Numbers of a pixel in `system`: a symmetric matrix, a vector, and the smoothness. */
const SYSTEM: i32 = 6;

let width: i32 = 0;
let height: i32 = 0;
/** Images have a border of one pixel, so that each pixel has four neighbours. */
let wide: i32 = 0;
let terms: usize = 0;
let system: usize = 0;
/** Motion that is given (x, y), what is added to it, and the sum. */
let given: usize = 0;
let added: usize = 0;
let moved: usize = 0;

/** Refines `flow` (x, y) from picture `a` to `b`. */
export function refine(a: usize, b: usize, w: i32, h: i32, flow: usize): void {
  const start = mark();
  width = w;
  height = h;
  wide = w + 2;
  const size = wide * (h + 2);
  terms = takeFloats(TERMS * w * h);
  system = takeFloats(SYSTEM * size);
  given = takeFloats(2 * size);
  added = takeFloats(2 * size);
  moved = takeFloats(2 * size);
  derive(a, b, flow);
  memory.fill(added, 0, (<usize>(2 * size)) << 2);
  take(flow);
  for (let round = 0; round < ROUNDS; round++) {
    addUp();
    memory.fill(system, 0, (<usize>(SYSTEM * size)) << 2);
    for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) fit(x, y);
    for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) smooth(x, y);
    for (let sweep = 0; sweep < 2 * SWEEPS; sweep++) relax(sweep & 1);
  }
  addUp();
  for (let y = 0; y < h; y++) memory.copy(flow + rowOf(y, w), moved + rowOf((y + 1), wide) + 8, rowOf(1, w));
  release(start);
}

// @ts-ignore: decorator
@inline
function rowOf(y: i32, w: i32): usize {
  return (<usize>(2 * y * w)) << 2;
}

function take(flow: usize): void {
  for (let y = 0; y < height; y++) {
    memory.copy(given + rowOf(y + 1, wide) + 8, flow + rowOf(y, width), rowOf(1, width));
  }
}

/** The sum of both motions; the last row and column are repeated beyond the border. */
function addUp(): void {
  for (let y = 1; y <= height + 1; y++) {
    for (let x = 1; x <= width + 1; x++) {
      const from = 2 * (min(y, height) * wide + min(x, width)), to = 2 * (y * wide + x);
      set(moved, to, get(given, from) + get(added, from));
      set(moved, to + 1, get(given, from + 1) + get(added, from + 1));
    }
  }
}

/** Derivatives of the mean of both pictures, and of the change from one to the other. */
function derive(a: usize, b: usize, flow: usize): void {
  const start = mark();
  const size = width * height;
  const mean = takeFloats(size), change = takeFloats(size);
  const alongX = takeFloats(size), alongY = takeFloats(size);
  for (let at = 0; at < size; at++) {
    const x = <f32>(at % width) + get(flow, 2 * at), y = <f32>(at / width) + get(flow, 2 * at + 1);
    const there = sample(b, width, height, 1, 0, x, y);
    set(mean, at, (get(a, at) + there) / 2);
    set(change, at, there - get(a, at));
  }
  for (let at = 0; at < size; at++) {
    set(alongX, at, differX(mean, at));
    set(alongY, at, differY(mean, at));
  }
  for (let at = 0; at < size; at++) {
    const to = TERMS * at;
    set(terms, to, get(alongX, at));
    set(terms, to + 1, get(alongY, at));
    set(terms, to + 2, get(change, at));
    set(terms, to + 3, differX(alongX, at));
    set(terms, to + 4, differY(alongX, at));
    set(terms, to + 5, differY(alongY, at));
    set(terms, to + 6, differX(change, at));
    set(terms, to + 7, differY(change, at));
  }
  release(start);
}

function differX(image: usize, at: i32): f32 {
  const x = at % width;
  return get(image, x < width - 1 ? at + 1 : at) - get(image, x > 0 ? at - 1 : at);
}

function differY(image: usize, at: i32): f32 {
  const y = at / width;
  return get(image, y < height - 1 ? at + width : at) - get(image, y > 0 ? at - width : at);
}

/** What the pictures say of a pixel's motion. */
function fit(x: i32, y: i32): void {
  const from = TERMS * (y * width + x), at = (y + 1) * wide + x + 1;
  const dx = get(terms, from), dy = get(terms, from + 1), dz = get(terms, from + 2);
  const xx = get(terms, from + 3), xy = get(terms, from + 4), yy = get(terms, from + 5);
  const xz = get(terms, from + 6), yz = get(terms, from + 7);
  const u = get(added, 2 * at), v = get(added, 2 * at + 1);
  const norm = dx * dx + dy * dy + NOISE;
  const rest = dz + dx * u + dy * v;
  let weight = BRIGHTNESS / sqrt<f32>(rest * rest / norm + TINY) / norm;
  let a11 = weight * dx * dx + NOISE, a12 = weight * dx * dy, a22 = weight * dy * dy + NOISE;
  let b1 = -weight * dz * dx, b2 = -weight * dz * dy;
  const normX = xx * xx + xy * xy + NOISE, normY = yy * yy + xy * xy + NOISE;
  const restX = xz + xx * u + xy * v, restY = yz + xy * u + yy * v;
  weight = GRADIENT / sqrt<f32>(restX * restX / normX + restY * restY / normY + TINY);
  a11 += weight * (xx * xx / normX + xy * xy / normY);
  a12 += weight * (xx * xy / normX + xy * yy / normY);
  a22 += weight * (xy * xy / normX + yy * yy / normY);
  b1 -= weight * (xx * xz / normX + xy * yz / normY);
  b2 -= weight * (xy * xz / normX + yy * yz / normY);
  const to = SYSTEM * at;
  set(system, to, a11);
  set(system, to + 1, a12);
  set(system, to + 2, a22);
  set(system, to + 3, b1);
  set(system, to + 4, b2);
}

/** What the pixels to the right and below say. */
function smooth(x: i32, y: i32): void {
  const at = (y + 1) * wide + x + 1;
  const u = get(moved, 2 * at), v = get(moved, 2 * at + 1);
  const rightU = get(moved, 2 * (at + 1)) - u, rightV = get(moved, 2 * (at + 1) + 1) - v;
  const downU = get(moved, 2 * (at + wide)) - u, downV = get(moved, 2 * (at + wide) + 1) - v;
  const norm = rightU * rightU + rightV * rightV + downU * downU + downV * downV;
  const weight = SMOOTHNESS / sqrt<f32>(norm + TINY);
  set(system, SYSTEM * at + 5, weight);
  if (x < width - 1) join(at, at + 1, weight);
  if (y < height - 1) join(at, at + wide, weight);
}

function join(at: i32, next: i32, weight: f32): void {
  const u = weight * (get(given, 2 * next) - get(given, 2 * at));
  const v = weight * (get(given, 2 * next + 1) - get(given, 2 * at + 1));
  pull(at, weight, u, v);
  pull(next, weight, -u, -v);
}

function pull(at: i32, weight: f32, u: f32, v: f32): void {
  const to = SYSTEM * at;
  set(system, to, get(system, to) + weight);
  set(system, to + 2, get(system, to + 2) + weight);
  set(system, to + 3, get(system, to + 3) + u);
  set(system, to + 4, get(system, to + 4) + v);
}

/** One step for every other pixel. */
function relax(color: i32): void {
  for (let y = 0; y < height; y++) {
    for (let x = (y + color) & 1; x < width; x += 2) {
      const at = (y + 1) * wide + x + 1, from = SYSTEM * at, to = 2 * at;
      const own = get(system, from + 5);
      const left = get(system, from - SYSTEM + 5), up = get(system, from - SYSTEM * wide + 5);
      const right = x < width - 1 ? own : 0, down = y < height - 1 ? own : 0;
      const sumU =
        left * get(added, to - 2) + right * get(added, to + 2) +
        up * get(added, to - 2 * wide) + down * get(added, to + 2 * wide);
      const sumV =
        left * get(added, to - 1) + right * get(added, to + 3) +
        up * get(added, to - 2 * wide + 1) + down * get(added, to + 2 * wide + 1);
      const a12 = get(system, from + 1);
      let u = get(added, to), v = get(added, to + 1);
      u += RELAXATION * ((sumU + get(system, from + 3) - v * a12) / get(system, from) - u);
      v += RELAXATION * ((sumV + get(system, from + 4) - u * a12) / get(system, from + 2) - v);
      set(added, to, u);
      set(added, to + 1, v);
    }
  }
}
