/** What a stream may ask of its decoder: section 11 of the stream format. */
export const LIMITS = {
  pixels: 8192 * 4352,
  side: 1 << 14,
  frames: 1 << 24,
  interval: 2048,
  intervalPixels: 2 ** 33,
  packetBytes: 1 << 24,
  scaffoldBits: 1 << 20,
  heldBytes: 1 << 30,
};

export const MAX_UNIT_FRAMES = 9;
export const MAX_SAMPLES = 15;
export const MAX_PEOPLE = 16;

/** Frames of this size that one packet may complete. */
export function longestInterval(width: number, height: number): number {
  return Math.min(LIMITS.interval, Math.floor(LIMITS.intervalPixels / (width * height)));
}
