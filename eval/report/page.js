"use strict";
// One video holds every version of a clip, one under the other: a canvas shows two of them side by side.
for (const viewer of document.querySelectorAll(".viewer")) {
  const data = JSON.parse(viewer.querySelector("script").textContent);
  const canvas = viewer.querySelector("canvas");
  const video = viewer.querySelector("video");
  const bar = viewer.querySelector(".bar");
  const stage = viewer.querySelector(".stage");
  const split = viewer.querySelector(".split");
  const play = viewer.querySelector(".play");
  const seek = viewer.querySelector(".seek");
  const counter = viewer.querySelector(".counter");
  const sides = [...viewer.querySelectorAll("select.side")];
  const context = canvas.getContext("2d");

  const draw = () => {
    if (video.readyState < 2) return;
    const edge = Math.round((canvas.width * split.value) / 1000);
    const pane = (index, from, to) => {
      const top = index * data.pitch;
      if (to > from) context.drawImage(video, from, top, to - from, data.height, from, 0, to - from, data.height);
    };
    pane(Number(sides[0].value), 0, edge);
    pane(Number(sides[1].value), edge, canvas.width);
    bar.style.left = `${split.value / 10}%`;
    const frame = Math.min(data.frames - 1, Math.floor(video.currentTime * data.rate + 0.01));
    viewer.dataset.frame = frame;
    counter.textContent = `${frame + 1} / ${data.frames}`;
    if (document.activeElement !== seek || !video.paused) seek.value = frame;
  };
  const loop = () => {
    draw();
    if (!video.paused) requestAnimationFrame(loop);
  };
  const show = (frame) => {
    video.pause();
    video.currentTime = (Number(frame) + 0.5) / data.rate;
  };
  const describe = () => {
    for (const side of sides) {
      side.parentElement.querySelector(".facts").textContent = data.facts[side.value];
    }
    draw();
  };
  const move = (event) => {
    const box = stage.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    split.value = Math.round(1000 * Math.min(1, Math.max(0, share)));
    draw();
  };

  stage.addEventListener("pointerdown", (event) => {
    stage.setPointerCapture(event.pointerId);
    move(event);
  });
  stage.addEventListener("pointermove", (event) => {
    if (stage.hasPointerCapture(event.pointerId)) move(event);
  });
  split.addEventListener("input", draw);
  seek.addEventListener("input", () => show(seek.value));
  play.addEventListener("click", () => (video.paused ? video.play() : video.pause()));
  video.addEventListener("play", () => { play.textContent = "Pause"; loop(); });
  video.addEventListener("pause", () => { play.textContent = "Play"; draw(); });
  video.addEventListener("seeked", draw);
  video.addEventListener("loadeddata", () => { viewer.dataset.ready = "yes"; show(data.start); describe(); });
  video.addEventListener("error", () => {
    stage.hidden = true;
    counter.textContent = "this browser does not play H.264: see the stills below";
  });
  for (const side of sides) side.addEventListener("change", describe);
  for (const link of document.querySelectorAll(`[data-viewer="${viewer.id}"]`)) {
    link.addEventListener("click", () => show(link.dataset.frame));
  }
  video.src = data.video;
}
