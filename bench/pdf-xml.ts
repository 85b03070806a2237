import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { PDFDocument, StandardFonts } from '@cantoo/pdf-lib'

/**
 * How long a PDF takes from the first byte of its upload to the last byte of its XML: server, store, worker and gateway
 * as `redress start --apps pdf-xml` runs them, beside poppler's pdftotext on the same file where that is installed.
 */
const { values } = parseArgs({
  options: {
    pages: { type: 'string', default: '100' },
    documents: { type: 'string', default: '20' },
    mapping: { type: 'string', default: 'layout' },
  },
})
const [pages, documents] = [Number(values.pages), Number(values.documents)]
const folder = mkdtempSync(join(tmpdir(), 'redress-pdf-bench-'))

const WORDS =
  'the invoice of a supplier lists what was delivered when by whom and for how much money in which currency'.split(' ')

/** About 450 words a page; each document has bytes of its own, so that none is taken for another's twin. */
async function makePdf(number: number): Promise<Uint8Array> {
  const document = await PDFDocument.create()
  const font = await document.embedFont(StandardFonts.Helvetica)
  document.setTitle(`Document ${number}`)
  for (let page = 0; page < pages; page++) {
    const sheet = document.addPage()
    for (let line = 0; line < 45; line++) {
      const text = Array.from({ length: 10 }, (_, i) => WORDS[(page + line * 3 + i * 7) % WORDS.length]).join(' ')
      sheet.drawText(text, { x: 50, y: 780 - line * 16, size: 11, font })
    }
  }
  return document.save()
}

async function startServer(): Promise<{ child: ChildProcess; url: string }> {
  const words = ['start', '--apps', 'pdf-xml', '--data', folder, '--port', '0', '--json', '--log-level', 'error']
  const child = spawn(join(import.meta.dirname, '../packages/redress/bin/redress'), words, {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line')
  return { child, url: (JSON.parse(line as string) as { url: string }).url }
}

let cookie = ''

async function ask(url: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(url, { ...init, headers: { origin: new URL(url).origin, ...(cookie && { cookie }) } })
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`)
  cookie ||= answer.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  return answer
}

interface Timed {
  totalMs: number
  parseMs: number
  xmlBytes: number
}

async function convert(url: string, pdf: Uint8Array): Promise<Timed> {
  const beganMs = performance.now()
  const form = new FormData()
  form.append('file', new Blob([pdf as never]), 'document.pdf')
  form.append('mapping', values.mapping)
  let job = (await (await ask(`${url}/api/upload`, { method: 'POST', body: form })).json()) as Job
  while (job.status !== 'complete') {
    if (job.status === 'failed') throw new Error(`${job.errorCode}: ${job.errorMessage}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
    job = (await (await ask(`${url}/api/jobs/${job.id}`)).json()) as Job
  }
  const xml = await (await ask(`${url}/api/jobs/${job.id}/download`)).arrayBuffer()
  return { totalMs: performance.now() - beganMs, parseMs: job.result?.parseMs ?? 0, xmlBytes: xml.byteLength }
}

interface Job {
  id: string
  status: string
  errorCode: string | null
  errorMessage: string | null
  result: { parseMs: number } | null
}

const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0
const ms = (value: number): string => `${Math.round(value)} ms`

/** null where it is not installed. */
function popplerMs(file: string): number | null {
  const times: number[] = []
  try {
    for (let i = 0; i < 5; i++) {
      const beganMs = performance.now()
      execFileSync('pdftotext', ['-bbox-layout', file, '/dev/null'], { stdio: 'ignore' })
      times.push(performance.now() - beganMs)
    }
  } catch {
    return null
  }
  return quantile(
    times.toSorted((a, b) => a - b),
    0.5,
  )
}

const { child, url } = await startServer()
try {
  const pdfs = await Promise.all(Array.from({ length: documents + 3 }, (_, number) => makePdf(number)))
  const [first, second, third, ...rest] = pdfs as [Uint8Array, Uint8Array, Uint8Array, ...Uint8Array[]]
  writeFileSync(join(folder, 'one.pdf'), first)
  // The first one is given a session; both parsers are warm from here on.
  await convert(url, first)
  await Promise.all([convert(url, second), convert(url, third)])
  const alone: Timed[] = []
  for (const pdf of rest.slice(0, Math.ceil(documents / 2))) alone.push(await convert(url, pdf))
  const beganMs = performance.now()
  const together = await Promise.all(rest.slice(Math.ceil(documents / 2)).map((pdf) => convert(url, pdf)))
  const togetherS = (performance.now() - beganMs) / 1000
  const totals = alone.map(({ totalMs }) => totalMs).toSorted((a, b) => a - b)
  const outside = alone.map(({ totalMs, parseMs }) => (totalMs - parseMs) / totalMs).toSorted((a, b) => a - b)
  const parsed = alone.map(({ parseMs }) => parseMs).toSorted((a, b) => a - b)
  console.log(`${pages} pages, mapping ${values.mapping}, ${alone[0]?.xmlBytes} bytes of XML`)
  console.log(`one after another: p50 ${ms(quantile(totals, 0.5))}, p95 ${ms(quantile(totals, 0.95))}`)
  console.log(
    `  in the parser p50 ${ms(quantile(parsed, 0.5))}; outside it ${Math.round(quantile(outside, 0.5) * 100)} % of the time`,
  )
  const rate = together.length / togetherS
  console.log(`${together.length} at once: ${rate.toFixed(2)} documents/s, ${Math.round(rate * pages)} pages/s`)
  const poppler = popplerMs(join(folder, 'one.pdf'))
  console.log(poppler === null ? 'pdftotext is not installed' : `pdftotext -bbox-layout: ${ms(poppler)}`)
} finally {
  child.kill('SIGTERM')
  await once(child, 'exit')
  rmSync(folder, { recursive: true, force: true })
}
