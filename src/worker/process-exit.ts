type AtExit = (exitCode: number) => void

const waiting = new Set<AtExit>()

/** One listener for all workers of the process, however many they are. Answers with how to take `atExit` off again. */
export function beforeProcessExit(atExit: AtExit): () => void {
  if (waiting.size === 0) process.on('exit', runAll)
  waiting.add(atExit)
  return () => {
    if (waiting.delete(atExit) && waiting.size === 0) process.off('exit', runAll)
  }
}

function runAll(exitCode: number): void {
  for (const atExit of waiting) atExit(exitCode)
}
