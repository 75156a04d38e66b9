import { BitstreamError, LimitError } from "../errors.js";
import { E } from "./elements.js";
import type { ElementReader } from "./reader.js";

/** Where the frames of an interval lie relative to the key pictures that they show. */
export enum Place {
  BETWEEN = 0,
  BEFORE = 1,
  AFTER = 2,
}

/** The frames of one interval: their place, and the ticks from the frame before to each. */
export interface Span {
  readonly place: Place;
  readonly ticks: readonly number[];
}

/** Predicts the ticks from one frame to the next (section 6, frame clock). */
export class FrameClock {
  private readonly step: number;
  private readonly half: number;
  private low = 0;
  private guess = 0;
  private high = 0;

  /** Frames are `num` / `den` ticks apart. */
  constructor(num: number, den: number) {
    const common = divisor(num, den);
    this.step = (4 * num) / common;
    this.half = (2 * den) / common;
    this.reset();
  }

  predict(): number {
    return Math.max(1, Math.floor((this.step + this.guess + this.half) / (2 * this.half)));
  }

  learn(ticks: number): void {
    const late = this.step - ticks * 2 * this.half;
    this.low = Math.max(this.low + late, -this.half);
    this.high = Math.min(this.high + late, this.half);
    if (this.low >= this.high) this.reset();
    else this.guess = Math.min(Math.max(this.guess + late, this.low + 1), this.high - 1);
  }

  private reset(): void {
    [this.low, this.guess, this.high] = [-this.half, 0, this.half];
  }
}

function divisor(a: number, b: number): number {
  return b ? divisor(b, a % b) : a;
}

/** Reads the layouts of one group's packets, in order. */
export class LayoutReader {
  private usual = 1;

  constructor(
    private readonly reader: ElementReader,
    private readonly clock: FrameClock,
    private readonly holds: boolean,
  ) {}

  forget(): void {
    this.usual = 1;
  }

  read(frames: number, opensGroup: boolean): Span[] {
    const lengths: number[] = [];
    for (let left = frames; left > 0; left -= this.usual) {
      this.usual = left > 1 ? this.length(left) : 1;
      lengths.push(this.usual);
    }
    const places = this.places(lengths, opensGroup);
    const irregular = this.reader.flag(E.irregular);
    return lengths.map((length, n) => ({
      place: places[n]!,
      ticks: Array.from({ length }, () => this.tick(irregular)),
    }));
  }

  private length(left: number): number {
    if (this.usual <= left && this.reader.flag(E.same)) return this.usual;
    const length = 1 + this.reader.read(E.length);
    if (length > left) {
      throw new LimitError("an interval has more frames than its packet: the stream is damaged");
    }
    return length;
  }

  private places(lengths: readonly number[], opensGroup: boolean): Place[] {
    const places = lengths.map(() => Place.BETWEEN);
    if (opensGroup && this.holds && lengths[0]! > 1 && this.reader.flag(E.held)) {
      places[0] = Place.BEFORE;
    }
    const mayEndAfter = this.holds && !(opensGroup && lengths.length === 1);
    if (mayEndAfter && this.reader.flag(E.after)) places[places.length - 1] = Place.AFTER;
    return places;
  }

  private tick(irregular: boolean): number {
    const deviation = irregular ? this.reader.read(E.deviation) : 0;
    const tick = this.clock.predict() + deviation;
    if (tick < 1) throw new BitstreamError("frame times do not rise: the stream is damaged");
    this.clock.learn(tick);
    return tick;
  }
}
