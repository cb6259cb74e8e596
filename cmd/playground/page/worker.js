"use strict";
// Runs the simulator in a worker, so that the page stays responsive during a run.
importScripts("wasm_exec.js");

const ready = (async () => {
  const answer = await fetch("playground.wasm.gz");
  if (!answer.ok) throw new Error(`playground.wasm.gz: ${answer.status} ${answer.statusText}`);
  // Some hosts decompress the file while serving it.
  const [head, all] = answer.body.tee();
  const reader = head.getReader(), first = (await reader.read()).value;
  reader.cancel();
  const packed = first[0] === 0x1f && first[1] === 0x8b;
  const wasm = packed ? all.pipeThrough(new DecompressionStream("gzip")) : all;
  const go = new Go();
  const begun = new Promise((resolve) => { self.handoffReady = resolve; });
  const { instance } = await WebAssembly.instantiateStreaming(
    new Response(wasm, { headers: { "Content-Type": "application/wasm" } }), go.importObject);
  go.run(instance);
  await begun;
})();

onmessage = async ({ data: [id, ...call] }) => {
  try {
    await ready;
    postMessage([id, JSON.parse(self.handoff(...call))]);
  } catch (err) {
    postMessage([id, { error: String(err) }]);
  }
};
