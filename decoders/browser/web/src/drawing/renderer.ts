import type { Geometry } from "../scaffold/geometry.js";
import type { Interval, Sample } from "../scaffold/intervals.js";
import { gainsOf, type Texture } from "../scaffold/layers/texture.js";
import { Place } from "../scaffold/layout.js";
import type { Header } from "../stream/header.js";
import { type Bend, Bends, heldBend } from "./bend.js";
import { addFace, faceMoves } from "./faces.js";
import type { Kernels, Pointer } from "./kernels.js";

/** RGBA of the display size, four bytes a pixel. */
export type Picture = Uint8Array<ArrayBuffer>;

/** Planes of a decoded picture, 8 bits, 4:2:0, without gaps. */
export interface Yuv {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

/** Key pictures before and after a frame. */
export type Pair = readonly [left: Picture, right: Picture];

/** Weights of red and blue in luma, by the code points of ITU-T H.273. */
const MATRICES: Readonly<Record<number, readonly [number, number]>> = {
  1: [0.2126, 0.0722],
  4: [0.3, 0.11],
  5: [0.299, 0.114],
  6: [0.299, 0.114],
  7: [0.212, 0.087],
  9: [0.2627, 0.0593],
};

/** Draws the frames of one stream; section 8 of the stream format. */
export class Renderer {
  private opened: { decoded: Pair; shown: Pair } | undefined;
  private readonly bottom: number;

  constructor(
    private readonly kernels: Kernels,
    private readonly header: Header,
    private readonly geometry: Geometry,
  ) {
    this.bottom = kernels.call.mark();
  }

  /** A decoded picture in RGBA, at its own size. */
  converted(yuv: Yuv): Picture {
    const { width, height, data } = yuv;
    const unset = this.header.height <= 576 ? 6 : 1;
    const matrix = this.header.color_matrix === 2 ? unset : this.header.color_matrix;
    const [red, blue] = MATRICES[matrix] ?? MATRICES[1]!;
    return this.kernels.scoped(() => {
      const luma = this.kernels.put(data);
      const cb = luma + width * height;
      const cr = cb + (width * height) / 4;
      const target = this.kernels.call.take(4 * width * height);
      const { convert } = this.kernels.call;
      convert(luma, cb, cr, width, height, red, blue, !!this.header.full_range, target);
      return this.kernels.get(target, 4 * width * height);
    });
  }

  /** A key picture at display size, its texture raised. */
  keyPicture(
    picture: Picture,
    size: readonly [number, number],
    texture: Texture | undefined,
  ): Picture {
    const fitted = this.fitted(picture, size);
    if (!texture?.gains.some((gain) => gain)) return fitted;
    const { width, height, cell } = this.geometry;
    const side = this.geometry.blockSide(texture.blockLog2);
    return this.kernels.scoped(() => {
      const at = this.kernels.put(fitted);
      const from = this.kernels.put(gainsOf(texture));
      const [rows, columns] = texture.shape;
      this.kernels.call.raiseTexture(at, width, height, from, rows, columns, side, cell / 4);
      return this.kernels.get(at, fitted.length);
    });
  }

  private fitted(picture: Picture, [fromWidth, fromHeight]: readonly [number, number]): Picture {
    const { width, height } = this.geometry;
    if (fromWidth === width && fromHeight === height) return picture;
    if (fromWidth === width + (width % 2) && fromHeight === height + (height % 2)) {
      return cropped(picture, fromWidth, width, height);
    }
    return this.kernels.scoped(() => {
      const target = this.kernels.call.take(4 * width * height);
      const from = this.kernels.put(picture);
      this.kernels.call.resample(from, fromWidth, fromHeight, target, width, height);
      return this.kernels.get(target, 4 * width * height);
    });
  }

  /** The frame `offset` of an interval BETWEEN two key pictures, 0 < offset < its length.
   *
   * `decoded`: those that motion is found in; `shown`: those that are moved. */
  between(
    decoded: Pair,
    shown: Pair,
    interval: Interval,
    bends: Bends,
    offset: number,
  ): Picture {
    const { width, height } = this.geometry;
    const time = offset / interval.ticks.length;
    if (interval.dissolves) return this.dissolved(shown, time);
    this.open(decoded, shown);
    return this.kernels.scoped(() => {
      const [vectors, side] = this.bend(bends.at(offset), interval, offset);
      const target = this.kernels.call.take(4 * width * height);
      this.kernels.call.draw(time, vectors, side, target);
      return this.kernels.get(target, 4 * width * height);
    });
  }

  /** A frame that holds a key picture, `time` frames from it. */
  held(picture: Picture, interval: Interval, time: number): Picture {
    const { width, height } = this.geometry;
    return this.kernels.scoped(() => {
      const [vectors] = this.bend(heldBend(interval, time, this.geometry), interval, time);
      if (!vectors) return picture;
      const from = this.kernels.put(picture);
      const target = this.kernels.call.take(4 * width * height);
      this.kernels.call.hold(from, width, height, vectors, target);
      return this.kernels.get(target, 4 * width * height);
    });
  }

  /** Buffers of what the scaffold adds to motion, and of its sides; 0 where there is none. */
  private bend(bend: Bend | undefined, interval: Interval, time: number): [Pointer, Pointer] {
    const faces = faceMoves(interval, time, this.geometry);
    const size = this.geometry.width * this.geometry.height;
    const buffer = (given: Float32Array | undefined, channels: number): Pointer => {
      if (!given && !faces.length) return 0;
      return this.kernels.put(given ?? new Float32Array(channels * size));
    };
    const [vectors, side] = [buffer(bend?.vectors, 2), buffer(bend?.side, 1)];
    for (const face of faces) addFace(this.kernels, face, this.geometry, vectors, side);
    return [vectors, side];
  }

  bends(interval: Interval, closing: Sample | undefined): Bends {
    return new Bends(interval, closing, this.geometry);
  }

  /** Motion is found once for all frames between two pictures. */
  private open(decoded: Pair, shown: Pair): void {
    const { opened } = this;
    if (opened && isSame(opened.decoded, decoded) && isSame(opened.shown, shown)) return;
    const { width, height } = this.geometry;
    this.kernels.call.release(this.bottom);
    this.opened = { decoded, shown };
    const [a, b, c, d] = [...decoded, ...shown].map((picture) => this.kernels.put(picture));
    this.kernels.call.open(a!, b!, c!, d!, width, height, this.header.motion_estimator);
  }

  private dissolved([left, right]: Pair, time: number): Picture {
    return this.kernels.scoped(() => {
      const [a, b] = [this.kernels.put(left), this.kernels.put(right)];
      const target = this.kernels.call.take(left.length);
      this.kernels.call.dissolve(a, b, left.length / 4, time, target);
      return this.kernels.get(target, left.length);
    });
  }
}

function isSame(one: Pair, other: Pair): boolean {
  return one[0] === other[0] && one[1] === other[1];
}

function cropped(picture: Picture, fromWidth: number, width: number, height: number): Picture {
  const kept = new Uint8Array(4 * width * height);
  for (let y = 0; y < height; y++) {
    const row = picture.subarray(4 * y * fromWidth, 4 * (y * fromWidth + width));
    kept.set(row, 4 * y * width);
  }
  return kept;
}

/** The sample on the key picture that ends an interval, as the next interval sees it. */
export function closingSample(interval: Interval): Sample | undefined {
  const last = interval.samples.at(-1);
  return last?.offset === interval.ticks.length ? { ...last, offset: 0 } : undefined;
}

/** Whether a frame of an interval, numbered from 1, is the key picture itself. */
export function isKey(interval: Interval, number: number): boolean {
  return number === interval.ticks.length && interval.place !== Place.AFTER;
}
