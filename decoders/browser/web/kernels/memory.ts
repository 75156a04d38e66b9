// Buffers for pixels, one after another: each is given back with all that were taken after it.

let top: usize = (__heap_base + 15) & ~15;

/** Where the next buffer will begin; `release` takes it. */
export function mark(): usize {
  return top;
}

/** Gives back all buffers from `at` on. */
export function release(at: usize): void {
  top = at;
}

/** A buffer of `bytes` bytes, aligned to 16; what is in it is not defined. Traps without memory. */
export function take(bytes: usize): usize {
  const at = top;
  top = (at + bytes + 31) & ~15;
  const pages = <i32>((top + 0xffff) >> 16) - memory.size();
  if (pages > 0 && memory.grow(pages) < 0) unreachable();
  return at;
}

/** A buffer of `count` numbers. */
// @ts-ignore: decorator
@inline
export function takeFloats(count: i32): usize {
  return take((<usize>count) << 2);
}

// @ts-ignore: decorator
@inline
export function get(at: usize, index: i32): f32 {
  return load<f32>(at + ((<usize>index) << 2));
}

// @ts-ignore: decorator
@inline
export function set(at: usize, index: i32, value: f32): void {
  store<f32>(at + ((<usize>index) << 2), value);
}

// @ts-ignore: decorator
@inline
export function clampIndex(index: i32, size: i32): i32 {
  return min(max(index, 0), size - 1);
}

// @ts-ignore: decorator
@inline
export function clampFloat(value: f32, low: f32, high: f32): f32 {
  return min<f32>(max<f32>(value, low), high);
}

/** Index of a pixel beyond the border, mirrored at the pixel on it. */
export function reflected(index: i32, size: i32): i32 {
  if (size == 1) return 0;
  const period = 2 * (size - 1);
  const at = ((index % period) + period) % period;
  return at < size ? at : period - at;
}
