import rows from "../../../../interpolation/face_table.json";
import type { FaceState } from "../scaffold/layers/faces.js";

/** Steps of the mean, and of an expression of weight 1, in the distance of the eyes. */
const MEAN_STEPS = 1 << 10;
const EXPRESSION_STEPS = 1 << 15;
const POSE_NUMBERS = 4;
/** Points of the table that are the lips'. */
export const LIPS = 40;

// The middle of the upper and of the lower lip, by their numbers in MediaPipe's mesh.
const UPPER = rows.findIndex(([landmark]) => landmark === 13);
const LOWER = rows.findIndex(([landmark]) => landmark === 14);

export type Point = readonly [number, number];

/** The shape of a face, in distances of its eyes: the mean plus the weighted expressions. */
function shapeOf(state: FaceState): Point[] {
  const value = (row: readonly number[], axis: number): number => {
    let bent = 0;
    for (let k = POSE_NUMBERS; k < state.length; k++) {
      bent += state[k]! * row[3 + 2 * (k - POSE_NUMBERS) + axis]!;
    }
    return row[1 + axis]! / MEAN_STEPS + bent / EXPRESSION_STEPS;
  };
  return rows.map((row) => [value(row, 0), value(row, 1)]);
}

/** The points of a face, in pixels. `unit`: pixels in one face unit. */
export function pointsOf(state: FaceState, unit: number): Point[] {
  const [x, y, right, down] = state.map((value) => unit * value) as [number, number, number, number];
  return shapeOf(state).map(([across, along]) => [
    right * across - down * along + x,
    down * across + right * along + y,
  ]);
}

/** How far its mouth is open, in distances of its eyes. */
export function openingOf(state: FaceState): number {
  const shape = shapeOf(state);
  return shape[LOWER]![1] - shape[UPPER]![1];
}
