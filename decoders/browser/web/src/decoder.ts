import type { Bends } from "./drawing/bend.js";
import type { Kernels } from "./drawing/kernels.js";
import { closingSample, isKey, type Picture, Renderer } from "./drawing/renderer.js";
import type { Restorer } from "./restorer.js";
import { Geometry } from "./scaffold/geometry.js";
import type { Interval, Sample } from "./scaffold/intervals.js";
import { brightened } from "./scaffold/layers/brightness.js";
import { Place } from "./scaffold/layout.js";
import { temporalUnit } from "./stream/av1.js";
import { GroupReader, type ParsedPacket } from "./stream/group.js";
import type { Header } from "./stream/header.js";
import type { Packet } from "./stream/packets.js";
import type { Unit } from "./scaffold/units.js";

/** Decodes AV1: each temporal unit gives one picture. */
export interface PictureDecoder {
  /** The picture of the next unit, in RGBA of its coded size. `sequence`: where one begins in `slot`;
   * `companded`: its chroma is to be expanded. */
  decode(
    unit: Uint8Array<ArrayBuffer>,
    size: readonly [number, number],
    sequence: Uint8Array | undefined,
    slot: number,
    renderer: Renderer,
    companded: boolean,
  ): Promise<Picture>;
}

/** A frame of the stream, to be drawn before the next one is asked for. */
export interface Frame {
  /** When it is shown, in ticks of the stream's time base; the first frame of a stream is at 0. */
  readonly pts: number;
  draw(): Promise<Picture>;
}

/** A key picture, restored when it is first shown. */
class KeyPicture {
  private restored: Promise<Picture> | undefined;

  constructor(
    readonly decoded: Picture,
    private readonly restore: () => Promise<Picture>,
  ) {}

  shown(): Promise<Picture> {
    return (this.restored ??= this.restore());
  }
}

/** Coded pictures, in turn, have these temporal layers: mini-groups have 8. */
const LAYERS = [0, 3, 2, 3, 1, 3, 2, 3];

/** Decodes packets to frames: those of a stream in order, from any INTRA packet on. */
export class Decoder {
  /** Restores the key pictures that are shown from now on. */
  restorer: Pick<Restorer, "id" | "restored"> | undefined;
  private readonly renderer: Renderer;
  private readonly geometry: Geometry;
  private groups: GroupReader;
  private clock = 0;
  private key: KeyPicture | undefined;
  /** Pictures so far of the sequence in each slot. */
  private readonly counts = new Map<number, number>();
  private closing: Sample | undefined;

  constructor(
    readonly header: Header,
    kernels: Kernels,
    private readonly pictures: PictureDecoder,
  ) {
    this.geometry = new Geometry(header.width, header.height);
    this.renderer = new Renderer(kernels, header, this.geometry);
    this.groups = new GroupReader(header);
    this.reset(startTime(header));
  }

  /** Forgets everything: the next packet must be INTRA. `time`: of the frame before it. */
  reset(time: number): void {
    this.groups = new GroupReader(this.header);
    this.clock = time;
    this.key = undefined;
    this.closing = undefined;
  }

  /** The frames of a packet; without the key picture before, those from the first one that needs none.
   *
   * Throws BitstreamError for one that is damaged. */
  async *frames(packet: Packet): AsyncGenerator<Frame, void, void> {
    const parsed = this.groups.read(packet);
    const units = parsed.units.values();
    let opens = parsed.opensShot;
    for (const interval of parsed.intervals) {
      const left = this.key;
      let key = left;
      if (interval.place !== Place.AFTER) {
        key = await this.keyPicture(units.next().value!, parsed, interval);
      }
      const begins = opens && (interval.place === Place.BEFORE || interval.ticks.length === 1);
      const bends = this.renderer.bends(interval, this.closing);
      this.key = key;
      this.closing = closingSample(interval);
      opens = false;
      yield* this.drawn(interval, begins ? undefined : left, key!, bends);
    }
  }

  private async keyPicture(
    unit: Unit,
    parsed: ParsedPacket,
    interval: Interval,
  ): Promise<KeyPicture> {
    const { codedSize, slot, companded } = parsed;
    const count = unit.sequence ? 0 : (this.counts.get(slot) ?? 0);
    this.counts.set(slot, count + 1);
    const data = temporalUnit(unit, codedSize);
    const given = [codedSize, unit.sequence, slot, this.renderer, companded] as const;
    const picture = await this.pictures.decode(data, ...given);
    const decoded = this.renderer.keyPicture(picture, codedSize, interval.texture);
    const { crf, eighths } = parsed;
    const told = { ...interval, crf, eighths, layer: LAYERS[count % LAYERS.length]! };
    return new KeyPicture(decoded, async () => {
      const { restorer, header, geometry } = this;
      // What was chosen for other weights is no guide.
      const guide = restorer?.id === header.model_id ? interval.guide : 0;
      return restorer ? restorer.restored(decoded, geometry, { ...told, guide }) : decoded;
    });
  }

  private *drawn(
    interval: Interval,
    left: KeyPicture | undefined,
    key: KeyPicture,
    bends: Bends,
  ): Generator<Frame, void, void> {
    const length = interval.ticks.length;
    for (let number = 1; number <= length; number++) {
      this.clock += interval.ticks[number - 1]!;
      const isBetween = interval.place === Place.BETWEEN;
      if (isBetween && !left && number < length) continue;
      const steady = async (): Promise<Picture> => {
        if (isKey(interval, number)) return key.shown();
        if (isBetween) {
          const decoded = [left!.decoded, key.decoded] as const;
          const shown = [await left!.shown(), await key.shown()] as const;
          return this.renderer.between(decoded, shown, interval, bends, number);
        }
        const time = interval.place === Place.AFTER ? number : length - number;
        return this.renderer.held(await key.shown(), interval, time);
      };
      const steps = interval.brightness?.[number - 1] ?? 0;
      const draw = async (): Promise<Picture> => brightened(await steady(), steps);
      yield { pts: this.clock, draw };
    }
  }
}

/** The time before a stream's first frame, in ticks. */
export function startTime(header: Header): number {
  return -Math.floor(header.frame_ticks_num / header.frame_ticks_den + 0.5);
}
