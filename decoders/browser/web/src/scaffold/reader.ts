import fitted from "../../../../../codec/bitstream/fitted.json";
import { LimitError } from "../errors.js";
import { LIMITS } from "../limits.js";
import type { Element } from "./elements.js";
import { RangeDecoder } from "./range.js";

const MAX_EXPONENT = 31;
const EVEN = 2048;
// Of a context's models: the flag or the sign, then exponents, then mantissas.
const EXPONENTS = 1;
const MANTISSAS = EXPONENTS + MAX_EXPONENT + 1;
const MODELS = MANTISSAS + MAX_EXPONENT + 1;
const ONE = 65535;
/** Bits that a fitted probability counts as. */
const FITTED_COUNT = 5;
/** Rows of an element: context, kind of bit, its number, probability of a 1 in 1/256. */
const FITTED = fitted as unknown as Record<string, [number, string, number, number][] | undefined>;
const OFFSETS: Record<string, number> = { exponent: EXPONENTS, mantissa: MANTISSAS };

/** Decodes syntax elements with adaptive models (section 5), which last for a group. */
export class ElementReader {
  private readonly models = new Map<Element, Int32Array>();
  private left = LIMITS.scaffoldBits;
  private range = new RangeDecoder(new Uint8Array());

  /** `isFitted`: whether probabilities begin as fitted, else at one half. */
  constructor(private readonly isFitted: boolean) {}

  /** Goes on with the scaffold of another packet. */
  start(data: Uint8Array): void {
    this.left = LIMITS.scaffoldBits;
    this.range = new RangeDecoder(data);
  }

  /** Begins the models of these elements anew. */
  forget(elements: readonly Element[]): void {
    for (const element of elements) this.models.delete(element);
  }

  /** The value of an element. Throws BitstreamError. */
  read(element: Element, context = 0): number {
    const models = this.modelsOf(element);
    const first = 2 * context * (element.kind === "flag" ? 1 : MODELS);
    if (element.kind === "flag") return this.modelled(models, first);
    const value = this.unsigned(element, models, first);
    if (value > element.maximum) throw beyond(element);
    return element.kind === "signed" && value && this.modelled(models, first) ? -value : value;
  }

  flag(element: Element, context = 0): boolean {
    return this.read(element, context) === 1;
  }

  private unsigned(element: Element, models: Int32Array, first: number): number {
    let exponent = 0;
    while (this.modelled(models, first + 2 * (EXPONENTS + exponent))) {
      if (++exponent > MAX_EXPONENT) throw beyond(element);
    }
    let result = 1;
    for (let place = exponent - 1; place >= 0; place--) {
      const bit =
        place === exponent - 1
          ? this.modelled(models, first + 2 * (MANTISSAS + exponent))
          : this.bit(EVEN);
      result = 2 * result + bit;
    }
    return result - 1;
  }

  private modelsOf(element: Element): Int32Array {
    let found = this.models.get(element);
    if (!found) {
      const each = element.kind === "flag" ? 1 : MODELS;
      const count = element.contexts * each;
      found = new Int32Array(2 * count);
      for (let n = 0; n < count; n++) found[2 * n] = (ONE + 1) / 2;
      for (const [context, kind, n, one] of (this.isFitted && FITTED[element.name]) || []) {
        found.set([one << 8, FITTED_COUNT], 2 * (context * each + (OFFSETS[kind] ?? 0) + n));
      }
      this.models.set(element, found);
    }
    return found;
  }

  /** A bit under the model at `at`: its probability of a 1 in 1/65536, and how often it was used. */
  private modelled(models: Int32Array, at: number): number {
    const one = models[at]!;
    const count = models[at + 1]!;
    const bit = this.bit(Math.min(Math.max(one >> 4, 24), 4072));
    const target = bit ? ONE : 0;
    models[at] = one + Math.floor(((target - one) * 2) / (2 * count + 3));
    models[at + 1] = Math.min(count + 1, 14);
    return bit;
  }

  private bit(p: number): number {
    if (--this.left < 0) {
      throw new LimitError(`a scaffold has more than ${LIMITS.scaffoldBits} coded bits`);
    }
    return this.range.bit(p);
  }
}

function beyond(element: Element): LimitError {
  return new LimitError(
    `${element.name} is beyond its limit of ${element.maximum}: the stream is damaged`,
  );
}
