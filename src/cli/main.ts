const argv = process.argv.slice(2)
// A reader that has seen enough (`redress jobs list | head`) is no error.
process.stdout.on('error', async (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  const { tellUnwritten } = await import('./run.ts')
  process.exit(tellUnwritten(error, argv))
})
// Where nobody can be told what went wrong, the exit code still says it.
process.stderr.on('error', () => undefined)

const { run } = await import('./run.ts')
process.exitCode = await run(argv)
