"""How the page of an analysis begins: its head and its style."""

STYLE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the stream shows</title>
<style>
:root { color-scheme: light dark; --ink: #232323; --paper: #fdfdfc; --faint: #6d7178;
  --line: #dcdee2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e6; --paper: #17191c; --faint: #a0a5ad;
  --line: #353a41; } }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 72rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 0.3rem; }
p { color: var(--faint); margin: 0.3rem 0 1rem; }
.wide { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; }
text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.label { text-anchor: end; }
.tick { text-anchor: middle; fill: var(--faint); font-size: 10px; }
.grid { stroke: var(--line); }
.cut { stroke: #dd3c2a; stroke-dasharray: 3 3; }
.area { fill: #8a93a0; opacity: 0.7; }
.c0 { fill: #2878b5; } .c1 { fill: #dd7a2a; } .c2 { fill: #3a9a5b; }
.c3 { fill: #b0468a; } .c4 { fill: #8a6fd0; } .c5 { fill: #a08a2a; }
.way { fill: none; stroke-width: 1.2; }
.shared { stroke-width: 3; }
.w0 { stroke: #2878b5; } .w1 { stroke: #dd7a2a; } .w2 { stroke: #3a9a5b; }
.w3 { stroke: #b0468a; } .w4 { stroke: #8a6fd0; } .w5 { stroke: #a08a2a; }
.view { fill: #8a93a0; fill-opacity: 0.1; stroke: var(--faint); stroke-opacity: 0.5; }
.zone { fill: #dd3c2a; fill-opacity: 0.08; stroke: #dd3c2a; stroke-dasharray: 6 4; }
.scale { fill: var(--faint); font-size: 10px; }
table { border-collapse: collapse; font-size: 0.9rem; }
td { padding: 0.25rem 1.5rem 0.25rem 0; border-bottom: 1px solid var(--line); }
</style>
"""
