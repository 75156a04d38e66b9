/** Rows and columns of a grid. */
export type Shape = readonly [number, number];

/** Grids over a picture of `width` x `height` pixels (section 7). */
export class Geometry {
  readonly cell: number;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.cell = Math.max(8, roundHalfEven(Math.min(width, height) / 36));
  }

  get labelShape(): Shape {
    return [Math.ceil(this.height / this.cell), Math.ceil(this.width / this.cell)];
  }

  blockSide(blockLog2: number): number {
    return this.cell << blockLog2;
  }

  blockShape(blockLog2: number): Shape {
    const side = this.blockSide(blockLog2);
    return [Math.ceil(this.height / side), Math.ceil(this.width / side)];
  }

  /** Width and height of pictures coded at so many eighths of the display size. */
  codedSize(eighths: number): readonly [number, number] {
    return [
      2 * Math.ceil((this.width * eighths) / 16),
      2 * Math.ceil((this.height * eighths) / 16),
    ];
  }
}

export function roundHalfEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
}
