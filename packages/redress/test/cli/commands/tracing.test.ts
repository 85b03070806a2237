import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { otlpReceiver } from '../../../../../test/support/servers/otlp.ts'
import { until } from '../../../../../test/support/until.ts'
import { folder, json, ROOT, running } from '../command.ts'

function appModule(text: string): string {
  const file = join(folder(), 'app.ts')
  writeFileSync(file, `import { redress } from ${JSON.stringify(join(ROOT, 'packages/redress/src/index.ts'))}\n${text}`)
  return file
}

/** Somebody whom a handler calls: remembers how it was asked. */
async function dependency(): Promise<{ url: string; traceparents: (string | undefined)[] }> {
  const traceparents: (string | undefined)[] = []
  const server = createServer((request, response) => {
    traceparents.push(request.headers.traceparent as string | undefined)
    response.end('well')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, traceparents }
}

const shown = async (data: string, id: string) =>
  (await json(['jobs', 'show', id, '--data', data])) as { status: string }

test('one trace spans a submission, its attempts in other processes and their outgoing calls [E24]', async () => {
  const data = folder()
  const { url, spans, paths } = await otlpReceiver()
  const called = await dependency()
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: url }
  const ships = appModule(`
    const app = redress()
    app.job('ship', { queue: 'parcels', run: async () => { await (await fetch('${called.url}/label?key=secret')).text() } })
    export default app
  `)
  const orders = appModule(`
    const app = redress()
    app.job('order', { run: async () => ({ shipment: (await app.submit('ship', {})).id }) })
    export default app
  `)
  const says = 'Ctrl-C stops it'
  const shipping = await running(['worker', ships, '--data', data], {
    says,
    env: { ...env, OTEL_SERVICE_NAME: 'ships' },
  })
  const ordering = await running(['worker', orders, '--data', data], { says, env })
  const { job } = (await json(['submit', 'order', '{}', '--data', data])) as { job: { id: string } }
  await until('the order is through', async () => (await shown(data, job.id)).status === 'complete')
  await until('the shipment has called', () => called.traceparents.length > 0)
  for (const { child, ended } of [ordering, shipping]) {
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  }
  expect(new Set(paths)).toEqual(new Set(['POST /v1/traces']))

  const named = (name: string) => {
    const found = spans.find((span) => span.name === name)
    if (found === undefined) throw new Error(`no span ${name} among ${spans.map((span) => span.name).join(', ')}`)
    return found
  }
  const order = named('redress.attempt order')
  const submit = named('redress.submit ship')
  const ship = named('redress.attempt ship')
  const call = named('GET')
  expect([order, submit, ship, call].map(({ service }) => service)).toEqual(['redress', 'redress', 'ships', 'ships'])
  expect([submit, ship, call].map(({ traceId }) => traceId)).toEqual(
    [order, order, order].map(({ traceId }) => traceId),
  )
  expect([submit, ship, call].map(({ parentSpanId }) => parentSpanId)).toEqual(
    [order, submit, ship].map(({ spanId }) => spanId),
  )
  expect(order.attributes).toMatchObject({ 'redress.job.id': job.id, 'redress.outcome': 'complete' })
  expect(ship.attributes).toMatchObject({ 'redress.queue': 'parcels', 'redress.attempt': 1 })
  // Whom it called can go on from there.
  expect(called.traceparents).toEqual([`00-${call.traceId}-${call.spanId}-01`])
  // A query may hold a secret.
  expect(JSON.stringify(spans)).not.toContain('secret')
})

test('a missing trace collector neither fails jobs nor delays the exit', async () => {
  const data = folder()
  const env = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:9/v1/traces' }
  const app = appModule(`const app = redress()\napp.job('plain', { run: () => 1 })\nexport default app`)
  const { child, ended } = await running(['worker', app, '--data', data], { says: 'Ctrl-C stops it', env })
  const { job } = (await json(['submit', 'plain', '{}', '--data', data])) as { job: { id: string } }
  await until('it is done', async () => (await shown(data, job.id)).status === 'complete')
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('an unknown sampler is refused at the start', async () => {
  const app = appModule('export default redress()')
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_TRACES_SAMPLER: 'sometimes' }
  const { ended } = await running(['worker', app, '--data', folder()], { says: 'OTEL_TRACES_SAMPLER has no', env })
  expect(await ended).toBe(2)
})
