import { BitstreamError } from "../errors.js";
import { concat } from "../stream/bytes.js";
import { E } from "./elements.js";
import { HeadReader } from "./heads.js";
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
  /** Pictures of the sequence, where none can be lost. */
  private shown: number | undefined;
  private readonly fields: HeadReader;
  private heads = [new Uint8Array(HEAD_BITS), new Uint8Array(HEAD_BITS)];
  private plain: Uint8Array = new Uint8Array();

  /** `quantizer`: about the base_q_idx of frames; undefined unless `fitted`. */
  constructor(
    private readonly reader: ElementReader,
    private readonly usual: Uint8Array,
    private readonly quantizer: number | undefined,
  ) {
    this.fields = new HeadReader(reader);
  }

  forget(): void {
    this.repeats = 0;
    this.shown = undefined;
    this.fields.forget();
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
    if (isFirst) this.shown = 0;
    this.repeats = this.reader.read(E.repeats, this.repeats);
    const slot = this.repeats ? this.reader.read(E.slot) : undefined;
    const hidden = this.reader.read(E.hidden, this.repeats);
    const frames: Uint8Array[] = [];
    for (let layer = hidden; layer >= this.repeats; layer--) {
      frames.push(this.frame(layer, isFirst && layer === hidden, isLast && layer === 0));
    }
    if (this.shown !== undefined) this.shown++;
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

  /** `layer`: frames of the unit after it; `isLast`: nothing of the packet follows it. */
  private frame(layer: number, opens: boolean, isLast: boolean): Uint8Array {
    const quantizer = this.quantizer;
    if (quantizer === undefined) return this.frameByBytes(layer, isLast);
    const shown = this.shown;
    const hint = shown === undefined ? undefined : (shown + (1 << layer) - 1) % 128;
    const head = this.fields.read({ depth: layer, opens, hint, quantizer });
    return this.joined(head, isLast ? this.plain.length : this.size(layer));
  }

  /** A frame of a stream without fitted probabilities. */
  private frameByBytes(layer: number, isLast: boolean): Uint8Array {
    const reachesEnd = isLast && this.plain.length > 0;
    const size = reachesEnd ? HEAD_BYTES + this.plain.length : this.size(layer);
    const head = this.head(Math.min(size, HEAD_BYTES), layer === 0 ? 1 : 0);
    return this.joined(head, size - head.length);
  }

  private size(layer: number): number {
    return this.reader.read(E.size, Math.min(layer, 5));
  }

  /** A head, and the next `rest` plain bytes. */
  private joined(head: Uint8Array, rest: number): Uint8Array {
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
