import { E } from "../elements.js";
import type { Geometry, Shape } from "../geometry.js";
import type { ElementReader } from "../reader.js";

/** The gain of each block of a picture, in quarters of the detail to add. */
export interface Texture {
  readonly blockLog2: number;
  readonly shape: Shape;
  readonly gains: Uint8Array;
}

/** Share of a block's detail that one unit of gain adds. */
const STRENGTH = 0.25;

/** The share of its detail that each block gains. */
export function gainsOf(texture: Texture): Float32Array {
  return Float32Array.from(texture.gains, (gain) => STRENGTH * gain);
}

/** Context of a gain, by the sum of the gains to the left, above and, twice, before. */
const CONTEXTS = [0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5];

export function readTexture(
  reader: ElementReader,
  geometry: Geometry,
  before: Texture | undefined,
): Texture | undefined {
  if (!reader.flag(E.texturePresent)) return undefined;
  const blockLog2 = reader.read(E.textureBlock);
  const shape = geometry.blockShape(blockLog2);
  const [rows, columns] = shape;
  const past = before?.blockLog2 === blockLog2 ? before.gains : undefined;
  const gains = new Uint8Array(rows * columns);
  for (let at = 0; at < gains.length; at++) {
    const left = at % columns ? gains[at - 1]! : 0;
    const above = at >= columns ? gains[at - columns]! : 0;
    const around = left + above + 2 * (past?.[at] ?? 0);
    gains[at] = reader.read(E.gain, CONTEXTS[Math.min(around, CONTEXTS.length - 1)]!);
  }
  return { blockLog2, shape, gains };
}
