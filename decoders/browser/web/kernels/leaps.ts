// Small things that move farther than optical flow follows (section 8 of the stream format), on the
// grid of motion.

import { sample } from "./filters";
import { clampIndex, get, mark, release, set, takeFloats } from "./memory";

const STANDS_OUT: f32 = 24;
const AROUND: f64 = 0.1;
const LEAST: f32 = 4;
const MOST: f64 = 0.01;
const LOST: f64 = 0.4;
const MANY: i32 = 64;
/** The same with motion estimator 0. */
const FEW: i32 = 12;
const NEAR: f32 = 2;
const FAR: f32 = 0.25;
const UNLIKE: f32 = 1;
const EXPLAINED: f32 = 0.5;
const HALF: f32 = 0.51;
/** Numbers of a thing: its label, centre (x, y), area and contrast. */
const THING: i32 = 5;
/** Numbers of a leap: labels in the left and the right picture, and the vector. */
const LEAP: i32 = 4;

let width: i32 = 0;
let height: i32 = 0;
/** The thing in each cell of either picture. */
let labelsLeft: usize = 0;
let labelsRight: usize = 0;
let leaps: usize = 0;
/** Things in a picture beyond which none leaps. */
let most: i32 = MANY;
export let leapCount: i32 = 0;

/** Finds the leaps between two pictures, luma on the grid, and puts them into the flows between them;
 * its buffers stay taken. */
export function findLeaps(
  left: usize, right: usize, forward: usize, backward: usize, w: i32, h: i32, areFew: bool,
): void {
  most = areFew ? FEW : MANY;
  width = w;
  height = h;
  leapCount = 0;
  labelsLeft = takeFloats(w * h);
  labelsRight = takeFloats(w * h);
  leaps = takeFloats(LEAP * MANY);
  const start = mark();
  const things = takeFloats(THING * MANY), others = takeFloats(THING * MANY);
  const count = findThings(left, right, forward, labelsLeft, things);
  const otherCount = count ? findThings(right, left, backward, labelsRight, others) : 0;
  for (let n = 0; n < count; n++) {
    const m = likest(things + offset(n), others, otherCount);
    if (m < 0 || likest(others + offset(m), things, count) != n) continue;
    keep(things + offset(n), others + offset(m), left, right);
  }
  release(start);
  for (let n = 0; n < leapCount; n++) {
    put(n, labelsLeft, 0, 0, forward, 1);
    put(n, labelsRight, 1, 0, backward, -1);
  }
}

/** Puts the leaps' vectors where these are at a time. */
export function putLeaps(time: f32, vectors: usize): void {
  for (let n = 0; n < leapCount; n++) {
    put(n, labelsLeft, 0, time, vectors, 1);
    put(n, labelsRight, 1, time - 1, vectors, 1);
  }
}

function offset(thing: i32): usize {
  return (<usize>(THING * thing)) << 2;
}

/** Where a leap's thing and its edge are after a part of its way. */
function put(leap: i32, labels: usize, side: i32, part: f32, vectors: usize, sign: f32): void {
  const label = get(leaps, LEAP * leap + side);
  const u = get(leaps, LEAP * leap + 2), v = get(leaps, LEAP * leap + 3);
  const right = <i32>floor<f32>(part * u + HALF), down = <i32>floor<f32>(part * v + HALF);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!isNextTo(labels, label, x, y)) continue;
      const px = x + right, py = y + down;
      if (!isInside(px, py)) continue;
      set(vectors, 2 * (py * width + px), sign * u);
      set(vectors, 2 * (py * width + px) + 1, sign * v);
    }
  }
}

function isNextTo(labels: usize, label: f32, x: i32, y: i32): bool {
  for (let py = max(y - 1, 0); py <= min(y + 1, height - 1); py++) {
    for (let px = max(x - 1, 0); px <= min(x + 1, width - 1); px++) {
      if (get(labels, py * width + px) == label) return true;
    }
  }
  return false;
}

function isInside(x: i32, y: i32): bool {
  return x >= 0 && x < width && y >= 0 && y < height;
}

/** Which of `others` is most like a thing; -1 where none is. */
function likest(thing: usize, others: usize, count: i32): i32 {
  let best = -1, least: f32 = UNLIKE;
  for (let m = 0; m < count; m++) {
    const unlike = unlikeness(thing, others + offset(m));
    if (unlike >= least) continue;
    least = unlike;
    best = m;
  }
  return best;
}

function unlikeness(thing: usize, other: usize): f32 {
  const u = get(other, 1) - get(thing, 1), v = get(other, 2) - get(thing, 2);
  const way = sqrt<f32>(u * u + v * v), part = way / (FAR * <f32>min(width, height));
  const contrast = get(thing, 4) / get(other, 4);
  if (contrast <= 0 || part >= 1 || way <= NEAR) return UNLIKE;
  return abs(Mathf.log(contrast)) + abs(Mathf.log(get(thing, 3) / get(other, 3))) + part / 2;
}

/** Keeps a leap if what it comes to looks like it. */
function keep(thing: usize, other: usize, left: usize, right: usize): void {
  const u = get(other, 1) - get(thing, 1), v = get(other, 2) - get(thing, 2);
  let error: f32 = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (get(labelsLeft, y * width + x) != get(thing, 0)) continue;
      const px = x + <i32>floor<f32>(u + HALF), py = y + <i32>floor<f32>(v + HALF);
      if (!isInside(px, py)) return;
      error += abs(get(left, y * width + x) - get(right, py * width + px));
    }
  }
  if (error >= EXPLAINED * abs(get(thing, 4)) * get(thing, 3)) return;
  const at = LEAP * leapCount++;
  set(leaps, at, get(thing, 0));
  set(leaps, at + 1, get(other, 0));
  set(leaps, at + 2, u);
  set(leaps, at + 3, v);
}

/** Labels what stands out in a picture; returns how many of it are small and lost, to `things`. */
function findThings(picture: usize, other: usize, flow: usize, labels: usize, things: usize): i32 {
  const start = mark();
  const size = width * height;
  const out = takeFloats(size), waiting = takeFloats(size);
  standOut(picture, out);
  memory.fill(labels, 0, (<usize>size) << 2);
  let label: f32 = 0, count = 0;
  for (let n = 0; n < size; n++) {
    if (get(labels, n) != 0 || abs(get(out, n)) <= STANDS_OUT) continue;
    label += 1;
    fillThing(n, label, labels, out, waiting);
    const gone = countLost(waiting, picture, other, flow);
    if (area < LEAST || area > MOST * size || gone < LOST * area) continue;
    if (count++ < most) {
      const at = things + offset(count - 1);
      set(at, 0, label);
      set(at, 1, sumX / area);
      set(at, 2, sumY / area);
      set(at, 3, area);
      set(at, 4, sumOut / area);
    }
  }
  release(start);
  return count > most ? 0 : count;
}

let area: f32 = 0;
let sumX: f32 = 0;
let sumY: f32 = 0;
let sumOut: f32 = 0;

/** Labels the cells that hang together with `seed`, which `found` lists, and sums them up. */
function fillThing(seed: i32, label: f32, labels: usize, out: usize, found: usize): void {
  const sign: f32 = get(out, seed) > 0 ? 1 : -1;
  set(found, 0, <f32>seed);
  set(labels, seed, label);
  area = 1;
  sumX = sumY = sumOut = 0;
  for (let next = 0; next < <i32>area; next++) {
    const n = <i32>get(found, next), x = n % width, y = n / width;
    sumX += <f32>x;
    sumY += <f32>y;
    sumOut += get(out, n);
    for (let k = 0; k < 4; k++) {
      const px = x + (k == 0 ? -1 : k == 1 ? 1 : 0), py = y + (k == 2 ? -1 : k == 3 ? 1 : 0);
      const at = py * width + px;
      if (!isInside(px, py) || get(labels, at) != 0 || sign * get(out, at) <= STANDS_OUT) continue;
      set(labels, at, label);
      set(found, <i32>area, <f32>at);
      area += 1;
    }
  }
}

/** How many of the cells found do not look like those that the flow leads to. */
function countLost(found: usize, picture: usize, other: usize, flow: usize): i32 {
  let count = 0;
  for (let k = 0; k < <i32>area; k++) {
    const n = <i32>get(found, k);
    const x = <f32>(n % width) + get(flow, 2 * n), y = <f32>(n / width) + get(flow, 2 * n + 1);
    const there = sample(other, width, height, 1, 0, x, y);
    count += <i32>(abs(get(picture, n) - there) > STANDS_OUT);
  }
  return count;
}

/** The picture less the mean around each cell; its border is repeated. */
function standOut(picture: usize, out: usize): void {
  const start = mark();
  const reach = <i32>nearest<f64>(AROUND * min(width, height));
  const side = 2 * reach + 1;
  const rows = takeFloats(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let sum: f32 = 0;
      for (let k = -reach; k <= reach; k++) sum += get(picture, y * width + clampIndex(x + k, width));
      set(rows, y * width + x, sum);
    }
  }
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let sum: f32 = 0;
      for (let k = -reach; k <= reach; k++) sum += get(rows, clampIndex(y + k, height) * width + x);
      set(out, y * width + x, get(picture, y * width + x) - sum / <f32>(side * side));
    }
  }
  release(start);
}
