import type { Picture } from "../../drawing/renderer.js";
import { LimitError } from "../../errors.js";
import { E } from "../elements.js";
import type { ElementReader } from "../reader.js";

/** Steps of a doubling. */
const STEPS = 32;
const MAX_BRIGHTNESS = 2 * STEPS;

/** How much brighter each frame of an interval is than its key pictures would have it, in steps. */
export type Brightness = readonly number[];

export function readBrightness(reader: ElementReader, length: number): Brightness | undefined {
  if (!reader.flag(E.brightnessPresent)) return undefined;
  const steps: number[] = [];
  for (let last = 0; steps.length < length; steps.push(last)) {
    last += reader.read(E.brightnessChange, last ? 1 : 0);
    if (Math.abs(last) > MAX_BRIGHTNESS) {
      throw new LimitError(`a frame's brightness differs by more than ${MAX_BRIGHTNESS} steps`);
    }
  }
  return steps;
}

/** The picture, RGBA, that many steps brighter. */
export function brightened(picture: Picture, steps: number): Picture {
  if (!steps) return picture;
  const factor = Math.round(65536 * 2 ** (steps / STEPS));
  return picture.map((value, at) =>
    at % 4 === 3 ? value : Math.min(255, Math.floor((value * factor + 32768) / 65536)),
  );
}
