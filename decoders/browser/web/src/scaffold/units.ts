import { BitstreamError } from "../errors.js";
import { concat } from "../stream/bytes.js";
import { E } from "./elements.js";
import type { ElementReader } from "./reader.js";

const HEAD_BYTES = 14;
const HEAD_BITS = 8 * HEAD_BYTES;

/** An AV1 temporal unit that shows one picture. */
export interface Unit {
  /** Payloads of its frame OBUs; unless `slot` says which is shown, the last is. */
  readonly frames: readonly Uint8Array[];
  readonly slot: number | undefined;
  /** Payload of the sequence header OBU; only the first unit of a group has one. */
  readonly sequence: Uint8Array | undefined;
}

/** Reads the pictures of one group, packet by packet (section 6, unit). */
export class UnitReader {
  private repeats = 0;
  private heads = [new Uint8Array(HEAD_BITS), new Uint8Array(HEAD_BITS)];
  private plain: Uint8Array = new Uint8Array();

  constructor(
    private readonly reader: ElementReader,
    private readonly usual: Uint8Array,
  ) {}

  forget(): void {
    this.repeats = 0;
    this.heads = [new Uint8Array(HEAD_BITS), new Uint8Array(HEAD_BITS)];
  }

  /** The `count` pictures of a packet; `plain`: its bytes after the scaffold. */
  read(count: number, plain: Uint8Array, opensGroup: boolean): Unit[] {
    this.plain = plain;
    const units = Array.from({ length: count }, (_, n) =>
      this.unit(opensGroup && n === 0, n === count - 1),
    );
    if (this.plain.length) {
      throw new BitstreamError("a packet is longer than its pictures: the stream is damaged");
    }
    return units;
  }

  private unit(isFirst: boolean, isLast: boolean): Unit {
    const sequence = isFirst ? this.sequence() : undefined;
    this.repeats = this.reader.read(E.repeats, this.repeats);
    const slot = this.repeats ? this.reader.read(E.slot) : undefined;
    const hidden = this.reader.read(E.hidden, this.repeats);
    const frames: Uint8Array[] = [];
    for (let layer = hidden; layer >= this.repeats; layer--) frames.push(this.frame(layer, isLast));
    return { frames, slot, sequence };
  }

  private sequence(): Uint8Array {
    const size = (this.usual.length + this.reader.read(E.sequence)) % 256;
    const bytes = new Uint8Array(size);
    for (let n = 0; n < 8 * size; n++) {
      const expected = ((this.usual[n >> 3] ?? 0) >> (7 - (n & 7))) & 1;
      bytes[n >> 3]! |= (this.reader.read(E.unusual) ^ expected) << (7 - (n & 7));
    }
    return bytes;
  }

  /** `layer`: frames of the unit after it. */
  private frame(layer: number, isLast: boolean): Uint8Array {
    const reachesEnd = isLast && layer === 0 && this.plain.length > 0;
    const size = reachesEnd
      ? HEAD_BYTES + this.plain.length
      : this.reader.read(E.size, Math.min(layer, 5));
    const head = this.head(Math.min(size, HEAD_BYTES), layer === 0 ? 1 : 0);
    const rest = Math.max(0, size - HEAD_BYTES);
    if (rest > this.plain.length) {
      throw new BitstreamError("a packet is shorter than its pictures: the stream is damaged");
    }
    const frame = concat([head, this.plain.subarray(0, rest)]);
    this.plain = this.plain.subarray(rest);
    return frame;
  }

  private head(size: number, isShown: number): Uint8Array {
    const head = new Uint8Array(size);
    const past = this.heads[isShown]!;
    let bit = 0;
    for (let place = 0; place < 8 * size; place++) {
      bit = this.reader.read(E.head, 4 * (HEAD_BITS * isShown + place) + 2 * past[place]! + bit);
      past[place] = bit;
      head[place >> 3]! |= bit << (7 - (place & 7));
    }
    return head;
  }
}
