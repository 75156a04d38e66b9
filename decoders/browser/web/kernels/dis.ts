// Motion from one picture to another, from coarse to fine: OpenCV's DIS, preset medium.

import { enlarge, shrinkWhole } from "./filters";
import { get, mark, release, set, takeFloats } from "./memory";
import { matchPatches } from "./patches";
import { refine } from "./refinement";

/** Smaller pictures are padded by repetition: the coarsest level must hold a patch. */
const LEAST: i32 = 64;
const PATCH: i32 = 8;
/** The finest level: motion is found at half the size of the pictures. */
const FINEST: i32 = 1;

/** Motion (x, y, pixels) from `a` to `b`, luma in whole numbers of 0-255, to `flow`. */
export function estimate(a: usize, b: usize, width: i32, height: i32, flow: usize): void {
  const start = mark();
  const w = max(width, LEAST), h = max(height, LEAST);
  const whole = takeFloats(2 * w * h);
  const motion = takeFloats(w * h);
  const first = padded(a, width, height, w, h), second = padded(b, width, height, w, h);
  const levels = deepest(w, h);
  descend(first, second, w, h, levels, motion);
  enlarge(motion, w >> FINEST, h >> FINEST, 2, whole, w, h);
  for (let y = 0; y < height; y++) {
    for (let n = 0; n < 2 * width; n++) {
      set(flow, 2 * y * width + n, get(whole, 2 * y * w + n) * <f32>(1 << FINEST));
    }
  }
  release(start);
}

/** The coarsest level: moves of a quarter of the longer side are within a patch. */
function deepest(width: i32, height: i32): i32 {
  const far = Math.floor(Math.log2(<f64>max(width, height) / (4 * PATCH)) + 0.5);
  return min(<i32>far, <i32>Math.floor(Math.log2(<f64>min(width, height) / PATCH)));
}

function padded(image: usize, width: i32, height: i32, w: i32, h: i32): usize {
  const larger = takeFloats(w * h);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      set(larger, y * w + x, get(image, min(y, height - 1) * width + min(x, width - 1)));
    }
  }
  return larger;
}

/** Motion at the finest level, to `motion`, whose two channels take half of w * h numbers. */
function descend(a: usize, b: usize, w: i32, h: i32, coarsest: i32, motion: usize): void {
  const fineW = w >> FINEST, fineH = h >> FINEST;
  const held = takeFloats(2 * fineW * fineH);
  memory.fill(motion, 0, (<usize>(2 * fineW * fineH)) << 2);
  for (let level = coarsest; level >= FINEST; level--) {
    const start = mark();
    const levelW = w >> level, levelH = h >> level;
    const first = reduced(a, w, h, level), second = reduced(b, w, h, level);
    if (level < coarsest) {
      enlarge(motion, w >> (level + 1), h >> (level + 1), 2, held, levelW, levelH);
      for (let n = 0; n < 2 * levelW * levelH; n++) set(motion, n, 2 * get(held, n));
    }
    matchPatches(first, second, levelW, levelH, motion);
    refine(first, second, levelW, levelH, motion);
    release(start);
  }
}

/** The picture at a level of the pyramid, each made from the one before in whole numbers. */
function reduced(image: usize, width: i32, height: i32, level: i32): usize {
  let from = image;
  let fromW = width, fromH = height;
  for (let n = FINEST; n <= level; n++) {
    const w = width >> n, h = height >> n;
    const to = takeFloats(w * h);
    shrinkWhole(from, fromW, fromH, to, w, h);
    from = to;
    fromW = w;
    fromH = h;
  }
  return from;
}
