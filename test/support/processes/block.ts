/** Blocks this process as a long computation does, but leaves the CPU to the other processes. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, ms))
}
