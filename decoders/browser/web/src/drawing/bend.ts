import type { Geometry } from "../scaffold/geometry.js";
import type { Interval, Sample } from "../scaffold/intervals.js";
import { anchorField, type Field, movesPicture } from "./anchors.js";
import { pathAt } from "./path.js";

/** What the scaffold adds to motion in a frame: x and y of each pixel, and the picture to draw from. */
export interface Bend {
  readonly vectors: Float32Array;
  readonly side: Float32Array | undefined;
}

/** Three vectors in pixels: at the top left, top right and bottom left corner. */
type Corners = readonly number[];

/** The motion that the layers of one interval add to what the decoder finds. */
export class Bends {
  private readonly samples: readonly Sample[];
  private readonly anchors: readonly Sample[];
  private readonly fields = new Map<number, Field>();

  /** `closing`: the sample on the key picture before, with offset 0. */
  constructor(
    private readonly interval: Interval,
    closing: Sample | undefined,
    private readonly geometry: Geometry,
  ) {
    const length = interval.ticks.length;
    this.samples = closing ? [closing, ...interval.samples] : interval.samples;
    this.anchors = interval.samples.filter(
      (sample) => sample.offset > 0 && sample.offset < length && movesPicture(sample),
    );
  }

  /** Of the frame `offset` frames after the left picture; undefined where nothing is added. */
  at(offset: number): Bend | undefined {
    return withCamera(this.anchored(offset), this.interval, offset, this.geometry);
  }

  /** The motion of the anchors around, linear in time between them. */
  private anchored(offset: number): Bend | undefined {
    const after = this.anchors.find((sample) => sample.offset >= offset);
    const before = this.anchors.filter((sample) => sample.offset < offset).at(-1);
    if (!after && !before) return undefined;
    const start = before?.offset ?? 0;
    const end = after?.offset ?? this.interval.ticks.length;
    const share = (offset - start) / (end - start);
    const bend = { vectors: blank(2, this.geometry), side: blank(1, this.geometry) };
    for (const [anchor, weight] of [[before, 1 - share], [after, share]] as const) {
      if (!anchor || weight <= 0) continue;
      const field = this.field(anchor);
      for (let n = 0; n < bend.vectors.length; n++) bend.vectors[n]! += weight * field.vectors[n]!;
      for (let n = 0; n < bend.side.length; n++) bend.side[n]! += weight * field.side[n]!;
    }
    return bend;
  }

  private field(anchor: Sample): Field {
    const known = this.fields.get(anchor.offset);
    if (known) return known;
    // Frames come in order: only the two anchors around one are needed.
    if (this.fields.size === 2) this.fields.delete(this.fields.keys().next().value!);
    const made = anchorField(anchor, this.samples, this.interval.ticks.length, this.geometry);
    this.fields.set(anchor.offset, made);
    return made;
  }
}

/** The same of a frame that holds a key picture, `time` frames from it. */
export function heldBend(interval: Interval, time: number, geometry: Geometry): Bend | undefined {
  return withCamera(undefined, interval, time, geometry);
}

function withCamera(
  given: Bend | undefined,
  interval: Interval,
  time: number,
  geometry: Geometry,
): Bend | undefined {
  const corners = cameraAt(interval, time, geometry);
  if (!corners) return given;
  const bend = given ?? { vectors: blank(2, geometry), side: undefined };
  addAffine(bend.vectors, corners, geometry);
  return bend;
}

function blank(channels: number, geometry: Geometry): Float32Array {
  return new Float32Array(channels * geometry.width * geometry.height);
}

/** The camera's displacement at a time, in frames as in `cameraNodes`; undefined if there is none. */
function cameraAt(interval: Interval, time: number, geometry: Geometry): Corners | undefined {
  const { camera, place, ticks } = interval;
  if (!camera) return undefined;
  const nodes = Array.from({ length: camera.corners.length / 6 }, (_, n) => [
    ...camera.corners.subarray(6 * n, 6 * n + 6),
  ]);
  const path = pathAt(place, ticks.length, camera.stepLog2, nodes, time);
  const corners = path.map((value) => (value * geometry.cell) / 32);
  return corners.some((value) => value !== 0) ? corners : undefined;
}

function addAffine(vectors: Float32Array, corners: Corners, geometry: Geometry): void {
  const { width, height } = geometry;
  for (let y = 0; y < height; y++) {
    const down = y / Math.max(height - 1, 1);
    for (let x = 0; x < width; x++) {
      const across = x / Math.max(width - 1, 1);
      for (const axis of [0, 1]) {
        const start = corners[axis]!;
        const rightward = across * (corners[2 + axis]! - start);
        const downward = down * (corners[4 + axis]! - start);
        vectors[2 * (y * width + x) + axis]! += start + rightward + downward;
      }
    }
  }
}
