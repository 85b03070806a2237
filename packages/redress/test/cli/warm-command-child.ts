import { runCommandLine } from '../../src/cli/command-line.ts'

export interface Order {
  args: string[]
  cwd: string
  env: Record<string, string>
}

process.on('message', async ({ args, cwd, env }: Order) => {
  const said = { stdout: '', stderr: '' }
  const kept = { stdout: process.stdout.write, stderr: process.stderr.write }
  process.chdir(cwd)
  process.env = env
  for (const stream of ['stdout', 'stderr'] as const) {
    process[stream].write = ((text: string) => {
      said[stream] += text
      return true
    }) as typeof process.stdout.write
  }
  const code = await runCommandLine(args)
  process.stdout.write = kept.stdout
  process.stderr.write = kept.stderr
  process.send?.({ code, ...said })
})
