import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { HTTP_OPTIONS, readHttpOptions } from '../../../src/cli/commands/http-options.ts'
import { COMMANDS, type Command } from '../../../src/cli/language/commands.ts'
import { readOptions } from '../../../src/cli/language/parse.ts'
import { folder, json, ROOT, redressAlone, running } from '../command.ts'

const urlIn = (text: string): string => /server {2}(\S+)/.exec(text)?.[1] ?? ''
const linkIn = (text: string): string => /^ {2}(http\S+\/sign-in\?code=\S+)$/m.exec(text)?.[1] ?? ''
const READY = { says: 'Ctrl-C stops it' }

test('start serves HTTP and runs a worker, prints the address, and exits with 0 on SIGTERM', async () => {
  const data = folder()
  const { child, stdout, ended } = await running(['start', '--apps', 'sample', '--data', data], READY)
  const url = urlIn(stdout())
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ status: 'ready' })
  expect((await fetch(`${url}/api/jobs`)).status, 'nothing is open to a stranger').toBe(401)
  const { token } = (await json(['tokens', 'create', '--name', 'ci', '--role', 'operator', '--data', data])) as {
    token: string
  }
  const env = { REDRESS_TOKEN: token, REDRESS_SERVER: url }
  const { code, stdout: said } = await redressAlone(['submit', 'sample.convert', '{"file":"a"}', '--wait'], { env })
  expect({ code, said }).toEqual({ code: 0, said: expect.stringContaining('is complete.') })
  const events = await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${token}` } })
  expect(events.status).toBe(200)
  child.kill('SIGTERM')
  expect(await ended, 'a stream that is open does not hold it up').toBe(0)
  await expect(fetch(`${url}/healthz`)).rejects.toThrow()
})

test('the first start prints a sign-in link for the first admin, later ones do not', async () => {
  const data = folder()
  const first = await running(['start', '--apps', 'sample', '--data', data, '--no-worker'], READY)
  const link = new URL(linkIn(first.stdout()))
  const code = link.searchParams.get('code')
  const signIn = () =>
    fetch(new URL('/sign-in', link), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    })
  expect((await fetch(link)).status, 'looking does not use it up').toBe(200)
  const opened = await signIn()
  expect([opened.status, await opened.json()]).toEqual([200, { name: 'tess', role: 'admin' }])
  expect((await signIn()).status).toBe(401)
  first.child.kill('SIGTERM')
  expect(await first.ended).toBe(0)
  const second = await running(['start', '--apps', 'sample', '--data', data, '--no-worker'], READY)
  expect(linkIn(second.stdout())).toBe('')
  expect(second.stdout()).toContain('sign-in --data')
})

test('an unused first link is replaced at the next start, and --quiet prints none', async () => {
  const data = folder()
  const quiet = await running(['start', '--apps', 'sample', '--quiet', '--data', data], { says: '' })
  await until('it works', async () =>
    (await redressAlone(['workers', '--data', data])).stdout.includes('sample.convert'),
  )
  quiet.child.kill('SIGTERM')
  expect([await quiet.ended, quiet.stdout()]).toEqual([0, ''])
  expect(await json(['tokens', '--kind', 'link', '--data', data])).toEqual([])
  for (let i = 1; i <= 2; i++) {
    const { child, stdout, ended } = await running(['start', '--apps', 'sample', '--json', '--data', data], {
      says: '"worker":',
    })
    expect(JSON.parse(stdout())).toMatchObject({ signIn: expect.stringContaining('/sign-in?code=rdrl_') })
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  }
})

test('--no-auth gives everyone on this machine access, and is refused for other addresses', async () => {
  const data = folder()
  const { stdout } = await running(['start', '--apps', 'sample', '--no-auth', '--no-worker', '--data', data], READY)
  expect(stdout()).toContain('(no sign-in: open to everyone on this machine)')
  expect(linkIn(stdout())).toBe('')
  expect(await json(['jobs', '--server', urlIn(stdout())])).toEqual([])
  const { code, stderr } = await redressAlone([
    'start',
    '--apps',
    'sample',
    '--no-auth',
    '--host',
    '0.0.0.0',
    '--data',
    data,
  ])
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('must not listen on 0.0.0.0') })
})

test('--public-url and --allowed-host name the hosts that the server answers to', async () => {
  const words = [
    'start',
    '--apps',
    'sample',
    '--no-worker',
    '--public-url',
    'https://jobs.example.org',
    '--allowed-host',
    'a.test,b.test',
  ]
  const { stdout } = await running([...words, '--data', folder()], READY)
  expect(linkIn(stdout())).toMatch(/^https:\/\/jobs\.example\.org\/sign-in\?code=/)
})

describe('partial starts', () => {
  test('--no-http runs a worker only, as `redress worker` does', async () => {
    const { stdout } = await running(['start', '--apps', 'sample', '--no-http', '--data', folder()], READY)
    expect(urlIn(stdout())).toBe('')
    expect(stdout()).toMatch(/worker {2}\S+:\d+/)
  })

  test.each([
    [['--no-http', '--no-worker'], '--no-worker and --no-http cannot be combined'],
    [['--port', '70000'], '--port must be a port from 0 to 65535'],
    [['--public-url', 'jobs.example.org'], 'is not an address such as'],
  ])('invalid options are refused before anything starts: %j', async (words, message) => {
    const { code, stderr } = await redressAlone(['start', '--apps', 'sample', ...words, '--data', folder()])
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) })
  })

  test('a port in use is an error, and nothing keeps running', async () => {
    const { stdout } = await running(['start', '--apps', 'sample', '--no-worker', '--data', folder()], READY)
    const port = new URL(urlIn(stdout())).port
    const { code, stderr } = await redressAlone(['start', '--apps', 'sample', '--data', folder()], {
      env: { REDRESS_PORT: port },
    })
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('another program has that port') })
  })
})

describe('a store that cannot be reached', () => {
  const away = ['--store', 'postgres://nobody@127.0.0.1:1/none']

  test('is retried while the server reports it', async () => {
    const { child, stderr, ended } = await running(['start', '--apps', 'sample', ...away], {
      says: 'and retrying',
    })
    expect(stderr()).toMatch(/^STORE_UNREACHABLE: /m)
    const url = /Serving on (\S+)/.exec(stderr())?.[1] ?? ''
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
    const page = await fetch(url, { headers: { accept: 'text/html' } })
    expect([page.status, page.headers.get('content-type')]).toEqual([503, expect.stringContaining('text/html')])
    expect(await redressAlone(['jobs', '--server', url])).toMatchObject({ code: 5 })
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })

  test.each([[['--no-retry']], [['--no-http']]])('exits with 5 at once with %j', async (words) => {
    const { code, stderr } = await redressAlone(['start', '--apps', 'sample', ...words, ...away])
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringMatching(/STORE_UNREACHABLE: /) })
  })

  test('a permanent error is not retried', async () => {
    const file = join(folder(), 'notes.txt')
    writeFileSync(file, 'my notes, which are longer than the header of a database would be\n'.repeat(20))
    const { code, stderr } = await redressAlone(['start', '--apps', 'sample', '--store', `sqlite:${file}`], {
      cwd: ROOT,
    })
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/STORE_NOT_REDRESS: /) })
  })
})

test('--trust-proxy takes a number of proxies or their addresses, and alone means one', () => {
  const [command] = COMMANDS.filter(({ words }) => words.join(' ') === 'start')
  const trusted = (...words: string[]) =>
    readHttpOptions(readOptions(command as Command, words, HTTP_OPTIONS).values).server?.trustProxy
  expect(trusted()).toBeUndefined()
  expect(trusted('--trust-proxy')).toBe('1')
  expect(trusted('--trust-proxy', '--no-auth')).toBe('1')
  expect(trusted('--trust-proxy', '2', '--no-auth')).toBe('2')
  expect(trusted('--trust-proxy=10.0.0.0/8,127.0.0.1')).toBe('10.0.0.0/8,127.0.0.1')
  expect(trusted('--trust-proxy', '10.0.0.0/8,127.0.0.1')).toBe('10.0.0.0/8,127.0.0.1')
})
