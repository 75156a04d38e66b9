import {
  BitstreamError,
  BrowserPictures,
  Decoder,
  type Frame,
  type Header,
  isPicture,
  Kernels,
  Library,
  type Packet,
  PacketReader,
  PacketType,
  Restorer,
} from "./gsvc.js";
import type { News, Order, Restore } from "./messages.js";

/** Frames drawn ahead of the one that is shown. */
const AHEAD = 8;
/** Seconds of video without a picture, at most, where drawing is slower than playing. */
const LONGEST_GAP = 0.25;
/** Seconds of video by which it is judged whether drawing keeps up. */
const TRIAL = 2;
/** Groups that may wait in a live stream before the older ones are left out. */
const MOST_WAITING = 2;
/** Seconds before a lost sender is called again: twice as many each time. */
const SHORTEST_PAUSE = 1;
const LONGEST_PAUSE = 30;

const tell = (news: News, ...moved: Transferable[]): void => self.postMessage(news, { transfer: moved });

/** Something to wait for: what happened is seen by whoever waits at that time. */
class Signal {
  private wake: (() => void) | undefined;
  private promise = this.fresh();

  ring(): void {
    this.wake?.();
    this.promise = this.fresh();
  }

  wait(): Promise<void> {
    return this.promise;
  }

  private fresh(): Promise<void> {
    return new Promise((wake) => (this.wake = wake));
  }
}

/** Restores the pictures of one decoder after another, while that is wanted and quick enough. */
class Restoring {
  how: Restore = "off";
  private hasBegun = false;
  private loading: Promise<Restorer> | undefined;
  private restorer: Decoder["restorer"];
  private decoder: Decoder | undefined;
  private start: number | undefined;
  private spent = 0;

  async turn(how: Restore): Promise<void> {
    this.how = how;
    this.hasBegun = true;
    this.set(undefined);
    if (how === "off") return;
    try {
      this.loading ??= kernels.then((code) => Restorer.load(code));
      const restorer = await this.loading;
      if (this.how === how) this.set(this.guarded(restorer));
    } catch (error) {
      this.loading = undefined;
      this.set(undefined, `the restorer does not load (${(error as Error).message})`);
    }
  }

  /** Where it fails, pictures stay as they are: a GPU may go, or memory. */
  private guarded(restorer: Restorer): Decoder["restorer"] {
    const restored: Restorer["restored"] = (picture, ...told) =>
      restorer.restored(picture, ...told).catch((error: Error) => {
        this.set(undefined, `the restorer failed (${error.message})`);
        return picture;
      });
    return { id: restorer.id, restored };
  }

  private set(restorer: Decoder["restorer"], why = ""): void {
    this.restorer = restorer;
    this.begin();
    if (this.decoder) this.decoder.restorer = restorer;
    tell({ type: "restoring", isOn: restorer !== undefined, why });
  }

  /** The next frames are not those after the last ones. */
  begin(): void {
    this.start = undefined;
    this.spent = 0;
  }

  of(decoder: Decoder): Decoder {
    this.decoder = decoder;
    decoder.restorer = this.restorer;
    return decoder;
  }

  /** Notes the seconds that it took to draw the frame at `time`; the first one has its price. */
  note(time: number, seconds: number): void {
    // The first picture is shown before what restores the others is loaded.
    if (!this.hasBegun) void this.turn(this.how);
    if (this.how !== "auto" || !this.restorer) return;
    if (this.start === undefined) this.start = time;
    else this.spent += seconds;
    const shown = time - this.start;
    if (shown < TRIAL) return;
    if (this.spent > shown) this.set(undefined, "this machine restores more slowly than it plays");
    else this.begin();
  }
}

/** Gives drawn frames to the page, no more than it asks for. */
class Outlet {
  run = 0;
  readonly changed = new Signal();
  private credit = AHEAD;
  private late = -Infinity;
  private last = -Infinity;

  begin(run: number): void {
    this.run = run;
    this.credit = AHEAD;
    this.late = this.last = -Infinity;
    restoring.begin();
    this.changed.ring();
  }

  next(time: number): void {
    this.credit++;
    this.late = time;
    this.changed.ring();
  }

  /** Draws a frame and gives it, unless it is too late; false if it is no longer wanted. */
  async give(frame: Frame, time: number, run: number): Promise<boolean> {
    while (this.credit === 0 && run === this.run) await this.changed.wait();
    if (run !== this.run) return false;
    if (time < this.late && time - this.last < LONGEST_GAP) return true;
    const began = performance.now();
    const picture = (await frame.draw()).slice().buffer;
    restoring.note(time, (performance.now() - began) / 1000);
    this.credit--;
    this.last = time;
    tell({ type: "frame", run, time, picture }, picture);
    // Orders from the page are read between frames.
    await new Promise((done) => setTimeout(done));
    return run === this.run;
  }
}

const restoring = new Restoring();
const outlet = new Outlet();
const kernels = fetch(new URL("kernels.wasm", import.meta.url))
  .then((answer) => answer.arrayBuffer())
  .then((code) => Kernels.load(code));

function secondsOf(header: Header, ticks: number): number {
  return (ticks * header.time_base_num) / header.time_base_den;
}

async function decoderOf(header: Header, pictures: BrowserPictures): Promise<Decoder> {
  const aspect = header.pixel_aspect_num / header.pixel_aspect_den;
  tell({ type: "video", width: header.width, height: header.height, aspect });
  return restoring.of(new Decoder(header, await kernels, pictures));
}

/** A file: any frame can be sought as soon as it has arrived. */
class FilePlayer {
  private readonly library = new Library();
  private readonly grown = new Signal();
  private decoder: Decoder | undefined;
  private isWhole = false;
  private work = Promise.resolve();

  async load(url: string): Promise<void> {
    const answer = await fetch(url);
    if (!answer.ok || !answer.body) {
      throw new BitstreamError(`the server says ${answer.status}: start gsvc serve again`);
    }
    const reader = answer.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      this.library.push(part.value);
      if (this.library.header) this.decoder ??= await decoderOf(this.library.header, new BrowserPictures());
      this.tellLength();
      this.grown.ring();
    }
    this.library.close();
    this.isWhole = true;
    this.grown.ring();
  }

  private tellLength(): void {
    const { header, times } = this.library;
    if (!header) return;
    const frame = secondsOf(header, header.frame_ticks_num / header.frame_ticks_den);
    tell({ type: "length", seconds: secondsOf(header, times.at(-1) ?? 0), frame });
  }

  seek(time: number, run: number): void {
    outlet.begin(run);
    this.work = this.work.then(() => this.play(time, run)).catch(fail);
  }

  private async play(time: number, run: number): Promise<void> {
    while (!this.library.entries.length && !this.isWhole) await this.grown.wait();
    const { library, decoder } = this;
    if (run !== outlet.run || !decoder || !library.entries.length) return;
    const header = library.header!;
    const ticks = (time * header.time_base_den) / header.time_base_num;
    const wanted = library.times[library.frameAt(ticks + 1e-6)]!;
    let at = library.startFor(library.frameAt(wanted), decoder);
    for (; await this.has(at, run); at++) {
      for await (const frame of decoder.frames(library.entries[at]!.packet)) {
        if (run !== outlet.run) return;
        if (frame.pts < wanted) continue;
        if (!(await outlet.give(frame, secondsOf(header, frame.pts), run))) return;
      }
    }
    if (run === outlet.run) tell({ type: "end", run });
  }

  /** Waits for an entry; false at the end, and where it is no longer wanted. */
  private async has(at: number, run: number): Promise<boolean> {
    while (at >= this.library.entries.length && !this.isWhole && run === outlet.run) {
      await Promise.race([this.grown.wait(), outlet.changed.wait()]);
    }
    return at < this.library.entries.length && run === outlet.run;
  }
}

/** What `gsvc send` sends to a WebSocket: frames come as they are made, from an INTRA packet on. */
class Connection {
  /** Whether a picture has come. */
  hasBegun = false;
  private readonly reader = new PacketReader(true);
  private readonly arrived = new Signal();
  private readonly pictures = new BrowserPictures();
  private readonly socket: WebSocket;
  private waiting: Packet[] = [];
  private isOver = false;
  private error: unknown;

  constructor(url: string) {
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }) => {
      try {
        this.take(new Uint8Array(data as ArrayBuffer));
      } catch (error) {
        this.error = error;
        this.socket.close();
      }
    };
    this.socket.onclose = () => {
      this.isOver = true;
      this.arrived.ring();
    };
  }

  private take(data: Uint8Array): void {
    if (this.error) return;
    this.reader.push(data);
    for (let packet = this.reader.next(); packet; packet = this.reader.next()) {
      if (isPicture(packet)) this.waiting.push(packet);
      if (packet.type === PacketType.END) this.isOver = true;
    }
    const starts = this.waiting.flatMap((packet, n) => (packet.type === PacketType.INTRA ? [n] : []));
    if (starts.length > MOST_WAITING) this.waiting = this.waiting.slice(starts.at(-1));
    this.arrived.ring();
  }

  /** Gives the frames; true at the end of the stream, false where the connection is lost before. */
  async play(run: number): Promise<boolean> {
    try {
      await this.giveAll(run);
    } finally {
      this.socket.close();
      this.pictures.close();
    }
    if (this.error) throw this.error;
    return this.reader.ended;
  }

  private async giveAll(run: number): Promise<void> {
    let decoder: Decoder | undefined;
    for (;;) {
      while (!this.waiting.length && !this.isOver) await this.arrived.wait();
      const packet = this.waiting.shift();
      if (!packet) return;
      this.hasBegun ||= packet.type === PacketType.INTRA;
      if (!this.hasBegun) continue;
      const header = this.reader.header!;
      decoder ??= await decoderOf(header, this.pictures);
      for await (const frame of decoder.frames(packet)) {
        await outlet.give(frame, secondsOf(header, frame.pts), run);
      }
    }
  }
}

/** Plays a live stream to its end; connects again, ever more slowly, where its sender is lost. */
async function playLive(url: string): Promise<void> {
  let pause = SHORTEST_PAUSE;
  for (let run = 0; ; run++) {
    outlet.begin(run);
    const connection = new Connection(url);
    if (await connection.play(run)) return tell({ type: "end", run });
    if (connection.hasBegun) pause = SHORTEST_PAUSE;
    tell({ type: "lost", run: run + 1, pause });
    await new Promise((done) => setTimeout(done, pause * 1000));
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

/** Says what is wrong and, where the message does not, what to do. */
function fail(error: unknown): void {
  const isStream = error instanceof BitstreamError;
  if (!isStream) console.error(error);
  const wrong = error instanceof Error ? error.message : String(error);
  const mend = isStream ? "copy the file again, or play it with gsvc play" : "reload this page";
  tell({ type: "error", message: wrong.includes(": ") ? wrong : `${wrong}: ${mend}` });
}

let player: FilePlayer | undefined;

async function open(stream: string, live: boolean): Promise<void> {
  if (!(await BrowserPictures.isSupported())) return tell({ type: "unsupported" });
  if (live) return playLive(stream);
  player = new FilePlayer();
  player.seek(0, 0);
  await player.load(stream);
}

self.onmessage = ({ data }: MessageEvent<Order>) => {
  if (data.type === "open") {
    restoring.how = data.restore;
    open(data.stream, data.live).catch(fail);
  } else if (data.type === "restore") void restoring.turn(data.restore);
  else if (data.type === "seek") player?.seek(data.time, data.run);
  else if (data.type === "next") outlet.next(data.time);
};
