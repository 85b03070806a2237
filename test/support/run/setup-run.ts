import { rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type BrowserServer, chromium } from 'playwright-core'
import postgres from 'postgres'
import { launchOptions } from '../browser/chromium.ts'
import { startOwnPostgres } from '../stores/postgres.ts'
import { packPackages } from './packing.ts'
import { makeScratchFolder } from './scratch-folder.ts'
import { SHARED_SERVERS } from './shared-servers.ts'

/**
 * One PostgreSQL and one Chromium for the whole run. Each starts when a test file first asks for it, so that a run of
 * one file waits for nothing. The packages are built and packed once, too. Every file gets a database of its own; browser contexts keep tests apart. Temporary files
 * of all tests are in one folder, which is removed at the end.
 */
export default async function setUpRun(): Promise<(() => Promise<void>) | undefined> {
  // A test that runs tests uses the servers of the outer run.
  if (process.env[SHARED_SERVERS] !== undefined) return undefined
  const scratch = makeScratchFolder()
  if (scratch !== null) process.env.TMPDIR = scratch
  const stops: (() => Promise<unknown>)[] = []
  const databases = once(async () => {
    const { url, stop } = await startPostgresForRun()
    const sql = postgres(url, { max: 1, onnotice: () => undefined })
    stops.push(async () => {
      await sql.end()
      await stop()
    })
    return { url, sql }
  })
  const browser = once(async () => {
    const server = await launchChromium()
    stops.push(() => server.close())
    return server.wsEndpoint()
  })
  const packages = once(async () => {
    const folder = await packPackages()
    stops.push(async () => rmSync(folder, { recursive: true, force: true }))
    return folder
  })
  let made = 0
  const answers: Readonly<Record<string, () => Promise<string>>> = {
    async '/database'() {
      const { url, sql } = await databases()
      const name = `run_${process.pid}_${++made}`
      await sql.unsafe(`CREATE DATABASE ${name}`)
      return Object.assign(new URL(url), { pathname: `/${name}` }).href
    },
    '/browser': browser,
    '/packages': packages,
  }
  const host = createServer((request, response) => {
    const answer = answers[request.url ?? '']
    if (answer === undefined) return end(response, 404, 'unknown server')
    answer().then(
      (text) => end(response, 200, text),
      (error: unknown) => end(response, 500, String(error)),
    )
  })
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
  process.env[SHARED_SERVERS] = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
  return async () => {
    host.close()
    for (const stop of stops) await stop()
    if (scratch !== null) rmSync(scratch, { recursive: true, force: true })
  }
}

/** The server that TEST_DATABASE_URL names, or one whose data need not survive the machine. */
async function startPostgresForRun(): Promise<{ url: string; stop: () => Promise<void> }> {
  const given = process.env.TEST_DATABASE_URL
  if (given !== undefined) return { url: given, stop: async () => undefined }
  return startOwnPostgres({ settings: ['fsync=off', 'full_page_writes=off', 'autovacuum_naptime=5min'] })
}

const LAUNCHES_MAX = 3

/** Chromium has crashed at its start, about once in 150 launches on a busy machine. Launching it again helps. */
async function launchChromium(): Promise<BrowserServer> {
  for (let launch = 1; ; launch++) {
    try {
      return await chromium.launchServer(launchOptions())
    } catch (error) {
      if (launch === LAUNCHES_MAX) throw error
      console.warn(`Chromium did not start (launch ${launch} of ${LAUNCHES_MAX}): ${error}`)
    }
  }
}

function once<T>(start: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | null = null
  return () => {
    started ??= start()
    return started
  }
}

function end(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status)
  response.end(text)
}
