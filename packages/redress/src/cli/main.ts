const argv = process.argv.slice(2)
// `ps` shows the command line to every user of the machine, so a password in a store address is removed as soon as it
// is read.
if (argv.some((word) => word.includes('://'))) {
  const { redactAddresses } = await import('../core/text/redact.ts')
  const shown = argv.map(redactAddresses)
  if (shown.join() !== argv.join()) process.title = ['redress', ...shown].join(' ')
}
// A reader that has seen enough (`redress jobs list | head`) is no error.
process.stdout.on('error', async (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  const { reportUnwritten } = await import('./command-line.ts')
  process.exit(reportUnwritten(error, argv))
})
// If standard error is closed, only the exit code reports the error.
process.stderr.on('error', () => undefined)

const { runCommandLine } = await import('./command-line.ts')
process.exitCode = await runCommandLine(argv)
