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
  readonly opensGroup: boolean;
  readonly crf: number;
  /** Width and height of the group's coded pictures. */
  readonly codedSize: readonly [number, number];
  readonly intervals: readonly Interval[];
  /** Of the pictures that end the intervals, in order. */
  readonly units: readonly Unit[];
}

/** What reads the packets of one group. */
interface Group {
  readonly reader: ElementReader;
  readonly crf: number;
  readonly alone: boolean;
  readonly codedSize: readonly [number, number];
  readonly layout: LayoutReader;
  readonly units: UnitReader;
  readonly intervals: IntervalReader;
}

/** Reads picture packets (section 6), group after group. An error ends the group. */
export class GroupReader {
  private readonly geometry: Geometry;
  private group: Group | undefined;

  constructor(private readonly header: Header) {
    this.geometry = new Geometry(header.width, header.height);
  }

  /** Throws BitstreamError for a packet that is damaged or not the next one. */
  read(packet: Packet): ParsedPacket {
    const { group, plain, spans, opensGroup } = this.started(packet);
    const pictures = spans.filter((span) => span.place !== Place.AFTER).length;
    const units = group.units.read(pictures, plain, opensGroup);
    const intervals = spans.map((span) => group.intervals.read(span));
    this.group = group;
    return { opensGroup, crf: group.crf, codedSize: group.codedSize, intervals, units };
  }

  /** Where the packet's frames lie: a faster substitute for `read` of a whole stream. */
  readLayout(packet: Packet): readonly Span[] {
    const { group, spans } = this.started(packet);
    this.group = group;
    return spans;
  }

  private started(packet: Packet) {
    const open = this.group;
    this.group = undefined;
    const most = longestInterval(this.header.width, this.header.height);
    if (!(packet.frames >= 1 && packet.frames <= most)) {
      throw new LimitError(`a packet of ${packet.frames} frames: 1 to ${most} can be of this size`);
    }
    const cutter = new Cutter(packet.payload);
    const scaffold = cutter.take(cutter.varint());
    const opensGroup = packet.type === PacketType.INTRA;
    const group = opensGroup ? this.opened(scaffold) : open;
    if (!group) throw new BitstreamError("a picture lacks the intra picture it builds on");
    if (!opensGroup) group.reader.start(scaffold);
    if (group.alone) {
      group.reader.forget(FIRST_ELEMENTS);
      group.layout.forget();
      group.units.forget();
    }
    const spans = group.layout.read(packet.frames, opensGroup);
    return { group, plain: cutter.rest(), spans, opensGroup };
  }

  private opened(scaffold: Uint8Array): Group {
    const reader = new ElementReader();
    reader.start(scaffold);
    const crf = reader.read(E.crf);
    // Beyond 8, the group has faces.
    const coded = reader.read(E.eighths);
    const hasFaces = coded > 8;
    const eighths = hasFaces ? coded - 8 : coded;
    if (!crf || !eighths) {
      throw new BitstreamError("a group's picture size or quantiser is zero");
    }
    const alone = reader.flag(E.alone);
    const { frame_ticks_num, frame_ticks_den, holds } = this.header;
    const codedSize = this.geometry.codedSize(eighths);
    return {
      reader,
      crf,
      alone,
      codedSize,
      layout: new LayoutReader(reader, new FrameClock(frame_ticks_num, frame_ticks_den), !!holds),
      units: new UnitReader(reader, usualSequence(codedSize)),
      intervals: new IntervalReader(reader, this.header, this.geometry, hasFaces),
    };
  }
}
