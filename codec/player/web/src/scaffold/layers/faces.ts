import { LimitError } from "../../errors.js";
import { E } from "../elements.js";
import { Place } from "../layout.js";
import type { ElementReader } from "../reader.js";
import { cameraNodes } from "./camera.js";

const MAX_FACES = 4;
const NUMBERS = 10;
const MAX_NUMBER = 1 << 16;
const CONTEXTS = [0, 0, 1, 1, 2, 2, 2, 2, 2, 2];

/** By slot, the state of each face at the end of an interval. */
export type FaceEnds = readonly (readonly number[] | undefined)[];

/**
 * Reads the faces of an interval (section 6) and keeps what the next one is predicted from: this
 * player draws frames without them.
 */
export function skipFaces(
  reader: ElementReader,
  place: Place,
  length: number,
  before: FaceEnds | undefined,
): FaceEnds | undefined {
  if (length === 1 && place !== Place.AFTER) return undefined;
  const ends: (readonly number[] | undefined)[] = [];
  for (let slot = 0; slot < MAX_FACES; slot++) {
    const old = before?.[slot];
    const isPresent = reader.flag(E.facesPresent, old ? 1 : 0);
    ends.push(isPresent ? skipFace(reader, place, length, old) : undefined);
  }
  return ends.some((end) => end) ? ends : undefined;
}

function skipFace(
  reader: ElementReader,
  place: Place,
  length: number,
  old: readonly number[] | undefined,
): readonly number[] {
  let state = old;
  if (!old) {
    const origin = CONTEXTS.map(() => 0);
    state = added(origin, (k) => reader.read(E.facesState, CONTEXTS[k]!));
  } else if (!reader.flag(E.facesGoOn)) {
    state = added(old, (k) => reader.read(E.facesChange, CONTEXTS[k]!));
  }
  if (place === Place.BETWEEN) {
    state = added(state!, (k) => reader.read(E.facesChange, CONTEXTS[k]!));
  }
  const nodes = cameraNodes(place, length, reader.read(E.facesStep)).length;
  let last: readonly number[] = CONTEXTS.map(() => 0);
  let stays = false;
  for (let node = 0; node < nodes; node++) {
    stays = reader.flag(E.facesStay, stays ? 1 : 0);
    if (!stays) last = added(last, (k) => reader.read(E.facesBend, k));
  }
  return state!;
}

function added(base: readonly number[], more: (k: number) => number): readonly number[] {
  const sum: number[] = [];
  for (let k = 0; k < NUMBERS; k++) {
    sum.push(base[k]! + more(k));
  }
  if (sum.some((value) => Math.abs(value) > MAX_NUMBER)) {
    throw new LimitError(`a face's state goes beyond ${MAX_NUMBER}`);
  }
  return sum;
}
