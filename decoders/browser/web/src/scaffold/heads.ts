import { BitstreamError } from "../errors.js";
import { type Element, HEAD } from "./elements.js";
import type { ElementReader } from "./reader.js";

/** What is known of an AV1 frame before its head. */
export interface Expected {
  /** Frames of its unit after it; 0 for the one shown. */
  readonly depth: number;
  /** Whether it opens its AV1 sequence. */
  readonly opens: boolean;
  /** Its order hint; undefined where packets before it may be lost. */
  readonly hint: number | undefined;
  /** About its base_q_idx. */
  readonly quantizer: number;
}

const KINDS = 3;
const DEPTHS = 5;
const SLOTS = 8;
const REFERENCES = 7;
/** The reference by which another is predicted. */
const PARENTS = [undefined, 0, 0, 0, undefined, 4, 4];
const USUAL_FILTER = 24;
const STRENGTHS = [
  [HEAD.yPrimary, 4],
  [HEAD.ySecondary, 2],
  [HEAD.uvPrimary, 4],
  [HEAD.uvSecondary, 2],
] as const;

/** The flags of a head, by their numbers. */
// prettier-ignore
const FLAGS = [
  "show_existing_frame", "frame_type.1", "frame_type.0", "show_frame", "showable_frame",
  "error_resilient_mode", "disable_cdf_update", "allow_screen_content_tools", "force_integer_mv",
  "frame_size_override_flag", "order_hint.usual", "refresh.none", "refresh.one", "render_size",
  "allow_intrabc", "frame_refs_short_signaling", "allow_high_precision_mv",
  "is_filter_switchable", "is_motion_mode_switchable", "use_ref_frame_mvs",
  "disable_frame_end_update_cdf", "uniform_tile_spacing_flag", "increment_tile_cols_log2",
  "increment_tile_rows_log2", "delta_coded.y", "delta_coded.u", "delta_coded.v", "using_qmatrix",
  "segmentation_enabled", "delta_q_present", "delta_lf_present", "loop_filter_sharpness.2",
  "loop_filter_sharpness.1", "loop_filter_sharpness.0", "loop_filter_delta_enabled",
  "tx_mode_select", "reference_select", "skip_mode_present", "allow_warped_motion",
  "reduced_tx_set", "is_global.0", "is_global.1", "is_global.2", "is_global.3", "is_global.4",
  "is_global.5", "is_global.6", "padding", "ends_early",
] as const;
type Flag = (typeof FLAGS)[number];
const GLOBAL = FLAGS.filter((name) => name.startsWith("is_global."));

/** Reads the uncompressed headers of the frames of one AV1 sequence, in order (section 6, head). */
export class HeadReader {
  private bits: number[] = [];
  private depth = 0;
  private kind = 0;
  private hints: (number | undefined)[] = [];
  /** The last value of a field, by its name, kind and number. */
  private seen = new Map<string, number>();

  constructor(private readonly reader: ElementReader) {
    this.forget();
  }

  forget(): void {
    this.hints = Array.from({ length: SLOTS }, () => undefined);
    this.seen.clear();
  }

  read({ depth, opens, hint, quantizer }: Expected): Uint8Array {
    this.bits = [];
    this.depth = Math.min(depth, DEPTHS - 1);
    this.kind = opens ? 0 : depth > 0 ? 2 : 1;
    if (this.unstored("ends_early")) return new Uint8Array();
    const isWhole = this.header(hint, quantizer);
    while (this.bits.length % 8) {
      if (isWhole) this.flag("padding");
      else this.plain(1);
    }
    const head = new Uint8Array(this.bits.length / 8);
    this.bits.forEach((bit, n) => (head[n >> 3]! |= bit << (7 - (n & 7))));
    return head;
  }

  /** uncompressed_header of the AV1 specification; false where the rest of it is plain. */
  private header(usualHint: number | undefined, quantizer: number): boolean {
    this.flag("show_existing_frame");
    const isLow = !this.flag("frame_type.1");
    const isIntra = !this.flag("frame_type.0");
    const shows = this.flag("show_frame");
    const isKey = isLow && isIntra && shows;
    if (!shows) this.flag("showable_frame");
    const resilient = isKey || this.flag("error_resilient_mode");
    const keepsCdfs = this.flag("disable_cdf_update");
    const isScreen = this.flag("allow_screen_content_tools");
    const hasIntegers = isScreen && this.flag("force_integer_mv");
    this.flag("frame_size_override_flag");
    const usual = this.unstored("order_hint.usual");
    const hint = usual && usualHint !== undefined ? this.put(usualHint, 7) : this.plain(7);
    if (!isIntra && !resilient) this.seenTree(HEAD.primary, 3, 3);
    const refreshed = isKey ? 255 : this.refreshed();
    let references: number[] = [];
    let copies = false;
    if (isIntra) {
      this.flag("render_size");
      copies = isScreen && this.flag("allow_intrabc");
    } else references = this.inter(hint, hasIntegers, resilient);
    if (!keepsCdfs) this.flag("disable_frame_end_update_cdf");
    this.hints = this.hints.map((old, n) => ((refreshed >> n) & 1 ? hint : old));
    return this.coding(quantizer, copies) && this.modes(references, resilient);
  }

  /** refresh_frame_flags. */
  private refreshed(): number {
    if (this.unstored("refresh.none")) return this.put(0, SLOTS);
    if (!this.unstored("refresh.one")) return this.plain(SLOTS);
    const key = `slot ${this.depth}`;
    const context = this.depth * (SLOTS + 1) + (this.seen.get(key) ?? SLOTS);
    const slot = this.tree(HEAD.refresh, 3, context);
    this.seen.set(key, slot);
    return this.put(1 << slot, SLOTS);
  }

  /** What only inter frames have; returns their references. */
  private inter(hint: number, hasIntegers: boolean, resilient: boolean): number[] {
    this.flag("frame_refs_short_signaling");
    const references = this.references(hint);
    this.flag("render_size");
    if (!hasIntegers) this.flag("allow_high_precision_mv");
    if (!this.flag("is_filter_switchable")) this.plain(2);
    this.flag("is_motion_mode_switchable");
    if (!resilient) this.flag("use_ref_frame_mvs");
    return references;
  }

  /** ref_frame_idx: ranks of slots, the nearest first, of the past or of the future. */
  private references(hint: number): number[] {
    const held = new Set(this.hints.filter((one) => one !== undefined));
    const known = Math.min(held.size, DEPTHS - 1);
    const slots = Array.from({ length: SLOTS }, (_, n) => n);
    const nearest = (isFuture: boolean) => {
      const far = slots.map((slot) => this.distance(slot, hint, isFuture));
      return [...slots].sort((one, other) => far[one]! - far[other]!);
    };
    const past = nearest(false);
    const future = nearest(true);
    const ranks: number[] = [];
    return PARENTS.map((parent, n) => {
      const above = parent === undefined ? SLOTS : ranks[parent]!;
      const rank = this.tree(HEAD.reference, 3, (n * DEPTHS + known) * (SLOTS + 1) + above);
      ranks.push(rank);
      return this.put((n < 4 ? past : future)[rank]!, 3);
    });
  }

  private distance(slot: number, hint: number, isFuture: boolean): number {
    const held = this.hints[slot];
    if (held === undefined) return 256;
    const apart = ((held - hint + 192) % 128) - 64;
    return Math.abs(apart) + (apart >= 0 === isFuture ? 0 : 128);
  }

  /** Tiles, quantisers and filters. */
  private coding(quantizer: number, copies: boolean): boolean {
    this.flag("uniform_tile_spacing_flag");
    this.flag("increment_tile_cols_log2");
    this.flag("increment_tile_rows_log2");
    this.near(HEAD.quantizer, 8, quantizer, this.depth);
    for (const plane of ["y", "u", "v"] as const) {
      if (this.flag(`delta_coded.${plane}`)) this.plain(7);
    }
    if (this.flag("using_qmatrix")) this.plain(8);
    if (this.flag("segmentation_enabled")) return false;
    if (this.flag("delta_q_present")) {
      this.plain(2);
      if (!copies && this.flag("delta_lf_present")) this.plain(3);
    }
    return copies || this.filters();
  }

  private filters(): boolean {
    const first = this.near(HEAD.filter, 6, USUAL_FILTER, 0);
    if (first | this.near(HEAD.filter, 6, first, 1, false)) {
      const blue = this.near(HEAD.filter, 6, first, 2);
      this.near(HEAD.filter, 6, Math.floor((blue * 3) / 4), 3, false);
    }
    for (const n of [2, 1, 0] as const) this.flag(`loop_filter_sharpness.${n}`);
    if (this.flag("loop_filter_delta_enabled")) return false;
    this.seenTree(HEAD.damping, 2);
    const count = 1 << this.seenTree(HEAD.cdefBits, 2);
    for (let n = 0; n < count; n++) {
      for (const [element, width] of STRENGTHS) this.seenTree(element, width);
    }
    return true;
  }

  /** What comes last. */
  private modes(references: readonly number[], resilient: boolean): boolean {
    const isInter = references.length === REFERENCES;
    this.flag("tx_mode_select");
    if (isInter && this.flag("reference_select") && new Set(references).size > 1) {
      this.flag("skip_mode_present");
    }
    if (isInter && !resilient) this.flag("allow_warped_motion");
    this.flag("reduced_tx_set");
    return !(isInter && GLOBAL.some((name) => this.flag(name)));
  }

  private flag(name: Flag): boolean {
    return this.put(this.unstored(name) ? 1 : 0, 1) === 1;
  }

  /** A flag that need not be in the header, under the last of its name and kind. */
  private unstored(name: Flag): boolean {
    const key = `${name} ${this.kind}`;
    const number = KINDS * FLAGS.indexOf(name) + this.kind;
    const flag = this.reader.read(HEAD.flag, 3 * number + (this.seen.get(key) ?? 2));
    this.seen.set(key, flag);
    return flag === 1;
  }

  /** A field under the highest `known` bits of the last of its kind. */
  private seenTree(element: Element, width: number, known = 2): number {
    const key = `${element.name} ${this.kind}`;
    const unseen = 1 << known;
    const context = this.kind * (unseen + 1) + (this.seen.get(key) ?? unseen);
    const value = this.tree(element, width, context);
    this.seen.set(key, value >> (width - known));
    return this.put(value, width);
  }

  /** A value whose bits are each coded under those before it. */
  private tree(element: Element, width: number, context: number): number {
    let node = 1;
    for (let n = 0; n < width; n++) {
      node = 2 * node + this.reader.read(element, (context << width) + node);
    }
    return node - (1 << width);
  }

  /** A field as its difference from the last one of this kind, else from `usual`. */
  private near(
    element: Element,
    width: number,
    usual: number,
    number: number,
    ofLast = true,
  ): number {
    const key = `${element.name} ${this.kind} ${number}`;
    const last = ofLast ? this.seen.get(key) : undefined;
    const kind = this.kind + (last === undefined ? KINDS : 0);
    const value = (last ?? usual) + this.reader.read(element, kind * DEPTHS + number);
    if (value < 0 || value >> width) {
      throw new BitstreamError("a field of an AV1 frame is out of range: the stream is damaged");
    }
    this.seen.set(key, value);
    return this.put(value, width);
  }

  /** A field that is not modelled by its place. */
  private plain(width: number): number {
    let value = 0;
    for (let n = 0; n < width; n++) value = 2 * value + this.reader.read(HEAD.plain);
    return this.put(value, width);
  }

  private put(value: number, width: number): number {
    for (let place = width - 1; place >= 0; place--) this.bits.push((value >> place) & 1);
    return value;
  }
}
