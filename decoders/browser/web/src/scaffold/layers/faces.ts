import { LimitError } from "../../errors.js";
import { E } from "../elements.js";
import { Place } from "../layout.js";
import type { ElementReader } from "../reader.js";
import { cameraNodes } from "./camera.js";

const MAX_FACES = 4;
const MAX_NUMBER = 1 << 16;
const CONTEXTS = [0, 0, 1, 1, 2, 2, 2, 2, 2, 2];

/** Ten numbers: x, y, right and down in face units, then the weights of six expressions. */
export type FaceState = readonly number[];

/** One face over an interval. */
export interface Face {
  /** At the key pictures before and after it; of held frames both at the one that they hold. */
  readonly start: FaceState;
  readonly end: FaceState;
  readonly stepLog2: number;
  /** At the nodes of `cameraNodes`, how far the state is from a straight line from start to end. */
  readonly bends: readonly FaceState[];
}

/** By slot, in which a face stays from interval to interval. */
export type Faces = readonly (Face | undefined)[];

/** Reads the faces of an interval (section 6); `before`: those of the one before. */
export function readFaces(
  reader: ElementReader,
  place: Place,
  length: number,
  before: Faces | undefined,
): Faces | undefined {
  if (length === 1 && place !== Place.AFTER) return undefined;
  const faces: (Face | undefined)[] = [];
  for (let slot = 0; slot < MAX_FACES; slot++) {
    const old = before?.[slot]?.end;
    const isPresent = reader.flag(E.facesPresent, old ? 1 : 0);
    faces.push(isPresent ? readFace(reader, place, length, old) : undefined);
  }
  return faces.some((face) => face) ? faces : undefined;
}

function readFace(
  reader: ElementReader,
  place: Place,
  length: number,
  old: FaceState | undefined,
): Face {
  const start = readStart(reader, old);
  const isBetween = place === Place.BETWEEN;
  const end = isBetween ? added(start, (k) => reader.read(E.facesChange, CONTEXTS[k]!)) : start;
  const stepLog2 = reader.read(E.facesStep);
  const bends: FaceState[] = [];
  let last: FaceState = CONTEXTS.map(() => 0);
  let stays = false;
  for (const _ of cameraNodes(place, length, stepLog2)) {
    stays = reader.flag(E.facesStay, stays ? 1 : 0);
    if (!stays) last = added(last, (k) => reader.read(E.facesBend, k));
    bends.push(last);
  }
  return { start, end, stepLog2, bends };
}

function readStart(reader: ElementReader, old: FaceState | undefined): FaceState {
  if (old && reader.flag(E.facesGoOn)) return old;
  const element = old ? E.facesChange : E.facesState;
  const base = old ?? CONTEXTS.map(() => 0);
  return added(base, (k) => reader.read(element, CONTEXTS[k]!));
}

function added(base: FaceState, more: (k: number) => number): FaceState {
  const sum = base.map((value, k) => value + more(k));
  if (sum.some((value) => Math.abs(value) > MAX_NUMBER)) {
    throw new LimitError(`a face's state goes beyond ${MAX_NUMBER}`);
  }
  return sum;
}
