import type { News, Order, Restore } from "./messages.js";
import { Screen } from "./screen.js";

/** What the server says of its source: `source.json`. */
interface Source {
  readonly name: string;
  /** Address of a WebSocket that a live stream comes from. */
  readonly live: string | null;
  /** Seconds that live pictures are late when they come to the server; asked for again and again. */
  readonly late?: number | null;
}

interface DrawnFrame {
  readonly time: number;
  readonly picture: ArrayBuffer;
}

/** Seconds from which a live picture says how old it is, and without a new one until it is frozen. */
const OLD = 2;
const FROZEN = 5;
/** Seconds: later pictures are of a clock that is wrong. */
const MOST_LATE = 600;
const LOOK = 2000; // milliseconds
const STEP = 5; // seconds that an arrow key goes
/** A frame this much later than now is shown all the same: clocks tick between frames. */
const EARLY = 0.004;

function find<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const seekBar = find<HTMLInputElement>("seek");
const playButton = find<HTMLButtonElement>("play");
const timeText = find("time");
const message = find("message");
const NEEDED = "take Chromium 94, Firefox 130 or newer";
const restoreButton = find<HTMLButtonElement>("restore");
const note = find("note");

/** Plays what the worker draws, by a clock that waits where frames are late. */
class Player {
  private readonly worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  private readonly screen = new Screen(find<HTMLCanvasElement>("screen"));
  private frames: DrawnFrame[] = [];
  private run = 0;
  private length = 0;
  private frameTime = 0.04;
  private isPlaying = true;
  private isRestoring = false;
  private hasEnded = false;
  /** The time of the frame that is shown, and that of the clock, in seconds. */
  private shown = -1;
  private clock = 0;
  private ticked: number | undefined;
  /** When a picture was last shown, by `performance.now`, and how late pictures come, in seconds. */
  private renewed = 0;
  private late = 0;

  constructor(private readonly source: Source) {
    document.title = `${source.name} · gsvc`;
    this.worker.onmessage = ({ data }: MessageEvent<News>) => this.hear(data);
    this.worker.onerror = () => say(`The player did not start: ${NEEDED}.`);
    const stream = source.live ?? new URL("stream.gsv", location.href).href;
    this.order({ type: "open", stream, live: source.live !== null, restore: asked() });
    find("live").hidden = source.live === null;
    seekBar.hidden = source.live !== null;
    if (source.late !== undefined) setInterval(() => void this.ask(), LOOK);
    requestAnimationFrame((now) => this.tick(now));
  }

  private order(order: Order): void {
    this.worker.postMessage(order);
  }

  /** Asks the server how late pictures come. */
  private async ask(): Promise<void> {
    try {
      const late = (await sourceOf()).late ?? 0;
      this.late = late > 0 && late < MOST_LATE ? late : 0;
    } catch {
      // It is gone: what it said last still holds.
    }
  }

  /** How old a live picture is, where that is worth saying. */
  private age(): string {
    if (!this.source.live || this.shown < 0 || !this.isPlaying) return "";
    const still = (performance.now() - this.renewed) / 1000;
    const ago = `as of ${spanText(still + this.late)} ago`;
    if (still > FROZEN) return `frozen, ${ago}`;
    return still + this.late > OLD ? ago : "";
  }

  private hear(news: News): void {
    if (news.type === "video") {
      this.screen.resize(news.width, news.height, news.aspect);
    } else if (news.type === "length") {
      this.length = news.seconds;
      this.frameTime = news.frame;
    } else if (news.type === "frame") {
      if (news.run === this.run) this.frames.push(news);
    } else if (news.type === "restoring") {
      this.isRestoring = news.isOn;
      restoreButton.textContent = `restore: ${news.isOn ? "on" : "off"}`;
      note.textContent = news.why && `Pictures are shown as decoded: ${news.why}.`;
    } else if (news.type === "end") {
      this.hasEnded = news.run === this.run;
    } else if (news.type === "lost") {
      this.restart(news.run);
      say(`The sender is gone, or cannot be reached: trying again in ${news.pause} s.`);
    } else if (news.type === "unsupported") {
      this.fallBack();
    } else {
      say(`This stream cannot be played: ${news.message}.`);
    }
  }

  /** Video that the server decodes, where the browser cannot. */
  private fallBack(): void {
    const why = "This browser does not decode AV1 for pages (WebCodecs; it needs https or localhost)";
    if (this.source.live) return say(`${why}: for a live stream, ${NEEDED}.`);
    say(`${why}: the server decodes the video, which may take a while.`);
    const video = document.createElement("video");
    video.controls = video.autoplay = video.muted = true;
    video.src = "video.mp4";
    video.onloadeddata = () => say("");
    video.onerror = () => say("The server could not decode this stream: see what it prints.");
    find("screen").replaceWith(video);
    find("bar").hidden = true;
  }

  private tick(now: number): void {
    const passed = (now - (this.ticked ?? now)) / 1000;
    this.ticked = now;
    if (this.isPlaying && this.shown >= 0) this.clock += passed;
    this.showDue();
    this.update();
    requestAnimationFrame((next) => this.tick(next));
  }

  private showDue(): void {
    let due: DrawnFrame | undefined;
    while (this.frames.length && (this.shown < 0 || this.frames[0]!.time <= this.clock + EARLY)) {
      due = this.frames.shift()!;
      if (this.shown < 0) this.clock = due.time;
      this.shown = due.time;
      this.order({ type: "next", time: this.isPlaying ? this.clock : -1 });
    }
    if (due) {
      this.screen.show(due.picture);
      this.renewed = performance.now();
      say("");
    }
    // Where no frame is there in time, the clock waits for it.
    const next = this.frames[0]?.time ?? this.shown + this.frameTime;
    if (!this.frames.length && this.shown >= 0) this.clock = Math.min(this.clock, next);
    if (this.hasEnded && !this.frames.length) this.isPlaying = false;
  }

  private update(): void {
    const at = Math.max(this.shown, 0);
    if (document.activeElement !== seekBar || this.isPlaying) seekBar.value = String(at);
    seekBar.max = String(this.length);
    timeText.textContent = this.source.live
      ? this.age() || clockText(at)
      : `${clockText(at)} / ${clockText(this.length + this.frameTime)}`;
    playButton.textContent = this.isPlaying ? "❚❚" : "▶";
    playButton.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play");
  }

  restore(): void {
    this.order({ type: "restore", restore: this.isRestoring ? "off" : "on" });
  }

  toggle(): void {
    if (!this.isPlaying && this.hasEnded && !this.frames.length) this.seek(0);
    this.isPlaying = !this.isPlaying;
  }

  /** Goes to a time; one beyond the end is that of the last frame. */
  seek(time: number): void {
    if (this.source.live) return;
    this.restart(this.run + 1);
    this.order({ type: "seek", time: Math.min(Math.max(time, 0), this.length), run: this.run });
  }

  /** Drops the frames that are here; the clock starts at the first of the new run. */
  private restart(run: number): void {
    this.run = run;
    this.frames = [];
    this.shown = -1;
    this.hasEnded = false;
  }

  skip(seconds: number): void {
    this.seek(Math.max(this.shown, 0) + seconds);
  }

  step(frames: number): void {
    this.isPlaying = false;
    if (frames > 0 && this.frames[0]) this.clock = this.frames[0].time;
    else this.skip(frames * this.frameTime);
  }

  key(event: KeyboardEvent): void {
    const actions: Record<string, () => void> = {
      " ": () => this.toggle(),
      k: () => this.toggle(),
      ArrowLeft: () => this.skip(-STEP),
      ArrowRight: () => this.skip(STEP),
      ",": () => this.step(-1),
      ".": () => this.step(1),
      Home: () => this.seek(0),
      End: () => this.seek(this.length),
      r: () => this.restore(),
      f: () => void find("stage").requestFullscreen(),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}

/** What the page's address asks for: `?restore=on`, `?restore=off`. */
function asked(): Restore {
  const how = new URLSearchParams(location.search).get("restore");
  return how === "on" || how === "off" ? how : "auto";
}

function clockText(seconds: number): string {
  const whole = Math.floor(seconds);
  const minutes = Math.floor(whole / 60);
  const tail = String(whole % 60).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${tail}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${tail}`;
}

function spanText(seconds: number): string {
  for (const [unit, name] of [[3600, "h"], [60, "min"]] as const) {
    if (seconds >= 2 * unit) return `${Math.round(seconds / unit)} ${name}`;
  }
  return `${Math.round(seconds)} s`;
}

function say(text: string): void {
  if (message.textContent !== text) message.textContent = text;
}

async function sourceOf(): Promise<Source> {
  return (await (await fetch("source.json")).json()) as Source;
}

async function start(): Promise<void> {
  const player = new Player(await sourceOf());
  playButton.onclick = () => player.toggle();
  restoreButton.onclick = () => player.restore();
  seekBar.oninput = () => player.seek(Number(seekBar.value));
  document.onkeydown = (event) => player.key(event);
}

start().catch((error: Error) =>
  say(`The server does not answer (${error.message}): start gsvc serve again, then reload this page.`),
);
