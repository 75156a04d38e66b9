import type { Geometry } from "../scaffold/geometry.js";
import type { Interval } from "../scaffold/intervals.js";
import type { Face, FaceState } from "../scaffold/layers/faces.js";
import { Place } from "../scaffold/layout.js";
import { LIPS, openingOf, type Point, pointsOf } from "./face_shape.js";
import { hullMask } from "./hull.js";
import type { Kernels, Pointer } from "./kernels.js";
import { pathAt } from "./path.js";

// As in decoders/interpolation/scaffold_motion.py. Lengths are in distances of the eyes.
/** Cells, a side, on which motion is computed. */
const GRID = 32;
/** The hulls of the points and of the lips, so much larger, move and are drawn from one picture. */
const HEAD = 1.25;
const MOUTH = 1.3;
/** Margin of the points beyond which nothing moves. */
const AROUND = 0.8;
/** Difference of openings at which one picture has the mouth to itself. */
const APART = 0.06;
/** Pixels between the eyes of faces that are drawn. */
const LEAST = 8;
const MOST = 8192;
/** Side of the box of the points of faces that are drawn. */
const WIDEST = 8;

/** How a face moves in a frame: points at a place of the frame, each with its motion, in pixels. */
export interface FaceMove {
  readonly points: readonly Point[];
  readonly moves: readonly Point[];
  /** Their distance. */
  readonly eyes: number;
  /** 1 where the left picture's mouth is open as here, -1 where the right one's is. */
  readonly leans: number;
}

/** The faces of a frame, `time` as of `cameraNodes`. */
export function faceMoves(interval: Interval, time: number, geometry: Geometry): FaceMove[] {
  const { place, ticks, faces } = interval;
  const share = place === Place.BETWEEN ? time / ticks.length : 0;
  const found: FaceMove[] = [];
  for (const face of faces ?? []) {
    if (!face) continue;
    const bend = pathAt(place, ticks.length, face.stepLog2, face.bends, time);
    const state = face.start.map((start, k) => mixed(start, face.end[k]!, share) + (bend[k] ?? 0));
    const unit = geometry.cell / 16;
    const eyes = Math.hypot(state[2]!, state[3]!) * unit;
    if (eyes >= LEAST && eyes <= MOST) found.push(faceMove(face, state, share, unit, eyes));
  }
  return found;
}

function faceMove(
  face: Face,
  state: FaceState,
  share: number,
  unit: number,
  eyes: number,
): FaceMove {
  const [start, end] = [pointsOf(face.start, unit), pointsOf(face.end, unit)];
  const points = pointsOf(state, unit);
  // Motion points from the frame to the key pictures.
  const moves = points.map(([x, y], n): Point => [
    mixed(start[n]![0], end[n]![0], share) - x,
    mixed(start[n]![1], end[n]![1], share) - y,
  ]);
  const [first, last, now] = [face.start, face.end, state].map(openingOf) as [number, number, number];
  const leans = (Math.abs(now - last) - Math.abs(now - first)) / APART;
  return { points, moves, eyes, leans: Math.min(Math.max(leans, -1), 1) };
}

function mixed(a: number, b: number, share: number): number {
  return (1 - share) * a + share * b;
}

/** Adds the motion of a face to `vectors` and, unless it is 0, to `side`: buffers of the frame's size. */
export function addFace(
  kernels: Kernels,
  face: FaceMove,
  geometry: Geometry,
  vectors: Pointer,
  side: Pointer,
): void {
  const { points, eyes } = face;
  if (Math.max(span(points, 0), span(points, 1)) > WIDEST * eyes) return;
  const [left, right] = extent(points, 0, eyes, geometry.width);
  const [top, bottom] = extent(points, 1, eyes, geometry.height);
  if (right - left < 2 || bottom - top < 2) return;
  const cell = Math.max(1, eyes / GRID);
  const columns = Math.ceil((right - left) / cell);
  const rows = Math.ceil((bottom - top) / cell);
  const at = points.map(([x, y]): Point => [(x - left) / cell - 0.5, (y - top) / cell - 0.5]);
  kernels.scoped(() => {
    const known = kernels.put(splat(at, face.moves, columns, rows));
    const head = kernels.put(hullMask(at, columns, rows, HEAD));
    const mouth = kernels.put(hullMask(at.slice(0, LIPS), columns, rows, MOUTH));
    const grid = [columns, rows, cell, eyes / cell] as const;
    const frame = [left, top, right, bottom, geometry.width] as const;
    kernels.call.addFace(known, head, mouth, ...grid, face.leans, ...frame, vectors, side);
  });
}

function span(points: readonly Point[], axis: 0 | 1): number {
  const values = points.map((point) => point[axis]);
  return Math.max(...values) - Math.min(...values);
}

/** From where to where the points of a face move something. */
function extent(points: readonly Point[], axis: 0 | 1, eyes: number, size: number): [number, number] {
  const values = points.map((point) => point[axis]);
  const low = Math.floor(Math.min(...values) - AROUND * eyes);
  const high = Math.ceil(Math.max(...values) + AROUND * eyes);
  return [Math.max(low, 0), Math.min(high, size)];
}

/** The motion of points, x, y and weight, shared among the four cells around each. */
function splat(
  at: readonly Point[],
  moves: readonly Point[],
  columns: number,
  rows: number,
): Float32Array {
  const cells = new Float32Array(3 * columns * rows);
  at.forEach(([x, y], n) => {
    for (const row of [Math.floor(y), Math.floor(y) + 1]) {
      for (const column of [Math.floor(x), Math.floor(x) + 1]) {
        if (column < 0 || column >= columns || row < 0 || row >= rows) continue;
        const near = (1 - Math.abs(x - column)) * (1 - Math.abs(y - row));
        const first = 3 * (row * columns + column);
        cells[first]! += near * moves[n]![0];
        cells[first + 1]! += near * moves[n]![1];
        cells[first + 2]! += near;
      }
    }
  });
  return cells;
}
