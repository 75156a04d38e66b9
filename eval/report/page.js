"use strict";
// One video holds every version of a clip, one under the other: they cannot fall out of step. A
// canvas shows two of them.
const FLICKER_MS = 450;
const GAP = 6;
const players = [...document.querySelectorAll(".film")].map((film) => {
  const viewer = film.querySelector(".viewer");
  const data = JSON.parse(viewer.querySelector("script").textContent);
  const find = (name) => viewer.querySelector(name);
  const [canvas, video, stage, edge] = ["canvas", "video", ".stage", ".edge"].map(find);
  const [play, loop, counter, timeline, cursor] = [".play", ".loop", ".counter", ".timeline", ".cursor"].map(find);
  const sides = [...viewer.querySelectorAll("select.side")];
  const tags = [...viewer.querySelectorAll(".tag")];
  const modes = [...viewer.querySelectorAll("[data-mode]")];
  const speeds = [...viewer.querySelectorAll("[data-speed]")];
  const rows = [...film.querySelectorAll(".rows button")];
  const context = canvas.getContext("2d");
  const state = { mode: "Side by side", split: 0.5, looping: false, frame: -1 };

  const chosen = () => sides.map((side) => Number(side.value));
  const pane = (index, x, y, from = 0, to = data.width) => {
    if (to > from) context.drawImage(video, from, index * data.pitch, to - from, data.height, x + from, y, to - from, data.height);
  };
  const stacked = () => stage.clientWidth < 560;
  const shape = () => {
    const beside = state.mode === "Side by side";
    const width = beside && !stacked() ? 2 * data.width + GAP : data.width;
    const height = beside && stacked() ? 2 * data.height + GAP : data.height;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    viewer.dataset.stacked = beside && stacked() ? "yes" : "no";
  };
  const draw = () => {
    if (video.readyState < 2) return;
    const [left, right] = chosen();
    shape();
    if (state.mode === "Side by side") {
      pane(left, 0, 0);
      pane(right, stacked() ? 0 : data.width + GAP, stacked() ? data.height + GAP : 0);
    } else if (state.mode === "Wipe") {
      const at = Math.round(data.width * state.split);
      pane(left, 0, 0, 0, at);
      pane(right, 0, 0, at, data.width);
      edge.style.left = `${100 * state.split}%`;
    } else {
      const second = Math.floor(performance.now() / FLICKER_MS) % 2;
      pane(second ? right : left, 0, 0);
      tags.forEach((tag, side) => { tag.hidden = side !== second; });
    }
    const frame = Math.min(data.frames - 1, Math.floor(video.currentTime * data.rate + 0.01));
    if (frame !== state.frame) mark(frame);
  };
  const mark = (frame) => {
    state.frame = frame;
    viewer.dataset.frame = frame;
    counter.textContent = `frame ${frame + 1} of ${data.frames}`;
    cursor.style.left = `${(100 * (frame + 0.5)) / data.frames}%`;
    timeline.setAttribute("aria-valuenow", frame + 1);
    for (const row of rows) row.classList.toggle("now", Number(row.dataset.frame) === frame);
  };
  let running = false;
  const wake = () => {
    if (!running) tick();
  };
  const tick = () => {
    const [first, end] = data.worst;
    if (state.looping && !video.paused && (video.currentTime >= (end - 0.25) / data.rate || video.currentTime < (first - 0.5) / data.rate)) {
      video.currentTime = (first + 0.1) / data.rate;
    }
    draw();
    running = !video.paused || state.mode === "Flicker";
    if (running) requestAnimationFrame(tick);
  };
  const show = (frame) => {
    video.pause();
    video.currentTime = (Math.max(0, Math.min(data.frames - 1, frame)) + 0.5) / data.rate;
  };
  const press = (buttons, button) => {
    for (const one of buttons) one.setAttribute("aria-pressed", one === button);
  };
  const describe = () => {
    chosen().forEach((index, side) => {
      sides[side].parentElement.querySelector(".facts").textContent = data.facts[index];
      tags[side].textContent = data.names[index];
      tags[side].hidden = false;
    });
    for (const map of viewer.querySelectorAll(".map")) map.hidden = !chosen().includes(Number(map.dataset.version));
    for (const line of viewer.querySelectorAll("polyline")) {
      line.classList.toggle("faint", !chosen().includes(Number(line.dataset.version)));
    }
    edge.hidden = state.mode !== "Wipe";
    stage.dataset.mode = state.mode;
    draw();
  };
  // A pause before the first frame rejects what play promised.
  const start = () => video.play().catch(() => {});
  const actions = {
    play: () => (video.paused ? start() : video.pause()),
    step: (by) => show(Math.max(0, state.frame) + by),
    mode: (name) => {
      state.mode = name;
      press(modes, modes.find((one) => one.dataset.mode === name));
      describe();
      wake();
    },
    speed: (name) => {
      video.playbackRate = Number(name);
      press(speeds, speeds.find((one) => one.dataset.speed === name));
    },
    loop: () => {
      state.looping = !state.looping;
      loop.setAttribute("aria-pressed", state.looping);
      if (state.looping) {
        video.currentTime = (data.worst[0] + 0.1) / data.rate;
        start();
      }
    },
    wipe: (by) => {
      state.split = Math.min(1, Math.max(0, state.split + by));
      draw();
    },
    swap: () => {
      [sides[0].value, sides[1].value] = [sides[1].value, sides[0].value];
      describe();
    },
  };

  const follow = (element, at) => {
    element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      element.setPointerCapture(event.pointerId);
      at(event, element.getBoundingClientRect());
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) at(event, element.getBoundingClientRect());
    });
  };
  const share = (event, box) => Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  follow(timeline, (event, box) => show(Math.floor(share(event, box) * data.frames)));
  follow(stage, (event, box) => {
    if (state.mode !== "Wipe") return;
    state.split = share(event, box);
    draw();
  });
  stage.addEventListener("click", () => state.mode !== "Wipe" && actions.play());
  play.addEventListener("click", actions.play);
  loop.addEventListener("click", actions.loop);
  find(".back").addEventListener("click", () => actions.step(-1));
  find(".on").addEventListener("click", () => actions.step(1));
  find(".swap").addEventListener("click", actions.swap);
  for (const one of modes) one.addEventListener("click", () => actions.mode(one.dataset.mode));
  for (const one of speeds) one.addEventListener("click", () => actions.speed(one.dataset.speed));
  for (const side of sides) side.addEventListener("change", describe);
  for (const row of rows) row.addEventListener("click", () => show(Number(row.dataset.frame)));
  video.addEventListener("play", () => { play.textContent = "Pause"; wake(); });
  video.addEventListener("pause", () => { play.textContent = "Play"; draw(); });
  video.addEventListener("seeked", draw);
  video.addEventListener("loadeddata", () => {
    viewer.dataset.ready = "yes";
    describe();
    show(Math.floor((data.worst[0] + data.worst[1]) / 2));
  });
  video.addEventListener("error", () => film.classList.add("silent"));
  new ResizeObserver(draw).observe(stage);
  video.src = data.video;
  return { film, video, actions };
});

// Keys go to the player that was used last, at first to the one on the screen.
let used = null;
for (const player of players) {
  for (const event of ["pointerdown", "focusin"]) player.film.addEventListener(event, () => { used = player; });
  player.video.addEventListener("play", () => {
    for (const other of players) if (other !== player) other.video.pause();
  });
}
const onScreen = () => players.find(({ film }) => film.getBoundingClientRect().bottom > innerHeight / 2);
addEventListener("keydown", (event) => {
  const player = used && document.contains(used.film) ? used : onScreen();
  if (!player || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
  if (event.key === " " && event.target.matches("button, summary, a")) return;
  const { actions } = player;
  const todo = {
    " ": actions.play,
    ArrowLeft: () => actions.step(-1),
    ArrowRight: () => actions.step(1),
    s: () => actions.mode("Side by side"),
    w: () => actions.mode("Wipe"),
    f: () => actions.mode("Flicker"),
    l: actions.loop,
    x: actions.swap,
    ",": () => actions.wipe(-0.02),
    ".": () => actions.wipe(0.02),
    1: () => actions.speed("0.25"),
    2: () => actions.speed("0.5"),
    3: () => actions.speed("1"),
  }[event.key];
  if (!todo) return;
  todo();
  event.preventDefault();
});
