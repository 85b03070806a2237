// A reader that has seen enough (`redress jobs list | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const { run } = await import('./run.ts')
process.exitCode = await run(process.argv.slice(2))
