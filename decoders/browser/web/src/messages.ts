/** Whether pictures are restored; `auto`: where that is quick enough. */
export type Restore = "auto" | "on" | "off";

/** What the page tells its worker. */
export type Order =
  | {
      readonly type: "open";
      readonly stream: string;
      readonly live: boolean;
      readonly restore: Restore;
    }
  /** Restores pictures, or does so no more: those that are drawn from now on. */
  | { readonly type: "restore"; readonly restore: Restore }
  /** Frames from this time on, in seconds; what was under way is dropped. */
  | { readonly type: "seek"; readonly time: number; readonly run: number }
  /** One more frame may come; those before this time, in seconds, are too late to be shown. */
  | { readonly type: "next"; readonly time: number };

/** What the worker tells the page. */
export type News =
  | { readonly type: "unsupported" }
  | {
      readonly type: "video";
      readonly width: number;
      readonly height: number;
      /** Width of a pixel over its height. */
      readonly aspect: number;
    }
  /** Seconds that have arrived, and seconds that a frame lasts. */
  | { readonly type: "length"; readonly seconds: number; readonly frame: number }
  | {
      readonly type: "frame";
      readonly run: number;
      readonly time: number;
      readonly picture: ArrayBuffer;
    }
  /** A live sender is gone: called again after `pause` seconds, its frames belong to `run`. */
  | { readonly type: "lost"; readonly run: number; readonly pause: number }
  /** Whether pictures are restored, and why not where that was asked for. */
  | { readonly type: "restoring"; readonly isOn: boolean; readonly why: string }
  | { readonly type: "end"; readonly run: number }
  | { readonly type: "error"; readonly message: string };
