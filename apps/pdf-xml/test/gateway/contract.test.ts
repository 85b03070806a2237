import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/until.ts'
import { REFUSALS } from '../../src/gateway/refusals.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../src/gateway/server.ts'
import { manyLaughs } from './hostile-pdfs.ts'
import { deliveryNote, manyPages, plain } from './pdfs.ts'
import { type Answer, answerOf, descendants, GATEWAY, send } from './world.ts'

const BYTES_MAX = 400_000

let gateway: Gateway
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mappings-'))
  writeFileSync(
    join(folder, 'broken.json'),
    '{\n  "name": "broken",\n  "version": 1,\n  "title": "B",\n  "fields": 7\n}',
  )
  writeFileSync(
    join(folder, 'lines.json'),
    JSON.stringify({
      name: 'lines',
      version: 3,
      title: 'Lines',
      fields: [{ element: 'line', find: { pattern: 'A (\\w+)', group: 1 } }],
    }),
  )
  writeFileSync(join(folder, 'delivery.json'), guideBlocks('json')[0] ?? '')
  gateway = await startGateway({ parsers: 1, queueMax: 1, bytesMax: BYTES_MAX, mappingsDir: folder, faults: true })
})

afterAll(async () => {
  await gateway.stop()
  await rm(folder, { recursive: true })
})

/** What the guide shows in this language. */
function guideBlocks(language: string): string[] {
  const guide = readFileSync(join(GATEWAY, '../../../../docs/guides/systems/pdf-mappings.md'), 'utf8')
  return [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, text = '']) => text)
}

interface Health {
  status: string
  parsers: { busy: number; idle: number; waiting: number }
  mappings: string[]
  broken: { file: string; problems: { line: number }[] }[]
}

async function health(url = gateway.url): Promise<Health & { code: number }> {
  const response = await fetch(`${url}/health`)
  return { ...((await response.json()) as Health), code: response.status }
}

async function start(options: GatewayOptions): Promise<Gateway> {
  const own = await startGateway({ parsers: 1, ...options })
  onTestFinished(() => own.stop())
  return own
}

interface Sent {
  answer: Promise<Answer>
  hangUp(): void
}

/** Sends a document that takes very long, and comes back when as many are being parsed and wait. */
async function keepBusy(url: string, waiting = 0): Promise<Sent> {
  const leave = new AbortController()
  const answer = send(url, manyLaughs(), { signal: leave.signal })
  answer.catch(() => undefined)
  await until('the document is where it should be', async () => {
    const { parsers } = await health(url)
    return parsers.busy === 1 && parsers.waiting === waiting
  })
  return { answer, hangUp: () => leave.abort() }
}

describe('POST /process', () => {
  test('the gateway answers with XML and reports mapping, pages and time in headers', async () => {
    const { status, headers, text } = await send(gateway.url, plain(), { headers: { accept: 'application/xml' } })
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('application/xml; charset=utf-8')
    expect(headers.get('x-mapping')).toBe('text@1')
    expect(headers.get('x-pages')).toBe('1')
    expect(Number(headers.get('x-parse-ms'))).toBeGreaterThan(0)
    expect(text).toMatch(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<document xmlns="urn:redress:pdf-xml:1" mapping="text"/,
    )
  })

  test('the gateway refuses a missing or broken mapping with the reason and the line [D25 E7]', async () => {
    for (const mapping of ['nonsense', 'text@2', '', '../text', 'constructor']) {
      const answer = await send(gateway.url, plain(), { mapping })
      expect([answer.status, answer.code], mapping).toEqual([400, 'INVALID_MAPPING'])
    }
    const broken = await send(gateway.url, plain(), { mapping: 'broken' })
    expect(broken.code).toBe('INVALID_MAPPING')
    expect(broken.message).toMatch(/^The mapping broken is broken: broken\.json:5: fields: /)
  })

  test('takes mappings from a folder of the operator', async () => {
    const answer = await send(gateway.url, plain(), { mapping: 'lines' })
    expect(answer.headers.get('x-mapping')).toBe('lines@3')
    expect(answer.text).toContain('<field name="line" type="text" page="1">plain</field>')
  })

  test('the mapping of the guide gives the result that the guide shows', async () => {
    const { text } = await send(gateway.url, deliveryNote(), { mapping: 'delivery' })
    const record = /^ *<record>.*<\/record>$/ms.exec(text)?.[0].replaceAll(/^ {2}/gm, '')
    expect(`${record}\n`).toBe(guideBlocks('xml')[0])
  })

  test('the refusals that the guide lists are those that there are', () => {
    const guide = readFileSync(join(GATEWAY, '../../../../docs/guides/systems/pdf-mappings.md'), 'utf8')
    const rows = guide.slice(guide.indexOf('| code | status |')).matchAll(/^\| (`.*?) \|/gm)
    const listed = [...rows].flatMap(([, codes = '']) => codes.replaceAll('`', '').split(', '))
    const others = ['REQUEST_INVALID', 'NOT_FOUND', 'FAULT']
    expect([...listed, ...others].sort()).toEqual(Object.keys(REFUSALS).sort())
  })

  test('the gateway answers 415 without a PDF content type and 406 when XML is not accepted [D7]', async () => {
    const type = await send(gateway.url, plain(), { headers: { 'content-type': 'text/plain' } })
    expect([type.status, type.code]).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE'])
    for (const accept of ['application/json', 'text/*', 'application/xml;q=0, */*']) {
      const answer = await send(gateway.url, plain(), { headers: { accept } })
      expect([answer.status, answer.code], accept).toEqual([406, 'NOT_ACCEPTABLE'])
    }
    for (const accept of ['*/*', 'application/*', 'text/html, application/xml;q=0.1']) {
      expect((await send(gateway.url, plain(), { headers: { accept } })).status, accept).toBe(200)
    }
  })

  test('the gateway answers 413 at the first byte over its limit [D7 D36]', async () => {
    const exact = Buffer.concat([plain(), Buffer.alloc(BYTES_MAX - plain().length, ' ')])
    expect((await send(gateway.url, exact)).status).toBe(200)
    const announced = await send(gateway.url, Buffer.concat([exact, Buffer.from(' ')]))
    expect([announced.status, announced.code]).toEqual([413, 'TOO_LARGE'])
    const { status, sent } = await sendEndlessly(gateway.url)
    expect(status).toBe(413)
    // It was refused on the way: the sockets between hold some of it, but the end was never waited for.
    expect(sent).toBeLessThan(100 * BYTES_MAX)
  })

  test('an unknown path is answered 404 in the format of all refusals', async () => {
    const answer = await answerOf(await fetch(`${gateway.url}/nowhere`))
    expect([answer.status, answer.code]).toEqual([404, 'NOT_FOUND'])
  })
})

describe('limits', () => {
  test('the gateway gives up a document that takes too long and reads the next one [D7 E7]', async () => {
    const own = await start({ parseMs: 500 })
    const answer = await send(own.url, manyLaughs())
    expect([answer.status, answer.code]).toEqual([504, 'PARSE_TIMEOUT'])
    expect((await send(own.url, plain())).status).toBe(200)
  })

  test('a document that grows too large as XML is refused', async () => {
    const own = await start({ xmlBytesMax: 5_000, pagesMax: 60 })
    expect((await send(own.url, manyPages(50))).code).toBe('RESULT_TOO_LARGE')
    expect((await send(own.url, manyPages(61))).code).toBe('TOO_MANY_PAGES')
    expect((await send(own.url, plain())).status).toBe(200)
  })

  test('a client that hangs up frees its parser at once, and one that waits its place', async () => {
    const first = await keepBusy(gateway.url)
    const second = await keepBusy(gateway.url, 1)
    second.hangUp()
    await until('no document waits', async () => (await health()).parsers.waiting === 0)
    first.hangUp()
    await until('the parser is free', async () => (await health()).parsers.busy === 0)
    expect((await send(gateway.url, plain())).status).toBe(200)
  })

  test('a full gateway answers 503 with Retry-After [E7]', async () => {
    const busy = [await keepBusy(gateway.url), await keepBusy(gateway.url, 1)]
    const answer = await send(gateway.url, plain())
    expect([answer.status, answer.code]).toEqual([503, 'SATURATED'])
    expect(answer.headers.get('retry-after')).toBe('2')
    expect(await health()).toMatchObject({ code: 503, status: 'saturated', parsers: { busy: 1, idle: 0, waiting: 1 } })
    for (const { hangUp } of busy) hangUp()
    await until('it is not full any more', async () => (await health()).code === 200)
    expect((await send(gateway.url, plain())).status).toBe(200)
  })

  test('a caller that asks for notices hears that its document waits and when its parsing begins; another hears nothing', async () => {
    const busy = await keepBusy(gateway.url)
    const heard = (headers: Record<string, string>) => {
      const states: string[] = []
      const sent = request(`${gateway.url}/process?mapping=text`, {
        method: 'POST',
        headers: { 'content-type': 'application/pdf', ...headers },
      })
      const answer = new Promise<string | undefined>((resolve, reject) => {
        sent.on('information', ({ statusCode, headers }) => {
          states.push(`${statusCode} ${headers['x-gateway-state']} of ${headers['x-gateway-parsers']}`)
        })
        sent.once('response', (response) => {
          response.resume()
          resolve(response.headers['x-gateway-parsers'] as string | undefined)
        })
        sent.once('error', reject)
      })
      sent.end(plain())
      return { states, answer }
    }
    const asking = heard({ 'x-gateway-notices': '1' })
    await until('it is told that it waits', async () => asking.states.length > 0)
    busy.hangUp()
    expect(await asking.answer).toBe('1')
    expect(asking.states[0]).toBe('102 waiting of 1')
    expect(asking.states.at(-1)).toBe('102 parsing of 1')
    const other = heard({})
    expect(await other.answer).toBe('1')
    expect(other.states).toEqual([])
  })

  test('a parser process that dies fails only its own document [E7]', async () => {
    const before = new Set(descendants(process.pid))
    const own = await start({})
    const { answer } = await keepBusy(own.url)
    const [parser = 0] = descendants(process.pid).filter((pid) => !before.has(pid))
    const waiting = send(own.url, plain())
    await until('the next one waits', async () => (await health(own.url)).parsers.waiting === 1)
    process.kill(parser, 'SIGKILL')
    expect(await answer).toMatchObject({ status: 500, code: 'PARSER_DIED' })
    expect((await waiting).status).toBe(200)
  })
})

describe('a parser', () => {
  test('has no environment, and may read nothing but its code and the folder of its one document', async () => {
    const before = new Set(descendants(process.pid))
    await start({})
    const [parser = 0] = descendants(process.pid).filter((pid) => !before.has(pid))
    const environment = readFileSync(`/proc/${parser}/environ`, 'utf8').split('\0')
    expect(environment.filter((entry) => entry !== '' && !entry.startsWith('NODE_CHANNEL_'))).toEqual([])
    const flags = readFileSync(`/proc/${parser}/cmdline`, 'utf8').split('\0')
    expect(flags).toContain('--permission')
    const written = flags.filter((flag) => flag.startsWith('--allow-fs-write='))
    expect(written).toEqual([expect.stringMatching(/redress-gateway-\d+-\w+\/parser-1$/)])
    const read = flags.filter((flag) => flag.startsWith('--allow-fs-read=')).map((flag) => flag.split('=')[1] ?? '')
    expect(read).toContain(GATEWAY)
    expect(read.filter((path) => !/\/package\.json$|\/pdfjs-dist$|\/parser-1$/.test(path))).toEqual([GATEWAY])
    expect(flags.filter((flag) => /--allow-(child|worker|addons|net|wasi)/.test(flag))).toEqual([])
  })
})

describe('stopping', () => {
  test('a stopping gateway finishes running documents, refuses waiting ones and leaves nothing behind', async () => {
    const own = await startGateway({ parsers: 1, stopGraceMs: 60_000 })
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith(`redress-gateway-${process.pid}-`))
    const before = folders().length
    const long = send(own.url, manyPages(400))
    await until('it is being parsed', async () => (await health(own.url)).parsers.busy === 1)
    const waiting = send(own.url, plain())
    await until('the other one waits', async () => (await health(own.url)).parsers.waiting === 1)
    const stopped = own.stop()
    expect(await waiting).toMatchObject({ status: 503, code: 'STOPPING' })
    expect((await long).status).toBe(200)
    await stopped
    expect(folders().length).toBe(before - 1)
  })

  test('a document that exceeds the grace period is aborted, and its client gets an answer', async () => {
    const own = await startGateway({ parsers: 1, stopGraceMs: 0 })
    const { answer } = await keepBusy(own.url)
    await own.stop()
    expect(await answer).toMatchObject({ status: 503, code: 'STOPPING' })
    await expect(fetch(`${own.url}/health`)).rejects.toThrow()
  })
})

describe('the health of the gateway', () => {
  test('GET /health and GET /mappings list the mappings, and those that are broken', async () => {
    const { code, status, mappings, broken, parsers } = await health()
    expect({ code, status, mappings, parsers }).toEqual({
      code: 200,
      status: 'ok',
      mappings: ['text@1', 'layout@1', 'invoice@1', 'delivery@1', 'lines@3'],
      parsers: { busy: 0, idle: 1, waiting: 0 },
    })
    expect(broken).toMatchObject([{ file: 'broken.json', problems: [{ line: 5 }] }])
    const listed = (await (await fetch(`${gateway.url}/mappings`)).json()) as { mappings: object[] }
    expect(listed.mappings).toContainEqual({
      name: 'invoice',
      version: 1,
      title: 'Invoice',
      description: 'Number, dates, parties, total and items of a plain invoice in English.',
    })
  })

  test('the schemas that ship are served', async () => {
    const xsd = await fetch(`${gateway.url}/schema/pdf-xml-1.xsd`)
    expect(xsd.headers.get('content-type')).toBe('application/xml; charset=utf-8')
    expect(await xsd.text()).toContain('targetNamespace="urn:redress:pdf-xml:1"')
    const json = await fetch(`${gateway.url}/schema/mapping-1.json`)
    const shipped = readFileSync(join(GATEWAY, 'schema/mapping-1.json'), 'utf8')
    expect(await json.json()).toEqual(JSON.parse(shipped))
  })
})

describe('faults that were asked for', () => {
  const ask = (fault: object) => fetch(`${gateway.url}/faults`, json('POST', fault))
  const json = (method: string, body: object) => ({
    method,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  })
  const statuses = async (count: number) => {
    const found: number[] = []
    for (let i = 0; i < count; i++) found.push((await send(gateway.url, plain())).status)
    return found
  }
  afterEach(async () => {
    await fetch(`${gateway.url}/faults`, { method: 'DELETE' })
  })

  test('a status is returned as many times as requested', async () => {
    expect((await ask({ status: 502, count: 2 })).status).toBe(201)
    expect(await statuses(3)).toEqual([502, 502, 200])
  })

  test('a share of the requests, by counting', async () => {
    await ask({ status: 503, share: 0.5 })
    expect(await statuses(4)).toEqual([200, 503, 200, 503])
    expect(await (await fetch(`${gateway.url}/faults`)).json()).toMatchObject({ seen: 4, struck: 2 })
    expect((await fetch(`${gateway.url}/faults`, { method: 'DELETE' })).status).toBe(204)
    expect(await statuses(1)).toEqual([200])
  })

  test('a fault drill drops connections before and during the answer [D7]', async () => {
    await ask({ drop: 'before', count: 1 })
    await expect(send(gateway.url, plain())).rejects.toThrow('fetch failed')
    await ask({ drop: 'during', count: 1 })
    await expect(send(gateway.url, plain())).rejects.toThrow('terminated')
    expect(await statuses(1)).toEqual([200])
  })

  test('an answer that comes late, and a fault that passes', async () => {
    await ask({ delayMs: 30, count: 1 })
    const startedMs = performance.now()
    expect(await statuses(1)).toEqual([200])
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(29)
    await ask({ status: 500, forMs: 50 })
    await until('the fault has passed', async () => (await send(gateway.url, plain())).status === 200)
  })

  test('a document that its parser is held up with keeps the others waiting', async () => {
    await ask({ delayMs: 600_000, at: 'parsing', count: 1 })
    const leave = new AbortController()
    const held = send(gateway.url, plain(), { signal: leave.signal }).catch((error: Error) => error.name)
    await until('it has the parser', async () => (await health()).parsers.busy === 1)
    const next = send(gateway.url, plain())
    await until('the next one waits', async () => (await health()).parsers.waiting === 1)
    leave.abort()
    expect(await held).toBe('AbortError')
    expect((await next).status).toBe(200)
  })

  test('clients that hang up before their document was looked at leave no place taken', async () => {
    await ask({ delayMs: 600_000 })
    for (let i = 0; i < 3; i++) {
      const leave = new AbortController()
      const sent = send(gateway.url, plain(), { signal: leave.signal }).catch((error: Error) => error.name)
      await until('it was met by the fault', async () => {
        const { struck } = (await (await fetch(`${gateway.url}/faults`)).json()) as { struck: number }
        return struck === i + 1
      })
      leave.abort()
      expect(await sent).toBe('AbortError')
    }
    await fetch(`${gateway.url}/faults`, { method: 'DELETE' })
    await until('no document waits', async () => (await health()).parsers.waiting === 0)
    expect(await statuses(1)).toEqual([200])
  })

  test('answers that come late over one connection leave nothing behind on it', async () => {
    const warnings: string[] = []
    const keep = ({ name }: Error) => void warnings.push(name)
    process.on('warning', keep)
    onTestFinished(() => void process.off('warning', keep))
    await ask({ delayMs: 1, health: true })
    for (let i = 0; i < 12; i++) await (await fetch(`${gateway.url}/health`)).text()
    expect(warnings).not.toContain('MaxListenersExceededWarning')
  })

  test("the gateway's health check fails only when a fault drill asks for it [D21 E12]", async () => {
    await ask({ status: 500, count: 1 })
    expect((await fetch(`${gateway.url}/health`)).status).toBe(200)
    await ask({ status: 500, count: 1, health: true })
    expect((await fetch(`${gateway.url}/health`)).status).toBe(500)
  })

  test('an invalid fault is refused with a reason', async () => {
    const wrong: [object, string][] = [
      [{}, 'Name a fault'],
      [{ status: 200 }, 'status: '],
      [{ status: 500, drop: 'before' }, 'give one of them'],
      [{ status: 500, at: 'parsing' }, 'give delayMs alone'],
      [{ stauts: 500 }, 'stauts'],
      [{ status: 500, share: 2 }, 'share: '],
    ]
    for (const [fault, reason] of wrong) {
      const answer = await answerOf(await ask(fault))
      expect([answer.status, answer.code]).toEqual([400, 'REQUEST_INVALID'])
      expect(answer.message).toContain(reason)
    }
  })

  test('without --faults the fault routes do not exist', async () => {
    const own = await start({})
    const answer = await answerOf(await fetch(`${own.url}/faults`, json('POST', { status: 500 })))
    expect([answer.status, answer.code]).toEqual([404, 'NOT_FOUND'])
  })
})

/** A body that never ends; what was sent of it until the answer came. */
function sendEndlessly(url: string): Promise<{ status: number; sent: number }> {
  return new Promise((resolve, reject) => {
    let sent = 0
    const chunk = Buffer.alloc(64 * 1024)
    const outgoing = request(`${url}/process?mapping=text`, {
      method: 'POST',
      headers: { 'content-type': 'application/pdf' },
    })
    const push = () => {
      sent += chunk.length
      if (!outgoing.destroyed) outgoing.write(chunk, push)
    }
    outgoing.on('response', ({ statusCode = 0 }) => {
      resolve({ status: statusCode, sent })
      outgoing.destroy()
    })
    outgoing.on('error', reject)
    push()
  })
}
