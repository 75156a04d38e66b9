import type { Yuv } from "./drawing/renderer.js";

/** Weights of red and blue in luma: BT.601 and BT.709. */
const SMALL = [0.299, 0.114] as const;
const LARGE = [0.2126, 0.0722] as const;
/** Lines from which a browser takes pictures of no stated matrix for BT.709. */
const LINES = 720;

/** The planes that a browser made RGBA of, to make it again as the stream says.
 *
 * Firefox gives RGB alone, where each chroma sample is spread over 2x2 pixels. What it clipped to
 * 0-255 is lost. */
export function yuvFromRgb(rgba: Uint8Array, width: number, height: number): Yuv {
  const [red, blue] = height < LINES ? SMALL : LARGE;
  const size = width * height;
  const data = new Uint8ClampedArray((size * 3) / 2);
  const columns = width / 2;
  for (let y = 0; y < height; y += 2) {
    for (let x = 0; x < width; x += 2) {
      let [cb, cr] = [0, 0];
      for (const at of [y * width + x, y * width + x + 1, (y + 1) * width + x, (y + 1) * width + x + 1]) {
        const [r, g, b] = [rgba[4 * at]!, rgba[4 * at + 1]!, rgba[4 * at + 2]!];
        const luma = red * r + (1 - red - blue) * g + blue * b;
        data[at] = 16 + (219 / 255) * luma;
        cb += (b - luma) / (2 - 2 * blue);
        cr += (r - luma) / (2 - 2 * red);
      }
      const to = size + (y / 2) * columns + x / 2;
      data[to] = 128 + ((224 / 255) * cb) / 4;
      data[to + size / 4] = 128 + ((224 / 255) * cr) / 4;
    }
  }
  return { width, height, data: new Uint8Array(data.buffer) };
}

/** Undoes the companding of chroma (section 6). */
export function expandChroma({ width, height, data }: Yuv): void {
  for (let at = width * height; at < data.length; at++) {
    const chroma = data[at]! - 128;
    const strength = Math.min(127, Math.abs(chroma));
    const divisor = 381 - 2 * strength;
    const expanded = Math.floor((254 * strength + divisor) / (2 * divisor));
    data[at] = 128 + Math.sign(chroma) * expanded;
  }
}
