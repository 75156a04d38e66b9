// Frames drawn from two pictures (section 8 of the stream format): RGBA, four bytes a pixel.

import { apart, findMotion, FARTHEST, height as gridHeight, missLeft, missRight, moveTo, vectors,
  width as gridWidth } from "./between";
import { enlarge, mixRows, position, positions, sample, shrink } from "./filters";
import { clampFloat, get, mark, release, set, takeFloats } from "./memory";
import { detailOf, lumaOf } from "./detail";
import { bytesOf, lookUp, spreadOut } from "./lookup";

const AGREES: f32 = 0.5;
const APART: f32 = 24;
const OTHER: f32 = 12;
const DECISIVE: f32 = 95;
const LEANING: f32 = 8;
const AROUND: i32 = 8;
const NOISE: f32 = 1;
const RAISED: f32 = 1.6;

let width: i32 = 0;
let height: i32 = 0;
let blockWidth: i32 = 0;
let blockHeight: i32 = 0;
/** Both pictures as numbers, with a border, and the energies of their detail. */
let left: usize = 0;
let right: usize = 0;
let energyLeft: usize = 0;
let energyRight: usize = 0;

/** Prepares the frames between two pictures; the buffers stay taken. Motion is that of the pictures as
 * decoded; what is moved are those that are shown. */
export function open(
  leftPicture: usize, rightPicture: usize, leftShown: usize, rightShown: usize, w: i32, h: i32,
  estimator: i32,
): void {
  width = w;
  height = h;
  blockWidth = (w + AROUND - 1) / AROUND;
  blockHeight = (h + AROUND - 1) / AROUND;
  left = spreadOut(leftShown, w, h);
  right = spreadOut(rightShown, w, h);
  energyLeft = takeFloats(blockWidth * blockHeight);
  energyRight = takeFloats(blockWidth * blockHeight);
  const lumaLeft = takeFloats(w * h), lumaRight = takeFloats(w * h);
  lumaOf(leftPicture, w * h, lumaLeft);
  lumaOf(rightPicture, w * h, lumaRight);
  findMotion(lumaLeft, lumaRight, w, h, estimator);
  lumaOf(leftShown, w * h, lumaLeft);
  lumaOf(rightShown, w * h, lumaRight);
  measure(lumaLeft, energyLeft);
  measure(lumaRight, energyRight);
}

/** Energies of the detail of luma, which is overwritten by that detail. */
function measure(luma: usize, energies: usize): void {
  const start = mark();
  const squares = takeFloats(width * height);
  detailOf(luma, width, height);
  for (let n = 0; n < width * height; n++) set(squares, n, get(luma, n) * get(luma, n));
  shrink(squares, width, height, 1, energies, blockWidth, blockHeight);
  release(start);
}

/** Draws the frame at `time`, 0 at the left picture and 1 at the right one, to `target`.
 *
 * `bend`: what the scaffold adds to motion, x and y of each pixel, and `side`: the picture to draw
 * from at each pixel, -1 (right) to 1 (left); each 0 where there is none. */
export function draw(time: f32, bend: usize, side: usize, target: usize): void {
  const start = mark();
  moveTo(time);
  const share = takeFloats(gridWidth * gridHeight);
  findShare(time, side, share);
  blend(time, bend, share, target);
  raise(time, bend, share, target);
  release(start);
}

/** Of the left picture in the frame, on the grid of motion. */
function findShare(time: f32, side: usize, share: usize): void {
  const start = mark();
  const nearer = Mathf.log((1 - time) / time), sides = takeFloats(gridWidth * gridHeight);
  if (side) shrink(side, width, height, 1, sides, gridWidth, gridHeight);
  for (let n = 0; n < gridWidth * gridHeight; n++) {
    const leftMiss = min<f32>(get(missLeft, n), FARTHEST), rightMiss = min<f32>(get(missRight, n), FARTHEST);
    let better = (rightMiss - leftMiss) / AGREES + nearer;
    // Half and half of different things is a ghost of each.
    if (apart) better += clampFloat((get(apart, n) - APART) / OTHER, 0, 1) * (DECISIVE * better + LEANING);
    let part: f32 = <f32>1 / (1 + Mathf.exp(clampFloat(-better, -80, 80)));
    if (side) part = clampFloat(part + get(sides, n), 0, 1);
    set(share, n, part);
  }
  release(start);
}

function blend(time: f32, bend: usize, share: usize, target: usize): void {
  const start = mark();
  const moves = takeFloats(2 * gridWidth), shares = takeFloats(gridWidth);
  const scaleX = <f32>width / <f32>gridWidth, scaleY = <f32>height / <f32>gridHeight;
  const places = positions(gridWidth, width);
  for (let y = 0; y < height; y++) {
    const row = position(y, gridHeight, height);
    mixRows(vectors, 2 * gridWidth, gridHeight, row, moves);
    mixRows(share, gridWidth, gridHeight, row, shares);
    for (let x = 0; x < width; x++) {
      const column = get(places, x);
      const first = <i32>column, next = min(first + 1, gridWidth - 1);
      const part = column - <f32>first;
      const u = scaleX * mix(get(moves, 2 * first), get(moves, 2 * next), part);
      const v = scaleY * mix(get(moves, 2 * first + 1), get(moves, 2 * next + 1), part);
      const weight = mix(get(shares, first), get(shares, next), part);
      const at = y * width + x;
      const px = <f32>x + (bend ? get(bend, 2 * at) : 0);
      const py = <f32>y + (bend ? get(bend, 2 * at + 1) : 0);
      const a = lookUp(left, width, height, px - time * u, py - time * v);
      const b = lookUp(right, width, height, px + (1 - time) * u, py + (1 - time) * v);
      const mixed = f32x4.add(
        f32x4.mul(a, f32x4.splat(weight)), f32x4.mul(b, f32x4.splat(1 - weight)),
      );
      store<u32>(target + ((<usize>at) << 2), bytesOf(mixed));
    }
  }
  release(start);
}

// @ts-ignore: decorator
@inline
function mix(a: f32, b: f32, part: f32): f32 {
  return a + part * (b - a);
}

/** Raises luma detail of the frame to the energy that both pictures' has. */
function raise(time: f32, bend: usize, share: usize, target: usize): void {
  const start = mark();
  const size = width * height;
  const detail = takeFloats(size), gains = takeFloats(size);
  const wanted = takeFloats(blockWidth * blockHeight), energies = takeFloats(blockWidth * blockHeight);
  lumaOf(target, size, detail);
  measure(detail, energies);
  want(time, bend, share, wanted);
  for (let n = 0; n < blockWidth * blockHeight; n++) {
    const gain = sqrt<f32>((get(wanted, n) + NOISE) / (get(energies, n) + NOISE));
    set(wanted, n, clampFloat(gain, 1, RAISED) - 1);
  }
  enlarge(wanted, blockWidth, blockHeight, 1, gains, width, height);
  for (let n = 0; n < size; n++) {
    const level = <i32>nearest<f32>(get(detail, n) * get(gains, n));
    if (level) add(target + ((<usize>n) << 2), level);
  }
  release(start);
}

// @ts-ignore: decorator
@inline
function add(pixel: usize, level: i32): void {
  for (let c: usize = 0; c < 3; c++) {
    store<u8>(pixel + c, <u8>min(max(<i32>load<u8>(pixel + c) + level, 0), 255));
  }
}

/** The energy that a frame's detail should have: the pictures', moved as they are. */
function want(time: f32, bend: usize, share: usize, wanted: usize): void {
  const shares = takeFloats(blockWidth * blockHeight), moves = takeFloats(2 * blockWidth * blockHeight);
  const bends = takeFloats(2 * blockWidth * blockHeight);
  enlarge(share, gridWidth, gridHeight, 1, shares, blockWidth, blockHeight);
  shrink(vectors, gridWidth, gridHeight, 2, moves, blockWidth, blockHeight);
  if (bend) shrink(bend, width, height, 2, bends, blockWidth, blockHeight);
  const scaleX = <f32>blockWidth / <f32>gridWidth, scaleY = <f32>blockHeight / <f32>gridHeight;
  const bendX = <f32>blockWidth / <f32>width, bendY = <f32>blockHeight / <f32>height;
  for (let y = 0; y < blockHeight; y++) {
    for (let x = 0; x < blockWidth; x++) {
      const at = y * blockWidth + x;
      const u = scaleX * get(moves, 2 * at), v = scaleY * get(moves, 2 * at + 1);
      const px = <f32>x + (bend ? bendX * get(bends, 2 * at) : 0);
      const py = <f32>y + (bend ? bendY * get(bends, 2 * at + 1) : 0);
      const a = energyAt(energyLeft, px - time * u, py - time * v);
      const b = energyAt(energyRight, px + (1 - time) * u, py + (1 - time) * v);
      set(wanted, at, b + get(shares, at) * (a - b));
    }
  }
}

// @ts-ignore: decorator
@inline
function energyAt(energies: usize, x: f32, y: f32): f32 {
  return sample(energies, blockWidth, blockHeight, 1, 0, x, y);
}
