import { BitstreamError, LimitError } from "../errors.js";
import { longestInterval } from "../limits.js";
import { E, FIRST_ELEMENTS } from "../scaffold/elements.js";
import { Geometry } from "../scaffold/geometry.js";
import { type Interval, IntervalReader } from "../scaffold/intervals.js";
import { FrameClock, LayoutReader, Place, type Span } from "../scaffold/layout.js";
import { ElementReader } from "../scaffold/reader.js";
import { type Unit, UnitReader } from "../scaffold/units.js";
import { usualSequence } from "./av1.js";
import { Cutter } from "./bytes.js";
import type { Header } from "./header.js";
import { type Packet, PacketType } from "./packets.js";

/** A picture packet after parsing. */
export interface ParsedPacket {
  readonly opensShot: boolean;
  /** Of the AV1 sequence that its pictures belong to. */
  readonly slot: number;
  readonly crf: number;
  /** The side of the group's coded pictures, in eighths of the display's. */
  readonly eighths: number;
  /** Their width and height. */
  readonly codedSize: readonly [number, number];
  /** Whether their chroma is to be expanded. */
  readonly companded: boolean;
  readonly intervals: readonly Interval[];
  /** Of the pictures that end the intervals, in order. */
  readonly units: readonly Unit[];
}

/** AV1 sequences of a group, side by side. */
const SLOTS = 4;

/** What reads the packets of one slot. */
interface Sequence {
  packets: number;
  readonly reader: ElementReader;
  readonly crf: number;
  readonly eighths: number;
  readonly alone: boolean;
  readonly codedSize: readonly [number, number];
  readonly companded: boolean;
  layout: LayoutReader;
  readonly units: UnitReader;
  readonly intervals: IntervalReader;
}

const LACKS = "a picture lacks the intra picture it builds on";

/** Reads picture packets (section 6), group after group. An error ends the slot. */
export class GroupReader {
  private readonly geometry: Geometry;
  private slots = new Map<number, Sequence>();
  private slot: number | undefined;

  constructor(private readonly header: Header) {
    this.geometry = new Geometry(header.width, header.height);
  }

  /** Throws BitstreamError for a packet that is damaged or not the next one. */
  read(packet: Packet): ParsedPacket {
    const { slot, sequence, plain, spans } = this.started(packet);
    const pictures = spans.filter((span) => span.place !== Place.AFTER).length;
    const units = sequence.units.read(pictures, plain, !sequence.packets);
    const intervals = spans.map((span) => sequence.intervals.read(span));
    this.goOn(slot, sequence);
    const opensShot = packet.type !== PacketType.INTER;
    const { crf, eighths, codedSize, companded } = sequence;
    return { opensShot, slot, crf, eighths, codedSize, companded, intervals, units };
  }

  /** Where the packet's frames lie: a faster substitute for `read` of a whole stream. */
  readLayout(packet: Packet): readonly Span[] {
    const { slot, sequence, spans } = this.started(packet);
    this.goOn(slot, sequence);
    return spans;
  }

  private started(packet: Packet) {
    let slot = this.slot;
    this.slot = undefined;
    const most = longestInterval(this.header.width, this.header.height);
    if (!(packet.frames >= 1 && packet.frames <= most)) {
      throw new LimitError(`a packet of ${packet.frames} frames: 1 to ${most} can be of this size`);
    }
    const cutter = new Cutter(packet.payload);
    const opensShot = packet.type !== PacketType.INTER;
    if (packet.type === PacketType.INTRA) {
      this.slots.clear();
      slot = 0;
    } else if (opensShot) slot = this.slotOf(cutter);
    if (slot === undefined) throw new BitstreamError(LACKS);
    const scaffold = cutter.take(cutter.varint());
    const open = this.slots.get(slot);
    this.slots.delete(slot);
    const sequence = open ?? this.opened(scaffold);
    if (open) open.reader.start(scaffold);
    if (opensShot) sequence.layout = this.layoutOf(sequence.reader);
    if (sequence.alone) {
      sequence.reader.forget(FIRST_ELEMENTS);
      sequence.layout.forget();
      sequence.units.forget();
    }
    const spans = sequence.layout.read(packet.frames, opensShot);
    const { place, ticks } = spans[0]!;
    if (packet.type === PacketType.SHOT && place === Place.BETWEEN && ticks.length > 1) {
      throw new BitstreamError("a shot begins before its first picture");
    }
    return { slot, sequence, plain: cutter.rest(), spans };
  }

  /** The slot that a SHOT packet names: empty where a sequence begins there. */
  private slotOf(cutter: Cutter): number {
    const byte = cutter.take(1)[0]!;
    if (!this.header.returns) throw new BitstreamError("a shot comes back where none may");
    const slot = byte % SLOTS;
    const turn = byte >> 2;
    const packets = this.slots.get(slot)?.packets ?? 0;
    if (!turn) this.slots.delete(slot);
    else if (!packets || turn !== 1 + ((packets - 1) % 63)) throw new BitstreamError(LACKS);
    return slot;
  }

  private goOn(slot: number, sequence: Sequence): void {
    sequence.packets++;
    this.slots.set(slot, sequence);
    this.slot = slot;
  }

  private layoutOf(reader: ElementReader): LayoutReader {
    const { frame_ticks_num, frame_ticks_den, holds } = this.header;
    return new LayoutReader(reader, new FrameClock(frame_ticks_num, frame_ticks_den), !!holds);
  }

  private opened(scaffold: Uint8Array): Sequence {
    const reader = new ElementReader(!!this.header.fitted);
    reader.start(scaffold);
    const crf = reader.read(E.crf);
    const coded = reader.read(E.eighths);
    if (!crf || !coded) {
      throw new BitstreamError("a group's picture size or quantiser is zero");
    }
    // Beyond 8 it says what the group has.
    const layers = (coded - 1) >> 3;
    const eighths = coded - 8 * layers;
    const alone = reader.flag(E.alone);
    const codedSize = this.geometry.codedSize(eighths);
    // About the base_q_idx of pictures that none other needs.
    const quantizer = this.header.fitted ? Math.min(255, 4 * crf) : undefined;
    return {
      packets: 0,
      reader,
      crf,
      eighths,
      alone,
      codedSize,
      companded: !!(layers & 4),
      layout: this.layoutOf(reader),
      units: new UnitReader(reader, usualSequence(codedSize), quantizer),
      intervals: new IntervalReader(
        reader,
        this.header,
        this.geometry,
        !!(layers & 1),
        !!(layers & 2),
      ),
    };
  }
}
