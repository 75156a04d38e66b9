import { BitstreamError, LimitError } from "../../errors.js";
import { E } from "../elements.js";
import type { ElementReader } from "../reader.js";

const POINTS = 17;
const MAX_POINT = 1 << 13;

/** One person in one frame. */
export interface Person {
  readonly identity: number;
  /** x and y of 17 key points, in pose units; 0 where one is not visible. */
  readonly points: Int16Array;
  readonly visible: Uint8Array;
  /** Whether frames are drawn with the motion of the person's limbs. */
  readonly movesPicture: boolean;
}

export type People = readonly Person[];

export function readPeople(reader: ElementReader, before: People | undefined): People {
  const people: Person[] = [];
  for (const old of before ?? []) {
    if (reader.flag(E.stays)) people.push(readPerson(reader, old.identity, old));
  }
  while (reader.flag(E.morePeople)) {
    const identity = reader.read(E.identity);
    if (people.some((other) => other.identity === identity)) {
      throw new BitstreamError("two people have the same identity: the stream is damaged");
    }
    people.push(readPerson(reader, identity, undefined));
  }
  return people;
}

function readPerson(reader: ElementReader, identity: number, old: Person | undefined): Person {
  const movesPicture = reader.flag(E.movesPicture);
  const shift = old ? [reader.read(E.shift, 0), reader.read(E.shift, 1)] : [0, 0];
  const points = new Int16Array(2 * POINTS);
  const visible = new Uint8Array(POINTS);
  let last: readonly number[] | undefined;
  for (let point = 0; point < POINTS; point++) {
    const wasVisible = old?.visible[point] === 1;
    if (!reader.flag(E.visible, old ? Number(wasVisible) : 2)) continue;
    const element = last || wasVisible ? E.point : E.origin;
    const base: readonly number[] = wasVisible
      ? [0, 1].map((axis) => old!.points[2 * point + axis]! + shift[axis]!)
      : (last ?? [0, 0]);
    last = [0, 1].map((axis) => base[axis]! + reader.read(element, axis));
    if (last.some((value) => Math.abs(value) > MAX_POINT)) {
      throw new LimitError(`a key point lies beyond ${MAX_POINT} units`);
    }
    points.set(last, 2 * point);
    visible[point] = 1;
  }
  return { identity, points, visible, movesPicture };
}
