/** One measure of fetchbox in a process of its own, so that its memory is its own. */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fetchboxApp } from '@redress/fetchbox'
import { redress } from 'redress'
import { artifactStore } from 'redress/artifacts'
import { startServer } from 'redress/http'
import { openTransfer } from '../../apps/fetchbox/src/transfer/transfer.ts'

export interface Task {
  kind: 'download' | 'transfer' | 'app'
  /** "127.0.0.1:8080" */
  origin: string
  bytes: number
  files: number
  concurrency: number
  folder: string
}

export interface Measured {
  seconds: number
  cpuSeconds: number
  peakMiB: number
}

process.once('message', async (task: Task) => {
  const work = await (task.kind === 'app' ? wholeApp(task) : transferAlone(task))
  const beganMs = performance.now()
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  const measured: Measured = {
    seconds: (performance.now() - beganMs) / 1000,
    cpuSeconds: (user + system) / 1e6,
    peakMiB: Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024,
  }
  process.send?.(measured, () => process.exit())
})

const urlOf = ({ origin, bytes }: Task, n: number): string => `http://${origin}/${bytes}/${n}`

async function transferAlone(task: Task): Promise<() => Promise<void>> {
  const { folder, origin, files, concurrency, kind } = task
  mkdirSync(join(folder, 'work'))
  const store = await artifactStore({ url: `file:${join(folder, 'storage')}` })
  const transfer = openTransfer({
    store,
    spool: { folder: join(folder, 'work') },
    limits: { connectMs: 10_000, headersMs: 30_000, bodyMs: 30_000, wholeMs: 600_000, bytesMax: 2 ** 30 },
    outbound: { allow: [origin] },
  })
  const { signal } = new AbortController()
  let next = 0
  const one = async (): Promise<void> => {
    while (next < files) {
      const n = next++
      const spooled = await transfer.download({ url: urlOf(task, n) }, { signal, avoidProxy: null })
      if (kind === 'transfer') await transfer.upload(spooled, { key: `resources/bench/job/${n}`, signal })
      await spooled.remove()
    }
  }
  return async () => {
    await Promise.all(Array.from({ length: concurrency }, one))
  }
}

const RESOURCES_MAX = 1000

/** From the first manifest sent over HTTP to the last job that is complete. */
async function wholeApp(task: Task): Promise<() => Promise<void>> {
  const { folder, origin, files, concurrency } = task
  const app = redress({ store: `sqlite:${join(folder, 'bench.db')}` })
  const log = { debug() {}, info() {}, warn() {}, error: console.error } as never
  const { mount = () => undefined } = await fetchboxApp().install(app, {
    home: join(folder, 'fetchbox'),
    env: { FETCHBOX_ALLOW: origin, FETCHBOX_CONCURRENCY: String(concurrency), FETCHBOX_PER_HOST: String(concurrency) },
    log,
  })
  const server = await startServer({ app, port: 0, mounts: [mount], log })
  await server.ready
  const { token } = await app.perform('tokens.create', { name: 'bench', role: 'operator', actor: 'bench' })
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  await app.work({ concurrency })

  const submit = async (from: number): Promise<string> => {
    const count = Math.min(RESOURCES_MAX, files - from)
    const resources = Array.from({ length: count }, (_, i) => ({ id: `r${i}`, url: urlOf(task, from + i) }))
    const answer = await fetch(`${server.url}/fetchbox/jobs`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ resources }),
    })
    if (answer.status !== 202) throw new Error(`answered ${answer.status}: ${await answer.text()}`)
    return ((await answer.json()) as { id: string }).id
  }
  const done = async (id: string): Promise<void> => {
    for (;;) {
      const { status } = (await (await fetch(`${server.url}/fetchbox/jobs/${id}`, { headers })).json()) as {
        status: string
      }
      if (status === 'complete') return
      if (status === 'failed' || status === 'partial') throw new Error(`job ${id} is ${status}`)
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }
  return async () => {
    const ids: string[] = []
    for (let from = 0; from < files; from += RESOURCES_MAX) ids.push(await submit(from))
    for (const id of ids) await done(id)
  }
}
