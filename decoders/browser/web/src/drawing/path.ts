import { cameraNodes } from "../scaffold/layers/camera.js";
import { Place } from "../scaffold/layout.js";

type Numbers = readonly number[];

/**
 * Numbers at a time of an interval, linear between those at its `cameraNodes`; they are 0 at time 0
 * and, BETWEEN, at the end.
 */
export function pathAt(
  place: Place,
  length: number,
  stepLog2: number,
  nodes: readonly Numbers[],
  time: number,
): Numbers {
  const times = [0, ...cameraNodes(place, length, stepLog2)];
  if (place === Place.BETWEEN) times.push(length);
  const count = nodes[0]?.length ?? 0;
  const still = Array.from({ length: count }, () => 0);
  const values = times.map((_, n) => nodes[n - 1] ?? still);
  const found = times.findIndex((node) => node >= time);
  const next = Math.max(found < 0 ? times.length - 1 : found, 1);
  const start = values[next - 1]!;
  const part = Math.min((time - times[next - 1]!) / (times[next]! - times[next - 1]!), 1);
  return values[next]!.map((value, n) => start[n]! + part * (value - start[n]!));
}
