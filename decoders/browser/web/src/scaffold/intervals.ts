import { LimitError } from "../errors.js";
import { MAX_SAMPLES } from "../limits.js";
import type { Header } from "../stream/header.js";
import { E } from "./elements.js";
import type { Geometry } from "./geometry.js";
import { type Brightness, readBrightness } from "./layers/brightness.js";
import { type Camera, readCamera } from "./layers/camera.js";
import { type Faces, readFaces } from "./layers/faces.js";
import { type Correction, readCorrection } from "./layers/flow.js";
import { type People, readPeople } from "./layers/pose.js";
import { readSegmentation, type Segmentation } from "./layers/segmentation.js";
import { readTexture, type Texture } from "./layers/texture.js";
import { Place, type Span } from "./layout.js";
import type { ElementReader } from "./reader.js";

/** The scaffold at one frame. */
export interface Sample {
  /** Frames since the key picture before the interval. */
  readonly offset: number;
  readonly segmentation: Segmentation | undefined;
  readonly people: People | undefined;
  readonly correction: Correction | undefined;
}

/** The frames up to and including a key picture, and their scaffold. */
export interface Interval extends Span {
  readonly dissolves: boolean;
  readonly camera: Camera | undefined;
  readonly faces: Faces | undefined;
  readonly brightness: Brightness | undefined;
  readonly texture: Texture | undefined;
  /** How the picture is to be restored, 0 for as usual. */
  readonly guide: number;
  readonly samples: readonly Sample[];
}

/** Reads the intervals of one group, in order. */
export class IntervalReader {
  private texture: Texture | undefined;
  private faces: Faces | undefined;
  private guide = 0;
  private before: Omit<Sample, "offset"> | undefined;

  constructor(
    private readonly reader: ElementReader,
    private readonly header: Header,
    private readonly geometry: Geometry,
    private readonly hasFaces: boolean,
    private readonly hasBrightness: boolean,
  ) {}

  read(span: Span): Interval {
    const { place } = span;
    const length = span.ticks.length;
    const mayDissolve = place === Place.BETWEEN && length > 1;
    const dissolves = mayDissolve && this.reader.flag(E.dissolves);
    const camera = this.header.camera ? readCamera(this.reader, place, length) : undefined;
    if (this.hasFaces) this.faces = readFaces(this.reader, place, length, this.faces);
    const brightness = this.hasBrightness ? readBrightness(this.reader, length) : undefined;
    const head = { ...span, dissolves, camera, faces: this.faces, brightness };
    if (place === Place.AFTER) return { ...head, texture: undefined, guide: 0, samples: [] };
    if (this.header.texture) {
      this.texture = readTexture(this.reader, this.geometry, this.texture);
    }
    if (this.header.guide) this.guide = this.reader.read(E.mixture, this.guide);
    return { ...head, texture: this.texture, guide: this.guide, samples: this.samples(length) };
  }

  private samples(length: number): Sample[] {
    const samples: Sample[] = [];
    let last = 0;
    while (this.reader.flag(E.moreSamples)) {
      if (samples.length === MAX_SAMPLES) {
        throw new LimitError(`an interval has more than ${MAX_SAMPLES} scaffold samples`);
      }
      const offset = length - this.reader.read(E.gap);
      if (offset <= last) {
        throw new LimitError("scaffold samples lie outside their interval or out of order");
      }
      last = offset;
      this.before = this.layers();
      samples.push({ offset, ...this.before });
    }
    return samples;
  }

  private layers(): Omit<Sample, "offset"> {
    const { reader, header, geometry, before } = this;
    const shape = geometry.labelShape;
    return {
      segmentation: header.segmentation
        ? readSegmentation(reader, shape, before?.segmentation)
        : undefined,
      people: header.pose ? readPeople(reader, before?.people) : undefined,
      correction: header.flow ? readCorrection(reader, geometry, before?.correction) : undefined,
    };
  }
}
