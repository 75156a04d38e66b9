import { LimitError } from "../../errors.js";
import { E } from "../elements.js";
import { Place } from "../layout.js";
import type { ElementReader } from "../reader.js";

const MAX_CAMERA = 1 << 14;

/** The camera's path: at each node, x and y of three corners, in camera units. */
export interface Camera {
  readonly stepLog2: number;
  readonly corners: Int16Array;
}

/** Times of the nodes in an interval of `length` frames (section 6, path). */
export function cameraNodes(place: Place, length: number, stepLog2: number): number[] {
  const step = 1 << stepLog2;
  const farthest = place === Place.AFTER ? length : length - 1;
  const count =
    place === Place.BETWEEN ? Math.floor((length - 1) / step) : Math.ceil(farthest / step);
  return Array.from({ length: count }, (_, n) => (n + 1) * step);
}

export function readCamera(
  reader: ElementReader,
  place: Place,
  length: number,
): Camera | undefined {
  if (length === 1 && place !== Place.AFTER) return undefined;
  if (!reader.flag(E.cameraPresent, place === Place.BETWEEN ? 0 : 1)) return undefined;
  const stepLog2 = reader.read(E.cameraStep);
  const nodes = cameraNodes(place, length, stepLog2).length;
  const corners = new Int16Array(6 * nodes);
  for (let node = 0; node < nodes; node++) readNode(reader, corners, 6 * node);
  return { stepLog2, corners };
}

/** Each corner is predicted from the node before, moved as the first corner moved. */
function readNode(reader: ElementReader, corners: Int16Array, start: number): void {
  const old = (at: number): number => (start ? corners[start - 6 + at]! : 0);
  for (let at = 0; at < 6; at++) {
    const axis = at % 2;
    const moved = at < 2 ? 0 : corners[start + axis]! - old(axis);
    const placed = old(at) + moved + reader.read(E.corner, at < 2 ? axis : 2 + axis);
    if (Math.abs(placed) > MAX_CAMERA) {
      throw new LimitError(`the camera moves by more than ${MAX_CAMERA} units`);
    }
    corners[start + at] = placed;
  }
}
