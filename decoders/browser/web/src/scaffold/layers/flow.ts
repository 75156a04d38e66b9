import { LimitError } from "../../errors.js";
import { E } from "../elements.js";
import type { Geometry, Shape } from "../geometry.js";
import type { ElementReader } from "../reader.js";

const MAX_VECTOR = 1023;

/** Which key picture a block is drawn from. */
export enum Side {
  BOTH = 0,
  LEFT = 1,
  RIGHT = 2,
}

/** Corrections at one frame; a block of zeros is not corrected. */
export interface Correction {
  readonly blockLog2: number;
  readonly shape: Shape;
  readonly sides: Uint8Array;
  /** x and y of each block, in motion units. */
  readonly vectors: Int16Array;
}

export function readCorrection(
  reader: ElementReader,
  geometry: Geometry,
  before: Correction | undefined,
): Correction | undefined {
  if (!reader.flag(E.flowPresent)) return undefined;
  const blockLog2 = reader.read(E.flowBlock);
  const past = before?.blockLog2 === blockLog2 ? before : undefined;
  const grid = new Grid(reader, blockLog2, geometry.blockShape(blockLog2), past);
  for (let at = 0; at < grid.sides.length; at++) grid.readBlock(at);
  return grid;
}

/** The blocks read so far, from which contexts and predictions are derived. */
class Grid implements Correction {
  readonly sides: Uint8Array;
  readonly vectors: Int16Array;
  /** Whether each block was flagged as coded; it may be all zeros then. */
  private readonly flags: Uint8Array;

  constructor(
    private readonly reader: ElementReader,
    readonly blockLog2: number,
    readonly shape: Shape,
    private readonly before: Correction | undefined,
  ) {
    const size = shape[0] * shape[1];
    this.sides = new Uint8Array(size);
    this.vectors = new Int16Array(2 * size);
    this.flags = new Uint8Array(size);
  }

  readBlock(at: number): void {
    const columns = this.shape[1];
    const left = at % columns > 0 && this.flags[at - 1] === 1;
    const above = at >= columns && this.flags[at - columns] === 1;
    const past = this.before && isCoded(this.before, at) ? this.before : undefined;
    const context = Number(above) + Number(left) + (past ? 3 : 0);
    if (!this.reader.flag(E.coded, context)) return;
    this.flags[at] = 1;
    const sideContext = left ? 1 + Number(this.sides[at - 1] !== Side.BOTH) : 0;
    this.sides[at] = readSide(this.reader, sideContext);
    for (const axis of [0, 1]) {
      const known: number[] = [];
      if (left) known.push(this.vectors[2 * (at - 1) + axis]!);
      if (above) known.push(this.vectors[2 * (at - columns) + axis]!);
      if (past) known.push(past.vectors[2 * at + axis]!);
      const moved = median(known) + this.reader.read(E.flowVector, axis);
      if (Math.abs(moved) > MAX_VECTOR) {
        throw new LimitError(`a motion vector is beyond ${MAX_VECTOR} units`);
      }
      this.vectors[2 * at + axis] = moved;
    }
  }
}

function isCoded(grid: Correction, at: number): boolean {
  return !!(grid.sides[at] || grid.vectors[2 * at] || grid.vectors[2 * at + 1]);
}

function readSide(reader: ElementReader, context: number): Side {
  if (!reader.flag(E.oneSided, context)) return Side.BOTH;
  return reader.flag(E.right, context) ? Side.RIGHT : Side.LEFT;
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
}
