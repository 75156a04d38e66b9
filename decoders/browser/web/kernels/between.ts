// The motion at the time of a frame between two pictures (section 8 of the stream format), on a grid
// of a quarter of their size, in pixels of that grid.

import { estimate } from "./dis";
import { blur, enlarge, sample, samplePair, shrink, shrinkWhole } from "./filters";
import { findLeaps, leapCount, putLeaps } from "./leaps";
import { clampFloat, get, mark, release, set, takeFloats } from "./memory";

const ROUNDS: i32 = 3;
export const FARTHEST: f32 = 2;
const BRIGHTEST: f32 = 24;
const LEVELS: f32 = 12;
const STILL: f32 = 4;
const STAYS: f32 = 0.375;
const COARSE: i32 = 8;
const SPREAD: f32 = 1;
const SMOOTH: f32 = 0.5;
const DECIDED: f32 = 0.05;
const CONSISTENT: f32 = 2;

/** Size of the grid. */
export let width: i32 = 0;
export let height: i32 = 0;
/** Motion at the left picture to the right one, and at the right one to the left one. */
let forward: usize = 0;
let backward: usize = 0;
let lumaLeft: usize = 0;
let lumaRight: usize = 0;
/** The cost of a place that stays where it is. */
let unmoved: usize = 0;

/** Motion at the frame of `moveTo`, and how far that of either picture is from it. */
export let vectors: usize = 0;
export let missLeft: usize = 0;
export let missRight: usize = 0;
/** Levels by which the pictures, moved to that frame, differ, beyond their means; 0 where they are blended
 * all the same. */
export let apart: usize = 0;
/** By how much the left picture is lighter. */
let lighter: f32 = 0;

/** Whether small things leap, as they do with all motion estimators but 1. */
let leaps: bool = false;

/** Finds the motion between two pictures, luma in whole numbers; its buffers stay taken. */
export function findMotion(left: usize, right: usize, w: i32, h: i32, estimator: i32): void {
  width = (w + 3) >> 2;
  height = (h + 3) >> 2;
  const size = width * height;
  forward = takeFloats(2 * size);
  backward = takeFloats(2 * size);
  lumaLeft = takeFloats(size);
  lumaRight = takeFloats(size);
  unmoved = takeFloats(size);
  vectors = takeFloats(2 * size);
  missLeft = takeFloats(size);
  missRight = takeFloats(size);
  apart = estimator != 1 && estimator != 2 ? takeFloats(size) : 0;
  shrink(left, w, h, 1, lumaLeft, width, height);
  shrink(right, w, h, 1, lumaRight, width, height);
  lighter = mean(lumaLeft) - mean(lumaRight);
  for (let n = 0; n < size; n++) {
    set(unmoved, n, differ(get(lumaLeft, n), get(lumaRight, n), STILL) + STAYS);
  }
  blur(unmoved, width, height, 1, SPREAD);
  findFlows(left, right, w, h);
  leaps = estimator != 1;
  if (!leaps) return;
  findLeaps(lumaLeft, lumaRight, forward, backward, width, height, estimator == 0);
  leaps = leapCount > 0;
}

function findFlows(left: usize, right: usize, w: i32, h: i32): void {
  const start = mark();
  const halfW = (w + 1) >> 1, halfH = (h + 1) >> 1, size = halfW * halfH;
  const a = takeFloats(size), b = takeFloats(size);
  shrinkWhole(left, w, h, a, halfW, halfH);
  shrinkWhole(right, w, h, b, halfW, halfH);
  const there = takeFloats(2 * size), back = takeFloats(2 * size);
  estimate(a, b, halfW, halfH, there);
  estimate(b, a, halfW, halfH, back);
  know(there, back, halfW, halfH, forward);
  know(back, there, halfW, halfH, backward);
  release(start);
}

/** Flow of half the size on the grid, where `back` confirms it, or else from around. */
function know(flow: usize, back: usize, w: i32, h: i32, known: usize): void {
  const start = mark();
  const trust = takeFloats(w * h), weight = takeFloats(width * height);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const at = y * w + x;
      const u = get(flow, 2 * at), v = get(flow, 2 * at + 1);
      const px = <f32>x + u, py = <f32>y + v;
      const error = f32x4.add(pair(u, v), samplePair(back, w, h, px, py));
      set(trust, at, Mathf.exp(-length(error) / CONSISTENT));
    }
  }
  shrink(trust, w, h, 1, weight, width, height);
  shrink(flow, w, h, 2, known, width, height);
  const scaleX = <f32>width / <f32>w, scaleY = <f32>height / <f32>h;
  for (let n = 0; n < width * height; n++) {
    set(known, 2 * n, get(known, 2 * n) * scaleX);
    set(known, 2 * n + 1, get(known, 2 * n + 1) * scaleY);
    set(weight, n, get(weight, n) * get(weight, n));
  }
  fill(known, weight);
  release(start);
}

/** Where the flow has little weight, that of the places around: the nearer, the more. */
function fill(flow: usize, weight: usize): void {
  const size = width * height;
  const w = (width + COARSE - 1) / COARSE, h = (height + COARSE - 1) / COARSE;
  const weighted = takeFloats(3 * size), coarse = takeFloats(3 * w * h);
  const around = takeFloats(3 * w * h), filled = takeFloats(2 * size);
  for (let n = 0; n < size; n++) {
    set(weighted, 3 * n, get(flow, 2 * n) * get(weight, n));
    set(weighted, 3 * n + 1, get(flow, 2 * n + 1) * get(weight, n));
    set(weighted, 3 * n + 2, get(weight, n));
  }
  shrink(weighted, width, height, 3, coarse, w, h);
  for (let n = 0; n < 3 * w * h; n++) set(around, n, n % 3 == 2 ? 1e-6 : 0);
  addBlurred(coarse, w, h, around, 1, 1);
  addBlurred(coarse, w, h, around, 4, 1e-2);
  addBlurred(coarse, w, h, around, 16, 1e-4);
  for (let n = 0; n < w * h; n++) {
    set(coarse, 2 * n, get(around, 3 * n) / get(around, 3 * n + 2));
    set(coarse, 2 * n + 1, get(around, 3 * n + 1) / get(around, 3 * n + 2));
  }
  enlarge(coarse, w, h, 2, filled, width, height);
  for (let n = 0; n < 2 * size; n++) {
    const other = get(filled, n);
    set(flow, n, other + get(weight, n >> 1) * (get(flow, n) - other));
  }
}

function addBlurred(known: usize, w: i32, h: i32, sum: usize, radius: f32, share: f32): void {
  const start = mark();
  const smoothed = takeFloats(3 * w * h);
  memory.copy(smoothed, known, (<usize>(3 * w * h)) << 2);
  blur(smoothed, w, h, 3, radius);
  for (let n = 0; n < 3 * w * h; n++) set(sum, n, get(sum, n) + share * get(smoothed, n));
  release(start);
}

/** The motion at a time, 0 at the left picture and 1 at the right one: see `vectors`. */
export function moveTo(time: f32): void {
  const start = mark();
  const size = width * height;
  const ahead = takeFloats(2 * size), behind = takeFloats(2 * size), leapt = takeFloats(2 * size);
  const costAhead = takeFloats(size), costBehind = takeFloats(size), costLeapt = takeFloats(size);
  project(forward, time, ahead, 1);
  project(backward, 1 - time, behind, -1);
  weigh(ahead, time, costAhead);
  weigh(behind, time, costBehind);
  if (leaps) {
    memory.copy(leapt, ahead, (<usize>(2 * size)) << 2);
    putLeaps(time, leapt);
    weigh(leapt, time, costLeapt);
  }
  for (let n = 0; n < size; n++) {
    const a = get(costAhead, n), b = get(costBehind, n), c = get(unmoved, n);
    const d: f32 = leaps ? get(costLeapt, n) : f32.MAX_VALUE;
    const least = min<f32>(min<f32>(a, b), min<f32>(c, d));
    const weightA = Mathf.exp((least - a) / DECIDED), weightB = Mathf.exp((least - b) / DECIDED);
    const weightD: f32 = leaps ? Mathf.exp((least - d) / DECIDED) : 0;
    const sum = weightA + weightB + weightD + Mathf.exp((least - c) / DECIDED);
    for (let axis = 2 * n; axis < 2 * n + 2; axis++) {
      let moved = weightA * get(ahead, axis) + weightB * get(behind, axis);
      if (leaps) moved += weightD * get(leapt, axis);
      set(vectors, axis, moved / sum);
    }
  }
  blur(vectors, width, height, 2, SMOOTH);
  miss(vectors, time, missLeft, missRight);
  blur(missLeft, width, height, 1, SMOOTH);
  blur(missRight, width, height, 1, SMOOTH);
  if (apart) compare(time);
  release(start);
}

/** Finds `apart` along `vectors`. Light that changes everywhere crosses over. */
function compare(time: f32): void {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      set(apart, at, abs<f32>(ofLeft(vectors, x, y, time) - ofRight(vectors, x, y, time) - lighter));
    }
  }
  blur(apart, width, height, 1, SPREAD);
}

function mean(luma: usize): f32 {
  let sum: f64 = 0;
  for (let n = 0; n < width * height; n++) sum += get(luma, n);
  return <f32>(sum / <f64>(width * height));
}

/** Luma of the left picture where a motion leads. */
// @ts-ignore: decorator
@inline
function ofLeft(motion: usize, x: i32, y: i32, time: f32): f32 {
  const at = 2 * (y * width + x), u = get(motion, at), v = get(motion, at + 1);
  return sample(lumaLeft, width, height, 1, 0, <f32>x - time * u, <f32>y - time * v);
}

/** The same of the right one. */
// @ts-ignore: decorator
@inline
function ofRight(motion: usize, x: i32, y: i32, time: f32): f32 {
  const at = 2 * (y * width + x), u = get(motion, at), v = get(motion, at + 1);
  return sample(lumaRight, width, height, 1, 0, <f32>x + (1 - time) * u, <f32>y + (1 - time) * v);
}

/** The flow of what is at each pixel after that share of its way, times `sign`. */
function project(flow: usize, part: f32, to: usize, sign: f32): void {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 2 * (y * width + x);
      let u = get(flow, at), v = get(flow, at + 1);
      for (let round = 0; round < ROUNDS; round++) {
        const px = <f32>x - part * u, py = <f32>y - part * v;
        const found = samplePair(flow, width, height, px, py);
        u = f32x4.extract_lane(found, 0);
        v = f32x4.extract_lane(found, 1);
      }
      set(to, at, sign * u);
      set(to, at + 1, sign * v);
    }
  }
}

/** What it costs to move by `motion`, over the surroundings. */
function weigh(motion: usize, time: f32, cost: usize): void {
  const start = mark();
  const right = takeFloats(width * height);
  miss(motion, time, cost, right);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      const there = ofLeft(motion, x, y, time), back = ofRight(motion, x, y, time);
      const missed = min<f32>(get(cost, at), FARTHEST) + min<f32>(get(right, at), FARTHEST);
      set(cost, at, missed / 2 + differ(there, back, LEVELS));
    }
  }
  blur(cost, width, height, 1, SPREAD);
  release(start);
}

/** How far the motion at the left and at the right picture is from `motion`. */
function miss(motion: usize, time: f32, left: usize, right: usize): void {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      const u = get(motion, 2 * at), v = get(motion, 2 * at + 1);
      const leftX = <f32>x - time * u, leftY = <f32>y - time * v;
      const rightX = <f32>x + (1 - time) * u, rightY = <f32>y + (1 - time) * v;
      const own = pair(u, v);
      const over = f32x4.sub(samplePair(forward, width, height, leftX, leftY), own);
      const under = f32x4.add(samplePair(backward, width, height, rightX, rightY), own);
      set(left, at, length(over) + outside(leftX, leftY));
      set(right, at, length(under) + outside(rightX, rightY));
    }
  }
}

/** 0 inside the pictures; a pixel outside, as far as can be. */
// @ts-ignore: decorator
@inline
function outside(x: f32, y: f32): f32 {
  const beyondX = max<f32>(-x, x - <f32>(width - 1)), beyondY = max<f32>(-y, y - <f32>(height - 1));
  return FARTHEST * clampFloat(max<f32>(beyondX, beyondY), 0, 1);
}

// @ts-ignore: decorator
@inline
function length(vector: v128): f32 {
  const squares = f32x4.mul(vector, vector);
  return sqrt<f32>(f32x4.extract_lane(squares, 0) + f32x4.extract_lane(squares, 1));
}

// @ts-ignore: decorator
@inline
function pair(x: f32, y: f32): v128 {
  return f32x4.replace_lane(f32x4.splat(x), 1, y);
}

// @ts-ignore: decorator
@inline
function differ(one: f32, other: f32, levels: f32): f32 {
  return min<f32>(abs<f32>(one - other), BRIGHTEST) / levels;
}
