"use strict";
// One video holds both versions, one above the other, so that they cannot fall out of step.
// The page knows them as "a" (above) and "b"; which is which stands in a key that it never sees.
const data = JSON.parse(document.getElementById("data").textContent);
const trials = new Map(data.trials.map((trial) => [trial.id, trial]));
const find = (id) => document.getElementById(id);
const canvases = [...document.querySelectorAll("canvas")];
const choices = [...document.querySelectorAll("[data-choice]")];
const stack = document.createElement("canvas");
const COLUMNS = ["study", "voter", "trial", "left", "right", "choice", "seconds", "time", "catch"];
const CLOSED = "You can answer when both have played to the end.";

const shuffled = (list) => {
  const mixed = [...list];
  for (let last = mixed.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    [mixed[last], mixed[other]] = [mixed[other], mixed[last]];
  }
  return mixed;
};
const fresh = () => ({
  voter: [...crypto.getRandomValues(new Uint8Array(6))].map((n) => n.toString(16).padStart(2, "0")).join(""),
  order: shuffled(data.trials).map((trial) => ({ trial: trial.id, left: Math.random() < 0.5 ? "a" : "b" })),
  votes: {},
});

const key = `gsvc-study-${data.study}`;
const kept = () => {
  try {
    const found = JSON.parse(localStorage.getItem(key));
    return found && found.order.length === data.trials.length ? found : null;
  } catch {
    return null;
  }
};
const keep = () => {
  try {
    localStorage.setItem(key, JSON.stringify(state));
  } catch {
    find("forgetful").hidden = false;
  }
};
const state = kept() ?? fresh();
keep();

let at = 0, video = null, shownAt = 0, seen = false, last = 0;
const videos = new Map();
const voted = () => Object.keys(state.votes).length;

const videoOf = (index) => {
  const { trial } = state.order[index];
  if (!videos.has(trial)) {
    const made = document.createElement("video");
    Object.assign(made, { muted: true, loop: true, playsInline: true, preload: "auto" });
    made.addEventListener("error", () => made === video && trouble());
    made.src = `${trial}.mp4`;
    find("videos").append(made);
    videos.set(trial, made);
  }
  return videos.get(trial);
};
const trouble = () => {
  find("trouble").hidden = false;
  find("trouble").textContent = "This video does not play: is its file beside the page, and does this browser play H.264?";
};
const forget = (indices) => {
  const wanted = new Set(indices.filter((index) => state.order[index]).map((index) => state.order[index].trial));
  for (const [trial, old] of videos) {
    if (!wanted.has(trial)) {
      old.removeAttribute("src");
      old.load();
      old.remove();
      videos.delete(trial);
    }
  }
};

const status = () => {
  const number = document.body.dataset.state === "trial" ? `Pair ${at + 1} of ${trials.size}` : `${voted()} of ${trials.size} pairs`;
  find("place").textContent = number;
  find("progress").max = trials.size;
  find("progress").value = voted();
  for (const button of document.querySelectorAll(".save")) button.disabled = voted() === 0;
};
const go = (name) => {
  document.body.dataset.state = name;
  status();
};
const fit = () => {
  const trial = trials.get(state.order[at]?.trial);
  if (!trial) return;
  const beside = matchMedia("(min-width: 40.01rem)").matches;
  const room = innerHeight - (beside ? 250 : 190);
  const most = (room / (beside ? 1 : 2)) * (trial.width / trial.height);
  document.querySelector(".panes").style.maxWidth = `${Math.max(beside ? 480 : 240, beside ? 2 * most + 12 : most)}px`;
};
const allow = (answer) => {
  seen = answer;
  document.body.dataset.answer = answer ? "yes" : "no";
  for (const button of choices) button.disabled = !answer;
  find("hint").textContent = answer ? "" : CLOSED;
};
const show = (index) => {
  if (index >= state.order.length) {
    video?.pause();
    forget([]);
    return go("done");
  }
  at = index;
  const { trial: id, left } = state.order[at];
  const trial = trials.get(id);
  video?.pause();
  forget([at, at + 1]);
  video = videoOf(at);
  find("trouble").hidden = video.error === null;
  if (video.error) trouble();
  Object.assign(document.body.dataset, { trial: id, left, ready: "no" });
  for (const canvas of canvases) Object.assign(canvas, { width: trial.width, height: trial.height });
  Object.assign(stack, { width: trial.width, height: 2 * trial.pitch });
  for (const button of choices) button.setAttribute("aria-pressed", state.votes[id]?.choice === button.dataset.choice);
  find("back").disabled = at === 0;
  allow(Boolean(state.votes[id]));
  shownAt = performance.now();
  last = 0;
  video.currentTime = 0;
  video.play().catch(() => {});
  fit();
  go("trial");
};
const draw = () => {
  requestAnimationFrame(draw);
  if (document.body.dataset.state !== "trial" || video.readyState < 2) return;
  const { trial: id, left } = state.order[at];
  const { width, height, pitch } = trials.get(id);
  stack.getContext("2d").drawImage(video, 0, 0, width, 2 * pitch, 0, 0, width, 2 * pitch);
  canvases.forEach((canvas, side) => {
    const top = (left === "a") === (side === 0) ? 0 : pitch;
    canvas.getContext("2d").drawImage(stack, 0, top, width, height, 0, 0, width, height);
  });
  document.body.dataset.ready = "yes";
  if (!seen && video.currentTime < last) allow(true);
  last = video.currentTime;
  if (at + 1 < state.order.length) videoOf(at + 1);
};
const vote = (choice) => {
  if (document.body.dataset.state !== "trial" || !seen) return;
  const { trial, left } = state.order[at];
  state.votes[trial] = {
    study: data.study,
    voter: state.voter,
    trial,
    left,
    right: left === "a" ? "b" : "a",
    choice,
    seconds: ((performance.now() - shownAt) / 1000).toFixed(1),
    time: new Date().toISOString(),
    catch: trials.get(trial).catch,
  };
  keep();
  show(at + 1);
};
const save = () => {
  const rows = state.order.map(({ trial }) => state.votes[trial]).filter(Boolean);
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((name) => row[name]))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => `${line.join(",")}\n`).join("")], { type: "text/csv" }));
  link.download = `votes-${data.study}-${state.voter}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

find("start").addEventListener("click", () => {
  const open = state.order.findIndex(({ trial }) => !state.votes[trial]);
  show(open < 0 ? state.order.length : open);
});
find("back").addEventListener("click", () => show(at - 1));
find("again").addEventListener("click", () => show(state.order.length - 1));
for (const button of document.querySelectorAll(".save")) button.addEventListener("click", save);
for (const button of choices) button.addEventListener("click", () => vote(button.dataset.choice));
addEventListener("resize", fit);
addEventListener("keydown", (event) => {
  if (document.body.dataset.state !== "trial" || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const choice = { ArrowLeft: "left", ArrowRight: "right", ArrowDown: "tie" }[event.key];
  if (choice) vote(choice);
  else if (event.key === "Backspace" && at > 0) show(at - 1);
  else if (event.key === " ") video.paused ? video.play().catch(() => {}) : video.pause();
  else return;
  event.preventDefault();
});

const total = data.trials.reduce((sum, trial) => sum + 2.2 * trial.seconds + 2, 0);
document.querySelector(".count").textContent = trials.size;
document.querySelector(".minutes").textContent = Math.max(1, Math.round(total / 60));
if (voted()) find("start").textContent = voted() < trials.size ? `Go on: ${voted()} of ${trials.size} are done` : "All done: see the end";
status();
draw();
