/**
 * The smallest job type, submitted and run in one process:
 *
 *   npx node --conditions=redress-source examples/hello.ts     in this checkout
 *   node hello.ts                                              where the package is installed
 */
import { redress } from 'redress'

const app = redress({ store: 'sqlite::memory:' })

const hello = app.job('hello', {
  run: ({ name }: { name: string }) => `Hello, ${name}!`,
})

const { promise: done, resolve } = Promise.withResolvers<string>()
await app.work({ onOutcome: ({ jobId }) => resolve(jobId) })
await hello.submit({ name: 'world' })

const job = await app.jobs.find(await done)
console.log(job?.status, job?.result)
await app.stop()
