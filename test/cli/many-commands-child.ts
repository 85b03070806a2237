import { run } from '../../src/cli/run.ts'

process.on('message', async (args: string[]) => {
  const said = { stdout: '', stderr: '' }
  const kept = { stdout: process.stdout.write, stderr: process.stderr.write }
  for (const stream of ['stdout', 'stderr'] as const) {
    process[stream].write = ((text: string) => {
      said[stream] += text
      return true
    }) as typeof process.stdout.write
  }
  const code = await run(args)
  process.stdout.write = kept.stdout
  process.stderr.write = kept.stderr
  process.send?.({ code, ...said })
})
