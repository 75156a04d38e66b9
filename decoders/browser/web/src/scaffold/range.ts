import { BitstreamError } from "../errors.js";

const WORD = 2 ** 32;

/** Decodes bits from bytes: the range decoder of section 5. Its 64-bit numbers are pairs of words.
 *
 * Kept are the range and how far the point lies above the low end of it, so that nothing wraps.
 */
export class RangeDecoder {
  private rangeHigh = WORD - 1;
  private rangeLow = WORD - 1;
  private pointHigh: number;
  private pointLow: number;
  private at = 0;

  constructor(private readonly data: Uint8Array) {
    this.pointHigh = this.word();
    this.pointLow = this.word();
  }

  /** The next bit; `p`: probability of a 1, in 1/4096. */
  bit(p: number): number {
    const split = Math.floor(((4096 - p) * (2 ** 24 - 2)) / 4096) + 1;
    const scale = this.rangeHigh * 256 + Math.floor(this.rangeLow / 2 ** 24);
    // scale * split, in two words: no product here takes more than 53 bits.
    const low = (scale % 2 ** 20) * split;
    const high = Math.floor(scale / 2 ** 20) * split;
    const sum = (high % 4096) * 2 ** 20 + low;
    const splitHigh = Math.floor(high / 4096) + Math.floor(sum / WORD);
    const splitLow = sum % WORD;
    const isOne =
      this.pointHigh > splitHigh || (this.pointHigh === splitHigh && this.pointLow >= splitLow);
    if (isOne) this.upper(scale, splitHigh, splitLow);
    else [this.rangeHigh, this.rangeLow] = [splitHigh, splitLow];
    if (this.rangeHigh === 0) this.shift();
    return isOne ? 1 : 0;
  }

  private upper(scale: number, splitHigh: number, splitLow: number): void {
    let high = Math.floor(scale / 256);
    let low = (scale % 256) * 2 ** 24;
    if (this.pointHigh > high || (this.pointHigh === high && this.pointLow >= low)) {
      throw new BitstreamError("the scaffold does not decode: the stream is damaged");
    }
    low -= splitLow;
    high -= splitHigh;
    if (low < 0) [high, low] = [high - 1, low + WORD];
    [this.rangeHigh, this.rangeLow] = [high, low];
    this.pointLow -= splitLow;
    this.pointHigh -= splitHigh;
    if (this.pointLow < 0) [this.pointHigh, this.pointLow] = [this.pointHigh - 1, this.pointLow + WORD];
  }

  private shift(): void {
    [this.rangeHigh, this.rangeLow] = [this.rangeLow, 0];
    [this.pointHigh, this.pointLow] = [this.pointLow, this.word()];
  }

  /** Four bytes, the highest first; zeros beyond the end. */
  private word(): number {
    let value = 0;
    for (let n = 0; n < 4; n++) value = value * 256 + (this.data[this.at++] ?? 0);
    return value;
  }
}
